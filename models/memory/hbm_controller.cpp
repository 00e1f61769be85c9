#include "models/memory/hbm_controller.h"

#include <algorithm>
#include <string>

#include "isa/instruction.h"
#include "sim/base/error.h"

namespace tpu {
namespace {

/// The sum of what is left of `value` when its last digits to the base `base` are dropped one by
/// one, none at first.
std::uint64_t fold(std::uint64_t value, std::uint64_t base) {
  if (base < 2) return 0;
  std::uint64_t sum = 0;
  if ((base & (base - 1)) == 0) {
    int bits = 0;
    while (base >> bits > 1) ++bits;
    for (; value > 0; value >>= bits) sum += value;
    return sum;
  }
  for (; value > 0; value /= base) sum += value;
  return sum;
}

HbmMapping mapping(const HbmParams& params, std::uint32_t cores_per_chip) {
  HbmMapping result;
  result.channels = params.channels * params.pseudo_channels / std::max(cores_per_chip, 1u);
  result.banks = params.banks;
  result.granules_per_row = params.row_bytes / isa::kHbmGranuleBytes;
  if (result.channels == 0) {
    throw ConfigurationError("hbm.channels: expected at least one for each core, found " +
                             std::to_string(params.channels) + " for " +
                             std::to_string(cores_per_chip) + " cores");
  }
  return result;
}

}  // namespace

std::uint32_t HbmMapping::channel(std::uint64_t granule) const {
  return static_cast<std::uint32_t>((granule % channels + fold(granule / channels, channels)) %
                                    channels);
}

std::uint32_t HbmMapping::bank(std::uint64_t row) const {
  return static_cast<std::uint32_t>(fold(row, banks) % banks);
}

HbmController::HbmController(const HbmParams& params, std::uint32_t clock_mhz,
                             std::uint32_t cores_per_chip)
    : timing_(params, clock_mhz),
      mapping_(mapping(params, cores_per_chip)),
      latency_(params.latency_cycles),
      channels_(mapping_.channels, HbmChannel(timing_)),
      last_(mapping_.channels),
      parts_(mapping_.channels) {}

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
  HbmPiece piece;
  piece.request = index;
  piece.arrival = timing_.to_memory(now);
  slots_[index] = {request, request.granules, piece.arrival, 0, 0};
  const std::uint64_t end = request.first + request.granules;
  const bool contiguous = request.granules_per_run == 0 || request.granules_per_run >= end;
  const std::uint64_t run = contiguous ? std::max<std::uint64_t>(end, 1) : request.granules_per_run;
  for (std::uint64_t at = request.first; at < end;) {
    const std::uint64_t in_run = at % run;
    const std::uint64_t granules = std::min(run - in_run, end - at);
    add_run(request.address + at / run * request.stride + in_run, granules, piece);
    at += granules;
  }
}

/// Gives each channel its granules of a contiguous run as one piece: all whole blocks of
/// consecutive granules, one to each channel, and what the ends add.
void HbmController::add_run(std::uint64_t address, std::uint64_t granules, HbmPiece piece) {
  const std::uint64_t count = mapping_.channels;
  const std::uint64_t end = address + granules;
  const std::uint64_t first_whole = (address + count - 1) / count * count;
  const std::uint64_t last_whole = end / count * count;
  if (last_whole <= first_whole) {
    piece.granules = 1;
    for (std::uint64_t granule = address; granule < end;) {
      // Within a block, one granule to each channel, row and bank are the same.
      const std::uint64_t block_end = std::min(end, (granule / count + 1) * count);
      const Place place = place_of(granule);
      for (std::uint32_t channel = mapping_.channel(granule); granule < block_end; ++granule) {
        add_piece(channel, place, place, piece);
        channel = channel + 1 == count ? 0 : channel + 1;
      }
    }
    return;
  }
  const std::uint64_t blocks = (last_whole - first_whole) / count;
  // Only the row matters: any granule of a block stands for the channel's own.
  for (Part& part : parts_) part = {first_whole, blocks};
  for (std::uint64_t granule = address; granule < first_whole; ++granule) {
    Part& part = parts_[mapping_.channel(granule)];
    part.first = granule;
    ++part.granules;
  }
  for (std::uint64_t granule = last_whole; granule < end; ++granule) {
    ++parts_[mapping_.channel(granule)].granules;
  }
  for (std::uint32_t channel = 0; channel < count; ++channel) {
    const Part& part = parts_[channel];
    piece.granules = part.granules;
    add_piece(channel, place_of(part.first), place_of(part.first + (part.granules - 1) * count),
              piece);
  }
}

HbmController::Place HbmController::place_of(std::uint64_t granule) const {
  const std::uint64_t row = mapping_.row(granule);
  return {row, mapping_.bank(row)};
}

void HbmController::add_piece(std::uint32_t channel, const Place& first, const Place& last,
                              HbmPiece piece) {
  Slot& slot = slots_[piece.request];
  const HbmDirection direction = slot.request.write ? kHbmWrite : kHbmRead;
  Place& before = last_[channel][direction];
  piece.row_miss = first.bank == before.bank && first.row != before.row;
  before = last;
  channels_[channel].add(direction, piece);
  const std::uint64_t arrived = channels_[channel].arrived(direction);
  const HbmChannel& fullest = channels_[slot.fullest];
  if (channels_[channel].earliest(direction, arrived) >=
      fullest.earliest(direction, slot.arrived)) {
    slot.fullest = channel;
    slot.arrived = arrived;
  }
}

/// A cycle before which a request is not done; the exact one when all its data has passed.
std::uint64_t HbmController::earliest(const Slot& slot) const {
  std::uint64_t clock = slot.data_end;
  if (slot.left > 0) {
    const HbmDirection direction = slot.request.write ? kHbmWrite : kHbmRead;
    clock = std::max({clock, clock_ + timing_.granule,
                      channels_[slot.fullest].earliest(direction, slot.arrived)});
  }
  return timing_.to_core(clock) + latency_;
}

std::optional<std::uint64_t> HbmController::next_event() const {
  if (waiting_.empty()) return std::nullopt;
  std::uint64_t first = ~std::uint64_t{0};
  for (const std::uint32_t index : waiting_) first = std::min(first, earliest(slots_[index]));
  return first;
}

std::vector<HbmRequest> HbmController::advance(std::uint64_t now) {
  clock_ = timing_.to_memory(now);
  for (HbmChannel& channel : channels_) {
    channel.advance(clock_,
                    [this](std::uint32_t index, std::uint64_t granules, std::uint64_t data_end) {
                      slots_[index].left -= granules;
                      slots_[index].data_end = std::max(slots_[index].data_end, data_end);
                    });
  }
  std::vector<std::uint32_t> done;
  std::size_t kept = 0;
  for (const std::uint32_t index : waiting_) {
    const Slot& slot = slots_[index];
    if (slot.left > 0 || earliest(slot) > now) {
      waiting_[kept++] = index;
    } else {
      done.push_back(index);
    }
  }
  waiting_.resize(kept);
  std::stable_sort(done.begin(), done.end(), [&](std::uint32_t a, std::uint32_t b) {
    return slots_[a].data_end < slots_[b].data_end;
  });
  std::vector<HbmRequest> result;
  for (const std::uint32_t index : done) {
    result.push_back(slots_[index].request);
    free_slots_.push_back(index);
  }
  return result;
}

}  // namespace tpu
