#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "sim/base/ceil_divide.h"
#include "workloads/compiler/codegen/kernel_builder.h"
#include "workloads/compiler/ir/tile_parts.h"
#include "workloads/compiler/kernels/elementwise/elementwise_memory.h"
#include "workloads/compiler/kernels/relayout/relayout_boxes.h"

namespace tpu::compiler {

/// An array in VMEM, in tiles of 8 rows and 128 lanes: of 32-bit elements, or packed.
struct TileArray {
  VmemRegion region;
  Index begin;                        ///< VMEM rows from the region's begin.
  std::vector<std::int64_t> extents;  ///< Physical order, major to minor; two or more.
  Index first = {};  ///< Of rows of 128 lanes: elements in front of the array's own.

  std::size_t rank() const { return extents.size(); }
  /// Of packed bf16 tiles, which take four VMEM rows: how they are loaded and stored. Only blocks
  /// of whole tiles move in and out of such arrays, and boxes that keep all rows in their places.
  TileMemory* packed = nullptr;

  std::int64_t tile_rows() const { return packed != nullptr ? 4 : 8; }
  std::int64_t row_tiles() const { return ceil_divide(extents[rank() - 2], 8); }
  std::int64_t lane_tiles() const { return ceil_divide(extents.back(), 128); }
  std::int64_t tiles() const;
  /// VMEM rows from one index of a dimension above the rows to the next; of the dimension of rows,
  /// from a tile to the next.
  std::int64_t rows_apart(std::size_t dimension) const;
};

/// Lanes [begin, begin + count) of a row of one array, counted from where a group of rows of
/// another one begins in it, that stand in one lane tile of that.
struct RowPiece {
  std::int64_t begin = 0, count = 0;
  std::int64_t deep_row = 0;  ///< VMEM rows from the group's begin in the other array.
};

/// Where an item begins in rows of 128 lanes, or in the lane tiles of one long row: there are so
/// many lanes of each, one behind the other.
struct ItemPlace {
  Index tile, lane;
  bool begins_tile() const { return lane.is_constant() && lane.offset == 0; }
};
ItemPlace item_place(KernelBuilder& builder, Index item, std::int64_t lanes, Index first = {});

/// Where two registers are joined that hold 128 lanes each, one behind the other: the lanes of the
/// result begin at a lane of the first one.
struct LaneSeam {
  SReg turn;
  MReg below;  ///< Lanes of the result that the first register has.
};

/// Moves elements between arrays in VMEM: rows of lanes as they are, shifted by a rotation and a
/// mask, or turned into columns by the transpose unit. There is a way for each case; not every one
/// keeps up with the HBM.
class ElementMover {
 public:
  explicit ElementMover(KernelBuilder& builder) : builder_(builder) {}

  void fill(const TileArray& array, std::uint32_t word);
  /// bf16 tiles (of four VMEM rows) as fp32 tiles, and back.
  void unpack(TileMemory& memory, VmemRegion packed, Index begin, const TileArray& array);
  void pack(TileMemory& memory, const TileArray& array, VmemRegion packed, Index begin);

