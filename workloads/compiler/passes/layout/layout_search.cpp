#include "workloads/compiler/passes/layout/layout_search.h"

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "isa/instruction.h"
#include "sim/base/ceil_divide.h"
#include "sim/base/contains.h"
#include "workloads/compiler/cost.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/array_part.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/ir/tile_parts.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/layout/dot_costs.h"
#include "workloads/compiler/passes/layout/orders_in_step.h"
#include "workloads/compiler/passes/layout/standing_arrays.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;
using hlo::Shape;

namespace {

// What the search weighs against each other, in cycles. They decide between orders only.
constexpr double kTooLarge = 1e9;        ///< What no kernel can do.
constexpr double kRangesOfLanes = 12;    ///< That a kernel may go through: the largest share.
constexpr double kCopiesOfRepeated = 2;  ///< In VMEM: at hand, and on its way.
constexpr double kLeastGain = 0.05;      ///< Of what an order costs, to be worth another one.
/// That neighbours of an order which stays have to gain by another one: small arrays stand in VMEM.
constexpr double kGainOfNeighbours = 16 * kKernelCycles;
constexpr std::size_t kMostDimensions = 6;  ///< For which every pair of minor ones is tried.
constexpr std::size_t kMostMovedTogether = 64;
constexpr std::size_t kMostRelations = 64;  ///< Of a group that moves along with another one.
constexpr int kRounds = 4;

/// Arrays that lie in one order.
struct Group {
  std::vector<InstructionId> arrays;
  std::vector<InstructionId> relations;  ///< Instructions whose cost depends on the order.
  DimensionOrder order;
  bool is_fixed = false;
  bool has_product = false;          ///< One of them is the result of a dot.
  bool stands_nowhere = false;       ///< Kernels compute the arrays where they need them.
  std::vector<InstructionId> parts;  ///< Dynamic slices and updates in it.
};

class LayoutSearch {
 public:
  LayoutSearch(const Computation& computation, bool is_entry, const Target& target,
               const std::vector<DimensionOrder>& given, std::vector<DimensionOrder>& orders)
      : computation_(computation),
        is_entry_(is_entry),
        target_(target),
        bytes_per_cycle_(target.hbm_bytes_per_cycle),
        vmem_bytes_(static_cast<double>(target.vmem_bytes)),
        dot_costs_(target),
        given_(given),
        orders_(orders),
        users_(users_of(computation)),
        group_of_(computation.instructions.size()) {}

  void run() {
    number_shapes();
    make_groups();
    find_relations();
    settle();
    asks_for_parts_ = true;
    settle();
    for (const Group& group : groups_) {
      for (InstructionId id : group.arrays) {
        DimensionOrder& order = orders_[static_cast<std::size_t>(id)];
        if (order.empty()) order = group.order;
      }
    }
  }

 private:
  void settle() {
    for (int round = 0; round < kRounds; ++round) {
      bool better = false;
      for (std::size_t g = 0; g < groups_.size(); ++g) better |= improve(static_cast<int>(g));
      if (!better) break;
    }
  }
  const HloInstruction& at(InstructionId id) const { return computation_.at(id); }
  const Shape& shape(InstructionId id) const { return computation_.at(id).shape; }
  bool takes_part(InstructionId id) const { return !shape(id).is_tuple() && shape(id).rank() >= 2; }
  InstructionId representative(InstructionId id);
  void unite(InstructionId a, InstructionId b);
  bool ends_between(InstructionId operand, InstructionId user) const;
  void unite_in_step();
  void make_groups();
  void find_relations();
  bool is_stuck(InstructionId id) const;
  bool feeds_back(InstructionId reduce) const;
  double reduce_cost(InstructionId id);
  double spread_cost(InstructionId broadcast);
  double repeated_cost(InstructionId broadcast);
  double rows_of_sums(InstructionId reduce, const DimensionOrder& whole) const;
  double registers_of_sums(InstructionId reduce, const DimensionOrder& whole);
  bool are_of_rows(InstructionId reduce, const DimensionOrder& whole) const;
  bool sums_fit(InstructionId reduce, const DimensionOrder& whole);
  bool rows_fit(InstructionId id, const DimensionOrder& whole);
  bool meets_product(InstructionId broadcast) const;
  Group& group(InstructionId id) {
    return groups_[static_cast<std::size_t>(group_of_[static_cast<std::size_t>(id)])];
  }
  const DimensionOrder& order(InstructionId id) { return group(id).order; }

  double bytes(InstructionId id, const DimensionOrder& order);
  double accesses(const HloInstruction& instruction) const;
  bool moves_whole_tiles(const Group& group, const DimensionOrder& order) const;
  void number_shapes();
  double copy_cost(InstructionId id, const DimensionOrder& order);
  double copy_cost(InstructionId id) { return copy_cost(id, order(id)); }
  double moved_cost(InstructionId id, const DimensionOrder& from, const DimensionOrder& to) const;
  double padded_tiles(InstructionId id);
  double copies_to_concatenate(const HloInstruction& concatenate);
  double copies_to_rows(const HloInstruction& instruction);
  double relation_cost(InstructionId id);
  double dot_cost(InstructionId id, bool counts_products = true);
  double avoidable_cost(int g);
  double woven_vector_cost(const HloInstruction& reshape);
  double vector_cost(InstructionId id);
  double given_cost(InstructionId id, const DimensionOrder& order) const;
  double turning_cost(InstructionId id, const DimensionOrder& order);
  double cost_of(int g);
  double cost_of(const std::set<int>& groups);

