#include "workloads/compiler/passes/fuse/kernel_sequences.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "sim/base/ceil_divide.h"
#include "sim/base/contains.h"
#include "workloads/compiler/cost.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/array_part.h"
#include "workloads/compiler/ir/iteration_place.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/passes/fuse/fusion.h"
#include "workloads/compiler/passes/fuse/sequence_shifts.h"
#include "workloads/compiler/passes/memory/storage.h"
#include "workloads/graph/op_info.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;

namespace {

/// The same of one that only moves elements, and has less to do meanwhile. In a loop that is one
/// sequence the arrays stay, or come while it is at work.
constexpr std::uint64_t kMostMovedGranules = 1024;
/// A loop that is a kernel gets its addresses once.
constexpr std::size_t kMostAddressesOfLoop = kMostKernelAddresses;
constexpr std::size_t kMostMembers = 64;
/// Arrays of which blocks are too short to hide what they wait for.
constexpr std::uint64_t kFewGranules = 512;

/// A result of a member: the member and which of its results.
using Value = std::pair<InstructionId, std::int64_t>;

/// Kernels that follow each other.
struct Run {
  std::vector<InstructionId> members;
  std::set<InstructionId> operands;        ///< Made by others: instructions, bookkeeping included.
  std::set<InstructionId> immediates;      ///< Constants that the sequence holds.
  std::map<InstructionId, Value> name_of;  ///< Members' results, their elements, bitcasts of both.
  std::vector<InstructionId> passed;       ///< Operands that are results, too.
  std::vector<InstructionId> updates;      ///< Of slices of a loop's arrays: a result for each.
  std::set<InstructionId> behind;          ///< Other bookkeeping that needs what the run makes.
  std::uint64_t granules = 0;
  std::uint64_t kept = 0;  ///< Granules of what members keep beside their arrays, at most.
};

class Joiner {
 public:
  Joiner(hlo::Module& module, const Target& target, bool is_loop)
      : module_(module),
        entry_(module.entry_computation()),
        target_(target),
        most_granules_(most_granules_in_vmem(target)),
        users_(entry_.instructions.size()) {
    const auto kernels = std::count_if(
        entry_.instructions.begin(), entry_.instructions.end(), [](const HloInstruction& each) {
          return !is_bookkeeping(each) && !is_update_of_iteration(each);
        });
    least_members_ = is_loop && kernels == 1 ? 1 : 2;
    if (is_loop) kernels_ = static_cast<std::size_t>(kernels);
    for (const HloInstruction& user : entry_.instructions) {
      for (InstructionId operand : user.operands) {
        users_[static_cast<std::size_t>(operand)].push_back(user.id);
      }
      granules_.push_back(granules(user.shape));
    }
  }

  void run() {
    if (kernels_ > 0) {
      const std::uint64_t otherwise = most_granules_;
      most_granules_ += otherwise / 5;  // Vectors beside the state of a loop.
      limits_ = {most_granules_, most_granules_, kMostAddressesOfLoop};
      collect();
      if (!is_whole_loop()) {
        sequences_.clear();
        limits_ = {};
        most_granules_ = otherwise;
      }
    }
    if (sequences_.empty()) collect();
    if (sequences_.empty()) return;
    if (is_whole_loop()) {
      pass_state(sequences_[0]);
      write_updates(sequences_[0]);
    }
    rewrite();
  }

