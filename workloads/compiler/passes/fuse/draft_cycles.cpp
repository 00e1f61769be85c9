#include "workloads/compiler/passes/fuse/draft_cycles.h"

#include <algorithm>
#include <map>
#include <set>

#include "sim/base/ceil_divide.h"
#include "sim/base/contains.h"
#include "workloads/compiler/cost.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/lane_moves.h"
#include "workloads/compiler/passes/expand/widen.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;
using hlo::Shape;

namespace {

/// Registers of eight rows and all of their lanes as one.
double registers_of_rows(const Shape& shape) {
  return registers_of(shape) /
         static_cast<double>(ceil_divide(physical_extents(shape).back(), 128));
}

/// Whether a broadcast gives each row a number of its own, or a reduction finds one for each.
bool is_between_rows_and_numbers(const HloInstruction& instruction, const Shape& rows) {
  const std::vector<std::int64_t>& order = rows.layout.minor_to_major;
  if (order.size() < 2) return false;
  const auto& dimensions = instruction.dimensions;
  return instruction.opcode == HloOpcode::kBroadcast
             ? !contains(dimensions, order[0]) && contains(dimensions, order[1])
             : is_plain_reduce(instruction) && dimensions == std::vector{order[0]};
}

/// Eights of an array's elements where a kernel has one for each row: like those that it spreads
/// over rows, or like sums along them.
double eights_of_rows(const Computation& entry, const FusionDraft& draft, InstructionId array) {
  const std::string extent = extent_text(entry.at(array).shape);
  for (InstructionId id : draft.inside) {
    const HloInstruction& instruction = entry.at(id);
    const bool is_broadcast = instruction.opcode == HloOpcode::kBroadcast;
    if (!is_broadcast && !is_plain_reduce(instruction)) continue;
    const Shape& operand = entry.at(instruction.operands[0]).shape;
    const Shape& rows = is_broadcast ? instruction.shape : operand;
    const Shape& numbers = is_broadcast ? operand : instruction.shape;
    if (is_between_rows_and_numbers(instruction, rows) && extent_text(numbers) == extent) {
      return static_cast<double>(numbers.element_count()) / 8;
    }
  }
  return 0;
}

/// Of a register: what begins in another lane is turned, and all but the first part selected.
double moved_lanes_cycles(const HloInstruction& instruction) {
  const double parts = instruction.opcode == HloOpcode::kConcatenate
                           ? static_cast<double>(instruction.operands.size()) - 1
                           : 1;
  const bool selects = instruction.opcode != HloOpcode::kSlice;
  return parts * (kTurnedLanesCycles + (selects ? vector_cycles(HloOpcode::kSelect) : 0));
}

/// The vector unit's work of a draft.
class VectorWork {
 public:
  VectorWork(const Computation& entry, const SteppedExtents& extents, const FusionDraft& draft,
             const SumsInKernels& sums)
      : entry_(entry), extents_(extents), draft_(draft), sums_(sums), used_(sums.used_in(draft)) {
    find_passes();
  }

  double cycles() const {
    double cycles = 0;
    for (int pass = 0; pass <= last_; ++pass) cycles += cycles_of(pass);
    return cycles + row_vector_cycles();
  }

 private:
  const HloInstruction& at(InstructionId id) const { return entry_.at(id); }

  /// A value stands in the pass behind those that make the sums which it is made of.
  void find_passes() {
    for (InstructionId id : draft_.inside) {
      int pass = 0;
      for (InstructionId operand : at(id).operands) {
        const auto found = pass_.find(operand);
        if (found == pass_.end()) continue;
        pass = std::max(pass, found->second + (used_.count(operand) != 0 ? 1 : 0));
      }
      pass_[id] = pass;
      last_ = std::max(last_, pass);
    }
  }

