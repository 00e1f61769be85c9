#include "workloads/compiler/kernels/image_rows.h"

namespace tpu::compiler {

ImageRows::ImageRows(KernelBuilder& builder, bool to_vmem, const ImageShape& shape)
    : builder_(builder), to_vmem_(to_vmem), shape_(shape) {
  const bool is_one_run = shape_.run == shape_.row_granules || shape_.run_stride == shape_.run;
  if (is_one_run && shape_.slices == 1) shape_.run = 0;
  if (shape_.run == 0) return;
  DmaShape dma;
  dma.granules = shape_.row_granules / shape_.slices;
  dma.hbm_run = shape_.run;
  dma.hbm_stride = shape_.run_stride;
  if (shape_.slices > 1) {
    dma.vmem_run = shape_.run;
    dma.vmem_stride = shape_.slices * shape_.run;
  }
  descriptor_ = builder.descriptor(to_vmem, dma);
}

PReg ImageRows::is_inside(SReg first, SReg index) {
  const SReg row = builder_.add(builder_.add(first, index), shape_.shift);
  return builder_.and_(builder_.less(-1, row), builder_.less(row, shape_.height));
}

SReg ImageRows::granules(SReg first, SReg row_granules) {
  const SReg shifted = builder_.add(first, shape_.shift);
  const SReg begin = builder_.max(shifted, 0);
  const SReg end = builder_.min(builder_.add(shifted, shape_.block_rows), shape_.height);
  const SReg rows = builder_.max(builder_.sub(end, begin), 0);
  if (row_granules) return builder_.multiply(rows, row_granules);
  return builder_.mul(rows, shape_.row_granules);
}

void ImageRows::start_at_once(SReg hbm, SReg first, const VmemAddress& vmem, ScalarOperand flag) {
  const SReg shifted = builder_.add(first, shape_.shift);
  const SReg begin = builder_.max(shifted, 0);
  const SReg address = builder_.add(hbm, builder_.mul(begin, shape_.row_stride));
  SReg row = builder_.mul(builder_.sub(begin, shifted), shape_.pitch);
  if (vmem.base) row = builder_.add(row, vmem.base);
  const VmemAddress place(vmem.region, vmem.offset, row);
  const SReg size = granules(first);
  builder_.guarded(builder_.less(0, size), [&] {
    to_vmem_ ? builder_.dma_in(address, place, size, flag)
             : builder_.dma_out(place, address, size, flag);
  });
}

void ImageRows::start(SReg hbm, SReg first, const VmemAddress& vmem, ScalarOperand flag,
                      SReg row_granules) {
  if (!has_gaps() && !row_granules) return start_at_once(hbm, first, vmem, flag);
  const ScalarOperand size = row_granules ? ScalarOperand(row_granules) : shape_.row_granules;
  SReg flag_reg = flag.reg ? flag.reg : builder_.constant(flag.immediate);
  const std::uint32_t before = static_cast<std::uint32_t>(shape_.shift) * shape_.row_stride;
  const SReg origin =
      builder_.add(builder_.add(hbm, before), builder_.mul(first, shape_.row_stride));
  builder_.new_block();
  builder_.loop(shape_.block_rows, [&](SReg index) {
    const SReg address = builder_.add(origin, builder_.mul(index, shape_.row_stride));
    SReg row = builder_.mul(index, shape_.pitch);
    if (vmem.base) row = builder_.add(row, vmem.base);
    const VmemAddress place(vmem.region, vmem.offset, row);
    builder_.guarded(is_inside(first, index), [&] {
      for (std::uint32_t slice = 1; slice < shape_.slices; ++slice) {
        builder_.start(descriptor_, builder_.add(address, slice * shape_.slice_stride),
                       place.plus(2 * slice * shape_.run), flag_reg);
      }
      if (shape_.slices > 1) {
        builder_.start(descriptor_, address, place, flag_reg);
      } else if (shape_.run != 0) {
        builder_.start(descriptor_, address, place, flag_reg, size);
      } else if (to_vmem_) {
        builder_.dma_in(address, place, size, flag_reg);
      } else {
        builder_.dma_out(place, address, size, flag_reg);
      }
    });
  });
}

}  // namespace tpu::compiler
