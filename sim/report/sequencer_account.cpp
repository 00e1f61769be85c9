#include "sim/report/sequencer_account.h"

#include <numeric>

namespace tpu::report {
namespace {

constexpr std::size_t kFirstWait = 2;  // Behind kIssue and kDelay.

}  // namespace

SequencerAccount sequencer_account(const Counters& counters) {
  SequencerAccount account{};
  for (std::size_t cause = 0; cause < kScheduleCauses; ++cause) {
    account[cause] = static_cast<double>(counters.schedule[cause]);
  }
  for (std::size_t wait = 0; wait < kWaits; ++wait) {
    account[kScheduleCauses + wait] =
        static_cast<double>(counters.core[static_cast<CoreState>(kFirstWait + wait)]);
  }
  return account;
}

double total(const SequencerAccount& account) {
  return std::accumulate(account.begin(), account.end(), 0.0);
}

const char* sequencer_part_name(std::size_t part) {
  if (part < kScheduleCauses) return tpu::to_string(static_cast<ScheduleCause>(part));
  return tpu::to_string(static_cast<CoreState>(part - kScheduleCauses + kFirstWait));
}

}  // namespace tpu::report
