#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <random>

#include "models/network/ici_router.h"
#include "models/network/packet_switch.h"
#include "tests/models/test_program.h"

namespace tpu::packet_test {
namespace {

/// A message from core to core, two to a chip.
struct Sent {
  std::uint32_t from = 0, to = 0;
  std::uint64_t bytes = 0;
  std::uint64_t at = 0;
};
/// When the last byte of each message left its chip, and arrived.
struct Times {
  std::vector<std::uint64_t> left, arrived;
  std::uint64_t last() const { return *std::max_element(arrived.begin(), arrived.end()); }
};

IciMessage message_of(const Sent& sent, std::size_t number) {
  IciMessage message;
  message.source_chip = sent.from / 2;
  message.source_core = sent.from % 2;
  message.destination_chip = sent.to / 2;
  message.destination_core = sent.to % 2;
  message.bytes = sent.bytes;
  message.number = number;
  return message;
}

/// Calls `step(cycle, first, last)` for each cycle in which something happens, until nothing will;
/// the messages from `first` to before `last` are sent in it. They are in the order of `at`.
void run_cycles(
    const std::vector<Sent>& traffic,
    const std::function<std::uint64_t(std::uint64_t from)>& next_cycle,
    const std::function<void(std::uint64_t cycle, std::size_t first, std::size_t last)>& step) {
  std::size_t sent = 0;
  for (std::uint64_t cycle = 0;; ++cycle) {
    std::uint64_t next = next_cycle(cycle);
    if (sent < traffic.size()) next = std::min(next, traffic[sent].at);
    if (next == ~std::uint64_t{0}) return;
    const std::size_t first = sent;
    while (sent < traffic.size() && traffic[sent].at == next) ++sent;
    step(cycle = next, first, sent);
  }
}

Times by_messages(const MachineParams& params, const std::vector<Sent>& traffic) {
  Times times{std::vector<std::uint64_t>(traffic.size()),
              std::vector<std::uint64_t>(traffic.size())};
  const IciRoutes routes(params);
  std::vector<IciRouter> routers;
  for (std::uint32_t chip = 0; chip < params.chips(); ++chip) {
    routers.emplace_back(params, routes, chip);
  }
  const auto next_cycle = [&](std::uint64_t from) {
    std::uint64_t next = ~std::uint64_t{0};
    for (const IciRouter& router : routers) {
      if (router.next_event()) next = std::min(next, std::max(from, router.next_event()->cycle));
    }
    return next;
  };
  run_cycles(traffic, next_cycle, [&](std::uint64_t cycle, std::size_t first, std::size_t last) {
    for (const bool complete : {false, true}) {
      for (std::size_t i = first; complete && i < last; ++i) {
        routers[traffic[i].from / 2].send(message_of(traffic[i], i), cycle);
      }
      for (std::uint32_t chip = 0; chip < routers.size(); ++chip) {
        for (const IciRouter::Event& event : routers[chip].advance(
                 cycle, complete, [&](auto direction, const IciMessage&message, auto at) {
                   routers[routes.neighbour(chip, direction)].head_arrives(message, at);
                 })) {
          const bool left = event.kind == IciRouter::Event::Kind::kLeft;
          (left ? times.left : times.arrived)[event.message.number] = cycle;
        }
      }
    }
  });
  return times;
}

/// Packet routers, as their modules join them.
class PacketSlice {
 public:
  PacketSlice(const MachineParams& params, const std::vector<Sent>& traffic,
              PacketSwitch::Buffers buffers = {})
      : topology_(params.topology()),
        traffic_(traffic),
        times_{std::vector<std::uint64_t>(traffic.size()),
               std::vector<std::uint64_t>(traffic.size())} {
    for (std::uint32_t chip = 0; chip < params.chips(); ++chip) {
      switches_.emplace_back(params, chip, buffers);
    }
  }

