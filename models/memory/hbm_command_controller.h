#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/memory/hbm_command_channel.h"
#include "models/memory/hbm_model.h"

namespace tpu {

/// The slow twin of HbmController: the channels behind one core, command by command. It shares the
/// parameters with it and nothing else. Consecutive granules lie in consecutive channels, in an
/// order that turns by the sum of the digits of what is above; a request is done `latency_cycles`
/// after the last of its data has passed.
class HbmCommandController : public HbmModel {
 public:
  HbmCommandController(const HbmParams& params, std::uint32_t clock_mhz,
                       std::uint32_t cores_per_chip);
  HbmCommandController(const HbmCommandController&) = delete;  // the channels refer to timing_
  HbmCommandController& operator=(const HbmCommandController&) = delete;

  void submit(const HbmRequest& request, std::uint64_t now) override;
  std::optional<std::uint64_t> next_event() const override;
  const std::vector<HbmRequest>& advance(std::uint64_t now) override;

  void keep_history() override {
    for (auto& channel : channels_) channel.keep_history();
  }
  void begin_account(std::uint64_t now) override;
  void describe(StepState& state) override { state.leave_open(); }
  void add_accounts(std::uint32_t core, std::uint64_t end, ExactAccounts& accounts) override;

  std::vector<HbmCommandChannel>& channels() { return channels_; }

 private:
  struct Slot {
    HbmRequest request;
    std::uint64_t left = 0;  ///< Bursts whose command has not been issued.
    std::uint64_t data_end = 0;
  };

  void advance_channels(std::uint64_t now);
  void add_granule(bool write, std::uint64_t granule, std::uint32_t slot, std::uint64_t arrival);

  const HbmCommandTiming timing_;
  const std::uint64_t latency_;
  std::vector<HbmCommandChannel> channels_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_slots_;
  std::vector<std::uint32_t> waiting_;  ///< Slots in order of arrival.
  std::vector<HbmRequest> result_;      ///< Of advance().
  std::uint64_t clock_ = 0;             ///< That the channels have reached.
  std::uint64_t account_begin_ = 0;     ///< Memory clock.
};

}  // namespace tpu
