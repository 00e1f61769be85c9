#include "models/network/folded_network.h"

#include <algorithm>
#include <tuple>

#include "isa/mirror_image.h"
#include "models/clock_cycles.h"
#include "sim/base/error.h"

namespace tpu {

FoldedNetwork::FoldedNetwork(const MachineParams& params, const CoreClasses& classes,
                             KnownDestinations& known)
    : classes_(classes),
      known_(known),
      topology_(params.topology()),
      routes_(params),
      cores_per_chip_(params.cores_per_chip),
      hop_cycles_(latency_cycles(params.ici.hop_latency_ns, params.clock_mhz)),
      local_cycles_(latency_cycles(params.ici.local_latency_ns, params.clock_mhz)) {
  for (std::uint32_t chip = 0; chip < params.chips(); ++chip) {
    for (std::uint8_t d = 0; d < isa::Topology::kDirections; ++d) {
      links_.push_back(routes_.link(chip, static_cast<isa::Topology::Direction>(d)));
    }
  }
  local_.assign(params.cores(), routes_.local_link());
}

void FoldedNetwork::begin_account(std::uint64_t now) {
  for (Link& link : links_) link.begin_account(now);
  for (Link& way : local_) way.begin_account(now);
}

void FoldedNetwork::describe(StepState& state) const {
  if (!heads_.empty() || !events_.empty()) state.leave_open();
  for (const Link& link : links_) link.describe(state);
  for (const Link& way : local_) way.describe(state);
}

void FoldedNetwork::add_accounts(std::uint64_t end, ExactAccounts& accounts) const {
  const auto cores = static_cast<std::size_t>(cores_per_chip_);
  for (std::size_t chip = 0; chip * cores < local_.size(); ++chip) {
    for (std::size_t d = 0; d < isa::Topology::kDirections; ++d) {
      const auto direction = static_cast<isa::Topology::Direction>(d);
      if (!routes_.is_sound(static_cast<std::uint32_t>(chip), direction)) continue;
      accounts.push_back(
          links_[chip * isa::Topology::kDirections + d].account(link_name(chip, d), end));
    }
    for (std::size_t core = chip * cores; core < (chip + 1) * cores; ++core) {
      accounts.push_back(local_[core].account(way_name(core), end));
    }
  }
}

void FoldedNetwork::check_destinations(const IciMessage& message, std::uint32_t of_class) {
  if (checked_ == message.destinations && checked_class_ == of_class) return;
  known_.note(classes_, of_class, *message.destinations);
  KnownDestinations::check(classes_, cores_per_chip_, of_class, *message.destinations);
  checked_ = message.destinations;
  checked_class_ = of_class;
}

void FoldedNetwork::send(const IciMessage& message, std::uint64_t now) {
  const std::uint32_t source = message.source_chip * cores_per_chip_ + message.source_core;
  const std::uint32_t of_class = classes_.class_of(source);
  Flight flight;
  flight.message = message;
  if (!message.destinations) {
    flight.message.destinations = std::make_shared<const std::vector<std::uint32_t>>(
        1, message.destination_chip * cores_per_chip_ + message.destination_core);
  }
  check_destinations(flight.message, of_class);
  if (message.destination_chip == message.source_chip) {
    return send_locally(flight.message, of_class, now);
  }
  flight.of_class = of_class;
  flight.to_class = classes_.class_of(destination(flight, 0));
  flight.order = order_++;
  flight.chips = classes_.members(of_class);
  for (std::uint32_t& chip : flight.chips) chip /= cores_per_chip_;
  heads_[now].push_back(std::move(flight));
}

void FoldedNetwork::send_locally(const IciMessage& message, std::uint32_t of_class,
                                 std::uint64_t now) {
  std::vector<std::uint64_t> ends;
  for (const std::uint32_t to : *message.destinations) {
    ends.push_back(local_[to].pass(now, message.bytes, message.sent).end);
  }
  require_alike("the path inside a chip", of_class, ends);
  const std::uint64_t order = order_++;
  if (message.dma != nullptr) {
    events_[ends[0]].push_back(
        {true, of_class, message, classes_.members(of_class).front(), order, {}});
  }
  arrive(message, of_class, order, ends[0] + local_cycles_);
}

/// Notes an arrival at all members of the destinations' class.
void FoldedNetwork::arrive(const IciMessage& message, std::uint32_t of_class, std::uint64_t order,
                           std::uint64_t cycle) {
  const std::vector<std::uint32_t>& to = *message.destinations;
  const CoreClasses::Members& members = classes_.members(of_class);
  const std::uint32_t to_class = classes_.class_of(to[0]);
  Event event{false, to_class, message, 0, order, {}};
  if (message.writes_hbm) event.sources.resize(to.size());
  for (std::size_t i = 0; i < to.size(); ++i) {
    const std::uint32_t place = classes_.place_of(to[i]);
    if (place == 0) event.from = members[i];
    if (message.writes_hbm) event.sources[place] = members[i];
  }
  events_[cycle].push_back(std::move(event));
}

std::optional<FoldedNetwork::Next> FoldedNetwork::next_event() const {
  if (heads_.empty() && events_.empty()) return std::nullopt;
  if (heads_.empty()) return Next{events_.begin()->first, false};
  if (events_.empty()) return Next{heads_.begin()->first, true};
  const bool departs = heads_.begin()->first < events_.begin()->first;
  return Next{departs ? heads_.begin()->first : events_.begin()->first, departs};
}

std::vector<FoldedNetwork::Event> FoldedNetwork::take_events(std::uint64_t now) {
  std::vector<Event> events;
  while (!events_.empty() && events_.begin()->first <= now) {
    std::vector<Event> of_cycle = std::move(events_.begin()->second);
    events_.erase(events_.begin());
    const auto key = [](const Event& event) {
      return std::make_tuple(event.of_class, event.from, event.message.number, event.order);
    };
    std::sort(of_cycle.begin(), of_cycle.end(),
              [&](const Event& a, const Event& b) { return key(a) < key(b); });
    check_order(of_cycle);
    std::move(of_cycle.begin(), of_cycle.end(), std::back_inserter(events));
  }
  return events;
}

/// Of messages that write the HBM of a core in the same cycle the first one is served first: in the
/// same order at all members.
void FoldedNetwork::check_order(const std::vector<Event>& events) const {
  for (std::size_t i = 0; i + 1 < events.size(); ++i) {
    const Event &a = events[i], &b = events[i + 1];
    if (a.of_class != b.of_class || a.sources.empty() || b.sources.empty()) continue;
    std::vector<std::uint64_t> keys;
    for (std::size_t m = 0; m < a.sources.size(); ++m) {
      keys.push_back(std::make_pair(b.sources[m], b.message.number) <
                     std::make_pair(a.sources[m], a.message.number));
    }
    require_alike("the order of two messages", a.of_class, keys);
  }
}

/// The order in which members' heads of one cycle take the links: those that have passed the most
/// links first, of these core by core, of a core in the order of its messages.
std::vector<FoldedNetwork::Turn> FoldedNetwork::turns(const std::vector<Flight>& flights) const {
  std::vector<std::uint32_t> in_order(flights.size());
  for (std::uint32_t f = 0; f < flights.size(); ++f) in_order[f] = f;
  const auto key = [&](std::uint32_t f) {
    const IciMessage& message = flights[f].message;
    return std::make_tuple(~message.links, message.number, flights[f].order);
  };
  std::sort(in_order.begin(), in_order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return key(a) < key(b); });
  std::vector<Turn> turns;
  for (auto begin = in_order.begin(); begin != in_order.end();) {
    const auto end = std::find_if(begin, in_order.end(), [&](std::uint32_t f) {
      return flights[f].message.links != flights[*begin].message.links;
    });
    const bool one_class = std::all_of(begin, end, [&](std::uint32_t f) {
      return flights[f].of_class == flights[*begin].of_class;
    });
    if (one_class) {
      const CoreClasses::Members& sources = classes_.members(flights[*begin].of_class);
      for (std::uint32_t i = 0; i < sources.size(); ++i) {
        for (auto f = begin; f != end; ++f) turns.push_back({sources[i], *f, i});
      }
    } else {
      const auto before = static_cast<std::ptrdiff_t>(turns.size());
      for (auto f = begin; f != end; ++f) {
        const CoreClasses::Members& sources = classes_.members(flights[*f].of_class);
        for (std::uint32_t i = 0; i < sources.size(); ++i) turns.push_back({sources[i], *f, i});
      }
      std::stable_sort(turns.begin() + before, turns.end(),
                       [](const Turn& a, const Turn& b) { return a.source < b.source; });
    }
    begin = end;
  }
  return turns;
}

