#pragma once

#include <map>
#include <vector>

#include "models/host/input_pipeline.h"
#include "models/ports.h"

namespace tpu {

/// A host: the module around an InputPipeline and its PCIe links.
class Host : public TimedModule, public HostPort {
 public:
  /// A core on one of its chips.
  struct Core {
    std::uint32_t number = 0;  ///< In the slice.
    std::uint32_t chip = 0;    ///< Among the chips of this host.
    const std::vector<MemoryBlock>* batches = nullptr;
  };
  Host(const sc_core::sc_module_name& name, RunClock& clock, const MachineParams& params,
       const InputPipeline::Workload& workload, const std::vector<Core>& cores);

  void connect(std::uint32_t core, HostClient* client) { clients_[index_.at(core)] = client; }

  void begin_account(std::uint64_t now) override { pipeline_.begin_account(now); }
  /// `host`: its name.
  void add_accounts(const std::string& host, std::uint64_t end, ExactAccounts& accounts) const {
    pipeline_.add_accounts(host, end, accounts);
  }

  void take_infeed(std::uint32_t core, std::uint64_t granules, std::uint64_t token) override;
  void send_outfeed(std::uint32_t core, std::uint64_t bytes, std::uint64_t token) override;
  void describe(StepState& state) const;

 private:
  struct Outfeed {
    std::uint32_t core = 0;  ///< Index in the pipeline.
    std::uint64_t bytes = 0;
    std::uint64_t token = 0;
  };

  void tick() override;
  void start_of_simulation() override { schedule(); }
  void schedule();
  void take_outfeeds();

  InputPipeline pipeline_;
  std::map<std::uint32_t, std::uint32_t> index_;  ///< Core number to index in the pipeline.
  std::vector<HostClient*> clients_;
  std::vector<Outfeed> sent_;  ///< In the present cycle.
};

}  // namespace tpu
