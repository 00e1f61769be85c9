#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "models/memory/hbm_channel.h"
#include "models/memory/hbm_mapping.h"
#include "models/memory/hbm_model.h"
#include "models/memory/hbm_queue.h"
#include "models/params.h"

namespace tpu {

/// The channels behind one core, in cycles of the core clock: spreads the granules of a request
/// over its pseudo channels (HbmChannel), which work independently of each other. A request is
/// done `latency_cycles` after the last of its data has passed.
class HbmController : public HbmModel {
 public:
  HbmController(const HbmParams& params, std::uint32_t clock_mhz, std::uint32_t cores_per_chip);
  HbmController(const HbmController&) = delete;  // the channels refer to timing_
  HbmController& operator=(const HbmController&) = delete;

  void submit(const HbmRequest& request, std::uint64_t now) override;
  std::optional<std::uint64_t> next_event() const override;
  std::optional<std::uint64_t> next_event_of(std::uint32_t flag) const override;
  const std::vector<HbmRequest>& advance(std::uint64_t now) override;
  void keep_history() override {
    keeps_history_ = true;
    for (auto& channel : channels_) channel.keep_history();
  }
  void begin_account(std::uint64_t now) override;
  void describe(StepState& state) override;
  void add_accounts(std::uint32_t core, std::uint64_t end, ExactAccounts& accounts) override;

  bool idle() const { return waiting_.empty(); }

 private:
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  struct Slot {
    HbmRequest request;
    std::uint64_t left = 0;      ///< Granules whose data has not passed.
    std::uint64_t data_end = 0;  ///< Memory clock, of what has passed.
    /// A cycle before which it is not done; the exact one when all its data has passed.
    std::uint64_t earliest = 0;
    std::uint64_t first_layer = 0, last_layer = 0;  ///< In the queue of its direction.
    /// The channel that is expected to be the last; kNone before anybody has asked.
    std::uint32_t fullest = kNone;
  };

  std::uint32_t new_slot();
  void choose_fullest(Slot& slot);
  bool done(Slot& slot, std::uint64_t now);
  void advance_channel(HbmChannel& channel);
  void advance_channels(std::uint64_t now);
  HbmDirection direction(const Slot& slot) const {
    return slot.request.write ? kHbmWrite : kHbmRead;
  }

  const HbmTiming timing_;
  const HbmMapping mapping_;
  const std::uint64_t latency_;
  std::array<HbmQueue, 2> queues_;  ///< Of each direction.
  std::vector<HbmChannel> channels_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_slots_;
  std::vector<std::uint32_t> waiting_;  ///< Slots in order of arrival.
  std::vector<std::uint32_t> done_;     ///< In advance().
  std::vector<HbmRequest> result_;      ///< Of advance().
  std::uint64_t next_event_ = kNever;
  bool keeps_history_ = false;
  std::uint64_t clock_ = 0;          ///< Memory clock of the last advance().
  std::uint64_t account_begin_ = 0;  ///< Memory clock.
};

}  // namespace tpu
