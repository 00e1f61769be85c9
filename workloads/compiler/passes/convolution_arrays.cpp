#include "workloads/compiler/passes/convolution_arrays.h"

#include <algorithm>

namespace tpu::compiler {

using hlo::ConvolutionDimensions;
using Extents = GraphEditor::Extents;
using Id = GraphEditor::Id;

namespace {

/// Calls a function for each dimension of the array.
template <typename Change>
void for_each_dimension(ConvolutionDimensions& dims, const ArrayRoles& roles,
                        const Change& change) {
  change(dims.*roles.rows);
  change(dims.*roles.columns);
  for (std::int64_t& d : dims.*roles.spatial) change(d);
}

/// All dimensions, with `from` next to `into`.
Extents neighbours(std::size_t rank, std::int64_t from, std::int64_t into, bool as_major) {
  Extents order;
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(rank); ++d) {
    if (d == from) continue;
    if (d == into && as_major) order.push_back(from);
    order.push_back(d);
    if (d == into && !as_major) order.push_back(from);
  }
  return order;
}

}  // namespace

void insert_dimension(ConvolutionDimensions& dims, const ArrayRoles& roles, std::int64_t place,
                      std::size_t index) {
  for_each_dimension(dims, roles, [place](std::int64_t& d) { d += d >= place ? 1 : 0; });
  Extents& spatial = dims.*roles.spatial;
  spatial.insert(spatial.begin() + static_cast<std::ptrdiff_t>(index), place);
}

void remove_spatial(ConvolutionDimensions& dims, const ArrayRoles& roles, std::size_t index) {
  Extents& spatial = dims.*roles.spatial;
  const std::int64_t place = spatial[index];
  spatial.erase(spatial.begin() + static_cast<std::ptrdiff_t>(index));
  for_each_dimension(dims, roles, [place](std::int64_t& d) { d -= d > place ? 1 : 0; });
}

Extents extents_at(const Extents& extents, const Extents& places) {
  Extents result;
  for (std::int64_t place : places) result.push_back(extents[static_cast<std::size_t>(place)]);
  return result;
}

Extents inverse(const Extents& permutation) {
  Extents result(permutation.size());
  for (std::size_t i = 0; i < permutation.size(); ++i) {
    result[static_cast<std::size_t>(permutation[i])] = static_cast<std::int64_t>(i);
  }
  return result;
}

Id merge_dimension(GraphEditor& edit, Id value, std::int64_t from, std::int64_t into,
                   bool as_major) {
  Extents extents = edit.dimensions(value);
  const Extents order = neighbours(extents.size(), from, into, as_major);
  const std::int64_t inner = extents[static_cast<std::size_t>(from)];
  extents[static_cast<std::size_t>(into)] *= inner;
  extents.erase(extents.begin() + from);
  return edit.reshape(edit.transpose(value, order), extents);
}

Id split_dimension(GraphEditor& edit, Id value, const Extents& extents, std::int64_t from,
                   std::int64_t into, bool as_major) {
  const Extents order = neighbours(extents.size(), from, into, as_major);
  return edit.transpose(edit.reshape(value, extents_at(extents, order)), inverse(order));
}

}  // namespace tpu::compiler
