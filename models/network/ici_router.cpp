#include "models/network/ici_router.h"

#include "models/clock_cycles.h"
#include "sim/base/error.h"

namespace tpu {

IciRouter::IciRouter(const MachineParams& params, std::uint32_t chip)
    : topology_(params.topology()),
      chip_(chip),
      hop_cycles_(latency_cycles(params.ici.hop_latency_ns, params.clock_mhz)),
      local_cycles_(latency_cycles(params.ici.local_latency_ns, params.clock_mhz)) {
  if (params.ici.link_mbps == 0) {
    throw ConfigurationError("ici.link_mbps: expected a rate above 0, found 0");
  }
  const Link link(params.ici.link_mbps, std::uint64_t{8} * params.clock_mhz);
  links_.assign(isa::Topology::kDirections, link);
  local_.assign(params.cores_per_chip, link);
}

void IciRouter::queue(Event::Kind kind, std::uint64_t cycle, const IciMessage& message) {
  events_.push({{kind, cycle, message}, order_++});
}

void IciRouter::send(const IciMessage& message, std::uint64_t now) {
  if (message.destination_chip == chip_) {
    const Link::Passage passage = local_[message.destination_core].pass(now, message.bytes);
    queue(Event::Kind::kLeft, passage.end, message);
    queue(Event::Kind::kArrived, passage.end + local_cycles_, message);
    return;
  }
  queue(Event::Kind::kHead, now, message);
}

void IciRouter::head_arrives(const IciMessage& message, std::uint64_t at) {
  // At its destination the link before has seen to it that this is the tail.
  const bool here = message.destination_chip == chip_;
  queue(here ? Event::Kind::kArrived : Event::Kind::kHead, at, message);
}

std::optional<IciRouter::Next> IciRouter::next_event() const {
  if (events_.empty()) return std::nullopt;
  const Event& event = events_.top().event;
  return Next{event.cycle, event.kind == Event::Kind::kHead};
}

IciRouter::Hop IciRouter::forward(const IciMessage& message, std::uint64_t now) {
  const Direction direction = topology_.towards(chip_, message.destination_chip);
  const Link::Passage passage = links_[direction].pass(now, message.bytes);
  if (message.source_chip == chip_) queue(Event::Kind::kLeft, passage.end, message);
  const bool last = topology_.neighbour(chip_, direction) == message.destination_chip;
  return Hop{direction, (last ? passage.end : passage.begin) + hop_cycles_};
}

}  // namespace tpu
