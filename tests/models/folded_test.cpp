#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <tuple>

#include "models/memory/hbm_mapping.h"
#include "models/network/folded_network.h"
#include "models/network/ici_routes.h"
#include "models/slow_parts.h"
#include "sim/base/error.h"
#include "tests/models/random_exchanges.h"
#include "tests/models/test_program.h"

namespace tpu::folded_test {
namespace {

using test::program_of;
using test::RandomExchanges;

/// Now and then a chip of a slower clock, a slow host, short queues, slow links, a broken one.
void slow_down(MachineParams& params, std::mt19937& random) {
  if (random() % 3 == 0) {
    params.slow_chips =
        std::to_string(random() % params.chips()) + "=" + std::to_string(100 + random() % 840);
  }
  if (random() % 3 == 0) {
    const std::uint32_t hosts = host_count(params);
    params.slow_hosts = std::to_string(random() % hosts) + ".examples_per_s=2e5 " +
                        std::to_string(random() % hosts) + ".pcie_latency_ns=5000";
  }
  if (random() % 4 == 0) {
    params.host.infeed_queue_kib = 4 + random() % 40;
    params.host.outfeed_queue_kib = 1 + random() % 16;
  }
  const isa::Topology slice = params.topology();
  const std::uint32_t links = random() % 2 == 0 ? 6 : 0;
  for (std::uint32_t i = 0; i < links; ++i) {
    const auto chip = static_cast<std::uint32_t>(random() % slice.chips());
    const auto direction = static_cast<isa::Topology::Direction>(random() % 4);
    if (!slice.has_link(chip, direction)) continue;
    const std::string before = params.ici.slow_links;
    params.ici.slow_links += " " + std::to_string(chip) + "-" +
                             std::to_string(slice.neighbour(chip, direction)) + "=" +
                             std::to_string(random() % 3 == 0 ? 0 : 5000 + random() % 700000);
    try {
      const IciRoutes routes(params);
    } catch (const ConfigurationError&) {
      params.ici.slow_links = before;  // It would cut the slice in two.
    }
  }
}

/// What an observer sees of each core. A wait may be told in several pieces.
class Trace : public Observer {
 public:
  void on_step(std::uint32_t core, std::uint32_t step, std::uint64_t begin,
               std::uint64_t end) override {
    cores_[core] << "step " << step << ' ' << begin << '-' << end << '\n';
  }
  void on_op(std::uint32_t, std::uint32_t, std::uint64_t, std::uint64_t, const Counters&) override {
  }
  void on_wait(std::uint32_t core, CoreState reason, std::uint64_t begin,
               std::uint64_t end) override {
    auto& waits = waits_[core];
    if (!waits.empty() && std::get<0>(waits.back()) == reason &&
        std::get<2>(waits.back()) == begin) {
      std::get<2>(waits.back()) = end;
    } else {
      waits.emplace_back(reason, begin, end);
    }
  }
  void on_dma(const DmaEvent& event) override {
    dmas_.emplace_back(event.source_chip, event.source_core, event.destination_chip,
                       event.destination_core, event.begin, event.end, event.bytes);
  }
  void on_account(const AccountBegin& begin) override {
    cores_[begin.number] << "account of " << begin.chip << '.' << begin.core << " from "
                         << begin.cycle << '\n';
  }
  void on_restart() override {
    cores_.clear();
    waits_.clear();
    dmas_.clear();
  }
  std::string text() {
    std::ostringstream out;
    for (auto& [core, text] : cores_) out << core << ": " << text.str();
    for (auto& [core, waits] : waits_) {
      for (auto& [reason, begin, end] : waits) {
        out << core << ' ' << to_string(reason) << ' ' << begin << '-' << end << '\n';
      }
    }
    std::sort(dmas_.begin(), dmas_.end());
    for (const auto& [a, b, c, d, begin, end, bytes] : dmas_) {
      out << a << '.' << b << " to " << c << '.' << d << ' ' << begin << '-' << end << ' ' << bytes
          << '\n';
    }
    return out.str();
  }

