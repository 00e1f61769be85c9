#include "workloads/compiler/kernels/contraction/image_rows.h"

namespace tpu::compiler {

std::optional<StridedBox> ImageShape::block() const {
  if (slices != 1 || rows_vary || pitch % 2 != 0) return std::nullopt;
  const std::uint32_t vmem_stride = pitch / 2;
  StridedBox box{row_granules(), block_rows, row_stride, vmem_stride};
  if (!row.is_contiguous()) {
    const auto from_piece_to_piece = [this](std::uint32_t stride) {
      return stride == 0 ? row.run : stride;
    };
    box = {row.run, row.runs * block_rows, from_piece_to_piece(row.hbm_stride),
           from_piece_to_piece(row.vmem_stride)};
    if (block_rows > 1 &&
        (row_stride != row.runs * box.hbm_stride || vmem_stride != row.runs * box.vmem_stride)) {
      return std::nullopt;
    }
  }
  const bool has_descriptor =
      box.is_contiguous() || (box.run <= kLargestStride && box.hbm_stride <= kLargestStride &&
                              box.vmem_stride <= kLargestStride);
  return has_descriptor ? std::optional(box) : std::nullopt;
}

ImageRows::ImageRows(KernelBuilder& builder, bool to_vmem, const ImageShape& shape)
    : builder_(builder),
      shape_(shape),
      block_(shape.block()),
      dma_(builder, to_vmem, block_.value_or(shape.row)) {}

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
  if (block_) return start_at_once(hbm, first, vmem, flag);
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
