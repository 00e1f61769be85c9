#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"
#include "workloads/compiler/kernels/relayout/relayout_mover.h"

namespace tpu::compiler {

using isa::Opcode;

namespace {

/// Walks over the rows of an array in the order of its elements.
class RowWalk {
 public:
  RowWalk(KernelBuilder& builder, const TileArray& array)
      : builder_(builder),
        array_(array),
        row_(builder.scalar_variable(0)),
        major_(builder.scalar_variable(0)) {}

  /// VMEM row of the row's first lane tile.
  Index place() {
    const SReg row = builder_.get(row_);
    const Index tile =
        add(builder_, multiply(builder_, {builder_.get(major_), 0}, array_.row_tiles()),
            {builder_.shift_right(row, 3), 0});
    const Index first =
        add(builder_, array_.begin, multiply(builder_, tile, 8 * array_.lane_tiles()));
    return add(builder_, first, {builder_.and_(row, 7), 0});
  }
  void advance() {
    const SReg row = builder_.add(builder_.get(row_), 1);
    const PReg rows_end = builder_.less(array_.extents[array_.rank() - 2] - 1, row);
    builder_.set(row_, builder_.select(rows_end, 0, row));
    builder_.set(major_, builder_.add(builder_.get(major_), builder_.select(rows_end, 1, 0)));
  }

 private:
  KernelBuilder& builder_;
  const TileArray& array_;
  SVariable row_, major_;
};

std::int64_t elements_of(const TileArray& array) {
  std::int64_t elements = 1;
  for (std::int64_t extent : array.extents) elements *= extent;
  return elements;
}

/// Elements one behind the other.
bool is_linear(const TileArray& array) { return array.rank() == 2 && array.extents.back() == 128; }

/// Elements from one place where the array begins with a tile to the next: of eight rows, or of an
/// index of the outermost dimension.
std::int64_t elements_of_tiles(const TileArray& array) {
  return array.rank() == 2 ? 8 * array.extents.back() : elements_of(array) / array.extents.front();
}

/// So many elements behind `number` units, each of which begins with a tile.
TileArray part_of(KernelBuilder& builder, TileArray array, Index number, std::int64_t unit,
                  std::int64_t elements) {
  const std::int64_t of_index = elements_of(array) / array.extents.front();
  array.extents.front() = unit / of_index;
  array.begin = add(builder, array.begin, multiply(builder, number, 8 * array.tiles()));
  array.extents.front() = ceil_divide(elements, of_index);
  return array;
}

/// The array as matrices of rows of lanes, which are the same tiles.
TileArray as_matrices(TileArray array) {
  const std::size_t rank = array.rank();
  if (rank <= 3) return array;
  const std::int64_t rows = array.extents[rank - 2], lanes = array.extents[rank - 1];
  array.extents = {elements_of(array) / (rows * lanes), rows, lanes};
  return array;
}

}  // namespace

/// Matrices of rows become parts of longer ones, or longer ones such parts: a tile of the short
/// ones at a time. Where all lanes stand in one tile, the rows of a matrix follow each other in
/// VMEM, so that eight of them are loaded and stored wherever they begin.
bool ElementMover::reshape_matrices(const TileArray& source, const TileArray& target) {
  const auto rows_of = [](const TileArray& array) { return array.extents[array.rank() - 2]; };
  const bool parts = rows_of(source) > rows_of(target);
  const TileArray& longer = parts ? source : target;
  const TileArray& shorter = parts ? target : source;
  const std::int64_t rows = rows_of(shorter);
  if (longer.rank() > 3 || shorter.rank() != 3 || rows_of(longer) % rows != 0) return false;
  if (source.lane_tiles() != 1 || source.extents.back() != target.extents.back()) return false;
  const std::int64_t pieces = rows_of(longer) / rows;
  const auto one = [&](Index matrix, Index piece, Index tile, std::int64_t count) {
    const std::uint8_t mask = sublanes(0, count);
    const auto at_tile = [&](const TileArray& array, Index number, Index of) {
      return tile_of(array, array.rank() == 3 ? Position{number, {}} : Position{{}}, of);
    };
    const Index row = add(builder_, multiply(builder_, piece, rows), multiply(builder_, tile, 8));
    const Index number = add(builder_, multiply(builder_, matrix, pieces), piece);
    const VmemAddress in_longer =
        at(longer.region, add(builder_, at_tile(longer, matrix, {}), row)).mask(mask);
    const VmemAddress in_shorter = at(shorter.region, at_tile(shorter, number, tile)).mask(mask);
    builder_.store(parts ? in_shorter : in_longer, builder_.load(parts ? in_longer : in_shorter));
  };
  repeat(longer.rank() == 3 ? longer.extents[0] : 1, [&](Index matrix) {
    const auto move = [&](Index piece) {
      repeat(
          rows / 8, [&](Index tile) { one(matrix, piece, tile, 8); }, kTilesAtOnce);
      if (rows % 8 != 0) one(matrix, piece, {{}, rows / 8}, rows % 8);
    };
    repeat(pieces, move, std::max<std::int64_t>(1, 8 * kTilesAtOnce / (rows + 7)));
  });
  builder_.new_block();
  return true;
}

namespace {

/// Straight code for so many loads, each with a rotation and a store behind it.
constexpr std::size_t kMostPieceRows = 512;
constexpr std::size_t kPieceRowsOfABlock = 64;
/// Pieces that are looked at when the program is compiled.
constexpr std::size_t kMostLookedAt = 1U << 16;

/// Where an element stands in an array: VMEM rows from its begin, and the lane.
struct ElementPlace {
  std::int64_t row = 0, lane = 0;
  std::int64_t left = 0;  ///< Elements from here to the end of the row or of its tile.
};

ElementPlace element_place(const TileArray& array, std::int64_t element) {
  const std::int64_t lanes = array.extents.back(), rows = array.extents[array.rank() - 2];
  const std::int64_t lane = element % lanes, row = element / lanes % rows;
  const std::int64_t matrix = element / lanes / rows;
  const std::int64_t tile =
      (matrix * array.row_tiles() + row / 8) * array.lane_tiles() + lane / 128;
  return {8 * tile + row % 8, lane % 128, std::min<std::int64_t>(128 - lane % 128, lanes - lane)};
}

}  // namespace

struct ElementMover::PieceRows {
  std::int64_t from_row = 0, to_row = 0, count = 1;
  std::int64_t from_step = 0, to_step = 0;  ///< From one row to the next, where there are several.
  std::int64_t from_lane = 0, to_lane = 0, end_lane = 0;