 private:
  struct Limits {
    std::uint64_t granules = kMostMemberGranules;  ///< That a member brings.
    std::uint64_t moved = kMostMovedGranules;
    std::size_t addresses = kMostSequenceAddresses;
  };
  void collect() {
    for (const HloInstruction& instruction : entry_.instructions) consider(instruction);
    close();
  }
  /// Of a loop that is one sequence arrays stay in VMEM, so more may be brought.
  bool tries_whole_loop() const { return limits_.moved > kMostMovedGranules; }
  /// Whether a sequence is all of a loop's body.
  bool is_whole_loop() const {
    return sequences_.size() == 1 && sequences_[0].members.size() == kernels_;
  }
  void write_updates(Run& run) const;
  InstructionId array_of(InstructionId name) const;
  bool may_join(const HloInstruction& instruction) const;
  bool only_moves(const HloInstruction& instruction) const {
    return moves_by_shifts(entry_, instruction) || moves_in_vmem(entry_, instruction);
  }
  /// Whether a member has no kernel but in a sequence.
  bool needs_sequence(const HloInstruction& member) const {
    return member.opcode == HloOpcode::kFusion && product_in(module_, member) == nullptr &&
           reads_elsewhere(module_.computation(member.called[0]));
  }
  std::uint64_t most_brought(const HloInstruction& member) const {
    if (needs_sequence(member)) return most_granules_;
    return only_moves(member) ? limits_.moved : limits_.granules;
  }
  bool streams(const Run& run) const;
  bool is_wanted(const Run& run) const;
  bool is_immediate(const HloInstruction& user, std::size_t operand) const;
  std::uint64_t granules_at(InstructionId id) const {
    return granules_[static_cast<std::size_t>(id)];
  }
  std::uint64_t granules_of(const HloInstruction& fusion, const Run& run = {}) const;
  std::uint64_t kept_granules_of(const HloInstruction& fusion) const;
  std::optional<std::uint64_t> product_in_vmem(const HloInstruction& instruction) const;
  void consider(const HloInstruction& instruction);
  void follow(const HloInstruction& bookkeeping, Run& run) const;
  bool fits_behind(const HloInstruction& fusion, const Run& run) const;
  void follow_names(Run& run) const;
  std::size_t wanted_results(Run run, InstructionId next) const;
  void add(const HloInstruction& fusion);
  bool pays(const Run& run) const;
  void close();
  void pass_state(Run& run) const;
  std::vector<InstructionId> wanted_names(const Run& run) const;
  void rewrite();
  HloInstruction make_sequence(const Run& run, const std::vector<Value>& results);
  void append_update_value(InstructionId update, InstructionId element);
  void append_sequence(const Run& run);
  InstructionId append(HloInstruction instruction, InstructionId old);

  hlo::Module& module_;
  Computation& entry_;
  const Target& target_;
  std::uint64_t most_granules_;
  Limits limits_;
  std::size_t least_members_ = 2;
  std::size_t kernels_ = 0;  ///< Of a loop's body.
  std::vector<std::vector<InstructionId>> users_;
  std::vector<std::uint64_t> granules_;  ///< Of each instruction's result.
  mutable std::map<InstructionId, std::optional<std::uint64_t>> products_in_vmem_;
  Run run_;
  std::vector<Run> sequences_;
  Computation made_;
  std::vector<Computation> new_computations_;
  std::vector<InstructionId> new_id_;
  std::map<InstructionId, InstructionId> in_root_;       ///< What stands for passed operands there.
  std::map<InstructionId, InstructionId> update_value_;  ///< What updates write.
};

/// Whether a kernel computes the operands of a concatenation and writes each to its place: arrays
/// of members are whole ones.
bool writes_parts(const Computation& fused) {
  const auto is_written_in_parts = [&fused](InstructionId id) {
    return !computed_parts(fused, fused.at(id)).empty();
  };
  const HloInstruction& root = fused.at(fused.root);
  if (root.opcode != HloOpcode::kTuple) return is_written_in_parts(root.id);
  return std::any_of(root.operands.begin(), root.operands.end(), is_written_in_parts);
}

bool Joiner::may_join(const HloInstruction& instruction) const {
  const bool may_be_root = needs_sequence(instruction) && !instruction.shape.is_tuple();
  if (instruction.id == entry_.root && !may_be_root) return false;
  if (granules_of(instruction) > most_granules_) return false;
  if (product_in(module_, instruction) != nullptr) {
    return product_in_vmem(instruction).has_value();
  }
  if (instruction.opcode != HloOpcode::kFusion) return only_moves(instruction);
  return !writes_parts(module_.computation(instruction.called.at(0)));
}

/// granules_of_dot_in_vmem(), asked once.
std::optional<std::uint64_t> Joiner::product_in_vmem(const HloInstruction& instruction) const {
  const auto [known, is_new] = products_in_vmem_.try_emplace(instruction.id);
  if (is_new) known->second = granules_of_dot_in_vmem(module_, entry_, instruction, target_);
  return known->second;
}

/// A constant that stands in no buffer: it is part of the sequence.
bool Joiner::is_immediate(const HloInstruction& user, std::size_t operand) const {
  const HloInstruction& value = entry_.at(user.operands[operand]);
  return value.opcode == HloOpcode::kConstant && value.shape.rank() == 0 &&
         takes_immediate(user, operand);
}

/// Of the result and the operands, but for those that the run has already.
std::uint64_t Joiner::granules_of(const HloInstruction& fusion, const Run& run) const {
  std::uint64_t sum = granules_at(fusion.id);
  const std::set<InstructionId> operands(fusion.operands.begin(), fusion.operands.end());
  for (InstructionId operand : operands) {
    if (run.operands.count(operand) == 0 && run.name_of.count(operand) == 0) {
      sum += granules_at(operand);
    }
  }
  return sum;
}

/// A register for each place of a sum over other dimensions than the lanes, where the last
/// dimension that stays fills tiles; 0 of one over lanes.
std::uint64_t granules_of_sums(const HloInstruction& reduce, const hlo::Shape& operand) {
  const std::vector<std::int64_t>& order = operand.layout.minor_to_major;
  const auto stays = [&](std::int64_t d) { return !contains(reduce.dimensions, d); };
  if (reduce.opcode != HloOpcode::kReduce || order.empty() || !stays(order[0])) return 0;
  std::int64_t registers = ceil_divide(operand.dimensions[static_cast<std::size_t>(order[0])], 128);
  bool has_rows = false;
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (!stays(order[i])) continue;
    const std::int64_t extent = operand.dimensions[static_cast<std::size_t>(order[i])];
    const std::int64_t tiles = ceil_divide(extent, 8);
    registers *= has_rows ? extent : i == 1 ? tiles : 8 * tiles;
    has_rows = true;
  }
  return static_cast<std::uint64_t>(registers) * 8 * isa::kVmemRowBytes / isa::kHbmGranuleBytes;
}