 private:
  std::map<std::uint32_t, std::ostringstream> cores_;
  std::map<std::uint32_t, std::vector<std::tuple<CoreState, std::uint64_t, std::uint64_t>>> waits_;
  std::vector<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t, std::uint64_t,
                         std::uint64_t, std::uint64_t>>
      dmas_;
};

struct Outcome {
  std::string text;  ///< With the trace.
  std::uint32_t simulated = 0;
  std::string counters;
  std::string path;  ///< The critical one.
};

Outcome outcome(const isa::Program& program, const MachineParams& params, bool full,
                bool watched = true, std::uint32_t construction_seed = 0) {
  RunOptions options;
  options.warmup_steps = program.kernels.front().bundles.size() % 2;
  options.steps = 2 - options.warmup_steps;
  options.pod_full = full;
  options.construction_seed = construction_seed;
  Trace trace;
  if (watched) options.observer = &trace;
  std::ostringstream out;
  try {
    Machine machine(params, program);
    const RunResult result = machine.run(options);
    out << result.cycles << '\n';
    for (const CoreResult& core : result.cores) {
      const Counters& total = core.total;
      out << core.chip << '.' << core.core << ' ' << core.end_cycle << ' ' << total.bundles << ' '
          << total.scalar_ops << ' ' << total.dmas << ' ' << total.hbm_read_bytes << ' '
          << total.hbm_write_bytes << ' ' << total.ici_bytes;
      for (std::size_t s = 0; s < static_cast<std::size_t>(CoreState::kCount); ++s) {
        out << ' ' << total.core[static_cast<CoreState>(s)];
      }
      out << '\n';
    }
    std::ostringstream path;
    for (const std::uint64_t cycles : result.critical_path.path) path << ' ' << cycles;
    return {out.str() + trace.text(), result.simulated_cores, out.str(), path.str()};
  } catch (const ProgramFault& fault) {
    return {fault.what(), 0, fault.what(), {}};
  }
}

std::uint32_t programs() {
  const char* count = std::getenv("TPUSIM_FOLDED_PROGRAMS");
  return count != nullptr ? static_cast<std::uint32_t>(std::atoi(count)) : 120;
}

MachineParams slice(std::uint32_t x, std::uint32_t y, bool wrap_x, bool wrap_y) {
  MachineParams params;
  params.ici.mesh_x = x;
  params.ici.mesh_y = y;
  params.ici.wrap_x = wrap_x;
  params.ici.wrap_y = wrap_y;
  return params;
}

TEST(Folded, AgreesWithEveryCoreSimulatedOnRandomPrograms) {
  std::uint32_t ended_well = 0, folded = 0, split = 0;
  for (std::uint32_t seed = 1; seed <= programs(); ++seed) {
    std::mt19937 random(seed);
    const std::uint32_t sizes[] = {1, 2, 2, 4};
    const std::uint32_t x = sizes[random() % 4], y = sizes[random() % 4];
    MachineParams params = slice(x, y, random() % 2 == 0, random() % 2 == 0);
    if (random() % 4 == 0) params.host.examples_per_s = 1e6;
    if (random() % 4 == 0) params.host.chips = 3;  // Hosts of unequal size.
    if (random() % 4 == 0) params.ici.hop_latency_ns = params.ici.local_latency_ns = 0;
    slow_down(params, random);
    if (random() % 4 == 0) params.host.hand_over_us = 2.5;
    const isa::Program program = RandomExchanges(seed, x, y).make();
    const Outcome full = outcome(program, params, true);
    const Outcome fold = outcome(program, params, false);
    ASSERT_EQ(full.text, fold.text) << "seed " << seed << ", " << x << "x" << y;
    // Nobody watches: cores run ahead of each other as far as nobody can tell.
    ASSERT_EQ(full.counters, outcome(program, params, true, false).counters) << "seed " << seed;
    ASSERT_EQ(full.counters, outcome(program, params, false, false).counters) << "seed " << seed;
    if (full.simulated > 0) ++ended_well;
    if (fold.simulated == 1) ++folded;
    if (fold.simulated > 1 && fold.simulated < full.simulated) ++split;
  }
  if (programs() < 100) return;  // Too few to say which kinds there are.
  EXPECT_GT(ended_well, programs() / 2);
  EXPECT_GT(folded, programs() / 10);
  EXPECT_GT(split, programs() / 20);
}

/// In which order modules of a phase act follows from the order in which they were made.
TEST(Pod, NothingDependsOnTheOrderInWhichModulesAreMade) {
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    std::mt19937 random(seed);
    MachineParams params = slice(2 << random() % 2, 2 << random() % 2, random() % 2 == 0, true);
    params.host.examples_per_s = seed % 2 == 0 ? 1e6 : 0;
    params.host.chips = 2;
    if (seed % 5 == 0) params.ici.hop_latency_ns = params.ici.local_latency_ns = 0;
    slow_down(params, random);
    const isa::Program program =
        RandomExchanges(2000 + seed, params.ici.mesh_x, params.ici.mesh_y).make();
    for (const bool watched : {true, false}) {
      const Outcome in_order = outcome(program, params, true, watched);
      for (const std::uint32_t order : {1u, 2u}) {
        const Outcome shuffled = outcome(program, params, true, watched, order);
        ASSERT_EQ(in_order.text, shuffled.text) << "seed " << seed;
        ASSERT_EQ(in_order.path, shuffled.path) << "seed " << seed;
      }
    }
  }
}

TEST(Folded, AgreesOnSlicesOfEightByEight) {
  for (std::uint32_t seed = 1; seed <= 6; ++seed) {
    MachineParams params = slice(8, 8, seed % 2 == 0, seed % 3 == 0);
    if (seed == 5) params.slow_chips = "9=470";
    if (seed == 6) params.ici.slow_links = "9-10=0 17-18=100000";
    const isa::Program program = RandomExchanges(1000 + seed, 8, 8).make();
    ASSERT_EQ(outcome(program, params, true).text, outcome(program, params, false).text) << seed;
  }
}

/// Cores that are simulated of the 32 of a 4x4 torus, where the run agrees with that of all.
std::uint64_t folded_on_a_torus(isa::Program program) {
  program.cores = 32;
  const MachineParams params = slice(4, 4, true, true);
  const Outcome full = outcome(program, params, true);
  const Outcome folded = outcome(program, params, false);
  EXPECT_EQ(full.text, folded.text);
  EXPECT_EQ(full.simulated, 32u) << full.text;
  return folded.simulated;
}

/// Every core stores a number of its own where two registers say, and one of them works longer.
TEST(Folded, AgreesOnStoresAtTheSumOfTwoRegisters) {
  isa::Program program = program_of(R"(
kernel top
  { %s1 = sld [smem:$0x0] ;; vdelay 2 }
  { %s4 = smov 8 }
  { %s5 = smov 256 }
  { %s6 = sadd.s32 %s1, 1 }
  { sst [smem:%s5 + %s4] %s6 }
  { %s7 = sld [smem:$0xf8] ;; vdelay 2 }
  { %p1 = scmp.eq.s32.totalorder %s7, 0 }
  { sbr.rel (%p1) target = untouched }
  { %s20 = smov 0 }
  { vdelay 5000 }
untouched:
  { %s8 = sld [smem:$0x108] ;; vdelay 2 }
  { %p4 = scmp.ne.s32.totalorder %s8, 3 }
  { sbr.rel (%p4) target = short }
  { %s20 = smov 0 }
  { vdelay 700 }
short:
  { %s20 = smov 0 }
)");
  EXPECT_LT(folded_on_a_torus(std::move(program)), 32u);
}

/// Every core adds to a flag of its own: which one is not the same on all of them.
TEST(Folded, AgreesOnAdditionsToDifferentFlags) {
  isa::Program program = program_of(R"(
kernel top
  { %s1 = sld [smem:$0x0] ;; vdelay 2 }
  { %s2 = sld [smem:$0x1] ;; vdelay 2 }
  { %s3 = sshll.u32 %s1, 21 }
  { %s4 = sshll.u32 %s2, 20 }
  { %s3 = sor.u32 %s3, %s4 }
  { %s3 = sadd.s32 %s3, 262152 }
  { %s3 = sadd.s32 %s3, %s2 }
  { vsyncadd.remote %s3, 1 }
  { vdelay 3000 }
  { vsyncmov 8 }
  { %s5 = spop }
  { %p1 = scmp.eq.s32.totalorder %s5, 0 }
  { sbr.rel (%p1) target = end }
  { %s20 = smov 0 }
  { vdelay 700 }
end:
  { %s20 = smov 0 }
)");
  EXPECT_EQ(folded_on_a_torus(std::move(program)), 2u);
}

/// Every core reads two granules: those of every second chip two rows of one bank, the others one
/// beside the other.
TEST(Folded, AgreesOnDmasOfDifferentPlaces) {
  const HbmParams hbm;
  const HbmMapping mapping(32, hbm.banks, hbm.row_bytes / isa::kHbmGranuleBytes);
  std::uint64_t far = 1;
  while (mapping.channel(far) != mapping.channel(0) || mapping.row(far) == mapping.row(0) ||
         mapping.bank(mapping.row(far)) != mapping.bank(mapping.row(0))) {
    ++far;
  }
  isa::Program program = program_of(R"(
kernel top
  { %s1 = sld [smem:$0x0] ;; vdelay 2 }
  { %s1 = sand.u32 %s1, 1 }
  { %p1 = scmp.ne.s32.totalorder %s1, 0 }
  { %s2 = scalar_select %p1, )" + std::to_string(far) +
                                    R"(, 1 }
  { dma.hbm_to_vmem 0, 1, 0, 1 }
  { dma.hbm_to_vmem %s2, 1, 8, 1 }
  { dma.done.wait 1, 2 }
)");
  EXPECT_EQ(folded_on_a_torus(std::move(program)), 2u);
}

/// Every core of a row of four sends to the one two places away, and `delay` cycles later to its
/// neighbour: 0 and 2, 1 and 3; then 0 and 1, 2 and 3.
isa::Program two_exchanges_in_a_row(std::uint32_t delay) {
  std::ostringstream text;
  text << "kernel top\n  { %s1 = sld [smem:$0x0] ;; vdelay 2 }\n"
       << "  { %s2 = sld [smem:$0x1] ;; vdelay 2 }\n  { %s2 = sshll.u32 %s2, 16 }\n";
  for (const std::uint32_t turn : {0U, 1U}) {
    isa::DmaDescriptor dma;
    dma.source.space = dma.destination.space = isa::MemorySpace::kVmem;
    dma.destination.address = 4096;
    dma.granules = 16;
    dma.source_flag = 3;
    dma.destination_flag = 4 + turn;
    dma.remote = true;
    const isa::DmaWords words = isa::encode(dma);
    text << "  { %s3 = sxor.u32 %s1, " << 2 - turn << " }\n  { %s3 = sshll.u32 %s3, 19 }\n"
         << "  { %s3 = sor.u32 %s3, %s2 }\n  { %s3 = sor.u32 %s3, " << words[1] << " }\n";
    for (std::uint32_t i = 0; i < words.size(); ++i) {
      text << "  { %s4 = smov " << words[i] << " }\n  { sst [smem:$0x" << std::hex
           << 512 + 8 * turn + i << std::dec << "] " << (i == 1 ? "%s3" : "%s4") << " }\n";
    }
  }
  text << "  { dma 512 }\n  { vdelay " << delay << " }\n  { dma 520 }\n"
       << "  { dma.done.wait 4, 16 }\n  { dma.done.wait 5, 16 }\n";
  return program_of(text.str());
}

/// What 1 sends to 3 is at chip 2 a hop later; what 2 itself sends then waits for it. So it is with
/// 2, 0 and 1, whose numbers stand the other way round: both halves of a row take the same cycles.
TEST(Folded, BothHalvesOfARowTakeTheSameCycles) {
  constexpr std::uint32_t kHop = 940;
  for (std::uint32_t delay = kHop - 3; delay < kHop + 3; ++delay) {
    isa::Program program = two_exchanges_in_a_row(delay);
    program.cores = 32;
    const MachineParams params = slice(4, 4, false, false);
    const Outcome full = outcome(program, params, true), folded = outcome(program, params, false);
    EXPECT_EQ(full.text, folded.text) << delay;
    EXPECT_LE(folded.simulated, 8U)
        << delay;  // Of 32: each quarter of the slice, two cores a chip.
    Machine machine(params, program);
    const RunResult result = machine.run({});
    for (const std::uint32_t chip : {0U, 1U}) {
      EXPECT_EQ(result.cores[2 * chip].end_cycle, result.cores[2 * (3 - chip)].end_cycle)
          << chip << ", " << delay;
    }
  }
}

/// A message of all members of a class; `to` by member.
IciMessage message(std::uint32_t source, std::vector<std::uint32_t> to, std::uint64_t bytes) {
  IciMessage message;
  message.source_chip = source / 2;
  message.source_core = source % 2;
  message.destination_chip = to[0] / 2;
  message.destination_core = to[0] % 2;
  message.bytes = bytes;
  message.destinations = std::make_shared<const std::vector<std::uint32_t>>(std::move(to));
  return message;
}

/// The class that splits in `work`, and into how many parts.
template <class Work>
std::pair<std::uint32_t, std::size_t> split_of(const Work& work) {
  try {
    work();
  } catch (const MembersDiffer& differ) {
    const std::set<std::uint64_t> keys(differ.keys().begin(), differ.keys().end());
    return {differ.of_class(), keys.size()};
  }
  return {~std::uint32_t{0}, 0};
}

TEST(FoldedNetwork, OneEventForAllMembers) {
  KnownDestinations known(2);
  const CoreClasses classes({0, 2, 4, 6}, 8, true);
  FoldedNetwork network(slice(4, 1, true, false), classes, known);
  network.send(message(0, {2, 4, 6, 0}, 4100), 10);
  network.depart(10);
  const auto next = network.next_event();
  ASSERT_TRUE(next);
  EXPECT_EQ(next->cycle, 10u + 47 + 940);
  const auto events = network.take_events(next->cycle);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].from, 6u);
}

