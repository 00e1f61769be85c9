#include "workloads/compiler/passes/layout/generated_values.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "workloads/compiler/cost.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/dimension_order.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/expand/widen.h"
#include "workloads/compiler/passes/layout/convolution_layouts.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;
using hlo::Shape;

namespace {

class GeneratedValues {
 public:
  GeneratedValues(Computation& computation, const Target& target)
      : computation_(computation), target_(target), users_(users_of(computation)) {
    for (const HloInstruction& instruction : computation.instructions) {
      is_generated_.push_back(is_generated(instruction));
    }
  }

  void run() {
    const std::size_t count = is_generated_.size();
    for (std::size_t i = 0; i < count; ++i) {
      const InstructionId id = static_cast<InstructionId>(i);
      if (is_generated_[i] && is_read_by_others(id) && id != computation_.root) visit(id);
    }
    tidy(computation_);
  }

 private:
  HloInstruction& at(InstructionId id) { return computation_.at(id); }
  bool generated(InstructionId id) const { return is_generated_[static_cast<std::size_t>(id)]; }

  bool is_generated(const HloInstruction& instruction) const {
    if (instruction.shape.is_tuple() || instruction.shape.rank() < 2) return false;
    const std::vector<InstructionId>& operands = instruction.operands;
    if (instruction.opcode == HloOpcode::kIota) return true;
    if (instruction.opcode == HloOpcode::kBroadcast) {
      return computation_.at(operands[0]).shape.rank() == 0;
    }
    return hlo::is_elementwise(instruction.opcode) &&
           std::all_of(operands.begin(), operands.end(), [this](InstructionId operand) {
             return computation_.at(operand).shape.rank() == 0 || generated(operand);
           });
  }

  bool is_read_by_others(InstructionId id) const {
    const std::vector<InstructionId>& users = users_[static_cast<std::size_t>(id)];
    return std::any_of(users.begin(), users.end(),
                       [this](InstructionId user) { return !generated(user); });
  }

  /// The value and what it is made of, operands first.
  std::vector<InstructionId> expression_of(InstructionId id) {
    std::set<InstructionId> seen{id};
    std::vector<InstructionId> work{id};
    while (!work.empty()) {
      const InstructionId next = work.back();
      work.pop_back();
      for (InstructionId operand : at(next).operands) {
        if (generated(operand) && seen.insert(operand).second) work.push_back(operand);
      }
    }
    return {seen.begin(), seen.end()};
  }

  /// Of the parts of an expression, those that others need, too: they are made once more.
  std::vector<bool> shared_of(const std::vector<InstructionId>& expression) const {
    std::vector<bool> shared(expression.size(), false);
    for (std::size_t i = expression.size() - 1; i-- > 0;) {
      const std::vector<InstructionId>& users = users_[static_cast<std::size_t>(expression[i])];
      shared[i] = std::any_of(users.begin(), users.end(), [&](InstructionId user) {
        const auto found = std::lower_bound(expression.begin(), expression.end(), user);
        return found == expression.end() || *found != user ||
               shared[static_cast<std::size_t>(found - expression.begin())];
      });
    }
    return shared;
  }

  void visit(InstructionId id) {
    const Shape padded = stored_shape(at(id).shape);
    const Shape dense = in_order(padded, densest_order(padded));
    if (registers_of(dense) >= registers_of(padded)) return;
    const std::vector<InstructionId> expression = expression_of(id);
    const std::vector<bool> shared = shared_of(expression);
    double spared = 0;
    for (std::size_t i = 0; i < expression.size(); ++i) {
      const double before = shared[i] ? 0 : registers_of(padded);
      spared += vector_cycles(at(expression[i]).opcode) * (before - registers_of(dense));
    }
    const double moved = static_cast<double>(dense.padded_bytes() + padded.padded_bytes()) /
                         target_.hbm_bytes_per_cycle;
    if (spared <= 2 * kKernelCycles + moved + move_cycles(dense, padded, target_)) return;
    make_dense(id, expression, dense.layout.minor_to_major);
  }

  /// What others read becomes a copy.
  void make_dense(InstructionId id, const std::vector<InstructionId>& expression,
                  const std::vector<std::int64_t>& minor_to_major) {
    const Shape shape = at(id).shape;
    std::vector<InstructionId> made(expression.size());
    for (std::size_t i = 0; i < expression.size(); ++i) {
      HloInstruction each = at(expression[i]);
      each.name += ".dense";
      each.shape.layout = tiled_layout(each.shape.type, minor_to_major);
      for (InstructionId& operand : each.operands) {
        const auto found = std::lower_bound(expression.begin(), expression.end(), operand);
        if (found == expression.end() || *found != operand) continue;
        operand = made[static_cast<std::size_t>(found - expression.begin())];
      }
      made[i] = append(computation_, std::move(each));
    }
    HloInstruction copy;
    copy.id = id;
    copy.opcode = HloOpcode::kCopy;
    copy.name = at(id).name;
    copy.metadata = at(id).metadata;
    copy.shape = shape;
    copy.operands = {made.back()};
    at(id) = std::move(copy);
  }

  Computation& computation_;
  const Target& target_;
  std::vector<std::vector<InstructionId>> users_;
  std::vector<bool> is_generated_;
};

}  // namespace

void generate_in_dense_orders(Computation& computation, const Target& target) {
  GeneratedValues(computation, target).run();
}

}  // namespace tpu::compiler
