#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <set>
#include <sstream>

#include "sim/base/error.h"
#include "tests/models/random_exchanges.h"

namespace tpu::repetition_test {
namespace {

using test::program_of;
using test::RandomExchanges;

void write(std::ostream& out, const Counters& counters) {
  out << counters.bundles << ' ' << counters.scalar_ops << ' ' << counters.dmas << ' '
      << counters.hbm_read_bytes << ' ' << counters.hbm_write_bytes << ' ' << counters.ici_bytes;
  const auto write_account = [&](const CycleAccount<CoreState>& account) {
    for (std::size_t s = 0; s < CycleAccount<CoreState>::kStates; ++s) {
      out << ' ' << account[static_cast<CoreState>(s)];
    }
  };
  write_account(counters.core);
  for (std::size_t u = 0; u < kUnits; ++u) {
    out << " / " << counters.busy_cycles[u];
    write_account(counters.idle[u]);
  }
  for (const std::uint64_t cycles : counters.schedule) out << ' ' << cycles;
  out << '\n';
}

void write(std::ostream& out, const CriticalPath& path) {
  out << path.cycles << ' ' << path.twice_the_mxus << ' ' << path.cuts;
  for (const std::uint64_t cycles : path.path) out << ' ' << cycles;
  for (const std::uint64_t cycles : path.without) out << ' ' << cycles;
  for (const CriticalPath::Op& op : path.ops) {
    for (const std::uint64_t cycles : op.path) out << ' ' << cycles;
    for (const std::int64_t gain : op.gain) out << ' ' << gain;
  }
  out << '\n';
}

/// Everything that a run says, but for the note on repetition.
struct Outcome {
  std::string text;
  std::string path;
  bool repeats = false;
};

Outcome outcome(const isa::Program& program, const MachineParams& params, RunOptions options,
                bool each_step) {
  options.pod_full = each_step;
  Outcome outcome;
  std::ostringstream out, path;
  try {
    Machine machine(params, program);
    const RunResult result = machine.run(options);
    out << result.cycles << '\n';
    for (const CoreResult& core : result.cores) {
      out << core.chip << '.' << core.core << ' ' << core.begin_cycle << ' ' << core.end_cycle;
      for (const StepSpan& step : core.steps) out << ' ' << step.begin << '-' << step.end;
      for (const auto& [late, cycles] : core.waited_for) out << ' ' << late << ':' << cycles;
      out << '\n';
      write(out, core.total);
      for (const OpResult& op : core.ops) {
        out << op.count << ' ' << op.cycles << ' ';
        write(out, op.counters);
      }
    }
    // Of several cores those of every core stand beside those of one, in another order.
    const bool alone = options.cores.size() == 1;
    std::set<std::string> parts;
    for (const PartAccount& part : result.parts) {
      const bool is_wire = part.part.rfind("link", 0) == 0 || part.part.rfind("way", 0) == 0;
      if (!alone && !is_wire) continue;
      std::ostringstream text;
      text << part.part;
      for (const auto& [activity, cycles] : part.cycles) text << ", " << activity << ' ' << cycles;
      parts.insert(text.str());
    }
    for (const std::string& part : parts) out << part << '\n';
    if (alone) write(path, result.critical_path);
    for (const std::string& note : result.notes) {
      const bool repeats = note.find(" repeat steps ") != std::string::npos;
      if (!repeats) out << note << '\n';
      outcome.repeats = outcome.repeats || repeats;
    }
  } catch (const ProgramFault& fault) {
    out << fault.what();
  }
  outcome.text = out.str();
  outcome.path = path.str();
  return outcome;
}

std::uint32_t programs() {
  const char* count = std::getenv("TPUSIM_REPETITION_PROGRAMS");
  return count != nullptr ? static_cast<std::uint32_t>(std::atoi(count)) : 60;
}

/// Refreshes, hosts and links whose rhythms come again at different times, or never.
MachineParams rhythms(std::mt19937& random) {
  const auto one_of = [&](std::initializer_list<double> values) {
    return *(values.begin() + random() % values.size());
  };
  MachineParams params;
  params.hbm.refresh_interval_ns = static_cast<std::uint32_t>(one_of({0, 800, 1000, 2000, 3900}));
  params.hbm.first_refresh_ns = static_cast<std::uint32_t>(one_of({0, 750, 20000}));
  params.clock_mhz = static_cast<std::uint32_t>(one_of({900, 940, 1000}));
  params.host.examples_per_s = one_of({0, 1e6, 2e6, 500000, 1234567.5});
  params.host.infeed_queue_batches = static_cast<std::uint32_t>(one_of({1, 2, 4}));
  params.host.infeed_queue_kib = static_cast<std::uint32_t>(one_of({0, 0, 6, 64}));
  params.host.outfeed_queue_kib = static_cast<std::uint32_t>(one_of({0, 0, 2, 64}));
  params.host.hand_over_us = one_of({0, 0, 1.5, 40});
  params.host.hand_over_mb_per_s = one_of({0, 0, 5000});
  return params;
}

TEST(Repetition, StepsThatAreCountedAreThoseThatWouldHaveRun) {
  std::uint32_t repeat = 0;
  for (std::uint32_t seed = 1; seed <= programs(); ++seed) {
    std::mt19937 random(seed);
    MachineParams params = rhythms(random);
    const std::uint32_t x = 1 + random() % 2;
    params.ici.mesh_x = x;
    params.ici.mesh_y = 1;
    const isa::Program program = RandomExchanges(seed, x, 1).make();
    RunOptions options;
    options.steps = 90 + random() % 60;
    options.warmup_steps = random() % 3;
    const Outcome each = outcome(program, params, options, true);
    const Outcome counted = outcome(program, params, options, false);
    ASSERT_EQ(each.text, counted.text) << "seed " << seed;
    EXPECT_FALSE(each.repeats);
    if (counted.repeats) ++repeat;
  }
  EXPECT_GT(repeat, programs() / 8);
}

/// A core by itself: work, DMAs of all kinds, batches, and words in memory that go round.
isa::Program random_core(std::mt19937& random) {
  const auto pick = [&](std::uint32_t below) { return random() % below; };
  std::ostringstream text;
  text << "kernel top\n  { inlined_call site = 0 }\n  { inlined_call site = 1 }\n";
  for (int kernel = 1; kernel <= 2; ++kernel) {
    text << "kernel work" << kernel << '\n';
    for (std::uint32_t i = 0; i < 2 + pick(4); ++i) {
      const std::uint32_t granules = 1 + pick(300);
      const std::uint32_t vmem = 8 * granules * pick(3), hbm = 1000 * pick(50);
      switch (pick(5)) {
        case 0:
          text << "  { vdelay " << 1 + pick(3000) << " }\n";
          continue;
        case 1:
          text << "  { dma.hbm_to_vmem " << hbm << ", " << granules << ", " << vmem << ", 1 }\n";
          break;
        case 2:
          text << "  { dma.vmem_to_hbm " << vmem << ", " << granules << ", " << hbm << ", 1 }\n";
          break;
        case 3:
          text << "  { dma.infeed_to_hbm 64, 65536, 2 }\n  { dma.done.wait 2, 64 }\n"
               << "  { vsyncadd 2, -64 }\n";
          continue;
        default:
          text << "  { dma.hbm_to_vmem " << hbm << ", " << granules << ", " << vmem << ", 1 }\n"
               << "  { dma.vmem_to_hbm " << vmem + 80000 << ", 64, " << hbm + 20000 << ", 3 }\n"
               << "  { dma.done.wait 3, 64 }\n  { vsyncadd 3, -64 }\n";
      }
      if (pick(3) == 0) text << "  { vdelay " << 1 + pick(900) << " }\n";
      text << "  { dma.done.wait 1, " << granules << " }\n  { vsyncadd 1, -" << granules << " }\n";
    }
  }
  if (pick(3) == 0) {  // A counter in SMEM: every so many steps one of them takes longer.
    text << "  { %s1 = sld [smem:$0x40] ;; vdelay 2 }\n  { %s1 = sadd.s32 %s1, 1 }\n"
         << "  { %s1 = sand.u32 %s1, " << (pick(2) == 0 ? 1 : 7) << " }\n"
         << "  { sst [smem:$0x40] %s1 }\n  { %p1 = scmp.ne.s32.totalorder %s1, 0 }\n"
         << "  { sbr.rel (%p1) target = end }\n  { %s2 = smov 0 }\n  { vdelay 777 }\n"
         << "end:\n  { %s2 = smov 0 }\n";
  }
  isa::Program program = program_of(text.str());
  program.infeed_bytes = 64 << 10;
  program.examples_per_core = 8;
  return program;
}

TEST(Repetition, CountsEverythingOfACoreByItself) {
  std::uint32_t repeat = 0;
  for (std::uint32_t seed = 1; seed <= 2 * programs(); ++seed) {
    std::mt19937 random(seed);
    const MachineParams params = rhythms(random);
    const isa::Program program = random_core(random);
    RunOptions options = test::on_core(0);
    options.steps = 200 + random() % 60;
    options.warmup_steps = random() % 3;
    const Outcome each = outcome(program, params, options, true);
    const Outcome counted = outcome(program, params, options, false);
    ASSERT_EQ(each.text, counted.text) << "seed " << seed;
    EXPECT_EQ(each.path, counted.path) << "seed " << seed;
    if (counted.repeats) ++repeat;
  }
  if (programs() < 100) return;  // Too few to say how many repeat.
  EXPECT_GT(repeat, programs() / 5);
}

/// Steps of which one, later on, takes other cycles; what knows that goes on changing until then.
void expect_no_repetition(const std::string& text) {
  const isa::Program program = program_of(text);
  RunOptions options = test::on_core(0);
  options.steps = 200;
  MachineParams params;
  params.hbm.refresh_interval_ns = 0;
  const Outcome counted = outcome(program, params, options, false);
  EXPECT_FALSE(counted.repeats);
  EXPECT_EQ(counted.text, outcome(program, params, options, true).text);
}

TEST(Repetition, AFlagThatGoesOnCountingIsNoRepetition) {
  // From the hundredth step on nothing waits for the DMA.
  expect_no_repetition(R"(
kernel top
  { dma.hbm_to_vmem 0, 100, 0, 1 }
  { dma.done.wait 1, 100 }
  { vsyncadd 1, -99 }
  { vdelay 5000 }
)");
}

TEST(Repetition, AWordThatGoesOnCountingIsNoRepetition) {
  for (const std::string word : {"0x40", "0x0"}) {
    expect_no_repetition(R"(
kernel top
  { %s1 = sld [smem:$)" + word +
                         R"(] ;; vdelay 2 }
  { %s1 = sadd.s32 %s1, 1 }
  { sst [smem:$)" + word +
                         R"(] %s1 }
  { %p1 = scmp.ne.s32.totalorder %s1, 150 }
  { sbr.rel (%p1) target = end }
  { %s2 = smov 0 }
  { vdelay 777 }
end:
  { %s1 = smov 0 }
  { sst [smem:$0x44] %s1 }
  { dma.hbm_to_vmem 0, 8, 0, 1 }
  { dma.done.wait 1, 8 }
  { vsyncadd 1, -8 }
)");
  }
}

TEST(Repetition, AYearOfStepsTakesNoLongerThanTheOnesThatDiffer) {
  const isa::Program program = [] {
    isa::Program feeds = program_of(
        "kernel top\n  { dma.infeed_to_hbm 64, 65536, 2 }\n  { dma.done.wait 2, 64 }\n"
        "  { vsyncadd 2, -64 }\n");
    feeds.infeed_bytes = 64 << 10;
    feeds.examples_per_core = 128;
    return feeds;
  }();
  MachineParams params;
  params.host.examples_per_s = 4;  // 32 s a step; a million of them a year.
  RunOptions options = test::on_core(0);
  options.steps = 1'000'000;
  const RunResult year = test::run(program, options, params);
  ASSERT_EQ(year.cores[0].steps.size(), 1'000'000u);
  const std::uint64_t step = 32ULL * params.clock_mhz * 1'000'000;
  EXPECT_EQ(year.cores[0].steps.back().end - year.cores[0].steps[999].end, 999'000 * step);
  EXPECT_EQ(year.cores[0].total.core.total(), year.cycles);
}

/// Watches, and remembers nothing.
class Onlooker : public Observer {
  void on_step(std::uint32_t, std::uint32_t, std::uint64_t, std::uint64_t) override {}
  void on_op(std::uint32_t, std::uint32_t, std::uint64_t, std::uint64_t, const Counters&) override {
  }
  void on_wait(std::uint32_t, CoreState, std::uint64_t, std::uint64_t) override {}
  void on_dma(const DmaEvent&) override {}
};

/// What channels move is told up to the end of the steps that repeat, and nothing behind it.
TEST(Repetition, WhatChannelsMoveEndsWithTheStepsThatRepeat) {
  const isa::Program program = program_of(
      "kernel top\n  { dma.hbm_to_vmem 0, 64, 0, 1 }\n  { dma.done.wait 1, 64 }\n"
      "  { vsyncadd 1, -64 }\n  { vdelay 500 }\n");
  MachineParams params;
  params.hbm.refresh_interval_ns = 0;
  RunOptions options = test::on_core(0);
  options.steps = 200;
  Onlooker onlooker;
  options.observer = &onlooker;
  const RunResult result = test::run(program, options, params);
  const std::vector<StepSpan>& steps = result.cores.at(0).steps;
  ASSERT_EQ(steps.size(), 200u);
  std::uint64_t end = 0, moved = 0;
  for (const PartAccount& part : result.parts) {
    if (part.moved.empty()) continue;
    end = part.moved.back().begin_cycle;
    EXPECT_EQ(part.moved.back().bytes, 0u) << part.part;
    for (const PartAccount::Moved& each : part.moved) moved += each.bytes;
  }
  std::uint64_t told = 0;
  while (told < steps.size() && steps[told].end <= end) ++told;
  ASSERT_GT(told, 0u);
  ASSERT_LT(told, steps.size());
  EXPECT_EQ(steps[told - 1].end, end);
  // The last stretch of clocks that is told may end in the next step.
  EXPECT_GE(moved, told * (64u << 10));
  EXPECT_LT(moved, (told + 1) * (64u << 10));
}

}  // namespace
}  // namespace tpu::repetition_test
