#include "models/host/host.h"

#include <algorithm>

namespace tpu {
namespace {

std::vector<InputPipeline::Fed> fed(const std::vector<Host::Core>& cores) {
  std::vector<InputPipeline::Fed> result;
  result.reserve(cores.size());
  for (const Host::Core& core : cores) result.push_back({core.chip, core.batches});
  return result;
}

}  // namespace

Host::Host(const sc_core::sc_module_name& name, RunClock& clock, const MachineParams& params,
           const InputPipeline::Workload& workload, const std::vector<Core>& cores)
    : TimedModule(name, clock, Phase::kHost),
      pipeline_(params, workload, fed(cores)),
      clients_(cores.size()) {
  for (const Core& core : cores) {
    index_.emplace(core.number, static_cast<std::uint32_t>(index_.size()));
  }
}

void Host::take_infeed(std::uint32_t core, std::uint64_t granules, std::uint64_t token) {
  pipeline_.settle(now());
  pipeline_.request(index_.at(core), granules, token);
  wake_soon();
}

void Host::send_outfeed(std::uint32_t core, std::uint64_t bytes, std::uint64_t token) {
  sent_.push_back({index_.at(core), bytes, token});
  wake_at(now(), Phase::kDepartures);
}

void Host::describe(StepState& state) const {
  if (!sent_.empty()) state.leave_open();
  pipeline_.describe(state);
}

void Host::tick() {
  if (phase() == Phase::kDepartures) take_outfeeds();
  for (InputPipeline::Done& done : pipeline_.advance(now())) {
    HostClient* client = clients_[done.core];
    if (done.outfeed) {
      client->outfeed_sent(done.token, now());
    } else {
      client->infeed_arrived(done.token, std::move(done.words), now());
    }
  }
  schedule();
}

/// What cores have sent in the present cycle, by their numbers: they share the links of PCIe.
void Host::take_outfeeds() {
  std::stable_sort(sent_.begin(), sent_.end(),
                   [](const Outfeed& a, const Outfeed& b) { return a.core < b.core; });
  for (const Outfeed& outfeed : sent_) {
    pipeline_.send_outfeed(outfeed.core, outfeed.bytes, outfeed.token, now());
  }
  sent_.clear();
}

void Host::schedule() {
  if (const std::optional<std::uint64_t> next = pipeline_.next_event()) {
    wake_at(std::max(*next, now()));
  }
}

}  // namespace tpu
