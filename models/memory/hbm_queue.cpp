#include "models/memory/hbm_queue.h"

#include <algorithm>

#include "isa/cpu_clones.h"

namespace tpu {
namespace {

using Place = HbmQueue::Place;

/// Granules of a layer become those that have arrived with it.
TPU_CPU_CLONES void add_counts(std::uint64_t* __restrict counts, std::uint64_t* __restrict arrived,
                               std::size_t channels) {
  for (std::size_t channel = 0; channel < channels; ++channel) {
    counts[channel] = arrived[channel] += counts[channel];
  }
}

/// Adds the granules of neighbouring rows to some channels, unless of any of them another row of a
/// bank than that of its last granule is asked for.
TPU_CPU_CLONES bool add_alike(std::uint64_t* __restrict counts, std::uint64_t* __restrict rows,
                              std::uint64_t* __restrict banks, std::size_t channels,
                              std::uint64_t granules, const Place& first, const Place& last) {
  const std::uint64_t row = first.row, bank = first.bank;
  std::uint64_t any = 0;
  for (std::size_t channel = 0; channel < channels; ++channel) {
    any |= static_cast<std::uint64_t>(banks[channel] == bank) &
           static_cast<std::uint64_t>(rows[channel] != row);
  }
  if (any != 0) return false;
  const std::uint64_t last_row = last.row, last_bank = last.bank;
  for (std::size_t channel = 0; channel < channels; ++channel) {
    counts[channel] += granules;
    rows[channel] = last_row;
    banks[channel] = last_bank;
  }
  return true;
}

}  // namespace

HbmQueue::HbmQueue(const HbmMapping& mapping)
    : mapping_(mapping),
      channels_(mapping.channels()),
      layers_(8),
      mask_(layers_.size() - 1),
      counts_(layers_.size() * channels_),
      misses_(layers_.size() * channels_),
      last_rows_(channels_, ~std::uint64_t{0}),
      last_banks_(channels_, ~std::uint64_t{0}),
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
    add_to_channels(0, static_cast<std::uint32_t>(channels_), first, last, whole);
    address += whole * channels_;
    block += whole;
  }
  if (address < end) add_in_block(block, address, end);
}

/// Granules of one block: one to each channel, all in the same row.
void HbmQueue::add_in_block(std::uint64_t block, std::uint64_t begin, std::uint64_t end) {
  const std::uint64_t row = mapping_.row_of(block);
  const Place place = {row, mapping_.bank(row)};
  const auto count = static_cast<std::uint32_t>(end - begin);
  const auto channels = static_cast<std::uint32_t>(channels_);
  const std::uint32_t first = mapping_.channel_of(block, begin);
  const std::uint32_t behind = std::min(first + count, channels);
  add_to_channels(first, behind, place, place, 1);
  if (first + count > channels) add_to_channels(0, first + count - channels, place, place, 1);
}

/// Granules of each of some channels in neighbouring rows, of which only the first may miss its
/// row.
void HbmQueue::add_to_channels(std::uint32_t first, std::uint32_t end, const Place& place,
                               const Place& last, std::uint64_t granules) {
  std::uint64_t* const rows = last_rows_.data();
  std::uint64_t* const banks = last_banks_.data();
  if (one_layer_ && add_alike(open_counts_ + first, rows + first, banks + first, end - first,
                              granules, place, last)) {
    return;
  }
  for (std::uint32_t channel = first; channel < end; ++channel) {
    if (place.bank == banks[channel] && place.row != rows[channel]) interrupt(channel);
    rows[channel] = last.row;
    banks[channel] = last.bank;
    open_count(channel) += granules;
  }
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
  for (std::size_t channel = 0; channel < channels_; ++channel) {
    state.add(last_rows_[channel]);
    state.add(last_banks_[channel]);
  }
}

void HbmQueue::end_request() {
  for (; end_ < open_end_; ++end_) {
    add_counts(counts_.data() + slot(end_) * channels_, arrived_.data(), channels_);
  }
  last_arrival_ = open_.arrival;
}

}  // namespace tpu
