#include "models/network/router.h"

#include "sim/base/error.h"

namespace tpu {

Router::Router(const sc_core::sc_module_name& name, RunClock& clock, const MachineParams& params,
               const IciRoutes& routes, std::uint32_t chip)
    : TimedModule(name, clock, Phase::kArrivals),
      router_(params, routes, chip),
      endpoints_(params.cores_per_chip) {}

void Router::send(const IciMessage& message, std::uint64_t at) {
  router_.send(message, at);
  schedule();
}

void Router::head_arrives(const IciMessage& message, std::uint64_t at) {
  router_.head_arrives(message, at);
  schedule();
}

void Router::tick() {
  const auto to_neighbour = [this](std::size_t direction, const IciMessage& message,
                                   std::uint64_t at) {
    out_neighbours[direction]->head_arrives(message, at);
  };
  for (const IciRouter::Event& event :
       router_.advance(now(), phase() == Phase::kDepartures, to_neighbour)) {
    const bool left = event.kind == IciRouter::Event::Kind::kLeft;
    const std::uint32_t core = left ? event.message.source_core : event.message.destination_core;
    IciEndpoint* endpoint = endpoints_[core];
    TPU_CHECK(endpoint != nullptr, name() << ": message for core " << core);
    if (left) {
      endpoint->message_left(event.message, now());
    } else {
      endpoint->message_arrived(event.message, now());
    }
  }
  schedule();
}

void Router::schedule() {
  if (const std::optional<IciRouter::Next> next = router_.next_event()) {
    wake_at(std::max(next->cycle, now()), next->departs ? Phase::kDepartures : Phase::kArrivals);
  }
}

}  // namespace tpu