  Times run() {
    const auto next_cycle = [&](std::uint64_t from) {
      std::uint64_t next = ~std::uint64_t{0};
      for (const PacketSwitch& each : switches_) {
        if (each.next_event()) next = std::min(next, std::max(from, each.next_event()->cycle));
      }
      return next;
    };
    run_cycles(traffic_, next_cycle, [&](std::uint64_t cycle, std::size_t first, std::size_t last) {
      for_each(cycle, [&](PacketSwitch& each, Side& side) { each.deliver(cycle, side); });
      for (std::size_t i = first; i < last; ++i) {
        switches_[traffic_[i].from / 2].send(message_of(traffic_[i], i), cycle);
      }
      for_each(cycle, [&](PacketSwitch& each, Side& side) { each.advance(cycle, side); });
      for_each(cycle, [&](PacketSwitch& each, Side& side) { each.deliver(cycle, side); });
    });
    return times_;
  }
  /// What a link did up to a cycle, by what it did, in cycles.
  std::map<std::string, std::uint64_t> account(std::uint32_t chip, const std::string& link,
                                               std::uint64_t end) const {
    ExactAccounts accounts;
    switches_[chip].add_accounts(end, accounts);
    for (const ExactAccount& account : accounts) {
      if (account.part == link) return {account.cycles.begin(), account.cycles.end()};
    }
    return {};
  }
  void begin_account(std::uint64_t now) {
    for (PacketSwitch& each : switches_) each.begin_account(now);
  }

 private:
  struct Side : PacketSwitch::Outside {
    PacketSlice& slice;
    std::uint32_t chip;
    std::uint64_t now;
    Side(PacketSlice& of, std::uint32_t number, std::uint64_t cycle)
        : slice(of), chip(number), now(cycle) {}
    void packet(PacketSwitch::Direction output, const IciPacket& packet, Instant at) override {
      EXPECT_GT(at.cycle, now);
      slice.switches_[slice.topology_.neighbour(chip, output)].packet_arrives(output, packet, at);
    }
    void credit(PacketSwitch::Direction travelled, std::uint8_t channel, std::uint64_t bytes,
                Instant at) override {
      const auto back = isa::Topology::opposite(travelled);
      slice.switches_[slice.topology_.neighbour(chip, back)].credit_returns(travelled, channel,
                                                                            bytes, at);
    }
    void left(const IciMessage& message) override { slice.times_.left[message.number] = now; }
    void arrived(const IciMessage& message) override {
      EXPECT_EQ(message.destination_chip, chip);
      slice.times_.arrived[message.number] = now;
    }
  };
  template <class Visit>
  void for_each(std::uint64_t cycle, const Visit& visit) {
    for (std::uint32_t chip = 0; chip < switches_.size(); ++chip) {
      Side side(*this, chip, cycle);
      visit(switches_[chip], side);
    }
  }

  const isa::Topology topology_;
  const std::vector<Sent>& traffic_;
  std::vector<PacketSwitch> switches_;
  Times times_;
};

Times by_packets(const MachineParams& params, const std::vector<Sent>& traffic,
                 PacketSwitch::Buffers buffers = {}) {
  return PacketSlice(params, traffic, buffers).run();
}

MachineParams torus(std::uint32_t x, std::uint32_t y, bool wraps) {
  MachineParams params;
  params.ici.mesh_x = x;
  params.ici.mesh_y = y;
  params.ici.wrap_x = params.ici.wrap_y = wraps;
  return params;
}

/// A DMA as the engine sends it: messages of 16 KiB, one behind the other.
void add_dma(std::vector<Sent>& traffic, std::uint32_t from, std::uint32_t to, std::uint64_t bytes,
             std::uint64_t at) {
  constexpr std::uint64_t kMessage = 16384;
  for (std::uint64_t done = 0; done < bytes; done += kMessage) {
    traffic.push_back({from, to, std::min(kMessage, bytes - done), at});
  }
}

TEST(PacketTwin, EqualToTheCycleWithoutContention) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 300; ++trial) {
    MachineParams params = torus(1 + random() % 5, 1 + random() % 5, random() % 2 == 0);
    if (trial % 4 == 0) params.ici.hop_latency_ns = random() % 50;
    if (trial % 4 == 1) params.ici.link_mbps = 1000 + random() % 900000;
    std::vector<Sent> traffic;
    // DMAs and additions, each when the ones before have arrived, or both ways at once.
    std::uint64_t at = 0;
    for (int dma = 0; dma < 4; ++dma) {
      const auto from = static_cast<std::uint32_t>(random() % params.cores());
      const auto to = static_cast<std::uint32_t>(random() % params.cores());
      const std::uint64_t bytes = random() % 3 == 0 ? 0 : 1 + random() % 100000;
      if (bytes == 0) {
        traffic.push_back({from, to, 0, at});
      } else {
        add_dma(traffic, from, to, bytes, at);
        if (random() % 2 == 0 && from / 2 != to / 2) add_dma(traffic, to, from, bytes, at);
      }
      at += 1000000 + random() % 1000;
    }
    const Times messages = by_messages(params, traffic), packets = by_packets(params, traffic);
    // Both ways round a ring of even length are upwards: there the two DMAs never meet either.
    ASSERT_EQ(messages.arrived, packets.arrived) << "trial " << trial;
    ASSERT_EQ(messages.left, packets.left) << "trial " << trial;
  }
}

