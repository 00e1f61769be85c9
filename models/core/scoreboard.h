#pragma once

#include <cstdint>
#include <vector>

#include "models/core/decoded_kernel.h"
#include "models/core/matrix_port.h"
#include "models/core/mxu.h"
#include "models/core/pipelined_port.h"
#include "models/core/slow_writes.h"
#include "models/core/xlu.h"
#include "models/machine.h"
#include "models/params.h"

namespace tpu {

/// The part of the core that remembers from cycle to cycle: registers on their way, the intervals
/// and queues of MXUs, XLU and EUP, the queue to the scalar unit. It checks each bundle against
/// them; real hardware has no such check, its compiler keeps to the latencies. XLA's code for v4
/// does not (CodeConventions::interlocked): there a push or pop that comes too early waits. Its
/// state relative to a cycle can be written down and read back, so that a stretch of bundles with
/// the same state before it needs to be checked once only.
class Scoreboard {
 public:
  using State = std::vector<std::uint32_t>;

  /// A bundle that cannot issue: why, and the push or pop in it, or nullptr for a register.
  struct Violation {
    Hazard hazard;
    const QueueOp* op = nullptr;
    explicit operator bool() const { return static_cast<bool>(hazard); }
  };

  /// `arrays`: the systolic arrays that take the place of the MXUs' timing, or none.
  explicit Scoreboard(const CoreParams& params, const std::vector<MatrixPort*>& arrays = {});

  /// Issues bundle `index` at `now`; `guards` holds a bit for each of its guarded pushes and pops.
  Violation issue(const DecodedKernel& kernel, std::size_t index, std::uint64_t guards,
                  std::uint64_t now);

  void set_conventions(const isa::CodeConventions& conventions) {
    interlocked_ = conventions.interlocked;
    xlus_.assign(conventions.xlus, xlus_.front());
  }
  /// The cycles that interlocks have held bundles since the last call.
  std::uint32_t take_held() {
    const std::uint64_t held = held_;
    held_ = 0;
    return static_cast<std::uint32_t>(held);
  }

  /// No register is on its way: bundles that touch no unit need no check.
  bool registers_settled() const { return writes_.empty(); }

  State save(std::uint64_t now);
  /// The state as of cycle 0.
  void load(const State& state);

  /// Of an MXU, one that the machine does not have included, or of the first XLU,
  /// whose account is the one that there is.
  std::uint64_t busy_until(Unit unit) const {
    if (unit == Unit::kXlu) return xlus_.front().busy_until();
    const std::size_t mxu = static_cast<std::size_t>(unit) - static_cast<std::size_t>(Unit::kMxu0);
    if (mxu >= mxus_.size()) return 0;
    return arrays_.empty() ? mxus_[mxu].busy_until() : arrays_[mxu]->busy_until();
  }

 private:
  Hazard act(const QueueOp& op, std::uint64_t now);
  bool hold(const Hazard& hazard, std::uint64_t now);

  std::vector<MatrixPort*> arrays_;
  SlowWrites writes_;
  std::vector<Mxu> mxus_;
  std::vector<Xlu> xlus_;
  PipelinedPort eup_;
  ResultQueue to_scalar_;
  std::uint32_t to_scalar_latency_;
  PipelinedPort cmem_;
  bool interlocked_ = false;
  std::uint64_t held_ = 0;
};

}  // namespace tpu