/// What a core sends within its chip has left it when its last byte is on the local path, whether
/// or not it stands for others.
TEST(FoldedNetwork, WhatStaysOnItsChipLeavesBehindItsLastByte) {
  KnownDestinations known(2);
  const MachineParams params = slice(4, 1, true, false);
  RemoteDma* const dma = reinterpret_cast<RemoteDma*>(&known);  // Handed on, not looked at.
  const auto left = [&](const CoreClasses& classes, std::vector<std::uint32_t> to) {
    FoldedNetwork network(params, classes, known);
    IciMessage sent = message(0, std::move(to), 4100);
    sent.dma = dma;
    network.send(sent, 10);
    const auto next = network.next_event();
    const auto events = network.take_events(next->cycle);
    EXPECT_EQ(events.size(), 1u);
    EXPECT_TRUE(events[0].left);
    return next->cycle;
  };
  CoreClasses apart({0, 1, 2, 3}, 8, true);
  apart.split(0, {0, 1, 2, 3});
  const std::uint64_t alone = left(apart, {1});
  // 4,100 bytes at the rate of a link.
  EXPECT_EQ(alone, 10u + 47);
  CoreClasses together({0, 1, 2, 3}, 8, true);
  together.split(0, {0, 1, 0, 1});
  EXPECT_EQ(left(together, {1, 3}), alone);
}

