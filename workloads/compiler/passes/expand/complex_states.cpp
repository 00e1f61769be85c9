#include "workloads/compiler/passes/expand/complex_states.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/simplify/simplify.h"
#include "workloads/compiler/passes/unique_names.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::ComputationId;
using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;
using hlo::Shape;

namespace {

class ComplexStates {
 public:
  explicit ComplexStates(hlo::Module& module) : module_(module) {}

  void run() {
    for (const Computation& each : module_.computations) {
      for (const HloInstruction& instruction : each.instructions) {
        for (const ComputationId called : instruction.called) ++callers_[called];
      }
    }
    for (std::size_t c = 0; c < module_.computations.size(); ++c) {
      const auto own = static_cast<ComputationId>(c);
      for (std::size_t i = 0; i < code(own).instructions.size(); ++i) {
        if (code(own).instructions[i].opcode == HloOpcode::kWhile)
          visit(own, static_cast<InstructionId>(i));
      }
    }
    for (const ComputationId changed : changed_) tidy(code(changed));
  }

 private:
  Computation& code(ComputationId id) { return module_.computations[static_cast<std::size_t>(id)]; }
  void visit(ComputationId own, InstructionId id);
  bool hands_on_elements(ComputationId own, InstructionId source);
  InstructionId with_parts(ComputationId own, InstructionId tuple);
  void read_parts(ComputationId own, InstructionId source);