std::uint64_t Joiner::kept_granules_of(const HloInstruction& fusion) const {
  if (product_in(module_, fusion) != nullptr) {
    return product_in_vmem(fusion).value_or(0);
  }
  // What moves packed elements makes them 32 bits wide.
  if (moves_in_vmem(entry_, fusion)) {
    return fusion.shape.type != hlo::ElementType::kBf16
               ? 0
               : 2 * (granules_at(fusion.id) + granules_at(fusion.operands[0]));
  }
  if (fusion.opcode != HloOpcode::kFusion) return 0;
  return kept_granules(module_.computation(fusion.called[0]));
}

bool Joiner::fits_behind(const HloInstruction& fusion, const Run& run) const {
  std::set<InstructionId> addresses = run.operands;
  for (std::size_t i = 0; i < fusion.operands.size(); ++i) {
    const InstructionId operand = fusion.operands[i];
    if (run.behind.count(operand) != 0) return false;
    if (run.name_of.count(operand) == 0 && !is_immediate(fusion, i)) addresses.insert(operand);
  }
  const auto arrays_of = [](const hlo::Shape& shape) {
    return shape.is_tuple() ? shape.elements.size() : 1;
  };
  const std::size_t own = addresses.size() + arrays_of(fusion.shape);
  std::size_t all = own;
  for (InstructionId member : run.members) all += arrays_of(entry_.at(member).shape);
  const std::uint64_t brought = granules_of(fusion, run);
  return run.members.size() < kMostMembers &&
         (all <= limits_.addresses || own + wanted_results(run, fusion.id) <= limits_.addresses) &&
         brought <= most_brought(fusion) && run.granules + brought <= most_granules_ &&
         run.kept + kept_granules_of(fusion) <= most_kept_granules(target_);
}

/// Results of the run that others than its members and the next one need.
std::size_t Joiner::wanted_results(Run run, InstructionId next) const {
  follow_names(run);
  std::set<Value> wanted;
  const std::set<InstructionId> members(run.members.begin(), run.members.end());
  for (const auto& [name, value] : run.name_of) {
    const auto& users = users_[static_cast<std::size_t>(name)];
    const auto is_outside = [&, next = next](InstructionId user) {
      return user != next && run.name_of.count(user) == 0 && members.count(user) == 0 &&
             !contains(run.updates, user);
    };
    if (!entry_.at(name).shape.is_tuple()) {
      if (std::any_of(users.begin(), users.end(), is_outside)) wanted.insert(value);
      continue;
    }
    // Elements whose names stand further behind.
    for (const InstructionId user : users) {
      if (is_outside(user)) wanted.insert({value.first, entry_.at(user).tuple_index});
    }
  }
  return wanted.size();
}

