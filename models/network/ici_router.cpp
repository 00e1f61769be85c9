#include "models/network/ici_router.h"

#include <algorithm>

#include "models/clock_cycles.h"
#include "sim/base/error.h"

namespace tpu {

IciRouter::IciRouter(const MachineParams& params, const IciRoutes& routes, std::uint32_t chip)
    : routes_(routes),
      chip_(chip),
      hop_cycles_(latency_cycles(params.ici.hop_latency_ns, params.clock_mhz)),
      local_cycles_(latency_cycles(params.ici.local_latency_ns, params.clock_mhz)) {
  for (std::uint8_t d = 0; d < isa::Topology::kDirections; ++d) {
    links_.push_back(routes.link(chip, static_cast<Direction>(d)));
  }
  local_.assign(params.cores_per_chip, routes.local_link());
}

void IciRouter::begin_account(std::uint64_t now) {
  for (Link& link : links_) link.begin_account(now);
  for (Link& way : local_) way.begin_account(now);
}

void IciRouter::describe(StepState& state) const {
  if (!events_.empty()) state.leave_open();
  for (const Link& link : links_) link.describe(state);
  for (const Link& way : local_) way.describe(state);
}

void IciRouter::add_accounts(std::uint64_t end, ExactAccounts& accounts) const {
  for (std::size_t d = 0; d < links_.size(); ++d) {
    if (!routes_.is_sound(chip_, static_cast<Direction>(d))) continue;
    accounts.push_back(links_[d].account(link_name(chip_, d), end));
  }
  for (std::size_t core = 0; core < local_.size(); ++core) {
    accounts.push_back(local_[core].account(way_name(chip_ * local_.size() + core), end));
  }
}

void IciRouter::queue(Event::Kind kind, std::uint64_t cycle, const IciMessage& message) {
  events_.push({{kind, cycle, message}, order_++});
}

void IciRouter::send(const IciMessage& message, std::uint64_t now) {
  if (message.destination_chip == chip_) {
    const Link::Passage passage =
        local_[message.destination_core].pass(now, message.bytes, message.sent);
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
  const Direction direction = routes_.towards(chip_, message.destination_chip);
  const Link::Passage passage = links_[direction].pass(now, message.bytes, message.sent);
  if (message.source_chip == chip_) queue(Event::Kind::kLeft, passage.end, message);
  const bool last = routes_.neighbour(chip_, direction) == message.destination_chip;
  std::uint64_t end = passage.end;
  if (routes_.has_slow_links()) end = std::max(end, message.tail);
  return Hop{direction, (last ? end : passage.begin) + hop_cycles_, end + hop_cycles_};
}

}  // namespace tpu
