#include "workloads/compiler/passes/fuse/written_values.h"

#include <algorithm>
#include <utility>

#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/combining_operation.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/ir/lane_moves.h"
#include "workloads/compiler/ir/tile_row.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/expand/widen.h"
#include "workloads/compiler/passes/fuse/draft_cycles.h"
#include "workloads/compiler/passes/fuse/slices_in_place.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;

bool reads_nothing(const Computation& computation, InstructionId id) {
  const HloInstruction& instruction = computation.at(id);
  if (instruction.shape.is_tuple()) return false;
  if (instruction.opcode == HloOpcode::kIota) return true;
  if (instruction.opcode == HloOpcode::kBroadcast) {
    return computation.at(instruction.operands[0]).shape.rank() == 0 &&
           reads_nothing(computation, instruction.operands[0]);
  }
  return instruction.opcode == HloOpcode::kConstant && instruction.shape.rank() == 0;
}

bool takes_immediate(const HloInstruction& user, std::size_t operand) {
  switch (user.opcode) {
    case HloOpcode::kReduceWindow:
    case HloOpcode::kPad:
      return operand == 1;
    case HloOpcode::kSelectAndScatter:
      return operand == 2;
    case HloOpcode::kDynamicSlice:
      return operand >= 1;
    case HloOpcode::kDynamicUpdateSlice:
      return operand >= 2;
    case HloOpcode::kReduce:
      return operand >= user.operands.size() / 2;
    default:
      return false;
  }
}

WrittenValues::WrittenValues(const Computation& entry, const SteppedExtents& extents,
                             const SumsInKernels& sums, const FusionLimits& limits)
    : entry_(entry),
      extents_(extents),
      sums_(sums),
      limits_(limits),
      users_(users_of(entry)),
      written_(entry.instructions.size(), false),
      seen_in_walk_(entry.instructions.size(), 0),
      collected_(entry.instructions.size(), 0) {
  for (const HloInstruction& instruction : entry.instructions) {
    bytes_.push_back(granules(stored_shape(instruction.shape)));
    const bool is_slice = may_read_in_place(entry, instruction.id);
    // What is spread is no vector of a kernel over vectors.
    const auto& readers = users(instruction.id);
    const bool is_spread = std::any_of(readers.begin(), readers.end(), [this](InstructionId user) {
      return at(user).opcode == HloOpcode::kBroadcast;
    });
    const auto row = is_spread ? std::nullopt : row_of_array(entry, instruction);
    const auto element = element_of_array(entry, instruction);
    if (row) rows_[row->array].push_back(instruction.id);
    arrays_.push_back(row ? row->array : is_slice ? instruction.operands[0] : instruction.id);
    operands_.push_back(row ? row->array : element ? element->array : instruction.id);
  }
  for (const HloInstruction& instruction : entry.instructions) {
    written_[static_cast<std::size_t>(instruction.id)] = is_forced(instruction.id);
  }
  choose();
}

std::vector<InstructionId> WrittenValues::rows_of(InstructionId array) const {
  const auto found = rows_.find(array);
  return found == rows_.end() ? std::vector<InstructionId>() : found->second;
}

std::size_t WrittenValues::operand_count(const std::vector<InstructionId>& leaves) const {
  constexpr std::size_t kMostLeaves = 16;  // Some may be operands of their own after all.
  std::set<InstructionId> operands;
  for (InstructionId leaf : leaves) operands.insert(operands_[static_cast<std::size_t>(leaf)]);
  return leaves.size() > kMostLeaves ? leaves.size() : operands.size();
}

bool WrittenValues::is_fusible(InstructionId id) const {
  const HloInstruction& instruction = at(id);
  if (instruction.shape.is_tuple()) return false;
  return hlo::is_elementwise(instruction.opcode) || instruction.opcode == HloOpcode::kBroadcast ||
         instruction.opcode == HloOpcode::kIota || reads_nothing(entry_, id) ||
         moves_lanes(entry_, instruction);
}

/// What must stand in HBM whatever it costs: the result of an operation that is no elementwise one,
/// and what anything but a fusible operation over the same extent or a reduction reads.
bool WrittenValues::is_forced(InstructionId id) const {
  if (!is_fusible(id)) return true;
  if (id == entry_.root) return true;
  const bool is_scalar_constant = at(id).opcode == HloOpcode::kConstant && at(id).shape.rank() == 0;
  for (InstructionId user_id : users(id)) {
    const HloInstruction& user = at(user_id);
    for (std::size_t i = 0; i < user.operands.size(); ++i) {
      if (user.operands[i] != id) continue;
      if (is_scalar_constant && (takes_immediate(user, i) || is_fusible(user_id))) continue;
      if (is_plain_reduce(user) && i == 0) continue;
      if (i == 0 && uniform_start(entry_, user) != nullptr) continue;
      if (!is_fusible(user_id)) return true;
      if (at(id).shape.dimensions == user.shape.dimensions) continue;
      if (at(id).shape.rank() > 0 && moves_lanes(entry_, user)) continue;
      if (user.opcode == HloOpcode::kBroadcast &&
          (reads_nothing(entry_, id) || sums_.is_made_of_column_sum(id))) {
        continue;
      }
      return true;
    }
  }
  return false;
}