using Pattern = std::function<std::vector<std::uint32_t>(const isa::Topology&, std::uint32_t chip)>;

struct Load {
  const char* name;
  Pattern to;
  double bound;  ///< How far the twins may be apart, of the time until all has arrived.
};

std::uint32_t moved(const isa::Topology& slice, std::uint32_t chip, std::uint32_t x,
                    std::uint32_t y) {
  isa::Topology::Place place = slice.place(chip);
  place[0] = (place[0] + x) % slice.dimension(0).size;
  place[1] = (place[1] + y) % slice.dimension(1).size;
  return slice.chip_at(place);
}

std::vector<Load> loads() {
  return {{"neighbour",
           [](const isa::Topology& slice, std::uint32_t chip) {
             return std::vector<std::uint32_t>{moved(slice, chip, 1, 0)};
           },
           0.002},
          {"ring, both ways",
           [](const isa::Topology& slice, std::uint32_t chip) {
             const std::uint32_t width = slice.dimension(0).size;
             return std::vector<std::uint32_t>{moved(slice, chip, 1, 0),
                                               moved(slice, chip, width - 1, 0)};
           },
           0.002},
          {"all-to-all",
           [](const isa::Topology& slice, std::uint32_t chip) {
             std::vector<std::uint32_t> to;
             for (std::uint32_t i = 1; i < slice.chips(); ++i) {
               to.push_back((chip + i) % slice.chips());
             }
             return to;
           },
           0.6},
          {"hot spot",
           [](const isa::Topology&, std::uint32_t chip) {
             return chip == 0 ? std::vector<std::uint32_t>{} : std::vector<std::uint32_t>{0};
           },
           0.002},
          {"bisection",
           [](const isa::Topology& slice, std::uint32_t chip) {
             return std::vector<std::uint32_t>{moved(slice, chip, slice.dimension(0).size / 2, 0)};
           },
           0.002}};
}

std::vector<Sent> traffic_of(const Load& load, const isa::Topology& slice, std::uint64_t bytes) {
  std::vector<Sent> traffic;
  for (std::uint32_t chip = 0; chip < slice.chips(); ++chip) {
    for (const std::uint32_t to : load.to(slice, chip))
      add_dma(traffic, 2 * chip, 2 * to, bytes, 0);
  }
  return traffic;
}

/// With TPUSIM_ICI_TABLE set it prints the table of bench/ici_twins.md.
TEST(PacketTwin, WithinABoundUnderContention) {
  const bool prints = std::getenv("TPUSIM_ICI_TABLE") != nullptr;
  for (const bool wraps : {false, true}) {
    for (const std::uint32_t side : {4u, 8u}) {
      if (side == 8 && !prints) continue;
      const MachineParams params = torus(side, side, wraps);
      for (const Load& load : loads()) {
        for (const std::uint64_t bytes : {16384u, 262144u}) {
          const std::vector<Sent> traffic = traffic_of(load, params.topology(), bytes);
          const auto messages = static_cast<double>(by_messages(params, traffic).last());
          const auto packets = static_cast<double>(by_packets(params, traffic).last());
          if (side == 4) {
            EXPECT_LE(std::abs(packets / messages - 1), load.bound) << load.name << ", " << bytes;
          }
          if (!prints) continue;
          std::printf("| %ux%u %s | %s | %u | %.0f | %.0f | %+.1f %% |\n", side, side,
                      wraps ? "torus" : "mesh", load.name, static_cast<unsigned>(bytes / 1024),
                      messages, packets, 100 * (packets / messages - 1));
        }
      }
    }
  }
}

/// Cycles in which the busiest link passes all that goes over it: no router is done earlier.
double busiest_link(const MachineParams& params, const std::vector<Sent>& traffic) {
  const isa::Topology slice = params.topology();
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint64_t> bytes;
  std::uint64_t most = 0;
  for (const Sent& sent : traffic) {
    for (std::uint32_t at = sent.from / 2; at != sent.to / 2;) {
      const auto direction = slice.towards(at, sent.to / 2);
      most = std::max(most, bytes[{at, direction}] += sent.bytes);
      at = slice.neighbour(at, direction);
    }
  }
  return static_cast<double>(most) * 8 * params.clock_mhz / params.ici.link_mbps;
}

