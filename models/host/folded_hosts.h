#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "models/core_classes.h"
#include "models/host/host.h"
#include "models/host/part_names.h"

namespace tpu {

/// The hosts of a folded run: every host is there and serves every core, as in a full run. What the
/// representative of a class asks for, its members ask for, each of its own host; when all of them
/// have been served in the same cycle, the representative is. Else the class splits.
class FoldedHosts : public TimedModule, public HostPort {
 public:
  FoldedHosts(const sc_core::sc_module_name& name, RunClock& clock, const CoreClasses& classes);

  /// A host, and the cores that it feeds.
  void add(std::unique_ptr<Host> host, const std::vector<Host::Core>& cores);
  /// The representative of a class.
  void connect(std::uint32_t of_class, HostClient* client) { clients_[of_class] = client; }

  void begin_account(std::uint64_t now) override {
    for (const std::unique_ptr<Host>& host : hosts_) host->begin_account(now);
  }
  void add_accounts(std::uint64_t end, ExactAccounts& accounts) const {
    for (std::size_t h = 0; h < hosts_.size(); ++h) {
      hosts_[h]->add_accounts(host_name(h), end, accounts);
    }
  }

  void take_infeed(std::uint32_t core, std::uint64_t granules, std::uint64_t token) override;
  void send_outfeed(std::uint32_t core, std::uint64_t bytes, std::uint64_t token) override;
  void describe(StepState& state) const;

 private:
  /// A core as its host sees it.
  struct Member : HostClient {
    FoldedHosts* all = nullptr;
    std::uint32_t core = 0;
    Host* host = nullptr;
    void infeed_arrived(std::uint64_t token, std::vector<std::uint32_t> words,
                        std::uint64_t now) override;
    void outfeed_sent(std::uint64_t token, std::uint64_t now) override;
  };

  void served(std::uint32_t core, bool outfeed, std::uint64_t token);
  void tick() override;

  const CoreClasses& classes_;
  std::vector<HostClient*> clients_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::map<std::uint32_t, std::unique_ptr<Member>> members_;
  /// Of the present cycle, by class, kind and token: 1 for each member that was served.
  std::map<std::tuple<std::uint32_t, bool, std::uint64_t>, std::vector<std::uint64_t>> served_;
};

}  // namespace tpu
