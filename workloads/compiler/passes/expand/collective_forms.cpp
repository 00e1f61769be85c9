#include "workloads/compiler/passes/expand/collective_forms.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "isa/instruction.h"
#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"
#include "workloads/compiler/ir/combining_operation.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/expand/rings.h"
#include "workloads/compiler/passes/graph_editor.h"
#include "workloads/compiler/passes/refusal_list.h"

namespace tpu::compiler {

using hlo::ComparisonDirection;
using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;

namespace {

/// Elements for each member from which on an all-reduce is cut into parts: a tile.
constexpr std::int64_t kSmallestParted = 1024;

using Id = GraphEditor::Id;
using Extents = GraphEditor::Extents;

class Collectives {
 public:
  explicit Collectives(hlo::Module& module)
      : module_(module), edit_(module), replicas_(module.replicas) {}

  void run(Refusals& refusals) {
    rewrite_each(module_, refusals, [this](Id id) { visit(id); });
  }

 private:
  const HloInstruction& at(Id id) const { return module_.entry_computation().at(id); }
  void visit(Id id);
  void use_groups(Id id);
  void visit_gather(Id id);
  void visit_reduce_scatter(Id id);
  void visit_all_to_all(Id id);
  void visit_permute(Id id);
  /// The operands, and the arrays of those that are tuples.
  std::vector<Id> arrays_of(const HloInstruction& permute);
  void visit_all_reduce(Id id);
  /// One array, combined over the groups.
  Id reduced(HloOpcode opcode, Id operand);
  /// The same over groups of different sizes.
  Id reduced_in_rows(HloOpcode opcode, Id operand);
  /// Which of groups_ this replica is in, s32.
  Id own_group();
  /// Arrays [members, ...] of one value, combined by a binary operation.
  Id combined(HloOpcode opcode, Id all);
  Id reduced_whole(HloOpcode opcode, Id operand);
  Id reduced_in_parts(HloOpcode opcode, Id operand);
  void visit_id(Id id);
  void keep(Id id);

  /// This replica's number, s32.
  Id replica();
  /// A ring's operation on blocks: [1, ...] of each member, [members, ...] of all. `combination`:
  /// of a reduce-scatter.
  Id ring(HloOpcode opcode, Id value, std::int64_t leading,
          HloOpcode combination = HloOpcode::kAdd);
  /// The arrays of all members of the group: [members, ...].
  Id gathered(Id value);
  /// The sum of the members' values [members, ...], of which each keeps one; kParameter: its own.
  Id scattered(Id value, HloOpcode combination);
  /// Blocks [members, ...], or [1, ...] of a permutation, that have changed places.
  Id exchanged(HloOpcode opcode, Id value);
  Extents block_extents(const Extents& extents) const;
  /// A value [count, ...] with blocks of other extents, and back.
  Id in_blocks(Id value);
  Id out_of_blocks(Id value, const Extents& extents);
  void finish(Id id, const std::vector<Id>& results);

