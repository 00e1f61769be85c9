#include "workloads/compiler/passes/simplify/precision.h"

#include <algorithm>
#include <vector>

#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/expand/convolution_steps.h"
#include "workloads/compiler/passes/expand/operand_precision.h"
#include "workloads/compiler/passes/simplify/constant_folding.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;

namespace {

bool is_product(HloOpcode opcode) {
  return opcode == HloOpcode::kDot || opcode == HloOpcode::kConvolution;
}

class Precision {
 public:
  explicit Precision(Computation& entry)
      : entry_(entry),
        users_(users_of(entry)),
        count_(entry.instructions.size()),
        carries_(count_, false),
        narrow_(count_, -1) {}

  void run() {
    find_carriers();
    drop_carriers_of_wide_values();
    for (std::size_t i = 0; i < count_; ++i) narrow(static_cast<InstructionId>(i));
    tidy(entry_);
  }

 private:
  HloInstruction& at(InstructionId id) { return entry_.at(id); }
  const std::vector<InstructionId>& users(InstructionId id) const {
    return users_[static_cast<std::size_t>(id)];
  }
  bool carries(InstructionId id) const { return carries_[static_cast<std::size_t>(id)]; }
  bool is_read_narrow(InstructionId user) { return rounds(at(user)) || carries(user); }
  bool rounds(const HloInstruction& product) const;
  std::vector<std::size_t> arrays_of(const HloInstruction& carrier) const;
  int dots_behind(InstructionId id);
  bool is_made_by_kernel(InstructionId id);
  int moves_behind(InstructionId id);
  bool is_mask(InstructionId user, InstructionId value);
  bool may_be_narrow(InstructionId id);
  bool may_be_joined_narrow(InstructionId id);
  void find_carriers();
  void drop_carriers_of_wide_values();
  void narrow(InstructionId id);
  InstructionId converted(InstructionId id);

