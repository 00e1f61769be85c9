#include <algorithm>

#include "workloads/compiler/kernels/relayout/relayout_mover.h"
#include "workloads/compiler/kernels/relayout/relayout_slabs.h"

// Between parts and lanes that have an element of each of them in turns.

namespace tpu::compiler {

using isa::Opcode;

namespace {

/// In one piece of straight code: they follow each other without a wait.
constexpr std::int64_t kPermutationsAtOnce = 64;

VReg plus(KernelBuilder& builder, VReg value, std::int64_t amount) {
  if (amount == 0) return value;
  return builder.vector(Opcode::kVaddS32, value, static_cast<std::uint32_t>(amount));
}

MReg is(KernelBuilder& builder, VReg value, std::int64_t number) {
  return builder.vector_compare(Opcode::kVcmpEqS32, value, static_cast<int>(number));
}

}  // namespace

/// Both arrays, with all dimensions outside of that of the parts as one, and those inside of it
/// down to the tiles of rows.
struct ElementMover::Weave {
  const TileArray& parts;
  const TileArray& whole;
  std::int64_t count = 1;  ///< Parts.
  std::int64_t outer = 1, rows = 1;

  Index part_row(KernelBuilder& builder, Index at, const WovenTiles& tiles,
                 std::int64_t part) const {
    const Index row =
        add(builder, multiply(builder, at, count * rows).plus(part * rows), tiles.row);
    const Index tile = add(builder, multiply(builder, row, parts.lane_tiles()), tiles.lane_tile);
    return add(builder, parts.begin, multiply(builder, tile, isa::kSublanes));
  }
  Index whole_row(KernelBuilder& builder, Index at, const WovenTiles& tiles,
                  std::int64_t number) const {
    const Index row = add(builder, multiply(builder, at, rows), tiles.row);
    const Index tile = add(builder, multiply(builder, row, whole.lane_tiles()),
                           multiply(builder, tiles.lane_tile, count).plus(number));
    return add(builder, whole.begin, multiply(builder, tile, isa::kSublanes));
  }
};

void ElementMover::weave(const TileArray& source, const TileArray& target, const TileParts& lanes) {
  if (lanes.to.rank() == 1) return weave_rows(source, target);
  if (lanes.from.rank() == 1) return part_rows(source, target);
  if (lanes.of_rows) return weave_rows_of_tiles(source, target, lanes);
  const std::size_t dimension = lanes.dimensions.front().place;
  const bool joins = lanes.joins;
  Weave weave{joins ? source : target, joins ? target : source};
  weave.count = weave.parts.extents[dimension];
  for (std::size_t i = 0; i < dimension; ++i) weave.outer *= source.extents[i];
  weave.rows = source.row_tiles();
  for (std::size_t i = dimension + 1; i + 2 < source.rank(); ++i) weave.rows *= source.extents[i];
  const std::int64_t groups = weave.whole.lane_tiles() / weave.count;
  const std::int64_t rest = weave.whole.lane_tiles() % weave.count;
  const std::int64_t at_once =
      std::max<std::int64_t>(1, kPermutationsAtOnce / (weave.count * weave.count));
  const auto add_row = [&](std::vector<WovenTiles>& all, Index row) {
    for (std::int64_t i = 0; i < groups; ++i) all.push_back({row, {{}, i}, weave.count});
    if (rest > 0) all.push_back({row, {{}, groups}, rest});
  };
  repeat(weave.outer, [&](Index outer) {
    const auto emit = [&](const std::vector<WovenTiles>& all) {
      joins ? join_woven(weave, outer, all) : part_woven(weave, outer, all);
    };
    if (groups < at_once) {
      const std::int64_t of_row = groups + (rest > 0 ? 1 : 0);
      in_pieces(builder_, weave.rows, std::max<std::int64_t>(1, at_once / of_row),
                [&](Index first, std::int64_t many) {
                  std::vector<WovenTiles> all;
                  for (std::int64_t i = 0; i < many; ++i) add_row(all, first.plus(i));
                  emit(all);
                });
      return;
    }
    repeat(weave.rows, [&](Index row) {
      in_pieces(builder_, groups, at_once, [&](Index first, std::int64_t many) {
        std::vector<WovenTiles> all;
        for (std::int64_t i = 0; i < many; ++i) all.push_back({row, first.plus(i), weave.count});
        emit(all);
      });
      if (rest > 0) emit({{row, {{}, groups}, rest}});
    });
  });
}

/// Lane l of register `number` has element (128 number + l) / count, of part (128 number + l) %
/// count.
VReg ElementMover::elements_of_parts(std::int64_t count, std::int64_t number, VReg& part) {
  const VReg lane = builder_.vector(Opcode::kVcvtS32F32,
                                    builder_.and_(builder_.lane_sequence(), isa::kLanes - 1));
  const auto parts = static_cast<float>(count);
  VReg element = builder_.truncate_to_s32(builder_.mul(builder_.add(lane, 0.5F), 1 / parts));
  part = builder_.truncate_to_s32(
      builder_.sub(lane, builder_.mul(builder_.vector(Opcode::kVcvtS32F32, element), parts)));
  element = plus(builder_, element, isa::kLanes * number / count);
  const std::int64_t behind = isa::kLanes * number % count;
  if (behind == 0) return element;
  part = plus(builder_, part, behind);
  const MReg goes_on = builder_.vector_compare(Opcode::kVcmpGeS32, part, static_cast<int>(count));
  element = builder_.select(goes_on, plus(builder_, element, 1), element);
  part = builder_.select(goes_on, plus(builder_, part, -count), part);
  return element;
}

VReg ElementMover::lanes_of_first_part(std::int64_t count) {
  const VReg lane = builder_.and_(builder_.lane_sequence(), isa::kLanes - 1);
  return builder_.truncate_to_s32(
      builder_.mul(builder_.vector(Opcode::kVcvtS32F32, lane), static_cast<float>(count)));
}

void ElementMover::join_woven(const Weave& weave, Index outer, const std::vector<WovenTiles>& all) {
  for (std::int64_t k = 0; k < weave.count; ++k) {
    VReg part;
    builder_.set_lane_pattern(elements_of_parts(weave.count, k, part));
    for (const WovenTiles& tiles : all) {
      if (k >= tiles.tiles) continue;
      VReg joined;
      for (std::int64_t p = 0; p < weave.count; ++p) {
        const VReg value = builder_.permute_lanes(
            builder_.load(at(weave.parts.region, weave.part_row(builder_, outer, tiles, p))));
        joined = joined ? builder_.select(is(builder_, part, p), value, joined) : value;
      }
      builder_.store(at(weave.whole.region, weave.whole_row(builder_, outer, tiles, k)), joined);
    }
  }
}

/// Groups of eight lane tiles, several at a time, and the last, smaller one.
void ElementMover::for_lane_tiles(
    const TileArray& rows,
    const std::function<void(Index first, std::int64_t groups, std::int64_t tiles)>& piece) {
  const std::int64_t count = rows.extents.front();
  const std::int64_t groups = rows.lane_tiles() / isa::kSublanes;
  const std::int64_t rest = rows.lane_tiles() % isa::kSublanes;
  in_pieces(builder_, groups, std::max<std::int64_t>(1, kPermutationsAtOnce / (count * count)),
            [&](Index first, std::int64_t many) { piece(first, many, isa::kSublanes); });
  if (rest > 0) piece({{}, groups}, 1, rest);
}

/// Of a group of lane tiles, those that have elements in row k of theirs in the vector: of the last
/// one some rows of the vector may have none.
std::uint8_t ElementMover::rows_of_vector(const TileArray& vector, std::int64_t count, Index group,
                                          std::int64_t tiles, std::int64_t k) {
  const bool is_cut =
      tiles < isa::kSublanes &&
      count * (isa::kSublanes * group.offset + tiles - 1) + k >= vector.extents.front();
  return sublanes(0, is_cut ? tiles - 1 : tiles);
}

void ElementMover::weave_rows(const TileArray& rows, const TileArray& vector) {
  const std::int64_t count = rows.extents.front();
  for_lane_tiles(rows, [&](Index first, std::int64_t groups, std::int64_t tiles) {
    for (std::int64_t k = 0; k < count; ++k) {
      VReg part;
      builder_.set_lane_pattern(elements_of_parts(count, k, part));
      for (std::int64_t g = 0; g < groups; ++g) {
        const Index group = first.plus(g);
        const std::uint8_t mask = rows_of_vector(vector, count, group, tiles, k);
        if (mask == 0) continue;
        VReg joined;
        for (std::int64_t p = 0; p < count; ++p) {
          const Index row = multiply(builder_, group, isa::kSublanes * isa::kSublanes).plus(p);
          const VReg value =
              builder_.permute_lanes(builder_.load(at(rows.region, add(builder_, rows.begin, row))
                                                       .stride(isa::kSublanes)
                                                       .mask(sublanes(0, tiles))));
          joined = joined ? builder_.select(is(builder_, part, p), value, joined) : value;
        }
        const Index row = multiply(builder_, group, isa::kSublanes * count).plus(k);
        builder_.store(at(vector.region, add(builder_, vector.begin, row))
                           .stride(static_cast<std::int32_t>(count))
                           .mask(mask),
                       joined);
      }
    }
  });
}

void ElementMover::part_rows(const TileArray& vector, const TileArray& rows) {
  const std::int64_t count = rows.extents.front();
  for_lane_tiles(rows, [&](Index first, std::int64_t groups, std::int64_t tiles) {
    const VReg begin = lanes_of_first_part(count);
    for (std::int64_t p = 0; p < count; ++p) {
      const VReg place = plus(builder_, begin, p);
      const VReg from = builder_.shift_right(place, 7);
      builder_.set_lane_pattern(place);
      for (std::int64_t g = 0; g < groups; ++g) {
        const Index group = first.plus(g);
        VReg part;
        for (std::int64_t k = 0; k < count; ++k) {
          const std::uint8_t mask = rows_of_vector(vector, count, group, tiles, k);
          if (mask == 0) continue;
          const Index row = multiply(builder_, group, isa::kSublanes * count).plus(k);
          const VReg value = builder_.permute_lanes(
              builder_.load(at(vector.region, add(builder_, vector.begin, row))
                                .stride(static_cast<std::int32_t>(count))
                                .mask(mask)));
          part = part ? builder_.select(is(builder_, from, k), value, part) : value;
        }
        const Index row = multiply(builder_, group, isa::kSublanes * isa::kSublanes).plus(p);
        builder_.store(at(rows.region, add(builder_, rows.begin, row))
                           .stride(isa::kSublanes)
                           .mask(sublanes(0, tiles)),
                       part);
      }
    }
  });
}

/// Lane l of a register of part p is lane count * l + p of the registers of the whole, one behind
/// the other.
void ElementMover::part_woven(const Weave& weave, Index outer, const std::vector<WovenTiles>& all) {
  const VReg first = lanes_of_first_part(weave.count);
  for (std::int64_t p = 0; p < weave.count; ++p) {
    const VReg place = plus(builder_, first, p);
    const VReg from = builder_.shift_right(place, 7);
    builder_.set_lane_pattern(place);
    for (const WovenTiles& tiles : all) {
      VReg part;
      for (std::int64_t k = 0; k < tiles.tiles; ++k) {
        const VReg value = builder_.permute_lanes(
            builder_.load(at(weave.whole.region, weave.whole_row(builder_, outer, tiles, k))));
        part = part ? builder_.select(is(builder_, from, k), value, part) : value;
      }
      builder_.store(at(weave.parts.region, weave.part_row(builder_, outer, tiles, p)), part);
    }
  }
}

namespace {

/// Rows of a tile of a part, from those of one that is row `part` of the whole on, that stand in
/// tile number `tile` of the whole.
std::uint8_t rows_in_tile(std::int64_t part, std::int64_t count, std::int64_t rows,
                          std::int64_t tile) {
  std::uint8_t mask = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    if ((part + row * count) / isa::kSublanes == tile) mask |= static_cast<std::uint8_t>(1U << row);
  }
  return mask;
}

}  // namespace

