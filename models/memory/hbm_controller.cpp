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

HbmMapping::Base::Base(std::uint32_t number) : base(std::max(number, 1u)) {
  if ((base & (base - 1)) != 0) return;
  for (bits = 0; base >> bits > 1;) ++bits;
}

std::uint32_t HbmMapping::Base::fold(std::uint64_t value) const {
  if (base < 2) return 0;
  std::uint64_t sum = 0;
  if (bits >= 0) {
    for (; value > 0; value >>= bits) sum += value;
    return static_cast<std::uint32_t>(sum & (base - 1));
  }
  for (; value > 0; value /= base) sum += value;
  return static_cast<std::uint32_t>(sum % base);
}

HbmMapping::HbmMapping(std::uint32_t channels, std::uint32_t banks, std::uint32_t granules_per_row)
    : channels_(channels), banks_(banks), per_row_(granules_per_row) {}

HbmController::HbmController(const HbmParams& params, std::uint32_t clock_mhz,
                             std::uint32_t cores_per_chip)
    : timing_(params, clock_mhz),
      mapping_(mapping(params, cores_per_chip)),
      latency_(params.latency_cycles),
      channels_(mapping_.channels(), HbmChannel(timing_)) {
  for (std::vector<Entry>& entries : entries_) entries.resize(channels_.size());
}

