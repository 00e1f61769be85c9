#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "workloads/compiler/ir/dimension_order.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// A reshape between an array and one that has parts of its lanes or rows along dimensions of their
/// own outside of the tiles, in any order and anywhere there. Everything but these lanes or rows
/// stays in its tiles.
///
/// - Parts of lanes one behind the other, as heads of attention have them: f32[b,t,384]{2,1,0} and
///   f32[b,t,6,64]{3,1,2,0}; of several dimensions as what a transposed convolution makes of a
///   pixel.
/// - Parts of lanes in turns (woven), as even and odd ones: f32[b,t,64,6]{2,1,3,0}. So have rows of
///   one tile, of 128 and more elements of 32 bits, that are woven to a vector: f32[1000,2]{0,1}.
/// - Parts of rows in turns, as pixels that are put between each other: f32[b,32,64]{2,1,0} and
///   f32[b,16,2,64]{3,1,2,0}.
struct TileParts {
  /// A dimension that parts lie along.
  struct Dimension {
    std::size_t place = 0;  ///< Physical, from major to minor.
    std::int64_t count = 1;
  };

  /// Both arrays as they lie, in row-major order of their physical dimensions, those of the whole
  /// one split as those of the other are; it has dimensions of 1 where that has the parts.
  hlo::Shape from, to;
  std::vector<Dimension> dimensions;  ///< From major to minor in the whole; of a vector: none.
  std::int64_t count = 1;             ///< Parts.
  std::int64_t extent = 1;            ///< Lanes or rows of each.
  bool joins = false;                 ///< The parts are the operand's.
  bool woven = false;
  bool of_rows = false;  ///< Woven.
};

/// Each takes a permutation of each register of the whole.
constexpr std::int64_t kMostWovenParts = 16;
/// Along several dimensions: each is a box that moves by itself.
constexpr std::int64_t kMostPartsApart = 64;

/// None for other reshapes.
std::optional<TileParts> tile_parts(const hlo::Shape& from, const hlo::Shape& to);

/// Orders of the array with more dimensions in which it has parts of the lanes or of the rows of
/// the other one, as that lies; the dimensions of the parts stand right outside of the tiles.
std::vector<DimensionOrder> orders_of_parts(const hlo::Shape& whole, const hlo::Shape& parts);

}  // namespace tpu::compiler
