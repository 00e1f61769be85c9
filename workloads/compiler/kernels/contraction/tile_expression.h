#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/ceil_divide.h"
#include "workloads/compiler/codegen/kernel_builder.h"
#include "workloads/compiler/cost.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/kernels/elementwise/elementwise_leaf.h"
#include "workloads/compiler/kernels/elementwise/elementwise_memory.h"
#include "workloads/compiler/kernels/elementwise/expression.h"
#include "workloads/compiler/kernels/elementwise/expression_graph.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Tiles of a matrix along its rows and its columns.
struct MatrixTiles {
  std::int64_t rows = 1, columns = 1;
  std::int64_t count() const { return rows * columns; }
};
MatrixTiles tiles_of_matrix(const hlo::Shape& shape);

/// An elementwise expression that a kernel computes tile by tile of an array that it makes or
/// reads: behind a product, or in front of one of its sides. Which operands of the kernel are what.
struct TileExpression {
  /// An array that the expression reads beside the product.
  struct Operand {
    /// Blocks: tiles in step with the result's, fetched block by block. Matrix: one matrix for all
    /// of the result's. Lanes: a vector along the result's minor dimension. Rows: one along the
    /// dimension above it. Scalar: one element. All but blocks stay in VMEM.
    enum class Kind : std::uint8_t { kBlocks, kMatrix, kLanes, kRows, kScalar };
    Kind kind = Kind::kBlocks;
    int node = -1;     ///< Of the graph.
    int operand = -1;  ///< Of the kernel.
    ArrayAccess access;
    hlo::ElementType type() const { return access.shape.type; }
    /// Registers of a vector along the rows; with those of the last line of lanes.
    std::uint64_t row_tiles() const;
    std::uint64_t spread_tiles() const;
  };

  /// An array that the kernel writes.
  struct Result {
    /// Blocks: the product's extent and layout, written block by block. Lanes: a sum over
    /// everything but the product's minor dimension, an element per lane, written when the kernel
    /// ends. Rows: the same for the dimension above it. Matrix: a sum over everything but these
    /// two, an element for each of both.
    enum class Kind : std::uint8_t { kBlocks, kLanes, kRows, kMatrix };
    Kind kind = Kind::kBlocks;
    int node = -1;     ///< Of the graph; -1: the product itself, without a graph.
    int operand = -1;  ///< Of the kernel.
    hlo::Shape shape;
    hlo::ElementType type() const { return shape.type; }
    /// Registers of a sum to the rows.
    std::int64_t row_tiles() const { return ceil_divide(shape.element_count(), 8); }
    MatrixTiles matrix_tiles() const { return tiles_of_matrix(shape); }
  };

  std::string kernel_name;
  std::vector<Operand> operands;
  std::vector<Result> results;  ///< Those in blocks first, at least one.
  std::shared_ptr<const hlo::Computation> expression;
  std::shared_ptr<const ExpressionGraph> graph;  ///< None: the result is what is given.
  /// Tiles of matrices that stay follow each other along the rows, so that rows of two can be read
  /// together.
  bool by_columns = false;

  /// Types of the operands that are fetched in blocks.
  std::vector<hlo::ElementType> block_types() const;
  /// Types of the results that are written in blocks.
  std::vector<hlo::ElementType> result_types() const;
  /// VMEM rows of the operands and results that stay.
  std::uint64_t resident_rows() const;
  /// Of the vector unit per tile, about.
  VectorCost cost() const;
  /// Whether the expression has an operand or a sum that is a matrix for all of the result's.
  bool has_matrix() const;
  /// Whether anything depends on the row in its matrix: an operand or an iota.
  bool depends_on_rows() const;
  bool has_sums() const;
  bool has_results(Result::Kind kind) const;
};

/// Nodes that the results are computed from, those below reductions included.
std::vector<int> nodes_of_results(const ExpressionGraph& graph);

/// Where the operands, then the results of a kernel stand in VMEM, whole; none: they stand in HBM.
using ArraysInVmem = std::vector<VmemRegion>;
/// That of an operand or result; no rows: it stands in HBM.
VmemRegion standing(const ArraysInVmem& arrays, int operand);

