#include "workloads/compiler/passes/layout/copies.h"

#include <algorithm>
#include <set>

#include "sim/base/error.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/iteration_place.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/expand/control_flow.h"
#include "workloads/compiler/passes/memory/storage.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;

namespace {

HloInstruction copy_of(const HloInstruction& value) {
  HloInstruction copy;
  if (value.opcode == HloOpcode::kFusion && value.operands.empty() && !value.shape.is_tuple()) {
    copy = value;
    copy.name = "again." + value.name;
    return copy;
  }
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

/// An alias with the instructions that it joins.
struct Place {
  std::int64_t parameter_number = 0;
  InstructionId parameter = -1;
  std::size_t result = 0;  ///< Place among the results.
};

std::vector<Place> places_of(const hlo::Module& module) {
  const std::vector<InstructionId> parameters = module.entry_computation().parameters();
  std::vector<Place> places;
  for (const hlo::Alias& alias : module.aliases) {
    places.push_back({alias.parameter_number,
                      parameters.at(static_cast<std::size_t>(alias.parameter_number)),
                      static_cast<std::size_t>(alias.output_index)});
  }
  return places;
}

/// Kernels that read each storage, in order.
std::vector<std::vector<InstructionId>> readers_of_storages(const Computation& entry,
                                                            const StorageMap& map) {
  std::vector<std::vector<InstructionId>> readers(map.storages().size());
  for (const HloInstruction& reader : entry.instructions) {
    if (is_bookkeeping(reader)) continue;
    for (InstructionId operand : reader.operands) {
      for (std::size_t storage : map.of(operand)) {
        std::vector<InstructionId>& list = readers[storage];
        if (list.empty() || list.back() != reader.id) list.push_back(reader.id);
      }
    }
  }
  return readers;
}

/// True when the value's storage can be the parameter's memory: a kernel's whole result, whose
/// bytes lie as the parameter's whatever shape the kernel gives them, written when the parameter
/// has been read for the last time, or over it in place.
bool fits_parameter(const hlo::Module& module, const StorageMap& map, InstructionId value,
                    InstructionId parameter) {
  const Computation& entry = module.entry_computation();
  const Storage& storage = map.at(map.of(value)[0]);
  const Storage& place = map.at(map.of(parameter)[0]);
  const hlo::Shape& shape = entry.at(value).shape;
  if (storage.kind != Storage::Kind::kResult || storage.all_reduce >= 0) return false;
  if (!same_extent(shape, place.shape) || !(shape.layout == place.shape.layout)) return false;
  if (granules(storage.shape) != granules(place.shape)) return false;
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
    copy_operands_in_place();
    copy_parameters_first();
    copy_results_last();
  }

 private:
  void read_before_overwriting();
  bool depends_on(InstructionId later, InstructionId earlier) const;
  void copy_operands_in_place();
  void copy_parameters_first();
  void copy_results_last();
  void replace_result(std::size_t index, InstructionId by);
  bool must_copy_operand(const StorageMap& map, const HloInstruction& worker,
                         std::size_t operand) const;
  bool is_returned_in_place(const StorageMap& map, std::size_t storage) const;
  bool is_read_after(InstructionId value, InstructionId worker) const;

  hlo::Module& module_;
  Computation& entry_;
  std::vector<std::vector<InstructionId>> users_;
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
    work.insert(work.end(), instruction.control_predecessors->begin(),
                instruction.control_predecessors->end());
  }
  return false;
}

/// Kernels that read a parameter come before the one that makes its new value, where they do not
/// need that value: it can then be written over the old one.
void CopyInsertion::read_before_overwriting() {
  const StorageMap map(entry_);
  const std::vector<InstructionId> results = results_of(entry_);
  const std::vector<std::vector<InstructionId>> readers = readers_of_storages(entry_, map);
  bool changed = false;
  for (const Place& place : places_of(module_)) {
    const std::size_t storage = map.of(place.parameter)[0];
    const Storage& value = map.at(map.of(results.at(place.result))[0]);
    if (value.kind != Storage::Kind::kResult || map.at(storage).last_use <= value.definer) continue;
    for (InstructionId reader : readers[storage]) {
      if (reader <= value.definer || depends_on(reader, value.definer)) continue;
      entry_.at(value.definer).control_predecessors.edit().push_back(reader);
      changed = true;
    }
  }
  if (changed) tidy(entry_);
}

/// True when the results that stand in a parameter's memory are those that belong there.
bool CopyInsertion::is_returned_in_place(const StorageMap& map, std::size_t storage) const {
  bool is_donated = false;
  const std::vector<InstructionId> results = results_of(entry_);
  std::set<std::size_t> belonging;
  for (const Place& place : places_of(module_)) {
    if (map.of(place.parameter)[0] != storage) continue;
    is_donated = true;
    belonging.insert(place.result);
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (map.of(results[i])[0] == storage && belonging.count(i) == 0) return false;
  }
  return is_donated;
}

