#include "workloads/compiler/sharding/update_sharding.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "sim/base/contains.h"
#include "sim/base/error.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/graph_editor.h"
#include "workloads/compiler/passes/simplify/simplify.h"
#include "workloads/compiler/passes/unique_names.h"
#include "workloads/compiler/sharding/update_region.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;

namespace {

using Extents = GraphEditor::Extents;

constexpr std::int64_t kShareElements = 1024, kShareRows = 8, kShareLanes = 128;

bool is_floating(ElementType type) {
  return type == ElementType::kF32 || type == ElementType::kBf16;
}

/// The dimension along which an array is cut into a share for each replica: the outermost one whose
/// shares are whole tiles.
std::optional<std::size_t> cut_dimension(const Extents& extents, std::int64_t replicas) {
  std::int64_t elements = 1;
  for (std::int64_t extent : extents) elements *= extent;
  if (elements < replicas * kShareElements) return std::nullopt;
  const std::size_t rank = extents.size();
  for (std::size_t d = 0; d < rank; ++d) {
    std::int64_t unit = d + 1 == rank ? kShareLanes : d + 2 == rank ? kShareRows : 1;
    if (rank == 1) unit = kShareElements;
    if (extents[d] % (replicas * unit) == 0) return d;
  }
  return std::nullopt;
}

/// Writes a region in terms of shares.
class RegionWriter {
 public:
  RegionWriter(PartitionedModule& program, const UpdateRegion& region,
               const std::set<InstructionId>& sums)
      : program_(program),
        module_(program.module),
        edit_(program.module),
        region_(region),
        sums_(sums),
        share_(region.extents) {
    share_[region.cut] /= module_.replicas;
  }

  void write() {
    const std::size_t before = entry().instructions.size();
    for (InstructionId state : region_.states) cut_state(state);
    for (InstructionId member : region_.members) write_share(member);
    for (InstructionId norm : region_.norms) write_norm(norm);
    std::map<InstructionId, InstructionId> gathered;
    for (InstructionId member : region_.whole) gathered[member] = gather(member);
    for (std::size_t i = 0; i < before; ++i) {
      HloInstruction& user = entry().instructions[i];
      if (region_.members.count(user.id) != 0 || region_.norms.count(user.id) != 0) continue;
      for (std::size_t k = 0; k < user.operands.size(); ++k) {
        if (region_.members.count(user.operands[k]) == 0) continue;
        const bool is_cut = user.id == entry().root && is_cut_result(k);
        user.operands[k] = is_cut ? parts_.at(user.operands[k]) : gathered.at(user.operands[k]);
      }
    }
    refresh_root();
  }

 private:
  Computation& entry() { return module_.entry_computation(); }
  const HloInstruction& at(InstructionId id) const { return module_.entry_computation().at(id); }

  ArrayParts parts() const {
    ArrayParts parts;
    parts.part = share_;
    for (std::int64_t replica = 0; replica < module_.replicas; ++replica) {
      Extents starts(share_.size(), 0);
      starts[region_.cut] = replica * share_[region_.cut];
      parts.starts.push_back(std::move(starts));
    }
    return parts;
  }

  void cut_state(InstructionId id) {
    HloInstruction& state = entry().at(id);
    const hlo::ElementType type = state.shape.type;
    ArrayParts cut = parts();
    cut.whole = hlo::array_shape(type, region_.extents);
    for (const hlo::Alias& alias : module_.aliases) {
      if (alias.parameter_number != state.parameter_number) continue;
      cut_results_.insert(static_cast<std::size_t>(alias.output_index));
      program_.results.at(static_cast<std::size_t>(alias.output_index)) = cut;
    }
    program_.parameters.at(static_cast<std::size_t>(state.parameter_number)) = std::move(cut);
    state.shape = hlo::array_shape(type, share_);
  }

  bool is_cut_result(std::size_t place) const { return cut_results_.count(place) != 0; }

  /// Members are visited in their order: operands first.
  void write_share(InstructionId member) {
    edit_.stand_for(member);
    HloInstruction made = at(member);
    made.shape = hlo::array_shape(made.shape.type, share_);
    made.name += ".share";
    if (sums_.count(member) != 0) {
      made.opcode = HloOpcode::kReduceScatter;
      made.dimensions = {static_cast<std::int64_t>(region_.cut)};
    } else {
      for (InstructionId& operand : made.operands) operand = share_of(operand);
    }
    parts_[member] = edit_.append_instruction(std::move(made));
  }