/// The kernels that would compute the value if it were not written: written values and reductions
/// that are reached through values that are not. Reductions that can share a kernel count once.
/// Stops counting at eight, and looking where more values lie between than kernels can hold.
std::set<InstructionId> WrittenValues::sinks(InstructionId id) {
  constexpr std::size_t kFarthest = 2048;
  std::set<InstructionId> found;
  std::set<std::string> reductions;
  std::vector<InstructionId> work{id};
  ++walk_;
  std::size_t visited = 0;
  while (!work.empty() && found.size() < 8 && visited++ < kFarthest) {
    const InstructionId value = work.back();
    work.pop_back();
    for (InstructionId user : users(value)) {
      std::uint32_t& seen = seen_in_walk_[static_cast<std::size_t>(user)];
      if (std::exchange(seen, walk_) == walk_) continue;
      if (!contains(user)) {
        work.push_back(user);
      } else if (!is_plain_reduce(at(user)) || reductions.insert(extent_of(user)).second) {
        found.insert(user);
      }
    }
  }
  return found;
}

/// Whether nobody but slices, pads and concatenations in lanes reads the value: no epilogue of a
/// product does.
bool WrittenValues::is_moved_in_lanes(InstructionId id) const {
  const std::vector<InstructionId>& readers = users(id);
  return at(id).shape.rank() > 0 &&
         std::all_of(readers.begin(), readers.end(),
                     [this](InstructionId user) { return moves_lanes(entry_, at(user)); });
}

/// Bytes in both cases, the product's own write and read included where an epilogue could save
/// them, or its read where it alone can be an epilogue.
bool WrittenValues::is_cheaper_written(InstructionId id) {
  const std::size_t count = sinks(id).size();
  FusionDraft draft;
  draft.roots = {id};
  collect(draft);
  if (operand_count(draft.leaves) + 1 > limits_.arrays ||
      draft.inside.size() > limits_.instructions) {
    return true;
  }
  const bool is_moved = is_moved_in_lanes(id);
  if (count < 2 && !is_moved) return false;
  std::uint64_t in = 0, product = 0, at_hand = 0;
  for (InstructionId leaf : draft.leaves) {
    in += bytes(leaf);
    if (!is_matrix_product(at(leaf)) || at(leaf).shape.dimensions != at(id).shape.dimensions) {
      continue;
    }
    const std::vector<InstructionId>& readers = users(leaf);
    const bool is_private =
        std::all_of(readers.begin(), readers.end(), [&draft](InstructionId user) {
          return std::find(draft.inside.begin(), draft.inside.end(), user) != draft.inside.end();
        });
    if (is_private) product = bytes(leaf);
    if (is_moved) at_hand = bytes(leaf);
  }
  const std::uint64_t computed_again = product + count * in;
  const std::uint64_t written = in - std::max(product, at_hand) + bytes(id) * (1 + count);
  return written <= computed_again;
}

/// In order, so that what a value reads is known when it is looked at; then backwards, when it is
/// known who reads it: a value whose only reader was written later need not be.
void WrittenValues::choose() {
  for (const HloInstruction& instruction : entry_.instructions) {
    const InstructionId id = instruction.id;
    if (contains(id) || reads_nothing(entry_, id)) continue;
    if (is_cheaper_written(id)) written_[static_cast<std::size_t>(id)] = true;
  }
  for (auto last = entry_.instructions.rbegin(); last != entry_.instructions.rend(); ++last) {
    const InstructionId id = last->id;
    if (!contains(id) || is_forced(id)) continue;
    written_[static_cast<std::size_t>(id)] = false;
    written_[static_cast<std::size_t>(id)] = is_cheaper_written(id) || !readers_fit(id);
  }
  write_what_spares_its_source();
  write_what_takes_long();
}

/// Whether several kernels would make the value of next to nothing (random bits), and take longer
/// for that than for its write and its reads.
bool WrittenValues::takes_longer_again(InstructionId id) {
  constexpr std::uint64_t kNextToNothing = 8;  ///< Parts of the value.
  const std::size_t count = sinks(id).size();
  if (count < 2) return false;
  FusionDraft draft;
  draft.roots = {id};
  draft.extent = extent_of(id);
  collect(draft);
  std::uint64_t in = 0;
  for (InstructionId leaf : draft.leaves) in += bytes(leaf);
  if (in * kNextToNothing > bytes(id)) return false;
  const DraftCycles made =
      draft_cycles(entry_, extents_, draft, sums_, limits_.hbm_bytes_per_cycle);
  const auto kernels = static_cast<double>(count);
  return (kernels - 1) * made.vector > (kernels + 1) * made.moved;
}

