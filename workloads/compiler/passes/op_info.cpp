#include "workloads/compiler/passes/op_info.h"

#include <algorithm>

#include "workloads/compiler/passes/storage.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;

namespace {

constexpr std::int64_t kRowsPerPush = 8;

double padded_by(std::int64_t extent, std::int64_t multiple) {
  if (extent <= 0) return 1;
  const std::int64_t padded = (extent + multiple - 1) / multiple * multiple;
  return static_cast<double>(padded) / static_cast<double>(extent);
}

std::int64_t extent_of(const hlo::Shape& shape, const std::vector<std::int64_t>& dimensions) {
  std::int64_t extent = 1;
  for (std::int64_t d : dimensions) extent *= shape.dimensions[static_cast<std::size_t>(d)];
  return extent;
}

std::int64_t free_extent(const hlo::Shape& shape, const std::vector<std::int64_t>& batch,
                         const std::vector<std::int64_t>& contracting) {
  return shape.element_count() /
         std::max<std::int64_t>(1, extent_of(shape, batch) * extent_of(shape, contracting));
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
           padded_by(extent_of(left, d.lhs_contracting), target.mxu_rows) *
           padded_by(free_extent(right, d.rhs_batch, d.rhs_contracting), target.mxu_columns);
  }
  const hlo::ConvolutionDimensions& d = product.convolution;
  return padded_by(extent_of(product.shape, {d.output_batch}), kRowsPerPush) *
         padded_by(extent_of(right, {d.kernel_input_feature}), target.mxu_rows) *
         padded_by(extent_of(right, {d.kernel_output_feature}), target.mxu_columns);
}

bool is_product(const HloInstruction& instruction) {
  return instruction.opcode == HloOpcode::kDot || instruction.opcode == HloOpcode::kConvolution;
}

std::string category_of(const hlo::Module& module, const HloInstruction& instruction) {
  if (instruction.opcode == HloOpcode::kFusion) {
    const Computation& body = module.computation(instruction.called[0]);
    if (std::any_of(body.instructions.begin(), body.instructions.end(), is_product)) {
      return "convolution fusion";
    }
    return instruction.fusion_kind.get() == "kInput" ? "input fusion" : "loop fusion";
  }
  switch (instruction.opcode) {
    case HloOpcode::kDot:
    case HloOpcode::kConvolution:
      return "convolution";
    case HloOpcode::kTranspose:
    case HloOpcode::kReshape:
      return "data formatting";
    default:
      return std::string(hlo::to_string(instruction.opcode));
  }
}

void add_work(const hlo::Module& module, const Computation& computation,
              const HloInstruction& instruction, const Target& target, isa::OpInfo& info) {
  if (instruction.opcode == HloOpcode::kFusion) {
    const Computation& body = module.computation(instruction.called[0]);
    for (const HloInstruction& inner : body.instructions) {
      add_work(module, body, inner, target, info);
    }
    return;
  }
  const auto flops = static_cast<std::uint64_t>(hlo::flops(module, computation, instruction));
  info.flops += flops;
  if (!is_product(instruction)) return;
  info.matmul_flops += flops;
  info.padded_matmul_flops += static_cast<std::uint64_t>(
      static_cast<double>(flops) * expansion(computation, instruction, target));
}

}  // namespace

isa::OpInfo op_info(const hlo::Module& module, const HloInstruction& instruction,
                    const Target& target) {
  isa::OpInfo info;
  info.name = instruction.name;
  info.category = category_of(module, instruction);
  info.op_name = instruction.metadata.op_name;
  info.source = hlo::source_of(module, instruction.metadata);
  info.shape = to_string(instruction.shape);
  const Computation& entry = module.entry_computation();
  add_work(module, entry, instruction, target, info);
  info.hbm_bytes = static_cast<std::uint64_t>(instruction.shape.unpadded_bytes());
  for (hlo::InstructionId operand : instruction.operands) {
    info.hbm_bytes += static_cast<std::uint64_t>(entry.at(operand).shape.unpadded_bytes());
  }
  return info;
}

}  // namespace tpu::compiler