/// Emits such an expression, tile by tile.
class TileExpressionEmitter {
 public:
  /// Where a tile of the result is.
  struct Position {
    Place place;             ///< In the result's physical dimensions.
    std::int64_t tiles = 0;  ///< Of the block, before this one: known part,
    SReg rows32, rows16;     ///< and the rest as VMEM rows of 32-bit and of packed tiles.
    /// Sublanes of the tile that lie in the array; a constant of 8 or more: all.
    Index valid_rows{{}, 8};
    /// Elements that lie in the array, for sums to the rows; none: all.
    MReg inside;
    /// Rows that a register holds: those of this tile, or of this and another one every second,
    /// from the first or from the second on. Packed arrays stand in memory so.
    enum class Rows : std::uint8_t { kTile, kEven, kOdd } rows = Rows::kTile;
    /// From a tile to the other one of its pair: tiles of blocks, and tiles along the rows.
    std::int64_t tiles_apart = 1, row_tiles_apart = 1;
  };

  TileExpressionEmitter(KernelBuilder& builder, const TileExpression& expression,
                        ArraysInVmem arrays = {});

  bool is_identity() const { return expression_.graph == nullptr; }
  /// Starts to fetch the operands that stay. In the first blocks of the kernel. `lane_tiles`: those
  /// of all blocks of the result, the parts of the last ones beyond the array included; for sums.
  void start(std::int64_t lane_tiles = 0);
  /// Waits for them, before the first piece of code that uses them.
  void ready();
  /// Begins a straight piece of code over one lane tile; `blocks`: begins of the present blocks of
  /// the operands that come in blocks, in order.
  void begin(std::vector<VmemAddress> blocks);
  /// A tile of each result that is written in blocks, in order.
  std::vector<VReg> apply(const Position& position, VReg product);
  /// Ends the piece that begin() began, before any other code.
  void end(const Position& position);
  /// Around straight code over pixels with the same tiles of rows, `tiles` of them from `first` on,
  /// in one column of lanes: sums to the rows and to matrices stay in registers in it. A place's
  /// row_key counts the tiles, pixel by pixel; with `paired`, of each two tiles first the even and
  /// then the odd rows.
  void begin_row_sums(std::uint32_t tiles, bool paired = false);
  void end_row_sums(Index first, Index lane);
  /// Writes the sums. In the last blocks of the kernel.
  void finish();

 private:
  using Operand = TileExpression::Operand;
  using Result = TileExpression::Result;
  ExpressionValue source(int node, const Place& place);
  VReg load(const Operand& operand, std::size_t number);
  VReg load_rows(const VmemAddress& tile, std::int64_t tiles_apart);
  VReg load_block(const Operand& operand, std::size_t number);
  VmemAddress rows_of(const VmemAddress& tile, Position::Rows rows) const;
  VReg summand(const Result& result, const Position& position);
  void spread_rows(const Operand& operand, std::size_t number);
  void order_by_columns(const Operand& operand, std::size_t number);
  VmemRegion finish_matrix_sums(const Result& result, VmemRegion sums, VmemRegion matrix);
  void finish_lane_sums(const Result& result, VmemRegion sums, VmemRegion vector);
  void finish_row_sums(const Result& result, VmemRegion sums, VmemRegion vector);

  KernelBuilder& builder_;
  const TileExpression& expression_;
  ArraysInVmem arrays_;
  TileMemory memory_;
  std::unique_ptr<ExpressionEmitter> emitter_;
  std::vector<VmemRegion> resident_;  ///< Per operand; of scalars the spread value.
  /// Per result: a register per lane tile, row tile or tile of a matrix, column by column.
  std::vector<VmemRegion> sums_;
  std::vector<VReg> partial_;                ///< Per result: of the straight piece.
  std::vector<std::vector<VReg>> row_sums_;  ///< Per result: of the tiles of rows, also matrices'.
  std::int64_t lane_tiles_ = 0;
  std::uint32_t flag_ = 0;
  std::uint64_t fetched_ = 0;  ///< Granules.
  bool sums_paired_ = false;
  std::vector<VmemAddress> blocks_;
  /// Packed rows of two tiles, by operand and tile: the piece's even and odd rows.
  std::map<std::pair<std::size_t, std::int64_t>, VReg> packed_;
  const Position* position_ = nullptr;
  VReg product_;
};

}  // namespace tpu::compiler
