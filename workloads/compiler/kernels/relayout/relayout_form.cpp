#include "workloads/compiler/kernels/relayout/relayout_form.h"

#include <algorithm>

#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/dimension_order.h"

namespace tpu::compiler {

using hlo::HloOpcode;

namespace {

const hlo::Shape& operand_of(const hlo::Computation& computation,
                             const hlo::HloInstruction& instruction) {
  return computation.at(instruction.operands[0]).shape;
}

/// Whether the elements follow each other in row-major order; dimensions of one may stand anywhere.
bool lies_in_row_major(const hlo::Shape& shape) {
  const DimensionOrder order = without_units(shape, major_to_minor(shape));
  return std::is_sorted(order.begin(), order.end());
}

}  // namespace

hlo::HloInstruction in_order_of_operand(const hlo::Computation& computation,
                                        const hlo::HloInstruction& instruction) {
  hlo::HloInstruction result = instruction;
  const bool is_box = instruction.opcode == HloOpcode::kSlice ||
                      instruction.opcode == HloOpcode::kPad ||
                      instruction.opcode == HloOpcode::kReverse;
  if (!is_box) return result;
  const hlo::Layout& source = operand_of(computation, instruction).layout;
  const DimensionOrder wanted(source.minor_to_major.rbegin(), source.minor_to_major.rend());
  if (same_order(result.shape, major_to_minor(result.shape), wanted)) {
    result.shape.layout.minor_to_major = source.minor_to_major;
  }
  return result;
}

bool moves_dimensions(const hlo::Computation& computation, const hlo::HloInstruction& instruction) {
  if (instruction.opcode == HloOpcode::kTranspose) return true;
  const bool may_keep =
      instruction.opcode == HloOpcode::kCopy || instruction.opcode == HloOpcode::kReshape;
  return may_keep &&
         operand_of(computation, instruction).dimensions == instruction.shape.dimensions;
}

std::optional<std::vector<std::size_t>> permutation_of(const hlo::Computation& computation,
                                                       const hlo::HloInstruction& instruction) {
  const DimensionOrder from = major_to_minor(operand_of(computation, instruction));
  if (from.size() < 2) return std::nullopt;
  std::vector<std::size_t> permutation;
  for (std::int64_t d : major_to_minor(instruction.shape)) {
    const std::int64_t source = instruction.opcode == HloOpcode::kTranspose
                                    ? instruction.dimensions[static_cast<std::size_t>(d)]
                                    : d;
    permutation.push_back(
        static_cast<std::size_t>(std::find(from.begin(), from.end(), source) - from.begin()));
  }
  return permutation;
}

bool lie_in_same_order(const hlo::Shape& operand, const hlo::Shape& result) {
  if (lies_in_row_major(operand) && lies_in_row_major(result)) return true;
  const auto order = order_of_same_elements(operand, major_to_minor(operand), result);
  return order && same_order(result, *order, major_to_minor(result));
}

}  // namespace tpu::compiler