/// Of what leaves a core and what reaches it in one cycle, messages of the core with the lower
/// number come first, as where every core is simulated.
TEST(FoldedNetwork, WhatLeavesAndWhatArrivesInOneCycleGoByTheNumbersOfTheirCores) {
  KnownDestinations known(2);
  const MachineParams params = slice(4, 1, true, false);
  CoreClasses classes({0, 2, 4}, 8, true);
  classes.split(0, {0, 1, 2});
  RemoteDma* const dma = reinterpret_cast<RemoteDma*>(&known);  // Handed on, not looked at.
  for (const std::uint32_t sender : {0U, 4U}) {
    FoldedNetwork network(params, classes, known);
    // Core 2 sends as many bytes so much later that they have left when the others are here.
    IciMessage arriving = message(sender, {2}, 4100);
    arriving.number = 5;
    network.send(arriving, 10);
    network.depart(10);
    IciMessage leaving = message(2, {4}, 4100);
    leaving.dma = dma;
    leaving.number = 3;
    leaving.sent = 10 + 940;
    network.send(leaving, 10 + 940);
    network.depart(10 + 940);
    const auto events = network.take_events(10 + 940 + 47);
    ASSERT_EQ(events.size(), 2u);
    EXPECT_EQ(events[0].left, sender == 4) << sender;
    EXPECT_EQ(events[1].left, sender == 0) << sender;
  }
}

