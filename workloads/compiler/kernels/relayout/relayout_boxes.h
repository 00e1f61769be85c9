#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "workloads/compiler/ir/tile_parts.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// A box of elements that an operation moves from one array to another of the same order of
/// dimensions: along each physical dimension (major to minor) element `from + step i` becomes
/// element `to + spread i`.
struct Box {
  struct Dimension {
    std::int64_t extent = 1;
    std::int64_t from = 0, step = 1;  ///< In the source; a negative step reverses.
    std::int64_t to = 0, spread = 1;  ///< In the target.

    bool operator==(const Dimension& other) const {
      return extent == other.extent && from == other.from && step == other.step && to == other.to &&
             spread == other.spread;
    }
  };
  int source = 0;  ///< Operand.
  std::vector<Dimension> dimensions;

  bool operator==(const Box& other) const {
    return source == other.source && dimensions == other.dimensions;
  }
};

/// The boxes of a slice, pad, concatenate, reverse, or a copy, reshape or bitcast between equal
/// layouts (one box of everything); nothing for other operations. Elements of the result that no
/// box reaches are padding.
std::optional<std::vector<Box>> boxes_of(const hlo::Computation& computation,
                                         const hlo::HloInstruction& instruction);

/// The same of several slices, pads, concatenations and reversals, of which one moves what another
/// makes, up to the root of their computation; sources are its parameters. Nothing where gaps of a
/// pad or steps of a slice come between, and of too many boxes.
std::optional<std::vector<Box>> boxes_of_moves(const hlo::Computation& moves);

/// A box for each part of lanes, between the arrays as they lie.
std::vector<Box> boxes_of(const TileParts& parts);

/// Copying whole tiles: runs of contiguous granules, `counts[i]` of them along the i-th outer
/// dimension, with strides in granules.
struct TileRuns {
  std::int64_t run = 0;
  std::vector<std::int64_t> counts;  ///< Major to minor; may be empty.
  std::vector<std::int64_t> source_strides, target_strides;
  std::int64_t source_begin = 0, target_begin = 0;

  bool operator==(const TileRuns& other) const {
    return run == other.run && counts == other.counts && source_strides == other.source_strides &&
           target_strides == other.target_strides && source_begin == other.source_begin &&
           target_begin == other.target_begin;
  }
};

/// The box as runs of whole tiles; nothing when it cuts tiles or moves within them.
std::optional<TileRuns> tile_runs(const Box& box, const hlo::Shape& source,
                                  const hlo::Shape& target);

}  // namespace tpu::compiler
