#pragma once

#include <vector>

#include "models/network/packet_switch.h"
#include "models/ports.h"

namespace tpu {

/// A router packet by packet, for its neighbours.
class PacketPort : public virtual sc_core::sc_interface {
 public:
  virtual void packet_arrives(PacketSwitch::Direction travelled, const IciPacket& packet,
                              Instant at) = 0;
  virtual void credit_returns(PacketSwitch::Direction output, std::uint8_t channel,
                              std::uint64_t bytes, Instant at) = 0;
};

/// The ICI router of a chip packet by packet: the module around a PacketSwitch, in place of Router.
class PacketRouter : public TimedModule,
                     public IciPort,
                     public PacketPort,
                     private PacketSwitch::Outside {
 public:
  using NeighbourOut = sc_core::sc_port<PacketPort, 1, sc_core::SC_ZERO_OR_MORE_BOUND>;
  /// To the routers in the directions of isa::Topology; unbound at the edge of a mesh.
  sc_core::sc_vector<NeighbourOut> out_neighbours{"out_neighbours", isa::Topology::kDirections};

  PacketRouter(const sc_core::sc_module_name& name, RunClock& clock, const MachineParams& params,
               std::uint32_t chip);

  /// A core of this chip, by its number in the chip; nullptr: takes no part in the run.
  void connect(std::uint32_t core, IciEndpoint* endpoint) { endpoints_[core] = endpoint; }

  void begin_account(std::uint64_t now) override { switch_.begin_account(now); }
  void add_accounts(std::uint64_t end, ExactAccounts& accounts) const {
    switch_.add_accounts(end, accounts);
  }

  void send(const IciMessage& message, std::uint64_t now) override;
  void packet_arrives(PacketSwitch::Direction travelled, const IciPacket& packet,
                      Instant at) override;
  void credit_returns(PacketSwitch::Direction output, std::uint8_t channel, std::uint64_t bytes,
                      Instant at) override;

 private:
  void tick() override;
  void schedule();
  void packet(PacketSwitch::Direction output, const IciPacket& packet, Instant at) override;
  void credit(PacketSwitch::Direction travelled, std::uint8_t channel, std::uint64_t bytes,
              Instant at) override;
  void left(const IciMessage& message) override;
  void arrived(const IciMessage& message) override;

  PacketSwitch switch_;
  std::vector<IciEndpoint*> endpoints_;
};

}  // namespace tpu
