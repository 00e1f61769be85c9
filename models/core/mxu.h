#pragma once

#include <cstdint>
#include <vector>

#include "models/core/result_queue.h"
#include "models/params.h"

namespace tpu {

/// The timing of a systolic array at its ports, the fast form of SystolicArray: eight rows of
/// operands or weights per eight cycles each, results in order after `latency_cycles()`, popped at
/// the same interval. Weights load beside the computation, and their swap costs nothing, but the
/// matmul that swaps them in may not overtake them: its first row enters no earlier than the last
/// row of weights, seven cycles after their push (6,169 plain and 4,524 transposed pushes of XLA's
/// listings for v3 at exactly that distance, none nearer). An array above 128x128 has a port for
/// operands per row part, and for weights and results, with its queue, per column part (assumed: no
/// such array was built).
class Mxu {
 public:
  explicit Mxu(const MxuParams& params)
      : next_rows_(params.row_parts()), columns_(params.column_parts(), ColumnPart(params)) {
    for (std::uint32_t c = 0; c < columns_.size(); ++c) {
      columns_[c].latency = params.latency_cycles(c);
    }
  }

  /// A matmul that makes a result in each of the first `columns` column parts; `swaps`: a .dwg
  /// form, after which the weights are swapped at the next matmul; `eights`: of rows, with a result
  /// each.
  Hazard push_rows(std::uint32_t columns, bool swaps, std::uint64_t now, std::uint32_t eights = 1) {
    if (const Hazard hazard = take(next_rows_[0], Hazard::Kind::kPushEarly, now, eights)) {
      return hazard;
    }
    if (swap_pending_ && now < weights_enter_until_) {
      return {Hazard::Kind::kWeightsEarly, weights_enter_until_};
    }
    swap_pending_ = swaps;
    for (std::uint32_t c = 0; c < columns; ++c) {
      for (std::uint32_t i = 0; i < eights; ++i) {
        const std::uint64_t ready = now + columns_[c].latency + i * MxuParams::push_interval_cycles;
        if (const Hazard hazard = columns_[c].results.push(ready)) return hazard;
      }
    }
    return {};
  }
  void swap_at_next_rows() { swap_pending_ = true; }
  /// Rows that wait for the matmul.
  Hazard latch_rows(std::uint32_t row_part, std::uint64_t now) {
    return take(next_rows_[row_part], Hazard::Kind::kPushEarly, now);
  }
  Hazard push_weights(std::uint32_t column_part, std::uint64_t now) {
    weights_enter_until_ = now + MxuParams::push_interval_cycles - 1;
    return take(columns_[column_part].next_weights, Hazard::Kind::kPushEarly, now);
  }
  Hazard pop(std::uint32_t column_part, std::uint64_t now) {
    ColumnPart& column = columns_[column_part];
    if (const Hazard hazard = take(column.next_pop, Hazard::Kind::kPopEarly, now)) return hazard;
    return column.results.pop(now);
  }
  /// The cycle until which the array takes the rows of the last matmul.
  std::uint64_t busy_until() const { return next_rows_[0]; }

  void save(StateWriter& out) const {
    out.count(swap_pending_ ? 1 : 0);
    out.cycle(weights_enter_until_);
    for (const std::uint64_t next : next_rows_) out.cycle(next);
    for (const ColumnPart& column : columns_) {
      out.cycle(column.next_weights);
      out.cycle(column.next_pop);
      column.results.save(out);
    }
  }
  void load(StateReader& in) {
    swap_pending_ = in.next() != 0;
    weights_enter_until_ = in.next();
    for (std::uint64_t& next : next_rows_) next = in.next();
    for (ColumnPart& column : columns_) {
      column.next_weights = in.next();
      column.next_pop = in.next();
      column.results.load(in);
    }
  }

 private:
  struct ColumnPart {
    explicit ColumnPart(const MxuParams& params) : results(params.result_queue_entries) {}
    std::uint64_t next_weights = 0;
    std::uint64_t next_pop = 0;
    std::uint32_t latency = 0;  ///< From the matmul to the pop.
    ResultQueue results;
  };
  /// A port that moves eight rows per interval.
  static Hazard take(std::uint64_t& next, Hazard::Kind early, std::uint64_t now,
                     std::uint32_t eights = 1) {
    if (now < next) return {early, next};
    next = now + eights * MxuParams::push_interval_cycles;
    return {};
  }

  bool swap_pending_ = true;  ///< The first matmul of all swaps, too.
  std::uint64_t weights_enter_until_ = 0;
  std::vector<std::uint64_t> next_rows_;
  std::vector<ColumnPart> columns_;
};

}  // namespace tpu