std::uint32_t HbmController::new_slot() {
  if (free_slots_.empty()) {
    slots_.emplace_back();
    ends_.resize(slots_.size() * channels_.size());
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
  adding_ = direction(slots_[index]);
  const std::uint64_t end = request.first + request.granules;
  const bool contiguous = request.granules_per_run == 0 || request.granules_per_run >= end;
  const std::uint64_t run = contiguous ? std::max<std::uint64_t>(end, 1) : request.granules_per_run;
  std::uint64_t in_run = request.first % run;
  std::uint64_t address = request.address + request.first / run * request.stride;
  for (std::uint64_t left = request.granules; left > 0; address += request.stride) {
    const std::uint64_t granules = std::min(run - in_run, left);
    add_run(address + in_run, granules, piece);
    left -= granules;
    in_run = 0;
  }
  end_pieces(index, piece);
  choose_fullest(index);
  next_event_ = std::min(next_event_, slots_[index].earliest);
}

/// A contiguous run: all whole blocks at once, and what the ends add.
void HbmController::add_run(std::uint64_t address, std::uint64_t granules, const HbmPiece& piece) {
  const std::uint64_t count = channels_.size();
  const std::uint64_t end = address + granules;
  std::uint64_t block = mapping_.block(address);
  if (address != block * count || granules < count) {
    const std::uint64_t block_end = std::min(end, (block + 1) * count);
    add_in_block(block, address, block_end, piece);
    address = block_end;
    ++block;
  }
  const std::uint64_t whole = mapping_.block(end - address);
  if (whole > 0) {
    const Place first = {mapping_.row_of(block), mapping_.bank(mapping_.row_of(block))};
    const std::uint64_t last_row = mapping_.row_of(block + whole - 1);
    const Place last = {last_row, mapping_.bank(last_row)};
    for (std::uint32_t channel = 0; channel < count; ++channel) {
      add_granules(channel, first, whole, piece);
      entries_[adding_][channel].last = last;
    }
    address += whole * count;
    block += whole;
  }
  if (address < end) add_in_block(block, address, end, piece);
}

/// Granules of one block: one to each channel, all in the same row.
void HbmController::add_in_block(std::uint64_t block, std::uint64_t begin, std::uint64_t end,
                                 const HbmPiece& piece) {
  const std::uint64_t row = mapping_.row_of(block);
  const Place place = {row, mapping_.bank(row)};
  std::uint32_t channel = mapping_.channel_of(block, begin);
  for (; begin < end; ++begin) {
    add_granules(channel, place, 1, piece);
    if (++channel == channels_.size()) channel = 0;
  }
}

/// Granules of a channel in neighbouring rows, of which only the first may miss its row.
void HbmController::add_granules(std::uint32_t channel, const Place& place, std::uint64_t granules,
                                 const HbmPiece& piece) {
  Entry& entry = entries_[adding_][channel];
  if (place.bank == entry.last.bank && place.row != entry.last.row) {
    if (entry.granules > 0) end_piece(channel, piece);
    entry.row_miss = true;
  }
  entry.last = place;
  entry.granules += granules;
}

/// Hands a channel the piece that has been put together for it.
void HbmController::end_piece(std::uint32_t channel, HbmPiece piece) {
  Entry& entry = entries_[adding_][channel];
  piece.granules = entry.granules;
  piece.row_miss = entry.row_miss;
  channels_[channel].add(adding_, piece);
  entry.granules = 0;
  entry.row_miss = false;
}

void HbmController::end_pieces(std::uint32_t index, const HbmPiece& piece) {
  std::uint64_t* ends = ends_.data() + std::size_t{index} * channels_.size();
  for (std::uint32_t channel = 0; channel < channels_.size(); ++channel) {
    ends[channel] = 0;
    if (entries_[adding_][channel].granules == 0) continue;
    end_piece(channel, piece);
    ends[channel] = channels_[channel].arrived(adding_);
  }
}

/// The channel that still needs longest for a request at the least, and the cycle before which the
/// request is therefore not done.
void HbmController::choose_fullest(std::uint32_t index) {
  Slot& slot = slots_[index];
  const HbmDirection way = direction(slot);
  const std::uint64_t* ends = ends_.data() + std::size_t{index} * channels_.size();
  std::uint64_t last = 0;
  for (std::uint32_t channel = 0; slot.left > 0 && channel < channels_.size(); ++channel) {
    if (ends[channel] <= channels_[channel].passed(way)) continue;
    const std::uint64_t earliest = channels_[channel].earliest(way, ends[channel]);
    if (earliest < last) continue;
    last = earliest;
    slot.fullest = channel;
  }
  slot.earliest = timing_.to_core(std::max(last, slot.data_end)) + latency_;
}

void HbmController::advance_channel(std::uint32_t channel) {
  channels_[channel].advance(
      clock_, [this](std::uint32_t index, std::uint64_t granules, std::uint64_t data_end) {
        slots_[index].left -= granules;
        slots_[index].data_end = std::max(slots_[index].data_end, data_end);
      });
}

std::optional<std::uint64_t> HbmController::next_event() const {
  if (waiting_.empty()) return std::nullopt;
  return next_event_;
}

/// Whether a request that may be done is; takes the other channels along only when the fullest one
/// is done with it.
bool HbmController::done(std::uint32_t index, std::uint64_t now) {
  Slot& slot = slots_[index];
  const HbmDirection way = direction(slot);
  while (slot.earliest <= now) {
    if (slot.left == 0) {
      slot.earliest = timing_.to_core(slot.data_end) + latency_;
      return slot.earliest <= now;
    }
    const std::uint64_t end = ends_[std::size_t{index} * channels_.size() + slot.fullest];
    HbmChannel& fullest = channels_[slot.fullest];
    advance_channel(slot.fullest);
    if (end > fullest.passed(way)) {
      slot.earliest = timing_.to_core(fullest.earliest(way, end)) + latency_;
      continue;
    }
    for (std::uint32_t c = 0; c < channels_.size(); ++c) advance_channel(c);
    choose_fullest(index);
  }
  return false;
}

const std::vector<HbmRequest>& HbmController::advance(std::uint64_t now) {
  clock_ = timing_.to_memory(now);
  done_.clear();
  std::size_t kept = 0;
  next_event_ = kNever;
  for (const std::uint32_t index : waiting_) {
    if (done(index, now)) {
      done_.push_back(index);
    } else {
      waiting_[kept++] = index;
      next_event_ = std::min(next_event_, slots_[index].earliest);
    }
  }
  waiting_.resize(kept);
  std::stable_sort(done_.begin(), done_.end(), [&](std::uint32_t a, std::uint32_t b) {
    return slots_[a].data_end < slots_[b].data_end;
  });
  result_.clear();
  for (const std::uint32_t index : done_) {
    result_.push_back(slots_[index].request);
    free_slots_.push_back(index);
  }
  return result_;
}

}  // namespace tpu