/// Of one core in the order of its messages, whichever was sent first.
TEST(FoldedNetwork, MessagesOfACoreInOneCycleGoInTheirOrder) {
  KnownDestinations known(2);
  const CoreClasses classes({0, 2, 4, 6}, 8, true);
  FoldedNetwork network(slice(4, 1, true, false), classes, known);
  for (const std::uint64_t number : {2U, 1U}) {
    IciMessage sent = message(0, {2, 4, 6, 0}, 4100);
    sent.number = number;
    network.send(sent, 10);
  }
  network.depart(10);
  for (const std::uint64_t number : {1U, 2U}) {
    const auto next = network.next_event();
    ASSERT_TRUE(next);
    EXPECT_EQ(next->cycle, 10u + 47 * number + 940);
    const auto events = network.take_events(next->cycle);
    ASSERT_EQ(events.size(), 1u);
    EXPECT_EQ(events[0].message.number, number);
  }
}

/// Behind a slow link the last bytes come late, however fast the next link is: at all members, or
/// the class splits.
TEST(FoldedNetwork, TheTailWaitsBehindASlowLink) {
  KnownDestinations known(2);
  const CoreClasses classes({0, 4}, 8, true);
  MachineParams params = slice(4, 1, true, false);
  params.ici.slow_links = "0-1=65600 2-3=65600";  // A tenth of the others.
  FoldedNetwork network(params, classes, known);
  network.send(message(0, {4, 0}, 4100), 10);
  network.depart(10);
  network.take_events(10 + 470);  // It has left.
  network.depart(10 + 940);
  const auto next = network.next_event();
  ASSERT_TRUE(next);
  EXPECT_EQ(next->cycle, 10u + 470 + 2 * 940);

  params.ici.slow_links = "1-2=65600";  // Of one member alone, on its second hop.
  FoldedNetwork uneven(params, classes, known);
  uneven.send(message(0, {4, 0}, 4100), 10);
  uneven.depart(10);
  uneven.take_events(10 + 47);
  EXPECT_EQ(split_of([&] { uneven.depart(10 + 940); }), std::make_pair(0u, std::size_t{2}));
}

