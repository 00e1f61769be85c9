#include <vector>

#include "sim/base/error.h"
#include "workloads/compiler/ir/elimination.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/kernels/elementwise/elementwise_memory.h"
#include "workloads/compiler/kernels/elementwise/transcendental.h"
#include "workloads/compiler/kernels/elimination/column_steps.h"
#include "workloads/compiler/kernels/lowering.h"

namespace tpu::compiler {

namespace {

using hlo::HloOpcode;
using isa::Opcode;

/// A step finds the largest element of its column and its row, that row as a sum over all rows, and
/// all rows in their new places less their multiple of it.
class PivotedEliminationKernel : private ColumnSteps {
 public:
  using ColumnSteps::ColumnSteps;

  LoweredKernel emit();

 private:
  struct Pivot {
    VReg number, element, row;  ///< Number as f32.
  };

  MReg is_row(std::int64_t tile, VReg number) {
    return builder_.vector_compare(Opcode::kVcmpEqF32, row_numbers(tile), number);
  }
  VReg size_of(const Step& step, const Column& column, std::int64_t tile);
  VReg pivot_number(const Step& step, const Column& column);
  Pivot pivot_of(const Step& step, std::int64_t matrix, const Column& column);
  void take_off(const Step& step, std::int64_t matrix, const Column& column, const Pivot& pivot);
};

/// Beside the matrix are the numbers of its rows, and place for those of pivots.
LoweredKernel PivotedEliminationKernel::emit() {
  const auto prepare = [this](std::int64_t tile, VReg given) {
    const VReg kept = builder_.select(is_lane(shapes_.columns + 1), 0.0F, given);
    return builder_.select(is_lane(shapes_.columns), row_numbers(tile), kept);
  };
  run(prepare, [this](const Step& step, std::int64_t matrix, const Column& column) {
    take_off(step, matrix, column, pivot_of(step, matrix, column));
  });
  return lowered_kernel(builder_);
}

/// Of an element that may be the pivot; -1 of others.
VReg PivotedEliminationKernel::size_of(const Step& step, const Column& column, std::int64_t tile) {
  VReg size = builder_.and_(element(step, column, tile), 0x7fffffffU);
  if (tile == step.tile) {
    const MReg is_candidate = builder_.mask(Opcode::kVmor, step.is_row, step.is_below);
    size = builder_.select(is_candidate, size, -1.0F);
  }
  if (ends_inside(tile)) {
    const MReg is_there = builder_.vector_compare(Opcode::kVcmpLtF32, row_numbers(tile),
                                                  static_cast<float>(shapes_.rows));
    size = builder_.select(is_there, size, -1.0F);
  }
  return size;
}

/// The first row with the largest element from the step's row on. No element is the largest where
/// one is not a number: the row stays.
VReg PivotedEliminationKernel::pivot_number(const Step& step, const Column& column) {
  const auto none = static_cast<float>(shapes_.rows);
  std::vector<VReg> sizes;
  VReg largest, found;
  for (std::int64_t t = step.tile; t < shapes_.tiles; ++t) {
    sizes.push_back(size_of(step, column, t));
    largest = t == step.tile ? sizes.back() : builder_.max(largest, sizes.back());
  }
  largest = combine_sublanes(builder_, HloOpcode::kMaximum, false, largest);
  for (std::int64_t t = step.tile; t < shapes_.tiles; ++t) {
    const MReg is_largest = builder_.vector_compare(
        Opcode::kVcmpEqF32, sizes[static_cast<std::size_t>(t - step.tile)], largest);
    const VReg number = builder_.select(is_largest, row_numbers(t), none);
    found = t == step.tile ? number : builder_.min(found, number);
  }
  found = combine_sublanes(builder_, HloOpcode::kMinimum, false, found);
  const MReg is_found = builder_.vector_compare(Opcode::kVcmpLtF32, found, none);
  return builder_.select(is_found, found, step.number);
}

PivotedEliminationKernel::Pivot PivotedEliminationKernel::pivot_of(const Step& step,
                                                                   std::int64_t matrix,
                                                                   const Column& column) {
  Pivot pivot;
  pivot.number = pivot_number(step, column);
  VReg row, chosen;
  for (std::int64_t t = step.tile; t < shapes_.tiles; ++t) {
    const bool is_first = t == step.tile;
    const MReg is_pivot = is_row(t, pivot.number);
    const VReg present = builder_.load(place(step, matrix, t));
    row = builder_.select(is_pivot, present, is_first ? VectorOperand(0.0F) : VectorOperand(row));
    chosen = builder_.select(is_pivot, element(step, column, t),
                             is_first ? VectorOperand(0.0F) : VectorOperand(chosen));
  }
  pivot.row = combine_sublanes(builder_, HloOpcode::kOr, true, row);
  pivot.element = combine_sublanes(builder_, HloOpcode::kOr, true, chosen);
  return pivot;
}

/// The pivot's row and the step's one change places; the rows below have their multiple of it in
/// the step's column from then on, where it is 0 the elements themselves.
void PivotedEliminationKernel::take_off(const Step& step, std::int64_t matrix, const Column& column,
                                        const Pivot& pivot) {
  const MReg is_zero = builder_.vector_compare(Opcode::kVcmpEqF32, pivot.element, 0.0F);
  const VReg inverse = builder_.select(is_zero, 1.0F, emit_reciprocal(builder_, pivot.element));
  const VReg behind = builder_.select(step.is_behind, pivot.row, 0.0F);
  for (std::int64_t t = step.tile; t < shapes_.tiles; ++t) {
    const VmemAddress present = place(step, matrix, t);
    const MReg is_pivot = is_row(t, pivot.number);
    VReg moved = builder_.select(is_pivot, column.row, builder_.load(present));
    const VReg factor =
        builder_.mul(builder_.select(is_pivot, column.diagonal, element(step, column, t)), inverse);
    const VReg left =
        builder_.select(step.is_column, factor, builder_.sub(moved, builder_.mul(factor, behind)));
    if (t > step.tile) {
      builder_.store(present, left);
      continue;
    }
    const VReg row = builder_.select(is_lane(shapes_.columns + 1), pivot.number, pivot.row);
    moved = builder_.select(step.is_row, row, moved);
    builder_.store(present, builder_.select(step.is_below, left, moved));
  }
}

}  // namespace

double pivoted_elimination_cycles(const std::vector<std::int64_t>& extents, const Target& target) {
  return ColumnShapes(extents).cycles(73, 17, target);  // Measured.
}

LoweredKernel lower_pivoted_elimination(const hlo::Module&, const hlo::Computation& computation,
                                        const hlo::HloInstruction& instruction,
                                        const Target& target) {
  const hlo::Shape& given = computation.at(instruction.operands.at(0)).shape;
  if (!are_column_matrices(given, instruction.shape, kMostFactorizedRows, 2)) {
    throw WorkloadError("no kernel for an elimination with pivots " + hlo::to_string(given) +
                        " -> " + hlo::to_string(instruction.shape) + " \"" + instruction.name +
                        "\": expected f32 matrices of at most 512 rows and 126 columns, "
                        "row-major");
  }
  return PivotedEliminationKernel(instruction.name, given.dimensions, target).emit();
}

}  // namespace tpu::compiler