  hlo::Module& module_;
  GraphEditor edit_;
  std::int64_t replicas_;
  std::int64_t members_ = 1;                            ///< Of a group of the collective at hand.
  std::vector<std::vector<std::int64_t>> groups_ = {};  ///< Empty: all are one.
  bool are_uneven_ = false;                             ///< Groups of different sizes.
  std::string ring_;                                    ///< Attributes of its ring.
};

void Collectives::use_groups(Id id) {
  const HloInstruction& collective = at(id);
  const bool has_groups = collective.opcode != HloOpcode::kCollectivePermute;
  groups_.clear();
  if (has_groups) groups_ = collective.replica_groups.get();
  const std::string fault = has_groups ? fault_of_groups(collective, replicas_) : "";
  if (!fault.empty()) refuse(fault);
  members_ = groups_.empty() ? replicas_ : static_cast<std::int64_t>(groups_[0].size());
  are_uneven_ = std::any_of(groups_.begin(), groups_.end(), [&](const auto& group) {
    return static_cast<std::int64_t>(group.size()) != members_;
  });
  ring_ = collective.raw_attributes.get();
}

Id Collectives::replica() {
  HloInstruction made;
  made.opcode = HloOpcode::kReplicaId;
  made.name = "replica." + std::to_string(module_.entry_computation().instructions.size());
  made.shape = hlo::array_shape(ElementType::kU32, {});
  return edit_.convert(edit_.append_instruction(std::move(made)), ElementType::kS32);
}

Id Collectives::ring(HloOpcode opcode, Id value, std::int64_t leading, HloOpcode combination) {
  Extents extents = edit_.dimensions(value);
  extents[0] = leading;
  HloInstruction made =
      edit_.start(opcode, {value}, hlo::array_shape(edit_.shape(value).type, extents));
  made.dimensions = {0};
  if (!groups_.empty()) made.replica_groups = groups_;
  if (!ring_.empty()) made.raw_attributes = ring_;
  if (opcode == HloOpcode::kReduceScatter) {
    made.called = {edit_.scalar_computation(combination, edit_.shape(value).type)};
  }
  return edit_.append_instruction(std::move(made));
}

/// Of a block with these extents behind the first: of whole tiles, so that blocks follow each
/// other.
Extents Collectives::block_extents(const Extents& extents) const {
  constexpr std::int64_t kTile = 1024;
  Extents block = {extents[0]};
  if (extents.size() == 1) {
    block.insert(block.end(), {1, 1});
  } else if (extents.size() == 2 && extents[1] >= kTile) {
    block.insert(block.end(),
                 {ceil_divide(extents[1], kTile) * (kTile / isa::kLanes), isa::kLanes});
  } else if (extents.size() == 2) {
    block.insert(block.end(), {1, extents[1]});
  } else {
    return extents;
  }
  return block;
}

Id Collectives::in_blocks(Id value) {
  const Extents extents = edit_.dimensions(value);
  const Extents block = block_extents(extents);
  if (extents.size() == 2) {
    value = edit_.pad_high(value, {0, block[1] * block[2] - extents[1]});
  }
  return edit_.reshape(value, block);
}

Id Collectives::out_of_blocks(Id value, const Extents& extents) {
  const Extents block = edit_.dimensions(value);
  if (extents.size() != 2) return edit_.reshape(value, extents);
  const Id flat = edit_.reshape(value, {block[0], block[1] * block[2]});
  return edit_.slice(flat, {0, 0}, extents);
}

Id Collectives::gathered(Id value) {
  const ElementType type = edit_.shape(value).type;
  Extents extents = edit_.dimensions(value);
  if (type == ElementType::kPred) {
    const Id all = gathered(edit_.convert(value, ElementType::kF32));
    return edit_.compare(all, edit_.splat(ElementType::kF32, edit_.dimensions(all), 0),
                         ComparisonDirection::kNe);
  }
  extents.insert(extents.begin(), 1);
  const Id blocks = in_blocks(edit_.reshape(value, extents));
  extents[0] = members_;
  return out_of_blocks(ring(HloOpcode::kAllGather, blocks, members_), extents);
}

Id Collectives::scattered(Id value, HloOpcode combination) {
  Extents extents = edit_.dimensions(value);
  const Id blocks = in_blocks(value);
  extents[0] = 1;
  return out_of_blocks(ring(HloOpcode::kReduceScatter, blocks, 1, combination), extents);
}

Id Collectives::exchanged(HloOpcode opcode, Id value) {
  const Extents extents = edit_.dimensions(value);
  if (edit_.shape(value).type == ElementType::kPred) {
    const Id floating = exchanged(opcode, edit_.convert(value, ElementType::kF32));
    return edit_.compare(floating, edit_.splat(ElementType::kF32, extents, 0),
                         ComparisonDirection::kNe);
  }
  return out_of_blocks(ring(opcode, in_blocks(value), extents[0]), extents);
}

void Collectives::finish(Id id, const std::vector<Id>& results) {
  if (at(id).shape.is_tuple()) {
    edit_.finish_tuple(results);
  } else {
    edit_.finish(results.at(0));
  }
}

void Collectives::visit_gather(Id id) {
  const HloInstruction gather = at(id);
  std::vector<Id> results;
  for (Id operand : gather.operands) {
    const std::int64_t d = gather.dimensions.at(0);
    Extents extents = edit_.dimensions(operand), permutation;
    const Id all = gathered(operand);
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(extents.size()); ++i) {
      if (i == d) permutation.push_back(0);
      permutation.push_back(i + 1);
    }
    extents[static_cast<std::size_t>(d)] *= members_;
    results.push_back(edit_.reshape(edit_.transpose(all, permutation), extents));
  }
  finish(id, results);
}

void Collectives::visit_reduce_scatter(Id id) {
  const HloInstruction scatter = at(id);
  const HloOpcode combination = scatter_operation(module_.computation(scatter.called.at(0)));
  const bool is_own = combination == HloOpcode::kParameter;
  if (combination != HloOpcode::kAdd && !is_own) refuse("expected one that adds");
  std::vector<Id> results;
  for (Id operand : scatter.operands) {
    const ElementType type = edit_.shape(operand).type;
    if (!is_own && type != ElementType::kF32 && type != ElementType::kBf16) {
      refuse("expected floating values");
    }
    const Id value = is_own ? operand : edit_.convert(operand, ElementType::kF32);
    const std::int64_t d = scatter.dimensions.at(0);
    Extents extents = edit_.dimensions(operand), order = {d};
    const auto place = static_cast<std::size_t>(d);
    extents[place] /= members_;
    const Extents result = extents;
    extents.insert(extents.begin() + d, members_);
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(extents.size()); ++i) {
      if (i != d) order.push_back(i);
    }
    const Id parts = edit_.transpose(edit_.reshape(value, extents), order);
    results.push_back(edit_.convert(edit_.reshape(scattered(parts, combination), result), type));
  }
  finish(id, results);
}

