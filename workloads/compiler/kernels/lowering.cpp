#include "workloads/compiler/kernels/lowering.h"

#include <utility>

#include "workloads/compiler/codegen/kernel_builder.h"

namespace tpu::compiler {

LoweredKernel lowered_kernel(KernelBuilder& builder) {
  LoweredKernel lowered;
  lowered.kernel = builder.finish();
  lowered.vmem_bytes = builder.vmem_bytes();
  return lowered;
}

std::optional<LoweredKernel> lowered_kernel(KernelBuilder& builder, bool may_spill) {
  if (may_spill) return lowered_kernel(builder);
  std::optional<isa::Kernel> kernel = builder.try_finish();
  if (!kernel) return std::nullopt;
  return LoweredKernel{std::move(*kernel), builder.vmem_bytes()};
}

}  // namespace tpu::compiler
