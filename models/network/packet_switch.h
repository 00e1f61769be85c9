#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "isa/topology.h"
#include "models/network/ici_message.h"
#include "models/network/link_account.h"
#include "models/params.h"

namespace tpu {

/// A moment inside of a core cycle: `tick` in fractions of which a byte on a link takes a whole
/// number.
struct Instant {
  std::uint64_t cycle = 0;
  std::uint64_t tick = 0;

  std::uint64_t ceil() const { return cycle + (tick > 0 ? 1 : 0); }
  friend bool operator<(const Instant& a, const Instant& b) {
    return std::tie(a.cycle, a.tick) < std::tie(b.cycle, b.tick);
  }
};

/// A piece of a message that is routed by itself.
struct IciPacket {
  IciMessage message;
  std::uint64_t bytes = 0;
  bool last = false;             ///< Of its message.
  Instant here;                  ///< Since when it, or its head, is at this router.
  std::size_t dimension = ~0UL;  ///< In which it travels.
  std::uint8_t channel = 0;      ///< Virtual channel of its present buffer.
};

/// The router of a chip packet by packet: the slow twin of IciRouter (`--detail ici=packet`).
///
/// Messages are cut into packets of 1 KiB. Each input from a neighbour has a buffer for each of
/// four virtual channels; each core has a queue for each output, as deep as need be. A packet takes
/// a link when the link is free and the buffer behind it has room for all of it: its sender counts
/// the credits, which come back a hop after the packet's last byte has left that buffer. It goes on
/// as soon as its head is there (virtual cut-through). Of several that want a link the next in turn
/// gets it (round robin over inputs and cores). At its destination a packet is drained at once.
///
/// Along x, then y, then z, the shorter way round. In a torus each ring has a dateline, its link
/// over the end: packets begin a dimension in one channel and go on in another behind the dateline,
/// so no buffers wait for each other in a circle (Dally and Seitz 1987). Of each of the two there
/// is one for packets that go straight on at the router behind the link, and one for those that
/// turn there: with one queue for both, packets that wait for the turn hold up those that do not,
/// and that back along the whole row. A buffer holds what a link carries in the round trip of a
/// credit, and two packets: just enough for one channel to fill the link.
///
/// Timing: a packet's bytes over the link's rate, a hop latency from router to router; arbitration
/// and crossbar take no cycle of their own (they are in the hop latency). Left out: flits, errors,
/// slow and broken links. Packet size, number of channels and arbiter of the real routers are not
/// published: assumed.
class PacketSwitch {
 public:
  using Direction = isa::Topology::Direction;
  static constexpr std::uint64_t kPacketBytes = 1024;
  static constexpr std::uint8_t kChannels = 4;

  /// What a router tells others.
  class Outside {
   public:
    virtual ~Outside() = default;
    virtual void packet(Direction output, const IciPacket& packet, Instant at) = 0;
    /// To the neighbour that a packet came from, which sent it in direction `travelled`.
    virtual void credit(Direction travelled, std::uint8_t channel, std::uint64_t bytes,
                        Instant at) = 0;
    virtual void left(const IciMessage& message) = 0;
    virtual void arrived(const IciMessage& message) = 0;
  };

  /// The buffers of a router's inputs.
  struct Buffers {
    std::uint64_t bytes = 0;  ///< Of each virtual channel; 0: a round trip and two packets.
    /// A queue for each output, so that no packet waits behind one that wants another link; else
    /// one queue, of which only the first packet can leave.
    bool by_output = false;
  };

  PacketSwitch(const MachineParams& params, std::uint32_t chip)
      : PacketSwitch(params, chip, Buffers{}) {}
  PacketSwitch(const MachineParams& params, std::uint32_t chip, Buffers buffers);

  /// A message of one of this chip's cores enters.
  void send(const IciMessage& message, std::uint64_t now);
  /// The head of a packet, which has travelled in this direction.
  void packet_arrives(Direction travelled, const IciPacket& packet, Instant at);
  void credit_returns(Direction output, std::uint8_t channel, std::uint64_t bytes, Instant at);