/// The array form: the split dimension is cut into a part for each replica; what all sent to this
/// one is joined along it. The tuple form: operand i goes to replica i.
void Collectives::visit_all_to_all(Id id) {
  const HloInstruction exchange = at(id);
  if (exchange.shape.is_tuple()) {
    if (static_cast<std::int64_t>(exchange.operands.size()) != members_) {
      refuse("expected an operand for each member of a group");
    }
    Extents stacked = edit_.dimensions(exchange.operands[0]);
    stacked.insert(stacked.begin(), 1);
    std::vector<Id> parts;
    for (Id operand : exchange.operands) parts.push_back(edit_.reshape(operand, stacked));
    const Id mine = exchanged(HloOpcode::kAllToAll, edit_.concatenate(parts, 0));
    std::vector<Id> results;
    for (std::int64_t from = 0; from < members_; ++from) {
      Extents starts(stacked.size(), 0), limits = edit_.dimensions(mine);
      starts[0] = from;
      limits[0] = from + 1;
      results.push_back(
          edit_.reshape(edit_.slice(mine, starts, limits), edit_.dimensions(exchange.operands[0])));
    }
    return edit_.finish_tuple(results);
  }
  const std::int64_t d = exchange.dimensions.at(0);
  const Extents extents = edit_.dimensions(exchange.operands[0]);
  Extents cut = extents, to_front = {d}, back;
  cut[static_cast<std::size_t>(d)] /= members_;
  cut.insert(cut.begin() + d, members_);
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(cut.size()); ++i) {
    if (i != d) to_front.push_back(i);
  }
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(cut.size()); ++i) {
    back.push_back(i < d ? i + 1 : i == d ? 0 : i);
  }
  const Id parts = edit_.transpose(edit_.reshape(exchange.operands[0], cut), to_front);
  const Id mine = exchanged(HloOpcode::kAllToAll, parts);
  edit_.finish(edit_.reshape(edit_.transpose(mine, back), extents));
}

std::vector<Id> Collectives::arrays_of(const HloInstruction& permute) {
  std::vector<Id> arrays;
  for (Id operand : permute.operands) {
    const hlo::Shape shape = edit_.shape(operand);
    if (!shape.is_tuple()) arrays.push_back(operand);
    for (std::size_t i = 0; i < shape.elements.size(); ++i) {
      HloInstruction element =
          edit_.start(HloOpcode::kGetTupleElement, {operand}, shape.elements[i]);
      element.tuple_index = static_cast<std::int64_t>(i);
      arrays.push_back(edit_.append_instruction(std::move(element)));
    }
  }
  const std::vector<hlo::Shape> alone{permute.shape};
  const std::vector<hlo::Shape>& results =
      permute.shape.is_tuple() ? permute.shape.elements : alone;
  bool is_same = arrays.size() == results.size();
  for (std::size_t i = 0; is_same && i < arrays.size(); ++i) {
    is_same = !results[i].is_tuple() && hlo::same_extent(edit_.shape(arrays[i]), results[i]);
  }
  if (!is_same) refuse("expected arrays of the shapes of its results (parts in place are unknown)");
  return arrays;
}

void Collectives::visit_permute(Id id) {
  const HloInstruction permute = at(id);
  sources_of_permute(permute, replicas_);  // Refuses what is none.
  std::vector<Id> results;
  for (Id array : arrays_of(permute)) {
    const Extents extents = edit_.dimensions(array);
    Extents block = extents;
    block.insert(block.begin(), 1);
    const Id passed = exchanged(HloOpcode::kCollectivePermute, edit_.reshape(array, block));
    results.push_back(edit_.reshape(passed, extents));
  }
  finish(id, results);
}

