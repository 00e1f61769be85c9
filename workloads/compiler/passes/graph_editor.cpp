#include "workloads/compiler/passes/graph_editor.h"

#include <algorithm>
#include <cstring>

#include "sim/base/contains.h"
#include "sim/base/error.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/simplify/constant_folding.h"

namespace tpu::compiler {

using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::Shape;
using Id = GraphEditor::Id;

void GraphEditor::stand_for(Id id) { replaced_ = id; }

HloInstruction GraphEditor::start(HloOpcode opcode, const std::vector<Id>& operands,
                                  Shape shape) const {
  HloInstruction made;
  made.opcode = opcode;
  made.name = entry().at(replaced_).name + "." + std::string(hlo::to_string(opcode)) + "." +
              std::to_string(entry().instructions.size());
  made.metadata = entry().at(replaced_).metadata;
  made.operands = operands;
  made.shape = std::move(shape);
  return made;
}

Id GraphEditor::append_instruction(HloInstruction instruction) {
  return append(entry(), std::move(instruction));
}

Id GraphEditor::scalar(ElementType type, double value) {
  HloInstruction made = start(HloOpcode::kConstant, {}, hlo::array_shape(type, {}));
  made.literal = scalar_constant(type, value).literal;
  return append_instruction(std::move(made));
}

Id GraphEditor::splat(ElementType type, const Extents& extents, double value) {
  return broadcast(scalar(type, value), extents, {});
}

Id GraphEditor::numbers(const Extents& extents, const std::vector<float>& values) {
  HloInstruction made =
      start(HloOpcode::kConstant, {}, hlo::array_shape(ElementType::kF32, extents));
  made.literal.resize(values.size() * sizeof(float));
  std::memcpy(made.literal.data(), values.data(), made.literal.size());
  return append_instruction(std::move(made));
}

bool GraphEditor::is_splat(Id value, double number) const {
  for (;;) {
    const HloInstruction& made = entry().at(value);
    switch (made.opcode) {
      case HloOpcode::kBroadcast:
      case HloOpcode::kReshape:
      case HloOpcode::kTranspose:
      case HloOpcode::kSlice:
      case HloOpcode::kReverse:
      case HloOpcode::kCopy:
        value = made.operands[0];
        continue;
      case HloOpcode::kConstant:
        return made.shape.rank() == 0 && scalar_value(made) == number;
      default:
        return false;
    }
  }
}

Id GraphEditor::iota(ElementType type, const Extents& extents, std::int64_t dimension) {
  HloInstruction made = start(HloOpcode::kIota, {}, hlo::array_shape(type, extents));
  made.dimensions = {dimension};
  return append_instruction(std::move(made));
}

Id GraphEditor::broadcast(Id value, const Extents& extents, const Extents& places) {
  HloInstruction made =
      start(HloOpcode::kBroadcast, {value}, hlo::array_shape(shape(value).type, extents));
  made.dimensions = places;
  return append_instruction(std::move(made));
}

Id GraphEditor::reshape(Id value, const Extents& extents) {
  if (dimensions(value) == extents) return value;
  return append_instruction(
      start(HloOpcode::kReshape, {value}, hlo::array_shape(shape(value).type, extents)));
}

Id GraphEditor::transpose(Id value, const Extents& permutation) {
  Extents extents;
  bool is_identity = true;
  for (std::size_t d = 0; d < permutation.size(); ++d) {
    extents.push_back(dimensions(value)[static_cast<std::size_t>(permutation[d])]);
    is_identity = is_identity && permutation[d] == static_cast<std::int64_t>(d);
  }
  if (is_identity) return value;
  HloInstruction made =
      start(HloOpcode::kTranspose, {value}, hlo::array_shape(shape(value).type, extents));
  made.dimensions = permutation;
  return append_instruction(std::move(made));
}

Id GraphEditor::slice(Id value, const Extents& starts, const Extents& limits) {
  return slice(value, starts, limits, Extents(starts.size(), 1));
}

Id GraphEditor::slice(Id value, const Extents& starts, const Extents& limits,
                      const Extents& strides) {
  Extents extents;
  for (std::size_t d = 0; d < starts.size(); ++d) {
    extents.push_back((limits[d] - starts[d] + strides[d] - 1) / strides[d]);
  }
  if (extents == dimensions(value)) return value;
  HloInstruction made =
      start(HloOpcode::kSlice, {value}, hlo::array_shape(shape(value).type, extents));
  made.slice = hlo::SliceBounds{starts, limits, strides};
  return append_instruction(std::move(made));
}

Id GraphEditor::pad_high(Id value, const Extents& high) {
  std::vector<hlo::PaddingDimension> padding;
  for (const std::int64_t amount : high) padding.push_back({0, amount, 0});
  return pad(value, padding);
}

Id GraphEditor::pad(Id value, const std::vector<hlo::PaddingDimension>& padding, double fill) {
  return pad(value, scalar(shape(value).type, fill), padding);
}

Id GraphEditor::pad(Id value, Id filling, const std::vector<hlo::PaddingDimension>& padding) {
  Shape padded = hlo::array_shape(shape(value).type, dimensions(value));
  bool changes = false;
  for (std::size_t d = 0; d < padding.size(); ++d) {
    std::int64_t& extent = padded.dimensions[d];
    extent += padding[d].low + padding[d].high +
              std::max<std::int64_t>(0, extent - 1) * padding[d].interior;
    changes = changes || padding[d].low != 0 || padding[d].high != 0 || padding[d].interior != 0;
  }
  if (!changes) return value;
  HloInstruction made = start(HloOpcode::kPad, {value, filling}, padded);
  made.padding = padding;
  return append_instruction(std::move(made));
}

Id GraphEditor::take(Id value, std::int64_t dimension, std::int64_t start_at, std::int64_t count,
                     std::int64_t step, double fill) {
  const auto d = static_cast<std::size_t>(dimension);
  const std::int64_t extent = dimensions(value)[d];
  const std::int64_t low = std::max<std::int64_t>(0, -start_at);
  const std::int64_t end = start_at + (count - 1) * step + 1;
  std::vector<hlo::PaddingDimension> padding(dimensions(value).size());
  padding[d] = {low, std::max<std::int64_t>(0, end - extent), 0};
  const Id padded = pad(value, padding, fill);
  Extents starts(padding.size(), 0), limits = dimensions(padded), strides(padding.size(), 1);
  starts[d] = start_at + low;
  limits[d] = end + low;
  strides[d] = step;
  return slice(padded, starts, limits, strides);
}

Id GraphEditor::reverse(Id value, std::int64_t dimension) {
  if (dimensions(value)[static_cast<std::size_t>(dimension)] == 1) return value;
  return reverse(value, Extents{dimension});
}

Id GraphEditor::reverse(Id value, const Extents& along) {
  HloInstruction made =
      start(HloOpcode::kReverse, {value}, hlo::array_shape(shape(value).type, dimensions(value)));
  made.dimensions = along;
  return append_instruction(std::move(made));
}

Id GraphEditor::concatenate(const std::vector<Id>& parts, std::int64_t dimension) {
  if (parts.size() == 1) return parts[0];
  Shape joined = hlo::array_shape(shape(parts[0]).type, dimensions(parts[0]));
  std::int64_t& extent = joined.dimensions[static_cast<std::size_t>(dimension)];
  extent = 0;
  for (Id part : parts) extent += dimensions(part)[static_cast<std::size_t>(dimension)];
  HloInstruction made = start(HloOpcode::kConcatenate, parts, std::move(joined));
  made.dimensions = {dimension};
  return append_instruction(std::move(made));
}

Id GraphEditor::convert(Id value, ElementType type) {
  if (shape(value).type == type) return value;
  return append_instruction(
      start(HloOpcode::kConvert, {value}, hlo::array_shape(type, dimensions(value))));
}

Id GraphEditor::unary(HloOpcode opcode, Id value) {
  return append_instruction(
      start(opcode, {value}, hlo::array_shape(shape(value).type, dimensions(value))));
}

Id GraphEditor::binary(HloOpcode opcode, Id a, Id b) {
  TPU_CHECK(dimensions(a) == dimensions(b), "operands of " << hlo::to_string(opcode) << " differ");
  return append_instruction(start(opcode, {a, b}, hlo::array_shape(shape(a).type, dimensions(a))));
}

Id GraphEditor::binary_with(HloOpcode opcode, Id a, double b) {
  return binary(opcode, a, splat(shape(a).type, dimensions(a), b));
}

Id GraphEditor::bitcast_convert(Id value, ElementType type) {
  if (shape(value).type == type) return value;
  return append_instruction(
      start(HloOpcode::kBitcastConvert, {value}, hlo::array_shape(type, dimensions(value))));
}

std::vector<Id> GraphEditor::apply(hlo::ComputationId computation,
                                   const std::vector<Id>& arguments) {
  // By value: appending to the module moves its computations.
  const hlo::Computation body = module_.computation(computation);
  const Extents extents = dimensions(arguments.at(0));
  std::vector<std::vector<Id>> values;
  for (const HloInstruction& instruction : body.instructions) {
    const auto value = [&](std::size_t operand) {
      return values.at(static_cast<std::size_t>(instruction.operands.at(operand))).at(0);
    };
    if (instruction.opcode == HloOpcode::kParameter) {
      values.push_back({arguments.at(static_cast<std::size_t>(instruction.parameter_number))});
    } else if (instruction.opcode == HloOpcode::kTuple) {
      values.emplace_back();
      for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
        values.back().push_back(value(i));
      }
    } else if (instruction.opcode == HloOpcode::kGetTupleElement) {
      const auto& tuple = values.at(static_cast<std::size_t>(instruction.operands.at(0)));
      values.push_back({tuple.at(static_cast<std::size_t>(instruction.tuple_index))});
    } else if (instruction.opcode == HloOpcode::kCall || instruction.opcode == HloOpcode::kFusion) {
      std::vector<Id> given;
      for (std::size_t i = 0; i < instruction.operands.size(); ++i) given.push_back(value(i));
      values.push_back(apply(instruction.called.at(0), given));
    } else if (instruction.shape.is_tuple() || instruction.shape.rank() != 0) {
      throw WorkloadError(body.name + ": expected operations on scalars, found " +
                          std::string(hlo::to_string(instruction.opcode)) + " \"" +
                          instruction.name + "\" of " + to_string(instruction.shape, false));
    } else if (instruction.opcode == HloOpcode::kConstant) {
      HloInstruction constant = start(HloOpcode::kConstant, {}, instruction.shape);
      constant.literal = instruction.literal;
      values.push_back({broadcast(append_instruction(std::move(constant)), extents, {})});
    } else if (instruction.opcode == HloOpcode::kBroadcast ||
               instruction.opcode == HloOpcode::kReshape ||
               instruction.opcode == HloOpcode::kCopy) {
      values.push_back({value(0)});
    } else if (hlo::is_elementwise(instruction.opcode)) {
      HloInstruction made =
          start(instruction.opcode, {}, hlo::array_shape(instruction.shape.type, extents));
      for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
        made.operands.push_back(value(i));
      }
      made.direction = instruction.direction;
      made.raw_attributes = instruction.raw_attributes;
      values.push_back({append_instruction(std::move(made))});
    } else {
      throw WorkloadError(body.name + ": expected arithmetic on scalars, found " +
                          std::string(hlo::to_string(instruction.opcode)) + " \"" +
                          instruction.name + "\"");
    }
  }
  return values.at(static_cast<std::size_t>(body.root));
}

