#include "workloads/compiler/kernels/collective/replica_id.h"

#include "workloads/compiler/codegen/kernel_builder.h"

namespace tpu::compiler {

isa::Kernel replica_id_kernel(const Target& target) {
  KernelBuilder kernel("replica-id", target);
  const SReg to = kernel.operand(0);
  const std::uint32_t flag = kernel.allocate_flag();
  const VmemRegion rows = kernel.allocate_vmem(8);
  const SReg before = kernel.mul(kernel.load_smem(kChipIdWord), target.cores_per_chip);
  kernel.store(rows, kernel.splat(kernel.add(before, kernel.load_smem(kCoreIdWord))));
  kernel.dma_out(rows, to, 1, flag);
  kernel.wait(flag, 1);
  return kernel.finish();
}

}  // namespace tpu::compiler
