#pragma once

#include <cstdint>
#include <optional>

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// A reshape between an array and one whose lanes are parts of the other's, with the parts along a
/// dimension of its own outside of the tiles, as heads of attention have it:
/// f32[b,t,384]{2,1,0} and f32[b,t,6,64]{3,1,2,0}. Everything but the lanes stays in its tiles.
///
/// Woven parts have the lanes in turns, as even and odd ones: f32[b,t,64,6]{2,1,3,0}. So have rows
/// of one tile, of 128 and more elements of 32 bits, that are woven to a vector: f32[1000,2]{0,1}.
struct LaneParts {
  /// Both arrays as they lie, in row-major order of their physical dimensions; the whole one has a
  /// dimension of 1 where the other one has the parts.
  hlo::Shape from, to;
  std::size_t dimension = 0;  ///< Of the parts.
  std::int64_t count = 1;     ///< Parts.
  std::int64_t lanes = 1;     ///< Of each.
  bool joins = false;         ///< The parts are the operand's.
  bool woven = false;
};

/// Each takes a permutation of each register of the whole.
constexpr std::int64_t kMostWovenParts = 16;

/// None for other reshapes.
std::optional<LaneParts> lane_parts(const hlo::Shape& from, const hlo::Shape& to);

}  // namespace tpu::compiler
