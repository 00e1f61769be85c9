#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "isa/topology.h"
#include "models/core_classes.h"
#include "models/network/ici_message.h"
#include "models/network/ici_routes.h"
#include "models/network/known_destinations.h"
#include "models/network/link.h"
#include "models/params.h"

namespace tpu {

/// The interconnect of a folded run: what a class of cores sends goes from each of its members over
/// the links of the whole slice, by the rules of IciRouter (cut-through, x then y, first come first
/// served, of heads in one cycle those that have passed the most links first), but all members'
/// messages are one event. They stay one as long as they take the same cycles, end at the members
/// of one class, and reach each of them once; else MembersDiffer says which class splits.
class FoldedNetwork {
 public:
  /// `known`: where it notes what is sent.
  FoldedNetwork(const MachineParams& params, const CoreClasses& classes, KnownDestinations& known);

  /// As IciRouter::add_accounts(), of all chips.
  void begin_account(std::uint64_t now);
  void add_accounts(std::uint64_t end, ExactAccounts& accounts) const;

  /// Its state where no message is on its way.
  void describe(StepState& state) const;
  /// The representative of a class sends, and so does every member.
  void send(const IciMessage& message, std::uint64_t now);

  struct Next {
    std::uint64_t cycle = 0;
    bool departs = false;  ///< Heads that take links when all heads of the cycle are known.
  };
  std::optional<Next> next_event() const;

  /// A message has left all members of a class, or has reached them.
  struct Event {
    bool left = false;
    std::uint32_t of_class = 0;
    IciMessage message;
    /// Number of the core whose message it is: of the one that left, the representative's.
    std::uint32_t from = 0;
    std::uint64_t order = 0;
    /// Who sent to each member, with equal cycles of arrival; for messages that write HBM.
    std::vector<std::uint32_t> sources;
  };
  /// What happens in cycle `now`, in the order in which the representatives see it.
  std::vector<Event> take_events(std::uint64_t now);
  /// Heads of cycle `now` take their links.
  void depart(std::uint64_t now);

 private:
  struct Flight {
    IciMessage message;
    std::uint32_t of_class = 0, to_class = 0;
    std::uint64_t order = 0;
    std::vector<std::uint32_t> chips;  ///< Where the members' heads are.
    bool is_first_hop = true;
  };
  struct Hop {
    std::uint64_t begin = 0, end = 0;
    std::uint64_t tail = 0;  ///< Its end, or later behind a slower link.
    bool last = false;
  };
  /// A member's head, in the order in which links serve them.
  struct Turn {
    std::uint32_t source = 0;
    std::uint32_t flight = 0, place = 0;
  };

  void check_destinations(const IciMessage& message, std::uint32_t of_class);
  std::uint32_t destination(const Flight& flight, std::size_t place) const {
    return (*flight.message.destinations)[place];
  }
  void send_locally(const IciMessage& message, std::uint32_t of_class, std::uint64_t now);
  std::vector<Turn> turns(const std::vector<Flight>& flights) const;
  Hop pass(Flight& flight, std::size_t place, std::uint64_t now);
  void go_on(Flight& flight, const std::vector<Hop>& hops);
  std::uint64_t mirrored_place(std::uint32_t core) const;
  void arrive(const IciMessage& message, std::uint32_t of_class, std::uint64_t order,
              std::uint64_t cycle);
  void check_order(const std::vector<Event>& events) const;

  const CoreClasses& classes_;
  KnownDestinations& known_;
  const isa::Topology topology_;
  const IciRoutes routes_;
  const std::uint32_t cores_per_chip_;
  std::uint64_t hop_cycles_;
  std::uint64_t local_cycles_;
  std::vector<Link> links_;  ///< By chip and direction.
  std::vector<Link> local_;  ///< By receiving core.
  std::map<std::uint64_t, std::vector<Flight>> heads_;
  std::map<std::uint64_t, std::vector<Event>> events_;
  std::uint64_t order_ = 0;
  MemberDestinations checked_;  ///< Passed check_destinations() last, of that class.
  std::uint32_t checked_class_ = 0;
};

}  // namespace tpu
