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

/// A step's column is in all lanes, so its length, the reflection's vector and the dots of that
/// with all columns are sums along rows, which need no way across lanes.
class ReflectionKernel : private ColumnSteps {
 public:
  using ColumnSteps::ColumnSteps;

  LoweredKernel emit();

 private:
  /// Leaves `beta` of the column; its vector is 1 and what is below, times `scale`.
  struct Reflection {
    VReg beta, tau, scale;
  };

  Reflection reflection_of(const Step& step, const Column& column);
  void reflect(const Step& step, std::int64_t matrix, const Column& column);
};

/// Rows that fill up the last tile are 0, and stay so.
LoweredKernel ReflectionKernel::emit() {
  const auto prepare = [this](std::int64_t tile, VReg given) {
    const VReg kept = builder_.select(is_lane(shapes_.columns), 0.0F, given);
    if (!ends_inside(tile)) return kept;
    const MReg is_there = builder_.vector_compare(Opcode::kVcmpLtF32, row_numbers(tile),
                                                  static_cast<float>(shapes_.rows));
    return builder_.select(is_there, kept, 0.0F);
  };
  run(prepare, [this](const Step& step, std::int64_t matrix, const Column& column) {
    reflect(step, matrix, column);
  });
  return lowered_kernel(builder_);
}

ReflectionKernel::Reflection ReflectionKernel::reflection_of(const Step& step,
                                                             const Column& column) {
  VReg squares;
  for (std::int64_t t = step.tile; t < shapes_.tiles; ++t) {
    const VReg given = element(step, column, t);
    const VReg square = builder_.mul(given, given);
    squares = t == step.tile ? builder_.select(step.is_below, square, 0.0F)
                             : builder_.add(squares, square);
  }
  const VReg rest = combine_sublanes(builder_, HloOpcode::kAdd, false, squares);
  const VReg alpha = column.diagonal;
  const VReg length = emit_sqrt(builder_, builder_.add(builder_.mul(alpha, alpha), rest));
  const MReg is_positive = builder_.vector_compare(Opcode::kVcmpGeF32, alpha, 0.0F);
  const VReg away =
      builder_.select(is_positive, builder_.vector(Opcode::kVxorU32, length, 0x80000000U), length);
  const MReg is_done = builder_.vector_compare(Opcode::kVcmpEqF32, rest, 0.0F);
  const VReg difference = builder_.sub(away, alpha);
  Reflection made;
  made.beta = builder_.select(is_done, alpha, away);
  made.tau = builder_.select(is_done, 0.0F, emit_divide(builder_, difference, away));
  made.scale = builder_.select(
      is_done, 1.0F,
      builder_.vector(Opcode::kVxorU32, emit_reciprocal(builder_, difference), 0x80000000U));
  return made;
}

void ReflectionKernel::reflect(const Step& step, std::int64_t matrix, const Column& column) {
  const Reflection by = reflection_of(step, column);
  std::vector<VReg> vector;
  VReg sums;
  for (std::int64_t t = step.tile; t < shapes_.tiles; ++t) {
    VReg scaled = builder_.mul(element(step, column, t), by.scale);
    if (t == step.tile) {
      scaled = builder_.select(step.is_row, 1.0F, builder_.select(step.is_below, scaled, 0.0F));
    }
    vector.push_back(scaled);
    const VReg product = builder_.mul(scaled, builder_.load(place(step, matrix, t)));
    sums = t == step.tile ? product : builder_.add(sums, product);
  }
  const VReg dots = combine_sublanes(builder_, HloOpcode::kAdd, false, sums);
  const VReg taken = builder_.select(step.is_behind, builder_.mul(by.tau, dots), 0.0F);
  for (std::int64_t t = step.tile; t < shapes_.tiles; ++t) {
    const VmemAddress present = place(step, matrix, t);
    const VReg given = builder_.load(present),
               scaled = vector[static_cast<std::size_t>(t - step.tile)];
    const VReg left = builder_.sub(given, builder_.mul(scaled, taken));
    if (t > step.tile) {
      builder_.store(present, builder_.select(step.is_column, scaled, left));
      continue;
    }
    const VReg own = builder_.select(step.is_column, by.beta, left);
    const VReg row = builder_.select(is_lane(shapes_.columns), by.tau, own);
    const VReg below =
        builder_.select(step.is_below, builder_.select(step.is_column, scaled, left), given);
    builder_.store(present, builder_.select(step.is_row, row, below));
  }
}

}  // namespace

double reflections_cycles(const std::vector<std::int64_t>& extents, const Target& target) {
  return ColumnShapes(extents).cycles(85, 12, target);  // Measured.
}

LoweredKernel lower_reflections(const hlo::Module&, const hlo::Computation& computation,
                                const hlo::HloInstruction& instruction, const Target& target) {
  const hlo::Shape& given = computation.at(instruction.operands.at(0)).shape;
  if (!are_column_matrices(given, instruction.shape, kMostFactorizedRows, 1)) {
    throw WorkloadError("no kernel for reflections " + hlo::to_string(given) + " -> " +
                        hlo::to_string(instruction.shape) + " \"" + instruction.name +
                        "\": expected f32 matrices of at most 512 rows and 127 columns, "
                        "row-major");
  }
  return ReflectionKernel(instruction.name, given.dimensions, target).emit();
}

}  // namespace tpu::compiler
