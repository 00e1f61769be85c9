#include "workloads/compiler/passes/memory/storage.h"

#include <algorithm>

#include "sim/base/error.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/iteration_place.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/ir/lane_moves.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/expand/control_flow.h"
#include "workloads/compiler/passes/fuse/bucket_phases.h"
#include "workloads/compiler/passes/fuse/fusion.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;
using hlo::Shape;

bool is_bookkeeping(const HloInstruction& instruction) {
  switch (instruction.opcode) {
    case HloOpcode::kParameter:
    case HloOpcode::kConstant:
    case HloOpcode::kBitcast:
    case HloOpcode::kTuple:
    case HloOpcode::kGetTupleElement:
    case HloOpcode::kBroadcast:  // What a scatter starts from.
      return true;
    default:
      return is_slice_of_iteration(instruction) || hlo::is_allocation(instruction);
  }
}

namespace {

/// A constant whose users all take it as an immediate.
std::vector<bool> constants_without_buffer(const Computation& entry) {
  std::vector<bool> without(entry.instructions.size());
  for (const HloInstruction& instruction : entry.instructions) {
    without[static_cast<std::size_t>(instruction.id)] =
        instruction.opcode == HloOpcode::kConstant && instruction.shape.rank() == 0 &&
        instruction.id != entry.root;
    if (instruction.opcode == HloOpcode::kBroadcast) continue;
    for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
      if (takes_immediate(instruction, i)) continue;
      without[static_cast<std::size_t>(instruction.operands[i])] = false;
    }
  }
  return without;
}

}  // namespace

StorageMap::StorageMap(const Computation& entry) : of_(entry.instructions.size()) {
  const std::vector<bool> without_buffer = constants_without_buffer(entry);
  for (const HloInstruction& instruction : entry.instructions) {
    switch (instruction.opcode) {
      case HloOpcode::kParameter:
        define(instruction, Storage::Kind::kParameter);
        break;
      case HloOpcode::kConstant:
        if (without_buffer[static_cast<std::size_t>(instruction.id)]) break;
        define(instruction, Storage::Kind::kConstant);
        break;
      case HloOpcode::kBitcast:
      case HloOpcode::kTuple:
      case HloOpcode::kGetTupleElement:
      case HloOpcode::kAllReduce:
      case HloOpcode::kAllReduceStart:
      case HloOpcode::kAsyncUpdate:
      case HloOpcode::kAllReduceDone:
      case HloOpcode::kWhile:
      case HloOpcode::kDynamicUpdateSlice:
        share(entry, instruction);
        break;
      case HloOpcode::kBroadcast:
        break;
      case HloOpcode::kScatter:
        if (works_in_place(entry, instruction, 0)) {
          share(entry, instruction);
        } else {
          define(instruction, Storage::Kind::kResult);
        }
        break;
      default:
        if (is_slice_of_iteration(instruction)) {
          share(entry, instruction);
          break;
        }
        define(instruction, Storage::Kind::kResult);
        break;
    }
    if (is_bookkeeping(instruction) && instruction.id != entry.root) continue;
    for (InstructionId operand : instruction.operands) {
      for (std::size_t storage : of(operand)) use(storage, instruction);
    }
  }
  for (std::size_t storage : of(entry.root)) storages_[storage].last_use = entry.root;
}

void StorageMap::define(const HloInstruction& instruction, Storage::Kind kind) {
  const Shape& shape = instruction.shape;
  const std::size_t leaves = shape.is_tuple() ? shape.elements.size() : 1;
  for (std::size_t leaf = 0; leaf < leaves; ++leaf) define_leaf(instruction, kind, leaf);
}