FoldedNetwork::Hop FoldedNetwork::pass(Flight& flight, std::size_t place, std::uint64_t now) {
  std::uint32_t& chip = flight.chips[place];
  const std::uint32_t to = destination(flight, place) / cores_per_chip_;
  const isa::Topology::Direction direction = routes_.towards(chip, to);
  const Link::Passage passage =
      links_[std::size_t{chip} * isa::Topology::kDirections + direction].pass(
          now, flight.message.bytes, flight.message.sent);
  chip = routes_.neighbour(chip, direction);
  std::uint64_t end = passage.end;
  if (routes_.has_slow_links()) end = std::max(end, flight.message.tail);
  return {passage.begin, passage.end, end, chip == to};
}

void FoldedNetwork::depart(std::uint64_t now) {
  if (heads_.empty() || heads_.begin()->first != now) return;
  std::vector<Flight> flights = std::move(heads_.begin()->second);
  heads_.erase(heads_.begin());
  std::vector<std::vector<Hop>> hops(flights.size());
  for (std::size_t f = 0; f < flights.size(); ++f) hops[f].resize(flights[f].chips.size());
  for (const Turn& turn : turns(flights)) {
    hops[turn.flight][turn.place] = pass(flights[turn.flight], turn.place, now);
  }
  for (std::size_t f = 0; f < flights.size(); ++f) go_on(flights[f], hops[f]);
}