  /// What the pass computes: what its sums, or in the last pass the results, are made of.
  double cycles_of(int pass) const {
    std::set<InstructionId> needed;
    std::vector<InstructionId> work;
    for (InstructionId sum : used_) {
      if (pass_.at(sum) == pass) work.push_back(sum);
    }
    if (pass == last_) {
      std::copy_if(draft_.roots.begin(), draft_.roots.end(), std::back_inserter(work),
                   [this](InstructionId root) { return used_.count(root) == 0; });
    }
    double cycles = 0;
    while (!work.empty()) {
      const InstructionId id = work.back();
      work.pop_back();
      if (!needed.insert(id).second) continue;
      const bool comes_again = pass_.at(id) < pass && used_.count(id) == 0;
      if (comes_again && cycles_below(id) >= kLeastKeptCycles * registers_of(at(id).shape)) {
        cycles += kKeptCycles * registers_of(at(id).shape);
        continue;
      }
      cycles += cycles_at(id);
      for (InstructionId operand : at(id).operands) {
        if (pass_.count(operand) != 0 && used_.count(operand) == 0) work.push_back(operand);
      }
    }
    return cycles;
  }

  /// Of the value and what it is made of.
  double cycles_below(InstructionId id) const {
    if (extents_.of(id) != draft_.extent) return 0;
    double cycles = 0;
    std::set<InstructionId> seen{id};
    std::vector<InstructionId> work{id};
    while (!work.empty()) {
      const InstructionId next = work.back();
      work.pop_back();
      cycles += cycles_at(next);
      for (InstructionId operand : at(next).operands) {
        const bool is_made = pass_.count(operand) != 0 && used_.count(operand) == 0;
        if (is_made && seen.insert(operand).second) work.push_back(operand);
      }
    }
    return cycles;
  }

  double cycles_at(InstructionId id) const {
    const HloInstruction& instruction = at(id);
    const InstructionId value = stepped_through(entry_, id);
    const Shape& shape = at(value).shape;
    if (extents_.of(value) != draft_.extent) return 0;
    if (moves_lanes(entry_, instruction))
      return registers_of(shape) * moved_lanes_cycles(instruction);
    if (instruction.opcode != HloOpcode::kReduce)
      return registers_of(shape) * vector_cycles(instruction.opcode);
    // Lane tiles are added to each other first.
    const double sums = sums_.reduces_lanes_only(id) ? registers_of_rows(shape) : 0;
    return registers_of(shape) * kSumCycles + sums * kLaneSumCycles;
  }

  /// What has an element for each row comes from the lanes of its array to the sublanes, and goes
  /// back.
  double row_vector_cycles() const {
    double cycles = 0;
    for (InstructionId leaf : draft_.leaves) {
      cycles += kSpreadRowsCycles * eights_of_rows(entry_, draft_, leaf);
    }
    for (InstructionId root : draft_.roots) {
      cycles += kRowsToLanesCycles * eights_of_rows(entry_, draft_, root);
    }
    return cycles;
  }

  const Computation& entry_;
  const SteppedExtents& extents_;
  const FusionDraft& draft_;
  const SumsInKernels& sums_;
  std::set<InstructionId> used_;
  std::map<InstructionId, int> pass_;  ///< Of what the kernel computes.
  int last_ = 0;
};

}  // namespace

double DraftCycles::all() const { return kKernelCycles + std::max(moved, vector); }

DraftCycles draft_cycles(const Computation& entry, const SteppedExtents& extents,
                         const FusionDraft& draft, const SumsInKernels& sums,
                         double hbm_bytes_per_cycle) {
  double bytes = 0;
  const auto add = [&](InstructionId id) {
    bytes += 1024.0 * static_cast<double>(moved_granules(stored_shape(entry.at(id).shape)));
  };
  std::for_each(draft.leaves.begin(), draft.leaves.end(), add);
  std::for_each(draft.roots.begin(), draft.roots.end(), add);
  return {bytes / (hbm_bytes_per_cycle * kMixedTrafficRate),
          VectorWork(entry, extents, draft, sums).cycles()};
}

}  // namespace tpu::compiler
