#include "models/network/packet_router.h"

#include <algorithm>

namespace tpu {

PacketRouter::PacketRouter(const sc_core::sc_module_name& name, RunClock& clock,
                           const MachineParams& params, std::uint32_t chip)
    : TimedModule(name, clock, Phase::kArrivals),
      switch_(params, chip),
      endpoints_(params.cores_per_chip) {}

void PacketRouter::send(const IciMessage& message, std::uint64_t at) {
  switch_.send(message, at);
  schedule();
}

void PacketRouter::packet_arrives(PacketSwitch::Direction travelled, const IciPacket& packet,
                                  Instant at) {
  switch_.packet_arrives(travelled, packet, at);
  schedule();
}

void PacketRouter::credit_returns(PacketSwitch::Direction output, std::uint8_t channel,
                                  std::uint64_t bytes, Instant at) {
  switch_.credit_returns(output, channel, bytes, at);
  schedule();
}

void PacketRouter::tick() {
  PacketSwitch::Outside& outside = *this;
  switch_.deliver(now(), outside);
  if (phase() == Phase::kDepartures) {
    switch_.advance(now(), outside);
    switch_.deliver(now(), outside);
  }
  schedule();
}

void PacketRouter::schedule() {
  if (const std::optional<PacketSwitch::Next> next = switch_.next_event()) {
    wake_at(std::max(next->cycle, now()), next->departs ? Phase::kDepartures : Phase::kArrivals);
  }
}

void PacketRouter::packet(PacketSwitch::Direction output, const IciPacket& packet, Instant at) {
  out_neighbours[output]->packet_arrives(output, packet, at);
}

void PacketRouter::credit(PacketSwitch::Direction travelled, std::uint8_t channel,
                          std::uint64_t bytes, Instant at) {
  out_neighbours[isa::Topology::opposite(travelled)]->credit_returns(travelled, channel, bytes, at);
}

void PacketRouter::left(const IciMessage& message) {
  endpoints_[message.source_core]->message_left(message, now());
}

void PacketRouter::arrived(const IciMessage& message) {
  endpoints_[message.destination_core]->message_arrived(message, now());
}

}  // namespace tpu