  /// Takes the piece as one more row, where it stands as far behind as the others.
  bool extend(std::int64_t from, std::int64_t to) {
    const std::int64_t from_distance = from - from_row - (count - 1) * from_step;
    const std::int64_t to_distance = to - to_row - (count - 1) * to_step;
    if (count == 1) {
      from_step = from_distance;
      to_step = to_distance;
    } else if (from_distance != from_step || to_distance != to_step) {
      return false;
    }
    ++count;
    return true;
  }
};

std::optional<ElementMover::Pieces> ElementMover::pieces_between(const TileArray& source,
                                                                 const TileArray& target) {
  const std::int64_t elements = std::min(elements_of(source), elements_of(target));
  Pieces pieces;
  std::size_t looked_at = 0, all = 0;
  for (std::int64_t element = 0; element < elements;) {
    const ElementPlace from = element_place(source, element), to = element_place(target, element);
    const std::int64_t count = std::min({from.left, to.left, elements - element});
    // What stands behind the end of a row is nobody's.
    const bool ends_row = (element + count) % target.extents.back() == 0;
    const std::int64_t end = ends_row ? 128 : to.lane + count;
    std::vector<PieceRows>& alike = pieces[{from.lane, to.lane, end}];
    if (alike.empty() || !alike.back().extend(from.row, to.row)) {
      alike.push_back({from.row, to.row, 1, 0, 0, from.lane, to.lane, end});
      if (++all > kMostPieceRows) return std::nullopt;
    }
    if (++looked_at > kMostLookedAt) return std::nullopt;
    element += count;
  }
  return pieces;
}

void ElementMover::copy_pieces(const Pieces& pieces, const TileArray& source,
                               const TileArray& target) {
  std::size_t made = 0;
  for (const auto& [lanes, alike] : pieces) {
    for (const PieceRows& rows : alike) {
      copy_rows_of(rows, source, target);
      if (++made % kPieceRowsOfABlock == 0) builder_.new_block();
    }
  }
}

bool ElementMover::copy_pieces(const TileArray& source, const TileArray& target) {
  if (const std::optional<Pieces> all = pieces_between(source, target)) {
    copy_pieces(*all, source, target);
    builder_.new_block();
    return true;
  }
  const TileArray from = as_matrices(source), to = as_matrices(target);
  const std::int64_t unit = std::lcm(elements_of_tiles(from), elements_of_tiles(to));
  const std::int64_t elements = std::min(elements_of(from), elements_of(to));
  const std::int64_t count = elements / unit, left = elements % unit;
  if (count < 2) return false;
  const auto part = [&](const TileArray& array, Index number, std::int64_t of) {
    return part_of(builder_, array, number, unit, of);
  };
  const auto between = [&](std::int64_t of) {
    return pieces_between(part(from, {}, of), part(to, {}, of));
  };
  const std::optional<Pieces> each = between(unit), rest = between(left);
  if (!each || !rest) return false;
  const std::size_t at_once =
      kPieceRowsOfABlock / std::max<std::size_t>(1, std::min(each->size(), kPieceRowsOfABlock));
  const auto one = [&](Index number) {
    copy_pieces(*each, part(from, number, unit), part(to, number, unit));
  };
  builder_.new_block();
  repeat(count, one, static_cast<std::int64_t>(at_once));
  builder_.new_block();
  if (left > 0) {
    copy_pieces(*rest, part(from, {{}, count}, left), part(to, {{}, count}, left));
    builder_.new_block();
  }
  return true;
}

void ElementMover::copy_rows_of(const PieceRows& rows, const TileArray& source,
                                const TileArray& target) {
  const auto one = [&](Index first, std::int64_t count) {
    const auto place = [&](const TileArray& array, std::int64_t row, std::int64_t step) {
      const Index begin = add(builder_, array.begin, multiply(builder_, first, step)).plus(row);
      return at(array.region, begin)
          .stride(static_cast<std::int32_t>(count == 1 ? 1 : step))
          .mask(sublanes(0, count));
    };
    VReg value = builder_.load(place(source, rows.from_row, rows.from_step));
    const std::int64_t shift = (rows.to_lane - rows.from_lane + 128) % 128;
    if (shift != 0) value = builder_.rotate_lanes(value, static_cast<int>(shift));
    const MReg mask = lanes_between(rows.to_lane, rows.end_lane);
    const VmemAddress there = place(target, rows.to_row, rows.to_step);
    mask ? builder_.store(there, mask, value) : builder_.store(there, value);
  };
  repeat(
      rows.count / 8, [&](Index tile) { one(multiply(builder_, tile, 8), 8); }, kTilesAtOnce / 2);
  if (rows.count % 8 != 0) one({{}, rows.count / 8 * 8}, rows.count % 8);
}

double ElementMover::reshape_cycles(const TileArray& source, const TileArray& target) {
  constexpr double kTile = 1.5, kRow = 9, kPiece = 8, kCutRow = 13, kCutTile = 6, kAppendedRow = 16;
  const auto rows = [](const TileArray& array) {
    const std::int64_t lanes = array.extents.back();
    const std::int64_t all = elements_of(array) / lanes;
    return static_cast<double>(all * ceil_divide(array.lane_tiles(), std::int64_t{8}));
  };
  if (source.extents.back() == target.extents.back()) {
    // Matrices go in tiles, those of long rows in columns of 128 lanes.
    const auto in_tiles = [](const TileArray& array) {
      return array.rank() == 2 || array.extents[array.rank() - 2] % 8 == 0;
    };
    return in_tiles(source) || in_tiles(target)
               ? kTile * static_cast<double>(std::max(source.tiles(), target.tiles()))
               : kRow * rows(source);
  }
  if (const std::optional<double> split = split_cycles(source, target)) return *split;
  if (const std::optional<Pieces> pieces = pieces_between(source, target)) {
    std::int64_t registers = 0;
    for (const auto& [lanes, alike] : *pieces) {
      for (const PieceRows& rows : alike) registers += ceil_divide(rows.count, std::int64_t{8});
    }
    return kPiece * static_cast<double>(registers);
  }
  const auto cut = [&](const TileArray& array) {
    return (array.extents.back() % 128 == 0 ? kCutTile : kCutRow) * rows(array);
  };
  const auto append = [&](const TileArray& array) {
    return (array.extents.back() % 128 == 0 ? kCutTile : kAppendedRow) * rows(array);
  };
  return (is_linear(source) ? 0 : append(source)) + (is_linear(target) ? 0 : cut(target));
}

void ElementMover::reshape(const TileArray& source, const TileArray& target) {
  if (reshape_matrices(source, target)) return;
  // An array in rows of lanes goes on to the end of its last tile, the other one does not.
  const std::int64_t elements = std::min(elements_of(source), elements_of(target));
  const std::int64_t lanes = source.extents.back();
  if (lanes == target.extents.back()) return copy_rows_in_order(source, target, elements / lanes);
  if (reshape_rows(source, target) || copy_pieces(source, target)) return;
  if (reshape_linear(source, target)) return;
  const TileArray between{scratch_, {}, {scratch_.rows, 128}};
  const bool moved = reshape_linear(source, between) && reshape_linear(between, target);
  TPU_CHECK(moved, "rows of 128 lanes become any others");
}

std::int64_t ElementMover::reshape_scratch(const TileArray& source, const TileArray& target) {
  const bool has_way = source.extents.back() == target.extents.back() || is_linear(source) ||
                       is_linear(target) || split_cycles(source, target);
  if (has_way) return 0;
  // Up to eight rows behind the last one are loaded or stored for none of their lanes.
  return round_up(ceil_divide(elements_of(source), std::int64_t{128}) + 8, std::int64_t{8});
}

ItemPlace item_place(KernelBuilder& builder, Index item, std::int64_t lanes, Index before) {
  if (lanes % 128 == 0) return {multiply(builder, item, lanes / 128), {}};
  const Index first = add(builder, before, multiply(builder, item, lanes));
  return {divide_by_power_of_two(builder, first, 7), modulo_power_of_two(builder, first, 7)};
}

LaneSeam ElementMover::seam_at(Index lane) {
  const SReg left = builder_.sub(128, to_operand(builder_, lane));
  const VReg lanes = builder_.and_(builder_.lane_sequence(), 127);
  return {builder_.and_(left, 127),
          builder_.vector_compare(Opcode::kVcmpLtS32, lanes, builder_.splat(left))};
}

VReg ElementMover::across(const LaneSeam& seam, VReg here, VReg next) {
  return builder_.select(seam.below, builder_.rotate_lanes(here, seam.turn),
                         builder_.rotate_lanes(next, seam.turn));
}

bool ElementMover::reshape_linear(const TileArray& source, const TileArray& target) {
  const bool cuts = is_linear(source);
  if (!cuts && !is_linear(target)) return false;
  const TileArray rows = as_matrices(cuts ? target : source);
  const std::int64_t of_matrix = rows.extents[rows.rank() - 2];
  const auto one = [&](Index matrix, Index row) {
    const Index item = add(builder_, multiply(builder_, matrix, of_matrix), row);
    const Index place = row_of(rows, rows.rank() == 3 ? Position{matrix, row} : Position{row});
    cuts ? cut_row(source, rows, item, place) : append_row(rows, target, place, item);
  };
  const std::int64_t at_once =
      std::max<std::int64_t>(1, kTilesAtOnce / ceil_divide(rows.lane_tiles(), std::int64_t{8}));
  repeat(rows.rank() == 3 ? rows.extents[0] : 1, [&](Index matrix) {
    repeat(
        of_matrix, [&](Index row) { one(matrix, row); }, at_once);
  });
  builder_.new_block();
  return true;
}

void ElementMover::reshape_line(const TileArray& source, const TileArray& target) {
  TPU_CHECK(reshape_linear(source, target), "a line on either side");
}

/// Behind the last row there may be one that is loaded for none of its lanes.
void ElementMover::cut_row(const TileArray& linear, const TileArray& rows, Index item, Index row) {
  const ItemPlace from = item_place(builder_, item, rows.extents.back(), linear.first);
  const Index first = add(builder_, linear.begin, from.tile);
  LaneSeam seam;
  if (!from.begins_tile()) seam = seam_at(from.lane);
  for (std::int64_t tile = 0; tile < rows.lane_tiles(); tile += 8) {
    const std::uint8_t mask = sublanes(0, std::min<std::int64_t>(8, rows.lane_tiles() - tile));
    VReg value = builder_.load(at(linear.region, first.plus(tile)).mask(mask));
    if (!from.begins_tile()) {
      const VReg next = builder_.load(at(linear.region, first.plus(tile + 1)).mask(mask));
      value = across(seam, value, next);
    }
    builder_.store(at(rows.region, row.plus(8 * tile)).stride(8).mask(mask), value);
  }
}

void ElementMover::append_row(const TileArray& rows, const TileArray& linear, Index row,
                              Index item) {
  const ItemPlace to = item_place(builder_, item, rows.extents.back(), linear.first);
  const Index first = add(builder_, linear.begin, to.tile);
  for (std::int64_t tile = 0; tile < rows.lane_tiles(); tile += 8) {
    const std::uint8_t mask = sublanes(0, std::min<std::int64_t>(8, rows.lane_tiles() - tile));
    const VReg value = builder_.load(at(rows.region, row.plus(8 * tile)).stride(8).mask(mask));
    const VmemAddress here = at(linear.region, first.plus(tile)).mask(mask);
    if (to.begins_tile()) {
      builder_.store(here, value);
      continue;
    }
    // Elements from the tile's first one on; those that are turned past the last lane stand a row
    // below.
    const int left = static_cast<int>(rows.extents.back() - 128 * tile);
    const SReg shift = builder_.add(to_operand(builder_, to.lane), 0);
    const VReg turned = builder_.rotate_lanes(value, shift);
    const VReg apart = builder_.splat(shift);
    const VReg lane = builder_.and_(builder_.lane_sequence(), 127);
    const VReg element = builder_.vector(Opcode::kVsubS32, builder_.lane_sequence(), apart);
    const auto both = [&](Opcode side, int end) {
      return builder_.mask(Opcode::kVmand, builder_.vector_compare(side, lane, apart),
                           builder_.vector_compare(Opcode::kVcmpLtS32, element, end));
    };
    builder_.store(here, both(Opcode::kVcmpGeS32, left), turned);
    builder_.store(at(linear.region, first.plus(tile + 1)).mask(mask),
                   both(Opcode::kVcmpLtS32, left - 128), turned);
  }
}

void ElementMover::move_linear(const TileArray& source, const TileArray& target, std::int64_t from,
                               std::int64_t to, std::int64_t count) {
  const std::int64_t rows_apart = floor_divide(from - to, 128);
  const std::int64_t lanes_apart = from - to - 128 * rows_apart;
  const std::int64_t end = to + count;
  const auto one = [&](Index row, std::int64_t rows, std::int64_t first_lane,
                       std::int64_t end_lane) {
    const std::uint8_t mask = sublanes(0, rows);
    const auto load = [&](int next) {
      const Index from_row = add(builder_, source.begin, row.plus(rows_apart + next));
      return builder_.load(at(source.region, from_row).mask(mask));
    };
    shift_tile(lanes_apart, first_lane, end_lane, load, [&](MReg lanes, VReg value) {
      const VmemAddress place = at(target.region, add(builder_, target.begin, row)).mask(mask);
      lanes ? builder_.store(place, lanes, value) : builder_.store(place, value);
    });
  };
  std::int64_t row = to / 128;
  if (to % 128 != 0) {
    one({{}, row}, 1, to % 128, std::min<std::int64_t>(128, end - 128 * row));
    ++row;
  }
  const std::int64_t whole = end / 128 - row;
  if (whole > 0) {
    const Index first{{}, row};
    repeat(
        whole / 8,
        [&](Index tile) { one(add(builder_, first, multiply(builder_, tile, 8)), 8, 0, 128); },
        kTilesAtOnce);
    if (whole % 8 != 0) one({{}, row + whole / 8 * 8}, whole % 8, 0, 128);
    row += whole;
  }
  if (128 * row < end) one({{}, row}, 1, 0, end - 128 * row);
}

void ElementMover::copy_rows_in_order(const TileArray& source, const TileArray& target,
                                      std::int64_t count) {
  RowWalk here(builder_, source), there(builder_, target);
  const auto one = [&] {
    const Index from = here.place(), to = there.place();
    for (std::int64_t tile = 0; tile < source.lane_tiles(); tile += 8) {
      const std::uint8_t mask = sublanes(0, std::min<std::int64_t>(8, source.lane_tiles() - tile));
      const VReg value = builder_.load(at(source.region, from.plus(8 * tile)).stride(8).mask(mask));
      builder_.store(at(target.region, to.plus(8 * tile)).stride(8).mask(mask), value);
    }
    here.advance();
    there.advance();
  };
  repeat(count / 4, [&](Index) {
    for (int i = 0; i < 4; ++i) one();
  });
  builder_.new_block();
  repeat(count % 4, [&](Index) { one(); });
  builder_.new_block();
}

}  // namespace tpu::compiler
