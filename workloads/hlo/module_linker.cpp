#include "workloads/hlo/module_linker.h"

#include <algorithm>
#include <string>
#include <unordered_set>
#include <utility>

#include "sim/base/error.h"
#include "workloads/graph/shape_inference.h"

namespace tpu::hlo {

namespace {

std::size_t index(InstructionId id) { return static_cast<std::size_t>(id); }

bool in_order(const Computation& computation) {
  for (const HloInstruction& made : computation.instructions) {
    for (InstructionId operand : made.operands) {
      if (operand >= made.id) return false;
    }
  }
  return true;
}

}  // namespace

void ModuleLinker::link(std::vector<ComputationText> computations) {
  module_.computations.reserve(computations.size());
  bool complete = true;
  for (ComputationText& text : computations) {
    module_.computations.push_back(std::move(text.computation));
    complete = complete && text.is_complete();
  }
  name_computations();
  for (std::size_t i = 0; i < computations.size(); ++i) {
    Computation& computation = module_.computations[i];
    if (!complete) resolve(computations[i], computation);
    if (!in_order(computation)) sort(computations[i], computation);
  }
  infer_shapes(computations, callees_first());
}

void ModuleLinker::name_computations() {
  std::unordered_set<std::string> names;
  for (const Computation& computation : module_.computations) names.insert(computation.name);
  int number = 0;
  for (Computation& computation : module_.computations) {
    while (computation.name.empty()) {
      std::string name = "computation." + std::to_string(++number);
      if (names.insert(name).second) computation.name = std::move(name);
    }
  }
}

void ModuleLinker::resolve(ComputationText& text, Computation& computation) {
  const auto find = [&](std::string_view name, auto&& fail) {
    const auto found = text.by_name.find(name);
    if (found == text.by_name.end()) fail();
    return found->second;
  };
  for (const ComputationText::Operand& operand : text.operands) {
    computation.at(operand.user).operands[operand.place] = find(
        operand.name, [&] { cursor_.fail_at(operand.at, "an instruction of this computation"); });
  }
  for (const ComputationText::Predecessor& before : text.predecessors) {
    computation.at(before.user).control_predecessors.edit().push_back(find(before.name, [&] {
      cursor_.fail_in(before.name, "an instruction of this computation");
    }));
  }
  for (const ComputationText::Call& call : text.calls) {
    const auto found = by_name_.find(call.name);
    if (found == by_name_.end()) cursor_.fail_in(call.name, "a computation of this module");
    computation.at(call.user).called[call.place] = found->second;
  }
}

/// Puts operands before their users; refuses cycles. What can stand where it stands stays in the
/// order of the text.
void ModuleLinker::sort(ComputationText& text, Computation& computation) {
  const std::size_t count = computation.instructions.size();
  std::vector<InstructionId> order;
  std::vector<InstructionId> place(count, -1);
  std::vector<bool> open(count, false);
  std::vector<std::pair<InstructionId, std::size_t>> stack;
  for (std::size_t first = 0; first < count; ++first) {
    stack.emplace_back(static_cast<InstructionId>(first), 0);
    while (!stack.empty()) {
      auto& [id, next] = stack.back();
      const HloInstruction& made = computation.at(id);
      if (place[index(id)] >= 0) {
        stack.pop_back();
      } else if (next < made.operands.size()) {
        open[index(id)] = true;
        const InstructionId operand = made.operands[next++];
        if (place[index(operand)] >= 0) continue;
        if (open[index(operand)]) {
          throw WorkloadError("computation " + computation.name + ": instruction " +
                              computation.at(operand).name +
                              " is among its own operands: expected a graph without cycles");
        }
        stack.emplace_back(operand, 0);
      } else {
        place[index(id)] = static_cast<InstructionId>(order.size());
        order.push_back(id);
        stack.pop_back();
      }
    }
  }
  std::vector<HloInstruction> sorted;
  sorted.reserve(count);
  for (InstructionId old : order) {
    sorted.push_back(std::move(computation.at(old)));
    HloInstruction& made = sorted.back();
    made.id = place[index(old)];
    for (InstructionId& operand : made.operands) operand = place[index(operand)];
    made.renumber_predecessors([&](InstructionId id) { return place[index(id)]; });
  }
  computation.instructions = std::move(sorted);
  computation.root = place[index(computation.root)];
  for (ComputationText::Unshaped& unshaped : text.unshaped) {
    unshaped.instruction = place[index(unshaped.instruction)];
  }
  std::sort(text.unshaped.begin(), text.unshaped.end(),
            [](const auto& a, const auto& b) { return a.instruction < b.instruction; });
}

/// An order of the computations in which those that are called come first. A computation must not
/// call itself, not even through others.
std::vector<ComputationId> ModuleLinker::callees_first() const {
  enum class Mark : std::uint8_t { kNew, kOpen, kDone };
  std::vector<Mark> marks(module_.computations.size(), Mark::kNew);
  std::vector<std::pair<ComputationId, std::vector<ComputationId>>> stack;
  std::vector<ComputationId> order;
  const auto callees = [&](ComputationId id) {
    std::vector<ComputationId> found;
    for (const HloInstruction& made : module_.computation(id).instructions) {
      found.insert(found.end(), made.called.begin(), made.called.end());
    }
    return found;
  };
  for (std::size_t first = 0; first < marks.size(); ++first) {
    if (marks[first] != Mark::kNew) continue;
    marks[first] = Mark::kOpen;
    stack.emplace_back(static_cast<ComputationId>(first),
                       callees(static_cast<ComputationId>(first)));
    while (!stack.empty()) {
      auto& [id, rest] = stack.back();
      if (rest.empty()) {
        marks[static_cast<std::size_t>(id)] = Mark::kDone;
        order.push_back(id);
        stack.pop_back();
        continue;
      }
      const ComputationId next = rest.back();
      rest.pop_back();
      Mark& mark = marks[static_cast<std::size_t>(next)];
      if (mark == Mark::kOpen) {
        throw WorkloadError("computation " + module_.computation(next).name +
                            " calls itself: expected computations without recursion");
      }
      if (mark == Mark::kNew) {
        mark = Mark::kOpen;
        stack.emplace_back(next, callees(next));
      }
    }
  }
  return order;
}

void ModuleLinker::infer_shapes(const std::vector<ComputationText>& texts,
                                const std::vector<ComputationId>& order) {
  for (ComputationId id : order) {
    Computation& computation = module_.computations[static_cast<std::size_t>(id)];
    for (const ComputationText::Unshaped& unshaped : texts[static_cast<std::size_t>(id)].unshaped) {
      HloInstruction& made = computation.at(unshaped.instruction);
      std::optional<Shape> implied;
      try {
        // Inference reads a part of some shapes from the text: their type is then the operands'.
        made.shape = Shape();
        const bool has_type = !made.operands.empty() && made.opcode != HloOpcode::kConvert;
        made.shape.type =
            has_type ? computation.at(made.operands[0]).shape.type : ElementType::kCount;
        implied = infer_shape(module_, computation, made);
      } catch (const WorkloadError& error) {
        cursor_.fail_at(unshaped.at,
                        std::string("operands that imply a shape (") + error.what() + ")");
      }
      if (!implied || implied->type == ElementType::kCount) {
        cursor_.fail_at(unshaped.at, "a shape in front of this opcode");
      }
      made.shape = std::move(*implied);
    }
  }
}

}  // namespace tpu::hlo
