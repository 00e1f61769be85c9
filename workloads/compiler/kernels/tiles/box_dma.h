#pragma once

#include <cstdint>

#include "workloads/compiler/codegen/kernel_builder.h"
#include "workloads/compiler/ir/array_part.h"

namespace tpu::compiler {

/// Moves a strided box between HBM and VMEM, or several at equal distances, one DMA each. A
/// contiguous box needs no descriptor.
class BoxDma {
 public:
  /// From a box to the next one, where there are several.
  struct Boxes {
    std::uint32_t count = 1;
    std::uint32_t hbm_distance = 0;   ///< Granules.
    std::uint32_t vmem_distance = 0;  ///< VMEM rows.
  };

  BoxDma() = default;
  /// Stores the constant words of a descriptor where one is needed: outside of loops. `runs_vary`:
  /// set_runs() may change the pieces.
  BoxDma(KernelBuilder& builder, bool to_vmem, const StridedBox& box, const Boxes& boxes,
         bool runs_vary = false);
  BoxDma(KernelBuilder& builder, bool to_vmem, const StridedBox& box)
      : BoxDma(builder, to_vmem, box, Boxes()) {}

  /// Starts all boxes, whole; or the first `granules` of each. One BoxDma does always one or always
  /// the other.
  void start(SReg hbm, const VmemAddress& vmem, ScalarOperand flag);
  void start(SReg hbm, const VmemAddress& vmem, ScalarOperand flag, ScalarOperand granules);
  /// Pieces of as many granules from now on, at the same distances.
  void set_run(SReg run);

 private:
  void for_each(SReg hbm, const VmemAddress& vmem, ScalarOperand flag,
                const std::function<void(SReg, const VmemAddress&, ScalarOperand)>& start);

  KernelBuilder* builder_ = nullptr;
  bool to_vmem_ = true;
  StridedBox box_;
  Boxes boxes_;
  bool has_descriptor_ = false;
  DmaDescriptorHandle descriptor_;
};

}  // namespace tpu::compiler
