#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "models/machine.h"

namespace tpu::report {

/// Causes of time: those for which the schedule needed a cycle, then those for which a core waited
/// (CoreState without kIssue and kDelay). Each cycle of a core has exactly one.
constexpr std::size_t kWaits = CycleAccount<CoreState>::kStates - 2;
constexpr std::size_t kCauses = kScheduleCauses + kWaits;

/// Cycles by cause.
using TimeByCause = std::array<double, kCauses>;
TimeByCause time_by_cause(const Counters& counters);
double total(const TimeByCause& time);

/// "mxu_push", "memory_wait": keys of reports and files.
const char* cause_name(std::size_t cause);
/// "MXU push slots", "waits for the HBM": for people.
const char* cause_text(std::size_t cause);

}  // namespace tpu::report
