#include "workloads/compiler/passes/collectives.h"

#include <algorithm>
#include <map>

#include "sim/base/error.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/rings.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;
using hlo::Shape;

namespace {

/// A sum; others are left as they are, for the list of what has no kernel.
bool has_kernel(const hlo::Module& module, const HloInstruction& all_reduce) {
  const Computation& reducer = module.computation(all_reduce.called.at(0));
  return reducer.at(reducer.root).opcode == HloOpcode::kAdd;
}

/// Length of the longest chain of all-reduces that ends in each instruction.
std::vector<int> depths(const Computation& entry) {
  std::vector<int> depth(entry.instructions.size(), 0);
  for (const HloInstruction& instruction : entry.instructions) {
    int& mine = depth[static_cast<std::size_t>(instruction.id)];
    for (InstructionId operand : instruction.operands) {
      mine = std::max(mine, depth[static_cast<std::size_t>(operand)]);
    }
    if (instruction.opcode == HloOpcode::kAllReduce) ++mine;
  }
  return depth;
}

InstructionId convert(Computation& entry, InstructionId value, ElementType type) {
  if (entry.at(value).shape.type == type) return value;
  HloInstruction convert;
  convert.opcode = HloOpcode::kConvert;
  convert.name = entry.at(value).name + ".convert";
  convert.operands = {value};
  convert.metadata = entry.at(value).metadata;
  convert.shape = entry.at(value).shape;
  convert.shape.type = type;
  convert.shape.layout = tiled_layout(type, convert.shape.layout.minor_to_major);
  return append(entry, std::move(convert));
}

/// Where the parts of the new all-reduce are read: in place of an old one's array, or of the
/// elements of its tuple.
class Combination {
 public:
  Combination(Computation& entry, std::vector<InstructionId> old)
      : entry_(entry), old_(std::move(old)) {
    combined_ = entry_.at(old_[0]);
    combined_.name += ".combined";
    combined_.operands.clear();
    combined_.shape = Shape{};
    combined_.shape.type = ElementType::kTuple;
  }

  void build() {
    for (InstructionId id : old_) {
      for (InstructionId operand : std::vector<InstructionId>(entry_.at(id).operands)) {
        const InstructionId part = convert(entry_, operand, ElementType::kF32);
        combined_.operands.push_back(part);
        combined_.shape.elements.push_back(entry_.at(part).shape);
      }
    }
    // The result of one operand is an array.
    if (combined_.operands.size() == 1) combined_.shape = Shape(combined_.shape.elements[0]);
    const InstructionId combined = append(entry_, combined_);
    std::int64_t index = 0;
    for (InstructionId id : old_) index = replace(id, combined, index);
  }

 private:
  InstructionId element(InstructionId combined, std::int64_t index, ElementType type) {
    if (!combined_.shape.is_tuple()) return convert(entry_, combined, type);
    HloInstruction part;
    part.opcode = HloOpcode::kGetTupleElement;
    part.name = combined_.name + "." + std::to_string(index);
    part.tuple_index = index;
    part.operands = {combined};
    part.shape = combined_.shape.elements[static_cast<std::size_t>(index)];
    part.metadata = combined_.metadata;
    return convert(entry_, append(entry_, std::move(part)), type);
  }

  /// The old all-reduce becomes a bitcast-free stand-in: a tuple, or an identity on its element.
  std::int64_t replace(InstructionId id, InstructionId combined, std::int64_t index) {
    std::vector<InstructionId> parts;
    for (InstructionId operand : std::vector<InstructionId>(entry_.at(id).operands)) {
      parts.push_back(element(combined, index++, entry_.at(operand).shape.type));
    }
    HloInstruction& old = entry_.at(id);
    old.called.clear();
    old.replica_groups.reset();
    old.raw_attributes.reset();
    old.opcode = old.shape.is_tuple() ? HloOpcode::kTuple : HloOpcode::kBitcast;
    old.operands = parts;
    return index;
  }

  Computation& entry_;
  std::vector<InstructionId> old_;
  HloInstruction combined_;
};

}  // namespace

void combine_all_reduces(hlo::Module& module) {
  Computation& entry = module.entry_computation();
  const std::vector<int> depth = depths(entry);
  std::map<std::pair<int, std::uint32_t>, std::vector<InstructionId>> groups;
  for (const HloInstruction& instruction : entry.instructions) {
    if (instruction.opcode != HloOpcode::kAllReduce || !has_kernel(module, instruction)) continue;
    const int level = depth[static_cast<std::size_t>(instruction.id)];
    groups[{level, ring_of(instruction).number}].push_back(instruction.id);
  }
  for (auto& [key, members] : groups) Combination(entry, members).build();
  if (!groups.empty()) tidy(entry);
}

}  // namespace tpu::compiler