  InstructionId share_of(InstructionId id) {
    const auto found = parts_.find(id);
    if (found != parts_.end()) return found->second;
    const HloInstruction& given = at(id);
    if (given.shape.dimensions.empty() || region_.states.count(id) != 0) return id;
    const bool is_same_everywhere =
        given.opcode == HloOpcode::kBroadcast &&
        !contains(given.dimensions, static_cast<std::int64_t>(region_.cut));
    if (is_same_everywhere) {
      const InstructionId value = given.operands[0];
      return parts_[id] = edit_.broadcast(value, share_, Extents(given.dimensions));
    }
    return parts_[id] = slice(id);
  }

  /// This replica's share of an array that all have: a reduce-scatter that combines equal values
  /// by keeping one of them moves nothing between cores (own_block_kernel).
  InstructionId slice(InstructionId id) {
    HloInstruction made = collective(HloOpcode::kReduceScatter, id, share_);
    made.called = {edit_.scalar_computation(HloOpcode::kParameter, at(id).shape.type)};
    made.dimensions = {static_cast<std::int64_t>(region_.cut)};
    return edit_.append_instruction(std::move(made));
  }

  /// A collective like the sum that the region begins with.
  HloInstruction collective(HloOpcode opcode, InstructionId value, const Extents& extents) {
    const HloInstruction& sum =
        at(*std::find_if(region_.members.begin(), region_.members.end(),
                         [&](InstructionId member) { return sums_.count(member) != 0; }));
    HloInstruction made =
        edit_.start(opcode, {value}, hlo::array_shape(at(value).shape.type, extents));
    made.replica_groups = sum.replica_groups;
    made.raw_attributes = sum.raw_attributes;
    return made;
  }

  InstructionId gather(InstructionId member) {
    edit_.stand_for(member);
    HloInstruction made = collective(HloOpcode::kAllGather, parts_.at(member), region_.extents);
    made.dimensions = {static_cast<std::int64_t>(region_.cut)};
    return edit_.append_instruction(std::move(made));
  }

  void write_norm(InstructionId norm) {
    edit_.stand_for(norm);
    HloInstruction local = at(norm);
    local.operands[0] = parts_.at(local.operands[0]);
    local.name += ".share";
    const Extents extents = local.shape.dimensions;
    const std::vector<hlo::ComputationId> adder = local.called;
    HloInstruction sum =
        collective(HloOpcode::kAllReduce, edit_.append_instruction(std::move(local)), extents);
    sum.called = adder;
    edit_.finish(edit_.append_instruction(std::move(sum)));
  }

  void refresh_root() {
    HloInstruction& root = entry().at(entry().root);
    if (root.opcode != HloOpcode::kTuple) return;
    for (std::size_t i = 0; i < root.operands.size(); ++i) {
      root.shape.elements[i] = at(root.operands[i]).shape;
    }
  }

