#include "models/memory/hbm_controller.h"

#include <algorithm>
#include <string>

#include "isa/instruction.h"
#include "sim/base/error.h"

namespace tpu {
namespace {

HbmMapping mapping(const HbmParams& params, std::uint32_t cores_per_chip) {
  const std::uint32_t channels =
      params.channels * params.pseudo_channels / std::max(cores_per_chip, 1u);
  if (channels == 0) {
    throw ConfigurationError("hbm.channels: expected at least one for each core, found " +
                             std::to_string(params.channels) + " for " +
                             std::to_string(cores_per_chip) + " cores");
  }
  return {channels, params.banks, params.row_bytes / isa::kHbmGranuleBytes};
}

}  // namespace

HbmController::HbmController(const HbmParams& params, std::uint32_t clock_mhz,
                             std::uint32_t cores_per_chip)
    : timing_(params, clock_mhz),
      mapping_(mapping(params, cores_per_chip)),
      latency_(params.latency_cycles),
      queues_{HbmQueue(mapping_), HbmQueue(mapping_)} {
  channels_.reserve(mapping_.channels());
  for (std::uint32_t c = 0; c < mapping_.channels(); ++c) {
    channels_.emplace_back(timing_, queues_, c);
  }
}

std::uint32_t HbmController::new_slot() {
  if (free_slots_.empty()) {
    slots_.emplace_back();
    return static_cast<std::uint32_t>(slots_.size() - 1);
  }
  const std::uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

void HbmController::submit(const HbmRequest& request, std::uint64_t now) {
  const std::uint32_t index = new_slot();
  waiting_.push_back(index);
  Slot& slot = slots_[index];
  const std::uint64_t arrival = timing_.to_memory(now);
  slot = {request, request.granules, arrival, 0, 0, 0, kNone};
  std::uint64_t data_end = arrival;
  HbmQueue& queue = queues_[direction(slot)];
  if (request.granules > 0) {
    slot.first_layer = queue.end();
    queue.begin_request(index, arrival);
    const std::uint64_t end = request.first + request.granules;
    const bool contiguous = request.granules_per_run == 0 || request.granules_per_run >= end ||
                            request.stride == request.granules_per_run;
    const std::uint64_t run = contiguous ? end : request.granules_per_run;
    std::uint64_t in_run = 0, address = request.address;
    if (request.first != 0) {
      in_run = request.first % run;
      address += request.first / run * request.stride;
    }
    for (std::uint64_t left = request.granules; left > 0; address += request.stride) {
      const std::uint64_t granules = std::min(run - in_run, left);
      queue.add_run(address + in_run, granules);
      left -= granules;
      in_run = 0;
    }
    queue.end_request();
    slot.last_layer = queue.end() - 1;
    // One of the channels has at least its share, and nothing is on its bus before.
    const std::uint64_t share = (request.granules - 1) / channels_.size() + 1;
    data_end += timing_.first_data[direction(slot)] + share * timing_.granule;
  }
  slot.earliest = timing_.to_core(data_end) + latency_;
  next_event_ = std::min(next_event_, slot.earliest);
}

/// The channel that is expected to need longest for a request, and the cycle before which the
/// request is therefore not done.
void HbmController::choose_fullest(Slot& slot) {
  const HbmDirection way = direction(slot);
  std::uint64_t data_end = slot.data_end;
  if (slot.left > 0) {
    const std::uint64_t* const before = queues_[way].counts(slot.first_layer - 1);
    const std::uint64_t* const counts = queues_[way].counts(slot.last_layer);
    const std::uint64_t* const others = queues_[1 - way].arrived();
    std::uint64_t last = 0;
    for (std::uint32_t c = 0; c < channels_.size(); ++c) {
      const HbmChannel& channel = channels_[c];
      if (counts[c] <= channel.passed(way) || counts[c] == before[c]) continue;
      const std::uint64_t expected = channel.expected_end(way, counts[c], others[c]);
      if (expected < last) continue;
      last = expected;
      slot.fullest = c;
    }
    data_end = std::max(data_end, channels_[slot.fullest].earliest(way, counts[slot.fullest]));
  }
  slot.earliest = timing_.to_core(data_end) + latency_;
}

void HbmController::advance_channel(HbmChannel& channel) {
  channel.advance(clock_,
                  [this](std::uint32_t index, std::uint64_t granules, std::uint64_t data_end) {
                    slots_[index].left -= granules;
                    slots_[index].data_end = std::max(slots_[index].data_end, data_end);
                  });
}

std::optional<std::uint64_t> HbmController::next_event() const {
  if (waiting_.empty()) return std::nullopt;
  return next_event_;
}

std::optional<std::uint64_t> HbmController::next_event_of(std::uint32_t flag) const {
  std::uint64_t next = kNever;
  for (const std::uint32_t index : waiting_) {
    const Slot& slot = slots_[index];
    if (slot.request.flag != flag && slot.request.flag != HbmRequest::kNoFlag) continue;
    next = std::min(next, slot.earliest);
  }
  if (next == kNever) return std::nullopt;
  return next;
}

/// Whether a request that may be done is; takes the other channels along only when the fullest one
/// is done with it.
bool HbmController::done(Slot& slot, std::uint64_t now) {
  const HbmDirection way = direction(slot);
  while (slot.earliest <= now) {
    if (slot.left == 0) {
      slot.earliest = timing_.to_core(slot.data_end) + latency_;
      return slot.earliest <= now;
    }
    if (slot.fullest == kNone) {
      choose_fullest(slot);
      continue;
    }
    const std::uint64_t end = queues_[way].count(slot.last_layer, slot.fullest);
    HbmChannel& fullest = channels_[slot.fullest];
    advance_channel(fullest);
    if (end > fullest.passed(way)) {
      slot.earliest = timing_.to_core(fullest.earliest(way, end)) + latency_;
      continue;
    }
    // What channels do that this request does not wait for is known later, but where their history
    // is kept: that has data spread over as much as is looked at at once.
    const std::uint64_t* const counts = queues_[way].counts(slot.last_layer);
    for (std::uint32_t c = 0; c < channels_.size(); ++c) {
      if (keeps_history_ || counts[c] > channels_[c].passed(way)) advance_channel(channels_[c]);
    }
    choose_fullest(slot);
  }
  return false;
}

const std::vector<HbmRequest>& HbmController::advance(std::uint64_t now) {
  clock_ = timing_.to_memory(now);
  done_.clear();
  std::size_t kept = 0;
  next_event_ = kNever;
  for (const std::uint32_t index : waiting_) {
    if (slots_[index].earliest <= now && done(slots_[index], now)) {
      done_.push_back(index);
    } else {
      waiting_[kept++] = index;
      next_event_ = std::min(next_event_, slots_[index].earliest);
    }
  }
  waiting_.resize(kept);
  if (done_.size() > 1) {
    std::stable_sort(done_.begin(), done_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return slots_[a].data_end < slots_[b].data_end;
    });
  }
  result_.clear();
  for (const std::uint32_t index : done_) {
    const Slot& slot = slots_[index];
    if (slot.request.granules > 0) {
      queues_[direction(slot)].finish(slot.first_layer, slot.last_layer);
    }
    result_.push_back(slot.request);
    result_.back().done = slot.earliest;
    free_slots_.push_back(index);
  }
  return result_;
}

void HbmController::advance_channels(std::uint64_t now) {
  clock_ = std::max(clock_, timing_.to_memory(now));
  for (HbmChannel& channel : channels_) advance_channel(channel);
}

void HbmController::begin_account(std::uint64_t now) {
  advance_channels(now);
  account_begin_ = clock_;
  for (HbmChannel& channel : channels_) channel.begin_account(clock_);
}

/// Nothing waits: what is left are the phases of clock and refresh, and what each channel did last.
void HbmController::describe(StepState& state) {
  if (!idle()) return state.leave_open();
  advance_channels(state.now());
  state.add(state.now() % timing_.core_clocks);
  for (const HbmQueue& queue : queues_) queue.describe(state);
  for (const HbmChannel& channel : channels_) channel.describe(clock_, state);
}

void HbmController::add_accounts(std::uint32_t core, std::uint64_t end, ExactAccounts& accounts) {
  advance_channels(end);
  for (std::size_t c = 0; c < channels_.size(); ++c) {
    const std::string name = channel_name(core, c);
    const HbmBusClocks clocks = channels_[c].account(clock_);
    TPU_CHECK(clocks.total() == clock_ - account_begin_,
              name << ": of " << clock_ - account_begin_ << " memory clocks, data " << clocks.data
                   << ", turns " << clocks.turn << ", row misses " << clocks.row_miss
                   << ", refresh " << clocks.refresh << ", idle while a row opens "
                   << clocks.row_opens << ", not asked " << clocks.not_asked);
    accounts.push_back(
        PartAccount{name,
                    {{"data", clocks.data},
                     {"turn", clocks.turn},
                     {"row miss", clocks.row_miss},
                     {"refresh", clocks.refresh},
                     {"idle: row opens", clocks.row_opens},
                     {"idle: not asked", clocks.not_asked}},
                    core,
                    static_cast<std::uint32_t>(c),
                    moved_bytes(channels_[c].history(clock_), timing_.granule,
                                [this](std::uint64_t clock) { return timing_.to_core(clock); })});
  }
}

}  // namespace tpu
