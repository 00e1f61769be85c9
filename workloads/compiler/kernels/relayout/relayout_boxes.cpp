#include "workloads/compiler/kernels/relayout/relayout_boxes.h"

#include <algorithm>

#include "sim/base/ceil_divide.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/kernels/elementwise/expression_graph.h"

namespace tpu::compiler {

namespace {

using hlo::HloOpcode;

/// A dimension in units of whole tiles, when it can be copied in them.
struct TileDimension {
  std::int64_t count = 1, from = 0, to = 0;
};

std::optional<TileDimension> whole_tiles(const Box::Dimension& box, std::int64_t target_extent,
                                         std::int64_t size) {
  if (size > 1 && (box.step != 1 || box.spread != 1)) return std::nullopt;
  if (box.from % size != 0 || box.to % size != 0) return std::nullopt;
  // A part of a tile may be copied whole where nothing follows in the target.
  const bool ends = box.to + box.extent == target_extent;
  if (box.extent % size != 0 && !ends) return std::nullopt;
  return TileDimension{ceil_divide(box.extent, size), box.from / size, box.to / size};
}

/// Boxes of a kernel of several moves, at most.
constexpr std::size_t kMostBoxes = 32;

/// Of the elements that a box moves on, those that another box had moved there; false where this is
/// no box. None of them: an extent is 0.
bool join_dimension(const Box::Dimension& first, const Box::Dimension& then,
                    Box::Dimension& joined) {
  const bool is_one = then.extent == 1;
  if (first.spread != 1 || (std::abs(then.step) != 1 && !is_one)) return false;
  // Element `then.from + step i` of the array between comes from `first`, where it has that.
  const std::int64_t end = first.to + first.extent;
  const bool turns = then.step < 0 && !is_one;
  const std::int64_t low = turns ? then.from - end + 1 : first.to - then.from;
  const std::int64_t high = turns ? then.from - first.to + 1 : end - then.from;
  const std::int64_t skipped = std::max<std::int64_t>(low, 0);
  joined.extent = std::max<std::int64_t>(0, std::min(high, then.extent) - skipped);
  const std::int64_t between = then.from + (turns ? -skipped : skipped);
  joined.from = first.from + first.step * (between - first.to);
  joined.step = first.step * (turns ? -1 : 1);
  joined.to = then.to + then.spread * skipped;
  joined.spread = then.spread;
  return true;
}

/// Adds what two boxes move together; false where this is no box.
bool add_joined(const Box& first, const Box& then, std::vector<Box>& boxes) {
  Box joined;
  joined.source = first.source;
  bool is_empty = false;
  for (std::size_t i = 0; i < first.dimensions.size(); ++i) {
    Box::Dimension& dimension = joined.dimensions.emplace_back();
    if (!join_dimension(first.dimensions[i], then.dimensions[i], dimension)) return false;
    is_empty |= dimension.extent == 0;
  }
  if (!is_empty) boxes.push_back(std::move(joined));
  return boxes.size() <= kMostBoxes;
}

void merge_contiguous(TileRuns& runs) {
  while (!runs.counts.empty() && runs.source_strides.back() == runs.run &&
         runs.target_strides.back() == runs.run) {
    runs.run *= runs.counts.back();
    runs.counts.pop_back();
    runs.source_strides.pop_back();
    runs.target_strides.pop_back();
  }
  for (std::size_t i = runs.counts.size(); i-- > 1;) {
    if (runs.source_strides[i - 1] != runs.counts[i] * runs.source_strides[i] ||
        runs.target_strides[i - 1] != runs.counts[i] * runs.target_strides[i]) {
      continue;
    }
    runs.counts[i] *= runs.counts[i - 1];
    const auto gone = static_cast<std::ptrdiff_t>(i - 1);
    runs.counts.erase(runs.counts.begin() + gone);
    runs.source_strides.erase(runs.source_strides.begin() + gone);
    runs.target_strides.erase(runs.target_strides.begin() + gone);
  }
}

}  // namespace

bool is_box_move(HloOpcode opcode) {
  return opcode == HloOpcode::kSlice || opcode == HloOpcode::kPad ||
         opcode == HloOpcode::kConcatenate || opcode == HloOpcode::kReverse;
}

std::optional<std::vector<Box>> boxes_of(const hlo::Computation& computation,
                                         const hlo::HloInstruction& instruction) {
  const std::vector<std::int64_t> order = major_to_minor(instruction.shape);
  std::vector<Box> boxes;
  std::int64_t joined = 0;  // Concatenate: begin of the operand in the result.
  const std::size_t arrays =
      instruction.opcode == HloOpcode::kConcatenate ? instruction.operands.size() : 1;
  for (std::size_t operand = 0; operand < arrays; ++operand) {
    const hlo::Shape& source = computation.at(instruction.operands[operand]).shape;
    if (source.rank() != instruction.shape.rank() || major_to_minor(source) != order) {
      return std::nullopt;
    }
    Box box;
    box.source = static_cast<int>(operand);
    for (std::int64_t d : order) {
      const auto at = static_cast<std::size_t>(d);
      Box::Dimension dimension;
      dimension.extent = source.dimensions[at];
      switch (instruction.opcode) {
        case HloOpcode::kSlice:
          dimension.extent = instruction.shape.dimensions[at];
          dimension.from = instruction.slice->starts[at];
          dimension.step = instruction.slice->strides.empty() ? 1 : instruction.slice->strides[at];
          break;
        case HloOpcode::kPad: {
          // Negative padding cuts elements off.
          const hlo::PaddingDimension& padding = instruction.padding[at];
          dimension.spread = padding.interior + 1;
          dimension.to = padding.low;
          if (dimension.to < 0) {
            const std::int64_t cut = ceil_divide(-dimension.to, dimension.spread);
            dimension.from = cut;
            dimension.to += cut * dimension.spread;
            dimension.extent -= cut;
          }
          const std::int64_t room = instruction.shape.dimensions[at] - dimension.to;
          dimension.extent = std::min(dimension.extent, ceil_divide(room, dimension.spread));
          break;
        }
        case HloOpcode::kConcatenate:
          if (d == instruction.dimensions.front()) {
            dimension.to = joined;
            joined += dimension.extent;
          }
          break;
        case HloOpcode::kReverse: {
          const std::vector<std::int64_t>& reversed = instruction.dimensions;
          if (std::find(reversed.begin(), reversed.end(), d) != reversed.end()) {
            dimension.from = dimension.extent - 1;
            dimension.step = -1;
          }
          break;
        }
        case HloOpcode::kCopy:
        case HloOpcode::kReshape:
        case HloOpcode::kBitcast:
        case HloOpcode::kTranspose:
          if (source.dimensions != instruction.shape.dimensions ||
              instruction.opcode == HloOpcode::kTranspose) {
            return std::nullopt;
          }
          break;
        default:
          return std::nullopt;
      }
      if (dimension.extent <= 0) dimension.extent = 0;
      box.dimensions.push_back(dimension);
    }
    const bool is_empty = std::any_of(box.dimensions.begin(), box.dimensions.end(),
                                      [](const auto& d) { return d.extent == 0; });
    if (!is_empty) boxes.push_back(std::move(box));
  }
  return boxes;
}

std::optional<std::vector<Box>> boxes_of_moves(const hlo::Computation& moves) {
  std::vector<std::vector<Box>> made;
  for (const hlo::HloInstruction& each : moves.instructions) {
    std::vector<Box>& boxes = made.emplace_back();
    if (each.opcode == HloOpcode::kConstant) continue;
    if (each.opcode == HloOpcode::kParameter) {
      Box all;
      all.source = static_cast<int>(each.parameter_number);
      for (std::int64_t extent : physical_extents(each.shape)) {
        all.dimensions.push_back({extent, 0, 1, 0, 1});
      }
      boxes.push_back(std::move(all));
      continue;
    }
    const std::optional<std::vector<Box>> own = boxes_of(moves, each);
    if (!own) return std::nullopt;
    for (const Box& then : *own) {
      const auto operand = static_cast<std::size_t>(then.source);
      for (const Box& first : made[static_cast<std::size_t>(each.operands[operand])]) {
        if (!add_joined(first, then, boxes)) return std::nullopt;
      }
    }
  }
  std::vector<Box> result = made[static_cast<std::size_t>(moves.root)];
  std::stable_sort(result.begin(), result.end(),
                   [](const Box& a, const Box& b) { return a.source < b.source; });
  return result;
}

std::vector<Box> boxes_of(const TileParts& parts) {
  std::vector<Box> boxes;
  for (std::int64_t part = 0; part < parts.count; ++part) {
    Box box;
    for (std::int64_t extent : parts.to.dimensions) box.dimensions.push_back({extent, 0, 1, 0, 1});
    std::int64_t left = part;
    for (auto d = parts.dimensions.rbegin(); d != parts.dimensions.rend(); ++d) {
      Box::Dimension& number = box.dimensions[d->place];
      number.extent = 1;
      (parts.joins ? number.from : number.to) = left % d->count;
      left /= d->count;
    }
    Box::Dimension& lanes = box.dimensions.back();
    lanes.extent = parts.extent;
    (parts.joins ? lanes.to : lanes.from) = part * parts.extent;
    boxes.push_back(std::move(box));
  }
  return boxes;
}

std::optional<TileRuns> tile_runs(const Box& box, const hlo::Shape& source,
                                  const hlo::Shape& target) {
  TileRuns runs;
  const std::vector<std::int64_t> from = physical_extents(source), to = physical_extents(target);
  if (from.empty()) {
    runs.run = 1;
    return runs;
  }
  const std::int64_t tile_granules = source.type == hlo::ElementType::kBf16 ? 2 : 4;
  std::int64_t source_stride = tile_granules, target_stride = tile_granules;
  runs.run = tile_granules;
  const std::size_t rank = from.size();
  for (std::size_t i = rank; i-- > 0;) {
    std::int64_t size = 1;
    if (rank == 1) {
      size = 1024;
    } else if (i + 1 == rank) {
      size = 128;
    } else if (i + 2 == rank) {
      size = 8;
    }
    const std::optional<TileDimension> dimension = whole_tiles(box.dimensions[i], to[i], size);
    if (!dimension) return std::nullopt;
    const std::int64_t step = size == 1 ? box.dimensions[i].step : 1;
    const std::int64_t spread = size == 1 ? box.dimensions[i].spread : 1;
    runs.source_begin += dimension->from * source_stride;
    runs.target_begin += dimension->to * target_stride;
    runs.counts.insert(runs.counts.begin(), dimension->count);
    runs.source_strides.insert(runs.source_strides.begin(), source_stride * step);
    runs.target_strides.insert(runs.target_strides.begin(), target_stride * spread);
    source_stride *= ceil_divide(from[i], size);
    target_stride *= ceil_divide(to[i], size);
  }
  for (std::size_t i = runs.counts.size(); i-- > 0;) {
    if (runs.counts[i] != 1) continue;
    const auto gone = static_cast<std::ptrdiff_t>(i);
    runs.counts.erase(runs.counts.begin() + gone);
    runs.source_strides.erase(runs.source_strides.begin() + gone);
    runs.target_strides.erase(runs.target_strides.begin() + gone);
  }
  merge_contiguous(runs);
  return runs;
}

}  // namespace tpu::compiler
