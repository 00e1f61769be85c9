#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "workloads/compiler/codegen/kernel_builder.h"
#include "workloads/compiler/kernels/tiles/index.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

constexpr std::int64_t kMatrixTileRows = isa::kSublanes;

/// Of f32, row by row, one behind the other.
bool are_matrices_in_rows(const hlo::Shape& shape);

/// Matrices of one lane tile that a kernel changes where they stand in VMEM, some of them at a
/// time: while it works on a group, the next one comes and the one before leaves.
class MatrixGroups {
 public:
  struct Shapes {
    std::int64_t count = 1, together = 1;            ///< Matrices.
    std::int64_t given_tiles = 1, result_tiles = 1;  ///< Of eight rows.
  };

  MatrixGroups(KernelBuilder& builder, const Shapes& shapes);

  /// Emits everything, from the kernel's first operand to its second one. `work` changes the
  /// matrices of a group; where there are fewer than a group has, the others are anything.
  void run(const std::function<void(Index buffer)>& work);
  /// From a row of a matrix of the group on.
  VmemAddress row(std::int64_t matrix, std::int64_t row, Index buffer) const;

 private:
  void for_each_present(Index group, const std::function<void(std::int64_t, Index)>& body);
  ScalarOperand granules_of(Index group, std::int64_t of_one);

  KernelBuilder& builder_;
  Shapes shapes_;
  std::int64_t rows_ = 0;             ///< Of a buffer.
  std::vector<VmemRegion> matrices_;  ///< Two buffers of each of those at a time.
};

}  // namespace tpu::compiler
