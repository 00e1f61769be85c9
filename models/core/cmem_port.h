#pragma once

#include <cstdint>

#include "models/core/result_queue.h"
#include "models/params.h"

namespace tpu {

/// The timing of loads of CMEM: one per interval, results in order after `load_latency_cycles`, to
/// be popped. Stores cost their slot alone; DMAs (DmaEngine) do not meet the loads. Source:
/// distances in XLA's listings for v4.
class CmemPort {
 public:
  explicit CmemPort(const CmemParams& params)
      : interval_(params.load_interval_cycles),
        latency_(params.load_latency_cycles),
        results_(params.mib == 0 ? 0 : params.queue_entries) {}

  Hazard push(std::uint64_t now) {
    if (now < next_push_) return {Hazard::Kind::kPushEarly, next_push_};
    next_push_ = now + interval_;
    return results_.push(now + latency_);
  }
  Hazard pop(std::uint64_t now) { return results_.pop(now); }

  void save(StateWriter& out) const {
    out.cycle(next_push_);
    results_.save(out);
  }
  void load(StateReader& in) {
    next_push_ = in.next();
    results_.load(in);
  }

 private:
  std::uint32_t interval_;
  std::uint32_t latency_;
  ResultQueue results_;
  std::uint64_t next_push_ = 0;
};

}  // namespace tpu
