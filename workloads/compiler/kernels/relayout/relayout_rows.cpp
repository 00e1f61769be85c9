#include <algorithm>
#include <numeric>
#include <optional>

#include "sim/base/ceil_divide.h"
#include "workloads/compiler/kernels/relayout/relayout_mover.h"

namespace tpu::compiler {

using isa::Opcode;

namespace {

/// Straight code for a group of rows: pieces of lanes at most. Rows of an odd number of lanes meet
/// a border of 128 lanes again after 128 of them.
constexpr std::int64_t kMostPieces = 128;

/// Two arrays of the same elements: of the flat one each row holds an item, of the deep one an item
/// fills whole tiles. An item is one group of the deep array's rows, or several alike and a rest.
struct Split {
  std::int64_t items = 1;
  std::int64_t item_rows = 0;  ///< VMEM rows of an item in the deep array.
  std::int64_t groups = 1;
  std::int64_t group_lanes = 0;  ///< Of the flat array.
  std::int64_t group_rows = 0;   ///< VMEM rows of a group in the deep array.
  std::vector<RowPiece> pieces, rest;
};

/// Pieces of so many rows of an item's matrices.
std::vector<RowPiece> pieces_of(std::int64_t rows, std::int64_t rows_of_matrix,
                                std::int64_t lanes) {
  const std::int64_t row_tiles = ceil_divide(rows_of_matrix, 8),
                     lane_tiles = ceil_divide(lanes, 128);
  std::vector<RowPiece> pieces;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t matrix = row / rows_of_matrix, in_matrix = row % rows_of_matrix;
    const std::int64_t tile = matrix * row_tiles + in_matrix / 8;
    for (std::int64_t lane = 0; lane < lanes; lane += 128) {
      pieces.push_back({row * lanes + lane, std::min<std::int64_t>(128, lanes - lane),
                        (tile * lane_tiles + lane / 128) * 8 + in_matrix % 8});
    }
  }
  return pieces;
}

/// Whole tiles of rows in a group: to where rows begin with a tile of the flat array, or as many as
/// there may be; 0: there are none.
std::int64_t rows_of_group(std::int64_t lanes) {
  const std::int64_t lane_tiles = ceil_divide(lanes, 128);
  const std::int64_t aligned =
      std::lcm(std::lcm(lanes, std::int64_t{128}) / lanes, std::int64_t{8});
  return aligned * lane_tiles <= kMostPieces ? aligned : kMostPieces / lane_tiles / 8 * 8;
}

std::optional<Split> split_of(const TileArray& flat, const TileArray& deep) {
  Split split;
  for (std::size_t i = 0; i + 1 < flat.rank(); ++i) split.items *= flat.extents[i];
  // The deep array's dimensions of an item: one of them may be merged with the items above.
  std::vector<std::int64_t> item = deep.extents;
  const std::size_t last = deep.rank() - 2;
  std::size_t inner = 0;
  for (std::int64_t left = split.items; left > 1; ++inner) {
    if (inner > last) return std::nullopt;
    if (left % item[inner] == 0) {
      left /= item[inner];
      continue;
    }
    if (item[inner] % left != 0) return std::nullopt;
    item[inner] /= left;
    if (inner == last && item[inner] % 8 != 0) return std::nullopt;
    break;
  }
  if (inner > last) return std::nullopt;
  const std::int64_t lanes = item.back(), last_rows = item[last], lane_tiles = deep.lane_tiles();
  std::int64_t matrices = 1;
  for (std::size_t i = inner; i < last; ++i) matrices *= item[i];
  split.item_rows = 8 * matrices * ceil_divide(last_rows, 8) * lane_tiles;
  const std::int64_t rows = matrices * last_rows;
  if (rows * lanes != flat.extents.back()) return std::nullopt;
  if (rows * lane_tiles <= kMostPieces) {
    split.pieces = pieces_of(rows, last_rows, lanes);
    split.group_lanes = rows * lanes;
    split.group_rows = split.item_rows;
    return split;
  }
  // Tiles of rows follow each other, whatever matrix they are of, or each matrix is a group.
  const bool rows_follow = last_rows % 8 == 0 || matrices == 1;
  const std::int64_t group = rows_follow ? rows_of_group(lanes) : last_rows;
  if (group == 0 || group * lane_tiles > kMostPieces) return std::nullopt;
  split.groups = rows / group;
  split.group_lanes = group * lanes;
  split.group_rows = 8 * ceil_divide(group, 8) * lane_tiles;
  split.pieces = pieces_of(group, group, lanes);
  split.rest = pieces_of(rows % group, group, lanes);
  return split;
}

}  // namespace