  Computation& entry_;
  std::vector<std::vector<InstructionId>> users_;
  std::size_t count_;          ///< Instructions that the module came with.
  std::vector<bool> carries_;  ///< Operations that move elements on their way to products alone.
  std::vector<InstructionId> narrow_;  ///< Of each value: its narrow form.
};

bool moves_elements(HloOpcode opcode) {
  switch (opcode) {
    case HloOpcode::kReshape:
    case HloOpcode::kTranspose:
    case HloOpcode::kSlice:
    case HloOpcode::kPad:
    case HloOpcode::kConcatenate:
    case HloOpcode::kReverse:
      return true;
    default:
      return false;
  }
}

/// Operands that are arrays: all but the padding value.
std::vector<std::size_t> Precision::arrays_of(const HloInstruction& carrier) const {
  std::vector<std::size_t> places{0};
  if (carrier.opcode != HloOpcode::kConcatenate) return places;
  for (std::size_t i = 1; i < carrier.operands.size(); ++i) places.push_back(i);
  return places;
}

void Precision::find_carriers() {
  for (std::size_t i = count_; i-- > 0;) {
    const InstructionId id = static_cast<InstructionId>(i);
    const HloInstruction& value = at(id);
    carries_[i] = moves_elements(value.opcode) && value.shape.type == ElementType::kF32 &&
                  value.shape.rank() >= 2 && id != entry_.root && !users(id).empty() &&
                  std::all_of(users(id).begin(), users(id).end(),
                              [this](InstructionId user) { return is_read_narrow(user); });
  }
}

/// Products of the MXUs round their operands; depthwise convolutions are the vector unit's, in f32.
bool Precision::rounds(const HloInstruction& product) const {
  if (!is_product(product.opcode) || asks_for_precision(product)) return false;
  return product.opcode == HloOpcode::kDot ||
         !is_depthwise(entry_.at(product.operands[0]).shape, product);
}

int Precision::dots_behind(InstructionId id) {
  int dots = 0;
  for (InstructionId user : users(id)) dots += is_read_narrow(user) ? 1 : 0;
  return dots;
}

/// True for matrices of f32 whose kernel rounds on the way out.
bool Precision::is_made_by_kernel(InstructionId id) {
  const HloInstruction& value = at(id);
  if (value.shape.is_tuple() || value.shape.type != ElementType::kF32 || value.shape.rank() < 2) {
    return false;
  }
  return id != entry_.root && (hlo::is_elementwise(value.opcode) || is_product(value.opcode) ||
                               value.opcode == HloOpcode::kBroadcast);
}

/// A comparison with zero, which reads the narrow form as well (`activation_masks.h`).
bool Precision::is_mask(InstructionId user, InstructionId value) {
  return at(user).opcode == HloOpcode::kCompare && at(user).operands[0] == value &&
         splat_value(entry_, at(user).operands[1]) == 0.0;
}

/// Kernels that move a value, one behind the other, on its way to products. Which transpositions
/// are none is known when layouts are.
int Precision::moves_behind(InstructionId id) {
  int most = 0;
  for (InstructionId user : users(id)) {
    if (!carries(user)) continue;
    const bool is_free =
        at(user).opcode == HloOpcode::kReshape || at(user).opcode == HloOpcode::kTranspose;
    most = std::max(most, moves_behind(user) + (is_free ? 0 : 1));
  }
  return most;
}

/// Whether a value that is no carrier has a narrow form. A kernel that rounds a parameter reads it
/// once more: that pays where several move it then.
bool Precision::may_be_narrow(InstructionId id) {
  if (at(id).opcode == HloOpcode::kParameter) {
    const bool is_matrix = at(id).shape.type == ElementType::kF32 && at(id).shape.rank() >= 2;
    return is_matrix && moves_behind(id) >= 2 &&
           std::all_of(users(id).begin(), users(id).end(),
                       [this](InstructionId user) { return carries(user); });
  }
  if (!is_made_by_kernel(id)) return false;
  const int dots = dots_behind(id);
  const bool only_sums =
      std::all_of(users(id).begin(), users(id).end(), [this, id](InstructionId user) {
        return is_read_narrow(user) || at(user).opcode == HloOpcode::kReduce || is_mask(user, id);
      });
  return dots >= 2 || (dots == 1 && only_sums);
}

/// Whether a part of a narrow concatenation may be written beside its wide form: the concatenation
/// reads as many bytes fewer, and writes fewer. That counts where the array is large; a small one
/// takes the time of its kernel, and single rows and columns of bf16 take more steps.
bool Precision::may_be_joined_narrow(InstructionId id) {
  constexpr std::int64_t kLarge = 1 << 17;  ///< Elements.
  return is_made_by_kernel(id) &&
         std::any_of(users(id).begin(), users(id).end(), [this](InstructionId user) {
           return carries(user) && at(user).opcode == HloOpcode::kConcatenate &&
                  at(user).shape.element_count() >= kLarge;
         });
}

/// What carries a value that has no narrow form stays wide, and so does what goes with it.
void Precision::drop_carriers_of_wide_values() {
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = 0; i < count_; ++i) {
      const InstructionId id = static_cast<InstructionId>(i);
      if (!carries_[i]) continue;
      bool stays = std::all_of(users(id).begin(), users(id).end(),
                               [this](InstructionId user) { return is_read_narrow(user); });
      for (std::size_t place : arrays_of(at(id))) {
        const InstructionId operand = at(id).operands[place];
        stays =
            stays && (carries(operand) || may_be_narrow(operand) || may_be_joined_narrow(operand));
      }
      if (stays) continue;
      carries_[i] = false;
      changed = true;
    }
  }
}

InstructionId Precision::converted(InstructionId id) {
  if (carries(id)) return id;
  InstructionId& form = narrow_[static_cast<std::size_t>(id)];
  if (form >= 0) return form;
  HloInstruction convert;
  convert.opcode = HloOpcode::kConvert;
  convert.name = at(id).name + ".bf16";
  convert.operands = {id};
  convert.shape = hlo::array_shape(ElementType::kBf16, at(id).shape.dimensions);
  convert.metadata = at(id).metadata;
  return form = append(entry_, std::move(convert));
}

void Precision::narrow(InstructionId id) {
  if (carries(id)) {
    at(id).shape = hlo::array_shape(ElementType::kBf16, at(id).shape.dimensions);
    for (std::size_t place : arrays_of(at(id))) {
      const InstructionId operand = converted(at(id).operands[place]);
      at(id).operands[place] = operand;
    }
    if (at(id).opcode == HloOpcode::kPad) {
      HloInstruction convert;
      convert.opcode = HloOpcode::kConvert;
      convert.name = at(id).name + ".padding";
      convert.operands = {at(id).operands[1]};
      convert.shape = hlo::array_shape(ElementType::kBf16, {});
      const InstructionId padding = append(entry_, std::move(convert));
      at(id).operands[1] = padding;
    }
    return;
  }
  if (!is_read_narrow(id)) return;
  for (std::size_t i = 0; i < 2; ++i) {
    const InstructionId operand = at(id).operands[i];
    if (!carries(operand) && may_be_narrow(operand)) at(id).operands[i] = converted(operand);
  }
}

}  // namespace

void narrow_dot_operands(hlo::Module& module) { Precision(module.entry_computation()).run(); }

}  // namespace tpu::compiler
