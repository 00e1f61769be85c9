#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "workloads/compiler/kernels/elementwise/expression_graph.h"

namespace tpu::compiler {

/// How an array in HBM maps onto the places of an iteration space.
///
/// Its two minor dimensions (y, x) are tiled by 8 rows and 128 lanes (rank 1: x alone, in rows of
/// 128 lanes, eight rows to a register). Each dimension of the array runs along an axis of the
/// space or has extent 1.
struct ArrayAccess {
  enum class Kind : std::uint8_t {
    kStream,   ///< The same tiles in the same order as the space.
    kTile,     ///< A tile of the array per tile of the space: same rows, same lanes.
    kRow,      ///< Same lanes, but one row of the array for all rows of a tile.
    kColumn,   ///< The value is the same in all lanes: it must be spread over the lanes.
    kShifted,  ///< An element elsewhere, at the same distance from every place.
  };
  /// How x or y moves with the space.
  enum class Step : std::uint8_t {
    kSame,   ///< With the lanes (x) or the rows (y) of the space.
    kRows,   ///< x only: with the rows of the space.
    kMajor,  ///< With a major axis.
    kNone,   ///< Extent 1.
  };
  struct MajorTerm {
    int axis = kNoAxis;
    std::int64_t tiles = 0;  ///< From one index to the next.
  };

  Kind kind = Kind::kStream;
  hlo::Shape shape;
  bool linear = false;  ///< Rank 0 or 1.
  Step x = Step::kSame, y = Step::kSame;
  int x_axis = kNoAxis, y_axis = kNoAxis;  ///< For kMajor.
  std::int64_t x_tiles = 1, y_tiles = 1;
  std::vector<MajorTerm> majors;
  std::vector<std::int64_t> shift;  ///< kShifted: by axis.
  std::vector<std::int64_t> step;   ///< kShifted: by axis; none: 1.
  int row = 0, lane = 0;            ///< Of a tile, where neither x nor y moves: an element.
  std::vector<bool> wraps;          ///< kShifted: by axis, outside of the array is its other end.

  /// VMEM rows that a tile takes: 8, of packed bf16 4.
  std::int64_t tile_rows() const;
  /// VMEM rows of the whole array, in whole registers.
  std::int64_t rows() const;
  std::int64_t step_along(int axis) const {
    return step.empty() ? 1 : step[static_cast<std::size_t>(axis)];
  }
  bool needs_rows() const;  ///< Whether the value depends on the row tile.
  /// Major axes that the position depends on.
  std::vector<int> major_axes() const;
};

/// A kShifted access to a whole array, whose dimensions are those of the space in order.
ArrayAccess shifted_access(const hlo::Shape& shape, const std::vector<std::int64_t>& shift);

/// To an element of a tile, the same everywhere.
ArrayAccess access_to_element(const hlo::Shape& tile, int row, int lane);

/// Of a linear space to a row tile whose rows are vectors.
ArrayAccess access_in_rows(const hlo::Shape& tiles);

/// Finds the access; `axes[i]` is the axis of dimension i of `shape`. Throws WorkloadError naming
/// `what` where no kernel can read (or write) the array in this space.
ArrayAccess find_access(const IterationSpace& space, const hlo::Shape& shape,
                        const std::vector<int>& axes, const std::string& what);

}  // namespace tpu::compiler
