#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "models/memory/hbm_channel.h"
#include "models/params.h"

namespace tpu {

/// Who waits for an HBM request: told when its last byte has passed and the latency is over.
class HbmClient {
 public:
  virtual ~HbmClient() = default;
  virtual void hbm_done(std::uint64_t token, std::uint64_t now) = 0;
};

/// A transfer to or from one half of the HBM: of an array that is `granules_per_run` granules at
/// `address`, the same number `stride` granules further on, and so on, the granules `first` to
/// `first + granules - 1`.
struct HbmRequest {
  bool write = false;
  std::uint64_t address = 0;           ///< Granule.
  std::uint64_t granules_per_run = 0;  ///< 0: contiguous.
  std::uint64_t stride = 0;
  std::uint64_t first = 0;
  std::uint64_t granules = 0;
  HbmClient* client = nullptr;
  std::uint64_t token = 0;
};

/// Where a granule lies: consecutive granules go to consecutive channels, in an order that turns
/// with the address, so that strides of a power of two reach all channels; the rows of a channel
/// go to consecutive banks in the same way. Assumed: the chip's mapping is not published.
class HbmMapping {
 public:
  HbmMapping(std::uint32_t channels, std::uint32_t banks, std::uint32_t granules_per_row);

  std::uint32_t channels() const { return channels_.base; }
  std::uint32_t channel(std::uint64_t granule) const {
    return channel_of(channels_.divide(granule), granule);
  }
  std::uint64_t row(std::uint64_t granule) const { return row_of(channels_.divide(granule)); }
  std::uint32_t bank(std::uint64_t row) const { return banks_.fold(row); }

  // A block is as many consecutive granules as there are channels, one in each, in one row.
  std::uint64_t block(std::uint64_t granule) const { return channels_.divide(granule); }
  std::uint32_t channel_of(std::uint64_t block, std::uint64_t granule) const {
    const auto in_block = static_cast<std::uint32_t>(granule - block * channels_.base);
    const std::uint32_t turned = in_block + channels_.fold(block);
    return turned < channels_.base ? turned : turned - channels_.base;
  }
  std::uint64_t row_of(std::uint64_t block) const { return per_row_.divide(block); }

 private:
  /// Numbers to a base; powers of two without divisions.
  struct Base {
    std::uint32_t base = 1;
    int bits = -1;  ///< Of a power of two.

    explicit Base(std::uint32_t number);
    std::uint64_t divide(std::uint64_t value) const {
      return bits >= 0 ? value >> bits : value / base;
    }
    /// The sum of what is left of `value` when its last digits are dropped one by one, none at
    /// first; modulo the base, so the sum of its digits.
    std::uint32_t fold(std::uint64_t value) const;
  };

  Base channels_;
  Base banks_;
  Base per_row_;
};

/// The channels behind one core, in cycles of the core clock: spreads the granules of a request
/// over its pseudo channels (HbmChannel), which work independently of each other. A request is
/// done `latency_cycles` after the last of its data has passed.
class HbmController {
 public:
  HbmController(const HbmParams& params, std::uint32_t clock_mhz, std::uint32_t cores_per_chip);
  HbmController(const HbmController&) = delete;  // the channels refer to timing_
  HbmController& operator=(const HbmController&) = delete;

  /// A request arrives; `now` never decreases from call to call.
  void submit(const HbmRequest& request, std::uint64_t now);
  /// A cycle before which no request will be done; nothing when there is no request.
  std::optional<std::uint64_t> next_event() const;
  /// The requests that are done by `now`, in order; valid until the next call.
  const std::vector<HbmRequest>& advance(std::uint64_t now);

  bool idle() const { return waiting_.empty(); }

 private:
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};

  struct Slot {
    HbmRequest request;
    std::uint64_t left = 0;      ///< Granules whose data has not passed.
    std::uint64_t data_end = 0;  ///< Memory clock, of what has passed.
    /// A cycle before which it is not done; the exact one when all its data has passed.
    std::uint64_t earliest = 0;
    /// The channel that is expected to be the last.
    std::uint32_t fullest = 0;
  };
  /// Where in its channel a granule lies.
  struct Place {
    std::uint64_t row = kNever;
    std::uint32_t bank = ~std::uint32_t{0};  ///< None.
  };
  /// A channel as the direction of the request that is being added finds it.
  struct Entry {
    Place last;                  ///< What it was asked for last.
    std::uint64_t granules = 0;  ///< Of the piece that is being put together.
    bool row_miss = false;
  };

  std::uint32_t new_slot();
  void add_run(std::uint64_t address, std::uint64_t granules, const HbmPiece& piece);
  void add_in_block(std::uint64_t block, std::uint64_t begin, std::uint64_t end,
                    const HbmPiece& piece);
  void add_granules(std::uint32_t channel, const Place& place, std::uint64_t granules,
                    const HbmPiece& piece);
  void end_piece(std::uint32_t channel, HbmPiece piece);
  void end_pieces(std::uint32_t index, const HbmPiece& piece);
  void choose_fullest(std::uint32_t index);
  bool done(std::uint32_t index, std::uint64_t now);
  void advance_channel(std::uint32_t channel);
  HbmDirection direction(const Slot& slot) const {
    return slot.request.write ? kHbmWrite : kHbmRead;
  }

  const HbmTiming timing_;
  const HbmMapping mapping_;
  const std::uint64_t latency_;
  std::vector<HbmChannel> channels_;
  std::array<std::vector<Entry>, 2> entries_;  ///< Of each direction, per channel.
  HbmDirection adding_ = kHbmRead;             ///< Direction of the request that is being added.
  std::vector<Slot> slots_;
  /// Per slot and channel: how many granules of its direction have arrived there with the
  /// request's last one; 0 where it has none.
  std::vector<std::uint64_t> ends_;
  std::vector<std::uint32_t> free_slots_;
  std::vector<std::uint32_t> waiting_;  ///< Slots in order of arrival.
  std::vector<std::uint32_t> done_;     ///< In advance().
  std::vector<HbmRequest> result_;      ///< Of advance().
  std::uint64_t next_event_ = kNever;
  std::uint64_t clock_ = 0;  ///< Memory clock of the last advance().
};

}  // namespace tpu
