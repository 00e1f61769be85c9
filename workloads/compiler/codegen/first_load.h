#pragma once

#include <cstdint>

#include "isa/program.h"

namespace tpu::compiler {

/// A DMA from HBM into VMEM that a kernel wants under way when it begins, and that its caller
/// starts, while the kernel before runs. It fills VMEM rows that the kernel touches only behind a
/// wait for the flag.
struct FirstLoad {
  int operand = 0;           ///< Of the kernel: place among its addresses.
  std::uint32_t offset = 0;  ///< Granules behind the operand's address.
  std::uint32_t granules = 0;
  std::uint32_t hbm_runs = 0;  ///< stride << 16 | run of a descriptor's side; both 0: contiguous.
  std::uint32_t vmem_runs = 0;
  std::uint32_t row = 0;  ///< Of VMEM.
  std::uint32_t flag = 0;

  bool is_contiguous() const { return hbm_runs == 0 && vmem_runs == 0; }
  /// Granules from the first to behind the last one, on either side.
  std::uint32_t hbm_extent() const { return extent(hbm_runs); }
  std::uint32_t vmem_extent() const { return extent(vmem_runs); }
  std::uint32_t end_row() const {
    return row + vmem_extent() * (isa::kHbmGranuleBytes / isa::kVmemRowBytes);
  }

 private:
  std::uint32_t extent(std::uint32_t runs) const {
    const std::uint32_t run = runs & 0xffff, stride = runs >> 16;
    if (run == 0 || granules == 0) return granules;
    return (granules - 1) / run * stride + (granules - 1) % run + 1;
  }
};

/// VMEM rows that a kernel touches: so many from row 0 on, and so many up to the last one. More
/// than VMEM has: the kernel can't stand there.
struct VmemUse {
  std::uint32_t below = 0, above = 0;

  bool fits(std::uint64_t all_rows) const { return std::uint64_t{below} + above <= all_rows; }
};

}  // namespace tpu::compiler
