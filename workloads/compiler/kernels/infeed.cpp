#include "workloads/compiler/kernels/infeed.h"

#include "workloads/compiler/codegen/kernel_builder.h"

namespace tpu::compiler {

isa::Kernel infeed_kernel(std::uint32_t granules, const Target& target) {
  KernelBuilder kernel("infeed", target);
  const std::uint32_t flag = kernel.allocate_flag();
  kernel.misc(isa::Opcode::kDmaInfeedToHbm, {granules, kernel.operand(0), flag});
  kernel.wait(flag, granules);
  return kernel.finish();
}

}  // namespace tpu::compiler
