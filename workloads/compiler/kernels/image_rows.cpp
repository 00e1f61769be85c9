#include "workloads/compiler/kernels/image_rows.h"

namespace tpu::compiler {

ImageRows::ImageRows(KernelBuilder& builder, bool to_vmem, const ImageShape& shape)
    : builder_(builder), shape_(shape), dma_(builder, to_vmem, shape.row) {}

PReg ImageRows::reaches_outside(SReg first) {
  const SReg row = builder_.add(first, shape_.shift);
  const int last = static_cast<int>(shape_.height) - static_cast<int>(shape_.block_rows);
  return builder_.or_(builder_.less(row, 0), builder_.less(last, row));
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
  return builder_.mul(rows, shape_.row_granules());
}

void ImageRows::start_at_once(SReg hbm, SReg first, const VmemAddress& vmem, ScalarOperand flag) {
  const SReg shifted = builder_.add(first, shape_.shift);
  const SReg begin = builder_.max(shifted, 0);
  const SReg address = builder_.add(hbm, builder_.mul(begin, shape_.row_stride));
  SReg row = builder_.mul(builder_.sub(begin, shifted), shape_.pitch);
  if (vmem.base) row = builder_.add(row, vmem.base);
  const VmemAddress place(vmem.region, vmem.offset, row);
  const SReg size = granules(first);
  builder_.guarded(builder_.less(0, size), [&] { dma_.start(address, place, flag, size); });
}

void ImageRows::start(SReg hbm, SReg first, const VmemAddress& vmem, ScalarOperand flag,
                      SReg row_granules) {
  if (shape_.row_granules() == 0) return;
  if (!has_gaps() && !row_granules) return start_at_once(hbm, first, vmem, flag);
  const ScalarOperand size = row_granules ? ScalarOperand(row_granules) : shape_.row.granules();
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
      for (std::uint32_t slice = 0; slice < shape_.slices; ++slice) {
        dma_.start(builder_.add(address, slice * shape_.slice_stride),
                   place.plus(2 * slice * shape_.row.run), flag_reg, size);
      }
    });
  });
}

}  // namespace tpu::compiler