  PartitionedModule& program_;
  hlo::Module& module_;
  GraphEditor edit_;
  const UpdateRegion& region_;
  const std::set<InstructionId>& sums_;
  Extents share_;
  std::map<InstructionId, InstructionId> parts_;
  std::set<std::size_t> cut_results_;
};

/// The sum of floating values over all replicas.
bool is_sum_of_all(const hlo::Module& module, const HloInstruction& instruction) {
  if (instruction.opcode != HloOpcode::kAllReduce) return false;
  const Computation& reducer = module.computation(instruction.called.at(0));
  if (reducer.at(reducer.root).opcode != HloOpcode::kAdd) return false;
  const auto& groups = instruction.replica_groups.get();
  const bool is_all =
      groups.empty() ||
      (groups.size() == 1 && static_cast<std::int64_t>(groups[0].size()) == module.replicas &&
       std::is_sorted(groups[0].begin(), groups[0].end()));
  return is_all && std::all_of(instruction.operands.begin(), instruction.operands.end(),
                               [&](InstructionId operand) {
                                 const Computation& entry = module.entry_computation();
                                 return is_floating(entry.at(operand).shape.type);
                               });
}

/// Sums of several arrays become one sum each; combine_all_reduces joins those that stay.
void separate_sums(hlo::Module& module) {
  Computation& entry = module.entry_computation();
  std::map<std::pair<InstructionId, std::int64_t>, InstructionId> first;
  for (HloInstruction& part : entry.instructions) {
    if (part.opcode != HloOpcode::kGetTupleElement) continue;
    const HloInstruction& sum = entry.at(part.operands[0]);
    if (!is_sum_of_all(module, sum)) continue;
    const auto [found, is_new] = first.try_emplace({sum.id, part.tuple_index}, part.id);
    part.opcode = is_new ? HloOpcode::kAllReduce : HloOpcode::kCopy;
    if (is_new) {
      part.called = sum.called;
      part.replica_groups = sum.replica_groups;
      part.raw_attributes = sum.raw_attributes;
      part.operands = {sum.operands[static_cast<std::size_t>(part.tuple_index)]};
    } else {
      part.operands = {found->second};
    }
    part.tuple_index = 0;
  }
  tidy(entry);
}

/// A sum that only a transposition or reshape reads is the sum of what these make.
void sum_behind_movements(hlo::Module& module) {
  Computation& entry = module.entry_computation();
  const std::vector<std::vector<InstructionId>> users = users_of(entry);
  for (HloInstruction& sum : entry.instructions) {
    if (sum.shape.is_tuple() || !is_sum_of_all(module, sum)) continue;
    const std::vector<InstructionId>& readers = users[static_cast<std::size_t>(sum.id)];
    if (readers.size() != 1 || sum.id == entry.root) continue;
    HloInstruction& reader = entry.at(readers[0]);
    if (reader.opcode != HloOpcode::kTranspose && reader.opcode != HloOpcode::kReshape) continue;
    std::swap(sum.opcode, reader.opcode);
    std::swap(sum.shape, reader.shape);
    std::swap(sum.dimensions, reader.dimensions);
    std::swap(sum.called, reader.called);
    std::swap(sum.replica_groups, reader.replica_groups);
    std::swap(sum.raw_attributes, reader.raw_attributes);
    // Readers keep the shape that they read.
    reader.shape = sum.shape;
  }
}

std::set<InstructionId> sums_of(const hlo::Module& module) {
  std::set<InstructionId> sums;
  for (const HloInstruction& instruction : module.entry_computation().instructions) {
    if (!instruction.shape.is_tuple() && is_sum_of_all(module, instruction)) {
      sums.insert(instruction.id);
    }
  }
  return sums;
}

/// As many as the module has arrays; nothing is known yet of those that were not listed.
void fill_parts(PartitionedModule& program) {
  const Computation& entry = program.module.entry_computation();
  const hlo::Shape& result = entry.at(entry.root).shape;
  if (program.parameters.empty()) program.parameters.resize(entry.parameters().size());
  if (!program.results.empty()) return;
  program.results.resize(result.is_tuple() ? result.elements.size() : 1);
}

bool is_whole_everywhere(const std::vector<ArrayParts>& parts, std::int64_t number) {
  const ArrayParts& array = parts.at(static_cast<std::size_t>(number));
  return array.starts.empty() || array.part == array.whole.dimensions;
}

bool can_be_cut(const PartitionedModule& program, const UpdateRegion& region) {
  if (region.whole.size() > 1) return false;
  return std::all_of(region.states.begin(), region.states.end(), [&](InstructionId state) {
    const HloInstruction& parameter = program.module.entry_computation().at(state);
    return is_whole_everywhere(program.parameters, parameter.parameter_number);
  });
}

void count(const Computation& entry, const std::set<InstructionId>& sums,
           const UpdateRegion& region, UpdateShares& shares) {
  for (InstructionId member : region.members) {
    if (sums.count(member) == 0) continue;
    ++shares.shared;
    shares.shared_bytes += entry.at(member).shape.unpadded_bytes();
  }
  for (InstructionId state : region.states) {
    shares.state_bytes += entry.at(state).shape.unpadded_bytes();
  }
}

}  // namespace

UpdateShares shard_updates(PartitionedModule& program) {
  hlo::Module& module = program.module;
  UpdateShares shares;
  if (module.replicas <= 1) return shares;
  if (module.partitions != 1 && module.partitions != module.replicas) {
    throw WorkloadError("weight-update sharding: expected replicas or partitions, found " +
                        std::to_string(module.partitions) + " partitions on " +
                        std::to_string(module.replicas) + " devices");
  }
  flatten_calls_everywhere(module);
  simplify(module);
  separate_sums(module);
  sum_behind_movements(module);
  fill_parts(program);
  const std::set<InstructionId> sums = sums_of(module);
  std::set<InstructionId> done;
  for (InstructionId sum : sums) {
    if (done.count(sum) != 0) continue;
    const auto cut =
        cut_dimension(module.entry_computation().at(sum).shape.dimensions, module.replicas);
    if (!cut) continue;
    const UpdateRegion region = UpdateRegionSearch(module, sums).region_of(sum, *cut);
    if (!can_be_cut(program, region)) continue;
    count(module.entry_computation(), sums, region, shares);
    done.insert(region.members.begin(), region.members.end());
    RegionWriter(program, region, sums).write();
  }
  shares.whole = sums.size() - shares.shared;
  if (shares.shared > 0) module.entry_layout = hlo::Boxed<hlo::EntryLayout>{};
  tidy(module.entry_computation());
  make_names_unique(module);
  hlo::verify(module);
  return shares;
}

}  // namespace tpu::compiler
