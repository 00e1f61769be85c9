#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "workloads/compiler/codegen/kernel_builder.h"
#include "workloads/compiler/kernels/elimination/matrix_groups.h"
#include "workloads/compiler/kernels/tiles/index.h"

namespace tpu::compiler {

/// Matrices [..., rows, columns] that are factorized column by column, as many of them at a time as
/// hide how long a step takes to begin.
struct ColumnShapes {
  std::int64_t rows = 1, columns = 1, count = 1;
  std::int64_t tiles = 1;     ///< Of eight rows.
  std::int64_t together = 1;  ///< Matrices.

  explicit ColumnShapes(const std::vector<std::int64_t>& extents);
  std::int64_t steps() const { return std::min(rows, columns); }
  /// Cycles of kernels whose steps take so many, beside the way of a column to all lanes, and so
  /// many more for each tile from the step's row on.
  double cycles(double of_step, double of_tile, const Target& target) const;
};

/// Whether a kernel makes of the given matrices such of `more` columns in addition.
bool are_column_matrices(const hlo::Shape& given, const hlo::Shape& made, std::int64_t most_rows,
                         std::int64_t more);

/// What factorizations column by column have in common. A step brings the elements of its column to
/// all lanes by a permutation a tile. Tiles above its row are done, and their code is left out.
class ColumnSteps {
 public:
  ColumnSteps(const std::string& name, const std::vector<std::int64_t>& given,
              const Target& target);

 protected:
  ~ColumnSteps() = default;

  /// What all matrices of a step have in common.
  struct Step {
    std::int64_t tile = 0;
    SReg sublane;
    Index buffer;
    VReg number;  ///< Of its row and column, as f32.
    MReg is_column, is_behind, is_row, is_below;
  };
  /// What a step brings to all lanes of one matrix, from the step's tile on.
  struct Column {
    VReg row, diagonal;
    std::vector<VReg> elements;
  };

  /// Emits everything: what becomes of the tiles of a matrix before the first step, and the steps.
  void run(
      const std::function<VReg(std::int64_t tile, VReg given)>& prepare,
      const std::function<void(const Step& step, std::int64_t matrix, const Column& column)>& work);
  MReg is_lane(std::int64_t lane);
  /// Of each sublane, as f32.
  VReg row_numbers(std::int64_t tile);
  bool ends_inside(std::int64_t tile) const { return (tile + 1) * kMatrixTileRows > shapes_.rows; }
  /// Of the step's tiles: where they stand, and their elements of the column.
  VmemAddress place(const Step& step, std::int64_t matrix, std::int64_t tile) const;
  static VReg element(const Step& step, const Column& column, std::int64_t tile) {
    return column.elements[static_cast<std::size_t>(tile - step.tile)];
  }

  KernelBuilder builder_;
  ColumnShapes shapes_;

 private:
  void find_places();
  Step begin(std::int64_t tile, SReg sublane, Index buffer);
  Column column_of(const Step& step, std::int64_t matrix);

  MatrixGroups groups_;
  VReg lane_, sublane_, sublane_number_;  ///< In the present block.
};

}  // namespace tpu::compiler
