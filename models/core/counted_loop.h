#pragma once

#include <cstdint>

#include "models/core/decoded_kernel.h"

namespace tpu {

/// The scalar operations of a block that branches back to its own begin, where a trip leaves one
/// register to the next one: a counter, to which it adds a constant and which it compares with a
/// bound that stands still. All else that a trip computes follows from the counter, so trips behind
/// which another one follows can be counted in place of executed.
struct CountedLoop {
  std::uint8_t counter = scalar_file::kZero;  ///< kZero: the operations are no such loop.
  std::uint32_t step = 0;
  std::uint32_t offset = 0;  ///< To the counter before a trip; that is what the trip compares.
  ScalarOperand bound;

  bool counts() const { return counter != scalar_file::kZero; }
  /// How many trips in a row are below the bound, the first with this counter before it.
  std::uint64_t trips(std::uint32_t counter_before, std::uint32_t bound_value) const;
};

CountedLoop counted_loop(const MicroOp* begin, const MicroOp* end);

}  // namespace tpu
