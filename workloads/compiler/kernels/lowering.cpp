#include "workloads/compiler/kernels/lowering.h"

#include <utility>

#include "workloads/compiler/codegen/kernel_builder.h"

namespace tpu::compiler {

LoweredKernel lowered_kernel(KernelBuilder& builder) { return *lowered_kernel(builder, true); }

std::optional<LoweredKernel> lowered_kernel(KernelBuilder& builder, bool may_spill) {
  std::optional<isa::Kernel> kernel = may_spill ? builder.finish() : builder.try_finish();
  if (!kernel) return std::nullopt;
  return LoweredKernel{std::move(*kernel), builder.vmem_bytes(), builder.vmem_use(),
                       builder.cycles(), builder.first_loads()};
}

}  // namespace tpu::compiler
