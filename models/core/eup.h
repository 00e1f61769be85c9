#pragma once

#include <cstdint>

#include "models/core/result_queue.h"
#include "models/params.h"

namespace tpu {

/// The timing of the transcendental unit: a push a cycle, results in order after
/// `eup_latency_cycles`.
class Eup {
 public:
  explicit Eup(const CoreParams& params)
      : latency_(params.eup_latency_cycles), results_(params.eup_queue_entries) {}

  Hazard push(std::uint64_t now) {
    if (now < next_push_) return {Hazard::Kind::kPushEarly, next_push_};
    next_push_ = now + 1;
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
  std::uint32_t latency_;
  ResultQueue results_;
  std::uint64_t next_push_ = 0;
};

}  // namespace tpu
