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
struct HbmMapping {
  std::uint32_t channels = 1;
  std::uint32_t banks = 1;
  std::uint32_t granules_per_row = 1;

  std::uint32_t channel(std::uint64_t granule) const;
  std::uint64_t row(std::uint64_t granule) const { return granule / channels / granules_per_row; }
  std::uint32_t bank(std::uint64_t row) const;
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
  /// The requests that are done by `now`, in order.
  std::vector<HbmRequest> advance(std::uint64_t now);

  bool idle() const { return waiting_.empty(); }

 private:
  struct Slot {
    HbmRequest request;
    std::uint64_t left = 0;      ///< Granules whose data has not passed.
    std::uint64_t data_end = 0;  ///< Memory clock, of what has passed.
    /// The channel that has most to do before this request is done, and how many granules.
    std::uint32_t fullest = 0;
    std::uint64_t arrived = 0;
  };
  /// What a run puts into a channel.
  struct Part {
    std::uint64_t first = 0;
    std::uint64_t granules = 0;
  };

  void add_run(std::uint64_t address, std::uint64_t granules, HbmPiece piece);
  std::uint32_t new_slot();
  /// Where in its channel a granule lies.
  struct Place {
    std::uint64_t row = 0;
    std::uint32_t bank = ~std::uint32_t{0};  ///< None.
  };
  Place place_of(std::uint64_t granule) const;
  void add_piece(std::uint32_t channel, const Place& first, const Place& last, HbmPiece piece);
  std::uint64_t earliest(const Slot& slot) const;

  const HbmTiming timing_;
  const HbmMapping mapping_;
  const std::uint64_t latency_;
  std::vector<HbmChannel> channels_;
  /// What each channel was asked for last in each direction.
  std::vector<std::array<Place, 2>> last_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_slots_;
  std::vector<std::uint32_t> waiting_;  ///< Slots in order of arrival.
  std::vector<Part> parts_;             ///< Of the run that is being added, per channel.
  std::uint64_t clock_ = 0;             ///< Memory clock that the channels have been taken to.
};

}  // namespace tpu
