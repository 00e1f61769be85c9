#pragma once

#include "workloads/compiler/kernels/contraction/convolution_problem.h"
#include "workloads/compiler/kernels/contraction/window_join.h"

namespace tpu::compiler {

/// The kernel of a convolution for steps that contract several positions of the window: of each
/// group of positions a matrix of f32 tiles. Positions follow each other in its rows, or, where the
/// contracted features lie in the lanes, in its lanes.
class JoinedWeights {
 public:
  /// Of `columns` column tiles of the result. `memory` has masks of the contracted features where
  /// they lie in the lanes. Allocates VMEM, stores a table in SMEM.
  JoinedWeights(KernelBuilder& builder, MatmulMemory& memory, const ConvolutionProblem& problem,
                const WindowJoin& join, std::uint32_t columns);

  /// Rows of tiles of a group.
  static std::uint32_t row_tiles(const ConvolutionProblem& problem, const WindowJoin& join,
                                 std::uint32_t columns);
  /// VMEM rows of all groups.
  static std::uint32_t rows(const ConvolutionProblem& problem, const WindowJoin& join,
                            std::uint32_t columns);
  static double cycles(const ConvolutionProblem& problem, const WindowJoin& join,
                       std::uint32_t columns, const Target& target);

  /// Emits the work: `window` is the block of the kernel in VMEM, a matrix per position.
  void make(const VmemAddress& window);
  VmemRegion region() const { return region_; }

 private:
  static constexpr std::uint32_t kWords = 2;  ///< Of a position in the table.
  std::uint32_t positions() const { return join_.y.joined * join_.x.joined; }
  std::uint32_t groups() const { return join_.y.groups * join_.x.groups; }
  void store_table();
  void stack(const VmemAddress& window);
  void turn(const VmemAddress& window);

  KernelBuilder& builder_;
  MatmulMemory& memory_;
  const ConvolutionProblem& problem_;
  const WindowJoin& join_;
  std::uint32_t columns_, tile_;
  std::uint32_t table_ = 0;
  VmemRegion region_;
};

}  // namespace tpu::compiler
