#include "workloads/compiler/passes/simplify/transpose_mover.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/graph_editor.h"

namespace tpu::compiler {

using hlo::HloInstruction;
using hlo::HloOpcode;

namespace {

using Id = GraphEditor::Id;
using Extents = GraphEditor::Extents;

class TransposeMover {
 public:
  explicit TransposeMover(hlo::Module& module)
      : entry_(module.entry_computation()), edit_(module), users_(users_of(entry_)) {}

  void run() {
    const std::size_t count = entry_.instructions.size();
    before_.resize(count);
    made_by_product_.resize(count);
    for (std::size_t i = 0; i < count; ++i) visit(static_cast<Id>(i));
    if (entry_.instructions.size() > count) tidy(entry_);
  }

 private:
  /// A value as the transpose of another one.
  struct Transposed {
    Id value = -1;
    Extents permutation;
  };

  const HloInstruction& at(Id id) const { return entry_.at(id); }
  const Transposed& before(Id id) const { return before_[static_cast<std::size_t>(id)]; }
  bool is_transposed_dot(const HloInstruction& instruction) const;
  bool is_reduced(Id value) const;
  bool goes_along(Id operand, const Transposed& like) const;
  Id form_of(Id operand, const Transposed& like);
  void visit(Id id);

  hlo::Computation& entry_;
  GraphEditor edit_;
  std::vector<std::vector<Id>> users_;
  std::vector<Transposed> before_;
  std::vector<bool> made_by_product_;  ///< And by operations behind it, in its order.
};

/// A dot of no batch that is transposed for elementwise operations, products and results alone.
/// Reductions have kernels of their own, with what stands before them: these would be torn apart.
bool TransposeMover::is_transposed_dot(const HloInstruction& instruction) const {
  if (instruction.opcode != HloOpcode::kTranspose) return false;
  const Id dot = instruction.operands[0];
  return at(dot).opcode == HloOpcode::kDot && at(dot).dot->lhs_batch.empty() &&
         dot != entry_.root && users_[static_cast<std::size_t>(dot)].size() == 1 &&
         !is_reduced(instruction.id);
}

bool TransposeMover::is_reduced(Id value) const {
  std::set<Id> seen{value};
  std::vector<Id> work{value};
  while (!work.empty()) {
    const Id next = work.back();
    work.pop_back();
    for (const Id user : users_[static_cast<std::size_t>(next)]) {
      if (at(user).opcode == HloOpcode::kReduce) return true;
      if (hlo::is_elementwise(at(user).opcode) && seen.insert(user).second) work.push_back(user);
    }
  }
  return false;
}

/// Whether an operand may stand in the dot's order. What another product makes stays behind it.
bool TransposeMover::goes_along(Id operand, const Transposed& like) const {
  const hlo::Shape& shape = at(operand).shape;
  if (shape.is_tuple()) return false;
  if (shape.rank() == 0 || before(operand).permutation == like.permutation) return true;
  return shape.rank() == static_cast<std::int64_t>(like.permutation.size()) &&
         before(operand).value < 0 && !made_by_product_[static_cast<std::size_t>(operand)];
}

/// The operand in the dot's order; scalars as they are.
Id TransposeMover::form_of(Id operand, const Transposed& like) {
  const HloInstruction value = at(operand);
  if (value.shape.rank() == 0) return operand;
  if (before(operand).value >= 0) return before(operand).value;
  Extents inverse(like.permutation.size());
  for (std::size_t d = 0; d < inverse.size(); ++d) {
    inverse[static_cast<std::size_t>(like.permutation[d])] = static_cast<std::int64_t>(d);
  }
  if (value.opcode != HloOpcode::kBroadcast) return edit_.transpose(operand, inverse);
  Extents places, extents(inverse.size());
  for (const std::int64_t place : value.dimensions) {
    places.push_back(like.permutation[static_cast<std::size_t>(place)]);
  }
  for (std::size_t d = 0; d < inverse.size(); ++d) {
    extents[static_cast<std::size_t>(like.permutation[d])] = value.shape.dimensions[d];
  }
  if (!std::is_sorted(places.begin(), places.end())) return edit_.transpose(operand, inverse);
  return edit_.broadcast(value.operands[0], extents, places);
}

void TransposeMover::visit(Id id) {
  const HloInstruction given = at(id);
  const auto place = static_cast<std::size_t>(id);
  if (is_transposed_dot(given)) {
    before_[place] = {given.operands[0], given.dimensions};
    return;
  }
  made_by_product_[place] =
      given.opcode == HloOpcode::kDot || given.opcode == HloOpcode::kConvolution;
  if (!hlo::is_elementwise(given.opcode) || given.shape.is_tuple()) return;
  const auto first = std::find_if(given.operands.begin(), given.operands.end(),
                                  [&](Id operand) { return before(operand).value >= 0; });
  if (first == given.operands.end()) {
    made_by_product_[place] = std::any_of(
        given.operands.begin(), given.operands.end(),
        [&](Id operand) { return made_by_product_[static_cast<std::size_t>(operand)]; });
    return;
  }
  const Transposed like = before(*first);
  if (!std::all_of(given.operands.begin(), given.operands.end(),
                   [&](Id operand) { return goes_along(operand, like); })) {
    return;
  }
  edit_.stand_for(id);
  HloInstruction form = given;
  for (Id& operand : form.operands) operand = form_of(operand, like);
  form.shape = hlo::array_shape(given.shape.type, edit_.dimensions(like.value));
  form.name += ".product";
  const Id made = edit_.append_instruction(std::move(form));
  before_[place] = {made, like.permutation};
  edit_.finish(edit_.transpose(made, like.permutation));
}

}  // namespace

void delay_transposes(hlo::Module& module) { TransposeMover(module).run(); }

}  // namespace tpu::compiler