  std::vector<DimensionOrder> candidates(int g);
  std::vector<std::pair<int, DimensionOrder>> induced(int g);
  bool improve(int g);
  double move(int g, const DimensionOrder& order,
              std::vector<std::pair<int, DimensionOrder>>& before);

  const Computation& computation_;
  bool is_entry_;
  const Target& target_;
  double bytes_per_cycle_, vmem_bytes_;
  DotCosts dot_costs_;
  const std::vector<DimensionOrder>& given_;
  std::vector<DimensionOrder>& orders_;
  std::vector<std::vector<InstructionId>> users_;
  std::set<InstructionId> feeds_back_;  ///< Reductions that do.
  /// Of neighbours, the orders that tile_parts() goes with, too: last, for they lead to lanes of
  /// few elements where others are not tried before.
  bool asks_for_parts_ = false;
  std::vector<InstructionId> group_of_;  ///< First a forest over arrays, then numbers of groups.
  std::vector<Group> groups_;
  std::vector<double> traffic_;  ///< Of each array: how often kernels read or write it.
  std::vector<std::size_t> number_of_shape_;                            ///< Of each array.
  std::vector<std::map<DimensionOrder, std::optional<double>>> bytes_;  ///< Of each shape, so far.
};

InstructionId LayoutSearch::representative(InstructionId id) {
  while (group_of_[static_cast<std::size_t>(id)] != id) {
    InstructionId& next = group_of_[static_cast<std::size_t>(id)];
    next = group_of_[static_cast<std::size_t>(next)];
    id = next;
  }
  return id;
}

bool LayoutSearch::is_stuck(InstructionId id) const {
  if (!chooses_order(at(id)) && !moves_rows(at(id))) return true;
  const bool is_result = id == computation_.root;
  if (!is_entry_ && (is_result || at(id).opcode == HloOpcode::kParameter)) return true;
  const auto& readers = users_[static_cast<std::size_t>(id)];
  return std::any_of(readers.begin(), readers.end(), [&](InstructionId user) {
    const bool is_root_tuple = user == computation_.root && at(user).opcode == HloOpcode::kTuple;
    if (is_root_tuple) return !is_entry_;
    if (moves_rows(at(user))) return at(user).operands[1] == id;
    return shape(user).is_tuple() || !chooses_order(at(user));
  });
}

void LayoutSearch::unite(InstructionId a, InstructionId b) {
  a = representative(a), b = representative(b);
  group_of_[static_cast<std::size_t>(std::max(a, b))] = std::min(a, b);
}

/// Whether an order that is given ends at a dynamic slice that would cut its tiles.
bool LayoutSearch::ends_between(InstructionId operand, InstructionId user) const {
  const auto is_given = [this](InstructionId id) {
    return !orders_[static_cast<std::size_t>(id)].empty();
  };
  return is_given(operand) != is_given(user) &&
         (is_dynamic_part(at(operand)) || is_dynamic_part(at(user)));
}

/// What is concatenated lies as the whole does, but for expressions over few lanes that take longer
/// for their padding than it takes to copy what they make: sines of a few features that stand
/// beside many.
void LayoutSearch::unite_in_step() {
  std::iota(group_of_.begin(), group_of_.end(), 0);
  std::vector<const HloInstruction*> concatenates;
  for (const HloInstruction& instruction : computation_.instructions) {
    if (!takes_part(instruction.id)) continue;
    if (instruction.opcode == HloOpcode::kConcatenate) {
      concatenates.push_back(&instruction);
      continue;
    }
    for (InstructionId operand : operands_in_step(computation_, instruction)) {
      if (!ends_between(operand, instruction.id)) unite(operand, instruction.id);
    }
  }
  std::map<InstructionId, double> spared;  // Of each expression, what its padding costs.
  for (const HloInstruction& instruction : computation_.instructions) {
    const double work = takes_part(instruction.id) ? vector_cycles(instruction.opcode) : 0;
    if (work > 0) spared[representative(instruction.id)] += work * padded_tiles(instruction.id);
  }
  const auto whole = [&](InstructionId id) { return copy_cost(id, row_major(shape(id).rank())); };
  for (const HloInstruction* concatenate : concatenates) {
    for (InstructionId operand : concatenate->operands) {
      const auto of = spared.find(representative(operand));
      if (of != spared.end()) of->second -= whole(operand);
    }
  }
  std::vector<std::pair<InstructionId, InstructionId>> joined;
  for (const HloInstruction* concatenate : concatenates) {
    for (InstructionId operand : concatenate->operands) {
      const auto of = spared.find(representative(operand));
      if (of == spared.end() || of->second <= 0) joined.emplace_back(operand, concatenate->id);
    }
  }
  for (const auto& [operand, concatenate] : joined) {
    if (!ends_between(operand, concatenate)) unite(operand, concatenate);
  }
}

void LayoutSearch::make_groups() {
  unite_in_step();
  std::vector<InstructionId> number(computation_.instructions.size(), -1);
  traffic_.assign(computation_.instructions.size(), 0);
  for (const HloInstruction& instruction : computation_.instructions) {
    const InstructionId id = instruction.id;
    if (!takes_part(id)) continue;
    InstructionId& mine = number[static_cast<std::size_t>(representative(id))];
    if (mine < 0) {
      mine = static_cast<InstructionId>(groups_.size());
      groups_.push_back({{}, {}, row_major(shape(id).rank()), false, false, false, {}});
    }
    Group& group = groups_[static_cast<std::size_t>(mine)];
    group.arrays.push_back(id);
    const DimensionOrder& given = orders_[static_cast<std::size_t>(id)];
    if (!given.empty()) {
      group.order = given;
      group.is_fixed = true;
    }
    group.is_fixed |= is_stuck(id);
    group.has_product |= instruction.opcode == HloOpcode::kDot;
    if (is_dynamic_part(instruction)) group.parts.push_back(id);
    traffic_[static_cast<std::size_t>(id)] = accesses(instruction);
  }
  for (Group& group : groups_) {
    group.stands_nowhere = stand_nowhere(computation_, users_, group.arrays);
  }
  for (std::size_t i = 0; i < number.size(); ++i) {
    const InstructionId id = static_cast<InstructionId>(i);
    number[i] = takes_part(id) ? number[static_cast<std::size_t>(representative(id))] : -1;
  }
  group_of_ = number;
}

/// How often kernels read or write an array. Elementwise values are written when something else
/// reads them; of an array that parts are read from or written to, the parts move.
double LayoutSearch::accesses(const HloInstruction& instruction) const {
  const std::vector<InstructionId>& readers = users_[static_cast<std::size_t>(instruction.id)];
  double count = 1;
  switch (instruction.opcode) {
    case HloOpcode::kBroadcast:
    case HloOpcode::kIota:
    case HloOpcode::kReshape:
    case HloOpcode::kTranspose:
    case HloOpcode::kConstant:
      count = 0;
      break;
    case HloOpcode::kDynamicUpdateSlice:
      count = double(shape(instruction.operands[1]).element_count()) /
              double(std::max<std::int64_t>(1, instruction.shape.element_count()));
      break;
    case HloOpcode::kParameter:
      count = !readers.empty() && std::all_of(readers.begin(), readers.end(),
                                              [&](InstructionId user) {
                                                return is_dynamic_part(at(user)) &&
                                                       at(user).operands[0] == instruction.id;
                                              })
                  ? 0
                  : 1;
      break;
    default:
      if (hlo::is_elementwise(instruction.opcode) || moves_rows(instruction)) count = 0;
  }
  for (InstructionId user : readers) {
    const bool reads = at(user).opcode == HloOpcode::kDot || at(user).opcode == HloOpcode::kReduce;
    const bool gives = user == computation_.root && hlo::is_elementwise(instruction.opcode);
    count += reads || gives ? 1 : 0;
  }
  return count;
}

/// Whether dynamic slices and updates move whole tiles in the order: they take the two minor
/// dimensions whole, and what is one range of an array in row-major order stays one.
bool LayoutSearch::moves_whole_tiles(const Group& group, const DimensionOrder& order) const {
  const DimensionOrder rows = row_major(static_cast<std::int64_t>(order.size()));
  return std::all_of(group.parts.begin(), group.parts.end(), [&](InstructionId id) {
    const PartOfArray of = part_of_array(computation_, at(id));
    return lies_for_parts(computation_, at(id), order) &&
           (is_one_range(of.array, of.part, order) || !is_one_range(of.array, of.part, rows));
  });
}

void LayoutSearch::find_relations() {
  for (const HloInstruction& instruction : computation_.instructions) {
    switch (instruction.opcode) {
      case HloOpcode::kReshape:
      case HloOpcode::kTranspose:
      case HloOpcode::kBroadcast:
      case HloOpcode::kReduce:
      case HloOpcode::kDot:
      case HloOpcode::kConcatenate:
        break;
      default:
        if (!moves_rows(instruction)) continue;
    }
    if (instruction.opcode == HloOpcode::kReduce && !instruction.shape.is_tuple() &&
        takes_part(instruction.operands[0]) && feeds_back(instruction.id)) {
      feeds_back_.insert(instruction.id);
    }
    std::set<InstructionId> touched;
    touched.insert(group_of_[static_cast<std::size_t>(instruction.id)]);
    for (InstructionId operand : instruction.operands) {
      touched.insert(group_of_[static_cast<std::size_t>(operand)]);
    }
    if (instruction.opcode == HloOpcode::kConcatenate && touched.size() == 1) continue;
    for (InstructionId g : touched) {
      if (g >= 0) groups_[static_cast<std::size_t>(g)].relations.push_back(instruction.id);
    }
  }
}

double LayoutSearch::bytes(InstructionId id, const DimensionOrder& order) {
  std::optional<double>& known = bytes_[number_of_shape_[static_cast<std::size_t>(id)]][order];
  if (!known) {
    Shape laid_out = shape(id);
    laid_out.layout = tiled_layout(laid_out.type, DimensionOrder(order.rbegin(), order.rend()));
    known = static_cast<double>(laid_out.padded_bytes());
  }
  return *known;
}

/// Equal shapes get one number.
void LayoutSearch::number_shapes() {
  std::map<std::pair<hlo::ElementType, std::vector<std::int64_t>>, std::size_t> numbers;
  for (const HloInstruction& instruction : computation_.instructions) {
    const auto key = std::make_pair(instruction.shape.type, instruction.shape.dimensions);
    number_of_shape_.push_back(numbers.emplace(key, numbers.size()).first->second);
  }
  bytes_.resize(numbers.size());
}

double LayoutSearch::copy_cost(InstructionId id, const DimensionOrder& order) {
  return kKernelCycles + 2 * bytes(id, order) / bytes_per_cycle_;
}

/// Of a copy from an order to another one.
double LayoutSearch::moved_cost(InstructionId id, const DimensionOrder& from,
                                const DimensionOrder& to) const {
  if (same_order(shape(id), from, to)) return 0;
  return move_cycles(in_order(shape(id), from), in_order(shape(id), to), target_);
}

/// Tiles of an array in row-major order that hold nothing but padding.
double LayoutSearch::padded_tiles(InstructionId id) {
  const double padding =
      bytes(id, row_major(shape(id).rank())) - static_cast<double>(shape(id).unpadded_bytes());
  return padding / (1024.0 * hlo::byte_size(shape(id).type));
}

/// Of operands that lie otherwise than the whole.
double LayoutSearch::copies_to_concatenate(const HloInstruction& concatenate) {
  double cost = 0;
  for (InstructionId operand : concatenate.operands) {
    if (!same_order(shape(operand), order(operand), order(concatenate.id))) {
      cost += copy_cost(operand);
    }
  }
  return cost;
}

/// Of arrays of rows that lie otherwise.
double LayoutSearch::copies_to_rows(const HloInstruction& instruction) {
  double cost = 0;
  for (std::size_t i = 0; i < instruction.operands.size(); i += 2) {
    const InstructionId rows = instruction.operands[i];
    if (takes_part(rows)) cost += moved_cost(rows, order(rows), row_major(shape(rows).rank()));
  }
  if (!takes_part(instruction.id)) return cost;
  return cost +
         moved_cost(instruction.id, row_major(instruction.shape.rank()), order(instruction.id));
}

double LayoutSearch::dot_cost(InstructionId id, bool counts_products) {
  const InstructionId lhs = at(id).operands[0], rhs = at(id).operands[1];
  if (!takes_part(lhs) || !takes_part(rhs)) return 0;
  const DotCosts::Cost& cost =
      dot_costs_.of(at(id), shape(lhs), shape(rhs), {order(lhs), order(rhs), order(id)});
  return cost.copies + (counts_products ? cost.products : 0);
}

/// Whether what a reduction makes is broadcast over the arrays that it was made of, as a softmax or
/// a norm does.
bool LayoutSearch::feeds_back(InstructionId reduce) const {
  const InstructionId g = group_of_[static_cast<std::size_t>(at(reduce).operands[0])];
  std::set<InstructionId> seen{reduce};
  std::vector<InstructionId> work{reduce};
  while (!work.empty() && seen.size() < kMostMovedTogether) {
    const InstructionId value = work.back();
    work.pop_back();
    for (InstructionId user : users_[static_cast<std::size_t>(value)]) {
      const HloOpcode opcode = at(user).opcode;
      if (opcode == HloOpcode::kBroadcast && group_of_[static_cast<std::size_t>(user)] == g) {
        return true;
      }
      if (hlo::is_elementwise(opcode) && seen.insert(user).second) work.push_back(user);
    }
  }
  return false;
}

/// A number for each row comes from the lanes of its array.
double LayoutSearch::spread_cost(InstructionId broadcast) {
  const DimensionOrder& whole = order(broadcast);
  const auto& places = at(broadcast).dimensions;
  if (whole.size() < 2 || contains(places, whole.back()) ||
      !contains(places, whole[whole.size() - 2])) {
    return 0;
  }
  return kSpreadRowsCycles * double(shape(at(broadcast).operands[0]).element_count()) / 8;
}

/// What does not fit VMEM for one index of the dimensions outside of those along which it comes
/// again is read again for each index of these.
double LayoutSearch::repeated_cost(InstructionId broadcast) {
  const InstructionId operand = at(broadcast).operands[0];
  const auto& extents = shape(broadcast).dimensions;
  const double all = bytes(operand, order(operand));
  double kept = all, times = 1;
  bool is_outside = true;
  for (std::int64_t d : order(broadcast)) {
    const auto extent = double(extents[static_cast<std::size_t>(d)]);
    if (extent == 1) continue;
    const bool is_own = contains(at(broadcast).dimensions, d);
    is_outside &= is_own;
    if (is_outside) kept /= extent;
    if (!is_own) times *= extent;
    if (is_own && times > 1) break;
  }
  return kept * kCopiesOfRepeated <= vmem_bytes_ ? 0 : (times - 1) * all / bytes_per_cycle_;
}

/// Registers whose lanes are added up: each has the sums of eight rows, or of eight matrices.
double LayoutSearch::registers_of_sums(InstructionId reduce, const DimensionOrder& whole) {
  const auto& extents = shape(at(reduce).operands[0]).dimensions;
  std::int64_t others = 1, rows = 1;
  for (std::int64_t d : whole) {
    if (contains(at(reduce).dimensions, d)) continue;
    const bool is_row = whole.size() >= 2 && d == whole[whole.size() - 2];
    (is_row ? rows : others) *= extents[static_cast<std::size_t>(d)];
  }
  return double(rows > 1 ? others * ceil_divide(rows, 8) : ceil_divide(others, 8));
}

/// Rows of lanes that sums of rows become.
double LayoutSearch::rows_of_sums(InstructionId reduce, const DimensionOrder& whole) const {
  const auto& extents = shape(at(reduce).operands[0]).dimensions;
  std::int64_t rows = ceil_divide(extents[static_cast<std::size_t>(whole.back())], isa::kLanes);
  for (std::size_t i = 0; i + 2 < whole.size(); ++i) {
    if (!contains(at(reduce).dimensions, whole[i]))
      rows *= extents[static_cast<std::size_t>(whole[i])];
  }
  return double(rows);
}

/// Sums across lanes take longer than others, but one along the lanes alone shares a kernel with
/// what needs its result.
double LayoutSearch::reduce_cost(InstructionId id) {
  if (at(id).opcode != HloOpcode::kReduce) return 0;
  const InstructionId operand = at(id).operands[0];
  const DimensionOrder& whole = order(operand);
  const auto& reduced = at(id).dimensions;
  const bool has_lanes = std::find(reduced.begin(), reduced.end(), whole.back()) != reduced.end();
  const double tiles = bytes(operand, whole) / (1024.0 * hlo::byte_size(shape(operand).type));
  const bool is_apart = feeds_back_.count(id) != 0 && (reduced.size() > 1 || !has_lanes);
  // Tiles of one sum are added to each other first.
  const double sums = has_lanes ? registers_of_sums(id, whole) : 0;
  const bool ends_as_rows = are_of_rows(id, whole) && feeds_back_.count(id) == 0;
  const double rows = ends_as_rows ? rows_of_sums(id, whole) : 0;
  return tiles * kSumCycles + sums * (kLaneSumCycles + kRowsToLanesCycles) + rows * kRowSumCycles +
         (is_apart ? kKernelCycles / 2 : 0) + (sums_fit(id, whole) ? 0 : kTooLarge);
}

/// Whether the sums are of rows: registers that are added up to one row each.
bool LayoutSearch::are_of_rows(InstructionId reduce, const DimensionOrder& whole) const {
  const auto& reduced = at(reduce).dimensions;
  return whole.size() >= 2 && contains(reduced, whole[whole.size() - 2]) &&
         !contains(reduced, whole.back());
}

/// Whether what a kernel keeps of a reduction until its end fits VMEM, with the results that it
/// becomes: a register for each index of the dimensions that are kept outside of the tiles, and for
/// each row and lane tile that is. The innermost of those dimensions becomes the rows of the result
/// where the rows or the lanes are reduced. Sums along the lanes alone are known with their rows,
/// and the result is kept. Where the outermost dimension is not reduced: that of one index of it,
/// or of eight where it becomes the rows, if it can be cut so. Of a single matrix whose rows are
/// added the lanes are cut in tiles, of a few of few rows in ranges.
bool LayoutSearch::sums_fit(InstructionId reduce, const DimensionOrder& whole) {
  if (shape(reduce).is_tuple() || whole.size() < 2) return true;
  const auto& extents = shape(at(reduce).operands[0]).dimensions;
  const auto extent = [&](std::size_t i) { return extents[static_cast<std::size_t>(whole[i])]; };
  const auto is_kept = [&](std::size_t i) {
    return !contains(at(reduce).dimensions, whole[i]) || extent(i) == 1;
  };
  const std::size_t rows = whole.size() - 2, lanes = rows + 1;
  bool along_lanes = !is_kept(lanes);
  for (std::size_t i = 0; i < lanes; ++i) along_lanes &= is_kept(i);
  bool is_of_one_matrix = !is_kept(rows) && is_kept(lanes);
  for (std::size_t i = 0; i < rows; ++i) is_of_one_matrix &= extent(i) == 1;
  if (is_of_one_matrix) return true;
  const bool has_tiles = is_kept(rows) && is_kept(lanes);
  const std::int64_t tile = along_lanes ? isa::kLanes : isa::kSublanes;
  double registers = is_kept(rows) ? double(ceil_divide(extent(rows), tile)) : 1;
  registers *= is_kept(lanes) ? double(ceil_divide(extent(lanes), isa::kLanes)) : 1;
  std::optional<std::size_t> row_of_result;
  for (std::size_t i = rows; i-- > 0;) {
    if (!is_kept(i) || extent(i) == 1) continue;
    const bool is_row = !has_tiles && !row_of_result;
    if (is_row) row_of_result = i;
    registers *= double(is_row ? round_up(extent(i), isa::kSublanes) : extent(i));
  }
  const double results = (kCopiesOfSums - 1) / (has_tiles ? 1 : isa::kSublanes);
  double bytes = (results + (along_lanes ? 0 : 1)) * registers * isa::kSublanes * isa::kLanes * 4;
  const double room = kRoomForSums * vmem_bytes_;
  if (bytes <= room) return true;
  bool are_few = is_kept(lanes);
  int others = 0;  // Smaller arrays have at most one of two.
  for (std::size_t i = 0; i <= rows; ++i) {
    are_few &= extent(i) <= isa::kSublanes;
    others += extent(i) > 1 ? 1 : 0;
  }
  if (are_few && others <= 2 && bytes <= kRangesOfLanes * room) return true;
  std::size_t outermost = 0;
  while (outermost < rows && extent(outermost) == 1) ++outermost;
  const bool is_row = row_of_result == outermost;
  if (outermost == rows || !is_kept(outermost)) return false;
  if (is_row && extent(outermost) % isa::kSublanes != 0) return false;
  bytes *= (is_row ? double(isa::kSublanes) : 1.0) / double(extent(outermost));
  return bytes <= room;
}

/// Whether eight rows of the array, and of another one, fit VMEM twice, where a kernel has to go
/// through whole rows: for its sums along them. Else it cuts the lanes; of eight rows or fewer of
/// which less is moved it does so better. Arrays that stand nowhere fit.
bool LayoutSearch::rows_fit(InstructionId id, const DimensionOrder& whole) {
  constexpr double kBuffers = 4;
  const hlo::Shape& array = shape(id);
  const auto extent = [&array](std::int64_t d) {
    return array.dimensions[static_cast<std::size_t>(d)];
  };
  const std::size_t rows = whole.size() - 2;
  if (extent(whole[rows]) <= isa::kSublanes || group(id).stands_nowhere) return true;
  const HloInstruction& instruction = at(id);
  bool is_whole =
      instruction.opcode == HloOpcode::kIota ||
      (instruction.opcode == HloOpcode::kBroadcast && shape(instruction.operands[0]).rank() > 0);
  bool fits = true;
  for (InstructionId user : users_[static_cast<std::size_t>(id)]) {
    if (at(user).opcode != HloOpcode::kReduce) continue;
    is_whole = true;
    fits &= !contains(at(user).dimensions, whole.back());
  }
  const std::int64_t lanes = round_up(extent(whole.back()), isa::kLanes);
  if (!is_whole || kBuffers * isa::kSublanes * 4 * double(lanes) <= vmem_bytes_) return true;
  return fits && !leaves_fewer_rows(array, whole);
}

/// Whether a broadcast is combined with the result of a dot, as a bias is.
bool LayoutSearch::meets_product(InstructionId broadcast) const {
  const auto& readers = users_[static_cast<std::size_t>(broadcast)];
  return std::any_of(readers.begin(), readers.end(), [this](InstructionId user) {
    const auto& operands = at(user).operands;
    return hlo::is_elementwise(at(user).opcode) &&
           std::any_of(operands.begin(), operands.end(), [this](InstructionId operand) {
             return at(operand).opcode == HloOpcode::kDot;
           });
  });
}

/// Between a matrix of a few elements a row and a vector, which may be woven of columns.
double LayoutSearch::woven_vector_cost(const HloInstruction& reshape) {
  const InstructionId operand = reshape.operands[0];
  const bool joins = reshape.shape.rank() == 1;
  const InstructionId matrix = joins ? operand : reshape.id;
  if (!takes_part(matrix) || shape(matrix).rank() != 2) return 0;
  const auto ends = [&](const DimensionOrder& order) {
    const Shape laid = in_order(shape(matrix), order);
    Shape vector = shape(joins ? reshape.id : operand);
    vector.layout = row_major_layout(vector.type, vector.rank());
    return joins ? std::pair(laid, vector) : std::pair(vector, laid);
  };
  const auto [columns, to] = ends({1, 0});
  if (!tile_parts(columns, to)) return 0;
  const auto [from, result] = ends(order(matrix));
  return move_cycles(from, result, target_);
}

/// A vector that is broadcast over, or reduced from, the result of a dot goes with the dot's kernel
/// where it lies along the lanes, a short one that is broadcast also along the rows; else the
/// result is written and read once more.
double LayoutSearch::vector_cost(InstructionId id) {
  const HloInstruction& instruction = at(id);
  const bool is_broadcast = instruction.opcode == HloOpcode::kBroadcast;
  if (instruction.opcode == HloOpcode::kReshape) return woven_vector_cost(instruction);
  if (!is_broadcast && instruction.opcode != HloOpcode::kReduce) return 0;
  const InstructionId matrix = is_broadcast ? id : instruction.operands[0];
  const InstructionId vector = is_broadcast ? instruction.operands[0] : id;
  if (!takes_part(matrix) || shape(vector).rank() != 1 || !group(matrix).has_product) return 0;
  if (is_broadcast ? !meets_product(id) : feeds_back_.count(id) != 0) return 0;
  const DimensionOrder& along = order(matrix);
  const bool has_lanes = contains(instruction.dimensions, along.back());
  if (has_lanes == is_broadcast) return 0;
  const bool is_short =
      static_cast<std::uint64_t>(shape(vector).element_count()) <= kLongestRowVector;
  const bool goes_with_rows =
      is_broadcast && is_short && instruction.dimensions[0] == along[along.size() - 2];
  // Its kernel spreads such a vector over the lanes first.
  if (goes_with_rows) return kKernelCycles;
  return kKernelCycles + 2 * bytes(matrix, order(matrix)) / bytes_per_cycle_;
}

double LayoutSearch::relation_cost(InstructionId id) {
  const HloInstruction& instruction = at(id);
  const InstructionId operand = instruction.operands[0];
  if (instruction.opcode == HloOpcode::kDot) return takes_part(id) ? dot_cost(id) : 0;
  if (moves_rows(instruction)) return copies_to_rows(instruction);
  if (!takes_part(operand) || !takes_part(id)) {
    return vector_cost(id) + (takes_part(operand) ? reduce_cost(id) : 0);
  }
  switch (instruction.opcode) {
    case HloOpcode::kReshape: {
      const auto fits = order_behind_reshape(shape(operand), order(operand), shape(id));
      if (fits && same_order(shape(id), *fits, order(id))) return 0;
      const Shape from = in_order(shape(operand), order(operand));
      const Shape to = in_order(shape(id), order(id));
      // Of woven lanes that fill no tile what is around them is better off elsewhere.
      const auto parts = tile_parts(from, to);
      if (parts && (!parts->woven || parts->of_rows || parts->extent >= isa::kLanes)) {
        return move_cycles(from, to, target_);
      }
      const double copies = copy_cost(operand) + copy_cost(id);
      const bool by_one_copy =
          copy_of_reshape(shape(operand), order(operand), shape(id), order(id)).has_value();
      return (by_one_copy ? copies / 2 : copies) + kKernelCycles;
    }
    case HloOpcode::kConcatenate:
      return copies_to_concatenate(instruction);
    case HloOpcode::kTranspose: {
      const bool moves_nothing = same_order(
          shape(id), order_behind_transpose(order(operand), instruction.dimensions), order(id));
      return moves_nothing ? 0 : (copy_cost(operand) + copy_cost(id)) / 2;
    }
    case HloOpcode::kBroadcast: {
      const DimensionOrder part = order_of_part(order(id), instruction.dimensions);
      return moved_cost(operand, order(operand), part) + spread_cost(id) + repeated_cost(id);
    }
    default: {
      std::vector<std::int64_t> kept;
      for (std::int64_t d = 0; d < shape(operand).rank(); ++d) {
        const auto& reduced = instruction.dimensions;
        if (std::find(reduced.begin(), reduced.end(), d) == reduced.end()) kept.push_back(d);
      }
      return moved_cost(id, order_of_part(order(operand), kept), order(id)) + reduce_cost(id);
    }
  }
}

/// Whether elements move along the lanes by other than whole tiles and go by another order for it.
/// (Kernels read slices in place.)
bool turns_lanes(const HloInstruction& instruction, const DimensionOrder& order) {
  const std::int64_t lanes = order.back();
  if (instruction.opcode == HloOpcode::kReverse) return contains(instruction.dimensions, lanes);
  if (instruction.opcode != HloOpcode::kPad) return false;
  const hlo::PaddingDimension& padding = instruction.padding[static_cast<std::size_t>(lanes)];
  return padding.low % 128 != 0 || padding.interior != 0;
}

/// Of the copy between an array and what others have or want of it.
double LayoutSearch::given_cost(InstructionId id, const DimensionOrder& order) const {
  const DimensionOrder& given = given_[static_cast<std::size_t>(id)];
  return given.empty() ? 0 : moved_cost(id, given, order);
}

/// Of elements that move along the lanes. A kernel that adds them up turns the sum as it is made.
double LayoutSearch::turning_cost(InstructionId id, const DimensionOrder& order) {
  const bool is_sum = at(at(id).operands[0]).opcode == HloOpcode::kAdd;
  return is_sum ? bytes(id, order) / bytes_per_cycle_ : copy_cost(id, order);
}

double LayoutSearch::cost_of(const std::set<int>& groups) {
  double cost = 0;
  std::set<InstructionId> relations;
  for (int g : groups) {
    const Group& group = groups_[static_cast<std::size_t>(g)];
    for (InstructionId id : group.arrays) {
      if (!rows_fit(id, group.order)) cost += kTooLarge;
      cost += given_cost(id, group.order);
      const double traffic = traffic_[static_cast<std::size_t>(id)];
      const double work = vector_cycles(at(id).opcode);
      if (traffic == 0 && work == 0) continue;
      const double size = bytes(id, group.order);
      const double tile = 1024.0 * hlo::byte_size(shape(id).type);
      cost += traffic * size / bytes_per_cycle_ + work * size / tile;
      if (turns_lanes(at(id), group.order)) cost += turning_cost(id, group.order);
    }
    relations.insert(group.relations.begin(), group.relations.end());
  }
  for (InstructionId id : relations) cost += relation_cost(id);
  return cost;
}

double LayoutSearch::cost_of(int g) { return cost_of(std::set<int>{g}); }

/// The order with dimensions that are reduced inside of the others, outside of the two minor ones.
DimensionOrder reduced_inside(DimensionOrder order, const std::vector<std::int64_t>& reduced) {
  if (order.size() < 2) return order;
  std::stable_partition(order.begin(), order.end() - 2, [&](std::int64_t d) {
    return std::find(reduced.begin(), reduced.end(), d) == reduced.end();
  });
  return order;
}

/// Row-major order, and every pair of long dimensions as the two minor ones (a single one with any
/// other); where sums of such an
/// order are too large for VMEM, what is kept of them outside.
std::vector<DimensionOrder> LayoutSearch::candidates(int g) {
  const Group& group = groups_[static_cast<std::size_t>(g)];
  const Shape& like = shape(group.arrays.front());
  const DimensionOrder plain = row_major(like.rank());
  std::vector<DimensionOrder> found{plain};
  const auto add = [&](DimensionOrder order) {
    if (std::find(found.begin(), found.end(), order) == found.end()) {
      found.push_back(std::move(order));
    }
  };
  for (InstructionId id : group.arrays) {
    const DimensionOrder& given = given_[static_cast<std::size_t>(id)];
    if (!given.empty()) add(given);
  }
  for (auto& [neighbour, order] : induced(g)) {
    if (neighbour == g) add(std::move(order));
  }
  if (plain.size() > kMostDimensions) return found;
  const auto is_long = [&](std::int64_t d) {
    return like.dimensions[static_cast<std::size_t>(d)] > 1;
  };
  const bool is_line = std::count_if(plain.begin(), plain.end(), is_long) == 1;
  for (std::int64_t lanes : plain) {
    if (!is_long(lanes)) continue;
    for (std::int64_t rows : plain) {
      if (rows == lanes || (!is_long(rows) && !is_line)) continue;
      add(order_with_minor(like.rank(), rows, lanes));
    }
  }
  for (InstructionId id : group.relations) {
    if (at(id).opcode != HloOpcode::kReduce || shape(id).is_tuple()) continue;
    if (group_of_[static_cast<std::size_t>(at(id).operands[0])] != g) continue;
    const std::size_t count = found.size();
    for (std::size_t i = 0; i < count; ++i) {
      if (!sums_fit(id, found[i])) add(reduced_inside(found[i], at(id).dimensions));
    }
  }
  return found;
}

/// Orders in which neighbours would have to lie so that a reshape, transpose, broadcast or
/// reduction between them and this group moves nothing; and those that neighbours ask of this one.
std::vector<std::pair<int, DimensionOrder>> LayoutSearch::induced(int g) {
  std::vector<std::pair<int, DimensionOrder>> found;
  const auto number = [&](InstructionId id) {
    return static_cast<int>(group_of_[static_cast<std::size_t>(id)]);
  };
  for (InstructionId id : groups_[static_cast<std::size_t>(g)].relations) {
    const HloInstruction& instruction = at(id);
    const InstructionId operand = instruction.operands[0];
    if (instruction.opcode == HloOpcode::kDot || moves_rows(instruction)) continue;
    if (!takes_part(operand) || !takes_part(id)) continue;
    if (instruction.opcode == HloOpcode::kConcatenate) {
      for (InstructionId part : instruction.operands) {
        if (number(part) == number(id)) continue;
        found.emplace_back(number(id), order(part));
        found.emplace_back(number(part), order(id));
      }
      continue;
    }
    std::optional<DimensionOrder> behind, before;
    if (instruction.opcode == HloOpcode::kReshape) {
      behind = order_behind_reshape(shape(operand), order(operand), shape(id));
      before = order_behind_reshape(shape(id), order(id), shape(operand));
      if (asks_for_parts_) {
        for (const auto& [whole, parts] : {std::pair(operand, id), std::pair(id, operand)}) {
          const Shape from = in_order(shape(whole), order(whole));
          for (DimensionOrder& of_parts : orders_of_parts(from, shape(parts))) {
            found.emplace_back(number(parts), std::move(of_parts));
          }
        }
      }
    } else if (instruction.opcode == HloOpcode::kTranspose) {
      behind = order_behind_transpose(order(operand), instruction.dimensions);
      before = order_before_transpose(order(id), instruction.dimensions);
    } else if (instruction.opcode == HloOpcode::kBroadcast) {
      before = order_of_part(order(id), instruction.dimensions);
    } else {
      std::vector<std::int64_t> kept;
      for (std::int64_t d = 0; d < shape(operand).rank(); ++d) {
        const auto& reduced = instruction.dimensions;
        if (std::find(reduced.begin(), reduced.end(), d) == reduced.end()) kept.push_back(d);
      }
      behind = order_of_part(order(operand), kept);
    }
    if (behind) found.emplace_back(number(id), *std::move(behind));
    if (before) found.emplace_back(number(operand), *std::move(before));
  }
  return found;
}

/// Gives a group an order, and its neighbours those that follow from it as long as each is better
/// off. Returns by how much the cost falls; `before` is what the orders were.
double LayoutSearch::move(int g, const DimensionOrder& order,
                          std::vector<std::pair<int, DimensionOrder>>& before) {
  std::set<int> moved{g};
  std::deque<int> work{g};
  before.emplace_back(g, groups_[static_cast<std::size_t>(g)].order);
  groups_[static_cast<std::size_t>(g)].order = order;
  while (!work.empty() && moved.size() < kMostMovedTogether) {
    const int from = work.front();
    work.pop_front();
    for (auto& [neighbour, wanted] : induced(from)) {
      Group& other = groups_[static_cast<std::size_t>(neighbour)];
      if (other.is_fixed || other.order == wanted || moved.count(neighbour) != 0) continue;
      if (!moves_whole_tiles(other, wanted)) continue;
      const std::size_t mine = groups_[static_cast<std::size_t>(g)].relations.size();
      if (other.relations.size() > std::max(kMostRelations, mine)) continue;
      const double present = cost_of(neighbour);
      DimensionOrder kept = other.order;
      other.order = wanted;
      if (cost_of(neighbour) > present) {
        other.order = std::move(kept);
        continue;
      }
      before.emplace_back(neighbour, std::move(kept));
      moved.insert(neighbour);
      work.push_back(neighbour);
    }
  }
  const double after = cost_of(moved);
  std::vector<DimensionOrder> now;
  for (auto& [number, old] : before) {
    std::swap(groups_[static_cast<std::size_t>(number)].order, old);
  }
  const double present = cost_of(moved);
  for (auto& [number, old] : before) {
    std::swap(groups_[static_cast<std::size_t>(number)].order, old);
  }
  return present - after;
}

/// What another order could save at most: padding, copies, transposed blocks.
double LayoutSearch::avoidable_cost(int g) {
  const Group& group = groups_[static_cast<std::size_t>(g)];
  double cost = 0;
  for (InstructionId id : group.arrays) {
    if (!rows_fit(id, group.order)) cost += kTooLarge;
    cost += given_cost(id, group.order);
    const double traffic = traffic_[static_cast<std::size_t>(id)];
    const double work = vector_cycles(at(id).opcode);
    if (traffic == 0 && work == 0) continue;
    const double padding = bytes(id, group.order) - static_cast<double>(shape(id).unpadded_bytes());
    const double tile = 1024.0 * hlo::byte_size(shape(id).type);
    cost += traffic * padding / bytes_per_cycle_ + work * padding / tile;
  }
  for (InstructionId id : group.relations) {
    const bool is_dot = at(id).opcode == HloOpcode::kDot && takes_part(id);
    cost += is_dot ? dot_cost(id, false) : relation_cost(id);
  }
  return cost;
}

bool LayoutSearch::improve(int g) {
  Group& group = groups_[static_cast<std::size_t>(g)];
  if (group.is_fixed) return false;
  // Of what the order costs, but for what no kernel can do.
  double best = std::max(1.0, kLeastGain * std::fmod(cost_of(g), kTooLarge));
  if (avoidable_cost(g) <= best) return false;
  DimensionOrder choice;
  for (const DimensionOrder& candidate : candidates(g)) {
    if (!moves_whole_tiles(group, candidate)) continue;
    std::vector<std::pair<int, DimensionOrder>> before;
    const double gain = move(g, candidate, before);
    for (auto& [number, old] : before) groups_[static_cast<std::size_t>(number)].order = old;
    const bool stays = candidate == group.order;
    if (gain <= best || (stays && gain <= kGainOfNeighbours)) continue;
    best = gain;
    choice = candidate;
  }
  if (choice.empty()) return false;
  std::vector<std::pair<int, DimensionOrder>> before;
  move(g, choice, before);
  return true;
}

}  // namespace

void search_orders(const Computation& computation, bool is_entry, const Target& target,
                   const std::vector<DimensionOrder>& given, std::vector<DimensionOrder>& orders) {
  LayoutSearch(computation, is_entry, target, given, orders).run();
}

}  // namespace tpu::compiler
