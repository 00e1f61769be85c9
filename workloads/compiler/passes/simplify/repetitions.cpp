#include "workloads/compiler/passes/simplify/repetitions.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "sim/base/contains.h"
#include "workloads/compiler/ir/combining_operation.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/graph_editor.h"
#include "workloads/compiler/passes/simplify/constant_folding.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;

namespace {

using Id = GraphEditor::Id;
using Extents = GraphEditor::Extents;

/// Of fewer elements nothing is gained.
constexpr std::int64_t kFewestElements = 1024;

/// An array and the reshapes and broadcasts that repeat its elements, the last one first.
struct Repetition {
  Id source = -1;
  std::vector<Id> steps;
};

class RepetitionDelay {
 public:
  explicit RepetitionDelay(hlo::Module& module) : module_(module), edit_(module) {}

  bool run() {
    const std::size_t count = entry().instructions.size();
    for (std::size_t i = 0; i < count; ++i) {
      const HloInstruction instruction = entry().instructions[i];
      if (instruction.shape.is_tuple()) continue;
      if (hlo::is_elementwise(instruction.opcode)) {
        visit_operation(instruction);
      } else if (instruction.opcode == HloOpcode::kReduce) {
        visit_reduction(instruction);
      }
    }
    if (changed_) tidy(module_.computations[static_cast<std::size_t>(module_.entry)]);
    return changed_;
  }

 private:
  const Computation& entry() const { return module_.entry_computation(); }
  const HloInstruction& at(Id id) const { return entry().at(id); }
  std::optional<Repetition> repetition_of(Id id) const;
  bool are_alike(const Repetition& a, const Repetition& b) const;
  void visit_operation(const HloInstruction& operation);
  void visit_reduction(const HloInstruction& reduction);

  hlo::Module& module_;
  GraphEditor edit_;
  bool changed_ = false;
};

/// Down to what the first broadcast spreads; none where nothing is repeated, or where the kernel of
/// what reads it spreads it as it is.
std::optional<Repetition> RepetitionDelay::repetition_of(Id id) const {
  Repetition found, here;
  bool has_reshape = false;
  for (; at(id).opcode == HloOpcode::kReshape || at(id).opcode == HloOpcode::kBroadcast;
       id = at(id).operands[0]) {
    const bool is_reshape = at(id).opcode == HloOpcode::kReshape;
    if (is_reshape && at(id).shape.dimensions == at(at(id).operands[0]).shape.dimensions) continue;
    here.steps.push_back(id);
    has_reshape |= is_reshape;
    if (is_reshape) continue;
    here.source = at(id).operands[0];
    found = here;
  }
  if (found.source < 0 || !has_reshape) return std::nullopt;
  if (at(found.source).shape.element_count() < kFewestElements) return std::nullopt;
  return found;
}

bool RepetitionDelay::are_alike(const Repetition& a, const Repetition& b) const {
  return at(a.source).shape.dimensions == at(b.source).shape.dimensions &&
         std::equal(a.steps.begin(), a.steps.end(), b.steps.begin(), b.steps.end(),
                    [this](Id first, Id second) {
                      return at(first).opcode == at(second).opcode &&
                             at(first).shape.dimensions == at(second).shape.dimensions &&
                             at(first).dimensions == at(second).dimensions;
                    });
}

void RepetitionDelay::visit_operation(const HloInstruction& operation) {
  std::optional<Repetition> like;
  std::vector<std::optional<double>> numbers;
  std::vector<Id> sources;
  for (const Id operand : operation.operands) {
    numbers.push_back(splat_value(entry(), operand));
    sources.push_back(-1);
    if (numbers.back()) continue;
    const std::optional<Repetition> repetition = repetition_of(operand);
    if (!repetition || (like && !are_alike(*like, *repetition))) return;
    like = repetition;
    sources.back() = repetition->source;
  }
  if (!like || operation.shape.element_count() < 2 * at(like->source).shape.element_count()) return;
  edit_.stand_for(operation.id);
  const Extents extents = edit_.dimensions(like->source);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (!numbers[i]) continue;
    sources[i] = edit_.splat(at(operation.operands[i]).shape.type, extents, *numbers[i]);
  }
  Id value = edit_.apply_again(operation, sources, extents);
  for (auto step = like->steps.rbegin(); step != like->steps.rend(); ++step) {
    const Extents whole = edit_.dimensions(*step), places = at(*step).dimensions;
    value = at(*step).opcode == HloOpcode::kReshape ? edit_.reshape(value, whole)
                                                    : edit_.broadcast(value, whole, places);
  }
  edit_.finish(value);
  changed_ = true;
}

/// Sums along dimensions that a broadcast has made, of f32 or integers from 0 on.
void RepetitionDelay::visit_reduction(const HloInstruction& reduction) {
  const HloOpcode combine = combining_operation(module_.computation(reduction.called.at(0)));
  const bool is_sum = combine == HloOpcode::kAdd;
  const bool is_extreme = combine == HloOpcode::kMaximum || combine == HloOpcode::kMinimum;
  if (!is_sum && !is_extreme) return;
  if (is_sum && splat_value(entry(), reduction.operands[1]) != 0.0) return;
  const Extents whole = edit_.dimensions(reduction.operands[0]);
  Id spread = reduction.operands[0];
  while (at(spread).opcode == HloOpcode::kReshape) spread = at(spread).operands[0];
  if (at(spread).opcode != HloOpcode::kBroadcast || at(spread).shape.dimensions != whole) return;
  const Extents places = at(spread).dimensions;
  const Id source = at(spread).operands[0];
  if (at(source).shape.element_count() < kFewestElements) return;
  std::int64_t repeated = 1;
  Extents along;  // Dimensions of what was spread.
  for (const std::int64_t d : reduction.dimensions) {
    const auto place = std::find(places.begin(), places.end(), d);
    if (place == places.end()) {
      repeated *= whole[static_cast<std::size_t>(d)];
    } else {
      along.push_back(place - places.begin());
    }
  }
  // Without a sum of its own an extreme is that of the element and the initial value.
  if (repeated == 1 || (is_extreme && along.empty())) return;
  edit_.stand_for(reduction.id);
  Id value = source;
  if (!along.empty()) value = edit_.reduce_again(reduction, source, along);
  if (is_sum) value = edit_.binary_with(HloOpcode::kMultiply, value, double(repeated));
  // Where the dimensions that are left of the source stand in the result.
  Extents left;
  for (std::size_t d = 0; d < places.size(); ++d) {
    if (contains(along, static_cast<std::int64_t>(d))) continue;
    const auto before = std::count_if(reduction.dimensions.begin(), reduction.dimensions.end(),
                                      [&](std::int64_t gone) { return gone < places[d]; });
    left.push_back(places[d] - before);
  }
  const Extents result = reduction.shape.dimensions;
  if (edit_.dimensions(value) != result) value = edit_.broadcast(value, result, left);
  edit_.finish(value);
  changed_ = true;
}

}  // namespace

void delay_repetitions(hlo::Module& module) {
  constexpr int kRounds = 16;  // A sum of what was repeated may be repeated again.
  for (int round = 0; round < kRounds && RepetitionDelay(module).run(); ++round) {
  }
}

}  // namespace tpu::compiler
