#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "workloads/compiler/codegen/values.h"
#include "workloads/compiler/kernels/elementwise/elementwise_leaf.h"
#include "workloads/compiler/kernels/elementwise/expression_graph.h"
#include "workloads/compiler/kernels/refusal.h"
#include "workloads/compiler/target.h"

namespace tpu::compiler {

/// The passes over a block: one spreads columns over the lanes, those with sums along the lanes
/// wait for them, one without such writes results; or all of them go through it together.
enum class PassKind : std::uint8_t { kSpread, kSums, kResults, kTogether };
constexpr std::size_t kPassKinds = 3;  ///< That have groups of their own.

/// How an elementwise kernel or a reduction is laid over VMEM and over loops.
///
/// Arrays that cover the space stream through VMEM in blocks of whole row tiles, two buffers each.
/// Everything smaller (vectors along the lanes, broadcast tiles, scalars, results of reductions)
/// stays in VMEM while the kernel runs. Where it does not fit, the kernel runs part by part of the
/// outermost axis: of arrays that have this axis outermost, too, only the part stays ("sliced"),
/// and the next one is fetched meanwhile. (Where the axis is several dimensions in one, an array
/// may have the outer ones alone: parts that differ in the others share its slice.) So it does
/// where everything stays and would be waited for. Of an axis that has no parts of one size that
/// fit, a kernel goes through a range, and another one, behind it, through the rest. A matrix that
/// is the same at every major index, and that does not fit either (a mask of all heads), streams
/// again for each ("repeated"); blocks then divide it. Where no part fits either, so does an array
/// of several matrices that comes again along outer axes.
///
/// Arrays of which elements elsewhere are read stream, too: blocks of theirs reach further, as far
/// as those elements stand away, and come once however many distances are read. What two blocks
/// share goes from the one's buffer to the other's.
struct ElementwisePlan {
  /// An operand that is read around the places of a block. It is a sequence of units, each of
  /// which stands for so many row tiles of the space; a block at units u to u + k reads those from
  /// s u + first to s (u + k) + last, where those of neighbouring units stand s apart.
  struct Neighborhood {
    int operand = 0;
    hlo::Shape shape;
    std::vector<std::int64_t> steps;  ///< By axis; none: 1.
    std::int64_t units = 1;           ///< Of the array.
    std::int64_t tiles = 1;           ///< Of a unit.
    std::int64_t first = 0, last = 0;
    std::int64_t step = 1;
    /// Units of the array of which one is read, and the first that is: others stay in HBM.
    std::int64_t pitch = 1, phase = 0;
    bool wraps = false;  ///< In front of the first unit is the last one.
    VmemRegion region;   ///< Two buffers, and a tile on each side of them.

    /// Units that a block has beyond its own.
    std::int64_t halo() const { return last - first; }
    std::int64_t tile_rows() const { return shape.type == hlo::ElementType::kBf16 ? 4 : 8; }
    std::int64_t unit_rows() const { return tiles * tile_rows(); }
    std::int64_t unit_granules() const { return unit_rows() / 2; }
  };
  struct Input {
    int node = -1;
    int operand = 0;
    ArrayAccess access;
    ArrayPart part;  ///< Streams only.
    bool sliced = false;
    std::int64_t begin = 0;      ///< Granules of the array before the first part, or what is read.
    std::int64_t shared_by = 1;  ///< Parts, one behind the other, that have the same slice.
    bool repeated = false;       ///< A stream that begins again at each major index.
    bool fixed = false;          ///< A column whose value is the same everywhere.
    bool everywhere = false;     ///< A scalar that stands in all lanes of its row.
    /// A column that comes again along other axes: spread once, for all row tiles of the matrix
    /// (where it depends on them) at each index of `kept_majors`.
    bool kept = false;
    std::vector<int> kept_majors;
    int neighborhood = -1;        ///< That it is read from; -1: none.
    std::int64_t units_away = 0;  ///< Where its first row tile stands there.
    VmemRegion region;            ///< Buffers of a stream, or the whole array.
    VmemRegion slots;  ///< Columns: a register per row tile of the block, of all that is kept, or
                       ///< one.

