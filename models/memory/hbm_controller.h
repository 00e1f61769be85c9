#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "models/params.h"

namespace tpu {

/// Who waits for an HBM request: told when its last byte has passed and the latency is over.
class HbmClient {
 public:
  virtual ~HbmClient() = default;
  virtual void hbm_done(std::uint64_t token, std::uint64_t now) = 0;
};

/// A transfer to or from one half of the HBM; in this model its address does not matter.
struct HbmRequest {
  bool write = false;
  std::uint64_t bytes = 0;
  HbmClient* client = nullptr;
  std::uint64_t token = 0;
};

/// The channels behind one core, in cycles of the core clock. They work in lockstep on one read and
/// one write at a time, reads in order of arrival and writes in order of arrival. What a transfer
/// gets is what the timing parameters leave of the pin rate: refresh takes tRFC of every tREFI, and
/// while a read and a write are both there, the channels alternate `drain_bursts` bursts of each
/// direction and lose `turnaround_clocks` per pair, so each direction gets half of what is left. A
/// request is done a fixed latency after its last byte. All arithmetic is fixed point (2^-24 byte,
/// 2^-4 cycle); what a transfer leaves of its last tick goes to the next one, so nothing drifts.
/// Left out: banks, rows, address mapping, the placement of refreshes.
class HbmController {
 public:
  HbmController(const HbmParams& params, std::uint32_t clock_mhz, std::uint32_t cores_per_chip);

  /// A request arrives; `now` never decreases from call to call.
  void submit(const HbmRequest& request, std::uint64_t now);
  /// A cycle before which no request will be done; nothing when there is no request.
  std::optional<std::uint64_t> next_event() const;
  /// Takes time to `now` and returns the requests that are done by then, in order.
  std::vector<HbmRequest> advance(std::uint64_t now);

  bool idle() const { return reads_.empty() && writes_.empty() && done_.empty(); }

 private:
  struct Transfer {
    HbmRequest request;
    std::int64_t remaining = 0;  ///< In 2^-24 bytes; negative: what the last tick gave too much.
  };
  struct Done {
    HbmRequest request;
    std::uint64_t cycle = 0;
  };

  void transfer_until(std::uint64_t tick);
  void progress(std::deque<Transfer>& queue, std::int64_t amount);
  std::uint64_t ticks_to_next_finish() const;

  std::int64_t single_rate_ = 0;  ///< 2^-24 bytes per tick with one direction alone.
  std::int64_t mixed_rate_ = 0;   ///< The same for each direction when both wait.
  std::uint64_t latency_ = 0;
  std::uint64_t tick_ = 0;  ///< How far the transfers have been computed, 2^-4 cycles.
  std::deque<Transfer> reads_;
  std::deque<Transfer> writes_;
  std::deque<Done> done_;  ///< Transferred; waiting for the latency to pass. In order of cycle.
};

}  // namespace tpu
