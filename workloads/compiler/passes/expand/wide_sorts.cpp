#include "workloads/compiler/passes/expand/wide_sorts.h"

#include <algorithm>
#include <array>
#include <map>

#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/graph_editor.h"

namespace tpu::compiler {

using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::Shape;

namespace {

using Id = GraphEditor::Id;
using TwoParts = std::array<Id, 2>;

bool has_parts(const Shape& shape) {
  return !shape.is_tuple() && (shape.type == ElementType::kC64 || shape.type == ElementType::kU64);
}

ElementType type_of_parts(ElementType type) {
  return type == ElementType::kC64 ? ElementType::kF32 : ElementType::kU32;
}

Id operation(GraphEditor& edit, HloOpcode opcode, const std::vector<Id>& operands,
             ElementType type) {
  return edit.append_instruction(
      edit.start(opcode, operands, hlo::array_shape(type, edit.dimensions(operands[0]))));
}

/// How far the high word stands above the low one.
Id bits_of_word(GraphEditor& edit, const GraphEditor::Extents& extents) {
  return edit.convert(edit.splat(ElementType::kU32, extents, 32), ElementType::kU64);
}

TwoParts parts_of(GraphEditor& edit, Id value) {
  const Shape shape = edit.shape(value);
  if (shape.type == ElementType::kC64) {
    return {operation(edit, HloOpcode::kReal, {value}, ElementType::kF32),
            operation(edit, HloOpcode::kImag, {value}, ElementType::kF32)};
  }
  const Id word = bits_of_word(edit, shape.dimensions);
  return {edit.convert(value, ElementType::kU32),
          edit.convert(edit.binary(HloOpcode::kShiftRightLogical, value, word), ElementType::kU32)};
}

Id whole_of(GraphEditor& edit, const TwoParts& parts, ElementType type) {
  if (type == ElementType::kC64) {
    return operation(edit, HloOpcode::kComplex, {parts[0], parts[1]}, type);
  }
  const Id word = bits_of_word(edit, edit.dimensions(parts[0]));
  const Id above = edit.binary(HloOpcode::kShiftLeft, edit.convert(parts[1], type), word);
  return edit.binary(HloOpcode::kOr, edit.convert(parts[0], type), above);
}

/// The comparison of two elements with the parts of each operand that has such, two numbers of
/// parameters for each.
class ComparisonOfParts {
 public:
  ComparisonOfParts(hlo::Module& module, hlo::ComputationId compared)
      : module_(module), old_(module.computation(compared)), made_(begin(module, old_.name)) {}

  hlo::ComputationId run() {
    std::vector<std::int64_t> first(old_.parameters().size() / 2 + 1, 0);
    for (std::size_t k = 0; k + 1 < first.size(); ++k) {
      const Shape& shape = old_.at(old_.parameters()[2 * k]).shape;
      first[k + 1] = first[k] + (has_parts(shape) ? 2 : 1);
    }
    for (const HloInstruction& instruction : old_.instructions) {
      if (instruction.opcode == HloOpcode::kParameter) {
        const auto number = static_cast<std::size_t>(instruction.parameter_number);
        take(instruction, first[number / 2], instruction.parameter_number % 2);
        continue;
      }
      const auto of =
          instruction.operands.empty() ? parts_.end() : parts_.find(instruction.operands[0]);
      if (of != parts_.end() && instruction.opcode == HloOpcode::kReal) {
        now_[instruction.id] = of->second[0];
      } else if (of != parts_.end() && instruction.opcode == HloOpcode::kImag) {
        now_[instruction.id] = of->second[1];
      } else {
        HloInstruction copy = instruction;
        for (Id& operand : copy.operands) operand = value(operand);
        now_[instruction.id] = edit().append_instruction(std::move(copy));
      }
    }
    module_.computations[static_cast<std::size_t>(made_)].root = value(old_.root);
    return made_;
  }

 private:
  static hlo::ComputationId begin(hlo::Module& module, const std::string& name) {
    hlo::Computation made;
    made.name = name + ".parts." + std::to_string(module.computations.size());
    module.computations.push_back(std::move(made));
    return static_cast<hlo::ComputationId>(module.computations.size() - 1);
  }
  GraphEditor edit() { return {module_, made_}; }
  /// Parameter `side` of a pair, from the `first` operand of the sort on.
  void take(const HloInstruction& parameter, std::int64_t first, std::int64_t side) {
    const bool is_wide = has_parts(parameter.shape);
    TwoParts parts{-1, -1};
    for (std::int64_t part = 0; part < (is_wide ? 2 : 1); ++part) {
      HloInstruction made = parameter;
      made.parameter_number = 2 * (first + part) + side;
      if (is_wide) {
        made.name += part == 0 ? ".first" : ".second";
        made.shape = hlo::array_shape(type_of_parts(parameter.shape.type), {});
      }
      parts[static_cast<std::size_t>(part)] = edit().append_instruction(std::move(made));
    }
    if (is_wide) {
      parts_[parameter.id] = parts;
    } else {
      now_[parameter.id] = parts[0];
    }
  }
  Id value(Id old) {
    const auto known = now_.find(old);
    if (known != now_.end()) return known->second;
    GraphEditor editor = edit();
    editor.stand_for(0);
    return now_[old] = whole_of(editor, parts_.at(old), old_.at(old).shape.type);
  }

  hlo::Module& module_;
  const hlo::Computation old_;
  hlo::ComputationId made_;
  std::map<Id, Id> now_;
  std::map<Id, TwoParts> parts_;
};

void split(hlo::Module& module, GraphEditor& edit, const HloInstruction& old) {
  HloInstruction sort = old;
  sort.operands.clear();
  sort.shape = {};
  sort.shape.type = ElementType::kTuple;
  for (Id operand : old.operands) {
    const Shape shape = edit.shape(operand);
    std::vector<Id> arrays{operand};
    if (has_parts(shape)) {
      const TwoParts parts = parts_of(edit, operand);
      arrays.assign(parts.begin(), parts.end());
    }
    for (Id array : arrays) {
      sort.operands.push_back(array);
      sort.shape.elements.push_back(
          hlo::array_shape(edit.shape(array).type, edit.dimensions(array)));
    }
  }
  sort.name += ".parts";
  sort.called = {ComparisonOfParts(module, old.called.at(0)).run()};
  const Id sorted = edit.append_instruction(std::move(sort));
  std::vector<Id> results;
  std::int64_t next = 0;
  const auto element = [&] {
    HloInstruction made =
        edit.start(HloOpcode::kGetTupleElement, {sorted},
                   edit.shape(sorted).elements.at(static_cast<std::size_t>(next)));
    made.tuple_index = next++;
    return edit.append_instruction(std::move(made));
  };
  for (Id operand : old.operands) {
    const Shape shape = edit.shape(operand);
    const Id first = element();
    results.push_back(has_parts(shape) ? whole_of(edit, {first, element()}, shape.type) : first);
  }
  old.shape.is_tuple() ? edit.finish_tuple(results) : edit.finish(results.at(0));
}

}  // namespace

void split_wide_sorts(hlo::Module& module) {
  const auto is_wide = [](const hlo::Computation& code, const HloInstruction& sort) {
    return sort.opcode == HloOpcode::kSort &&
           std::any_of(sort.operands.begin(), sort.operands.end(),
                       [&](Id operand) { return has_parts(code.at(operand).shape); });
  };
  const auto split_sort = [&](GraphEditor& edit, const HloInstruction& sort) {
    split(module, edit, sort);
  };
  if (rewrite_everywhere(module, is_wide, split_sort)) remove_unused_computations(module);
}

}  // namespace tpu::compiler
