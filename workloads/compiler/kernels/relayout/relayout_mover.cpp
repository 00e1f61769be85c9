#include "workloads/compiler/kernels/relayout/relayout_mover.h"

#include <algorithm>
#include <numeric>

#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"
#include "workloads/compiler/kernels/tiles/step_counter.h"

namespace tpu::compiler {

using isa::Opcode;

/// Sublanes [first, end) of a tile.
std::uint8_t ElementMover::sublanes(std::int64_t first, std::int64_t end) {
  std::uint8_t mask = 0;
  for (std::int64_t s = first; s < end; ++s) mask |= static_cast<std::uint8_t>(1U << s);
  return mask;
}

std::int64_t TileArray::tiles() const {
  std::int64_t count = row_tiles() * lane_tiles();
  for (std::size_t i = 0; i + 2 < rank(); ++i) count *= extents[i];
  return count;
}

std::int64_t TileArray::rows_apart(std::size_t dimension) const {
  std::int64_t rows = tile_rows() * lane_tiles();
  if (dimension + 2 == rank()) return rows;
  rows *= row_tiles();
  for (std::size_t i = dimension + 1; i + 2 < rank(); ++i) rows *= extents[i];
  return rows;
}

void ElementMover::repeat(std::int64_t count, const std::function<void(Index)>& body,
                          std::int64_t at_once) {
  in_pieces(builder_, count, at_once, [&](Index first, std::int64_t many) {
    for (std::int64_t i = 0; i < many; ++i) body(first.plus(i));
  });
}

void ElementMover::nest(const std::vector<std::int64_t>& counts, std::size_t level,
                        Position& position, const std::function<void()>& body,
                        std::int64_t at_once) {
  if (level == counts.size()) {
    body();
    return;
  }
  std::int64_t inside = 1;
  for (std::size_t i = level + 1; i < counts.size(); ++i) inside *= counts[i];
  if (inside == 0) return;
  const auto one = [&](Index index) {
    position[level] = index;
    nest(counts, level + 1, position, body, at_once);
  };
  repeat(counts[level], one, std::max<std::int64_t>(1, at_once / inside));
}

Index ElementMover::tile_of(const TileArray& array, const Position& majors, Index tile) {
  Index linear;
  for (std::size_t i = 0; i + 2 < array.rank(); ++i) {
    linear = add(builder_, multiply(builder_, linear, array.extents[i]), majors[i]);
  }
  linear = add(builder_, multiply(builder_, linear, array.row_tiles()), tile);
  return add(builder_, array.begin,
             multiply(builder_, linear, array.tile_rows() * array.lane_tiles()));
}

Index ElementMover::row_of(const TileArray& array, const Position& position) {
  const Index row = position[array.rank() - 2];
  const Index tile = tile_of(array, position, divide_by_power_of_two(builder_, row, 3));
  return add(builder_, tile, modulo_power_of_two(builder_, row, 3));
}

void ElementMover::fill(const TileArray& array, std::uint32_t word) {
  fill_tiles(builder_, array.region, array.begin, array.tiles(), word, 8);
}

void ElementMover::unpack(TileMemory& memory, VmemRegion packed, Index begin,
                          const TileArray& array) {
  const auto one = [&](Index tile) {
    const Index from = add(builder_, begin, multiply(builder_, tile, 4));
    const VReg value = memory.load_tile(hlo::ElementType::kBf16, at(packed, from));
    builder_.store(at(array.region, add(builder_, array.begin, multiply(builder_, tile, 8))),
                   value);
  };
  repeat(array.tiles(), one, 8);
}

void ElementMover::pack(TileMemory& memory, const TileArray& array, VmemRegion packed,
                        Index begin) {
  const auto one = [&](Index tile) {
    const Index from = add(builder_, array.begin, multiply(builder_, tile, 8));
    memory.store_tile(hlo::ElementType::kBf16,
                      at(packed, add(builder_, begin, multiply(builder_, tile, 4))),
                      builder_.load(at(array.region, from)));
  };
  repeat(array.tiles(), one, 4);
}

// Boxes.

namespace {

/// Dimensions above rows that fill whole tiles on both sides are rows, too.
void merge_rows(TileArray& source, TileArray& target, Box& box) {
  for (std::size_t rank = source.rank(); rank > 2; --rank) {
    Box::Dimension& rows = box.dimensions[rank - 2];
    const Box::Dimension& above = box.dimensions[rank - 3];
    const std::int64_t extent = rows.extent;
    const bool is_whole = rows.from == 0 && rows.to == 0 && rows.step == 1 && rows.spread == 1 &&
                          extent == source.extents[rank - 2] &&
                          extent == target.extents[rank - 2] && extent % 8 == 0;
    if (!is_whole || above.step != 1 || above.spread != 1) return;
    rows = {above.extent * extent, above.from * extent, 1, above.to * extent, 1};
    const auto at = static_cast<std::ptrdiff_t>(rank - 3);
    box.dimensions.erase(box.dimensions.begin() + at);
    for (TileArray* array : {&source, &target}) {
      array->extents[rank - 2] *= array->extents[rank - 3];
      array->extents.erase(array->extents.begin() + at);
    }
  }
}

}  // namespace

void ElementMover::move_box(TileArray source, TileArray target, Box box) {
  TPU_CHECK(box.dimensions.size() == source.rank() && target.rank() == source.rank(),
            "a box of another rank");
  merge_rows(source, target, box);
  const std::size_t rank = source.rank();
  const Box::Dimension& rows = box.dimensions[rank - 2];
  const bool whole_tiles = std::abs(rows.step) == 1 && rows.spread == 1;
  const Box::Dimension& lanes = box.dimensions.back();
  if (lanes.step < 0) {
    const VReg turned =
        builder_.vector(Opcode::kVsubS32, static_cast<std::uint32_t>((lanes.from + lanes.to) % 128),
                        builder_.lane_sequence());
    builder_.set_lane_pattern(turned);
  }
  std::vector<std::int64_t> counts;
  for (std::size_t i = 0; i + (whole_tiles ? 2 : 1) < rank; ++i) {
    counts.push_back(box.dimensions[i].extent);
  }
  Position place(rank - 1);
  const auto one = [&] {
    Position from(rank - 1), to(rank - 1);
    for (std::size_t i = 0; i < counts.size(); ++i) {
      const Box::Dimension& d = box.dimensions[i];
      const Index distance = multiply(builder_, place[i], std::abs(d.step));
      from[i] = d.step < 0 ? counted_back(builder_, d.from, distance) : distance.plus(d.from);
      to[i] = multiply(builder_, place[i], d.spread).plus(d.to);
    }
    if (whole_tiles) {
      move_row_tiles(source, target, from, to, box);
      return;
    }
    const Index source_row = row_of(source, from);
    const Index target_row = row_of(target, to);
    move_lanes(
        box.dimensions.back(),
        [&](Index tile) {
          const Index row = add(builder_, source_row, multiply(builder_, tile, 8));
          return builder_.load(at(source.region, row).stride(0));
        },
        [&](Index tile, MReg lanes, VReg value) {
          const Index row = add(builder_, target_row, multiply(builder_, tile, 8));
          const VmemAddress place_of = at(target.region, row).mask(0x1);
          if (lanes) {
            builder_.store(place_of, lanes, value);
          } else {
            builder_.store(place_of, value);
          }
        });
  };
  const std::int64_t across = ceil_divide<std::int64_t>(box.dimensions.back().extent, 128);
  const std::int64_t down = whole_tiles ? ceil_divide<std::int64_t>(rows.extent, 8) : 1;
  nest(counts, 0, place, one, kTilesAtOnce / (across * down));
}

/// The rows of a box in tiles of the target: each takes its rows from one tile of the source or
/// from two, backwards where they are reversed. Packed ones stay where they are in their tiles.
void ElementMover::move_row_tiles(const TileArray& source, const TileArray& target,
                                  const Position& from, const Position& to, const Box& box) {
  const Box::Dimension& rows = box.dimensions[source.rank() - 2];
  const bool turns = rows.step < 0;
  const std::int64_t distance = turns ? rows.from + rows.to : rows.from - rows.to;
  const std::int64_t tiles_apart = ElementMover::floor_divide(distance, 8);
  const std::int64_t rows_apart = distance - 8 * tiles_apart;
  const int of_upper = turns ? 0xff >> (7 - rows_apart) : 0xff >> rows_apart;
  const std::int64_t tile_rows = target.tile_rows();
  const bool in_tiles = rows.step == 1 && rows_apart == 0 && rows.to % 8 == 0;
  TPU_CHECK(source.tile_rows() == tile_rows && (tile_rows == 8 || in_tiles),
            "packed rows leave their tiles");
  const auto one = [&](Index tile, std::uint8_t mask) {
    if (tile_rows < 8) mask = sublanes(0, tile_rows);
    const auto upper = static_cast<std::uint8_t>(mask & of_upper);
    const auto lower = static_cast<std::uint8_t>(mask & ~of_upper);
    const Index near = turns ? counted_back(builder_, tiles_apart, tile) : tile.plus(tiles_apart);
    const Index first = tile_of(source, from, near).plus(rows_apart);
    const Index second =
        tile_of(source, from, near.plus(turns ? -1 : 1)).plus(rows_apart + (turns ? 8 : -8));
    const std::int32_t stride = turns ? -1 : 1;
    const Index there = tile_of(target, to, tile);
    move_lanes(
        box.dimensions.back(),
        [&](Index lane_tile) {
          const Index right = multiply(builder_, lane_tile, tile_rows);
          VReg value;
          if (upper != 0) {
            value = builder_.load(
                at(source.region, add(builder_, first, right)).stride(stride).mask(upper));
          }
          if (lower != 0) {
            const VReg rest = builder_.load(
                at(source.region, add(builder_, second, right)).stride(stride).mask(lower));
            value = value ? builder_.or_(value, rest) : rest;
          }
          return value;
        },
        [&](Index lane_tile, MReg lanes, VReg value) {
          const Index right = multiply(builder_, lane_tile, tile_rows);
          const VmemAddress place = at(target.region, add(builder_, there, right)).mask(mask);
          if (lanes) {
            builder_.store(place, lanes, value);
          } else {
            builder_.store(place, value);
          }
        });
  };
  std::int64_t tile = rows.to / 8;
  const std::int64_t end = rows.to + rows.extent;
  if (rows.to % 8 != 0) {
    one({{}, tile}, sublanes(rows.to % 8, std::min<std::int64_t>(8, end - 8 * tile)));
    ++tile;
  }
  const std::int64_t whole = end / 8 - tile;
  if (whole > 0) {
    const std::int64_t across = ceil_divide<std::int64_t>(box.dimensions.back().extent, 128);
    repeat(
        whole, [&](Index index) { one(index.plus(tile), 0xff); },
        std::max<std::int64_t>(1, kTilesAtOnce / across));
    tile += whole;
  }
  if (8 * tile < end) one({{}, tile}, sublanes(0, end - 8 * tile));
}

MReg ElementMover::lanes_between(std::int64_t first, std::int64_t end) {
  if (first == 0 && end >= 128) return {};
  const VReg lane = builder_.and_(builder_.lane_sequence(), 127);
  if (end >= 128) {
    return builder_.vector_compare(Opcode::kVcmpGeS32, lane, static_cast<int>(first));
  }
  const MReg below = builder_.vector_compare(Opcode::kVcmpLtS32, lane, static_cast<int>(end));
  if (first == 0) return below;
  const MReg above = builder_.vector_compare(Opcode::kVcmpGeS32, lane, static_cast<int>(first));
  return builder_.mask(Opcode::kVmand, above, below);
}

/// Lanes [first_lane, end_lane) of a register of the target, from those `lanes_apart` behind in the
/// source: the first of them from `load(0)`, the others from the next register, `load(1)`.
void ElementMover::shift_tile(std::int64_t lanes_apart, std::int64_t first_lane,
                              std::int64_t end_lane, const std::function<VReg(int)>& load,
                              const std::function<void(MReg, VReg)>& store) {
  const MReg mask = lanes_between(first_lane, end_lane);
  if (lanes_apart == 0) {
    store(mask, load(0));
    return;
  }
  // Lanes below `seam` come from one register of the source, the others from the next.
  const std::int64_t seam = 128 - lanes_apart;
  VReg value;
  if (first_lane < seam) value = builder_.rotate_lanes(load(0), seam);
  if (end_lane > seam) {
    const VReg next = builder_.rotate_lanes(load(1), seam);
    value = value ? builder_.select(lanes_between(0, seam), value, next) : next;
  }
  store(mask, value);
}

/// The same backwards: the last of those lanes from `load(0)`, those before them from `load(-1)`.
/// move_box() has set the pattern, by which lane l is lane `seam` - l.
void ElementMover::turn_tile(std::int64_t seam, std::int64_t first_lane, std::int64_t end_lane,
                             const std::function<VReg(int)>& load,
                             const std::function<void(MReg, VReg)>& store) {
  VReg value;
  if (first_lane <= seam) value = builder_.permute_lanes(load(0));
  if (end_lane > seam + 1) {
    const VReg before = builder_.permute_lanes(load(-1));
    value = value ? builder_.select(lanes_between(0, seam + 1), value, before) : before;
  }
  store(lanes_between(first_lane, end_lane), value);
}

/// The lanes of a box in tiles of the target.
void ElementMover::move_lanes(const Box::Dimension& lanes, const Load& load, const Store& store) {
  TPU_CHECK(std::abs(lanes.step) == 1 && lanes.spread == 1, "lanes move without steps");
  const bool turns = lanes.step < 0;
  const std::int64_t distance = turns ? lanes.from + lanes.to : lanes.from - lanes.to;
  const std::int64_t tiles_apart = ElementMover::floor_divide(distance, 128);
  const std::int64_t lanes_apart = distance - 128 * tiles_apart;
  const std::int64_t end = lanes.to + lanes.extent;
  const auto one = [&](Index tile, std::int64_t first_lane, std::int64_t end_lane) {
    const Index near = turns ? counted_back(builder_, tiles_apart, tile) : tile.plus(tiles_apart);
    const auto load_tile = [&](int next) { return load(near.plus(next)); };
    if (turns) {
      turn_tile(lanes_apart, first_lane, end_lane, load_tile,
                [&](MReg mask, VReg value) { store(tile, mask, value); });
      return;
    }
    shift_tile(lanes_apart, first_lane, end_lane, load_tile,
               [&](MReg mask, VReg value) { store(tile, mask, value); });
  };
  std::int64_t tile = lanes.to / 128;
  if (lanes.to % 128 != 0) {
    one({{}, tile}, lanes.to % 128, std::min<std::int64_t>(128, end - 128 * tile));
    ++tile;
  }
  const std::int64_t whole = end / 128 - tile;
  if (whole <= kTilesAtOnce) {
    for (std::int64_t i = 0; i < whole; ++i) one({{}, tile + i}, 0, 128);
  } else {
    repeat(
        whole, [&](Index index) { one(index.plus(tile), 0, 128); }, kTilesAtOnce);
  }
  tile += std::max<std::int64_t>(0, whole);
  if (128 * tile < end) one({{}, tile}, 0, end - 128 * tile);
}

// Transposes.

void ElementMover::transpose(const TileArray& source, const TileArray& target,
                             const std::vector<std::size_t>& permutation) {
  const std::size_t rank = source.rank();
  if (permutation.back() == rank - 1) {
    copy_rows(source, target, permutation);
    return;
  }
  TransposeBlock block;
  block.row_dimension = permutation.back();
  block.lane_dimension = static_cast<std::size_t>(
      std::find(permutation.begin(), permutation.end(), rank - 1) - permutation.begin());
  const std::int64_t rows = target.extents.back(), lanes = source.extents.back();
  // Whole blocks, then what remains along either side.
  for (const bool rows_rest : {false, true}) {
    for (const bool lanes_rest : {false, true}) {
      const std::int64_t row_blocks = rows_rest ? (rows % 128 != 0 ? 1 : 0) : rows / 128;
      const std::int64_t lane_blocks = lanes_rest ? (lanes % 128 != 0 ? 1 : 0) : lanes / 128;
      if (row_blocks == 0 || lane_blocks == 0) continue;
      block.rows = rows_rest ? rows % 128 : 128;
      block.lanes = lanes_rest ? lanes % 128 : 128;
      block.row_block = {{}, rows_rest ? rows / 128 : 0};
      block.lane_block = {{}, lanes_rest ? lanes / 128 : 0};
      transpose_blocks(source, target, permutation, block, row_blocks, lane_blocks);
    }
  }
}

double ElementMover::transpose_cycles(const TileArray& source, const TileArray& target,
                                      const std::vector<std::size_t>& permutation) {
  constexpr double kTile = 2, kPush = 8, kBlock = 40;
  if (permutation.back() == source.rank() - 1) return kTile * static_cast<double>(target.tiles());
  const std::int64_t rows = target.extents.back(), lanes = source.extents.back();
  double others = 1;
  for (std::int64_t extent : target.extents) others *= static_cast<double>(extent);
  others /= static_cast<double>(rows * lanes);
  // Of a block the columns are popped while the rows of the next one are pushed.
  double cycles = 0;
  for (std::int64_t row = 0; row < rows; row += 128) {
    for (std::int64_t lane = 0; lane < lanes; lane += 128) {
      const std::int64_t longer = std::min<std::int64_t>(128, std::max(rows - row, lanes - lane));
      cycles += kPush * static_cast<double>(ceil_divide(longer, std::int64_t{8})) + kBlock;
    }
  }
  return others * cycles;
}

/// Blocks of one size, at every place of the other dimensions: the columns of a block are popped
/// while the rows of the next one are pushed.
void ElementMover::transpose_blocks(const TileArray& source, const TileArray& target,
                                    const std::vector<std::size_t>& permutation,
                                    const TransposeBlock& first, std::int64_t row_blocks,
                                    std::int64_t lane_blocks) {
  const std::size_t rank = source.rank();
  std::vector<std::uint32_t> extents;
  for (std::size_t i = 0; i + 1 < rank; ++i) {
    const bool turns = i == first.lane_dimension;
    extents.push_back(turns ? 1 : static_cast<std::uint32_t>(target.extents[i]));
  }
  extents.push_back(static_cast<std::uint32_t>(row_blocks));
  extents.push_back(static_cast<std::uint32_t>(lane_blocks));
  builder_.new_block();
  StepCounter counter(builder_, extents);
  const auto index = [](SReg digit) { return Index{digit, 0}; };
  const auto place = [&](const std::vector<SReg>& digits) {
    TransposeBlock block = first;
    block.row_block = add(builder_, first.row_block, index(digits[rank - 1]));
    block.lane_block = add(builder_, first.lane_block, index(digits[rank]));
    return block;
  };
  const auto push = [&](const std::vector<SReg>& digits) {
    Position from(rank - 1);
    for (std::size_t i = 0; i + 1 < rank; ++i) {
      if (i != first.lane_dimension) from[permutation[i]] = index(digits[i]);
    }
    push_block(source, from, place(digits));
  };
  const auto pop = [&](const std::vector<SReg>& digits) {
    Position to(rank - 1);
    for (std::size_t i = 0; i + 1 < rank; ++i) to[i] = index(digits[i]);
    pop_block(target, to, place(digits));
  };
  if (counter.steps() == 1) {
    push(std::vector<SReg>(extents.size()));
    pop(std::vector<SReg>(extents.size()));
    builder_.new_block();
    return;
  }
  push(std::vector<SReg>(extents.size()));
  builder_.loop(counter.steps(), [&](SReg) {
    const std::vector<SReg> present = counter.present(), next = counter.next();
    push(next);
    pop(present);
    counter.advance(next);
  });
  // What the last step pushed is nobody's.
  for (std::int64_t i = 0; i < first.width() / 8; ++i) builder_.transpose_pop();
  builder_.new_block();
}

/// The minor dimension stays: eight rows of lanes go to a tile, from a tile where the dimension
/// above stays, too, else from eight places by the stride of the load.
void ElementMover::copy_rows(const TileArray& source, const TileArray& target,
                             const std::vector<std::size_t>& permutation) {
  const std::size_t rank = source.rank(), row_dimension = permutation[rank - 2];
  const bool whole_tiles = row_dimension == rank - 2;
  const std::int64_t stride = whole_tiles ? 1 : source.rows_apart(row_dimension);
  const auto copy = [&](std::int64_t first, std::int64_t tiles, std::int64_t rows) {
    std::vector<std::int64_t> counts(target.extents.begin(), target.extents.end() - 1);
    counts.back() = tiles;
    Position to(rank - 1);
    const auto copy_tile = [&] {
      Position from(rank - 1);
      for (std::size_t i = 0; i + 2 < rank; ++i) from[permutation[i]] = to[i];
      const Index tile = to.back().plus(first);
      from[row_dimension] = multiply(builder_, tile, 8);
      const Index source_row = row_of(source, from), target_row = tile_of(target, to, tile);
      const std::uint8_t mask = sublanes(0, rows);
      const auto one = [&](Index lane_tile) {
        const Index right = multiply(builder_, lane_tile, 8);
        const VReg value = builder_.load(at(source.region, add(builder_, source_row, right))
                                             .stride(static_cast<std::int32_t>(stride))
                                             .mask(mask));
        builder_.store(at(target.region, add(builder_, target_row, right)).mask(mask), value);
      };
      if (source.lane_tiles() <= 8) {
        for (std::int64_t i = 0; i < source.lane_tiles(); ++i) one({{}, i});
      } else {
        repeat(source.lane_tiles(), one);
      }
    };
    nest(counts, 0, to, copy_tile, kTilesAtOnce / source.lane_tiles());
  };
  const std::int64_t rows = target.extents[rank - 2];
  copy(0, rows / 8, 8);
  if (rows % 8 != 0) copy(rows / 8, 1, rows % 8);
}

void ElementMover::push_block(const TileArray& source, const Position& from,
                              const TransposeBlock& block) {
  const std::int64_t pushes = ceil_divide(block.rows, 8);
  const Index right = multiply(builder_, block.lane_block, source.tile_rows());
  const bool in_tiles = block.row_dimension == source.rank() - 2;
  const Index first =
      add(builder_, first_row(source, from, block.row_dimension, block.row_block), right);
  const std::int64_t distance = source.rows_apart(block.row_dimension);
  for (std::int64_t push = 0; push < pushes; ++push) {
    VReg rows;
    if (in_tiles) {
      const VmemAddress tile = at(source.region, first.plus(push * distance));
      rows = source.packed != nullptr ? source.packed->load_tile(hlo::ElementType::kBf16, tile)
                                      : builder_.load(tile);
    } else {
      rows =
          builder_.load(at(source.region, first.plus(8 * push * distance))
                            .stride(static_cast<std::int32_t>(distance))
                            .mask(sublanes(0, std::min<std::int64_t>(8, block.rows - 8 * push))));
    }
    builder_.transpose_push(rows, static_cast<std::uint32_t>(block.width()),
                            static_cast<std::uint32_t>(push), static_cast<std::uint32_t>(pushes));
  }
}

void ElementMover::pop_block(const TileArray& target, const Position& to,
                             const TransposeBlock& block) {
  const Index right = multiply(builder_, block.row_block, target.tile_rows());
  const bool in_tiles = block.lane_dimension == target.rank() - 2;
  const Index first =
      add(builder_, first_row(target, to, block.lane_dimension, block.lane_block), right);
  const std::int64_t distance = target.rows_apart(block.lane_dimension);
  for (std::int64_t pop = 0; pop < block.width() / 8; ++pop) {
    const VReg columns = builder_.transpose_pop();
    if (in_tiles) {
      const VmemAddress tile = at(target.region, first.plus(pop * distance));
      if (target.packed != nullptr) {
        target.packed->store_tile(hlo::ElementType::kBf16, tile, columns);
      } else {
        builder_.store(tile, columns);
      }
      continue;
    }
    builder_.store(at(target.region, first.plus(8 * pop * distance))
                       .stride(static_cast<std::int32_t>(distance))
                       .mask(sublanes(0, std::min<std::int64_t>(8, block.lanes - 8 * pop))),
                   columns);
  }
}

/// VMEM row where block `block` of 128 indices of a dimension begins: of a tile where it is the
/// dimension of rows, else of a row of lanes.
Index ElementMover::first_row(const TileArray& array, const Position& position,
                              std::size_t dimension, Index block) {
  if (dimension == array.rank() - 2) {
    return tile_of(array, position, multiply(builder_, block, 16));
  }
  Position place = position;
  place[dimension] = multiply(builder_, block, 128);
  return row_of(array, place);
}

}  // namespace tpu::compiler
