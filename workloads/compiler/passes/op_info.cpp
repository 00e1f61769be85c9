#include "workloads/compiler/passes/op_info.h"

#include <algorithm>

#include "sim/base/ceil_divide.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/passes/fuse/bucket_phases.h"
#include "workloads/graph/op_info.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;

namespace {

constexpr std::int64_t kRowsPerPush = 8;

double padded_by(std::int64_t extent, std::int64_t multiple) {
  if (extent <= 0) return 1;
  const std::int64_t padded = round_up(extent, multiple);
  return static_cast<double>(padded) / static_cast<double>(extent);
}

std::int64_t extent_over(const hlo::Shape& shape, const std::vector<std::int64_t>& dimensions) {
  std::int64_t extent = 1;
  for (std::int64_t d : dimensions) extent *= shape.dimensions[static_cast<std::size_t>(d)];
  return extent;
}

std::int64_t free_extent(const hlo::Shape& shape, const std::vector<std::int64_t>& batch,
                         const std::vector<std::int64_t>& contracting) {
  return shape.element_count() /
         std::max<std::int64_t>(1, extent_over(shape, batch) * extent_over(shape, contracting));
}

/// Factor by which the MXU's tiles enlarge a product: rows to whole pushes, the contracted
/// dimension and the columns to whole arrays.
double expansion(const Computation& computation, const HloInstruction& product,
                 const Target& target) {
  const hlo::Shape& left = computation.at(product.operands[0]).shape;
  const hlo::Shape& right = computation.at(product.operands[1]).shape;
  if (product.opcode == HloOpcode::kDot) {
    const hlo::DotDimensions& d = product.dot;
    return padded_by(free_extent(left, d.lhs_batch, d.lhs_contracting), kRowsPerPush) *
           padded_by(extent_over(left, d.lhs_contracting), target.mxu_rows) *
           padded_by(free_extent(right, d.rhs_batch, d.rhs_contracting), target.mxu_columns);
  }
  const hlo::ConvolutionDimensions& d = product.convolution;
  return padded_by(extent_over(product.shape, {d.output_batch}), kRowsPerPush) *
         padded_by(extent_over(right, {d.kernel_input_feature}), target.mxu_rows) *
         padded_by(extent_over(right, {d.kernel_output_feature}), target.mxu_columns);
}

bool multiplies(const HloInstruction& instruction) {
  return instruction.opcode == HloOpcode::kDot || instruction.opcode == HloOpcode::kConvolution;
}

/// FLOPs of the products that an instruction is or fuses, as its tiles make them.
double padded_matmul_flops(hlo::HloCostAnalysis& analysis, const Computation& computation,
                           const HloInstruction& instruction, const Target& target) {
  if (multiplies(instruction)) {
    return static_cast<double>(analysis.of(computation, instruction).matmul_flops) *
           expansion(computation, instruction, target);
  }
  double sum = 0;
  if (instruction.opcode == HloOpcode::kFusion) {
    const Computation& body = analysis.module().computation(instruction.called[0]);
    for (const HloInstruction& inner : body.instructions) {
      sum += padded_matmul_flops(analysis, body, inner, target);
    }
  }
  return sum;
}

/// A fusion of copies alone (`fuse/copy_sequences.h`).
bool only_copies(const hlo::Module& module, const HloInstruction& instruction) {
  if (instruction.opcode != HloOpcode::kFusion) return false;
  const std::vector<HloInstruction>& body = module.computation(instruction.called[0]).instructions;
  return std::all_of(body.begin(), body.end(), [](const HloInstruction& each) {
    return each.opcode == HloOpcode::kParameter || each.opcode == HloOpcode::kTuple;
  });
}

}  // namespace

isa::OpInfo op_info(const hlo::Module& module, const HloInstruction& instruction,
                    const Target& target) {
  hlo::HloCostAnalysis analysis(module);
  const Computation& entry = module.entry_computation();
  isa::OpInfo info = hlo::op_info(analysis, entry, instruction);
  if (is_bucket_phase(instruction)) info.category = "all-reduce";
  if (only_copies(module, instruction) || joins_moves(module, instruction))
    info.category = "data formatting";
  info.padded_matmul_flops =
      static_cast<std::uint64_t>(padded_matmul_flops(analysis, entry, instruction, target));
  return info;
}

}  // namespace tpu::compiler