void Joiner::add(const HloInstruction& fusion) {
  run_.granules += granules_of(fusion, run_);
  for (std::size_t i = 0; i < fusion.operands.size(); ++i) {
    const InstructionId operand = fusion.operands[i];
    if (run_.name_of.count(operand) != 0) continue;
    (is_immediate(fusion, i) ? run_.immediates : run_.operands).insert(operand);
  }
  run_.members.push_back(fusion.id);
  run_.kept += kept_granules_of(fusion);
  run_.name_of[fusion.id] = {fusion.id, 0};
}

void Joiner::follow(const HloInstruction& bookkeeping, Run& run) const {
  for (InstructionId operand : bookkeeping.operands) {
    const auto made = run.name_of.find(operand);
    if (made == run.name_of.end() && run.behind.count(operand) == 0) continue;
    const bool is_element = bookkeeping.opcode == HloOpcode::kGetTupleElement;
    const bool is_name = is_element || bookkeeping.opcode == HloOpcode::kBitcast;
    if (made == run.name_of.end() || !is_name) {
      run.behind.insert(bookkeeping.id);
    } else if (is_element) {
      run.name_of[bookkeeping.id] = {made->second.first, bookkeeping.tuple_index};
    } else {
      run.name_of[bookkeeping.id] = made->second;
    }
  }
}

void Joiner::consider(const HloInstruction& instruction) {
  if (is_bookkeeping(instruction) || is_update_of_iteration(instruction)) {
    follow(instruction, run_);
    return;
  }
  if (!may_join(instruction)) {
    close();
    return;
  }
  if (!fits_behind(instruction, run_)) {
    close();
    if (!fits_behind(instruction, run_)) return;
  }
  add(instruction);
}

/// Names of a member's results may stand anywhere behind it.
void Joiner::follow_names(Run& run) const {
  std::set<InstructionId> users;
  const auto add_users = [&](InstructionId name) {
    const auto& own = users_[static_cast<std::size_t>(name)];
    users.insert(own.begin(), own.end());
  };
  for (const auto& [name, value] : run.name_of) add_users(name);
  while (!users.empty()) {
    const InstructionId user = *users.begin();
    users.erase(users.begin());
    if (!is_bookkeeping(entry_.at(user)) || run.name_of.count(user) != 0) continue;
    follow(entry_.at(user), run);
    if (run.name_of.count(user) != 0) add_users(user);
  }
}

/// A kernel that computes hides the latency of its DMAs by itself, block by block, and loses that
/// as a member: for what only moves elements beside it, no more than the starts of their kernels.
bool Joiner::pays(const Run& run) const {
  const auto moving =
      std::count_if(run.members.begin(), run.members.end(),
                    [this](InstructionId member) { return only_moves(entry_.at(member)); });
  const auto computing = static_cast<std::ptrdiff_t>(run.members.size()) - moving;
  if (computing != 1 || tries_whole_loop()) return true;
  const double transfers =
      double(run.granules) * isa::kHbmGranuleBytes / target_.hbm_bytes_per_cycle;
  return transfers <= double(moving) * kKernelCycles;
}

/// Whether a kernel that reads elements elsewhere is better by itself: its arrays come block by
/// block, beside the work.
bool Joiner::streams(const Run& run) const {
  if (run.members.size() != 1 || least_members_ == 1 || run.granules < kFewGranules) return false;
  const HloInstruction& member = entry_.at(run.members.front());
  return needs_sequence(member) &&
         elementwise_cycles(module_, module_.computation(member.called[0]), member.operands.size(),
                            target_)
             .has_value();
}

bool Joiner::is_wanted(const Run& run) const {
  if (streams(run)) return false;
  const auto needs = [this](InstructionId member) { return needs_sequence(entry_.at(member)); };
  if (std::any_of(run.members.begin(), run.members.end(), needs)) return true;
  return run.members.size() >= least_members_ && pays(run);
}

