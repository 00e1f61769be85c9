#include "workloads/compiler/passes/copies.h"

#include <algorithm>
#include <set>

#include "sim/base/error.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/storage.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;

namespace {

HloInstruction copy_of(const HloInstruction& value) {
  HloInstruction copy;
  copy.opcode = HloOpcode::kCopy;
  copy.name = "copy." + value.name;
  copy.shape = value.shape;
  copy.operands = {value.id};
  copy.metadata = value.metadata;
  return copy;
}

std::vector<InstructionId> results_of(const Computation& entry) {
  const HloInstruction& root = entry.at(entry.root);
  if (root.opcode == HloOpcode::kTuple) return root.operands;
  return {entry.root};
}

InstructionId parameter_of(const Computation& entry, std::int64_t number) {
  return entry.parameters().at(static_cast<std::size_t>(number));
}

/// True when the storage can be the parameter's memory: it is a kernel's result of the same shape,
/// written when the parameter has been read for the last time, or over it in place.
bool fits_parameter(const hlo::Module& module, const StorageMap& map, std::size_t index,
                    InstructionId parameter) {
  const Computation& entry = module.entry_computation();
  const Storage& storage = map.at(index);
  const Storage& place = map.at(map.of(parameter)[0]);
  if (storage.kind != Storage::Kind::kResult || storage.all_reduce >= 0) return false;
  if (!same_extent(storage.shape, place.shape) || !(storage.shape.layout == place.shape.layout)) {
    return false;
  }
  if (place.all_reduce >= 0 || place.last_use > storage.definer) return false;
  if (place.last_use < storage.definer) return true;
  const HloInstruction& writer = entry.at(storage.definer);
  for (std::size_t i = 0; i < writer.operands.size(); ++i) {
    if (map.of(writer.operands[i])[0] != map.of(parameter)[0]) continue;
    if (!may_overwrite(module, writer, i, storage.shape)) return false;
  }
  return true;
}

class CopyInsertion {
 public:
  explicit CopyInsertion(hlo::Module& module)
      : module_(module), entry_(module.entry_computation()) {}

  void run() {
    read_before_overwriting();
    copy_all_reduce_operands();
    copy_parameters_first();
    copy_results_last();
  }

 private:
  void read_before_overwriting();
  bool depends_on(InstructionId later, InstructionId earlier) const;
  void copy_all_reduce_operands();
  void copy_parameters_first();
  void copy_results_last();
  void replace_result(std::size_t index, InstructionId by);
  bool must_copy_operand(const StorageMap& map, const HloInstruction& all_reduce,
                         std::size_t operand, const std::set<std::size_t>& taken) const;

  hlo::Module& module_;
  Computation& entry_;
};

/// Whether `later` needs `earlier`, by operands or by order.
bool CopyInsertion::depends_on(InstructionId later, InstructionId earlier) const {
  std::vector<char> seen(entry_.instructions.size(), 0);
  std::vector<InstructionId> work{later};
  while (!work.empty()) {
    const InstructionId id = work.back();
    work.pop_back();
    if (id == earlier) return true;
    char& mark = seen[static_cast<std::size_t>(id)];
    if (mark) continue;
    mark = 1;
    const HloInstruction& instruction = entry_.at(id);
    work.insert(work.end(), instruction.operands.begin(), instruction.operands.end());
    work.insert(work.end(), instruction.control_predecessors.begin(),
                instruction.control_predecessors.end());
  }
  return false;
}

/// Kernels that read a parameter come before the one that makes its new value, where they do not
/// need that value: it can then be written over the old one.
void CopyInsertion::read_before_overwriting() {
  const StorageMap map(entry_);
  const std::vector<InstructionId> results = results_of(entry_);
  bool changed = false;
  for (const hlo::Alias& alias : module_.aliases) {
    const InstructionId parameter = parameter_of(entry_, alias.parameter_number);
    const std::size_t place = map.of(parameter)[0];
    const Storage& value =
        map.at(map.of(results.at(static_cast<std::size_t>(alias.output_index)))[0]);
    if (value.kind != Storage::Kind::kResult || map.at(place).last_use <= value.definer) continue;
    for (const HloInstruction& reader : entry_.instructions) {
      if (reader.id <= value.definer || is_bookkeeping(reader.opcode)) continue;
      const bool reads =
          std::any_of(reader.operands.begin(), reader.operands.end(), [&](InstructionId operand) {
            const std::vector<std::size_t>& storages = map.of(operand);
            return std::find(storages.begin(), storages.end(), place) != storages.end();
          });
      if (!reads || depends_on(reader.id, value.definer)) continue;
      entry_.at(value.definer).control_predecessors.push_back(reader.id);
      changed = true;
    }
  }
  if (changed) tidy(entry_);
}

bool CopyInsertion::must_copy_operand(const StorageMap& map, const HloInstruction& all_reduce,
                                      std::size_t operand,
                                      const std::set<std::size_t>& taken) const {
  const std::size_t index = map.of(all_reduce.operands[operand])[0];
  const Storage& storage = map.at(index);
  if (storage.kind != Storage::Kind::kResult || taken.count(index) != 0) return true;
  if (storage.all_reduce != all_reduce.id) return true;
  // Readers after the all-reduce must read its result, not what it was made of.
  std::set<InstructionId> before{storage.definer};
  for (const HloInstruction& instruction : entry_.instructions) {
    for (InstructionId read : instruction.operands) {
      const bool is_before = before.count(read) != 0;
      const std::vector<std::size_t>& storages = map.of(instruction.id);
      const bool is_same_memory =
          is_bookkeeping(instruction.opcode) &&
          std::find(storages.begin(), storages.end(), index) != storages.end();
      if (!is_before || map.of(read).empty()) continue;
      if (std::find(map.of(read).begin(), map.of(read).end(), index) == map.of(read).end()) {
        continue;
      }
      if (is_same_memory) before.insert(instruction.id);
      if (instruction.id > all_reduce.id || instruction.id == entry_.root) return true;
    }
  }
  return false;
}

void CopyInsertion::copy_all_reduce_operands() {
  bool changed = false;
  const StorageMap map(entry_);
  std::set<std::size_t> taken;
  const std::size_t count = entry_.instructions.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (entry_.instructions[i].opcode != HloOpcode::kAllReduce) continue;
    for (std::size_t k = 0; k < entry_.instructions[i].operands.size(); ++k) {
      const InstructionId operand = entry_.instructions[i].operands[k];
      if (!must_copy_operand(map, entry_.instructions[i], k, taken)) {
        taken.insert(map.of(operand)[0]);
        continue;
      }
      const InstructionId copy = append(entry_, copy_of(entry_.at(operand)));
      entry_.instructions[i].operands[k] = copy;
      changed = true;
    }
  }
  if (changed) tidy(entry_);
}

