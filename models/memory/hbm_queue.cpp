#include "models/memory/hbm_queue.h"

#include <algorithm>

namespace tpu {

HbmQueue::HbmQueue(const HbmMapping& mapping)
    : mapping_(mapping),
      channels_(mapping.channels()),
      layers_(8),
      mask_(layers_.size() - 1),
      counts_(layers_.size() * channels_),
      misses_(layers_.size() * channels_),
      last_(channels_),
      level_(channels_),
      arrived_(channels_) {}

void HbmQueue::begin_request(std::uint32_t request, std::uint64_t arrival) {
  open_ = {request, arrival, false};
  if (!one_layer_) std::fill(level_.begin(), level_.end(), 0);
  one_layer_ = true;
  new_layer();
  open_counts_ = &counts_[slot(end_) * channels_];
}

void HbmQueue::new_layer() {
  if (open_end_ - first_ + 1 == layers_.size()) grow();
  const std::size_t at = slot(open_end_++);
  layers_[at] = open_;
  std::fill_n(counts_.begin() + static_cast<std::ptrdiff_t>(at * channels_), channels_, 0);
  std::fill_n(misses_.begin() + static_cast<std::ptrdiff_t>(at * channels_), channels_, 0);
}

void HbmQueue::grow() {
  std::vector<Layer> layers(2 * layers_.size());
  std::vector<std::uint64_t> counts(layers.size() * channels_);
  std::vector<std::uint8_t> misses(layers.size() * channels_);
  for (std::uint64_t layer = first_ - 1; layer < open_end_; ++layer) {
    const std::size_t from = slot(layer);
    const std::size_t to = layer & (layers.size() - 1);
    layers[to] = layers_[from];
    std::copy_n(counts_.data() + from * channels_, channels_, counts.data() + to * channels_);
    std::copy_n(misses_.data() + from * channels_, channels_, misses.data() + to * channels_);
  }
  layers_ = std::move(layers);
  mask_ = layers_.size() - 1;
  counts_ = std::move(counts);
  misses_ = std::move(misses);
}

/// A contiguous run: all whole blocks at once, and what the ends add.
void HbmQueue::add_run(std::uint64_t address, std::uint64_t granules) {
  const std::uint64_t end = address + granules;
  std::uint64_t block = mapping_.block(address);
  if (address != block * channels_ || granules < channels_) {
    const std::uint64_t block_end = std::min(end, (block + 1) * channels_);
    add_in_block(block, address, block_end);
    address = block_end;
    ++block;
  }
  const std::uint64_t whole = mapping_.block(end - address);
  if (whole > 0) {
    const std::uint64_t row = mapping_.row_of(block);
    const std::uint64_t last_row = mapping_.row_of(block + whole - 1);
    const Place first = {row, mapping_.bank(row)};
    const Place last = {last_row, mapping_.bank(last_row)};
    for (std::uint32_t channel = 0; channel < channels_; ++channel) {
      add_granules(channel, first, whole);
      last_[channel] = last;
    }
    address += whole * channels_;
    block += whole;
  }
  if (address < end) add_in_block(block, address, end);
}

/// Granules of one block: one to each channel, all in the same row.
void HbmQueue::add_in_block(std::uint64_t block, std::uint64_t begin, std::uint64_t end) {
  const std::uint64_t row = mapping_.row_of(block);
  const Place place = {row, mapping_.bank(row)};
  const std::size_t channels = channels_;
  Place* const last = last_.data();
  std::uint32_t channel = mapping_.channel_of(block, begin);
  for (; begin < end; ++begin) {
    if (place.row != last[channel].row) {
      if (place.bank == last[channel].bank) interrupt(channel);
      last[channel] = place;
    }
    ++open_count(channel);
    if (++channel == channels) channel = 0;
  }
}

/// Granules of a channel in neighbouring rows, of which only the first may miss its row.
void HbmQueue::add_granules(std::uint32_t channel, const Place& place, std::uint64_t granules) {
  Place& last = last_[channel];
  if (place.bank == last.bank && place.row != last.row) interrupt(channel);
  last = place;
  open_count(channel) += granules;
}

/// The next granule of a channel begins a piece with another row of its bank.
void HbmQueue::interrupt(std::uint32_t channel) {
  if (open_count(channel) > 0) {
    one_layer_ = false;
    ++level_[channel];
    if (end_ + level_[channel] == open_end_) new_layer();
  }
  misses_[slot(end_ + level_[channel]) * channels_ + channel] = 1;
}

void HbmQueue::finish(std::uint64_t first, std::uint64_t last) {
  for (std::uint64_t layer = first; layer <= last; ++layer) layers_[slot(layer)].passed = true;
  while (first_ < end_ && layers_[slot(first_)].passed) ++first_;
}

void HbmQueue::describe(StepState& state) const {
  if (first_ != end_) state.leave_open();
  for (const Place& place : last_) {
    state.add(place.row);
    state.add(place.bank);
  }
}

void HbmQueue::end_request() {
  const std::size_t channels = channels_;
  for (; end_ < open_end_; ++end_) {
    std::uint64_t* const __restrict counts = counts_.data() + slot(end_) * channels;
    std::uint64_t* const __restrict arrived = arrived_.data();
    for (std::size_t channel = 0; channel < channels; ++channel) {
      counts[channel] = arrived[channel] += counts[channel];
    }
  }
  last_arrival_ = open_.arrival;
}

}  // namespace tpu