Id Collectives::combined(HloOpcode opcode, Id all) {
  const Extents extents = edit_.dimensions(all);
  const Extents one(extents.begin() + 1, extents.end());
  Extents starts(extents.size(), 0), limits = extents;
  Id result = -1;
  for (std::int64_t r = 0; r < members_; ++r) {
    starts[0] = r;
    limits[0] = r + 1;
    const Id part = edit_.reshape(edit_.slice(all, starts, limits), one);
    result = result < 0 ? part : edit_.binary(opcode, result, part);
  }
  return result;
}

/// Every member collects all arrays: one way round the ring, of a small array.
Id Collectives::reduced_whole(HloOpcode opcode, Id operand) {
  return combined(opcode, gathered(operand));
}

/// Reduce-scatter and all-gather: each member gets one part of all arrays by an exchange, combines
/// them, and all collect what came out. Each sends twice the array, whatever the members.
Id Collectives::reduced_in_parts(HloOpcode opcode, Id operand) {
  constexpr std::int64_t kTile = 1024;  // Parts of whole tiles lie one by one.
  const Extents extents = edit_.dimensions(operand);
  const std::int64_t elements = edit_.shape(operand).element_count();
  const std::int64_t unit = members_ * kTile;
  const std::int64_t padded = round_up(elements, unit);
  const Id flat = edit_.pad_high(edit_.reshape(operand, {elements}), {padded - elements});
  const Id parts = edit_.reshape(flat, {members_, padded / members_ / isa::kLanes, isa::kLanes});
  const Id mine = combined(opcode, exchanged(HloOpcode::kAllToAll, parts));
  const Id all = edit_.reshape(gathered(mine), {padded});
  return edit_.reshape(edit_.slice(all, {0}, {elements}), extents);
}

/// What changes nothing where it is combined.
double neutral(HloOpcode opcode, ElementType type) {
  const bool is_floating = type == ElementType::kF32 || type == ElementType::kBf16;
  switch (opcode) {
    case HloOpcode::kMaximum:
      if (is_floating) return -HUGE_VAL;
      return type == ElementType::kS32 ? std::numeric_limits<std::int32_t>::min() : 0;
    case HloOpcode::kMinimum:
      if (is_floating) return HUGE_VAL;
      if (type == ElementType::kPred) return 1;
      return type == ElementType::kS32 ? std::numeric_limits<std::int32_t>::max()
                                       : std::numeric_limits<std::uint32_t>::max();
    case HloOpcode::kAnd:
      if (type == ElementType::kPred) return 1;
      return type == ElementType::kS32 ? -1.0 : std::numeric_limits<std::uint32_t>::max();
    default:
      return 0;
  }
}

Id Collectives::own_group() {
  std::vector<float> group_of(static_cast<std::size_t>(replicas_));
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    for (const std::int64_t member : groups_[g]) {
      group_of[static_cast<std::size_t>(member)] = static_cast<float>(g);
    }
  }
  const Extents extents = {replicas_};
  const Id is_me = edit_.compare(edit_.iota(ElementType::kS32, extents, 0),
                                 edit_.broadcast(replica(), extents, {}), ComparisonDirection::kEq);
  const Id mine = edit_.select(is_me, edit_.numbers(extents, group_of),
                               edit_.splat(ElementType::kF32, extents, 0));
  return edit_.convert(edit_.reduce(mine, HloOpcode::kAdd, {0}, 0), ElementType::kS32);
}

/// Each group has a row of an array, the rows of other groups hold what changes nothing, and all
/// replicas combine all rows: as many times the bytes as there are groups.
Id Collectives::reduced_in_rows(HloOpcode opcode, Id operand) {
  const ElementType type = edit_.shape(operand).type;
  const auto rows = static_cast<std::int64_t>(groups_.size());
  Extents extents = edit_.dimensions(operand), places;
  extents.insert(extents.begin(), rows);
  for (std::size_t i = 1; i < extents.size(); ++i) places.push_back(static_cast<std::int64_t>(i));
  const Id is_own =
      edit_.compare(edit_.iota(ElementType::kS32, extents, 0),
                    edit_.broadcast(own_group(), extents, {}), ComparisonDirection::kEq);
  const Id nothing = edit_.splat(type, extents, neutral(opcode, type));
  const Id row = edit_.select(is_own, edit_.broadcast(operand, extents, places), nothing);
  groups_.clear();
  ring_.clear();
  are_uneven_ = false;
  members_ = replicas_;
  const Id all = reduced(opcode, row);
  members_ = rows;
  const Id own = combined(opcode, edit_.select(is_own, all, nothing));
  members_ = replicas_;
  return own;
}

