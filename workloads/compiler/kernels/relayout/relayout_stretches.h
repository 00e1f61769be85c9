#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "workloads/compiler/kernels/relayout/relayout_boxes.h"
#include "workloads/compiler/kernels/relayout/relayout_slabs.h"

namespace tpu::compiler {

/// What becomes of a slab of the result: `boxes` are those that reach it, between the slabs that
/// hold what they move; `source` of each is the number of a slab.
using BoxesBody = std::function<SlabBody(std::vector<Box> boxes)>;

/// A result that is made of boxes, cut into slabs along a physical dimension along which boxes move
/// (of a vector: along it). Each slab of the result has what its boxes bring from elsewhere: whole
/// tiles, one more of them where a box moves by no multiple of a tile; with steps more of them than
/// the slab has, backwards where it reverses. Slabs that differ in nothing
/// but their place are a stretch; where boxes begin and end, slabs stand alone.
struct MovedSlabs {
  std::vector<Box> boxes;
  std::vector<SlabArray> operands;  ///< As boxes number them; no dimension is cut.
  SlabArray target;                 ///< The same.
  int dimension = 0;
  BoxesBody body;
};

/// Of slabs of so many tiles along the dimension, or of as few more as boxes that spread ask for.
std::vector<SlabStretch> stretches_of(const MovedSlabs& moved, std::int64_t tiles);

/// Tiles of the result along the dimension.
std::int64_t tiles_along(const MovedSlabs& moved);

}  // namespace tpu::compiler
