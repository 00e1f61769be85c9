#include "models/slow_parts.h"

#include <gtest/gtest.h>

#include <cmath>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "isa/dma_descriptor.h"
#include "models/core/core_clock.h"
#include "models/host/loader.h"
#include "models/network/ici_router.h"
#include "models/network/ici_routes.h"
#include "tests/models/test_program.h"

namespace tpu::slow_parts_test {
namespace {

using test::program_of;

MachineParams slice_of(std::uint32_t x, std::uint32_t y, bool wraps) {
  MachineParams params;
  params.ici.mesh_x = x;
  params.ici.mesh_y = y;
  params.ici.wrap_x = params.ici.wrap_y = wraps;
  return params;
}

TEST(CoreClock, LeavesOutPulsesEvenly) {
  for (const std::uint32_t own : {1u, 3u, 470u, 700u, 939u, 940u}) {
    const CoreClock clock(own, 940);
    std::uint64_t edge = 0;
    for (std::uint64_t cycle = 0; cycle < 5000; ++cycle) {
      // Edge n is the first cycle at or behind n / own of the machine's.
      const bool is_edge = cycle * own >= edge * 940;
      EXPECT_EQ(clock.next_edge(cycle) == cycle, is_edge) << own << " MHz, cycle " << cycle;
      if (!is_edge) continue;
      EXPECT_EQ(clock.cycle(edge), cycle);
      EXPECT_EQ(clock.edges(cycle), edge);
      EXPECT_EQ(clock.after(cycle, 7), clock.cycle(edge + 7));
      ++edge;
    }
  }
}

TEST(SlowChip, ItsCoresTakeLongerAndTheAccountSaysWhy) {
  const isa::Program program = program_of(R"(
kernel top
  { vmatmul.f32.gmra.mxu0 %v0 }
  { %s2 = smov 0 ;; vdelay 998 }
)");
  MachineParams params;
  params.slow_chips = "1=470 2=705";
  RunOptions options;
  options.cores = {0, 2, 5};
  const RunResult result = test::run(program, options, params);
  const std::uint64_t expected[] = {1000, 2000, (1000 * 940 + 704) / 705};
  for (std::size_t core = 0; core < 3; ++core) {
    const Counters& total = result.cores[core].total;
    EXPECT_EQ(result.cores[core].end_cycle, expected[core]);
    EXPECT_EQ(total.schedule[static_cast<std::size_t>(ScheduleCause::kSlowClock)],
              expected[core] - 1000);
    EXPECT_EQ(total.core.total(), 2000u);
    EXPECT_EQ(unit_account(total, Unit::kMxu0).total(), 2000u);
    EXPECT_EQ(unit_account(total, Unit::kMxu0).busy, 8u);
  }
  EXPECT_EQ(result.simulated_cores, 3u);
}

/// Bundle by bundle and in blocks, around waits that end between two edges of the clock.
TEST(SlowChip, BlocksAndTheInterpreterAgree) {
  for (const std::uint32_t mhz : {1u, 7u, 311u, 470u, 777u, 939u}) {
    std::string text = "kernel top\n";
    for (int i = 0; i < 12; ++i) {
      text += "  { dma.hbm_to_vmem 0, " + std::to_string(8 << i % 5) + ", 0, 1 }\n" +
              "  { vmatmul.f32.gmra.mxu0 %v0 ;; vdelay " + std::to_string(5 + i) + " }\n" +
              "  { vmatmul.f32.gmra.mxu1 %v0 }\n" + "  { dma.done.wait 1, " +
              std::to_string(8 << i % 5) + " }\n  { vsyncadd 1, -" + std::to_string(8 << i % 5) +
              " }\n";
    }
    const isa::Program program = program_of(text);
    MachineParams params;
    params.slow_chips = "0=" + std::to_string(mhz);
    RunOptions options = test::on_core(0);
    const RunResult blocks = test::run(program, options, params);
    options.interpret = true;
    const RunResult bundles = test::run(program, options, params);
    EXPECT_EQ(blocks.cycles, bundles.cycles) << mhz;
    for (const Unit unit : {Unit::kMxu0, Unit::kMxu1}) {
      const UnitAccount a = unit_account(blocks.cores[0].total, unit);
      const UnitAccount b = unit_account(bundles.cores[0].total, unit);
      EXPECT_EQ(a.total(), blocks.cycles);
      EXPECT_EQ(a.busy, b.busy) << mhz;
      EXPECT_EQ(a.idle[CoreState::kMemoryWait], b.idle[CoreState::kMemoryWait]) << mhz;
    }
  }
}

/// A wait ends between two edges of a clock of 94 MHz, ten cycles apart: what follows waits for the
/// next one.
TEST(SlowChip, GoesOnAtAnEdgeOfItsClock) {
  for (const int delay : {100, 103, 109}) {
    const isa::Program program = program_of(R"(
kernel top
  { %s1 = sld [smem:$0x0] ;; vdelay 1 }
  { %p1 = scmp.ne.s32.totalorder %s1, 0 }
  { sbr.rel (%p1) target = waits }
  { %s4 = smov 0 }
  { %s4 = smov 0 ;; vdelay )" + std::to_string(delay) +
                                            R"( }
  { vsyncadd.remote 2359301, 1 }
waits:
  { sbr.rel (!%p1) target = end }
  { %s4 = smov 0 }
  { vwait.ge.trace 5, 1 }
  { %s4 = smov 0 }
end:
  { %s4 = smov 0 }
)");
    MachineParams params;
    params.slow_chips = "1=94";
    RunOptions options;
    options.cores = {0, 2};
    const RunResult result = test::run(program, options, params);
    // The wait's bundle and two more.
    const std::uint64_t sent = 2 + 1 + 1 + 1 + 1 + static_cast<std::uint64_t>(delay);
    const std::uint64_t arrived = sent + 940;
    EXPECT_EQ(result.cores[1].end_cycle, (arrived + 9) / 10 * 10 + 30) << delay;
  }
}

/// Results come after so many edges of the chip's own clock, however long a wait was.
TEST(SlowChip, LatenciesCountItsOwnCycles) {
  const isa::Program program = program_of(R"(
kernel top
  { dma.hbm_to_vmem 0, 64, 0, 1 }
  { vmatmul.f32.gmra.mxu0 %v0 }
  { dma.done.wait 1, 64 }
  { %v1 = vpop.f32.mrf.mxu0 }
)");
  EXPECT_EQ(test::fault_of(program), "");  // The DMA takes longer than the result.
  MachineParams params;
  params.slow_chips = "0=94";
  EXPECT_NE(test::fault_of(program, test::on_core(0), params).find("too early"), std::string::npos);
}

/// Each core sends `granules` to the core of the same number on the chip that differs in x, and
/// waits for its own.
isa::Program swap_along_x(std::uint32_t granules) {
  isa::DmaDescriptor dma;
  dma.source.space = dma.destination.space = isa::MemorySpace::kVmem;
  dma.granules = granules;
  dma.source_flag = 3;
  dma.destination_flag = 4;
  dma.remote = true;
  const isa::DmaWords words = isa::encode(dma);
  std::string text = R"(
kernel top
  { %s1 = sld [smem:$0x0] ;; vdelay 2 }
  { %s2 = sld [smem:$0x1] ;; vdelay 2 }
  { %s8 = sxor.u32 %s1, 1 }
  { %s12 = sshll.u32 %s8, 19 }
  { %s13 = sshll.u32 %s2, 16 }
  { %s12 = sor.u32 %s12, %s13 }
)";
  text += "  { %s12 = sor.u32 %s12, " + std::to_string(words[1]) + " }\n";
  for (std::size_t i = 0; i < words.size(); ++i) {
    char to[40];
    std::snprintf(to, sizeof(to), "[smem:$0x%zx]", 512 + i);
    text += "  { %s14 = smov " + std::to_string(words[i]) + " }\n  { sst " + to +
            (i == 1 ? " %s12 }\n" : " %s14 }\n");
  }
  text += "  { dma 512 }\n  { dma.done.wait 4, " + std::to_string(granules) + " }\n";
  isa::Program program = program_of(text);
  program.cores = 8;
  return program;
}

TEST(SlowLink, SlowsExactlyWhatCrossesIt) {
  constexpr std::uint32_t kGranules = 32;  // Two messages of 16 KiB.
  const isa::Program program = swap_along_x(kGranules);
  MachineParams params;
  const RunResult before = test::run(program, {}, params);
  params.ici.slow_links = "2-3=65600";  // A tenth.
  const RunResult after = test::run(program, {}, params);
  ASSERT_EQ(before.cores.size(), 8u);
  // Both cores of a chip share the link: four messages, one behind the other.
  const std::uint64_t bytes = 2 * kGranules * isa::kHbmGranuleBytes;
  const std::uint64_t more = bytes * 8 * 940 / 65600 - bytes * 8 * 940 / 656000;
  for (std::size_t core = 0; core < 8; ++core) {
    const std::uint64_t was = before.cores[core].end_cycle, is = after.cores[core].end_cycle;
    if (core < 4) {
      EXPECT_EQ(is, was) << core;
    } else if (core % 2 == 1) {
      EXPECT_NEAR(static_cast<double>(is - was), static_cast<double>(more), 2) << core;
    } else {
      EXPECT_GT(is, was + more / 2) << core;
    }
  }
}

/// Behind a slow link a fast one cannot bring the last byte sooner than it comes.
TEST(SlowLink, AMessageIsAsSlowAsTheSlowestOfItsLinks) {
  MachineParams params = slice_of(4, 1, false);
  const auto arrival = [&](const std::string& slow) {
    params.ici.slow_links = slow;
    IciMessage message;
    message.destination_chip = 3;
    message.bytes = 16384;
    const IciRoutes routes(params);
    std::vector<IciRouter> routers;
    for (std::uint32_t chip = 0; chip < 4; ++chip) routers.emplace_back(params, routes, chip);
    routers[0].send(message, 0);
    for (std::uint32_t chip = 0; chip < 3; ++chip) {
      while (const auto next = routers[chip].next_event()) {
        routers[chip].advance(next->cycle, true, [&](auto, const IciMessage& sent, auto at) {
          routers[chip + 1].head_arrives(sent, at);
        });
      }
    }
    return routers[3].next_event()->cycle;
  };
  const std::uint64_t fast = (16384 * 47 + 4099) / 4100, slow = 16384 * 8 * 940 / 65600 + 1;
  EXPECT_EQ(arrival(""), fast + 3 * 940);
  for (const char* link : {"0-1=65600", "1-2=65600", "2-3=65600"}) {
    EXPECT_EQ(arrival(link), slow + 3 * 940) << link;
  }
}

TEST(SlowLink, ABrokenLinkTakesTheWayRound) {
  const isa::Program program = swap_along_x(1);
  MachineParams params;
  const RunResult before = test::run(program, {}, params);
  params.ici.slow_links = "0-1=0";
  const RunResult after = test::run(program, {}, params);
  // From 0 to 1 over 2 and 3: two hops more.
  for (const std::size_t core : {0u, 2u}) {
    EXPECT_EQ(after.cores[core].end_cycle, before.cores[core].end_cycle + 2 * 940) << core;
  }
}

std::string error_of(const MachineParams& params) {
  try {
    slow_chips(params);
    const IciRoutes routes(params);
  } catch (const ConfigurationError& error) {
    return error.what();
  }
  return {};
}

TEST(SlowParts, WhatTheSliceDoesNotHaveIsRefused) {
  MachineParams params;
  params.slow_chips = "4=470";
  EXPECT_EQ(error_of(params), "slow_chips: expected chips below 4 (2x2), found chip 4");
  params.slow_chips = "3=940";
  EXPECT_EQ(error_of(params), "");
  params.slow_chips = "3=941";
  EXPECT_EQ(error_of(params),
            "slow_chips: expected 1 to 940 MHz of chip 3 (clock_mhz is that of the fastest chips), "
            "found 941");
  params.slow_chips = "3:470";
  EXPECT_EQ(error_of(params), "slow_chips: expected CHIP=MHZ, such as 3=470, found \"3:470\"");
  params.slow_chips = "";
  params.ici.slow_links = "0-3=5";
  EXPECT_EQ(error_of(params),
            "ici.slow_links: expected neighbours in the slice of 2x2 chips, found chips 0 and 3");
  params.ici.slow_links = "0-1=5,1-3=2";
  EXPECT_EQ(error_of(params),
            "ici.slow_links: expected CHIP-CHIP=MBPS, such as 0-1=82000, found \"0-1=5,1-3=2\"");
  params.ici.slow_links = "0-1=0 1-3=0";
  EXPECT_EQ(error_of(params),
            "ici.slow_links: the broken links (of 0 Mb/s) leave no way from chip 1 to chip 0");
}

/// Chips that can be reached over links that are not broken.
std::set<std::uint32_t> reached_from(const IciRoutes& routes, const isa::Topology& slice,
                                     std::uint32_t chip) {
  std::set<std::uint32_t> reached{chip};
  std::queue<std::uint32_t> open({chip});
  for (; !open.empty(); open.pop()) {
    for (std::uint8_t d = 0; d < isa::Topology::kDirections; ++d) {
      const auto direction = static_cast<isa::Topology::Direction>(d);
      if (!slice.has_link(open.front(), direction)) continue;
      if (routes.link_mbps(open.front(), direction) == 0) continue;
      const std::uint32_t to = slice.neighbour(open.front(), direction);
      if (reached.insert(to).second) open.push(to);
    }
  }
  return reached;
}

/// Whether the way from `chip` to `to` ends there, over links that are not broken.
testing::AssertionResult arrives(const IciRoutes& routes, std::uint32_t chip, std::uint32_t to,
                                 std::uint32_t most) {
  for (std::uint32_t hops = 0; hops <= most; ++hops) {
    if (chip == to) return testing::AssertionSuccess();
    if (routes.link_mbps(chip, routes.towards(chip, to)) == 0) {
      return testing::AssertionFailure() << "a broken link of chip " << chip;
    }
    chip = routes.neighbour(chip, routes.towards(chip, to));
  }
  return testing::AssertionFailure() << "goes round";
}

TEST(IciRoutes, EveryPairHasAWayOverSoundLinks) {
  std::mt19937 random(7);
  std::uint32_t cut = 0, around = 0;
  for (int trial = 0; trial < 200; ++trial) {
    MachineParams params = slice_of(2 + random() % 4, 2 + random() % 4, random() % 2 == 0);
    const isa::Topology slice = params.topology();
    for (std::uint32_t i = 0, count = 1 + random() % 5; i < count; ++i) {
      const std::uint32_t a = static_cast<std::uint32_t>(random() % slice.chips());
      const auto direction = static_cast<isa::Topology::Direction>(random() % 4);
      if (!slice.has_link(a, direction)) continue;
      params.ici.slow_links +=
          " " + std::to_string(a) + "-" + std::to_string(slice.neighbour(a, direction)) + "=0";
    }
    if (!error_of(params).empty()) {
      ++cut;
      continue;
    }
    const IciRoutes routes(params);
    EXPECT_EQ(reached_from(routes, slice, 0).size(), slice.chips());
    for (std::uint32_t from = 0; from < slice.chips(); ++from) {
      for (std::uint32_t to = 0; to < slice.chips(); ++to) {
        EXPECT_TRUE(arrives(routes, from, to, slice.chips())) << from << " to " << to;
        if (from != to && routes.towards(from, to) != slice.towards(from, to)) ++around;
      }
    }
  }
  EXPECT_GT(cut, 3u);
  EXPECT_LT(cut, 100u);
  EXPECT_GT(around, 1000u);
}

/// Two hosts of four chips, and a batch of 1 MiB for a core of each.
TEST(SlowHost, FeedsItsOwnChipsAtItsOwnRate) {
  isa::Program program = test::program_of(R"(
kernel top
  { dma.infeed_to_hbm 1024, 0, 1 }
  { dma.done.wait 1, 1024 }
)");
  program.infeed_bytes = 1 << 20;
  program.examples_per_core = 128;
  MachineParams params;
  params.ici.mesh_x = 4;
  RunOptions options;
  options.cores = {0, 8};
  const RunResult before = test::run(program, options, params);
  params.slow_hosts = "1.examples_per_s=100000 1.pcie_latency_ns=2000";
  const RunResult after = test::run(program, options, params);
  EXPECT_EQ(after.cores[0].end_cycle, before.cores[0].end_cycle);
  // What a host with these values takes that is the only one.
  params.slow_hosts.clear();
  params.host.examples_per_s = 100000;
  params.host.pcie_latency_ns = 2000;
  options.cores = {0};
  EXPECT_EQ(after.cores[1].end_cycle, test::run(program, options, params).cores[0].end_cycle);
  EXPECT_GT(after.cores[1].end_cycle, after.cores[0].end_cycle + 1000000);
}

TEST(SlowHost, TheOthersStayAsTheyAre) {
  MachineParams params;
  params.ici.mesh_x = 4;
  params.slow_hosts = "1.vcpus=4 1.storage_mb_per_s=0.5";
  EXPECT_EQ(host_count(params), 2u);
  EXPECT_EQ(as_host(params, 0).host.vcpus, params.host.vcpus);
  EXPECT_EQ(as_host(params, 1).host.vcpus, 4u);
  EXPECT_EQ(as_host(params, 1).host.storage_mb_per_s, 0.5);
  EXPECT_EQ(kinds_of_host(params).size(), 2u);
  EXPECT_EQ(text_of(read_host_settings(params.slow_hosts)), "1.storage_mb_per_s=0.5 1.vcpus=4");
}

/// Eight hosts: named ones are kinds of their own, the first of the others stands for them all.
TEST(SlowHost, OneOfEachKindIsLookedAt) {
  MachineParams params;
  params.ici.mesh_x = params.ici.mesh_y = 4;
  params.host.chips = 2;
  ASSERT_EQ(host_count(params), 8u);
  using Kinds = std::vector<std::pair<std::uint32_t, std::uint32_t>>;
  const auto kinds = [&](const std::string& named) {
    params.slow_hosts = named;
    Kinds found;
    for (const HostKind& kind : kinds_of_host(params)) {
      EXPECT_EQ(kind.params.slow_hosts, "");
      found.emplace_back(kind.host, kind.params.host.vcpus);
    }
    return found;
  };
  const std::uint32_t usual = params.host.vcpus;
  EXPECT_EQ(kinds(""), (Kinds{{0, usual}}));
  EXPECT_EQ(kinds("5.vcpus=4"), (Kinds{{0, usual}, {5, 4}}));
  EXPECT_EQ(kinds("0.vcpus=4 1.vcpus=5 3.vcpus=6"), (Kinds{{0, 4}, {1, 5}, {2, usual}, {3, 6}}));
  EXPECT_EQ(kinds("0.vcpus=1 1.vcpus=2 2.vcpus=3 3.vcpus=4 4.vcpus=5 5.vcpus=6 6.vcpus=7 7.vcpus=8")
                .size(),
            8u);
  // Of equally slow hosts the first, as all hosts would say.
  params.input.images = 1000;
  params.input.augment_us = 1000;
  params.slow_hosts = "0.vcpus=192 6.vcpus=4 3.vcpus=4";
  EXPECT_EQ(slowest_host(params, 1000, 64), 3u);
  params.slow_hosts = "0.vcpus=192 1.vcpus=192 6.vcpus=192";
  EXPECT_EQ(slowest_host(params, 1000, 64), 2u);
}

/// A thread takes an example in a millisecond.
TEST(SlowHost, TheSlowestHasTheLowestRate) {
  MachineParams params;
  params.ici.mesh_x = 8;
  params.host.vcpus = 8;
  EXPECT_EQ(host_rate(params, 1000, 64), HUGE_VAL);
  params.input.images = 1000;
  params.input.augment_us = 1000;
  EXPECT_NEAR(host_rate(params, 1000, 64), 8000, 1e-6);
  EXPECT_EQ(slowest_host(params, 1000, 64), 0u);
  params.slow_hosts = "1.vcpus=4 2.examples_per_s=5000 3.vcpus=16";
  EXPECT_EQ(slowest_host(params, 1000, 64), 1u);
  params.slow_hosts = "1.vcpus=4 2.examples_per_s=3000 3.vcpus=16";
  EXPECT_EQ(slowest_host(params, 1000, 64), 2u);
}

TEST(SlowHost, WhatTheSliceDoesNotHaveIsRefused) {
  const auto error_of_hosts = [](const std::string& text) -> std::string {
    MachineParams params;
    params.slow_hosts = text;
    try {
      slow_hosts(params);
    } catch (const ConfigurationError& error) {
      return error.what();
    }
    return {};
  };
  EXPECT_EQ(error_of_hosts("0.vcpus=4"), "");
  EXPECT_EQ(error_of_hosts("1.vcpus=4"),
            "slow_hosts: expected hosts below 1 (2x2, a host for 4 chips), found host 1");
  EXPECT_EQ(error_of_hosts("0.vcpus=4.5"),
            "slow_hosts: expected a whole number of vcpus, found 4.5");
  EXPECT_EQ(error_of_hosts("0:vcpus=4"),
            "slow_hosts: expected HOST.PARAMETER=VALUE, such as 3.vcpus=4, found \"0:vcpus=4\"");
  EXPECT_EQ(error_of_hosts("0.chips=2").substr(0, 61),
            "slow_hosts: expected a parameter of one host (examples_per_s,");
}

}  // namespace
}  // namespace tpu::slow_parts_test