    bool is_stream() const { return access.kind == ArrayAccess::Kind::kStream; }
    bool is_in_neighborhood() const { return neighborhood >= 0; }
    /// An array that stays while the kernel, or a part of it, runs.
    bool stays() const { return !is_stream() && !is_in_neighborhood(); }
    /// A vector that is read further on: blocks have a tile more, where there is one.
    bool is_ahead() const { return access.linear && part.lanes > 0; }
    bool is_column() const { return access.kind == ArrayAccess::Kind::kColumn; }
    /// A column that each block spreads anew.
    bool is_spread() const { return is_column() && !fixed && !kept; }
    /// Registers of a kept column.
    std::int64_t kept_registers(const IterationSpace& space) const;
  };
  /// Along lanes: of each row, known within the block. Along rows: of each column of a matrix,
  /// known behind its pass over a block, which has whole matrices. Otherwise a sum over the whole
  /// space. Those but the first are held in a register's worth of VMEM per kept major index, row
  /// tile (where rows are kept) and lane tile (where lanes are kept).
  struct Reduction {
    int node = -1;
    bool along_lanes = false;
    bool along_rows = false;  ///< And used in the kernel.
    int level = 0;            ///< Pass that computes it.
    bool sliced = false;      ///< Complete with its part.
    VmemRegion slots;         ///< Along lanes: a register per row tile of the block.
    bool rows_kept = false, lanes_kept = false;
    std::vector<int> kept_majors;
    std::vector<std::int64_t> strides;  ///< Registers from one kept major index to the next.
    std::int64_t registers = 1;
    VmemRegion accumulators;
    bool integer = false;
  };
  /// What operations on whole rows need of each row, made of sums along lanes and columns: computed
  /// once a row, then kept as those are.
  struct RowValue {
    int node = -1;
    int level = -1;    ///< Pass that computes it; -1: the one that spreads columns.
    VmemRegion slots;  ///< A register per row tile of the block.
  };
  /// What operations on whole matrices need of each column, made of sums along rows and of arrays
  /// that are the same in all rows: computed once a matrix, then kept as those sums are.
  struct ColumnValue {
    int node = -1;
    bool is_reciprocal = false;  ///< What divides, not the value itself.
    int level = -1;              ///< Pass behind which it is computed; -1: before the first.
    VmemRegion region;           ///< A register for each of the sums'.
  };
  /// What several passes need of each tile: computed in the first of them, then kept.
  struct TileValue {
    int node = -1;
    int level = 0;      ///< Pass that computes it.
    VmemRegion region;  ///< A register for each tile of a block, as those of a stream of 32 bits.
  };
  enum class OutputKind : std::uint8_t { kStream, kRows, kAccumulated };
  struct Output {
    int node = -1;
    int operand = 0;
    hlo::Shape shape;  ///< Of a part, when sliced.
    bool sliced = false;
    std::int64_t begin = 0;  ///< Granules of the array before the first part, or what is made.
    ArrayPart part;          ///< Streams: what is made of the array.
    OutputKind kind = OutputKind::kStream;
    ArrayAccess access;  ///< kStream, kRows (there in the 32-bit tiles of `staging`).
    int level = 0;       ///< Pass after which it is known.
    int reduction = -1;  ///< kAccumulated: index of the reduction.
    /// kAccumulated: not the reduction itself, but the column value of the output's node.
    bool is_column_value = false;
    VmemRegion region;   ///< Buffers, or the whole result.
    VmemRegion staging;  ///< Of packed results that stay in VMEM: 32-bit tiles.
    VmemRegion slots;    ///< kRows, by_lines: a register per row tile of the block; none: the node
                         ///< has some already.
  };

  /// What one piece of straight code works on in a pass.
  struct Group {
    int rows = 1;  ///< Row tiles: a part of those of a matrix, or whole matrices.
    /// The row tiles of a matrix are no multiple of it: the last group of each matrix is smaller.
    bool by_matrix = false;
    int lanes = 1;  ///< Lane tiles; all of them or a part.
  };

