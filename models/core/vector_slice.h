#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "isa/program.h"

namespace tpu {

/// What is demanded of a kernel that is followed with values off, and the part of its vector code
/// that makes it.
struct VectorDemand {
  bool whole = false;                    ///< All of it.
  std::set<std::uint32_t> instructions;  ///< Stores and pushes to the scalar unit, by number in
                                         ///< Kernel::instructions.
  bool contains(std::uint32_t instruction) const {
    return whole || instructions.count(instruction) != 0;
  }
};

/// The backward slice of a kernel's vector code that a demand reaches, over registers and masks
/// along the control flow. A queue or an array is one thing: when one result of it is needed, all
/// its pushes and pops are. VMEM is no part of it: which stores made the rows that a load reads
/// turns out in the run (Knowledge), and they are demanded then.
struct VectorSlice {
  isa::Kernel code;                          ///< Bundle by bundle as the kernel.
  isa::Kernel other_stores;                  ///< Of them only which rows they overwrite counts.
  std::vector<std::uint32_t> store_numbers;  ///< Of other_stores' instructions, in the kernel.
  std::uint32_t instructions_of_kernel = 0;  ///< Vector instructions, sliced or not.
};

VectorSlice slice_of(const isa::Kernel& kernel, const VectorDemand& demand);

}  // namespace tpu
