#pragma once

#include <cstdint>

#include "models/core/result_queue.h"

namespace tpu {

/// The timing of a pipelined unit: it takes a push an `interval` of cycles; results stand in order
/// `latency` cycles behind their pushes, in a queue, to be popped. So work the transcendental unit
/// (EUP, a push a cycle) and, in v4, the loads of CMEM, whose stores cost their slot alone and
/// whose DMAs (DmaEngine) do not meet the loads. Source: distances in XLA's listings.
class PipelinedPort {
 public:
  PipelinedPort(std::uint32_t interval, std::uint32_t latency, std::uint32_t entries)
      : interval_(interval), latency_(latency), results_(entries) {}

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
