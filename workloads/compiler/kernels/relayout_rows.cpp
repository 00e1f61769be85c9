#include <algorithm>
#include <optional>

#include "workloads/compiler/kernels/relayout_mover.h"

namespace tpu::compiler {

namespace {

/// Straight code for a tile of rows: pieces of lanes at most.
constexpr std::int64_t kMostPieces = 96;

/// Lanes [begin, begin + count) of a row of the flat array that stand in one lane tile of the deep
/// one.
struct Piece {
  std::int64_t begin = 0, count = 0;
  std::int64_t deep_row = 0;  ///< VMEM rows from the deep array's item to its tile row.
};

/// Two arrays of the same elements: of the flat one each row holds an item, of the deep one an item
/// fills whole tiles.
struct Split {
  std::int64_t items = 1;
  std::int64_t item_rows = 0;  ///< VMEM rows of an item in the deep array.
  std::vector<Piece> pieces;
};

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
  const std::int64_t lanes = item.back(), last_rows = item[last], row_tiles = (last_rows + 7) / 8;
  std::int64_t matrices = 1;
  for (std::size_t i = inner; i < last; ++i) matrices *= item[i];
  split.item_rows = 8 * matrices * row_tiles * deep.lane_tiles();
  const std::int64_t rows = matrices * last_rows;
  if (rows * lanes != flat.extents.back()) return std::nullopt;
  if (rows * deep.lane_tiles() > kMostPieces) return std::nullopt;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t matrix = row / last_rows, in_matrix = row % last_rows;
    const std::int64_t tile = matrix * row_tiles + in_matrix / 8;
    for (std::int64_t lane = 0; lane < lanes; lane += 128) {
      split.pieces.push_back({row * lanes + lane, std::min<std::int64_t>(128, lanes - lane),
                              (tile * deep.lane_tiles() + lane / 128) * 8 + in_matrix % 8});
    }
  }
  return split;
}

}  // namespace

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
    const auto mask = static_cast<std::uint8_t>((1U << count) - 1);
    const Index flat_tile = add(builder_, multiply(builder_, matrix, flat.row_tiles()), tile);
    const Index flat_row =
        add(builder_, flat.begin, multiply(builder_, flat_tile, 8 * flat.lane_tiles()));
    const Index item = add(builder_, multiply(builder_, matrix, rows), multiply(builder_, tile, 8));
    const Index deep_row = add(builder_, deep.begin, multiply(builder_, item, split.item_rows));
    const auto place = [&](const Piece& piece) {
      return at(deep.region, deep_row.plus(piece.deep_row))
          .stride(static_cast<std::int32_t>(split.item_rows))
          .mask(mask);
    };
    const auto flat_at = [&](std::int64_t lane_tile) {
      return at(flat.region, flat_row.plus(8 * lane_tile)).mask(mask);
    };
    if (!apart) {
      join_lanes(
          split.pieces.size(), flat.lane_tiles(), flat.extents.back(),
          [&](std::size_t i) {
            const Piece& piece = split.pieces[i];
            return LaneRange{piece.begin, piece.count};
          },
          [&](std::size_t i) { return builder_.load(place(split.pieces[i])); },
          [&](std::int64_t lane_tile, VReg value) { builder_.store(flat_at(lane_tile), value); });
      return;
    }
    for (const Piece& piece : split.pieces) {
      const std::int64_t first = piece.begin / 128, shift = piece.begin % 128;
      VReg value = builder_.load(flat_at(first));
      if (shift != 0) {
        value = builder_.rotate_lanes(value, static_cast<int>(128 - shift));
        if (shift + piece.count > 128) {
          const VReg next = builder_.rotate_lanes(builder_.load(flat_at(first + 1)),
                                                  static_cast<int>(128 - shift));
          value = builder_.select(lanes_between(0, 128 - shift), value, next);
        }
      }
      builder_.store(place(piece), value);
    }
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
