#pragma once

#include <cstdint>

#include "models/core/result_queue.h"
#include "models/params.h"

namespace tpu {

/// The timing of the transpose, reduce and permute unit: one push of any kind per interval;
/// reductions, rotations and permutations into one queue after `xlu_latency_cycles`, transposed
/// rows into another. The last push of a transpose delivers all its results, `transpose_cycles`
/// later, to be popped one per interval.
class Xlu {
 public:
  Xlu(const CoreParams& params, std::uint32_t transpose_cycles)
      : interval_(params.xlu_interval_cycles),
        latency_(params.xlu_latency_cycles),
        transpose_latency_(transpose_cycles),
        results_(params.xlu_queue_entries),
        transposed_(params.xlu_queue_entries) {}

  /// A reduction, rotation or permutation.
  Hazard push(std::uint64_t now) {
    if (now < next_push_) return {Hazard::Kind::kPushEarly, next_push_};
    next_push_ = now + interval_;
    return results_.push(now + latency_);
  }
  /// Eight rows of a transpose; the last push of one delivers `results`, the others 0.
  Hazard push_transpose(std::uint64_t now, std::uint32_t results) {
    if (now < next_push_) return {Hazard::Kind::kPushEarly, next_push_};
    next_push_ = now + interval_;
    for (std::uint32_t i = 0; i < results; ++i) {
      if (Hazard full = transposed_.push(now + transpose_latency_)) return full;
    }
    return {};
  }
  Hazard pop(std::uint64_t now) { return results_.pop(now); }
  Hazard pop_transposed(std::uint64_t now) {
    if (now < next_transposed_pop_) return {Hazard::Kind::kPopEarly, next_transposed_pop_};
    next_transposed_pop_ = now + interval_;
    return transposed_.pop(now);
  }
  std::uint64_t busy_until() const { return next_push_; }

  void save(StateWriter& out) const {
    out.cycle(next_push_);
    out.cycle(next_transposed_pop_);
    results_.save(out);
    transposed_.save(out);
  }
  void load(StateReader& in) {
    next_push_ = in.next();
    next_transposed_pop_ = in.next();
    results_.load(in);
    transposed_.load(in);
  }

 private:
  std::uint32_t interval_;
  std::uint32_t latency_;
  std::uint32_t transpose_latency_;
  ResultQueue results_;
  ResultQueue transposed_;
  std::uint64_t next_push_ = 0;
  std::uint64_t next_transposed_pop_ = 0;
};

}  // namespace tpu