constexpr PacketSwitch::Buffers kAmple{std::uint64_t{1} << 40, false};
constexpr PacketSwitch::Buffers kAmpleByOutput{std::uint64_t{1} << 40, true};

struct AllToAll {
  std::uint32_t side = 4;
  bool wraps = false;
  std::uint64_t bytes = 0;
};

/// What makes packets of an all-to-all later than messages: that buffers are full. Packets that
/// turn have buffers of their own, so that next to none waits behind one of its buffer that wants
/// another link (head-of-line blocking): of those that turn some want the other direction, which is
/// seen on a torus alone, whose rows are short. Without both they take the time of messages: that
/// of the busiest link, and hops to it and from it.
void expect_the_difference_is_head_of_line_blocking_and_full_buffers(const AllToAll& row,
                                                                     bool prints) {
  const MachineParams params = torus(row.side, row.side, row.wraps);
  const isa::Topology slice = params.topology();
  const std::vector<Sent> traffic = traffic_of(loads()[2], slice, row.bytes);
  const auto messages = static_cast<double>(by_messages(params, traffic).last());
  const auto of_messages = [&](PacketSwitch::Buffers buffers) {
    return static_cast<double>(by_packets(params, traffic, buffers).last()) / messages;
  };
  const double link = busiest_link(params, traffic), hop = 940;
  const double farthest = row.wraps ? row.side : 2 * (row.side - 1);
  EXPECT_GE(messages, link + hop);
  EXPECT_LE(messages, link + farthest * hop + 1);

  const double by_output = of_messages(kAmpleByOutput), ample = of_messages(kAmple);
  const double full = of_messages({});
  EXPECT_NEAR(by_output, 1, 0.0005);
  EXPECT_LE(ample, row.wraps ? 1.05 : 1.0005);
  // What a core sends in all fits into a buffer with the small arrays, and does not with the
  // others.
  if (row.bytes * (slice.chips() - 1) > 2 * PacketSwitch(params, 0).buffer_bytes()) {
    EXPECT_GE(full, ample + 0.05);
    EXPECT_LE(full, 1.45);
  } else if (row.side == 4) {
    EXPECT_EQ(full, ample);
  }
  if (!prints) return;
  const auto late = [](double of) { return 100 * (of - 1); };
  std::printf("| %ux%u %s | %u | %.0f | %.0f | %+.1f %% | %+.1f %% | %+.1f %% |\n", row.side,
              row.side, row.wraps ? "torus" : "mesh", static_cast<unsigned>(row.bytes / 1024), link,
              messages, late(by_output), late(ample), late(full));
}

/// With TPUSIM_ICI_TABLE set it prints the second table of bench/ici_twins.md.
TEST(PacketTwin, AllToAllDiffersByHeadOfLineBlockingAndFullBuffersOnly) {
  const bool prints = std::getenv("TPUSIM_ICI_TABLE") != nullptr;
  for (const bool wraps : {false, true}) {
    for (const AllToAll& row : {AllToAll{4, wraps, 16384}, AllToAll{4, wraps, 131072}}) {
      SCOPED_TRACE(std::to_string(wraps) + ", " + std::to_string(row.bytes));
      expect_the_difference_is_head_of_line_blocking_and_full_buffers(row, prints);
    }
    if (prints) {
      expect_the_difference_is_head_of_line_blocking_and_full_buffers({4, wraps, 262144}, true);
    }
  }
}

/// On a ring of `chips` each sends 256 KiB to the one opposite, all the same way round: every link
/// is wanted all the time. Packets take so many times the time of messages.
double opposite_on_a_ring(std::uint32_t chips, PacketSwitch::Buffers buffers) {
  const MachineParams params = torus(chips, 1, true);
  const std::vector<Sent> traffic = traffic_of(loads()[4], params.topology(), 262144);
  const auto messages = static_cast<double>(by_messages(params, traffic).last());
  EXPECT_NEAR(messages, busiest_link(params, traffic) + 940, 1);
  return static_cast<double>(by_packets(params, traffic, buffers).last()) / messages;
}

/// Streams that pass two links fill a ring. Of those that pass four some stand in full buffers
/// while links behind them are idle; there turns of one packet each would cost less than a tenth.
TEST(PacketTwin, AFullRingOfLongStreamsWaitsForRoom) {
  EXPECT_NEAR(opposite_on_a_ring(4, {}), 1, 0.002);
  EXPECT_NEAR(opposite_on_a_ring(8, {}), 1.745, 0.002);
  EXPECT_NEAR(opposite_on_a_ring(8, kAmple), 1.072, 0.002);
}