/// What reshape_rows() moves at a time: pieces of a group of up to eight items, which are as many
/// rows of a tile of the flat array, and stand `item_rows` apart in the deep one.
struct ElementMover::RowGroup {
  const std::vector<RowPiece>& pieces;
  std::int64_t lanes;  ///< Of the flat array, in all.
  VmemRegion flat, deep;
  Index flat_row;  ///< VMEM row of the flat array's first lane tile.
  Index deep_row;  ///< Of the group's first row.
  std::int64_t item_rows;
  std::uint8_t mask;  ///< Rows of the flat tile that are items.
  std::int64_t lane_tiles;
  /// Where the group begins in the flat array: a tile, and the lane in it.
  Index first_tile, shift;

  VmemAddress flat_at(KernelBuilder& builder, Index lane_tile) const {
    return at(flat, add(builder, flat_row, multiply(builder, lane_tile, 8))).mask(mask);
  }
  VmemAddress deep_at(const RowPiece& piece) const {
    return at(deep, deep_row.plus(piece.deep_row))
        .stride(static_cast<std::int32_t>(item_rows))
        .mask(mask);
  }
  /// Of the flat array: the next one, or the last again.
  Index next(KernelBuilder& builder, Index lane_tile) const {
    const ScalarOperand behind = to_operand(builder, lane_tile.plus(1));
    const int last = static_cast<int>(lane_tiles - 1);
    return {builder.select(builder.less(behind, last), behind, last), 0};
  }
};

void ElementMover::split_row_group(const RowGroup& group) {
  // Lanes of the flat array from the group's tile `number` on, where they begin with one.
  const std::int64_t begin = group.shift.is_constant() ? group.shift.offset : 0;
  LaneSeam seam;
  if (!group.shift.is_constant()) seam = seam_at(group.shift);
  std::int64_t known = -1;
  VReg lanes;
  const auto tile = [&](std::int64_t number) {
    const Index place = group.first_tile.plus(number);
    if (group.shift.is_constant()) return builder_.load(group.flat_at(builder_, place));
    if (known == number) return lanes;
    known = number;
    const VReg here = builder_.load(group.flat_at(builder_, place));
    const VReg behind = builder_.load(group.flat_at(builder_, group.next(builder_, place)));
    lanes = across(seam, here, behind);
    return lanes;
  };
  for (const RowPiece& piece : group.pieces) {
    const std::int64_t first = (begin + piece.begin) / 128, lane = (begin + piece.begin) % 128;
    VReg value = tile(first);
    if (lane != 0) {
      const int turn = static_cast<int>(128 - lane);
      value = builder_.rotate_lanes(value, turn);
      if (lane + piece.count > 128) {
        const VReg next = builder_.rotate_lanes(tile(first + 1), turn);
        value = builder_.select(lanes_between(0, 128 - lane), value, next);
      }
    }
    builder_.store(group.deep_at(piece), value);
  }
}

void ElementMover::join_row_group(const RowGroup& group) {
  const std::int64_t begin = group.shift.is_constant() ? group.shift.offset : 0;
  const std::int64_t end = begin + group.lanes;
  const auto store = [&](std::int64_t number, VReg value) {
    const Index place = group.first_tile.plus(number);
    if (group.shift.is_constant()) {
      const MReg lanes = lanes_between(number == 0 ? begin : 0, 128);
      const VmemAddress there = group.flat_at(builder_, place);
      lanes ? builder_.store(there, lanes, value) : builder_.store(there, value);
      return;
    }
    // In this tile from lane `shift` on, in the next one what is left.
    const int count = static_cast<int>(std::min<std::int64_t>(128, end - 128 * number));
    const SReg first = builder_.add(to_operand(builder_, group.shift), 0);
    const VReg turned = builder_.rotate_lanes(value, first);
    const VReg lane = builder_.vector(
        Opcode::kVsubS32, builder_.and_(builder_.lane_sequence(), 127), builder_.splat(first));
    const MReg above = builder_.vector_compare(Opcode::kVcmpGeS32, lane, 0);
    const MReg within = builder_.vector_compare(Opcode::kVcmpLtS32, lane, count);
    builder_.store(group.flat_at(builder_, place), builder_.mask(Opcode::kVmand, above, within),
                   turned);
    builder_.store(group.flat_at(builder_, group.next(builder_, place)),
                   builder_.vector_compare(Opcode::kVcmpLtS32, lane, count - 128), turned);
  };
  join_lanes(
      group.pieces.size(), ceil_divide(end, std::int64_t{128}), end,
      [&](std::size_t i) {
        return LaneRange{begin + group.pieces[i].begin, group.pieces[i].count};
      },
      [&](std::size_t i) { return builder_.load(group.deep_at(group.pieces[i])); }, store);
}

