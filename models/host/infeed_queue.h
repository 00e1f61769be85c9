#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>

#include "models/step_state.h"

namespace tpu {

/// The infeed queue of a core: a few places for batches and, where it is bounded in bytes, room for
/// so many granules. A place is taken when the host begins to prepare a batch and free again when a
/// DMA has taken the batch's last granule; a granule's room is taken when it leaves the host and
/// free again when a DMA has it. DMAs that find too little wait, in order, and the first of them
/// takes what is there.
class InfeedQueue {
 public:
  struct Size {
    std::uint32_t places = 1;
    std::uint64_t granules = 0;  ///< 0: as many as the places have.
  };
  InfeedQueue(const Size& size, std::uint64_t batch_granules)
      : size_(size), batch_granules_(batch_granules) {}

  bool has_place() const { return taken_places_ < size_.places; }
  void take_place() { ++taken_places_; }
  bool has_room(std::uint64_t granules) const {
    return size_.granules == 0 || held_ + granules <= size_.granules;
  }
  /// Granules leave the host.
  void take_room(std::uint64_t granules) { held_ += granules; }
  /// They have arrived.
  void deliver(std::uint64_t granules) { ready_granules_ += granules; }

  struct Request {
    std::uint64_t granules = 0;
    std::uint64_t token = 0;
    std::uint64_t batch = 0;    ///< Number of the batch, from 0.
    std::uint64_t offset = 0;   ///< Granule in the batch.
    std::uint64_t missing = 0;  ///< Granules that are not there yet.
  };
  /// A DMA asks for granules.
  void request(std::uint64_t granules, std::uint64_t token) {
    waiting_.push_back(
        {granules, token, given_ / batch_granules_, given_ % batch_granules_, granules});
    given_ += granules;
  }
  void describe(StepState& state) const {
    if (!waiting_.empty()) state.leave_open();
    state.add(taken_places_);
    state.add(ready_granules_);
    state.add(held_);
    state.add(batch_granules_ == 0 ? 0 : given_ % batch_granules_);
  }
  /// The oldest DMA takes what is there; returned when it has all of its granules.
  std::optional<Request> next() {
    if (waiting_.empty()) return std::nullopt;
    Request& request = waiting_.front();
    const std::uint64_t taken = std::min(request.missing, ready_granules_);
    request.missing -= taken;
    ready_granules_ -= taken;
    held_ -= taken;
    if (request.missing > 0) return std::nullopt;
    const Request done = request;
    waiting_.pop_front();
    if (done.offset + done.granules == batch_granules_) --taken_places_;
    return done;
  }

 private:
  Size size_;
  std::uint64_t batch_granules_;
  std::uint32_t taken_places_ = 0;
  std::uint64_t held_ = 0;  ///< Granules that are in the queue or on their way to it.
  std::uint64_t ready_granules_ = 0;
  std::uint64_t given_ = 0;  ///< Granules that DMAs have asked for, of all batches.
  std::deque<Request> waiting_;
};

}  // namespace tpu