Id GraphEditor::compare(Id a, Id b, hlo::ComparisonDirection direction) {
  HloInstruction made =
      start(HloOpcode::kCompare, {a, b}, hlo::array_shape(ElementType::kPred, dimensions(a)));
  made.direction = direction;
  return append_instruction(std::move(made));
}

Id GraphEditor::select(Id condition, Id yes, Id no) {
  return append_instruction(start(HloOpcode::kSelect, {condition, yes, no},
                                  hlo::array_shape(shape(yes).type, dimensions(yes))));
}

hlo::ComputationId GraphEditor::scalar_computation(HloOpcode opcode, ElementType type) {
  hlo::Computation made;
  made.name = std::string(hlo::to_string(opcode)) + "_" + std::string(hlo::to_string(type)) + "." +
              std::to_string(module_.computations.size());
  for (std::int64_t number : {0, 1}) {
    HloInstruction parameter;
    parameter.opcode = HloOpcode::kParameter;
    parameter.parameter_number = number;
    parameter.name = number == 0 ? "a" : "b";
    parameter.shape = hlo::array_shape(type, {});
    append(made, std::move(parameter));
  }
  if (opcode == HloOpcode::kParameter) {
    made.root = 1;
    module_.computations.push_back(std::move(made));
    return static_cast<hlo::ComputationId>(module_.computations.size() - 1);
  }
  HloInstruction combination;
  combination.opcode = opcode;
  combination.name = "combination";
  combination.operands = {0, 1};
  combination.shape = hlo::array_shape(type, {});
  made.root = append(made, std::move(combination));
  module_.computations.push_back(std::move(made));
  return static_cast<hlo::ComputationId>(module_.computations.size() - 1);
}