  IterationSpace space;  ///< Of a part.
  int cut_axis = kNoAxis;
  std::int64_t parts = 1;
  /// The first element of the cut axis, where another kernel has those before.
  std::int64_t first = 0;
  /// Sums along the cut axis begin with this kernel, and are complete with it; else another one
  /// before, or behind, it has its share of them.
  bool begins = true, ends = true;
  /// What is there of each sliced input: of the part at hand and of the next one, which is on its
  /// way meanwhile; or of one part, whose work waits for it.
  std::int64_t part_buffers = 1;
  std::vector<Input> inputs;
  std::vector<Neighborhood> neighborhoods;
  /// Of neighborhoods: the innermost axis of which blocks have some indices and not all, and row
  /// tiles of the space at each. They are single row tiles where it is the row axis.
  int unit_axis = kNoAxis;
  std::int64_t unit = 1;
  std::vector<Reduction> reductions;
  std::vector<RowValue> row_values;
  std::vector<ColumnValue> column_values;
  std::vector<TileValue> tile_values;
  std::vector<Output> outputs;
  bool joins_lanes = false;              ///< Values are turned that several lane tiles need.
  bool flat = false;                     ///< Only streams and scalars: a row tile is any tile.
  std::int64_t row_tiles = 1;            ///< Of a part.
  std::int64_t period = 0;               ///< Blocks after which repeated streams begin again.
  std::int64_t lane_tiles = 1;           ///< Of a row tile.
  int last_level = 0;                    ///< The pass that writes streams and accumulates.
  std::int64_t block = 1;                ///< Row tiles of a block.
  std::array<Group, kPassKinds> groups;  ///< By kind of pass.
  /// All passes go through a group in one piece of straight code: what is done with the numbers of
  /// one row overlaps with the wait for those of others. The groups are equal.
  bool passes_together = false;
  /// Results along the rows, whose row tiles become lanes, wait for the end of the block: its
  /// groups are no whole lines of them.
  bool by_lines = false;
  std::vector<bool> needed;  ///< Axes whose index the code must know; not the lane axis.
  int digits = 0;            ///< Axes from the row axis up that are counted.

