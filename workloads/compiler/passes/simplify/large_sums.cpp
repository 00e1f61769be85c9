#include "workloads/compiler/passes/simplify/large_sums.h"

#include <algorithm>
#include <optional>

#include "isa/instruction.h"
#include "sim/base/ceil_divide.h"
#include "sim/base/contains.h"
#include "workloads/compiler/cost.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/graph_editor.h"
#include "workloads/compiler/passes/simplify/spread_values.h"

namespace tpu::compiler {

using hlo::HloInstruction;
using hlo::HloOpcode;

namespace {

using Id = GraphEditor::Id;
using Extents = GraphEditor::Extents;

/// Each is a kernel of its own.
constexpr std::int64_t kMostKernels = 64;

/// A dimension of a reduction's operand, and how much of it goes at a time.
struct Cut {
  std::int64_t dimension = 0, piece = 0;
  std::int64_t longest = 0;  ///< The longest dimension that is kept.
};

class LargeSums {
 public:
  LargeSums(hlo::Module& module, const Target& target)
      : module_(module), target_(target), edit_(module) {}

  void run() {
    const std::size_t count = entry().instructions.size();
    for (std::size_t i = 0; i < count; ++i) {
      const HloInstruction reduction = entry().instructions[i];
      if (reduction.opcode != HloOpcode::kReduce || reduction.shape.is_tuple()) continue;
      const Extents space = edit_.dimensions(reduction.operands[0]);
      const std::optional<Cut> cut = find_cut(space, reduction.dimensions);
      if (!cut) continue;
      const auto value = spread_value(entry(), reduction.operands[0]);
      if (value && !covers_sums(*value, *cut)) reduce_pieces(reduction, *value, space, *cut);
    }
    if (entry().instructions.size() > count) {
      tidy(module_.computations[static_cast<std::size_t>(module_.entry)]);
    }
  }

 private:
  const hlo::Computation& entry() const { return module_.entry_computation(); }
  bool have_room(const Extents& sums) const;
  std::optional<Cut> find_cut(const Extents& space, const Extents& reduced) const;
  bool covers_sums(const SpreadValue& value, const Cut& cut) const;
  Id range_of(Id leaf, const Extents& space, std::int64_t dimension, std::int64_t first);
  void reduce_pieces(const HloInstruction& reduction, const SpreadValue& value,
                     const Extents& space, const Cut& cut);

  hlo::Module& module_;
  const Target& target_;
  GraphEditor edit_;
};

/// Whether the sums of a reduction stay in VMEM while it goes along its dimensions.
bool LargeSums::have_room(const Extents& sums) const {
  const double bytes = double(fewest_registers(sums)) * isa::kSublanes * isa::kLanes * 4;
  return kCopiesOfSums * bytes <= kRoomForSums * double(target_.vmem_bytes);
}

/// None where nothing is added up, where the sums of the two longest dimensions have room (kernels
/// go through the others outside of them), or where but one is longer than a tile: they go through
/// ranges of it.
std::optional<Cut> LargeSums::find_cut(const Extents& space, const Extents& reduced) const {
  Extents kept;
  std::int64_t terms = 1;
  for (std::size_t d = 0; d < space.size(); ++d) {
    const bool is_kept = !contains(reduced, static_cast<std::int64_t>(d));
    if (is_kept) kept.push_back(static_cast<std::int64_t>(d));
    if (!is_kept) terms *= space[d];
  }
  if (terms < 2 || kept.size() < 2) return std::nullopt;
  const auto extent = [&](std::int64_t d) { return space[static_cast<std::size_t>(d)]; };
  std::sort(kept.begin(), kept.end(),
            [&](std::int64_t a, std::int64_t b) { return extent(a) > extent(b); });
  const std::int64_t longest = extent(kept[0]), rows = extent(kept[1]);
  if (have_room({longest, rows}) || rows <= isa::kSublanes) return std::nullopt;
  std::int64_t piece = round_up(rows / 2, std::int64_t{isa::kSublanes});
  while (piece > isa::kSublanes && !have_room({longest, piece})) piece -= isa::kSublanes;
  if (ceil_divide(rows, piece) > kMostKernels) return std::nullopt;
  return Cut{kept[1], piece, kept[0]};
}

/// Whether an array that is read is as large as the sums: to cut it takes what it takes to read it.
bool LargeSums::covers_sums(const SpreadValue& value, const Cut& cut) const {
  return std::any_of(value.leaves.begin(), value.leaves.end(), [&](Id leaf) {
    const HloInstruction& given = entry().at(leaf);
    return given.opcode == HloOpcode::kBroadcast && contains(given.dimensions, cut.dimension) &&
           contains(given.dimensions, cut.longest);
  });
}

/// A leaf over part of the space, which begins at an index of the dimension.
Id LargeSums::range_of(Id leaf, const Extents& space, std::int64_t dimension, std::int64_t first) {
  const HloInstruction given = entry().at(leaf);
  if (given.opcode == HloOpcode::kIota) {
    const std::int64_t along = given.dimensions.at(0);
    const Id part = edit_.iota(given.shape.type, space, along);
    return along == dimension ? edit_.binary_with(HloOpcode::kAdd, part, double(first)) : part;
  }
  Id source = given.operands[0];
  const auto along = std::find(given.dimensions.begin(), given.dimensions.end(), dimension);
  if (along != given.dimensions.end()) {
    const auto d = static_cast<std::size_t>(along - given.dimensions.begin());
    Extents starts(given.dimensions.size(), 0), limits = edit_.dimensions(source);
    starts[d] = first;
    limits[d] = first + space[static_cast<std::size_t>(dimension)];
    source = edit_.slice(source, starts, limits);
  }
  return edit_.broadcast(source, space, given.dimensions);
}

void LargeSums::reduce_pieces(const HloInstruction& reduction, const SpreadValue& value,
                              const Extents& space, const Cut& cut) {
  edit_.stand_for(reduction.id);
  const auto along = static_cast<std::size_t>(cut.dimension);
  const std::int64_t place =
      cut.dimension - std::count_if(reduction.dimensions.begin(), reduction.dimensions.end(),
                                    [&](std::int64_t d) { return d < cut.dimension; });
  std::vector<Id> pieces;
  for (std::int64_t first = 0; first < space[along]; first += cut.piece) {
    Extents part = space;
    part[along] = std::min(cut.piece, space[along] - first);
    const Id made = make_again(edit_, entry(), value, part,
                               [&](Id leaf) { return range_of(leaf, part, cut.dimension, first); });
    pieces.push_back(edit_.reduce_again(reduction, made, reduction.dimensions));
  }
  edit_.finish(edit_.concatenate(pieces, place));
}

}  // namespace

void cut_large_sums(hlo::Module& module, const Target& target) { LargeSums(module, target).run(); }

}  // namespace tpu::compiler
