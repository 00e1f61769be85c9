#include "workloads/compiler/passes/simplify/activation_masks.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "sim/base/contains.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/graph_editor.h"
#include "workloads/compiler/passes/simplify/constant_folding.h"

namespace tpu::compiler {

using hlo::ComparisonDirection;
using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;

namespace {

/// Readers of x that make its leaky rectifier: mask, product with the slope, select.
using LeakyRectifier = std::vector<InstructionId>;

bool is_order(ComparisonDirection direction) {
  return direction != ComparisonDirection::kEq && direction != ComparisonDirection::kNe;
}

class ActivationMasks {
 public:
  explicit ActivationMasks(hlo::Module& module)
      : entry_(module.entry_computation()), edit_(module) {}

  void run() {
    for_each_instruction([this](InstructionId x) { ask_result(x); });
    for_each_instruction([this](InstructionId value) { ask_narrow_form(value); });
  }

 private:
  const HloInstruction& at(InstructionId id) const { return entry_.at(id); }
  const std::vector<InstructionId>& users(InstructionId id) const {
    return users_[static_cast<std::size_t>(id)];
  }
  template <class Visit>
  void for_each_instruction(const Visit& visit) {
    users_ = users_of(entry_);
    const std::size_t count = users_.size();
    for (std::size_t i = 0; i < count; ++i) visit(static_cast<InstructionId>(i));
    tidy(entry_);
  }
  bool is_comparison_with_zero(InstructionId id, InstructionId x) const {
    return at(id).opcode == HloOpcode::kCompare && at(id).operands[0] == x &&
           splat_value(entry_, at(id).operands[1]) == 0.0;
  }
  bool is_positive(InstructionId id) const { return splat_value(entry_, id).value_or(0) > 0; }
  bool is_made_by_product(InstructionId x) const;
  std::optional<LeakyRectifier> rectifier(InstructionId x, InstructionId result) const;
  bool stands(InstructionId value) const;
  std::optional<InstructionId> narrow_form(InstructionId value) const;
  void replace_mask(InstructionId mask, InstructionId value,
                    const std::vector<InstructionId>& spared);
  void ask_result(InstructionId x);
  void ask_narrow_form(InstructionId value);

  hlo::Computation& entry_;
  GraphEditor edit_;
  std::vector<std::vector<InstructionId>> users_;  ///< Of the instructions that the module had.
};

/// A product, with broadcasts added or multiplied, that nothing else reads on its way to x.
bool ActivationMasks::is_made_by_product(InstructionId x) const {
  InstructionId value = x;
  while (at(value).opcode == HloOpcode::kAdd || at(value).opcode == HloOpcode::kMultiply) {
    const InstructionId a = at(value).operands[0], b = at(value).operands[1];
    if (at(a).opcode != HloOpcode::kBroadcast && at(b).opcode != HloOpcode::kBroadcast) {
      return false;
    }
    value = at(a).opcode == HloOpcode::kBroadcast ? b : a;
    if (users(value).size() != 1) return false;
  }
  return at(value).opcode == HloOpcode::kDot || at(value).opcode == HloOpcode::kConvolution;
}

std::optional<LeakyRectifier> ActivationMasks::rectifier(InstructionId x,
                                                         InstructionId result) const {
  const HloInstruction& select = at(result);
  if (select.opcode != HloOpcode::kSelect || select.operands[1] != x) return std::nullopt;
  const InstructionId mask = select.operands[0], scaled = select.operands[2];
  if (!is_comparison_with_zero(mask, x) || at(scaled).opcode != HloOpcode::kMultiply) {
    return std::nullopt;
  }
  const auto& factors = at(scaled).operands;
  const bool scales_x =
      (factors[0] == x && is_positive(factors[1])) || (factors[1] == x && is_positive(factors[0]));
  const ComparisonDirection direction = at(mask).direction;
  const bool is_upper =
      direction == ComparisonDirection::kGt || direction == ComparisonDirection::kGe;
  if (!is_upper || !scales_x || users(scaled).size() != 1) return std::nullopt;
  return LeakyRectifier{mask, scaled, result};
}

/// Whether something reads the value for which it has to stand in HBM.
bool ActivationMasks::stands(InstructionId value) const {
  return std::any_of(users(value).begin(), users(value).end(), [this](InstructionId user) {
    switch (at(user).opcode) {
      case HloOpcode::kDot:
      case HloOpcode::kConvolution:
      case HloOpcode::kReduceWindow:
      case HloOpcode::kPad:
      case HloOpcode::kReshape:
      case HloOpcode::kTranspose:
      case HloOpcode::kTuple:
        return true;
      default:
        return false;
    }
  });
}

/// The value as bf16, if that stands in HBM.
std::optional<InstructionId> ActivationMasks::narrow_form(InstructionId value) const {
  for (InstructionId user : users(value)) {
    const bool is_narrow =
        at(user).opcode == HloOpcode::kConvert && at(user).shape.type == ElementType::kBf16;
    if (is_narrow && stands(user)) return user;
  }
  return std::nullopt;
}

/// Readers of a comparison, but for some, read one of another value with zero.
void ActivationMasks::replace_mask(InstructionId mask, InstructionId value,
                                   const std::vector<InstructionId>& spared) {
  std::optional<InstructionId> other;
  for (InstructionId user : users(mask)) {
    if (contains(spared, user)) continue;
    if (!other) {
      edit_.stand_for(mask);
      other = edit_.compare(edit_.convert(value, ElementType::kF32), at(mask).operands[1],
                            at(mask).direction);
    }
    std::vector<InstructionId>& operands =
        entry_.instructions[static_cast<std::size_t>(user)].operands;
    std::replace(operands.begin(), operands.end(), mask, *other);
  }
}

void ActivationMasks::ask_result(InstructionId x) {
  if (at(x).shape.is_tuple() || at(x).shape.type != ElementType::kF32) return;
  std::optional<LeakyRectifier> inside;
  std::vector<InstructionId> masks;
  for (InstructionId user : users(x)) {
    if (is_comparison_with_zero(user, x)) {
      masks.push_back(user);
    } else if (std::optional<LeakyRectifier> found = rectifier(x, user)) {
      if (inside) return;
      inside = std::move(found);
    }
  }
  if (!inside || !is_made_by_product(x)) return;
  const bool is_private = std::all_of(users(x).begin(), users(x).end(), [&](InstructionId user) {
    return contains(*inside, user) || contains(masks, user);
  });
  const InstructionId result = inside->back();
  if (!is_private || (!stands(result) && !narrow_form(result))) return;
  for (InstructionId mask : masks) {
    if (is_order(at(mask).direction)) replace_mask(mask, result, *inside);
  }
}

/// Rounding keeps the sign of a number. Sums are made beside the value, they need no array of it.
void ActivationMasks::ask_narrow_form(InstructionId value) {
  if (at(value).shape.is_tuple() || at(value).shape.type != ElementType::kF32) return;
  const std::optional<InstructionId> narrow = narrow_form(value);
  if (!narrow) return;
  const bool is_private =
      std::all_of(users(value).begin(), users(value).end(), [&](InstructionId user) {
        return user == *narrow || at(user).opcode == HloOpcode::kReduce ||
               is_comparison_with_zero(user, value);
      });
  if (!is_private) return;
  for (InstructionId user : users(value)) {
    if (is_comparison_with_zero(user, value)) replace_mask(user, *narrow, {});
  }
}

}  // namespace

void read_masks_from_activations(hlo::Module& module) { ActivationMasks(module).run(); }

}  // namespace tpu::compiler