void CopyInsertion::replace_result(std::size_t index, InstructionId by) {
  if (entry_.at(entry_.root).opcode == HloOpcode::kTuple) {
    entry_.at(entry_.root).operands[index] = by;
  } else {
    entry_.root = by;
  }
}

/// Parameters that are returned elsewhere than in their own place, while their memory gets a new
/// value.
void CopyInsertion::copy_parameters_first() {
  const StorageMap map(entry_);
  std::set<std::size_t> overwritten;
  for (const hlo::Alias& alias : module_.aliases) {
    overwritten.insert(map.of(parameter_of(entry_, alias.parameter_number))[0]);
  }
  const std::vector<InstructionId> results = results_of(entry_);
  std::vector<InstructionId> copies;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::size_t storage = map.of(results[i])[0];
    if (overwritten.count(storage) == 0) continue;
    const bool is_in_place =
        std::any_of(module_.aliases.begin(), module_.aliases.end(), [&](const hlo::Alias& alias) {
          return alias.output_index == static_cast<std::int64_t>(i) &&
                 map.of(parameter_of(entry_, alias.parameter_number))[0] == storage;
        });
    if (is_in_place) continue;
    copies.push_back(append(entry_, copy_of(entry_.at(results[i]))));
    replace_result(i, copies.back());
  }
  if (copies.empty()) return;
  for (HloInstruction& instruction : entry_.instructions) {
    if (is_bookkeeping(instruction.opcode)) continue;
    if (std::find(copies.begin(), copies.end(), instruction.id) != copies.end()) continue;
    instruction.control_predecessors.insert(instruction.control_predecessors.end(), copies.begin(),
                                            copies.end());
    break;
  }
  tidy(entry_);
}

void CopyInsertion::copy_results_last() {
  const StorageMap map(entry_);
  const std::vector<InstructionId> results = results_of(entry_);
  std::set<std::size_t> taken;
  bool changed = false;
  for (const hlo::Alias& alias : module_.aliases) {
    const std::size_t index = static_cast<std::size_t>(alias.output_index);
    const InstructionId parameter = parameter_of(entry_, alias.parameter_number);
    const std::size_t storage = map.of(results[index])[0];
    if (storage == map.of(parameter)[0]) continue;
    if (fits_parameter(module_, map, storage, parameter) && taken.insert(storage).second) continue;
    replace_result(index, append(entry_, copy_of(entry_.at(results[index]))));
    changed = true;
  }
  if (changed) tidy(entry_);
}

}  // namespace

void insert_copies(hlo::Module& module) { CopyInsertion(module).run(); }

std::vector<ResultInParameter> results_in_parameters(const hlo::Module& module) {
  const Computation& entry = module.entry_computation();
  const StorageMap map(entry);
  const std::vector<InstructionId> results = results_of(entry);
  std::vector<ResultInParameter> placed;
  for (const hlo::Alias& alias : module.aliases) {
    const InstructionId parameter = parameter_of(entry, alias.parameter_number);
    const std::size_t storage = map.of(results.at(static_cast<std::size_t>(alias.output_index)))[0];
    if (storage == map.of(parameter)[0]) continue;
    TPU_CHECK(fits_parameter(module, map, storage, parameter),
              entry.at(parameter).name << " is read after its new value is written");
    placed.push_back({storage, alias.parameter_number});
  }
  return placed;
}

}  // namespace tpu::compiler