/// True when something reads the value itself, not what the worker makes of it, after the worker.
bool CopyInsertion::is_read_after(InstructionId value, InstructionId worker) const {
  const auto is_view = [this](InstructionId id) {
    const HloInstruction& instruction = entry_.at(id);
    if (instruction.opcode == HloOpcode::kBitcast) return true;
    return instruction.opcode == HloOpcode::kGetTupleElement &&
           entry_.at(instruction.operands[0]).opcode == HloOpcode::kTuple;
  };
  while (is_view(value)) {
    const HloInstruction& view = entry_.at(value);
    const HloInstruction& source = entry_.at(view.operands[0]);
    value = view.opcode == HloOpcode::kBitcast
                ? source.id
                : source.operands[static_cast<std::size_t>(view.tuple_index)];
  }
  std::vector<InstructionId> views{value};
  std::set<InstructionId> seen{value};
  const HloInstruction& definition = entry_.at(value);
  if (definition.opcode == HloOpcode::kGetTupleElement) {
    if (definition.operands[0] == entry_.root) return true;
    for (InstructionId twin : users_[static_cast<std::size_t>(definition.operands[0])]) {
      if (entry_.at(twin).tuple_index == definition.tuple_index && seen.insert(twin).second) {
        views.push_back(twin);
      }
    }
  }
  for (std::size_t i = 0; i < views.size(); ++i) {
    if (views[i] == entry_.root) return true;
    for (InstructionId reader : users_[static_cast<std::size_t>(views[i])]) {
      const HloInstruction& user = entry_.at(reader);
      if (!is_bookkeeping(user)) {
        if (reader > worker) return true;
        continue;
      }
      if (reader == entry_.root) return true;
      const bool is_part = user.opcode == HloOpcode::kBitcast || is_slice_of_iteration(user);
      if (is_part && seen.insert(reader).second) views.push_back(reader);
      if (user.opcode != HloOpcode::kTuple) continue;
      for (InstructionId part : users_[static_cast<std::size_t>(reader)]) {
        const HloInstruction& element = entry_.at(part);
        if (element.opcode != HloOpcode::kGetTupleElement) return true;
        const auto index = static_cast<std::size_t>(element.tuple_index);
        if (user.operands[index] == views[i] && seen.insert(part).second) views.push_back(part);
      }
    }
  }
  return false;
}

bool CopyInsertion::must_copy_operand(const StorageMap& map, const HloInstruction& worker,
                                      std::size_t operand) const {
  const std::size_t index = map.of(worker.operands[operand])[0];
  const Storage& storage = map.at(index);
  if (storage.kind == Storage::Kind::kConstant) return true;
  if (worker.opcode == HloOpcode::kAllReduce) {
    if (storage.kind != Storage::Kind::kResult || storage.all_reduce != worker.id) return true;
  } else if (storage.kind == Storage::Kind::kParameter && !is_returned_in_place(map, index)) {
    return true;
  }
  for (std::size_t i = 0; i < worker.operands.size(); ++i) {
    if (static_cast<std::size_t>(worker.operands[i]) >= users_.size()) continue;  // Copied already.
    const std::vector<std::size_t>& other = map.of(worker.operands[i]);
    const bool is_same = std::find(other.begin(), other.end(), index) != other.end();
    if (is_same && (i < operand || (i > operand && !works_in_place(entry_, worker, i))))
      return true;
  }
  return is_read_after(worker.operands[operand], worker.id);
}

void CopyInsertion::copy_operands_in_place() {
  bool changed = false;
  const StorageMap map(entry_);
  users_ = users_of(entry_);
  const std::size_t count = entry_.instructions.size();
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t k = 0; k < entry_.instructions[i].operands.size(); ++k) {
      if (is_bookkeeping(entry_.instructions[i])) break;
      if (!works_in_place(entry_, entry_.instructions[i], k)) continue;
      if (!must_copy_operand(map, entry_.instructions[i], k)) continue;
      const InstructionId operand = entry_.instructions[i].operands[k];
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
  std::set<std::pair<std::size_t, std::size_t>> in_place;  // Results and their storages.
  for (const Place& place : places_of(module_)) {
    const std::size_t storage = map.of(place.parameter)[0];
    overwritten.insert(storage);
    in_place.emplace(place.result, storage);
  }
  const std::vector<InstructionId> results = results_of(entry_);
  std::vector<InstructionId> copies;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::size_t storage = map.of(results[i])[0];
    if (overwritten.count(storage) == 0 || in_place.count({i, storage}) != 0) continue;
    copies.push_back(append(entry_, copy_of(entry_.at(results[i]))));
    replace_result(i, copies.back());
  }
  if (copies.empty()) return;
  for (HloInstruction& instruction : entry_.instructions) {
    if (is_bookkeeping(instruction)) continue;
    if (std::find(copies.begin(), copies.end(), instruction.id) != copies.end()) continue;
    std::vector<InstructionId>& before = instruction.control_predecessors.edit();
    before.insert(before.end(), copies.begin(), copies.end());
    break;
  }
  tidy(entry_);
}

void CopyInsertion::copy_results_last() {
  const StorageMap map(entry_);
  const std::vector<InstructionId> results = results_of(entry_);
  std::set<std::size_t> taken;
  bool changed = false;
  for (const Place& place : places_of(module_)) {
    const std::size_t storage = map.of(results[place.result])[0];
    if (storage == map.of(place.parameter)[0]) continue;
    const bool fits = fits_parameter(module_, map, results[place.result], place.parameter);
    if (fits && taken.insert(storage).second) continue;
    replace_result(place.result, append(entry_, copy_of(entry_.at(results[place.result]))));
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
  for (const Place& place : places_of(module)) {
    const std::size_t storage = map.of(results.at(place.result))[0];
    if (storage == map.of(place.parameter)[0]) continue;
    TPU_CHECK(fits_parameter(module, map, results.at(place.result), place.parameter),
              entry.at(place.parameter).name << " is read after its new value is written");
    placed.push_back({storage, place.parameter_number});
  }
  return placed;
}

}  // namespace tpu::compiler
