#include "models/host/folded_hosts.h"

namespace tpu {

FoldedHosts::FoldedHosts(const sc_core::sc_module_name& name, RunClock& clock,
                         const CoreClasses& classes)
    : TimedModule(name, clock, Phase::kHost), classes_(classes), clients_(classes.size()) {}

void FoldedHosts::add(std::unique_ptr<Host> host, const std::vector<Host::Core>& cores) {
  for (const Host::Core& core : cores) {
    auto member = std::make_unique<Member>();
    member->all = this;
    member->core = core.number;
    member->host = host.get();
    host->connect(core.number, member.get());
    members_.emplace(core.number, std::move(member));
  }
  hosts_.push_back(std::move(host));
}

void FoldedHosts::take_infeed(std::uint32_t core, std::uint64_t granules, std::uint64_t token) {
  for (const std::uint32_t member : classes_.members(classes_.class_of(core))) {
    members_.at(member)->host->take_infeed(member, granules, token);
  }
}

void FoldedHosts::send_outfeed(std::uint32_t core, std::uint64_t bytes, std::uint64_t token) {
  for (const std::uint32_t member : classes_.members(classes_.class_of(core))) {
    members_.at(member)->host->send_outfeed(member, bytes, token);
  }
}

void FoldedHosts::describe(StepState& state) const {
  if (!served_.empty()) state.leave_open();
  for (const std::unique_ptr<Host>& host : hosts_) host->describe(state);
}

void FoldedHosts::Member::infeed_arrived(std::uint64_t token, std::vector<std::uint32_t>,
                                         std::uint64_t) {
  all->served(core, false, token);
}

void FoldedHosts::Member::outfeed_sent(std::uint64_t token, std::uint64_t) {
  all->served(core, true, token);
}

void FoldedHosts::served(std::uint32_t core, bool outfeed, std::uint64_t token) {
  const std::uint32_t of_class = classes_.class_of(core);
  std::vector<std::uint64_t>& members = served_[{of_class, outfeed, token}];
  members.resize(classes_.members(of_class).size());
  members[classes_.place_of(core)] = 1;
  wake_soon();
}

/// All hosts have acted in this cycle.
void FoldedHosts::tick() {
  const auto served = std::move(served_);
  served_.clear();
  for (const auto& [what, members] : served) {
    const auto& [of_class, outfeed, token] = what;
    require_alike("a batch of the host", of_class, members);
    if (outfeed) {
      clients_[of_class]->outfeed_sent(token, now());
    } else {
      clients_[of_class]->infeed_arrived(token, {}, now());
    }
  }
}

}  // namespace tpu