/// Traffic of a random kind on a slice: exchanges among some of the chips, every chip to another
/// one, all by the same way, to a few of them, or between any two at any time.
std::vector<Sent> random_traffic(std::mt19937& random, const isa::Topology& slice) {
  const auto up_to = [&](std::uint32_t most) {
    return static_cast<std::uint32_t>(random() % most);
  };
  const std::uint32_t chips = slice.chips();
  const std::uint64_t bytes = std::uint64_t{1024} << up_to(9);
  std::vector<std::uint32_t> order(chips);
  for (std::uint32_t chip = 0; chip < chips; ++chip) order[chip] = chip;
  std::shuffle(order.begin(), order.end(), random);
  std::vector<Sent> traffic;
  const std::uint32_t kind = up_to(5), both = up_to(2);
  const auto add = [&](std::uint32_t from, std::uint32_t to, std::uint64_t size, std::uint64_t at) {
    for (std::uint32_t core = 0; core <= both && from != to; ++core) {
      add_dma(traffic, 2 * from + core, 2 * to + core, size, at);
    }
  };
  const std::uint32_t some = 2 + up_to(chips - 1), x = up_to(8), y = up_to(8);
  for (std::uint32_t chip = 0; chip < chips; ++chip) {
    switch (kind) {
      case 0:
        for (std::uint32_t i = 1; chip < some && i < some; ++i) {
          add(order[chip], order[(chip + i) % some], std::min<std::uint64_t>(bytes, 65536), 0);
        }
        break;
      case 1:
        add(chip, order[chip], 4 * bytes, 0);
        break;
      case 2:
        add(chip, moved(slice, chip, x, y), 4 * bytes, 0);
        break;
      case 3:
        add(chip, order[up_to(1 + some / 4)], bytes, 0);
        break;
      default:
        for (std::uint32_t i = up_to(6); i > 0; --i) {
          add(chip, up_to(chips), 1 + up_to(262144), up_to(20000));
        }
    }
  }
  std::stable_sort(traffic.begin(), traffic.end(),
                   [](const Sent& a, const Sent& b) { return a.at < b.at; });
  return traffic;
}

/// Neither is done before the busiest link is, and a hop behind it. Packets take at most twice the
/// time of messages for each dimension of the slice, messages at most half as long again as
/// packets: that is measured, not proven. TPUSIM_ICI_TRAFFIC=1000 tries as many sets, more than 60
/// on slices up to 8x8, and prints the shares of bench/ici_twins.md.
TEST(PacketTwin, RandomTrafficStaysWithinTheStatedBound) {
  const char* asked = std::getenv("TPUSIM_ICI_TRAFFIC");
  const int trials = asked != nullptr ? std::atoi(asked) : 60;
  const std::uint32_t side = trials > 60 ? 8 : 5;
  std::mt19937 random(11);
  std::vector<double> ratios;
  for (int trial = 0; trial < trials; ++trial) {
    MachineParams params = torus(2 + random() % (side - 1), 1 + random() % side, false);
    params.ici.wrap_x = random() % 2 == 0;
    params.ici.wrap_y = random() % 2 == 0;
    const std::vector<Sent> traffic = random_traffic(random, params.topology());
    if (traffic.empty()) continue;
    SCOPED_TRACE("trial " + std::to_string(trial) + ", " + params.topology().text());
    const auto messages = static_cast<double>(by_messages(params, traffic).last());
    const auto packets = static_cast<double>(by_packets(params, traffic).last());
    const double soonest = busiest_link(params, traffic) + 940 - 1;
    EXPECT_GE(messages, soonest);
    EXPECT_GE(packets, soonest);
    EXPECT_LE(packets, (params.ici.mesh_y > 1 ? 4 : 2) * messages);
    EXPECT_LE(messages, 1.5 * packets);
    ratios.push_back(packets / messages);
  }
  if (asked == nullptr) return;
  std::sort(ratios.begin(), ratios.end());
  std::printf("%zu sets:", ratios.size());
  for (const double share : {0.0, 0.1, 0.5, 0.9, 0.95, 0.99, 1.0}) {
    const auto place = static_cast<std::size_t>(share * static_cast<double>(ratios.size() - 1));
    std::printf(" %.0f %% %.3f", 100 * share, ratios[place]);
  }
  std::printf("\n");
}

