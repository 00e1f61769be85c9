#include "models/memory/hbm_command_controller.h"

#include <algorithm>

#include "sim/base/error.h"

namespace tpu {

HbmCommandController::HbmCommandController(const HbmParams& params, std::uint32_t clock_mhz,
                                           std::uint32_t cores_per_chip)
    : timing_(params, clock_mhz), latency_(params.latency_cycles) {
  const std::uint32_t channels = params.channels * params.pseudo_channels / cores_per_chip;
  channels_.reserve(channels);
  for (std::uint32_t c = 0; c < channels; ++c) channels_.emplace_back(timing_);
}

void HbmCommandController::add_granule(bool write, std::uint64_t granule, std::uint32_t slot,
                                       std::uint64_t arrival) {
  const std::uint64_t count = channels_.size();
  const std::uint64_t index = granule / count;
  std::uint64_t channel = granule % count;
  for (std::uint64_t above = index; count > 1 && above > 0; above /= count) {
    channel += above % count;
  }
  channels_[channel % count].add(write, index, slot, arrival);
}

void HbmCommandController::submit(const HbmRequest& request, std::uint64_t now) {
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const std::uint32_t index = free_slots_.back();
  free_slots_.pop_back();
  waiting_.push_back(index);
  const std::uint64_t arrival = timing_.clock_of(now);
  slots_[index] = {request, request.granules * timing_.bursts_per_granule, arrival};
  const std::uint64_t run = request.granules_per_run;
  for (std::uint64_t i = request.first; i < request.first + request.granules; ++i) {
    const std::uint64_t granule = run == 0 ? i : i / run * request.stride + i % run;
    add_granule(request.write, request.address + granule, index, arrival);
  }
}

/// What is left of a request takes the bus of a channel for a burst each.
std::optional<std::uint64_t> HbmCommandController::next_event() const {
  std::optional<std::uint64_t> next;
  for (const std::uint32_t index : waiting_) {
    const Slot& slot = slots_[index];
    std::uint64_t end = slot.data_end;
    if (slot.left > 0) {
      const std::uint64_t bursts = (slot.left + channels_.size() - 1) / channels_.size();
      end = std::max(end, clock_ + bursts * timing_.burst);
    }
    const std::uint64_t cycle = timing_.cycle_of(end) + latency_;
    if (!next || cycle < *next) next = cycle;
  }
  return next;
}

void HbmCommandController::advance_channels(std::uint64_t now) {
  clock_ = std::max(clock_, timing_.clock_of(now));
  for (HbmCommandChannel& channel : channels_) {
    channel.advance(clock_, [this](std::uint32_t index, std::uint64_t data_end) {
      --slots_[index].left;
      slots_[index].data_end = std::max(slots_[index].data_end, data_end);
    });
  }
}

void HbmCommandController::begin_account(std::uint64_t now) {
  advance_channels(now);
  account_begin_ = clock_;
  for (HbmCommandChannel& channel : channels_) channel.begin_account(clock_);
}

void HbmCommandController::add_accounts(std::uint32_t core, std::uint64_t end,
                                        ExactAccounts& accounts) {
  advance_channels(end);
  for (std::size_t c = 0; c < channels_.size(); ++c) {
    const std::string name = channel_name(core, c);
    const HbmCommandClocks clocks = channels_[c].account(clock_);
    TPU_CHECK(clocks.total() == clock_ - account_begin_,
              name << ": of " << clock_ - account_begin_ << " memory clocks, data " << clocks.data
                   << ", turns " << clocks.turn << ", rows " << clocks.rows << ", refresh "
                   << clocks.refresh << ", not asked " << clocks.not_asked);
    accounts.push_back(PartAccount{
        name,
        {{"data", clocks.data},
         {"turn", clocks.turn},
         {"idle: rows", clocks.rows},
         {"refresh", clocks.refresh},
         {"idle: not asked", clocks.not_asked}},
        core,
        static_cast<std::uint32_t>(c),
        moved_bytes(channels_[c].history(clock_), timing_.burst * timing_.bursts_per_granule,
                    [this](std::uint64_t clock) { return timing_.cycle_of(clock); })});
  }
}

const std::vector<HbmRequest>& HbmCommandController::advance(std::uint64_t now) {
  advance_channels(now);
  const auto is_done = [&](std::uint32_t index) {
    const Slot& slot = slots_[index];
    return slot.left == 0 && timing_.cycle_of(slot.data_end) + latency_ <= now;
  };
  const auto done = std::stable_partition(waiting_.begin(), waiting_.end(),
                                          [&](std::uint32_t index) { return !is_done(index); });
  std::stable_sort(done, waiting_.end(), [&](std::uint32_t a, std::uint32_t b) {
    return slots_[a].data_end < slots_[b].data_end;
  });
  result_.clear();
  for (auto index = done; index != waiting_.end(); ++index) {
    result_.push_back(slots_[*index].request);
    result_.back().done = timing_.cycle_of(slots_[*index].data_end) + latency_;
    free_slots_.push_back(*index);
  }
  waiting_.erase(done, waiting_.end());
  return result_;
}

}  // namespace tpu
