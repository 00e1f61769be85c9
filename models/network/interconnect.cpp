#include "models/network/interconnect.h"

#include <algorithm>

namespace tpu {

Interconnect::Interconnect(const sc_core::sc_module_name& name, RunClock& clock,
                           const MachineParams& params, const CoreClasses& classes,
                           KnownDestinations& known)
    : TimedModule(name, clock, Phase::kArrivals),
      network_(params, classes, known),
      endpoints_(classes.size()) {}

void Interconnect::send(const IciMessage& message, std::uint64_t at) {
  network_.send(message, at);
  schedule();
}

void Interconnect::tick() {
  if (phase() == Phase::kDepartures) network_.depart(now());
  for (const FoldedNetwork::Event& event : network_.take_events(now())) {
    if (event.left) {
      endpoints_[event.of_class]->message_left(event.message, now());
    } else {
      endpoints_[event.of_class]->message_arrived(event.message, now());
    }
  }
  schedule();
}

void Interconnect::schedule() {
  if (const std::optional<FoldedNetwork::Next> next = network_.next_event()) {
    wake_at(std::max(next->cycle, now()), next->departs ? Phase::kDepartures : Phase::kArrivals);
  }
}

}  // namespace tpu
