#pragma once

#include <cstdint>
#include <systemc>

#include "isa/meaning.h"
#include "models/core/decoded_kernel.h"
#include "models/core/result_queue.h"

namespace tpu {

/// A systolic array as the core sees it. A bundle reaches it in two halves, in either order: the
/// sequencer issues the instruction, the data path brings the registers.
class MatrixPort : public virtual sc_core::sc_interface, public isa::MatrixUnit {
 public:
  /// An instruction for this array issues at `now`, or why it cannot.
  virtual Hazard issue(const QueueOp& op, std::uint64_t now) = 0;
  /// The cycle until which the array takes the rows of the last matmul.
  virtual std::uint64_t busy_until() const = 0;
  /// The cycle in which the data path executes the next bundle.
  virtual void set_cycle(std::uint64_t now) = 0;
};

}  // namespace tpu