  hlo::Module& module_;
  std::map<ComputationId, int> callers_;
  std::set<ComputationId> changed_;
  std::vector<std::int64_t> complex_;  ///< Elements of the state at hand.
  Shape state_;                        ///< With parts: the imaginary ones behind all others.
};

Shape part_of(const Shape& numbers) {
  return hlo::array_shape(ElementType::kF32, numbers.dimensions);
}

bool has_complex_elements(const Shape& state) {
  return std::any_of(state.elements.begin(), state.elements.end(), [](const Shape& element) {
    return !element.is_tuple() && element.type == ElementType::kC64;
  });
}

/// Whether everything that uses a tuple takes an element of it.
bool ComplexStates::hands_on_elements(ComputationId own, InstructionId source) {
  if (code(own).root == source) return false;
  const std::vector<InstructionId> users = users_of(code(own))[static_cast<std::size_t>(source)];
  return std::all_of(users.begin(), users.end(), [&](InstructionId user) {
    return code(own).at(user).opcode == HloOpcode::kGetTupleElement;
  });
}

void ComplexStates::visit(ComputationId own, InstructionId id) {
  const HloInstruction loop = code(own).at(id);
  complex_.clear();
  state_ = loop.shape;
  for (std::size_t i = 0; i < loop.shape.elements.size(); ++i) {
    const Shape& element = loop.shape.elements[i];
    if (element.is_tuple() || element.type != ElementType::kC64) continue;
    complex_.push_back(static_cast<std::int64_t>(i));
    state_.elements[i] = part_of(element);
    state_.elements.push_back(part_of(element));
  }
  if (complex_.empty() || !hands_on_elements(own, id) ||
      code(own).at(loop.operands[0]).opcode != HloOpcode::kTuple ||
      code(loop.called[0]).at(code(loop.called[0]).root).opcode != HloOpcode::kTuple) {
    return;
  }
  for (const ComputationId called : loop.called) {
    const std::vector<InstructionId> parameters = code(called).parameters();
    if (callers_[called] != 1 || !hands_on_elements(called, parameters.at(0))) return;
  }
  const InstructionId begin = with_parts(own, loop.operands[0]);
  code(own).at(id).operands[0] = begin;
  code(own).at(id).shape = state_;
  read_parts(own, id);
  for (const ComputationId called : loop.called) {
    const InstructionId parameter = code(called).parameters().at(0);
    code(called).at(parameter).shape = state_;
    read_parts(called, parameter);
  }
  Computation& body = code(loop.called[0]);
  const InstructionId end = with_parts(loop.called[0], body.root);
  body.root = end;
}

/// The tuple with real parts in place of complex numbers, and imaginary parts at its end.
InstructionId ComplexStates::with_parts(ComputationId own, InstructionId tuple) {
  HloInstruction made = code(own).at(tuple);
  const auto part = [&](std::int64_t element, HloOpcode opcode) {
    const InstructionId numbers = code(own).at(tuple).operands[static_cast<std::size_t>(element)];
    HloInstruction taken;
    taken.opcode = opcode;
    taken.operands = {numbers};
    taken.shape = part_of(code(own).at(numbers).shape);
    taken.name = made.name + "." + std::string(hlo::to_string(opcode));
    taken.metadata = made.metadata;
    return append(code(own), std::move(taken));
  };
  for (const std::int64_t element : complex_) {
    made.operands[static_cast<std::size_t>(element)] = part(element, HloOpcode::kReal);
    made.operands.push_back(part(element, HloOpcode::kImag));
  }
  made.shape = state_;
  changed_.insert(own);
  return append(code(own), std::move(made));
}

/// What takes complex numbers of the state takes both parts.
void ComplexStates::read_parts(ComputationId own, InstructionId source) {
  const std::vector<InstructionId> users = users_of(code(own))[static_cast<std::size_t>(source)];
  const auto others = static_cast<std::int64_t>(state_.elements.size() - complex_.size());
  for (const InstructionId user : users) {
    const HloInstruction whole = code(own).at(user);
    const auto found = std::find(complex_.begin(), complex_.end(), whole.tuple_index);
    if (found == complex_.end()) continue;
    std::vector<InstructionId> parts;
    for (const std::int64_t index : {whole.tuple_index, others + (found - complex_.begin())}) {
      HloInstruction part = whole;
      part.tuple_index = index;
      part.shape = part_of(whole.shape);
      parts.push_back(append(code(own), std::move(part)));
    }
    HloInstruction& numbers = code(own).at(user);
    numbers.opcode = HloOpcode::kComplex;
    numbers.operands = parts;
    numbers.tuple_index = 0;
  }
  changed_.insert(own);
}

/// A result of the entry that is another operation's tuple becomes a tuple of its elements, which
/// the host has in another form.
void take_root_apart(Computation& entry) {
  const HloInstruction root = entry.at(entry.root);
  const std::vector<Shape>& elements = root.shape.elements;
  const bool has_wide = std::any_of(elements.begin(), elements.end(), [](const Shape& element) {
    return element.type == ElementType::kC64 || element.type == ElementType::kU64;
  });
  if (!has_wide || root.opcode == HloOpcode::kTuple) return;
  HloInstruction tuple;
  tuple.opcode = HloOpcode::kTuple;
  tuple.name = root.name + ".results";
  tuple.shape = root.shape;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    HloInstruction element;
    element.opcode = HloOpcode::kGetTupleElement;
    element.name = root.name + ".result." + std::to_string(i);
    element.operands = {root.id};
    element.tuple_index = static_cast<std::int64_t>(i);
    element.shape = elements[i];
    tuple.operands.push_back(append(entry, std::move(element)));
  }
  entry.root = append(entry, std::move(tuple));
}

}  // namespace

void split_complex_states(hlo::Module& module) {
  take_root_apart(module.entry_computation());
  bool is_carried = false;
  for (const Computation& each : module.computations) {
    for (const HloInstruction& instruction : each.instructions) {
      const bool is_loop = instruction.opcode == HloOpcode::kWhile;
      is_carried = is_carried || (is_loop && has_complex_elements(instruction.shape));
    }
  }
  if (!is_carried) return;
  // What is called in an iteration takes and gives whole numbers.
  flatten_calls_everywhere(module);
  ComplexStates(module).run();
  make_names_unique(module);
}

}  // namespace tpu::compiler
