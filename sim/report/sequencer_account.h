#pragma once

#include <array>
#include <cstddef>

#include "models/machine.h"

namespace tpu::report {

/// Of the sequencer's cycles: those for which the schedule needed a cycle, then those for which the
/// core waited (CoreState without kIssue and kDelay).
constexpr std::size_t kWaits = CycleAccount<CoreState>::kStates - 2;
constexpr std::size_t kSequencerParts = kScheduleCauses + kWaits;

/// What the sequencer did in each cycle. That is no answer to why a step takes long: what hides
/// behind a cycle is not in it (CriticalPath).
using SequencerAccount = std::array<double, kSequencerParts>;
SequencerAccount sequencer_account(const Counters& counters);
double total(const SequencerAccount& account);

/// "mxu_push", "memory_wait": keys of reports.
const char* sequencer_part_name(std::size_t part);

}  // namespace tpu::report