void Joiner::close() {
  if (is_wanted(run_)) {
    follow_names(run_);
    sequences_.push_back(std::move(run_));
  }
  run_ = {};
}

/// State that becomes other state: it changes places inside of the sequence that is all of a loop's
/// body.
void Joiner::pass_state(Run& run) const {
  const HloInstruction& root = entry_.at(entry_.root);
  if (root.opcode != HloOpcode::kTuple) return;
  const std::vector<InstructionId> parameters = entry_.parameters();
  for (const hlo::Alias& alias : module_.aliases) {
    const InstructionId value = root.operands.at(static_cast<std::size_t>(alias.output_index));
    const InstructionId place = parameters.at(static_cast<std::size_t>(alias.parameter_number));
    if (entry_.at(value).opcode != HloOpcode::kParameter || value == place) continue;
    if (std::count(root.operands.begin(), root.operands.end(), value) != 1) continue;
    const std::size_t results = wanted_results(run, entry_.root) + root.operands.size();
    if (run.operands.size() + 1 + results > limits_.addresses) continue;
    run.operands.insert(value);
    run.passed.push_back(value);
  }
}

/// The array that bitcasts name.
InstructionId Joiner::array_of(InstructionId name) const {
  while (entry_.at(name).opcode == HloOpcode::kBitcast) name = entry_.at(name).operands[0];
  return name;
}

/// A slice that is needed elsewhere, too, or that an operand is, becomes a result of its own, so
/// that it can be written where its array has it.
void Joiner::write_updates(Run& run) const {
  for (const HloInstruction& update : entry_.instructions) {
    if (!is_update_of_iteration(update)) continue;
    const InstructionId value = array_of(update.operands[1]);
    const bool is_made = run.name_of.count(value) != 0;
    const bool is_given = entry_.at(value).opcode == HloOpcode::kParameter;
    if (!is_made && !is_given) continue;
    Run with = run;
    if (is_given) with.operands.insert(value);
    with.updates.push_back(update.id);
    const std::size_t results = wanted_results(with, -1) + with.passed.size() + with.updates.size();
    if (with.operands.size() + results <= limits_.addresses) run = std::move(with);
  }
}

/// Names of arrays that others than the members need.
std::vector<InstructionId> Joiner::wanted_names(const Run& run) const {
  std::vector<InstructionId> wanted;
  const std::set<InstructionId> members(run.members.begin(), run.members.end());
  for (const auto& [name, value] : run.name_of) {
    if (entry_.at(name).shape.is_tuple()) continue;
    const auto& users = users_[static_cast<std::size_t>(name)];
    const auto is_outside = [&](InstructionId user) {
      return run.name_of.count(user) == 0 && members.count(user) == 0 &&
             !contains(run.updates, user);
    };
    if (name == entry_.root || std::any_of(users.begin(), users.end(), is_outside)) {
      wanted.push_back(name);
    }
  }
  return wanted;
}

InstructionId Joiner::append(HloInstruction instruction, InstructionId old) {
  const auto id = static_cast<InstructionId>(made_.instructions.size());
  if (old >= 0) new_id_[static_cast<std::size_t>(old)] = id;
  instruction.id = id;
  instruction.control_predecessors.reset();
  made_.instructions.push_back(std::move(instruction));
  return id;
}