/// What cores have in common that a mirror of the slice maps onto each other, or, where its sides
/// are alike, one along the diagonal together with an exchange of the cores of a chip: programs
/// that go along both dimensions often take the same cycles there.
std::uint64_t FoldedNetwork::mirrored_place(std::uint32_t core) const {
  const bool exchanged = isa::is_square(topology_) && core % cores_per_chip_ == 1;
  return isa::mirror_image(topology_, core / cores_per_chip_, exchanged) * cores_per_chip_ +
         (exchanged ? 0 : core % cores_per_chip_);
}

void FoldedNetwork::go_on(Flight& flight, const std::vector<Hop>& hops) {
  const auto check = [&](const char* what, const auto& key) {
    for (const Hop& hop : hops) {
      if (key(hop) == key(hops[0])) continue;
      // Where some differ, those that stand differently will: one run finds all of them.
      std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> numbers;
      std::vector<std::uint64_t> keys;
      for (std::size_t i = 0; i < hops.size(); ++i) {
        const std::uint32_t core = classes_.members(flight.of_class)[i];
        const auto place = std::make_pair(key(hops[i]), mirrored_place(core));
        keys.push_back(numbers.emplace(place, numbers.size()).first->second);
      }
      throw MembersDiffer(what, flight.of_class, keys);
    }
  };
  check("the number of links", [](const Hop& hop) { return std::uint64_t{hop.last}; });
  check("the begin on a link", [](const Hop& hop) { return hop.begin; });
  check("the end on a link", [](const Hop& hop) { return hop.end; });
  check("the tail behind a link", [](const Hop& hop) { return hop.tail; });
  if (flight.is_first_hop && flight.message.dma != nullptr) {
    events_[hops[0].end].push_back({true,
                                    flight.of_class,
                                    flight.message,
                                    classes_.members(flight.of_class).front(),
                                    flight.order,
                                    {}});
  }
  flight.is_first_hop = false;
  if (hops[0].last) {
    return arrive(flight.message, flight.of_class, flight.order, hops[0].tail + hop_cycles_);
  }
  flight.message.tail = hops[0].tail + hop_cycles_;
  ++flight.message.links;
  heads_[hops[0].begin + hop_cycles_].push_back(std::move(flight));
}

}  // namespace tpu