  /// Copies a box; its dimensions are those of both arrays. Along the minor one steps are 1, or -1:
  /// lanes are turned by a permutation, eight rows by the stride of the load.
  void move_box(TileArray source, TileArray target, Box box);
  /// Target dimension i is source dimension permutation[i].
  void transpose(const TileArray& source, const TileArray& target,
                 const std::vector<std::size_t>& permutation);
  /// Cycles of that, measured on this kernel.
  static double transpose_cycles(const TileArray& source, const TileArray& target,
                                 const std::vector<std::size_t>& permutation);
  /// Between lanes of parts, along a dimension above the rows, and lanes that have an element of
  /// each part in turns: a permutation for each part of a register of these. The side without parts
  /// has the dimension, too, with extent 1. Where one side is a vector the parts are the rows of
  /// one tile, eight lane tiles at a time. Rows in turns are loaded or stored with a distance.
  void weave(const TileArray& source, const TileArray& target, const TileParts& lanes);
  /// Cycles of that.
  static double weave_cycles(const TileParts& parts, const Target& target);
  /// The same elements in the same order. Where a row of lanes of one side is a number of rows of
  /// the other, eight rows at a time; small ones piece by piece of what both have in one row; else
  /// by way of rows of 128 lanes, which are the elements one behind the other, in scratch.
  void reshape(const TileArray& source, const TileArray& target);
  /// Cycles of that, of its ways one by one measured on this kernel.
  static double reshape_cycles(const TileArray& source, const TileArray& target);
  /// VMEM rows of scratch for that.
  static std::int64_t reshape_scratch(const TileArray& source, const TileArray& target);
  void use_scratch(VmemRegion region) { scratch_ = region; }
  /// `count` elements of an array of one dimension (rows of 128 lanes), from one place to another:
  /// eight rows of the target at a time.
  /// Rows of lanes, and the part of a vector that has their elements, behind its first ones.
  void reshape_line(const TileArray& source, const TileArray& target);
  void move_linear(const TileArray& source, const TileArray& target, std::int64_t from,
                   std::int64_t to, std::int64_t count);

 private:
  /// Indices into all dimensions but the minor one.
  using Position = std::vector<Index>;
  /// Loads a register for a lane tile of the source; stores one for a lane tile of the target.
  using Load = std::function<VReg(Index lane_tile)>;
  using Store = std::function<void(Index lane_tile, MReg lanes, VReg value)>;
  /// What transpose() does for one block of 128 by 128 elements.
  struct TransposeBlock {
    std::size_t row_dimension = 0;   ///< Source dimension that becomes the target's lanes.
    std::size_t lane_dimension = 0;  ///< Target dimension that the source's lanes become.
    Index row_block, lane_block;     ///< In units of 128.
    std::int64_t rows = 128, lanes = 128;
    /// Columns that the transpose unit makes rows of.
    std::int64_t width() const { return round_up(lanes, 8); }
  };

  /// VMEM row of a row of lanes, in its first lane tile.
  Index row_of(const TileArray& array, const Position& position);
  /// VMEM row of the tile that is row tile `tile` of these majors.
  Index tile_of(const TileArray& array, const Position& majors, Index tile);
  /// A loop; of a longer body, `at_once` of it are one piece of straight code.
  void repeat(std::int64_t count, const std::function<void(Index)>& body, std::int64_t at_once = 1);
  /// Loops inside of each other, from `level` on; `at_once` bodies are one piece of straight code.
  void nest(const std::vector<std::int64_t>& counts, std::size_t level, Position& position,
            const std::function<void()>& body, std::int64_t at_once = 1);
  void move_row_tiles(const TileArray& source, const TileArray& target, const Position& from,
                      const Position& to, const Box& box);
  void move_lanes(const Box::Dimension& lanes, const Load& load, const Store& store);
  void shift_tile(std::int64_t lanes_apart, std::int64_t first_lane, std::int64_t end_lane,
                  const std::function<VReg(int)>& load,
                  const std::function<void(MReg, VReg)>& store);
  void turn_tile(std::int64_t seam, std::int64_t first_lane, std::int64_t end_lane,
                 const std::function<VReg(int)>& load,
                 const std::function<void(MReg, VReg)>& store);
  static std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
    return a >= 0 ? a / b : -((b - 1 - a) / b);
  }
  static std::uint8_t sublanes(std::int64_t first, std::int64_t end);
  MReg lanes_between(std::int64_t first, std::int64_t end);
  void copy_rows(const TileArray& source, const TileArray& target,
                 const std::vector<std::size_t>& permutation);
  void transpose_blocks(const TileArray& source, const TileArray& target,
                        const std::vector<std::size_t>& permutation, const TransposeBlock& first,
                        std::int64_t row_blocks, std::int64_t lane_blocks);
  Index first_row(const TileArray& array, const Position& position, std::size_t dimension,
                  Index block);
  void push_block(const TileArray& source, const Position& from, const TransposeBlock& block);
  void pop_block(const TileArray& target, const Position& to, const TransposeBlock& block);

