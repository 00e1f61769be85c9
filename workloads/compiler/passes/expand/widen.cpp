#include "workloads/compiler/passes/expand/widen.h"

#include <algorithm>
#include <utility>

#include "sim/base/error.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/simplify/constant_folding.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;
using hlo::Shape;

namespace {

ElementType stored_type(const Shape& shape) {
  if (shape.type == ElementType::kPred) {
    return shape.rank() < 2 ? ElementType::kS32 : ElementType::kBf16;
  }
  if (shape.type == ElementType::kBf16 && shape.rank() < 2) return ElementType::kF32;
  return shape.type;
}

void check_type(const Shape& shape, const HloInstruction& instruction) {
  if (shape.is_tuple()) {
    for (const Shape& element : shape.elements) check_type(element, instruction);
    return;
  }
  switch (shape.type) {
    case ElementType::kF32:
    case ElementType::kS32:
    case ElementType::kU32:
    case ElementType::kBf16:
    case ElementType::kPred:
    case ElementType::kToken:
      return;
    default:
      throw WorkloadError(
          instruction.name + ": expected an array of f32, bf16, s32, u32 or pred, " + "found " +
          to_string(shape, false) + "; the kernels know no other type: convert it in the model");
  }
}

InstructionId append_convert(Computation& body, InstructionId operand, const Shape& shape) {
  HloInstruction convert;
  convert.opcode = HloOpcode::kConvert;
  convert.name = body.at(operand).name + ".stored";
  convert.operands = {operand};
  convert.shape = shape;
  convert.metadata = body.at(operand).metadata;
  return append(body, std::move(convert));
}

/// The fusion reads stored types and makes its own of them.
void widen_parameters(Computation& body) {
  const std::size_t count = body.instructions.size();
  for (std::size_t i = 0; i < count; ++i) {
    const InstructionId id = static_cast<InstructionId>(i);
    if (body.at(id).opcode != HloOpcode::kParameter) continue;
    const Shape wanted = body.at(id).shape;
    const Shape stored = stored_shape(wanted);
    if (stored.type == wanted.type) continue;
    body.at(id).shape = stored;
    const InstructionId convert = append_convert(body, id, wanted);
    for (std::size_t user = 0; user < count; ++user) {
      std::vector<InstructionId>& operands = body.instructions[user].operands;
      std::replace(operands.begin(), operands.end(), id, convert);
    }
    if (body.root == id) body.root = convert;
  }
}

/// Inside of a fusion bf16 is as precise as fp32; what stands in HBM is bf16 in a wider type.
InstructionId append_rounding(Computation& body, InstructionId operand) {
  HloInstruction rounding;
  rounding.opcode = HloOpcode::kReducePrecision;
  rounding.name = body.at(operand).name + ".rounded";
  rounding.operands = {operand};
  rounding.shape = body.at(operand).shape;
  rounding.raw_attributes = "exponent_bits=8, mantissa_bits=7";
  rounding.metadata = body.at(operand).metadata;
  return append(body, std::move(rounding));
}

InstructionId widen_result(Computation& body, InstructionId id) {
  const Shape stored = stored_shape(body.at(id).shape);
  if (stored.type == body.at(id).shape.type) return id;
  const bool is_computed = hlo::is_elementwise(body.at(id).opcode);
  if (stored.type == ElementType::kF32 && is_computed) id = append_rounding(body, id);
  return append_convert(body, id, stored);
}

void widen_results(Computation& body) {
  if (!body.at(body.root).shape.is_tuple()) {
    body.root = widen_result(body, body.root);
    return;
  }
  for (std::size_t i = 0; i < body.at(body.root).operands.size(); ++i) {
    const InstructionId stored = widen_result(body, body.at(body.root).operands[i]);
    body.at(body.root).operands[i] = stored;
    body.at(body.root).shape.elements[i] = body.at(stored).shape;
  }
}

void widen_literal(HloInstruction& constant) {
  const Shape stored = stored_shape(constant.shape);
  if (stored.type == constant.shape.type) return;
  const std::size_t size = static_cast<std::size_t>(hlo::byte_size(constant.shape.type));
  std::vector<std::uint8_t> bytes;
  for (std::size_t at = 0; at + size <= constant.literal.size(); at += size) {
    HloInstruction element;
    element.shape = hlo::array_shape(constant.shape.type, {});
    element.literal.assign(constant.literal.begin() + static_cast<std::ptrdiff_t>(at),
                           constant.literal.begin() + static_cast<std::ptrdiff_t>(at + size));
    const std::vector<std::uint8_t> wide =
        scalar_constant(stored.type, *scalar_value(element)).literal;
    bytes.insert(bytes.end(), wide.begin(), wide.end());
  }
  constant.literal = std::move(bytes);
}

/// Predicates stand one by one as s32, in arrays as bf16: so does what such an array is padded
/// with.
void store_padding_values(Computation& entry) {
  const std::size_t count = entry.instructions.size();
  for (std::size_t i = 0; i < count; ++i) {
    const HloInstruction& pad = entry.instructions[i];
    if (pad.opcode != HloOpcode::kPad || pad.shape.type != ElementType::kPred) continue;
    const HloInstruction& value = entry.at(pad.operands[1]);
    if (value.opcode != HloOpcode::kConstant) continue;
    HloInstruction stored =
        scalar_constant(stored_shape(pad.shape).type, scalar_value(value).value_or(0));
    stored.name = pad.name + ".value";
    stored.metadata = pad.metadata;
    entry.instructions[i].operands[1] = append(entry, std::move(stored));
  }
  if (entry.instructions.size() > count) tidy(entry);
}

}  // namespace

Shape stored_shape(Shape shape) {
  if (shape.is_tuple()) {
    for (Shape& element : shape.elements) element = stored_shape(element);
    return shape;
  }
  const ElementType type = stored_type(shape);
  return type == shape.type ? shape : in_type(std::move(shape), type);
}

void widen(hlo::Module& module) {
  Computation& entry = module.entry_computation();
  store_padding_values(entry);
  for (HloInstruction& instruction : entry.instructions) {
    check_type(instruction.shape, instruction);
    if (instruction.opcode == HloOpcode::kFusion) {
      Computation& body = module.computations[static_cast<std::size_t>(instruction.called[0])];
      widen_parameters(body);
      widen_results(body);
      tidy(body);
    }
    if (instruction.opcode == HloOpcode::kConstant) widen_literal(instruction);
    instruction.shape = stored_shape(instruction.shape);
  }
}

}  // namespace tpu::compiler