Id Collectives::reduced(HloOpcode opcode, Id operand) {
  const ElementType type = edit_.shape(operand).type;
  if (opcode == HloOpcode::kAdd && (type == ElementType::kF32 || type == ElementType::kBf16)) {
    HloInstruction sum = edit_.start(HloOpcode::kAllReduce, {operand}, edit_.shape(operand));
    sum.called = {edit_.scalar_computation(opcode, type)};
    return edit_.append_instruction(std::move(sum));
  }
  const bool is_small = edit_.shape(operand).element_count() < kSmallestParted * members_;
  return is_small ? reduced_whole(opcode, operand) : reduced_in_parts(opcode, operand);
}

/// Other operations than a sum of floating values, and groups of different sizes.
void Collectives::visit_all_reduce(Id id) {
  const HloInstruction reduce = at(id);
  const hlo::Computation& reducer = module_.computation(reduce.called.at(0));
  const HloOpcode opcode = reducer.at(reducer.root).opcode;
  bool all_floating = true;
  for (Id operand : reduce.operands) {
    const ElementType type = edit_.shape(operand).type;
    all_floating = all_floating && (type == ElementType::kF32 || type == ElementType::kBf16);
  }
  if (opcode == HloOpcode::kAdd && all_floating && !are_uneven_) return;
  const bool is_extreme = opcode == HloOpcode::kMaximum || opcode == HloOpcode::kMinimum;
  const bool is_logic = opcode == HloOpcode::kAnd || opcode == HloOpcode::kOr;
  if (!is_extreme && !is_logic && opcode != HloOpcode::kAdd) {
    refuse("expected a sum, maximum, minimum, and, or");
  }
  std::vector<Id> results;
  edit_.stand_for(id);
  const std::vector<std::vector<std::int64_t>> groups = groups_;
  const bool are_uneven = are_uneven_;
  for (Id operand : reduce.operands) {
    const ElementType type = edit_.shape(operand).type;
    groups_ = groups;
    const Id result = are_uneven ? reduced_in_rows(opcode, operand) : reduced(opcode, operand);
    results.push_back(edit_.convert(result, type));
  }
  finish(id, results);
}

void Collectives::visit_id(Id id) {
  const HloInstruction number = at(id);
  if (replicas_ == 1) return edit_.finish(edit_.scalar(number.shape.type, 0));
  // One kernel serves both: a core of the slice is a replica and a partition.
  edit_.finish(edit_.convert(replica(), number.shape.type));
}

/// Of groups of one: everything is its own.
void Collectives::keep(Id id) {
  const HloInstruction alone = at(id);
  if (alone.opcode == HloOpcode::kCollectivePermute) {
    std::vector<Id> results = arrays_of(alone);
    for (Id& result : results) {
      if (sources_of_permute(at(id), replicas_)[0] >= 0) break;
      result = edit_.splat(edit_.shape(result).type, edit_.dimensions(result), 0);
    }
    return finish(id, results);
  }
  std::int64_t given = 0;
  for (Id operand : alone.operands) given += at(operand).shape.unpadded_bytes();
  if (given != alone.shape.unpadded_bytes()) {
    refuse("expected as many replicas as its shapes say, found that it is compiled for one");
  }
  finish(id, alone.operands);
}

void Collectives::visit(Id id) {
  switch (at(id).opcode) {
    case HloOpcode::kAllGather:
    case HloOpcode::kReduceScatter:
    case HloOpcode::kAllToAll:
    case HloOpcode::kCollectivePermute:
    case HloOpcode::kAllReduce:
    case HloOpcode::kPartitionId:
    case HloOpcode::kReplicaId:
      break;
    default:
      return;
  }
  const HloOpcode opcode = at(id).opcode;
  edit_.stand_for(id);
  if (opcode == HloOpcode::kPartitionId || opcode == HloOpcode::kReplicaId) return visit_id(id);
  use_groups(id);
  if (members_ == 1 && !are_uneven_) return keep(id);
  if (opcode == HloOpcode::kAllReduce) return visit_all_reduce(id);
  switch (opcode) {
    case HloOpcode::kAllGather:
      return visit_gather(id);
    case HloOpcode::kReduceScatter:
      return visit_reduce_scatter(id);
    case HloOpcode::kAllToAll:
      return visit_all_to_all(id);
    default:
      return visit_permute(id);
  }
}

}  // namespace

void rewrite_collectives(hlo::Module& module, Refusals& refusals) {
  Collectives(module).run(refusals);
}

}  // namespace tpu::compiler
