#pragma once

#include <memory>

#include "models/memory/hbm_model.h"
#include "models/ports.h"

namespace tpu {

/// The half of a chip's HBM behind one core: the module around an HbmController or, as its slow
/// twin, an HbmCommandController. It has events of
/// the kernel only while something is under way whose end others than the core may notice, or the
/// core waits.
class Hbm : public TimedModule, public HbmPort {
 public:
  Hbm(const sc_core::sc_module_name& name, RunClock& clock, const MachineParams& params,
      const RunOptions& options);

  /// Those of its channels, when they have ended.
  void add_accounts(ExactAccounts& accounts) const {
    accounts.insert(accounts.end(), accounts_.begin(), accounts_.end());
  }

  void begin_account(std::uint64_t now) override { model_->begin_account(now); }
  void end_account(std::uint32_t core, std::uint64_t end) override {
    model_->add_accounts(core, end, accounts_);
  }
  void submit(const HbmRequest& request, std::uint64_t now) override;
  void advance(std::uint64_t cycle) override;
  std::optional<std::uint64_t> next_event() const override { return model_->next_event(); }
  std::optional<std::uint64_t> next_event_of(std::uint32_t flag) const override {
    return model_->next_event_of(flag);
  }
  void set_awaited(bool awaited) override;
  void describe(StepState& state) override { model_->describe(state); }

 private:
  void tick() override;
  void schedule();

  std::unique_ptr<HbmModel> model_;
  std::uint32_t exact_ = 0;  ///< Requests under way that are.
  bool awaited_ = false;
  ExactAccounts accounts_;
};

}  // namespace tpu
