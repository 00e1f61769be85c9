#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "models/step_state.h"

namespace tpu {

/// The infeed queue of a core: a few places for batches. A place is taken when the host begins to
/// prepare a batch and free again when a DMA has taken the batch's last granule. DMAs that find too
/// little wait, in order.
class InfeedQueue {
 public:
  InfeedQueue(std::uint32_t places, std::uint64_t batch_granules)
      : places_(places), batch_granules_(batch_granules) {}

  bool has_place() const { return taken_places_ < places_; }
  void take_place() { ++taken_places_; }
  /// A batch has arrived in its place.
  void deliver() { ready_granules_ += batch_granules_; }

  struct Request {
    std::uint64_t granules = 0;
    std::uint64_t token = 0;
    std::uint64_t batch = 0;   ///< Number of the batch, from 0.
    std::uint64_t offset = 0;  ///< Granule in the batch.
  };
  /// A DMA asks for granules.
  void request(std::uint64_t granules, std::uint64_t token) {
    waiting_.push_back({granules, token, given_ / batch_granules_, given_ % batch_granules_});
    given_ += granules;
  }
  void describe(StepState& state) const {
    if (!waiting_.empty()) state.leave_open();
    state.add(taken_places_);
    state.add(ready_granules_);
    state.add(batch_granules_ == 0 ? 0 : given_ % batch_granules_);
  }
  /// The oldest DMA whose granules are there.
  std::optional<Request> next() {
    if (waiting_.empty() || waiting_.front().granules > ready_granules_) return std::nullopt;
    const Request request = waiting_.front();
    waiting_.pop_front();
    ready_granules_ -= request.granules;
    if (request.offset + request.granules == batch_granules_) --taken_places_;
    return request;
  }

 private:
  std::uint32_t places_;
  std::uint64_t batch_granules_;
  std::uint32_t taken_places_ = 0;
  std::uint64_t ready_granules_ = 0;
  std::uint64_t given_ = 0;  ///< Granules that DMAs have asked for, of all batches.
  std::deque<Request> waiting_;
};

}  // namespace tpu
