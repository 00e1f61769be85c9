#include "models/network/packet_switch.h"

#include <algorithm>
#include <numeric>

#include "models/clock_cycles.h"
#include "sim/base/error.h"

namespace tpu {
namespace {

/// The bits of a virtual channel.
constexpr std::uint8_t kBehindDateline = 1;
constexpr std::uint8_t kTurns = 2;

}  // namespace

PacketSwitch::PacketSwitch(const MachineParams& params, std::uint32_t chip, Buffers buffers)
    : topology_(params.topology()),
      chip_(chip),
      cores_(params.cores_per_chip),
      hop_cycles_(latency_cycles(params.ici.hop_latency_ns, params.clock_mhz)),
      local_cycles_(latency_cycles(params.ici.local_latency_ns, params.clock_mhz)),
      by_output_(buffers.by_output) {
  if (params.ici.link_mbps == 0) {
    throw ConfigurationError("ici.link_mbps: expected a rate above 0, found 0");
  }
  if (!params.ici.slow_links.empty()) {
    throw ConfigurationError(
        "ici.slow_links: expected none with ici=packet, whose links are all alike (ici=message "
        "has slow and broken ones), found \"" +
        params.ici.slow_links + "\"");
  }
  // A byte takes 8 clock_mhz / link_mbps cycles.
  const std::uint64_t cycles = std::uint64_t{8} * params.clock_mhz;
  const std::uint64_t divisor = std::gcd(cycles, std::uint64_t{params.ici.link_mbps});
  ticks_per_byte_ = cycles / divisor;
  ticks_per_cycle_ = params.ici.link_mbps / divisor;
  const std::uint64_t round_trip = 2 * hop_cycles_ * ticks_per_cycle_ / ticks_per_byte_;
  buffer_bytes_ = buffers.bytes > 0 ? buffers.bytes : round_trip + 2 * kPacketBytes;
  ports_.resize(isa::Topology::kDirections + cores_);
  for (Port& port : ports_) {
    port.credits.fill(buffer_bytes_);
    port.queues.resize(cores_);
  }
}

Instant PacketSwitch::after(Instant from, std::uint64_t bytes) const {
  const std::uint64_t ticks = from.tick + bytes * ticks_per_byte_;
  return {from.cycle + ticks / ticks_per_cycle_, ticks % ticks_per_cycle_};
}

PacketSwitch::Output PacketSwitch::output_of(const IciMessage& message) const {
  if (message.destination_chip == chip_) {
    return Output{isa::Topology::kDirections} + message.destination_core;
  }
  return topology_.towards(chip_, message.destination_chip);
}

bool PacketSwitch::crosses_dateline(Direction direction) const {
  const isa::Topology::Dimension& along = topology_.dimension(direction / 2);
  const std::uint32_t at = topology_.place(chip_)[direction / 2];
  return along.wraps && (direction % 2 == 0 ? at + 1 == along.size : at == 0);
}

/// The virtual channel of the buffer behind an output.
std::uint8_t PacketSwitch::channel_behind(const IciPacket& packet, Output output) const {
  const bool was_behind_dateline =
      packet.dimension == output / 2 && (packet.channel & kBehindDateline) != 0;
  const bool behind_dateline =
      was_behind_dateline || crosses_dateline(static_cast<Direction>(output));
  return static_cast<std::uint8_t>((behind_dateline ? kBehindDateline : 0) |
                                   (turns_behind(packet, output) ? kTurns : 0));
}

/// Whether a packet leaves its dimension at the router behind an output.
bool PacketSwitch::turns_behind(const IciPacket& packet, Output output) const {
  const std::uint32_t behind = topology_.neighbour(chip_, static_cast<Direction>(output));
  return behind != packet.message.destination_chip &&
         topology_.towards(behind, packet.message.destination_chip) / 2 != output / 2;
}

bool PacketSwitch::ends_behind(const IciPacket& packet, Output output) const {
  return output >= isa::Topology::kDirections ||
         topology_.neighbour(chip_, static_cast<Direction>(output)) ==
             packet.message.destination_chip;
}

void PacketSwitch::send(const IciMessage& message, std::uint64_t now) {
  std::deque<IciPacket>& queue = ports_[output_of(message)].queues[message.source_core];
  std::uint64_t left = message.bytes;
  do {
    IciPacket packet;
    packet.message = message;
    packet.bytes = std::min(left, kPacketBytes);
    left -= packet.bytes;
    packet.last = left == 0;
    packet.here = {now, 0};
    queue.push_back(std::move(packet));
  } while (left > 0);
  events_[{now, 0}].push_back({});
}

void PacketSwitch::packet_arrives(Direction travelled, const IciPacket& packet, Instant at) {
  if (packet.message.destination_chip == chip_) {
    if (packet.last) note(false, packet.message, after(at, packet.bytes).ceil());
    return;
  }
  std::vector<Event>& events = events_[at];
  events.push_back({Event::Kind::kHead, travelled, packet.channel, packet.bytes, packet});
  events.back().packet.here = at;
}

void PacketSwitch::credit_returns(Direction output, std::uint8_t channel, std::uint64_t bytes,
                                  Instant at) {
  events_[at].push_back({Event::Kind::kCredit, output, channel, bytes, {}});
}

std::optional<PacketSwitch::Next> PacketSwitch::next_event() const {
  const std::uint64_t never = ~std::uint64_t{0};
  const std::uint64_t told = deliveries_.empty() ? never : std::get<0>(deliveries_.begin()->first);
  const std::uint64_t done = events_.empty() ? never : events_.begin()->first.cycle;
  if (std::min(told, done) == never) return std::nullopt;
  return Next{std::min(told, done), done < told};
}

void PacketSwitch::note(bool left, const IciMessage& message, std::uint64_t cycle) {
  deliveries_.emplace(
      DeliveryKey{cycle, message.source_chip, message.source_core, message.number, order_++},
      Delivery{left, message});
}

void PacketSwitch::deliver(std::uint64_t now, Outside& outside) {
  while (!deliveries_.empty() && std::get<0>(deliveries_.begin()->first) <= now) {
    const Delivery delivery = std::move(deliveries_.begin()->second);
    deliveries_.erase(deliveries_.begin());
    if (delivery.left) {
      outside.left(delivery.message);
    } else {
      outside.arrived(delivery.message);
    }
  }
}

void PacketSwitch::advance(std::uint64_t now, Outside& outside) {
  while (!events_.empty() && events_.begin()->first.cycle <= now) {
    const Instant at = events_.begin()->first;
    const std::vector<Event> events = std::move(events_.begin()->second);
    events_.erase(events_.begin());
    for (const Event& event : events) apply(event);
    arbitrate(at, outside);
  }
}

void PacketSwitch::apply(const Event& event) {
  if (event.kind == Event::Kind::kCredit) {
    std::uint64_t& credits = ports_[event.direction].credits[event.channel];
    credits += event.bytes;
    TPU_CHECK(credits <= buffer_bytes_, "more credits than the buffer behind an output has bytes");
  }
  if (event.kind == Event::Kind::kHead) {
    inputs_[std::size_t{event.direction} * kChannels + event.channel].push_back(
        {event.packet, output_of(event.packet.message)});
  }
}

/// As long as some packet can start: what is behind it in its buffer may want any output.
void PacketSwitch::arbitrate(Instant now, Outside& outside) {
  bool started = true;
  while (started) {
    started = false;
    for (Output output = 0; output < ports_.size(); ++output) {
      if (now < ports_[output].free) continue;
      if (const std::optional<std::size_t> source = next_in_turn(output)) {
        start(*source, output, now, outside);
        started = true;
      }
    }
  }
}

std::optional<std::size_t> PacketSwitch::next_in_turn(Output output) {
  const std::size_t sources = kInputs + cores_;
  for (std::size_t asked = 0; asked < sources; ++asked) {
    const std::size_t source = (ports_[output].turn + asked) % sources;
    const IciPacket* packet = front(source, output);
    if (packet == nullptr || !may_start(*packet, output)) continue;
    ports_[output].turn = source + 1;
    return source;
  }
  return std::nullopt;
}

/// The packet of an input, or of a core, that is the next to take an output.
const IciPacket* PacketSwitch::front(std::size_t source, Output output) const {
  if (source >= kInputs) {
    const std::deque<IciPacket>& queue = ports_[output].queues[source - kInputs];
    return queue.empty() ? nullptr : &queue.front();
  }
  const auto waiting = next_waiting(source, output);
  return waiting == inputs_[source].end() ? nullptr : &waiting->packet;
}

std::deque<PacketSwitch::Waiting>::const_iterator PacketSwitch::next_waiting(std::size_t input,
                                                                             Output output) const {
  const std::deque<Waiting>& queue = inputs_[input];
  const auto last = by_output_ || queue.empty() ? queue.end() : queue.begin() + 1;
  const auto waiting = std::find_if(
      queue.begin(), last, [output](const Waiting& each) { return each.output == output; });
  return waiting == last ? queue.end() : waiting;
}

bool PacketSwitch::may_start(const IciPacket& packet, Output output) const {
  return ends_behind(packet, output) ||
         ports_[output].credits[channel_behind(packet, output)] >= packet.bytes;
}

/// A packet takes an output that was free before: nobody had asked, it was on its way, or it was
/// here and held, by a buffer without room or by what is before it in its own.
void PacketSwitch::count(Port& port, const IciPacket& packet, Instant now) const {
  const std::uint64_t free = ticks(port.free), begin = ticks(now);
  const std::uint64_t here = std::clamp(ticks(packet.here), free, std::max(free, begin));
  const std::uint64_t asked = std::clamp(packet.message.sent * ticks_per_cycle_, free, here);
  port.account.idle(0, free, asked);
  port.account.idle(1, asked, here);
  port.account.idle(2, here, begin);
  port.account.pass(begin, begin + packet.bytes * ticks_per_byte_);
}

void PacketSwitch::begin_account(std::uint64_t now) {
  for (Port& port : ports_) {
    if (port.free.cycle < now) port.free = {now, 0};
    port.account.begin(now * ticks_per_cycle_, ticks(port.free));
  }
}

void PacketSwitch::add_accounts(std::uint64_t end, ExactAccounts& accounts) const {
  const LinkAccount::Causes causes{"idle: not asked", "idle: on its way", "idle: held"};
  for (Output output = 0; output < ports_.size(); ++output) {
    const bool is_link = output < isa::Topology::kDirections;
    if (is_link && !topology_.has_link(chip_, static_cast<Direction>(output))) continue;
    const Output core = output - isa::Topology::kDirections;
    const std::string name =
        is_link ? link_name(chip_, output) : way_name(std::size_t{chip_} * cores_ + core);
    const Port& port = ports_[output];
    const LinkAccount::End at{end * ticks_per_cycle_, port.free.ceil() * ticks_per_cycle_,
                              ticks(port.free)};
    accounts.push_back(port.account.end(name, at, ticks_per_cycle_, causes));
  }
}

void PacketSwitch::start(std::size_t source, Output output, Instant now, Outside& outside) {
  Port& port = ports_[output];
  IciPacket packet = *front(source, output);
  const Instant end = after(now, packet.bytes);
  count(port, packet, now);
  port.free = end;
  events_[end].push_back({});
  if (source >= kInputs) {
    port.queues[source - kInputs].pop_front();
    if (packet.last) note(true, packet.message, end.ceil());
  } else {
    inputs_[source].erase(next_waiting(source, output));
    outside.credit(static_cast<Direction>(source / kChannels), packet.channel, packet.bytes,
                   later(end, hop_cycles_));
  }
  if (output >= isa::Topology::kDirections) {
    if (packet.last) note(false, packet.message, end.ceil() + local_cycles_);
    return;
  }
  packet.channel = channel_behind(packet, output);
  packet.dimension = output / 2;
  if (!ends_behind(packet, output)) port.credits[packet.channel] -= packet.bytes;
  outside.packet(static_cast<Direction>(output), packet, later(now, hop_cycles_));
}

}  // namespace tpu
