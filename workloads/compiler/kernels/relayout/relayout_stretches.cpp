#include "workloads/compiler/kernels/relayout/relayout_stretches.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "sim/base/ceil_divide.h"
#include "workloads/compiler/ir/array_layout.h"

namespace tpu::compiler {

namespace {

std::int64_t extent_of(const SlabArray& array, int dimension) {
  return physical_extents(array.shape)[static_cast<std::size_t>(dimension)];
}

/// Elements of a tile along the dimension; a vector has tiles of 1024.
std::int64_t tile_of(const MovedSlabs& moved) {
  const std::int64_t rank = moved.target.shape.rank();
  if (rank < 2) return 1024;
  return moved.dimension == rank - 1 ? 128 : moved.dimension == rank - 2 ? 8 : 1;
}

/// A slab of the result and what its boxes take.
struct Slab {
  std::int64_t begin = 0, extent = 0;
  std::vector<Box> boxes;
  std::vector<SlabArray> sources;
  /// Of the sources, by operand, first index and how much longer they are than the slab.
  std::map<std::tuple<int, std::int64_t, std::int64_t>, int> numbers;

  void add(Box box, const SlabArray& source) {
    const auto [number, is_new] = numbers.try_emplace({source.operand, source.begin, source.more},
                                                      static_cast<int>(sources.size()));
    box.source = number->second;
    if (is_new) sources.push_back(source);
    boxes.push_back(std::move(box));
  }

  /// Whether the other slab is the next one of the same kind.
  bool is_before(const Slab& other) const {
    return extent == other.extent && boxes == other.boxes &&
           std::equal(sources.begin(), sources.end(), other.sources.begin(), other.sources.end(),
                      [](const SlabArray& one, const SlabArray& next) {
                        return one.operand == next.operand && one.more == next.more &&
                               one.advance == next.advance &&
                               one.begin + *one.advance == next.begin;
                      });
  }
};

/// Of a vector's rows of 128.
SlabArray cut(SlabArray array, int dimension) {
  array.dimension = dimension;
  array.of_index = array.shape.rank() < 2 ? 128 : 1;
  return array;
}

/// `of_slab`: the extent of all slabs but the last.
Slab slab_at(const MovedSlabs& moved, std::int64_t begin, std::int64_t of_slab) {
  const auto at = static_cast<std::size_t>(moved.dimension);
  const std::int64_t tile = tile_of(moved);
  Slab slab{begin, std::min(of_slab, extent_of(moved.target, moved.dimension) - begin), {}, {}, {}};
  for (Box box : moved.boxes) {
    Box::Dimension& d = box.dimensions[at];
    const std::int64_t first = ceil_divide(std::max<std::int64_t>(begin - d.to, 0), d.spread);
    const std::int64_t end = std::min(
        d.extent, ceil_divide(std::max<std::int64_t>(begin + slab.extent - d.to, 0), d.spread));
    if (first >= end) continue;
    const std::int64_t from = d.from + d.step * first, until = d.from + d.step * (end - 1);
    SlabArray source = cut(moved.operands[static_cast<std::size_t>(box.source)], moved.dimension);
    const std::int64_t lowest = std::min(from, until);
    source.begin = lowest - lowest % tile;
    const std::int64_t behind =
        std::min(round_up(std::max(from, until) + 1, tile), extent_of(source, moved.dimension));
    source.more = behind - source.begin - slab.extent;
    source.advance = of_slab / d.spread * d.step;
    d = {end - first, from - source.begin, d.step, d.to + d.spread * first - begin, d.spread};
    slab.add(std::move(box), source);
  }
  return slab;
}

}  // namespace

std::int64_t tiles_along(const MovedSlabs& moved) {
  return ceil_divide(extent_of(moved.target, moved.dimension), tile_of(moved));
}

std::vector<SlabStretch> stretches_of(const MovedSlabs& moved, std::int64_t tiles) {
  const std::int64_t extent = extent_of(moved.target, moved.dimension);
  std::int64_t spread = 1;
  for (const Box& box : moved.boxes) {
    spread = std::lcm(spread, box.dimensions[static_cast<std::size_t>(moved.dimension)].spread);
  }
  const std::int64_t of_slab = round_up(tiles, spread) * tile_of(moved);
  std::vector<SlabStretch> stretches;
  Slab last;
  for (std::int64_t begin = 0; begin < extent; begin += of_slab) {
    Slab slab = slab_at(moved, begin, of_slab);
    if (!stretches.empty() && last.is_before(slab)) {
      stretches.back().extent += of_slab;
    } else {
      SlabStretch stretch{slab.sources, cut(moved.target, moved.dimension), slab.extent, of_slab,
                          moved.body(slab.boxes)};
      stretch.target.begin = begin;
      stretches.push_back(std::move(stretch));
    }
    last = std::move(slab);
  }
  return stretches;
}

}  // namespace tpu::compiler