std::optional<double> ElementMover::split_cycles(const TileArray& source, const TileArray& target) {
  // Where a group begins at any lane its first and last tiles have masks made for them.
  constexpr double kPiece = 8, kGroup = 70, kShiftedPiece = 50;
  const std::optional<Split> apart = split_of(source, target);
  const std::optional<Split> split = apart ? apart : split_of(target, source);
  if (!split) return std::nullopt;
  const TileArray& flat = apart ? source : target;
  const std::int64_t rows = flat.extents[flat.rank() - 2];
  const std::int64_t matrices = split->items / rows;
  const auto tiles = static_cast<double>(matrices * ceil_divide(rows, std::int64_t{8}));
  const auto groups = static_cast<double>(split->groups),
             pieces = static_cast<double>(split->pieces.size());
  const bool shifted = split->groups > 1 && split->group_lanes % isa::kLanes != 0;
  const double rest =
      split->rest.empty() ? 0 : kGroup + kPiece * static_cast<double>(split->rest.size());
  const double group = shifted ? kShiftedPiece * pieces : kGroup + kPiece * pieces;
  return tiles * (groups * group + rest);
}

bool ElementMover::reshape_rows(const TileArray& source, const TileArray& target) {
  const std::optional<Split> apart = split_of(source, target);
  const std::optional<Split> together = apart ? std::nullopt : split_of(target, source);
  if (!apart && !together) return false;
  const TileArray& flat = apart ? source : target;
  const TileArray& deep = apart ? target : source;
  const Split& split = apart ? *apart : *together;
  const std::int64_t rows = flat.extents[flat.rank() - 2], matrices = split.items / rows;
  // Eight items at a time, or what is left of them in the last tile of a matrix.
  const auto one = [&](Index matrix, Index tile, std::int64_t count) {
    const Index flat_tile = add(builder_, multiply(builder_, matrix, flat.row_tiles()), tile);
    const Index item = add(builder_, multiply(builder_, matrix, rows), multiply(builder_, tile, 8));
    const Index deep_row = add(builder_, deep.begin, multiply(builder_, item, split.item_rows));
    const auto move = [&](Index number, const std::vector<RowPiece>& pieces, std::int64_t lanes) {
      const ItemPlace place = item_place(builder_, number, split.group_lanes);
      const RowGroup group{
          pieces,
          lanes,
          flat.region,
          deep.region,
          add(builder_, flat.begin, multiply(builder_, flat_tile, 8 * flat.lane_tiles())),
          add(builder_, deep_row, multiply(builder_, number, split.group_rows)),
          split.item_rows,
          sublanes(0, count),
          flat.lane_tiles(),
          place.tile,
          place.lane};
      apart ? split_row_group(group) : join_row_group(group);
    };
    const auto pieces = static_cast<std::int64_t>(split.pieces.size());
    repeat(
        split.groups, [&](Index number) { move(number, split.pieces, split.group_lanes); },
        std::max<std::int64_t>(1, 2 * kTilesAtOnce / pieces));
    if (split.rest.empty()) return;
    const std::int64_t moved = split.groups * split.group_lanes;
    move({{}, split.groups}, split.rest, flat.extents.back() - moved);
  };
  repeat(matrices, [&](Index matrix) {
    repeat(rows / 8, [&](Index tile) { one(matrix, tile, 8); });
    if (rows % 8 != 0) one(matrix, {{}, rows / 8}, rows % 8);
  });
  builder_.new_block();
  return true;
}

/// Puts pieces of lanes one behind the other: `load` gives a piece in the lanes from 0 on.
void ElementMover::join_lanes(std::size_t pieces, std::int64_t lane_tiles, std::int64_t lanes,
                              const std::function<LaneRange(std::size_t)>& range,
                              const std::function<VReg(std::size_t)>& load,
                              const std::function<void(std::int64_t, VReg)>& store) {
  std::size_t next = 0;
  for (std::int64_t tile = 0; tile < lane_tiles; ++tile) {
    const std::int64_t begin = 128 * tile, end = std::min(lanes, begin + 128);
    VReg value;
    for (std::size_t i = next; i < pieces; ++i) {
      const LaneRange piece = range(i);
      if (piece.begin >= end) break;
      const std::int64_t shift = piece.begin - begin;
      VReg moved = load(i);
      if (shift != 0) moved = builder_.rotate_lanes(moved, static_cast<int>((shift + 128) % 128));
      value = value ? builder_.select(lanes_between(std::max<std::int64_t>(0, shift), 128), moved,
                                      value)
                    : moved;
      // A piece that goes on in the next tile is loaded there once more.
      if (piece.begin + piece.count <= end) next = i + 1;
    }
    store(tile, value);
  }
}

}  // namespace tpu::compiler