/// Eight rows of a part and those of the whole, `count` apart, by the distance of a load or a
/// store: one of them where lanes fill no more than a tile, whose rows follow each other in VMEM;
/// else one for each tile.
void ElementMover::weave_rows_of_tiles(const TileArray& source, const TileArray& target,
                                       const TileParts& woven) {
  const TileArray &parts = woven.joins ? source : target, &whole = woven.joins ? target : source;
  const std::size_t place = woven.dimensions.front().place;
  const std::int64_t count = woven.count, lane_tiles = whole.lane_tiles();
  std::int64_t outer = 1, inner = 1;
  for (std::size_t i = 0; i < place; ++i) outer *= whole.extents[i];
  for (std::size_t i = place + 1; i + 2 < whole.rank(); ++i) inner *= whole.extents[i];
  Index matrix, matrix_of_parts;
  const auto row_in = [&](const TileArray& array, Index first, Index tile, Index lanes) {
    const Index tiles = add(builder_, multiply(builder_, first, array.row_tiles()), tile);
    const Index place_of = add(builder_, multiply(builder_, tiles, lane_tiles), lanes);
    return add(builder_, array.begin, multiply(builder_, place_of, isa::kSublanes));
  };
  const auto move = [&](Index tile, Index lanes, std::int64_t part, std::int64_t rows) {
    const Index of_part = row_in(
        parts, add(builder_, matrix_of_parts, multiply(builder_, {{}, part}, inner)), tile, lanes);
    const VmemAddress there = at(parts.region, of_part).mask(sublanes(0, rows));
    VReg value;
    if (woven.joins) value = builder_.load(there);
    for (std::int64_t i = 0; i < (lane_tiles == 1 ? 1 : count); ++i) {
      const std::uint8_t mask =
          lane_tiles == 1 ? sublanes(0, rows) : rows_in_tile(part, count, rows, i);
      if (mask == 0) continue;
      const Index first = row_in(whole, matrix, multiply(builder_, tile, count).plus(i), lanes)
                              .plus(part - isa::kSublanes * i);
      const VmemAddress here =
          at(whole.region, first).stride(static_cast<std::int32_t>(count)).mask(mask);
      if (woven.joins) {
        builder_.store(here, value);
      } else {
        const VReg more = builder_.load(here);
        value = value ? builder_.or_(value, more) : more;
      }
    }
    if (!woven.joins) builder_.store(there, value);
  };
  const std::int64_t rows = parts.extents[parts.rank() - 2];
  const auto tile_of_parts = [&](Index tile, std::int64_t of_tile) {
    repeat(
        lane_tiles,
        [&](Index lanes) {
          for (std::int64_t part = 0; part < count; ++part) move(tile, lanes, part, of_tile);
        },
        std::max<std::int64_t>(1, kTilesAtOnce / count));
  };
  const std::int64_t at_once = std::max<std::int64_t>(1, kTilesAtOnce / (count * lane_tiles));
  Position at_matrix(2);
  nest({outer, inner}, 0, at_matrix, [&] {
    matrix = add(builder_, multiply(builder_, at_matrix[0], inner), at_matrix[1]);
    matrix_of_parts = add(builder_, multiply(builder_, at_matrix[0], count * inner), at_matrix[1]);
    repeat(
        rows / 8, [&](Index tile) { tile_of_parts(tile, 8); }, at_once);
    if (rows % 8 != 0) tile_of_parts({{}, rows / 8}, rows % 8);
  });
}

double ElementMover::weave_cycles(const TileParts& parts, const Target& target) {
  constexpr double kWithWaits = 1.25;
  const TileArray whole{{}, {}, tiled_extents(parts.joins ? parts.to : parts.from)};
  if (!parts.of_rows) {
    return kWithWaits * static_cast<double>(whole.tiles() * parts.count) *
           target.xlu_interval_cycles;
  }
  const TileArray each{{}, {}, tiled_extents(parts.joins ? parts.from : parts.to)};
  const std::int64_t tiles_of_whole =
      whole.lane_tiles() == 1 ? 1
                              : std::min({parts.count, parts.extent, std::int64_t{isa::kSublanes}});
  return kWithWaits * static_cast<double>(each.tiles() * tiles_of_whole);
}

}  // namespace tpu::compiler
