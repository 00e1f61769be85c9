#include "workloads/compiler/passes/expand/integer_dots.h"

#include <algorithm>

#include "sim/base/error.h"
#include "workloads/compiler/passes/refusal_list.h"

namespace tpu::compiler {

using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;

namespace {

using Id = GraphEditor::Id;
using Extents = GraphEditor::Extents;

/// Products of two bytes whose sum is exact in fp32: 2^24 / 255^2.
constexpr std::int64_t kExactProducts = 258;

Id part_of(GraphEditor& edit, Id value, std::int64_t dimension, std::int64_t begin,
           std::int64_t end) {
  return edit.take(value, dimension, begin, end - begin, 1);
}

/// How many products a sum has, and the dimensions of both operands along which it can be cut.
struct Contraction {
  std::int64_t all = 1, extent = 1;
  std::int64_t left = -1, right = -1;
};

Contraction contraction_of(const HloInstruction& product, const Extents& left) {
  Contraction found;
  if (product.opcode == HloOpcode::kConvolution) {
    const std::int64_t features =
        left[static_cast<std::size_t>(product.convolution->input_feature)] /
        product.feature_group_count;
    found.all = features;
    for (const hlo::WindowDimension& window : product.window) found.all *= window.size;
    // Features of a group do not lie beside each other for all groups.
    if (product.feature_group_count > 1) return found;
    found.extent = features;
    found.left = product.convolution->input_feature;
    found.right = product.convolution->kernel_input_feature;
    return found;
  }
  const hlo::DotDimensions& dims = product.dot;
  for (std::size_t i = 0; i < dims.lhs_contracting.size(); ++i) {
    const std::int64_t length = left[static_cast<std::size_t>(dims.lhs_contracting[i])];
    found.all *= length;
    if (length <= found.extent) continue;
    found.extent = length;
    found.left = dims.lhs_contracting[i];
    found.right = dims.rhs_contracting[i];
  }
  return found;
}

}  // namespace

Id byte_product(GraphEditor& edit, const HloInstruction& product, std::pair<Id, Id> operands) {
  const Id left = edit.convert(operands.first, ElementType::kF32);
  const Id right = edit.convert(operands.second, ElementType::kF32);
  const Contraction contraction = contraction_of(product, edit.dimensions(left));
  const std::int64_t extent = contraction.extent;
  const std::int64_t step = kExactProducts / std::max<std::int64_t>(1, contraction.all / extent);
  if (step < 1) {
    throw WorkloadError(product.name +
                        ": expected at most 258 elements beside the longest contracted dimension");
  }
  Id sum = -1;
  for (std::int64_t begin = 0; begin < extent; begin += step) {
    const std::int64_t end = std::min(begin + step, extent);
    HloInstruction part = product;
    part.name += ".bytes." + std::to_string(begin) + "." + std::to_string(right);
    part.shape = hlo::array_shape(ElementType::kF32, product.shape.dimensions);
    part.operands = {left, right};
    if (end - begin < extent) {
      part.operands = {part_of(edit, left, contraction.left, begin, end),
                       part_of(edit, right, contraction.right, begin, end)};
    }
    const Id made = edit.convert(edit.append_instruction(std::move(part)), ElementType::kS32);
    sum = sum < 0 ? made : edit.binary(HloOpcode::kAdd, sum, made);
  }
  return sum;
}

void rewrite_integer_dots(hlo::Module& module, Refusals& refusals) {
  GraphEditor edit(module);
  rewrite_each(module, refusals, [&](Id id) {
    const HloInstruction dot = module.entry_computation().at(id);
    const ElementType type = dot.shape.type;
    const bool is_product = dot.opcode == HloOpcode::kDot || dot.opcode == HloOpcode::kConvolution;
    if (!is_product || (type != ElementType::kS32 && type != ElementType::kU32)) return;
    edit.stand_for(id);
    const auto byte_of = [&](Id value, int number) {
      const Id words = edit.bitcast_convert(value, ElementType::kU32);
      const Id moved = edit.binary_with(HloOpcode::kShiftRightLogical, words, 8 * number);
      const Id byte = edit.binary_with(HloOpcode::kAnd, moved, 0xff);
      return edit.bitcast_convert(byte, ElementType::kS32);
    };
    Id sum = -1;
    for (int left = 0; left < 4; ++left) {
      for (int right = 0; left + right < 4; ++right) {
        const Id product = byte_product(
            edit, dot, {byte_of(dot.operands[0], left), byte_of(dot.operands[1], right)});
        const Id moved = edit.binary_with(HloOpcode::kShiftLeft, product, 8 * (left + right));
        sum = sum < 0 ? moved : edit.binary(HloOpcode::kAdd, sum, moved);
      }
    }
    edit.finish(edit.bitcast_convert(sum, type));
  });
}

}  // namespace tpu::compiler
