#include "workloads/compiler/passes/layout/narrow_copies.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/passes/edit.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;
using hlo::Shape;

namespace {

class NarrowCopies {
 public:
  NarrowCopies(Computation& computation, const Target& target)
      : computation_(computation), target_(target), users_(users_of(computation)) {}

  void run() {
    const std::size_t count = computation_.instructions.size();
    for (std::size_t i = 0; i < count; ++i) {
      const InstructionId id = static_cast<InstructionId>(i);
      if (at(id).opcode != HloOpcode::kCopy || id == computation_.root) continue;
      if (!narrow_before(id)) widen_behind(id);
    }
    tidy(computation_);
  }

 private:
  HloInstruction& at(InstructionId id) { return computation_.at(id); }
  const std::vector<InstructionId>& users(InstructionId id) const {
    return users_[static_cast<std::size_t>(id)];
  }

  static std::int64_t width(const Shape& shape) { return hlo::byte_size(shape.type); }

  bool is_narrowing(InstructionId id) {
    const HloInstruction& instruction = at(id);
    return instruction.opcode == HloOpcode::kConvert &&
           width(instruction.shape) < width(at(instruction.operands[0]).shape);
  }

  /// Whether the order of the operand's dimensions is nothing to it.
  bool is_sum_to_vector(InstructionId id, InstructionId operand) {
    const HloInstruction& instruction = at(id);
    return instruction.opcode == HloOpcode::kReduce && instruction.operands.size() == 2 &&
           instruction.operands[0] == operand && instruction.shape.rank() < 2;
  }

  /// A kernel computes it, and takes a conversion behind it.
  static bool is_computed(HloOpcode opcode) {
    return opcode == HloOpcode::kDot || opcode == HloOpcode::kConvolution ||
           hlo::is_elementwise(opcode);
  }

  bool is_worth_it(const Shape& from, const Shape& to, hlo::ElementType narrow) {
    return move_cycles(in_type(from, narrow), in_type(to, narrow), target_) <=
           move_cycles(from, to, target_);
  }

  bool narrow_before(InstructionId copy) {
    const InstructionId source = at(copy).operands[0];
    const Shape from = at(source).shape, to = at(copy).shape;
    if (!is_computed(at(source).opcode) || users(copy).empty()) return false;
    std::map<hlo::ElementType, InstructionId> narrow;
    for (InstructionId user : users(copy)) {
      if (is_narrowing(user)) {
        narrow[at(user).shape.type] = -1;
      } else if (!is_sum_to_vector(user, copy)) {
        return false;
      }
    }
    // Of several types the copies may be more than the one.
    if (narrow.size() != 1 || !is_worth_it(from, to, narrow.begin()->first)) return false;
    const auto& [type, none] = *narrow.begin();
    HloInstruction convert;
    convert.opcode = HloOpcode::kConvert;
    convert.operands = {source};
    convert.shape = in_type(from, type);
    for (InstructionId user : users(copy)) {
      if (!is_narrowing(user)) {
        at(user).operands[0] = source;
        continue;
      }
      if (convert.name.empty()) {
        convert.name = at(user).name + ".before";
        convert.metadata = at(user).metadata;
        narrow[type] = append(computation_, convert);
      }
      at(user).opcode = HloOpcode::kCopy;
      at(user).operands = {narrow[type]};
    }
    return true;
  }

  void widen_behind(InstructionId copy) {
    const InstructionId wide = at(copy).operands[0];
    if (at(wide).opcode != HloOpcode::kConvert || users(wide).size() != 1) return;
    const InstructionId source = at(wide).operands[0];
    const Shape from = at(source).shape;
    if (width(from) >= width(at(wide).shape) || from.rank() != at(wide).shape.rank()) return;
    if (from.layout.minor_to_major != at(wide).shape.layout.minor_to_major) return;
    if (!is_worth_it(at(wide).shape, at(copy).shape, from.type)) return;
    HloInstruction narrow = at(copy);
    narrow.name += ".narrow";
    narrow.operands = {source};
    narrow.shape = in_type(narrow.shape, from.type);
    const InstructionId moved = append(computation_, std::move(narrow));
    at(copy).opcode = HloOpcode::kConvert;
    at(copy).operands = {moved};
  }

  Computation& computation_;
  const Target& target_;
  std::vector<std::vector<InstructionId>> users_;
};

}  // namespace

void copy_narrow_values(Computation& computation, const Target& target) {
  NarrowCopies(computation, target).run();
}

}  // namespace tpu::compiler