/// The custom fusion, and its computation among the new ones.
HloInstruction Joiner::make_sequence(const Run& run, const std::vector<Value>& results) {
  Computation inside;
  HloInstruction call;
  call.opcode = HloOpcode::kFusion;
  call.fusion_kind = std::string("kCustom");
  call.name = entry_.at(run.members.back()).name + ".sequence";
  inside.name = "computation." + call.name;
  std::map<InstructionId, InstructionId> inner_id;
  const auto put = [&](HloInstruction instruction, InstructionId old) {
    instruction.id = static_cast<InstructionId>(inside.instructions.size());
    instruction.control_predecessors.reset();
    inner_id[old] = instruction.id;
    inside.instructions.push_back(std::move(instruction));
    return inside.instructions.back().id;
  };
  for (InstructionId operand : run.operands) {
    HloInstruction parameter;
    parameter.opcode = HloOpcode::kParameter;
    parameter.parameter_number = static_cast<std::int64_t>(call.operands.size());
    parameter.name = "operand." + std::to_string(parameter.parameter_number);
    parameter.shape = entry_.at(operand).shape;
    put(std::move(parameter), operand);
    call.operands.push_back(new_id_[static_cast<std::size_t>(operand)]);
  }
  for (InstructionId constant : run.immediates) {
    if (inner_id.count(constant) == 0) put(entry_.at(constant), constant);
  }
  std::map<Value, InstructionId> made;
  for (const auto& [name, value] : run.name_of) {
    HloInstruction member = entry_.at(name);
    for (InstructionId& operand : member.operands) operand = inner_id.at(operand);
    const bool is_array = !member.shape.is_tuple();
    const InstructionId id = put(std::move(member), name);
    if (is_array) made.emplace(value, id);
  }
  HloInstruction tuple;
  tuple.opcode = HloOpcode::kTuple;
  tuple.name = "results";
  tuple.shape.type = hlo::ElementType::kTuple;
  for (const Value& result : results) tuple.operands.push_back(made.at(result));
  for (InstructionId value : run.passed) tuple.operands.push_back(inner_id.at(value));
  for (InstructionId update : run.updates) {
    const InstructionId value = array_of(entry_.at(update).operands[1]);
    const auto member = run.name_of.find(value);
    tuple.operands.push_back(member == run.name_of.end() ? inner_id.at(value)
                                                         : made.at(member->second));
  }
  for (InstructionId result : tuple.operands) {
    tuple.shape.elements.push_back(inside.at(result).shape);
  }
  call.shape = tuple.shape;
  inside.root = put(std::move(tuple), -1);
  merge_shifts(module_, inside, new_computations_, module_.computations.size());
  call.called = {
      static_cast<hlo::ComputationId>(module_.computations.size() + new_computations_.size())};
  new_computations_.push_back(std::move(inside));
  return call;
}

/// What an update writes: the element, in the shape that it takes.
void Joiner::append_update_value(InstructionId update, InstructionId element) {
  const HloInstruction& name = entry_.at(entry_.at(update).operands[1]);
  InstructionId value = element;
  if (name.opcode == HloOpcode::kBitcast) {
    HloInstruction bitcast = name;
    bitcast.name = name.name + ".of." + entry_.at(update).name;
    bitcast.operands = {element};
    value = append(std::move(bitcast), -1);
  }
  update_value_[update] = value;
}

/// The sequence and the names of its results.
void Joiner::append_sequence(const Run& run) {
  const std::vector<InstructionId> wanted = wanted_names(run);
  std::vector<Value> results;
  for (InstructionId name : wanted) {
    const Value& value = run.name_of.at(name);
    if (std::find(results.begin(), results.end(), value) == results.end()) results.push_back(value);
  }
  HloInstruction call = make_sequence(run, results);
  const auto largest = std::max_element(
      run.members.begin(), run.members.end(),
      [&](InstructionId a, InstructionId b) { return granules_at(a) < granules_at(b); });
  const hlo::Metadata* origin = hlo::origin_of(module_, entry_, entry_.at(*largest));
  if (origin != nullptr) call.metadata = *origin;
  const std::string name = call.name;
  const std::vector<hlo::Shape> shapes = call.shape.elements;
  const InstructionId made = append(std::move(call), -1);
  std::map<Value, InstructionId> element_of;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    HloInstruction element;
    element.opcode = HloOpcode::kGetTupleElement;
    element.name = name + "." + std::to_string(i);
    element.shape = shapes[i];
    element.operands = {made};
    element.tuple_index = static_cast<std::int64_t>(i);
    const InstructionId id = append(std::move(element), -1);
    if (i < results.size()) {
      element_of[results[i]] = id;
    } else if (i < results.size() + run.passed.size()) {
      in_root_[run.passed[i - results.size()]] = id;
    } else {
      append_update_value(run.updates[i - results.size() - run.passed.size()], id);
    }
  }
  for (InstructionId old : wanted) {
    const InstructionId element = element_of.at(run.name_of.at(old));
    new_id_[static_cast<std::size_t>(old)] = element;
    if (entry_.at(old).opcode != HloOpcode::kBitcast) continue;
    HloInstruction bitcast = entry_.at(old);
    bitcast.operands = {element};
    append(std::move(bitcast), old);
  }
}

