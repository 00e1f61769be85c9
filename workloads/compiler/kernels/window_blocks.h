#pragma once

#include <cstdint>
#include <optional>

#include "workloads/compiler/codegen/kernel_builder.h"

namespace tpu::compiler {

/// A kernel of a convolution (or its gradient) in HBM: a matrix of tiles per position of the
/// window; and the blocks of rows and columns of it that a kernel moves. In VMEM each position
/// takes `block_rows` rows of tiles.
struct WindowShape {
  std::uint32_t positions = 1;
  std::uint32_t tile_granules = 4;
  std::uint32_t rows = 1, columns = 1;  ///< Tiles of a matrix.
  std::uint32_t block_rows = 16;        ///< The last block may have fewer.
  std::uint32_t block_columns = 1;      ///< Divides `columns`.
};

/// Moves such blocks, one DMA per position.
class WindowBlocks {
 public:
  /// Stores the constant words of a descriptor where one is needed: outside of loops.
  WindowBlocks(KernelBuilder& builder, bool to_vmem, const WindowShape& shape);

  /// An absent block number is 0.
  void start(SReg hbm, SReg row_block, SReg column_block, const VmemAddress& vmem,
             ScalarOperand flag);
  ScalarOperand granules(SReg row_block);

 private:
  ScalarOperand position_granules(SReg row_block, std::uint32_t factor);

  KernelBuilder& builder_;
  bool to_vmem_;
  WindowShape shape_;
  std::optional<DmaDescriptorHandle> descriptor_;
};

}  // namespace tpu::compiler