/// Everybody sends far along both rings through buffers of little more than two packets, until all
/// of them are full: without the dateline they wait for each other for ever.
TEST(PacketSwitch, ATorusWithSmallBuffersDoesNotDeadlock) {
  MachineParams params = torus(6, 6, true);
  params.ici.hop_latency_ns = 1;
  EXPECT_LT(PacketSwitch(params, 0).buffer_bytes(), 3 * PacketSwitch::kPacketBytes);
  std::vector<Sent> traffic;
  const isa::Topology slice = params.topology();
  for (std::uint32_t chip = 0; chip < slice.chips(); ++chip) {
    for (const std::uint32_t far : {2u, 3u}) {
      add_dma(traffic, 2 * chip, 2 * moved(slice, chip, far, far), 100000, 0);
      add_dma(traffic, 2 * chip + 1, 2 * moved(slice, chip, far, 0), 100000, 0);
    }
  }
  const Times times = by_packets(params, traffic);
  for (std::size_t i = 0; i < traffic.size(); ++i) EXPECT_GT(times.arrived[i], 0u) << i;
}

/// A message for one core crosses one link: nobody asks before it is sent, and nothing holds it.
/// Two streams that meet in one link: behind full buffers packets are held.
TEST(PacketSwitch, ALinkIsIdleForACauseAndHeldOnlyByFullBuffers) {
  const MachineParams params = torus(4, 1, false);
  const std::vector<Sent> one{{0, 6, 16384, 500}};
  PacketSlice quiet(params, one);
  const std::uint64_t arrived = quiet.run().arrived[0];
  const auto first = quiet.account(0, "link 0 of chip 0", arrived);
  const auto second = quiet.account(1, "link 0 of chip 1", arrived);
  EXPECT_EQ(first.at("idle: held") + second.at("idle: held"), 0u);
  EXPECT_GE(first.at("idle: not asked"), 500u);
  EXPECT_GE(second.at("idle: not asked"), 500u);
  // Between the sending and its arrival behind the first link it is on its way to the second.
  EXPECT_LT(first.at("idle: on its way"), second.at("idle: on its way"));
  EXPECT_GT(second.at("idle: on its way"), 400u);

  std::vector<Sent> traffic;
  add_dma(traffic, 0, 6, 524288, 0);
  add_dma(traffic, 2, 6, 524288, 0);
  PacketSlice busy(params, traffic);
  busy.run();
  const auto held = busy.account(0, "link 0 of chip 0", 20000);
  EXPECT_GT(held.at("idle: held"), 1000u);
  EXPECT_GT(held.at("busy"), 1000u);
}

/// An account that begins later has only what comes then.
TEST(PacketSwitch, AnAccountCountsFromItsBegin) {
  const MachineParams params = torus(4, 1, false);
  const std::vector<Sent> one{{0, 2, 16384, 0}};
  PacketSlice slice(params, one);
  const std::uint64_t arrived = slice.run().arrived[0];
  EXPECT_GT(slice.account(0, "link 0 of chip 0", arrived).at("busy"), 0u);
  slice.begin_account(arrived + 100);
  const auto later = slice.account(0, "link 0 of chip 0", arrived + 300);
  EXPECT_EQ(later.at("busy"), 0u);
  EXPECT_EQ(later.at("idle: not asked"), 200u);
}

TEST(PacketSwitch, PacketsOfTwoStreamsShareALinkInTurn) {
  const MachineParams params = torus(4, 1, false);
  std::vector<Sent> traffic;
  constexpr std::uint64_t kBytes = 524288;  // 32 messages.
  add_dma(traffic, 0, 6, kBytes, 0);
  add_dma(traffic, 2, 6, kBytes, 0);
  const Times packets = by_packets(params, traffic);
  // The nearer one has a hop's head start, and keeps about that; it does not wait for all of the
  // other, nor does the other wait for it.
  const std::uint64_t first = packets.arrived[63], second = packets.arrived[31];
  EXPECT_GT(second, first);
  EXPECT_LT(second - first, 2 * 940u);
  const std::uint64_t whole = 2 * kBytes * 47 / 4100 + 2 * 940;
  EXPECT_NEAR(static_cast<double>(second), static_cast<double>(whole), 1000);
}

TEST(PacketSwitch, RefusesSlowLinksByName) {
  MachineParams params;
  params.ici.slow_links = "0-1=0";
  EXPECT_THROW(PacketSwitch(params, 0), ConfigurationError);
}

}  // namespace
}  // namespace tpu::packet_test
