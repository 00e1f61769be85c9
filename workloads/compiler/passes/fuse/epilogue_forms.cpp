#include "workloads/compiler/passes/fuse/epilogue_forms.h"

#include <algorithm>
#include <set>

#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/ir/lane_moves.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;
using hlo::Shape;

/// A sum over all of the product's dimensions but one or two, in f32, that its kernel makes.
bool EpilogueForms::is_sum_behind(InstructionId root, InstructionId product) const {
  const HloInstruction& reduce = at(root);
  const Shape& input = at(reduce.operands[0]).shape;
  if (input.dimensions != at(product).shape.dimensions ||
      reduce.shape.type != hlo::ElementType::kF32) {
    return false;
  }
  const Computation& reducer = module_.computation(reduce.called[0]);
  if (reducer.at(reducer.root).opcode != HloOpcode::kAdd) return false;
  // What it keeps, minor dimension first.
  std::vector<std::int64_t> kept;
  for (std::int64_t d = 0; d < input.rank(); ++d) {
    if (std::count(reduce.dimensions.begin(), reduce.dimensions.end(), d) == 0) kept.push_back(d);
  }
  std::vector<std::int64_t> order;
  for (std::int64_t d : reduce.shape.layout.minor_to_major) {
    order.push_back(kept[static_cast<std::size_t>(d)]);
  }
  return may_sum_to(order, product);
}

/// Dots sum to their minor dimension; convolutions that make images to their features, or to both
/// minor dimensions.
bool EpilogueForms::may_sum_to(const std::vector<std::int64_t>& kept, InstructionId product) const {
  const std::vector<std::int64_t>& order = at(product).shape.layout.minor_to_major;
  if (at(product).opcode == HloOpcode::kDot) return kept == std::vector{order[0]};
  if (!makes_images(product)) return false;
  return kept == std::vector{has_batch_in_lanes(product) ? order[1] : order[0]} ||
         kept == std::vector{order[0], order[1]};
}

/// A convolution whose result has its batch in the lanes.
bool EpilogueForms::has_batch_in_lanes(InstructionId product) const {
  const HloInstruction& instruction = at(product);
  return instruction.opcode == HloOpcode::kConvolution &&
         instruction.shape.layout.minor_to_major[0] == instruction.convolution->output_batch;
}

/// A convolution that makes images, not the gradient of a kernel.
bool EpilogueForms::makes_images(InstructionId product) const {
  const HloInstruction& instruction = at(product);
  return instruction.opcode == HloOpcode::kConvolution &&
         instruction.convolution->input_batch < instruction.convolution->input_feature;
}

/// A value whose lanes are fewer or more than the product's, in the same tiles.
bool EpilogueForms::has_other_lanes(InstructionId id, InstructionId product) const {
  const Shape& shape = at(id).shape;
  return shape.dimensions != at(product).shape.dimensions &&
         lie_in_same_tiles(shape, at(product).shape);
}

/// Behind a product there are arrays of its extent, matrices and vectors along its minor dimensions
/// and scalars; results are of its extent or sums to one or both of its minor dimensions.
bool EpilogueForms::fit(const FusionDraft& draft, InstructionId product) const {
  const std::vector<std::int64_t>& order = at(product).shape.layout.minor_to_major;
  const bool is_dot = at(product).opcode == HloOpcode::kDot;
  return std::all_of(draft.inside.begin(), draft.inside.end(), [&](InstructionId id) {
    const HloInstruction& instruction = at(id);
    if (moves_lanes(entry_, instruction) || has_other_lanes(id, product)) return false;
    if (instruction.opcode == HloOpcode::kReduce) return is_sum_behind(id, product);
    if (instruction.opcode == HloOpcode::kIota && instruction.shape.rank() > 0) {
      const std::int64_t along = instruction.dimensions[0];
      return order[0] == along || (is_dot && order[1] == along);
    }
    return instruction.opcode != HloOpcode::kBroadcast || is_broadcast_behind(id, product);
  });
}

/// A scalar, a vector or a matrix that goes along one or both of the minor dimensions.
bool EpilogueForms::is_broadcast_behind(InstructionId id, InstructionId product) const {
  const HloInstruction& broadcast = at(id);
  const Shape& operand = at(broadcast.operands[0]).shape;
  const std::vector<std::int64_t>& order = at(product).shape.layout.minor_to_major;
  if (operand.rank() == 0) return true;
  const bool is_dot = at(product).opcode == HloOpcode::kDot;
  if (operand.rank() == 1) {
    const bool is_short = static_cast<std::uint64_t>(operand.element_count()) <= kLongestRowVector;
    return broadcast.dimensions[0] == order[0] ||
           ((has_batch_in_lanes(product) || (is_dot && is_short)) &&
            broadcast.dimensions[0] == order[1]);
  }
  if (operand.rank() != 2 || order.size() <= 2) return false;
  const auto along = [&](std::size_t minor) {
    return broadcast.dimensions[static_cast<std::size_t>(operand.layout.minor_to_major[minor])];
  };
  return (is_dot || makes_images(product)) && along(0) == order[0] && along(1) == order[1];
}

/// A sum over rows is known when the kernel ends.
bool EpilogueForms::uses_own_sum(const FusionDraft& draft) const {
  const std::set<InstructionId> inside(draft.inside.begin(), draft.inside.end());
  return std::any_of(draft.inside.begin(), draft.inside.end(), [&](InstructionId id) {
    const std::vector<InstructionId>& operands = at(id).operands;
    return std::any_of(operands.begin(), operands.end(), [&](InstructionId operand) {
      return is_plain_reduce(at(operand)) && inside.count(operand) != 0;
    });
  });
}

}  // namespace tpu::compiler
