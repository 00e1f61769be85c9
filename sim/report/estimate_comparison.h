#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/report/summary.h"

namespace tpu::report {

/// Why our time of an operation is not XLA's estimate: a part of our time that says so alone.
///
/// Longer than the estimate: kSchedule, when the bundles and the empty cycles between them take
/// longer than it and half of our time; kHbm, when the bytes moved do at the pins; else the wait
/// (memory, ICI, host) with most cycles. Shorter: what fills our time most: kHbm, kSchedule or a
/// wait (for memory: but what the pins are busy).
enum class EstimateReason : std::uint8_t { kSchedule, kHbm, kMemoryWait, kIciWait, kHostWait };
const char* to_string(EstimateReason reason);

/// An operation beside XLA's estimate of it. Cycles over all its executions in the run.
struct EstimatedOp {
  std::size_t op = 0;  ///< Index into Summary::ops.
  double cycles = 0;
  double estimated_cycles = 0;
  double pin_cycles = 0;       ///< That the pins of the HBM need for the bytes it moves.
  double schedule_cycles = 0;  ///< Of bundles, and of the empty cycles that the schedule asks for.
  double wait_cycles = 0;      ///< Of the wait that is the reason.
  EstimateReason reason = EstimateReason::kSchedule;

  bool is_wait() const {
    return reason != EstimateReason::kSchedule && reason != EstimateReason::kHbm;
  }
  double ratio() const { return cycles / estimated_cycles; }
  /// Ours is off the estimate by more than a quarter of the smaller one.
  bool differs() const { return ratio() > 1.25 || ratio() < 1 / 1.25; }
};

/// Operations that differ in one direction for one reason.
struct EstimateGroup {
  EstimateReason reason = EstimateReason::kSchedule;
  bool is_longer = false;  ///< Ours.
  std::size_t count = 0, differing = 0;
  double cycles = 0, estimated_cycles = 0, pin_cycles = 0, schedule_cycles = 0, wait_cycles = 0;
};

/// Our times beside XLA's own estimates, which are shown and never used.
struct EstimateComparison {
  std::vector<EstimatedOp> ops;  ///< Largest difference in cycles first.
  std::vector<EstimateGroup> groups;
  double cycles = 0, estimated_cycles = 0;  ///< Of the operations that have one.
  std::size_t without = 0;                  ///< Operations that XLA estimates not: collectives, ...
  double cycles_without = 0;
};

EstimateComparison compare_with_estimates(const traces::RunRecord& record, const Summary& summary);

/// The reason in words, with its figures.
std::string reason_text(const EstimatedOp& estimated, const OpSummary& op);
std::string reason_text(const EstimateGroup& group);

}  // namespace tpu::report