TEST(FoldedNetwork, AClassSplitsOfWhichNotAllReceive) {
  KnownDestinations known(2);
  CoreClasses classes({0, 2, 4, 6}, 8, true);
  classes.split(0, {0, 1, 1, 1});
  FoldedNetwork network(slice(4, 1, true, false), classes, known);
  const auto split = split_of([&] { network.send(message(0, {2}, 4100), 10); });
  EXPECT_EQ(split, std::make_pair(1u, std::size_t{2}));
}

/// Of four cores on two chips every other one sends inside its chip: those take the local latency.
TEST(FoldedNetwork, AClassSplitsOfWhichSomeSendInsideTheirChip) {
  KnownDestinations known(2);
  const CoreClasses classes({0, 1, 2, 3}, 8, true);
  FoldedNetwork network(slice(4, 1, true, false), classes, known);
  const auto split = split_of([&] { network.send(message(0, {1, 2, 3, 0}, 4100), 10); });
  EXPECT_EQ(split, std::make_pair(0u, std::size_t{2}));
}

/// Each of two cores gets the messages of two of four: at most one of a class may reach a core.
TEST(FoldedNetwork, AClassSplitsOfWhichTwoSendToTheSameCore) {
  KnownDestinations known(2);
  CoreClasses classes({0, 1, 2, 4, 6, 7}, 8, true);
  classes.split(0, {0, 1, 0, 0, 0, 1});
  FoldedNetwork network(slice(4, 1, true, false), classes, known);
  const auto split = split_of([&] { network.send(message(0, {7, 1, 7, 1}, 4100), 10); });
  EXPECT_EQ(split, std::make_pair(0u, std::size_t{2}));
}

