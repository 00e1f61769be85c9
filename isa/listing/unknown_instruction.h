#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/error.h"

namespace tpu::isa {

/// An instruction that a listing holds and the table of opcodes lacks.
struct UnknownInstruction {
  std::string text;      ///< "vand.u32.u8".
  SourceLocation place;  ///< Of the first.
  std::string kernel;  ///< That holds the first; empty where the reader was given a single listing.
  std::uint64_t count = 0;
  std::uint32_t kernels = 1;  ///< How many listings hold it.
};

/// Adds what one kernel holds to what those before it hold.
void add_unknown(const std::vector<UnknownInstruction>& of_kernel, const std::string& kernel,
                 std::vector<UnknownInstruction>& all);

/// Throws WorkloadError with the place of the first instruction and the names of all; nothing
/// happens where there is none.
void refuse_unknown(const std::vector<UnknownInstruction>& unknown);

}  // namespace tpu::isa
