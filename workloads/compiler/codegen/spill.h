#pragma once

#include <cstdint>

#include "workloads/compiler/codegen/block.h"

namespace tpu::compiler {

/// VMEM rows that no region of the kernel has, for values that wait there.
struct SpillSpace {
  std::uint64_t next_row = 0;
  std::uint64_t end_row = 0;
  std::uint32_t next_region = 0;
};

/// Lets values of a block wait in VMEM, so that in program order no more than `most` of a register
/// file are needed at once: of too many that wait for a reader, the one whose reader is the
/// farthest is stored behind its definition and loaded again before each reader behind that place.
/// Masks wait as 1 and 0. Values of other blocks, those that a variable takes over and the branch's
/// condition stay where they are. False where nothing can be done: a file of the scalar unit, no
/// space, or no value that may wait.
bool spill(KernelDraft& draft, std::uint32_t block, RegisterFile file, std::uint32_t most,
           SpillSpace& space);

}  // namespace tpu::compiler
