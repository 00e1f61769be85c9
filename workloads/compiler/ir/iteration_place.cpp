#include "workloads/compiler/ir/iteration_place.h"

#include <vector>

#include "workloads/compiler/ir/array_layout.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::Shape;

bool is_slice_of_iteration(const HloInstruction& instruction) {
  return instruction.opcode == HloOpcode::kDynamicSlice && instruction.operands.size() == 1;
}

bool is_update_of_iteration(const HloInstruction& instruction) {
  return instruction.opcode == HloOpcode::kDynamicUpdateSlice && instruction.operands.size() == 2;
}

IterationPlace iteration_place(const Computation& computation, const HloInstruction& instruction) {
  const Shape& array = computation.at(instruction.operands[0]).shape;
  const std::vector<std::int64_t> order = major_to_minor(array);
  const std::vector<std::int64_t> strides = major_strides(array);
  IterationPlace place;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto d = static_cast<std::size_t>(order[i]);
    place.granule += instruction.slice->starts[d] * strides[i];
    place.step += instruction.slice->strides[d] * strides[i];
  }
  return place;
}

}  // namespace tpu::compiler