void Joiner::rewrite() {
  std::map<InstructionId, const Run*> run_of;
  for (const Run& run : sequences_) {
    for (const auto& [name, value] : run.name_of) run_of[name] = &run;
  }
  new_id_.assign(entry_.instructions.size(), -1);
  made_.name = entry_.name;
  made_.raw_attributes = entry_.raw_attributes;
  std::vector<InstructionId> waiting;  // For results of a sequence that they stand inside of.
  std::set<InstructionId> updates;
  for (const Run& run : sequences_) updates.insert(run.updates.begin(), run.updates.end());
  const auto keep = [&](InstructionId id) {
    HloInstruction kept = entry_.at(id);
    const auto value = update_value_.find(id);
    if (updates.count(id) != 0 && value == update_value_.end()) return false;
    for (std::size_t i = 0; i < kept.operands.size(); ++i) {
      InstructionId& operand = kept.operands[i];
      const auto passed = in_root_.find(operand);
      const bool is_passed = id == entry_.root && passed != in_root_.end();
      operand = is_passed ? passed->second : new_id_[static_cast<std::size_t>(operand)];
      if (i == 1 && value != update_value_.end()) operand = value->second;
      if (operand < 0) return false;
    }
    append(std::move(kept), id);
    return true;
  };
  for (const HloInstruction& instruction : entry_.instructions) {
    const auto found = run_of.find(instruction.id);
    if (found == run_of.end()) {
      if (!keep(instruction.id)) waiting.push_back(instruction.id);
    } else if (found->second->members.back() == instruction.id) {
      append_sequence(*found->second);
      for (InstructionId id : std::exchange(waiting, {})) {
        if (!keep(id)) waiting.push_back(id);
      }
    }
  }
  made_.root = new_id_[static_cast<std::size_t>(entry_.root)];
  entry_ = std::move(made_);
  for (Computation& computation : new_computations_) {
    module_.computations.push_back(std::move(computation));
  }
}

}  // namespace

/// Whole arrays are one block, so a kernel keeps a tile for each column that it spreads over the
/// lanes, for each sum over them and for each result that is made of sums, as often as the largest
/// array inside has rows of tiles; and its other sums.
std::uint64_t kept_granules(const Computation& fused) {
  std::uint64_t columns = 0, largest = 0, sums = 0;
  std::int64_t elements = 0;
  for (const HloInstruction& inner : fused.instructions) {
    if (inner.shape.is_tuple()) continue;
    if (inner.opcode == HloOpcode::kReduce || inner.opcode == HloOpcode::kBroadcast) {
      const hlo::Shape& operand = fused.at(inner.operands[0]).shape;
      const std::uint64_t own = granules_of_sums(inner, operand);
      columns += operand.rank() > 0 && own == 0 ? 1U : 0U;
      sums += own;
    }
    const std::vector<std::int64_t>& order = inner.shape.layout.minor_to_major;
    if (order.empty()) continue;
    const auto lanes = inner.shape.dimensions[static_cast<std::size_t>(order[0])];
    const auto lane_tiles =
        static_cast<std::uint64_t>(ceil_divide(std::max<std::int64_t>(lanes, 1), 128));
    largest = std::max(largest, granules(inner.shape) / lane_tiles);
    elements = std::max(elements, inner.shape.element_count());
  }
  const HloInstruction& root = fused.at(fused.root);
  if (root.shape.is_tuple()) {
    columns += static_cast<std::uint64_t>(
        std::count_if(root.operands.begin(), root.operands.end(), [&](InstructionId result) {
          return fused.at(result).opcode != HloOpcode::kReduce &&
                 fused.at(result).shape.element_count() < elements;
        }));
  }
  return columns * largest + sums;
}

std::uint64_t most_granules_in_vmem(const Target& target) {
  return target.vmem_bytes / isa::kHbmGranuleBytes / 4;
}

void join_small_kernels(hlo::Module& module, const Target& target, bool is_loop) {
  Joiner(module, target, is_loop).run();
}

}  // namespace tpu::compiler