void StorageMap::define_leaf(const HloInstruction& instruction, Storage::Kind kind,
                             std::size_t leaf) {
  const Shape& shape = instruction.shape;
  Storage storage;
  storage.kind = kind;
  storage.shape = shape.is_tuple() ? shape.elements[leaf] : shape;
  if (storage.shape.is_tuple()) {
    throw WorkloadError(instruction.name + ": expected arrays or a tuple of arrays, found " +
                        to_string(shape, false) + "; nested tuples have no place in memory");
  }
  storage.definer = instruction.id;
  storage.last_use = kind == Storage::Kind::kParameter ? -1 : instruction.id;
  storage.leaf = static_cast<std::int64_t>(leaf);
  of_[static_cast<std::size_t>(instruction.id)].push_back(storages_.size());
  storages_.push_back(std::move(storage));
}

void StorageMap::share(const Computation& entry, const HloInstruction& instruction) {
  std::vector<std::size_t>& mine = of_[static_cast<std::size_t>(instruction.id)];
  if (instruction.opcode == HloOpcode::kGetTupleElement) {
    mine = {of(instruction.operands[0]).at(static_cast<std::size_t>(instruction.tuple_index))};
    return;
  }
  if (is_bucket_phase(instruction)) return share_bucket(instruction);
  for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
    const InstructionId operand = instruction.operands[i];
    if (!is_bookkeeping(instruction) && !works_in_place(entry, instruction, i)) continue;
    TPU_CHECK(of(operand).size() == 1, entry.at(operand).name << " is no single array");
    mine.push_back(of(operand)[0]);
    if (instruction.opcode != HloOpcode::kAllReduce) continue;
    Storage& storage = storages_[mine.back()];
    storage.all_reduce = instruction.id;
    storage.all_reduce_leaf = static_cast<std::int64_t>(mine.size()) - 1;
  }
}

/// The arrays that are reduced stay where they are; beside them a start has a landing place, which
/// the update reads for the last time.
void StorageMap::share_bucket(const HloInstruction& phase) {
  const auto own = [&]() -> std::vector<std::size_t>& {
    return of_[static_cast<std::size_t>(phase.id)];
  };
  std::vector<std::size_t> arrays;
  for (InstructionId operand : phase.operands) {
    arrays.insert(arrays.end(), of(operand).begin(), of(operand).end());
  }
  const bool is_start = phase.opcode == HloOpcode::kAllReduceStart;
  if (phase.opcode == HloOpcode::kAsyncUpdate) arrays.pop_back();
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    storages_[arrays[i]].all_reduce = phase.id;
    storages_[arrays[i]].all_reduce_leaf = static_cast<std::int64_t>(i);
  }
  own() = std::move(arrays);
  if (is_start) define_leaf(phase, Storage::Kind::kResult, phase.shape.elements.size() - 1);
}

void StorageMap::use(std::size_t storage, const HloInstruction& user) {
  storages_[storage].last_use = user.id;
}

bool may_overwrite(const hlo::Module& module, const HloInstruction& instruction,
                   std::size_t operand, const Shape& result) {
  if (instruction.opcode != HloOpcode::kFusion || instruction.fusion_kind.get() == "kInput")
    return false;
  const Computation& body = module.computation(instruction.called[0]);
  const HloInstruction& parameter = body.at(body.parameters().at(operand));
  // All of its operands have come before a result leaves.
  if (is_kernel_sequence(instruction)) return granules(parameter.shape) == granules(result);
  if (!same_extent(parameter.shape, result) || !(parameter.shape.layout == result.layout)) {
    return false;
  }
  const InstructionId twin = instruction.operands[operand];
  if (std::count(instruction.operands.begin(), instruction.operands.end(), twin) != 1) {
    return false;
  }
  // What is made of it, and may be computed of elements that stand elsewhere.
  std::vector<bool> is_made_of(body.instructions.size(), false);
  is_made_of[static_cast<std::size_t>(parameter.id)] = true;
  for (const HloInstruction& user : body.instructions) {
    for (InstructionId read : user.operands) {
      if (read == parameter.id && !hlo::is_elementwise(user.opcode)) return false;
      if (!is_made_of[static_cast<std::size_t>(read)]) continue;
      if (is_box_move(user.opcode) && !moves_lanes(body, user)) return false;
      is_made_of[static_cast<std::size_t>(user.id)] = true;
    }
  }
  return body.root != parameter.id;
}

}  // namespace tpu::compiler