  struct Weave;
  /// Registers of parts and those that have their elements in turns.
  struct WovenTiles {
    Index row, lane_tile;    ///< Of rows of tiles, and of the parts' lanes.
    std::int64_t tiles = 1;  ///< Of the other side.
  };
  static std::uint8_t rows_of_vector(const TileArray& vector, std::int64_t count, Index group,
                                     std::int64_t tiles, std::int64_t k);
  void weave_rows_of_tiles(const TileArray& source, const TileArray& target,
                           const TileParts& woven);
  void weave_rows(const TileArray& rows, const TileArray& vector);
  void part_rows(const TileArray& vector, const TileArray& rows);
  void join_woven(const Weave& weave, Index outer, const std::vector<WovenTiles>& all);
  void part_woven(const Weave& weave, Index outer, const std::vector<WovenTiles>& all);
  /// By the lanes of a register of the other side.
  VReg elements_of_parts(std::int64_t count, std::int64_t number, VReg& part);
  /// By the lanes of a register of the first part: which lanes of the other side, one behind the
  /// other, these are.
  VReg lanes_of_first_part(std::int64_t count);
  void for_lane_tiles(
      const TileArray& rows,
      const std::function<void(Index first, std::int64_t groups, std::int64_t tiles)>& piece);

  bool reshape_matrices(const TileArray& source, const TileArray& target);
  /// What a row of lanes holds on one side fills whole tiles on the other: eight rows at a time,
  /// shifted by rotations, to or from eight places by the stride of the store or load; long rows in
  /// groups of lanes, a loop of alike ones. False where the arrays do not lie so.
  bool reshape_rows(const TileArray& source, const TileArray& target);
  /// What this takes; none: false.
  static std::optional<double> split_cycles(const TileArray& source, const TileArray& target);
  LaneSeam seam_at(Index lane);
  VReg across(const LaneSeam& seam, VReg here, VReg next);
  struct RowGroup;
  void split_row_group(const RowGroup& group);
  void join_row_group(const RowGroup& group);
  struct LaneRange {
    std::int64_t begin = 0, count = 0;
  };
  void join_lanes(std::size_t pieces, std::int64_t lane_tiles, std::int64_t lanes,
                  const std::function<LaneRange(std::size_t)>& range,
                  const std::function<VReg(std::size_t)>& load,
                  const std::function<void(std::int64_t, VReg)>& store);
  /// Between rows of 128 lanes, which are the elements one behind the other, and longer or shorter
  /// rows: eight lane tiles of one by a load, a rotation and a store. False for other arrays.
  bool reshape_linear(const TileArray& source, const TileArray& target);
  void cut_row(const TileArray& linear, const TileArray& rows, Index item, Index row);
  void append_row(const TileArray& rows, const TileArray& linear, Index row, Index item);
  /// Between rows of the same lanes, `count` of them.
  void copy_rows_in_order(const TileArray& source, const TileArray& target, std::int64_t count);
  /// Pieces of lanes that stand in one row of a tile on both sides, each between the same lanes and
  /// its rows as far apart: up to eight by one load, rotation and store.
  struct PieceRows;
  /// By the lanes from, to and behind which they stand.
  using Pieces = std::map<std::array<std::int64_t, 3>, std::vector<PieceRows>>;
  /// Few of them, or none.
  static std::optional<Pieces> pieces_between(const TileArray& source, const TileArray& target);
  /// Of everything, or again and again of what lies between two places where both sides begin with
  /// a tile.
  bool copy_pieces(const TileArray& source, const TileArray& target);
  void copy_pieces(const Pieces& pieces, const TileArray& source, const TileArray& target);
  void copy_rows_of(const PieceRows& rows, const TileArray& source, const TileArray& target);

  /// In one piece of straight code: the way through the rotations of one is longer than what they
  /// all take to issue.
  static constexpr std::int64_t kTilesAtOnce = 16;
  KernelBuilder& builder_;
  VmemRegion scratch_;
};

}  // namespace tpu::compiler