/// The last value of each chain that is so, which may be narrower than what it is made of.
void WrittenValues::write_what_takes_long() {
  for (auto last = entry_.instructions.rbegin(); last != entry_.instructions.rend(); ++last) {
    if (contains(last->id) || reads_nothing(entry_, last->id)) continue;
    written_[static_cast<std::size_t>(last->id)] = takes_longer_again(last->id);
  }
}

/// Whether the kernels that compute the value, now that it is not written, are within the limits.
bool WrittenValues::readers_fit(InstructionId id) {
  const std::set<InstructionId> readers = sinks(id);
  return std::all_of(readers.begin(), readers.end(), [this](InstructionId reader) {
    FusionDraft draft;
    draft.roots = {reader};
    collect(draft);
    return operand_count(draft.leaves) + 1 <= limits_.arrays &&
           draft.inside.size() <= limits_.instructions;
  });
}

/// Whether the array, when the value is written, is read by no kernel but those that can become one
/// with its maker's: earlier ones than the value's reader, over its extent.
bool WrittenValues::becomes_private(InstructionId array, InstructionId reader) {
  if (!is_fusible(array) && at(array).opcode != HloOpcode::kDot) return false;
  const std::set<InstructionId> readers = sinks(array);
  return std::all_of(readers.begin(), readers.end(), [&](InstructionId other) {
    return other < reader && is_fusible(other) && extent_of(other) == extents_.of(array);
  });
}

/// Whether it is fewer bytes than an array that it is made of.
bool WrittenValues::is_narrower_than_source(InstructionId id) const {
  const std::vector<InstructionId>& operands = at(id).operands;
  return is_fusible(id) && std::any_of(operands.begin(), operands.end(), [&](InstructionId source) {
           return bytes(source) > bytes(id) && !reads_nothing(entry_, source);
         });
}

/// Whether the kernels that use the value would read larger arrays for its sake alone, that nobody
/// else would need to be written: the mask of an activation, written in the forward pass, is half
/// of the numbers that it was made of.
bool WrittenValues::spares_its_source(InstructionId id) {
  if (contains(id) || !is_narrower_than_source(id)) return false;
  const std::set<InstructionId> readers = sinks(id);
  for (InstructionId reader : readers) {
    if (!is_fusible(reader) && !is_plain_reduce(at(reader))) return false;
    FusionDraft kernel;
    kernel.roots = {reader};
    collect(kernel);
    written_[static_cast<std::size_t>(id)] = true;
    std::uint64_t spared = 0;  // Written and read, as the value will be.
    for (InstructionId leaf : kernel.leaves) {
      spared += becomes_private(leaf, reader) ? bytes(leaf) : 0;
    }
    written_[static_cast<std::size_t>(id)] = false;
    if (spared <= bytes(id)) return false;
  }
  return !readers.empty();
}

void WrittenValues::write_what_spares_its_source() {
  for (const HloInstruction& instruction : entry_.instructions) {
    if (!spares_its_source(instruction.id)) continue;
    written_[static_cast<std::size_t>(instruction.id)] = true;
  }
}

void WrittenValues::collect(FusionDraft& draft) const {
  draft.inside.clear();
  draft.leaves.clear();
  // What is met in this walk, and what of it waits for its operands.
  const std::uint32_t seen = ++collecting_, entered = ++collecting_;
  const auto mark = [this](InstructionId id) -> std::uint32_t& {
    return collected_[static_cast<std::size_t>(id)];
  };
  std::vector<InstructionId> work(draft.roots.rbegin(), draft.roots.rend());
  const auto is_root = [&draft](InstructionId id) {
    return std::find(draft.roots.begin(), draft.roots.end(), id) != draft.roots.end();
  };
  // The sides of a product come from memory, even if they read nothing themselves.
  const auto is_side = [&](InstructionId id) {
    if (draft.product < 0) return false;
    const std::vector<InstructionId>& sides = at(draft.product).operands;
    return std::find(sides.begin(), sides.end(), id) != sides.end();
  };
  while (!work.empty()) {
    const InstructionId id = work.back();
    if (mark(id) >= seen) {
      work.pop_back();
      if (std::exchange(mark(id), seen) == entered) draft.inside.push_back(id);
      continue;
    }
    mark(id) = entered;
    const std::vector<InstructionId>& operands = at(id).operands;
    const auto is_inside = [&](InstructionId operand) {
      const bool is_own = operand == draft.product || draft.absorbed.count(operand) != 0;
      if (is_own || is_root(operand) || !contains(operand)) return true;
      return reads_nothing(entry_, operand) && !is_side(operand);
    };
    for (auto operand = operands.rbegin(); operand != operands.rend(); ++operand) {
      if (mark(*operand) < seen && is_inside(*operand)) work.push_back(*operand);
    }
    for (InstructionId operand : operands) {
      if (is_inside(operand)) continue;
      if (std::exchange(mark(operand), seen) < seen) draft.leaves.push_back(operand);
    }
  }
}

}  // namespace tpu::compiler
