#include "workloads/compiler/passes/fuse/collectives.h"

#include <algorithm>
#include <map>

#include "sim/base/error.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/expand/rings.h"
#include "workloads/compiler/passes/fuse/bucket_choice.h"
#include "workloads/compiler/passes/fuse/bucket_phases.h"

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
  convert.shape = in_type(entry.at(value).shape, type);
  return append(entry, std::move(convert));
}

/// Where the parts of the new all-reduces are read: in place of an old one's array, or of the
/// elements of its tuple.
class Combination {
 public:
  Combination(Computation& entry, std::vector<InstructionId> old)
      : entry_(entry), old_(std::move(old)), first_(entry_.at(old_[0])) {
    first_.operands.clear();
    first_.shape = Shape{};
    first_.shape.type = ElementType::kTuple;
  }

  /// What is reduced.
  std::vector<ReducedArray> arrays() const {
    std::vector<ReducedArray> arrays;
    for (InstructionId id : old_) {
      for (InstructionId operand : entry_.at(id).operands) {
        Shape stored = entry_.at(operand).shape;
        stored.type = ElementType::kF32;
        stored.layout = tiled_layout(stored.type, stored.layout.minor_to_major);
        arrays.push_back({operand, granules(stored)});
      }
    }
    return arrays;
  }

  void build(const std::vector<GradientBucket>& buckets) {
    const std::vector<ReducedArray> reduced = arrays();
    sums_.resize(reduced.size());
    for (std::size_t i = 0; i < buckets.size(); ++i) {
      const std::string number = buckets.size() > 1 ? std::to_string(i) : "";
      combine(buckets[i], reduced, first_.name + ".combined" + number);
    }
    std::size_t index = 0;
    for (InstructionId id : old_) index = replace(id, index);
  }

 private:
  void combine(const GradientBucket& bucket, const std::vector<ReducedArray>& reduced,
               const std::string& name) {
    HloInstruction combined = first_;
    combined.name = name;
    for (std::size_t array : bucket.arrays) {
      const InstructionId part = convert(entry_, reduced[array].id, ElementType::kF32);
      combined.operands.push_back(part);
      combined.shape.elements.push_back(entry_.at(part).shape);
    }
    // The result of one operand is an array.
    if (combined.operands.size() == 1) combined.shape = Shape(combined.shape.elements[0]);
    if (bucket.beside_kernels) mark_beside_kernels(combined);
    const InstructionId sum = append(entry_, std::move(combined));
    for (std::size_t i = 0; i < bucket.arrays.size(); ++i) {
      sums_[bucket.arrays[i]] = {sum, static_cast<std::int64_t>(i)};
    }
  }

  InstructionId element(InstructionId combined, std::int64_t index, ElementType type) {
    if (!entry_.at(combined).shape.is_tuple()) return convert(entry_, combined, type);
    const HloInstruction& sums = entry_.at(combined);
    HloInstruction part;
    part.opcode = HloOpcode::kGetTupleElement;
    part.name = sums.name + "." + std::to_string(index);
    part.tuple_index = index;
    part.operands = {combined};
    part.shape = sums.shape.elements[static_cast<std::size_t>(index)];
    part.metadata = sums.metadata;
    return convert(entry_, append(entry_, std::move(part)), type);
  }

  /// The old all-reduce becomes a bitcast-free stand-in: a tuple, or an identity on its element.
  std::size_t replace(InstructionId id, std::size_t index) {
    std::vector<InstructionId> parts;
    for (InstructionId operand : std::vector<InstructionId>(entry_.at(id).operands)) {
      const auto& [sum, place] = sums_[index++];
      parts.push_back(element(sum, place, entry_.at(operand).shape.type));
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
  HloInstruction first_;
  /// Of each array the new all-reduce and its place among its results.
  std::vector<std::pair<InstructionId, std::int64_t>> sums_;
};

}  // namespace

void combine_all_reduces(hlo::Module& module, const Target& target) {
  Computation& entry = module.entry_computation();
  const std::vector<int> depth = depths(entry);
  std::map<std::pair<int, std::uint32_t>, std::vector<InstructionId>> groups;
  for (const HloInstruction& instruction : entry.instructions) {
    if (instruction.opcode != HloOpcode::kAllReduce || !has_kernel(module, instruction)) continue;
    const int level = depth[static_cast<std::size_t>(instruction.id)];
    groups[{level, ring_of(instruction).number}].push_back(instruction.id);
  }
  // Before anything is appended: an array is known when the instruction of its number is.
  std::vector<std::pair<Combination, std::vector<GradientBucket>>> combinations;
  for (auto& [key, members] : groups) {
    Combination combination(entry, members);
    Target own = target;
    if (key.second != 0) own.bucket_bytes = 0;  // Of some replicas.
    std::vector<GradientBucket> buckets = gradient_buckets(module, combination.arrays(), own);
    combinations.emplace_back(std::move(combination), std::move(buckets));
  }
  for (auto& [combination, buckets] : combinations) combination.build(buckets);
  if (!groups.empty()) tidy(entry);
}

}  // namespace tpu::compiler
