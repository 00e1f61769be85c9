#include "workloads/compiler/passes/expand/convolution_arrays.h"

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

/// All dimensions: `from` next to `into`, `minor` last (-1: none).
Extents neighbours(std::size_t rank, std::int64_t from, std::int64_t into, bool as_major,
                   std::int64_t minor) {
  Extents order;
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(rank); ++d) {
    if (d != from && d != into && d != minor) order.push_back(d);
  }
  order.push_back(as_major ? from : into);
  order.push_back(as_major ? into : from);
  if (minor >= 0) order.push_back(minor);
  return order;
}

/// The order of what is left when `from` has gone into `into`: numbers without `from`.
Extents merged_order(const Extents& order, std::int64_t from) {
  Extents merged;
  for (std::int64_t d : order) {
    if (d != from) merged.push_back(d > from ? d - 1 : d);
  }
  return merged;
}

}  // namespace

void make_room(ConvolutionDimensions& dims, const ArrayRoles& roles, std::int64_t place) {
  for_each_dimension(dims, roles, [place](std::int64_t& d) { d += d >= place ? 1 : 0; });
}

void insert_dimension(ConvolutionDimensions& dims, const ArrayRoles& roles, std::int64_t place,
                      std::size_t index) {
  make_room(dims, roles, place);
  Extents& spatial = dims.*roles.spatial;
  spatial.insert(spatial.begin() + static_cast<std::ptrdiff_t>(index), place);
}

void remove_spatial_dimension(HloInstruction& convolution, std::size_t index) {
  const auto at = static_cast<std::ptrdiff_t>(index);
  ConvolutionDimensions& dims = convolution.convolution.edit();
  for (const ArrayRoles& roles : {kInputRoles, kWindowRoles, kOutputRoles}) {
    Extents& spatial = dims.*roles.spatial;
    const std::int64_t place = spatial[index];
    spatial.erase(spatial.begin() + at);
    for_each_dimension(dims, roles, [place](std::int64_t& d) { d -= d > place ? 1 : 0; });
  }
  convolution.window.erase(convolution.window.begin() + at);
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

Id merge_dimension(GraphEditor& edit, Id value, std::int64_t from, std::int64_t into, bool as_major,
                   std::int64_t minor) {
  Extents extents = edit.dimensions(value);
  const Extents order = neighbours(extents.size(), from, into, as_major, minor);
  extents[static_cast<std::size_t>(into)] *= extents[static_cast<std::size_t>(from)];
  extents.erase(extents.begin() + from);
  const Extents merged = merged_order(order, from);
  const Id joined = edit.reshape(edit.transpose(value, order), extents_at(extents, merged));
  return edit.transpose(joined, inverse(merged));
}

Id split_dimension(GraphEditor& edit, Id value, const Extents& extents, std::int64_t from,
                   std::int64_t into, bool as_major, std::int64_t minor) {
  const Extents order = neighbours(extents.size(), from, into, as_major, minor);
  const Id joined = edit.transpose(value, merged_order(order, from));
  return edit.transpose(edit.reshape(joined, extents_at(extents, order)), inverse(order));
}

}  // namespace tpu::compiler