  struct Next {
    std::uint64_t cycle = 0;
    bool departs = false;  ///< Packets that take links when all that happens in the cycle is known.
  };
  std::optional<Next> next_event() const;
  /// The accounts of its links begin now.
  void begin_account(std::uint64_t now);
  /// Adds the accounts of the links that leave the chip and of the ways to its cores.
  void add_accounts(std::uint64_t end, ExactAccounts& accounts) const;
  /// Tells the cores what has left and arrived up to a cycle.
  void deliver(std::uint64_t now, Outside& outside);
  /// Everything that happens in this router in a cycle, all of whose arrivals are known.
  void advance(std::uint64_t now, Outside& outside);

  /// Bytes of an input's buffer for a virtual channel.
  std::uint64_t buffer_bytes() const { return buffer_bytes_; }

 private:
  /// Outputs: the six directions, then the local path to each core.
  using Output = std::size_t;
  static constexpr std::size_t kInputs = std::size_t{isa::Topology::kDirections} * kChannels;
  struct Event {
    enum class Kind : std::uint8_t { kHead, kCredit, kWake };
    Kind kind = Kind::kWake;
    Direction direction = isa::Topology::kEast;  ///< That it travelled in, or of the output.
    std::uint8_t channel = 0;
    std::uint64_t bytes = 0;
    IciPacket packet;
  };
  struct Delivery {
    bool left = false;
    IciMessage message;
  };
  struct Waiting {
    IciPacket packet;
    Output output = 0;
  };
  struct Port {
    Instant free;
    std::array<std::uint64_t, kChannels> credits{};
    std::size_t turn = 0;                       ///< The input or core that is asked first.
    std::vector<std::deque<IciPacket>> queues;  ///< Of the cores.
    LinkAccount account;
  };

  Instant after(Instant from, std::uint64_t bytes) const;
  std::uint64_t ticks(Instant at) const { return at.cycle * ticks_per_cycle_ + at.tick; }
  void count(Port& port, const IciPacket& packet, Instant now) const;
  static Instant later(Instant from, std::uint64_t cycles) {
    return {from.cycle + cycles, from.tick};
  }
  Output output_of(const IciMessage& message) const;
  std::uint8_t channel_behind(const IciPacket& packet, Output output) const;
  bool ends_behind(const IciPacket& packet, Output output) const;
  bool turns_behind(const IciPacket& packet, Output output) const;
  bool crosses_dateline(Direction direction) const;
  void apply(const Event& event);
  void arbitrate(Instant now, Outside& outside);
  std::optional<std::size_t> next_in_turn(Output output);
  const IciPacket* front(std::size_t source, Output output) const;
  std::deque<Waiting>::const_iterator next_waiting(std::size_t input, Output output) const;
  bool may_start(const IciPacket& packet, Output output) const;
  void start(std::size_t source, Output output, Instant now, Outside& outside);
  void note(bool left, const IciMessage& message, std::uint64_t cycle);

  const isa::Topology topology_;
  const std::uint32_t chip_;
  const std::uint32_t cores_;
  std::uint64_t hop_cycles_, local_cycles_;
  std::uint64_t ticks_per_cycle_ = 1, ticks_per_byte_ = 1;
  const bool by_output_;
  std::uint64_t buffer_bytes_ = 0;
  std::array<std::deque<Waiting>, kInputs> inputs_;
  std::vector<Port> ports_;
  std::map<Instant, std::vector<Event>> events_;
  /// By cycle, core of the source and number of the message.
  using DeliveryKey =
      std::tuple<std::uint64_t, std::uint32_t, std::uint32_t, std::uint64_t, std::uint64_t>;
  std::map<DeliveryKey, Delivery> deliveries_;
  std::uint64_t order_ = 0;
};

}  // namespace tpu
