#pragma once

#include <cstdint>
#include <vector>

#include "models/core/result_queue.h"
#include "models/params.h"

namespace tpu {

/// The timing of a systolic array: eight rows of operands or weights per `push_interval_cycles`
/// each, results in order after `latency_cycles()`, popped at the same interval. Weights load
/// beside the computation, and the swap of weights costs nothing. An array above 128x128 has a port
/// for operands per row part, and for weights and results, with its queue, per column part
/// (assumed: no such array was built). Left out: the array itself (a matmul that overtakes the
/// loading of its weights is not noticed here).
class Mxu {
 public:
  explicit Mxu(const MxuParams& params)
      : interval_(params.push_interval_cycles),
        latency_(params.latency_cycles()),
        next_rows_(params.row_parts()),
        columns_(params.column_parts(), ColumnPart(params)) {}

  /// A matmul that makes a result in each of the first `columns` column parts.
  Hazard push_rows(std::uint32_t columns, std::uint64_t now) {
    if (const Hazard hazard = take(next_rows_[0], Hazard::Kind::kPushEarly, now)) return hazard;
    for (std::uint32_t c = 0; c < columns; ++c) {
      if (const Hazard hazard = columns_[c].results.push(now + latency_)) return hazard;
    }
    return {};
  }
  /// Rows that wait for the matmul.
  Hazard latch_rows(std::uint32_t row_part, std::uint64_t now) {
    return take(next_rows_[row_part], Hazard::Kind::kPushEarly, now);
  }
  Hazard push_weights(std::uint32_t column_part, std::uint64_t now) {
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
    for (const std::uint64_t next : next_rows_) out.cycle(next);
    for (const ColumnPart& column : columns_) {
      out.cycle(column.next_weights);
      out.cycle(column.next_pop);
      column.results.save(out);
    }
  }
  void load(StateReader& in) {
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
    ResultQueue results;
  };
  /// A port that moves eight rows per interval.
  Hazard take(std::uint64_t& next, Hazard::Kind early, std::uint64_t now) const {
    if (now < next) return {early, next};
    next = now + interval_;
    return {};
  }

  std::uint32_t interval_;
  std::uint32_t latency_;
  std::vector<std::uint64_t> next_rows_;
  std::vector<ColumnPart> columns_;
};

}  // namespace tpu