  const Input* input_of(int node) const;
  int reduction_of(int node) const;  ///< Index; -1: none.
  const RowValue* row_value_of(int node) const;
  const ColumnValue* column_value_of(int node, bool is_reciprocal) const;
  const TileValue* tile_value_of(int node) const;
  /// One whose results are used in the kernel; all have the same registers. None: null. Blocks have
  /// whole matrices where there is one.
  const Reduction* reduction_along_rows() const;
  bool has_whole_matrices() const { return reduction_along_rows() != nullptr; }
  bool counts() const { return digits > 0; }
  /// Row tiles of a group that follow each other in one line of 128 lanes, whatever the group.
  std::int64_t run(const Group& group) const;
  /// Whether a pass before level 0 spreads columns.
  bool spreads() const;
  /// What the pass of a level is; the one before level 0 spreads columns.
  PassKind pass_at(int level) const;
  const Group& group_at(int level) const {
    return groups[static_cast<std::size_t>(pass_at(level))];
  }
  /// Whether an output has its rows in the lanes.
  static bool is_in_lanes(const Output& output) {
    return output.kind == OutputKind::kRows && output.access.x == ArrayAccess::Step::kRows;
  }
  /// The axis that a digit counts: 0 the row axis (of a linear space its only one), then upwards.
  int axis_of_digit(int digit) const { return space.linear ? 0 : space.row_axis() - digit; }
  /// What it counts up to: row tiles, then indices.
  std::int64_t radix(int digit) const;
  bool is_cut_digit(int digit) const { return digit > 0 && axis_of_digit(digit) == cut_axis; }
  /// How often a resident input stands in VMEM.
  std::int64_t buffers_of(const Input& input) const { return input.sliced ? part_buffers : 1; }
  /// Elements of the cut axis in a part.
  std::int64_t part_extent() const { return space.extents[static_cast<std::size_t>(cut_axis)]; }
  bool is_cut() const { return cut_axis != kNoAxis; }
  /// VMEM rows of a row tile of a streamed array.
  std::int64_t stream_rows(const hlo::Shape& shape) const;
  /// Whether the rows of a streamed array are vectors of a linear space.
  bool is_in_rows(const hlo::Shape& shape) const { return space.linear && shape.rank() > 1; }
  /// Granules of so many row tiles of a streamed array.
  std::int64_t stream_granules(const hlo::Shape& shape, std::int64_t count) const;
  /// The same of the last ones of all. Arrays whose rows are vectors end with their last lane tile.
  std::int64_t last_granules(const hlo::Shape& shape, std::int64_t count) const;
  /// Of so many granules of a stream those that are moved: in one range those with rows.
  std::int64_t moved_granules(const ArrayPart& part, const hlo::Shape& shape,
                              std::int64_t granules) const;
  /// Whether a stream ends inside of a register.
  bool ends_early() const;
  /// How far so many row tiles of a stream, whole ranges of it, reach in HBM, in granules.
  std::int64_t stream_distance(const ArrayPart& part, const hlo::Shape& shape,
                               std::int64_t count) const {
    return part.is_one_range() ? stream_granules(shape, count) : count / part.run * part.pitch;
  }
  /// Blocks of a range of a stream; 1: blocks have whole ranges.
  std::int64_t blocks_of_range(const ArrayPart& part) const {
    return std::max<std::int64_t>(1, part.run / block);
  }
  /// Granules that the kernel waits for before it begins.
  std::int64_t waited_granules() const;
  bool has_streams() const;
  /// Units of a block, and from one index of an axis to the next one.
  std::int64_t units_of_block() const { return block / unit; }
  std::int64_t units_along(int axis) const;
  /// Whether what is read elsewhere stands in other lanes.
  bool turns_neighbors() const;
  bool has_vectors_in_rows() const;
  bool keeps_columns() const;
};

/// Tiles that straight code works on at a time, at most.
constexpr int kMostTiles = 64;

/// Elements of the outermost axis longer than 1.
struct AxisRange {
  std::int64_t first = 0;
  std::int64_t count = 0;  ///< 0: all.
};

struct PlanLimits {
  std::array<int, kPassKinds> most_tiles{kMostTiles, kMostTiles, kMostTiles};
  bool whole_arrays = false;  ///< One block: the arrays stand in VMEM.
  bool passes_apart = false;  ///< Each pass has code of its own.
  /// Sums may be kept from part to part, to the end, where those of a part are no range of the
  /// result, and from a range of the outermost axis to the next: more comes several times then than
  /// where another axis is outermost.
  bool keeps_sums = false;

  /// Less code that overlaps in a pass that found no registers; none: in all. False where there is
  /// no less.
  bool reduce(std::optional<PassKind> crowded);
};

/// Makes the plan, or plans of kernels that go through the outermost axis one after the other; or
/// says what does not fit. Regions are not allocated yet.
OrRefusal<std::vector<ElementwisePlan>> find_elementwise_plans(const ExpressionGraph& graph,
                                                               std::size_t operand_count,
                                                               const Target& target,
                                                               const PlanLimits& limits = {});
/// The same in one.
OrRefusal<ElementwisePlan> find_elementwise_plan(const ExpressionGraph& graph,
                                                 std::size_t operand_count, const Target& target,
                                                 const PlanLimits& limits = {});

/// A kernel, or one of several that stand behind each other in one code.
struct ElementwisePiece {
  ExpressionGraph graph;
  ElementwisePlan plan;
};

/// What makes the results: the graph in the form that VMEM has room for (rows of a tile combined in
/// it, another axis outermost, lanes cut in tiles), in one piece or ranges of the outermost axis;
/// or ranges of the lanes. Or says what does not fit.
OrRefusal<std::vector<ElementwisePiece>> find_elementwise_pieces(const ExpressionGraph& whole,
                                                                 std::size_t operand_count,
                                                                 const Target& target,
                                                                 const PlanLimits& limits = {});

}  // namespace tpu::compiler
