#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "workloads/compiler/cost.h"
#include "workloads/compiler/ir/made_side.h"
#include "workloads/compiler/ir/operand_parts.h"
#include "workloads/compiler/kernels/contraction/matmul_stream.h"
#include "workloads/graph/shape.h"

namespace tpu::compiler {

/// The extents of a grid, outermost first. Searches make one for every cut, so it takes no heap.
class GridExtents {
 public:
  static constexpr std::size_t kMost = 24;

  GridExtents(std::initializer_list<std::uint32_t> extents = {}) {
    for (const std::uint32_t extent : extents) extents_[size_++] = extent;
  }
  /// Those that are new are 1. Throws SimulatorBug for more than kMost.
  void resize(std::size_t size);
  std::size_t size() const { return size_; }
  std::uint32_t& operator[](std::size_t i) { return extents_[i]; }
  std::uint32_t operator[](std::size_t i) const { return extents_[i]; }
  const std::uint32_t* begin() const { return extents_.data(); }
  const std::uint32_t* end() const { return begin() + size_; }
  operator std::vector<std::uint32_t>() const { return {begin(), end()}; }

 private:
  std::array<std::uint32_t, kMost> extents_{};
  std::size_t size_ = 0;
};

/// Dimensions of a grid; searches make them for every cut.
class GridDimensions {
 public:
  GridDimensions(std::initializer_list<int> dimensions = {}) {
    for (int dimension : dimensions) add(dimension);
  }
  void add(int dimension) { bits_ |= std::uint64_t{1} << dimension; }
  /// The innermost that moves, as TileGrid::innermost.
  int innermost(const GridExtents& grid) const;
  operator std::vector<int>() const;

 private:
  std::uint64_t bits_ = 0;
};

/// What the kernel of a contraction holds in VMEM and does over its grid. A search asks how many
/// rows and how much time a cut takes; the kernel that is made of it has its grid, the dimensions
/// of its blocks and the sizes of its buffers from here.
struct ContractionPlan {
  /// The blocks of an array, or of arrays in step with each other, as those of a TileGrid.
  struct Blocks {
    GridDimensions dimensions;      ///< That they depend on.
    std::uint64_t rows = 0;         ///< VMEM rows of one buffer of each, together.
    std::uint64_t rows_beside = 0;  ///< The same of the arrays that a side is made of beside.
    double bytes = 0;               ///< Moved for one block of each, on average.
    double cycles = 0;              ///< The vector or transpose unit has work with a new one.

    /// VMEM rows of the block of an array that lies like the side, whose type is `side`.
    std::uint32_t rows_of(hlo::ElementType type, hlo::ElementType side) const;
  };
  /// What becomes of a tile of complete sums.
  struct Finish {
    bool has_expression = false;
    VectorCost expression;  ///< Of a tile.
    double operands = 0, packed_operands = 0, results = 0, packed_results = 0;
    double tiles = 0;   ///< Of a block of results.
    double beside = 0;  ///< Tiles that a step finishes while the MXUs are at work; 0: all behind.
    double behind = 0;  ///< Tiles that are left then.
    double steps_before = 0;  ///< Steps before the first that finishes tiles.

    double tile_cycles() const;
  };
  /// The steps over a block.
  struct Steps {
    explicit Steps(const MatmulUnits& of) : units(of) {}
    MatmulUnits units;
    double count = 0;
    std::uint32_t pushes = 0, weight_pushes = kWeightPushes, lots = 1;
    /// Instructions of the vector unit for a register of each side, in the mean over the lots.
    double parts_of_moving = 0, parts_of_stationary = 0;
    double rounds = 1;            ///< Loops over steps, one after the other.
    double before = 0;            ///< Cycles of what is prepared for them, however old the blocks.
    bool unpacks_moving = false;  ///< Two instructions for each push.
    /// One for each pair of parts, and each of other lots.
    void set_lots(const OperandParts& parts, std::uint32_t of_others = 1);
    /// Of the vector unit for a lot, to make the parts of both sides.
    double part_instructions() const;
    double cycles(const Target& target, const Finish& finish) const;
  };

  explicit ContractionPlan(const MatmulUnits& units) : steps(units) {}

  GridExtents grid;
  Blocks lhs, rhs, operands, results;
  std::uint64_t rows_apart = 0;  ///< VMEM rows of sums and of what is prepared, once each.
  Steps steps;
  Finish finish;

  /// Operands behind the product and results, of so many tiles in a block; all blocks have `moved`.
  void add_in_step(GridDimensions dimensions, const std::vector<hlo::ElementType>& operand_types,
                   const std::vector<hlo::ElementType>& result_types, std::uint64_t tiles,
                   double moved) {
    add_in_step(dimensions, operand_types, result_types.data(), result_types.size(), tiles, moved);
  }
  void add_in_step(GridDimensions dimensions, const std::vector<hlo::ElementType>& operand_types,
                   hlo::ElementType result_type, std::uint64_t tiles, double moved) {
    add_in_step(dimensions, operand_types, &result_type, 1, tiles, moved);
  }
  /// For a side of an element type whose block is known: what it takes to make it.
  void make_side(Blocks& side, const MadeSide& made, hlo::ElementType type);
  void set_expression(bool has_expression, const VectorCost& cost) {
    finish.has_expression = has_expression;
    finish.expression = cost;
  }

  double tiles() const;
  /// How often a block is another one than for the tile before.
  double changes(const Blocks& blocks) const;
  /// VMEM rows of the kernel, with a reserve for what it keeps beside, and without.
  std::uint64_t vmem_rows() const;
  std::uint64_t array_rows() const;
  double cycles(const Target& target) const;

 private:
  void add_in_step(GridDimensions dimensions, const std::vector<hlo::ElementType>& operand_types,
                   const hlo::ElementType* result_types, std::size_t result_count,
                   std::uint64_t tiles, double moved);
  std::uint64_t buffers(const Blocks& blocks) const;
};

/// Bytes of a block of rows of an image: no more than the image has.
double block_bytes(std::int64_t height, std::uint32_t block_rows, std::int64_t width,
                   std::uint32_t block_pixels, std::uint32_t pixel_rows);

}  // namespace tpu::compiler