Id GraphEditor::reduce(Id value, HloOpcode opcode, const Extents& reduced, double initial) {
  Extents extents;
  for (std::size_t d = 0; d < dimensions(value).size(); ++d) {
    bool is_reduced = false;
    for (std::int64_t r : reduced) is_reduced = is_reduced || r == static_cast<std::int64_t>(d);
    if (!is_reduced) extents.push_back(dimensions(value)[d]);
  }
  const ElementType type = shape(value).type;
  HloInstruction made =
      start(HloOpcode::kReduce, {value, scalar(type, initial)}, hlo::array_shape(type, extents));
  made.dimensions = reduced;
  made.called = {scalar_computation(opcode, type)};
  return append_instruction(std::move(made));
}

Id GraphEditor::apply_again(const HloInstruction& operation, const std::vector<Id>& operands,
                            const Extents& extents) {
  HloInstruction made = operation;
  made.operands = operands;
  made.shape = hlo::array_shape(operation.shape.type, extents);
  made.name = start(made.opcode, operands, made.shape).name;
  return append_instruction(std::move(made));
}

Id GraphEditor::reduce_again(const HloInstruction& reduction, Id value,
                             const Extents& dimensions_reduced) {
  HloInstruction like = reduction;
  like.dimensions = dimensions_reduced;
  const Extents whole = dimensions(value);
  Extents left;
  for (std::size_t d = 0; d < whole.size(); ++d) {
    if (!contains(dimensions_reduced, static_cast<std::int64_t>(d))) left.push_back(whole[d]);
  }
  return apply_again(like, {value, reduction.operands[1]}, left);
}

