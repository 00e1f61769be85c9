#include "workloads/compiler/kernels/tiles/box_dma.h"

namespace tpu::compiler {

BoxDma::BoxDma(KernelBuilder& builder, bool to_vmem, const StridedBox& box, const Boxes& boxes,
               bool runs_vary)
    : builder_(&builder),
      to_vmem_(to_vmem),
      box_(box),
      boxes_(boxes),
      has_descriptor_(runs_vary || !box.is_contiguous()) {
  if (has_descriptor_) descriptor_ = builder.descriptor(to_vmem, box);
}

void BoxDma::set_run(SReg run) {
  builder_->set_runs(descriptor_, builder_->or_(run, box_.hbm_stride << 16),
                     builder_->or_(run, box_.vmem_stride << 16));
}

void BoxDma::for_each(SReg hbm, const VmemAddress& vmem, ScalarOperand flag,
                      const std::function<void(SReg, const VmemAddress&, ScalarOperand)>& start) {
  if (boxes_.count == 1) return start(hbm, vmem, flag);
  const SReg flag_reg = flag.reg ? flag.reg : builder_->constant(flag.immediate);
  builder_->new_block();
  builder_->loop(boxes_.count, [&](SReg number) {
    const SReg from = builder_->add(hbm, builder_->mul(number, boxes_.hbm_distance));
    VmemAddress to = vmem;
    to.base = builder_->mul(number, boxes_.vmem_distance);
    if (vmem.base) to.base = builder_->add(to.base, vmem.base);
    start(from, to, flag_reg);
  });
}

void BoxDma::start(SReg hbm, const VmemAddress& vmem, ScalarOperand flag) {
  if (!has_descriptor_) return start(hbm, vmem, flag, box_.granules());
  for_each(hbm, vmem, flag, [&](SReg from, const VmemAddress& to, ScalarOperand raised) {
    builder_->start(descriptor_, from, to, raised);
  });
}

void BoxDma::start(SReg hbm, const VmemAddress& vmem, ScalarOperand flag, ScalarOperand granules) {
  for_each(hbm, vmem, flag, [&](SReg from, const VmemAddress& to, ScalarOperand raised) {
    if (has_descriptor_) {
      builder_->start(descriptor_, from, to, raised, granules);
    } else if (to_vmem_) {
      builder_->dma_in(from, to, granules, raised);
    } else {
      builder_->dma_out(to, from, granules, raised);
    }
  });
}

}  // namespace tpu::compiler
