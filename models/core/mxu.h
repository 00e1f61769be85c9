#pragma once

#include <cstdint>

#include "models/core/result_queue.h"
#include "models/params.h"

namespace tpu {

/// The timing of a systolic array: eight rows of operands or weights per `push_interval_cycles`
/// each, results in order after `matmul_latency_cycles`, popped at the same interval. Weights load
/// beside the computation, and the swap of weights costs nothing. Left out: the array itself (a
/// matmul that overtakes the loading of its weights is not noticed here).
class Mxu {
 public:
  explicit Mxu(const MxuParams& params)
      : interval_(params.push_interval_cycles),
        latency_(params.matmul_latency_cycles),
        results_(params.result_queue_entries) {}

  Hazard push_rows(std::uint64_t now) {
    if (now < next_rows_) return {Hazard::Kind::kPushEarly, next_rows_};
    next_rows_ = now + interval_;
    return results_.push(now + latency_);
  }
  Hazard push_weights(std::uint64_t now) {
    if (now < next_weights_) return {Hazard::Kind::kPushEarly, next_weights_};
    next_weights_ = now + interval_;
    return {};
  }
  Hazard pop(std::uint64_t now) {
    if (now < next_pop_) return {Hazard::Kind::kPopEarly, next_pop_};
    next_pop_ = now + interval_;
    return results_.pop(now);
  }
  /// The cycle until which the array takes the rows of the last push.
  std::uint64_t busy_until() const { return next_rows_; }

  void save(StateWriter& out) const {
    out.cycle(next_rows_);
    out.cycle(next_weights_);
    out.cycle(next_pop_);
    results_.save(out);
  }
  void load(StateReader& in) {
    next_rows_ = in.next();
    next_weights_ = in.next();
    next_pop_ = in.next();
    results_.load(in);
  }

 private:
  std::uint32_t interval_;
  std::uint32_t latency_;
  ResultQueue results_;
  std::uint64_t next_rows_ = 0;
  std::uint64_t next_weights_ = 0;
  std::uint64_t next_pop_ = 0;
};

}  // namespace tpu
