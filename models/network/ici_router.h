#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <queue>
#include <string>
#include <tuple>
#include <vector>

#include "isa/topology.h"
#include "models/network/ici_message.h"
#include "models/network/ici_routes.h"
#include "models/network/link.h"
#include "models/params.h"

namespace tpu {

/// The router of a chip with its outgoing links. Messages go the way of IciRoutes: along x
/// first, then y, then z, the shorter way round where the ends are linked, and around broken links.
/// Cut-through: a router
/// sends a message on as soon as its head is there, so a path costs one passage of the message and
/// a hop latency per link. A link carries its messages one after the other in the order in which
/// their heads arrive; of heads that arrive in the same cycle the one that has passed the most
/// links goes first, and of those that of the core with the lowest number. Cores of one chip reach
/// each other over a path of their own with the rate of a link. Left out: packets, flow control (a
/// router holds any number of messages), errors.
class IciRouter {
 public:
  using Direction = isa::Topology::Direction;

  /// What a router sends: to a neighbour (head), or to a core (tail), or the word that a message
  /// has left.
  struct Event {
    enum class Kind : std::uint8_t { kHead, kLeft, kArrived };
    Kind kind = Kind::kHead;
    std::uint64_t cycle = 0;
    IciMessage message;
  };

  IciRouter(const MachineParams& params, const IciRoutes& routes, std::uint32_t chip);

  /// The accounts of its links begin now.
  void begin_account(std::uint64_t now);
  /// Its state where no message is on its way.
  void describe(StepState& state) const;
  /// Adds the accounts of the links that leave the chip and of the ways to its cores.
  void add_accounts(std::uint64_t end, ExactAccounts& accounts) const;

  /// A message of one of this chip's cores enters.
  void send(const IciMessage& message, std::uint64_t now);
  /// The head of a message from a neighbour arrives, now or later.
  void head_arrives(const IciMessage& message, std::uint64_t at);
  struct Next {
    std::uint64_t cycle = 0;
    bool departs = false;  ///< A head that takes a link when all heads of the cycle are known.
  };
  std::optional<Next> next_event() const;
  /// Takes time to `now`; `complete`: all heads of that cycle are known. Heads go to
  /// `to_neighbour(direction, message, cycle)` ahead of their time; returns what happened at this
  /// chip, in order.
  template <class ToNeighbour>
  std::vector<Event> advance(std::uint64_t now, bool complete, const ToNeighbour& to_neighbour) {
    std::vector<Event> result;
    while (!events_.empty() && events_.top().event.cycle <= now) {
      Event event = events_.top().event;
      if (event.kind == Event::Kind::kHead && event.cycle == now && !complete) break;
      events_.pop();
      if (event.kind != Event::Kind::kHead) {
        result.push_back(event);
        continue;
      }
      const Hop hop = forward(event.message, event.cycle);
      event.message.tail = hop.tail;
      ++event.message.links;
      to_neighbour(hop.direction, event.message, hop.head);
    }
    return result;
  }

 private:
  struct Hop {
    Direction direction = isa::Topology::kEast;
    std::uint64_t head = 0;  ///< Arrival at the neighbour; of the tail where it ends there.
    std::uint64_t tail = 0;
  };
  struct Queued {
    Event event;
    std::uint64_t order = 0;
    /// Later than another one: by cycle; arrivals come before heads, of heads those that have
    /// passed the most links, and of equal ones the messages of the core with the lowest number.
    friend bool operator<(const Queued& a, const Queued& b) { return a.key() > b.key(); }
    std::tuple<std::uint64_t, bool, std::uint32_t, std::uint32_t, std::uint32_t, std::uint64_t,
               std::uint64_t>
    key() const {
      const IciMessage& message = event.message;
      const bool head = event.kind == Event::Kind::kHead;
      return {
          event.cycle,    head, head ? ~message.links : 0, message.source_chip, message.source_core,
          message.number, order};
    }
  };

  Hop forward(const IciMessage& message, std::uint64_t now);
  void queue(Event::Kind kind, std::uint64_t cycle, const IciMessage& message);

  const IciRoutes& routes_;
  std::uint32_t chip_;
  std::uint64_t hop_cycles_;
  std::uint64_t local_cycles_;
  std::vector<Link> links_;
  std::vector<Link> local_;  ///< One per receiving core.
  std::priority_queue<Queued> events_;
  std::uint64_t order_ = 0;
};

}  // namespace tpu
