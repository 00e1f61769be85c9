#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "models/memory/hbm_mapping.h"
#include "models/step_state.h"

namespace tpu {

/// What waits in one direction in all channels of a core, first come first: requests as layers of
/// pieces, at most one piece in each channel. A request has a second layer where a channel's
/// granules, row for row in changing banks, are interrupted by another row of the same bank.
/// Granules of a channel are counted from the beginning of the run, so a piece is the stretch
/// between the counts of two layers, and a channel needs no queue of its own.
class HbmQueue {
  struct Layer {
    std::uint32_t request = 0;
    std::uint64_t arrival = 0;
    bool passed = false;
  };

 public:
  /// Where in its channel a granule lies.
  struct Place {
    std::uint64_t row = 0;
    std::uint64_t bank = 0;
  };
  explicit HbmQueue(const HbmMapping& mapping);

  /// Adds a request, run by run, then end_request().
  void begin_request(std::uint32_t request, std::uint64_t arrival);
  void add_run(std::uint64_t address, std::uint64_t granules);
  void end_request();

  /// Layers are numbered from the beginning of the run, from 1; those from begin() to end() are
  /// kept, and the counts of the one before.
  std::uint64_t begin() const { return first_; }
  std::uint64_t end() const { return end_; }
  std::uint32_t request(std::uint64_t layer) const { return layers_[slot(layer)].request; }
  std::uint64_t arrival(std::uint64_t layer) const { return layers_[slot(layer)].arrival; }
  /// How many granules have arrived in a channel with this layer.
  std::uint64_t count(std::uint64_t layer, std::uint32_t channel) const {
    return counts_[slot(layer) * channels_ + channel];
  }
  /// The layers as a channel sees them, for whoever looks at several: nothing is added meanwhile.
  class OfChannel {
   public:
    OfChannel(const HbmQueue& queue, std::uint32_t channel)
        : layers_(queue.layers_.data()),
          counts_(queue.counts_.data() + channel),
          misses_(queue.misses_.data() + channel),
          mask_(queue.mask_),
          channels_(queue.channels_) {}
    std::size_t slot(std::uint64_t layer) const { return layer & mask_; }
    std::uint32_t request(std::size_t slot) const { return layers_[slot].request; }
    std::uint64_t arrival(std::size_t slot) const { return layers_[slot].arrival; }
    std::uint64_t count(std::size_t slot) const { return counts_[slot * channels_]; }
    bool row_miss(std::size_t slot) const { return misses_[slot * channels_] != 0; }

   private:
    const Layer* layers_;
    const std::uint64_t* counts_;
    const std::uint8_t* misses_;
    std::size_t mask_;
    std::size_t channels_;
  };
  OfChannel of_channel(std::uint32_t channel) const { return {*this, channel}; }
  /// From a layer on, the first one with which more than `passed` granules have arrived in a
  /// channel; end(): none.
  std::uint64_t next_piece(std::uint64_t layer, std::uint32_t channel, std::uint64_t passed) const {
    const std::uint64_t* const counts = counts_.data() + channel;
    while (layer < end_ && counts[slot(layer) * channels_] <= passed) ++layer;
    return layer;
  }
  /// The piece of a channel begins with another row of the bank that its last piece ended in.
  bool row_miss(std::uint64_t layer, std::uint32_t channel) const {
    return misses_[slot(layer) * channels_ + channel] != 0;
  }
  /// The same, of all channels.
  const std::uint64_t* counts(std::uint64_t layer) const {
    return &counts_[slot(layer) * channels_];
  }
  std::uint64_t arrived(std::uint32_t channel) const { return arrived_[channel]; }
  const std::uint64_t* arrived() const { return arrived_.data(); }
  std::uint64_t last_arrival() const { return last_arrival_; }
  /// What each channel was asked for last, where nothing waits.
  void describe(StepState& state) const;
  /// These layers have passed in all channels.
  void finish(std::uint64_t first, std::uint64_t last);

 private:
  std::size_t slot(std::uint64_t layer) const { return layer & mask_; }
  void new_layer();
  void grow();
  void add_in_block(std::uint64_t block, std::uint64_t begin, std::uint64_t end);
  void add_to_channels(std::uint32_t first, std::uint32_t end, const Place& place,
                       const Place& last, std::uint64_t granules);
  void interrupt(std::uint32_t channel);
  /// Granules of the open request in the layer that a channel has got to.
  std::uint64_t& open_count(std::uint32_t channel) {
    return one_layer_ ? open_counts_[channel]
                      : counts_[slot(end_ + level_[channel]) * channels_ + channel];
  }

  const HbmMapping& mapping_;
  const std::size_t channels_;
  std::vector<Layer> layers_;          ///< A ring, a power of two.
  std::size_t mask_;                   ///< One less.
  std::vector<std::uint64_t> counts_;  ///< Per layer and channel; of open layers granules alone.
  std::vector<std::uint8_t> misses_;
  std::uint64_t first_ = 1;
  std::uint64_t end_ = 1;       ///< Of what end_request() has closed.
  std::uint64_t open_end_ = 1;  ///< With the layers of the request that is being added.
  Layer open_;
  std::vector<std::uint64_t> last_rows_;  ///< What each channel was asked for last, none at first.
  std::vector<std::uint64_t> last_banks_;
  bool one_layer_ = true;                 ///< So far, of the open request.
  std::vector<std::uint32_t> level_;      ///< Layer of the open request, per channel.
  std::uint64_t* open_counts_ = nullptr;  ///< Of its first layer, while it is the only one.
  std::vector<std::uint64_t> arrived_;
  std::uint64_t last_arrival_ = 0;
};

}  // namespace tpu