TEST(FoldedNetwork, AClassSplitsWhereAPartOfACycleIsLeftOnALink) {
  KnownDestinations known(2);
  // Core 0 puts a byte on a link in the cycle in which all cores 1 use such links.
  CoreClasses classes({0, 1, 3, 5, 7}, 8, true);
  classes.split(0, {0, 1, 1, 1, 1});
  FoldedNetwork network(slice(4, 1, true, false), classes, known);
  network.send(message(1, {3, 5, 7, 1}, 4100), 10);
  EXPECT_EQ(split_of([&] { network.depart(10); }).second, 0u);

  CoreClasses others({0, 1, 2, 3, 5, 7}, 8, true);
  others.split(0, {0, 1, 2, 1, 1, 1});
  FoldedNetwork busy(slice(4, 1, true, false), others, known);
  busy.send(message(0, {2}, 1), 10);
  busy.send(message(1, {3, 5, 7, 1}, 4100), 10);
  EXPECT_EQ(split_of([&] { busy.depart(10); }), std::make_pair(1u, std::size_t{2}));
}

/// On a ring of eight each core sent to the next one, and to the one opposite; core 0 is found to
/// differ. What sends to it differs, and so on; a class that nobody sent to stays whole.
TEST(KnownDestinations, WhatSendsToThePartsOfAClassSplitsWithIt) {
  KnownDestinations known(1);
  const auto classes_behind = [&known](const std::vector<std::uint32_t>& to) {
    CoreClasses classes({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, 10, true);
    classes.split(0, {0, 0, 0, 0, 0, 0, 0, 0, 1, 1});
    known.note(classes, 0, to);
    known.split(classes);
    EXPECT_EQ(classes.size(), 2u);
    classes.split(0, {0, 1, 1, 1, 1, 1, 1, 1});
    known.split(classes);
    return classes;
  };
  const CoreClasses classes = classes_behind({4, 5, 6, 7, 0, 1, 2, 3});
  // Core 0, core 4 that sends to it, the six others, and those outside.
  EXPECT_EQ(classes.size(), 4u);
  EXPECT_EQ(classes.members(classes.class_of(4)), CoreClasses::Members{4});
  EXPECT_EQ(classes.members(classes.class_of(5)), (CoreClasses::Members{1, 2, 3, 5, 6, 7}));
  EXPECT_EQ(classes.members(classes.class_of(8)), (CoreClasses::Members{8, 9}));
  EXPECT_EQ(classes_behind({1, 2, 3, 4, 5, 6, 7, 0}).size(), 9u);
}

TEST(KnownDestinations, TheNetworkNotesWhatIsSent) {
  CoreClasses classes({0, 2, 4, 6}, 8, true);
  KnownDestinations known(2);
  {
    FoldedNetwork network(slice(4, 1, true, false), classes, known);
    network.send(message(0, {2, 4, 6, 0}, 4100), 10);
  }
  classes.split(0, {0, 1, 1, 1});
  known.split(classes);
  EXPECT_EQ(classes.size(), 4u);
}

/// Two classes, of which the first sends to the second: that one splits where not all of it get as
/// many messages.
TEST(KnownDestinations, WhatGetsMessagesOfAPartSplits) {
  CoreClasses classes({0, 1, 2, 3, 4, 5, 6, 7}, 8, true);
  classes.split(0, {0, 0, 0, 0, 1, 1, 1, 1});
  KnownDestinations known(1);
  known.note(classes, 0, {4, 5, 6, 7});
  known.split(classes);
  EXPECT_EQ(classes.size(), 2u);
  classes.split(0, {0, 0, 1, 1});
  known.split(classes);
  EXPECT_EQ(classes.size(), 4u);
  EXPECT_EQ(classes.members(classes.class_of(4)), (CoreClasses::Members{4, 5}));
}

TEST(FoldedNetwork, AClassSplitsWhoseMembersGetTwoMessagesInDifferentOrder) {
  KnownDestinations known(2);
  // On a ring the core before has the lower number, but for the first and the last.
  const CoreClasses classes({0, 2, 4, 6}, 8, true);
  for (const bool writes_hbm : {false, true}) {
    FoldedNetwork network(slice(4, 1, true, false), classes, known);
    IciMessage east = message(0, {2, 4, 6, 0}, 4100), west = message(0, {6, 0, 2, 4}, 4100);
    east.writes_hbm = west.writes_hbm = writes_hbm;
    east.number = 1;
    west.number = 2;
    network.send(east, 10);
    network.send(west, 10);
    network.depart(10);
    const auto split = split_of([&] { network.take_events(10 + 47 + 940); });
    EXPECT_EQ(split.second, writes_hbm ? 2u : 0u);
  }
}

}  // namespace
}  // namespace tpu::folded_test