void GraphEditor::finish(Id value) {
  HloInstruction& old = entry().at(replaced_);
  HloInstruction made;
  made.id = replaced_;
  made.opcode = HloOpcode::kReshape;
  made.name = old.name;
  made.metadata = old.metadata;
  made.shape = hlo::array_shape(old.shape.type, old.shape.dimensions);
  made.operands = {value};
  old = std::move(made);
}

void GraphEditor::finish_tuple(const std::vector<Id>& values) {
  HloInstruction& old = entry().at(replaced_);
  HloInstruction made;
  made.id = replaced_;
  made.opcode = HloOpcode::kTuple;
  made.name = old.name;
  made.metadata = old.metadata;
  made.shape = old.shape;
  made.operands = values;
  old = std::move(made);
}

bool rewrite_everywhere(
    hlo::Module& module,
    const std::function<bool(const hlo::Computation&, const hlo::HloInstruction&)>& takes,
    const std::function<void(GraphEditor&, const hlo::HloInstruction&)>& rewrite) {
  const auto computations = static_cast<hlo::ComputationId>(module.computations.size());
  bool found_any = false;
  for (hlo::ComputationId c = 0; c < computations; ++c) {
    GraphEditor edit(module, c);
    const std::size_t count = module.computation(c).instructions.size();
    bool found = false;
    for (std::size_t i = 0; i < count; ++i) {
      const hlo::Computation& code = module.computation(c);
      if (!takes(code, code.instructions[i])) continue;
      const hlo::HloInstruction given = code.instructions[i];
      edit.stand_for(given.id);
      rewrite(edit, given);
      found = true;
    }
    if (found) tidy(module.computations[static_cast<std::size_t>(c)]);
    found_any = found_any || found;
  }
  return found_any;
}

}  // namespace tpu::compiler
