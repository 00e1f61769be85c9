#include "sim/report/time_by_cause.h"

#include <iterator>
#include <numeric>

namespace tpu::report {
namespace {

constexpr std::size_t kFirstWait = 2;  // Behind kIssue and kDelay.

constexpr const char* kTexts[] = {"MXU ports",
                                  "loading weights",
                                  "XLU port",
                                  "EUP port",
                                  "load slot",
                                  "store slot",
                                  "vector ALU slots",
                                  "scalar slots",
                                  "push, pop, DMA slots",
                                  "awaits MXU result",
                                  "awaits XLU result",
                                  "awaits EUP result",
                                  "awaits load",
                                  "awaits vector ALU",
                                  "awaits scalar result",
                                  "fill and drain",
                                  "around DMAs, waits",
                                  "delay slots",
                                  "schedule, unforced",
                                  "slower clock",
                                  "waits for HBM",
                                  "waits for infeed",
                                  "waits for outfeed",
                                  "waits for ICI",
                                  "waits for late core",
                                  "waits for its infeed",
                                  "finished before others"};
static_assert(std::size(kTexts) == kCauses);

}  // namespace

TimeByCause time_by_cause(const Counters& counters) {
  TimeByCause time{};
  for (std::size_t cause = 0; cause < kScheduleCauses; ++cause) {
    time[cause] = static_cast<double>(counters.schedule[cause]);
  }
  for (std::size_t wait = 0; wait < kWaits; ++wait) {
    time[kScheduleCauses + wait] =
        static_cast<double>(counters.core[static_cast<CoreState>(kFirstWait + wait)]);
  }
  return time;
}

double total(const TimeByCause& time) { return std::accumulate(time.begin(), time.end(), 0.0); }

const char* cause_name(std::size_t cause) {
  if (cause < kScheduleCauses) return tpu::to_string(static_cast<ScheduleCause>(cause));
  return tpu::to_string(static_cast<CoreState>(cause - kScheduleCauses + kFirstWait));
}

const char* cause_text(std::size_t cause) { return kTexts[cause]; }

}  // namespace tpu::report
