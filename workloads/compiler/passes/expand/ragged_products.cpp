#include "workloads/compiler/passes/expand/ragged_products.h"

#include <algorithm>

#include "sim/base/contains.h"
#include "workloads/compiler/ir/dimension_order.h"
#include "workloads/compiler/passes/graph_editor.h"

namespace tpu::compiler {

using hlo::ComparisonDirection;
using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;

namespace {

using Id = GraphEditor::Id;
using Extents = GraphEditor::Extents;

class RaggedProduct {
 public:
  RaggedProduct(GraphEditor& edit, const HloInstruction& given)
      : edit_(edit),
        given_(given),
        dims_(given.dot),
        ragged_(dims_.lhs_ragged.at(0)),
        groups_(edit.dimensions(given.operands[2]).back()) {}

  Id product() {
    const Id left = given_.operands[0], right = given_.operands[1];
    if (contains(dims_.lhs_batch, ragged_)) return dot(left, right, dims_);
    find_ends();
    if (contains(dims_.lhs_contracting, ragged_)) return product_of_each(left, right);
    // Rows meet the right sides of all groups, beside each other: zeros but for their own.
    const std::int64_t place =
        *std::min_element(dims_.lhs_contracting.begin(), dims_.lhs_contracting.end());
    const auto behind = [&](Extents list) {
      for (std::int64_t& d : list) d += d >= place ? 1 : 0;
      return list;
    };
    Extents left_depth = behind(dims_.lhs_contracting), right_depth = dims_.rhs_contracting;
    left_depth.insert(left_depth.begin(), place);
    right_depth.insert(right_depth.begin(), dims_.rhs_group.at(0));
    return dot(masked(left, ragged_, prefix(), place), right,
               {behind(dims_.lhs_batch), dims_.rhs_batch, left_depth, right_depth});
  }

 private:
  void find_ends();
  Extents prefix() const;
  Id masked(Id array, std::int64_t ragged, const Extents& prefix, std::int64_t place);
  Id product_of_each(Id left, Id right);
  Id dot(Id left, Id right, const hlo::DotDimensions& dims);

  GraphEditor& edit_;
  const HloInstruction given_;
  const hlo::DotDimensions dims_;
  const std::int64_t ragged_, groups_;
  Id begins_ = -1, ends_ = -1;  ///< Of each group along the ragged dimension.
};

Id RaggedProduct::dot(Id left, Id right, const hlo::DotDimensions& dims) {
  HloInstruction made = edit_.start(HloOpcode::kDot, {left, right}, given_.shape);
  made.dot = hlo::DotDimensions{dims.lhs_batch, dims.rhs_batch, dims.lhs_contracting,
                                dims.rhs_contracting};
  made.raw_attributes = given_.raw_attributes;
  return edit_.append_instruction(std::move(made));
}

/// The sizes' sums up to each group, and without it.
void RaggedProduct::find_ends() {
  const Id sizes = edit_.convert(given_.operands[2], ElementType::kS32);
  const Extents extents = edit_.dimensions(sizes);
  const auto rank = static_cast<std::int64_t>(extents.size());
  Extents box = extents, places(extents.size());
  box.push_back(groups_);
  for (std::size_t d = 0; d < places.size(); ++d) places[d] = static_cast<std::int64_t>(d);
  const Id counts =
      edit_.compare(edit_.iota(ElementType::kS32, box, rank - 1),
                    edit_.iota(ElementType::kS32, box, rank), ComparisonDirection::kLe);
  const Id terms = edit_.select(counts, edit_.broadcast(sizes, box, places),
                                edit_.splat(ElementType::kS32, box, 0));
  ends_ = edit_.reduce(terms, HloOpcode::kAdd, {rank - 1}, 0);
  begins_ = edit_.binary(HloOpcode::kSubtract, ends_, sizes);
}

/// Dimensions of the left side for each of which the sizes are other ones: batches, and what
/// stands before the ragged dimension among those of its kind.
Extents RaggedProduct::prefix() const {
  if (edit_.dimensions(given_.operands[2]).size() == 1) return {};
  Extents list = dims_.lhs_batch;
  if (contains(dims_.lhs_contracting, ragged_)) {
    for (const std::int64_t d : dims_.lhs_contracting) {
      if (d == ragged_) break;
      list.push_back(d);
    }
    return list;
  }
  for (std::int64_t d = 0; d < ragged_; ++d) {
    if (contains(dims_.lhs_batch, d) || contains(dims_.lhs_contracting, d)) continue;
    list.push_back(d);
  }
  return list;
}

/// The array with a dimension of groups at `place`: zeros where the ragged dimension lies outside
/// of the group.
Id RaggedProduct::masked(Id array, std::int64_t ragged, const Extents& prefix, std::int64_t place) {
  Extents box = edit_.dimensions(array), own, of_sizes;
  box.insert(box.begin() + static_cast<std::ptrdiff_t>(place), groups_);
  const auto moved = [place](std::int64_t d) { return d + (d >= place ? 1 : 0); };
  for (std::int64_t d = 0; d + 1 < static_cast<std::int64_t>(box.size()); ++d) {
    own.push_back(moved(d));
  }
  for (const std::int64_t d : prefix) of_sizes.push_back(moved(d));
  of_sizes.push_back(place);
  const Id at = edit_.iota(ElementType::kS32, box, moved(ragged));
  const Id is_inside = edit_.binary(
      HloOpcode::kAnd,
      edit_.compare(at, edit_.broadcast(begins_, box, of_sizes), ComparisonDirection::kGe),
      edit_.compare(at, edit_.broadcast(ends_, box, of_sizes), ComparisonDirection::kLt));
  return edit_.select(is_inside, edit_.broadcast(array, box, own),
                      edit_.splat(edit_.shape(array).type, box, 0));
}

/// Of each group of what is contracted, a product of its own.
Id RaggedProduct::product_of_each(Id left, Id right) {
  const auto at = static_cast<std::size_t>(place_in(dims_.lhs_contracting, ragged_));
  const Extents left_prefix = prefix();
  Extents right_prefix;
  for (const std::int64_t d : left_prefix) {
    const std::int64_t batch = place_in(dims_.lhs_batch, d);
    right_prefix.push_back(batch < static_cast<std::int64_t>(dims_.lhs_batch.size())
                               ? dims_.rhs_batch.at(static_cast<std::size_t>(batch))
                               : dims_.rhs_contracting.at(
                                     static_cast<std::size_t>(place_in(dims_.lhs_contracting, d))));
  }
  const auto behind = [](Extents list, bool with_groups) {
    for (std::int64_t& d : list) ++d;
    if (with_groups) list.insert(list.begin(), 0);
    return list;
  };
  return dot(masked(left, ragged_, left_prefix, 0),
             masked(right, dims_.rhs_contracting.at(at), right_prefix, 0),
             {behind(dims_.lhs_batch, true), behind(dims_.rhs_batch, true),
              behind(dims_.lhs_contracting, false), behind(dims_.rhs_contracting, false)});
}

}  // namespace

void expand_ragged_products(hlo::Module& module) {
  const auto takes = [](const hlo::Computation&, const HloInstruction& instruction) {
    return instruction.opcode == HloOpcode::kRaggedDot;
  };
  rewrite_everywhere(module, takes, [](GraphEditor& edit, const HloInstruction& given) {
    edit.finish(RaggedProduct(edit, given).product());
  });
}

}  // namespace tpu::compiler
