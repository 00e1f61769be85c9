#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "models/machine.h"
#include "tests/compiler/hlo_check.h"
#include "tests/compiler/kernel_harness.h"
#include "tests/compiler/machine_target.h"
#include "workloads/compiler/compiler.h"
#include "workloads/compiler/program/call_sequence.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::openings_test {
namespace {

using compiler::CalledKernel;
using compiler::CallSequence;
using compiler::FirstLoad;
using compiler::HbmRange;
using compiler::KernelBuilder;
using compiler::SequencedCall;
using compiler::SReg;
using compiler::VmemRegion;

/// Sites in the order in which the top-level program calls them.
std::vector<std::uint32_t> calls_of(const isa::Kernel& top) {
  std::vector<std::uint32_t> sites;
  for (const isa::Instruction& each : top.instructions) {
    if (each.opcode == isa::Opcode::kCall) sites.push_back(each.operands[0].immediate);
  }
  return sites;
}

/// Two calls: the kernel of the second one loads 10 granules from its operand, at granule 100 of
/// HBM, into the rows from 20,000 on.
struct TwoCalls {
  SequencedCall first, second;

  TwoCalls() {
    first.kernel.place = {false, true};
    first.kernel.vmem.below = 1000;
    first.kernel.cycles = 100'000;
    first.writes = {HbmRange{500, 600}};
    first.granules = 100;
    second.kernel.place = {true, true};
    second.kernel.loads = {FirstLoad{0, 0, 10, 0, 0, 20'000, 776}};
    second.operands = {{100, 0}, {700, 0}};
  }

  /// Whether the load is started in front of the first call; each time it is started once.
  bool is_early(const std::function<void(CallSequence&)>& between = {}) const {
    const compiler::Target target;
    isa::Program program;
    for (const char* name : {"top", "first", "second"}) {
      program.kernels.emplace_back();
      program.kernels.back().name = name;
    }
    program.call_sites = {{1, 0, {}}, {2, 1, {}}};
    compiler::TopLevel top("top", target.chip);
    compiler::Openings openings(program, target);
    CallSequence calls(top, openings, target);
    SequencedCall a = first, b = second;
    a.site = 0;
    b.site = 1;
    calls.add(a);
    if (between) between(calls);
    calls.add(b);
    calls.finish();
    const std::vector<std::uint32_t> order = calls_of(top.take());
    EXPECT_EQ(program.call_sites.size(), 3U);
    EXPECT_EQ(program.call_sites[2].opens, 1U);
    EXPECT_EQ(program.call_sites[2].op, 1U);
    if (order == std::vector<std::uint32_t>{2, 0, 1}) return true;
    EXPECT_EQ(order, (std::vector<std::uint32_t>{0, 2, 1}));
    return false;
  }
};

TEST(CallSequence, ALoadIsEarlyWhereNothingIsInItsWay) { EXPECT_TRUE(TwoCalls().is_early()); }

TEST(CallSequence, WhatTheKernelBeforeWritesIsReadBehindIt) {
  TwoCalls calls;
  calls.first.writes.push_back({109, 110});
  EXPECT_FALSE(calls.is_early());
  calls.first.writes.back() = {110, 120};
  EXPECT_TRUE(calls.is_early());
  // Pieces of two granules, four apart: 18 granules from the first to the last.
  calls.second.kernel.loads[0].hbm_runs = 4 << 16 | 2;
  calls.second.kernel.loads[0].vmem_runs = 2 << 16 | 2;
  EXPECT_FALSE(calls.is_early());
  calls.first.writes.back() = {118, 120};
  EXPECT_TRUE(calls.is_early());
}

TEST(CallSequence, RowsOfVmemThatTheKernelBeforeHasAreFilledBehindIt) {
  TwoCalls calls;
  calls.first.kernel.vmem.below = 20'001;
  EXPECT_FALSE(calls.is_early());
  calls.first.kernel.vmem = {20'000, 32'768 - 20'020};
  EXPECT_TRUE(calls.is_early());
  calls.first.kernel.vmem.above += 1;
  EXPECT_FALSE(calls.is_early());
}

TEST(CallSequence, KernelsWithTheSameFlagsFollowEachOther) {
  TwoCalls calls;
  calls.first.kernel.place.is_high = true;
  EXPECT_FALSE(calls.is_early());
}

TEST(CallSequence, NothingIsEarlyBesideOtherCores) {
  TwoCalls calls;
  calls.first.kernel.stands_apart = true;
  EXPECT_FALSE(calls.is_early());
}

/// 490 bytes a cycle.
TEST(CallSequence, AKernelThatWaitsForTheMemoryHasItForItself) {
  TwoCalls calls;
  const double rate = compiler::Target().hbm_bytes_per_cycle / 1024;
  calls.first.kernel.cycles = static_cast<std::uint64_t>(109 / rate);
  EXPECT_FALSE(calls.is_early());
  calls.first.kernel.cycles = static_cast<std::uint64_t>(112 / rate);
  EXPECT_TRUE(calls.is_early());
}

TEST(CallSequence, NothingIsEarlyAcrossTheEndsOfLoops) {
  EXPECT_FALSE(TwoCalls().is_early([](CallSequence& calls) { calls.finish(); }));
}

/// The first kernel's own loads come in front of those of the next one.
TEST(CallSequence, WhoRunsFirstLoadsFirst) {
  const compiler::Target target;
  isa::Program program;
  program.kernels.resize(3);
  program.call_sites = {{1, 0, {}}, {2, 1, {}}};
  compiler::TopLevel top("top", target.chip);
  compiler::Openings openings(program, target);
  CallSequence calls(top, openings, target);
  TwoCalls two;
  two.first.kernel.loads = {FirstLoad{0, 0, 10, 0, 0, 0, 32}};
  two.first.operands = {{900, 0}, {500, 0}};
  two.second.site = 1;
  calls.add(two.first);
  calls.add(two.second);
  calls.finish();
  EXPECT_EQ(calls_of(top.take()), (std::vector<std::uint32_t>{2, 3, 0, 1}));
  EXPECT_EQ(program.call_sites.at(2).opens, 0U);
  EXPECT_EQ(program.call_sites.at(3).opens, 1U);
}

TEST(CallSequence, RangesSpanTheIterationsOfALoop) {
  const HbmRange up = compiler::range_of({100, 10}, 7, 4);
  EXPECT_EQ(std::pair(up.begin, up.end), (std::pair<std::uint64_t, std::uint64_t>(100, 137)));
  const HbmRange down = compiler::range_of({100, -10}, 7, 4);
  EXPECT_EQ(std::pair(down.begin, down.end), (std::pair<std::uint64_t, std::uint64_t>(70, 107)));
}

/// Three products by weights of their own, each of the result before: the first two are a kernel.
const std::string kProducts = R"(HloModule m
ENTRY main {
  x = bf16[512,512] parameter(0)
  u = bf16[512,512] parameter(1)
  v = bf16[512,512] parameter(2)
  w = bf16[512,512] parameter(3)
  a = bf16[512,512] dot(x, u), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  b = bf16[512,512] dot(a, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT c = bf16[512,512] dot(b, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
)";

/// Kernels that read what the one before writes find it, on all machines.
TEST(Openings, TheResultsAreThoseOfTheReference) {
  HloCheck check;
  check.tolerance = 1e-2;
  const CompiledRun run = check_hlo(kProducts, check);
  const auto openings = std::count_if(run.program.call_sites.begin(), run.program.call_sites.end(),
                                      [](const isa::CallSite& site) { return site.is_opening(); });
  EXPECT_EQ(openings, 3);  // One early, two late.
}

struct TimedRun {
  isa::Program program;
  RunResult result;
};

TimedRun run_of(const std::string& text, const MachineParams& machine) {
  TimedRun run;
  run.program = compiler::compile(hlo::read_hlo_text("m.hlo", text), target_of(machine, 1));
  RunOptions options;
  options.cores = {0};
  run.result = Machine(machine, run.program).run(options);
  return run;
}

/// Openings are no executions, and what they move is moved by the operation.
/// The matrix that all heads share is turned once, wherever the kernel stands in VMEM: as many
/// times as there are heads, rows were read that are not there.
TEST(Openings, ASharedMatrixIsReadToItsEndAlone) {
  HloCheck check;
  check.tolerance = 1e-5;
  check_hlo(kAddAndLeast + std::string(R"(ENTRY main {
  x = f32[512,1024] parameter(0)
  m = f32[16,16] parameter(1)
  s = f32[512,64,16] reshape(x)
  zero = f32[] constant(0)
  d = f32[512,64,16] dot(s, m), lhs_contracting_dims={2}, rhs_contracting_dims={0}
  q = f32[512,64,16] multiply(d, d)
  n = f32[512,64] reduce(q, zero), dimensions={2}, to_apply=add
  ns = f32[512,64,16] broadcast(n), dimensions={0,1}
  last = f32[512,64,16] divide(d, ns)
  ROOT r = f32[512,1024] reshape(last)
}
)"),
            check);
}

TEST(Openings, ReportsCountAnOperationOnceAndAllThatItMoves) {
  for (const MachineParams& machine : {MachineParams(), v2_8()}) {
    const TimedRun run = run_of(kProducts, machine);
    const CoreResult& core = run.result.cores.at(0);
    std::uint64_t bytes = 0;
    for (std::size_t op = 0; op < core.ops.size(); ++op) {
      EXPECT_EQ(core.ops[op].count, 1U) << run.program.ops[op].name;
      EXPECT_GE(core.ops[op].counters.hbm_read_bytes, 2U * 512U * 512U * 2U);
      bytes += core.ops[op].counters.hbm_read_bytes;
    }
    EXPECT_EQ(bytes, core.total.hbm_read_bytes);
  }
}

/// The weights of the last product come while the others are computed; one after the other both
/// take 22,219 cycles.
TEST(Openings, TheNextWeightsComeMeanwhile) {
  const TimedRun run = run_of(kProducts, {});
  const std::vector<std::uint32_t> order = calls_of(run.program.kernels[0]);
  std::size_t early = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const isa::CallSite& site = run.program.call_sites[order[i]];
    if (!site.is_opening()) continue;
    const auto next =
        std::find_if(order.begin() + static_cast<std::ptrdiff_t>(i), order.end(),
                     [&](std::uint32_t s) { return !run.program.call_sites[s].is_opening(); });
    if (*next != site.opens) ++early;
  }
  EXPECT_EQ(early, 1U);
  EXPECT_LT(run.result.cycles, 21'900U);
}

/// What a kernel loads first, as its caller finds it.
std::vector<FirstLoad> loads_of(const compiler::KernelPlace& place,
                                const std::function<void(KernelBuilder&)>& write) {
  compiler::Target target;
  target.place = place;
  KernelBuilder builder("test", target);
  write(builder);
  builder.finish();
  return builder.first_loads();
}

TEST(FirstLoads, AreKnownAddressesIntoUntouchedRows) {
  const std::vector<FirstLoad> loads = loads_of({false, true}, [](KernelBuilder& builder) {
    const VmemRegion touched = builder.allocate_vmem(8), region = builder.allocate_vmem(64);
    const std::uint32_t flag = builder.allocate_flag();
    builder.store(touched, 0U);
    builder.dma_in(builder.operand(0), touched, 4, flag);
    const std::uint32_t word = builder.allocate_smem(1);
    builder.store_smem(word, builder.operand(2));
    builder.dma_in(builder.add(builder.load_smem(word), 5), region, 8, flag);
    builder.wait(flag, 12);
    builder.dma_in(builder.operand(1), region, 4, flag);
    builder.wait(flag, 4);
  });
  ASSERT_EQ(loads.size(), 1U);
  EXPECT_EQ(loads[0].operand, 2);
  EXPECT_EQ(loads[0].offset, 5U);
  EXPECT_EQ(loads[0].granules, 8U);
  EXPECT_EQ(loads[0].row, 8U);
}

TEST(FirstLoads, AKernelStartsItsLoadsItselfWhereNobodyElseDoes) {
  const auto write = [](KernelBuilder& builder) {
    const VmemRegion region = builder.allocate_vmem(8);
    const std::uint32_t flag = builder.allocate_flag();
    builder.dma_in(builder.operand(0), region, 4, flag);
    builder.wait(flag, 4);
  };
  EXPECT_EQ(loads_of({false, false}, write).size(), 0U);
  EXPECT_EQ(loads_of({false, true}, write).size(), 1U);
}

/// The second iteration finds 1 where the first one has found 0: the load behind the loop is of the
/// operand that stands there then, and the one in it takes place twice.
TEST(FirstLoads, WordsThatALoopChangesAreNotKnown) {
  const std::vector<FirstLoad> loads = loads_of({false, true}, [](KernelBuilder& builder) {
    const VmemRegion region = builder.allocate_vmem(8), other = builder.allocate_vmem(8);
    const std::uint32_t flag = builder.allocate_flag(), word = builder.allocate_smem(2);
    const SReg kept = builder.operand(0), changed = builder.operand(1);
    builder.store_smem(word, changed);
    builder.store_smem(word + 1, kept);
    builder.loop(3,
                 [&](SReg) { builder.store_smem(word, builder.add(builder.load_smem(word), 1)); });
    builder.dma_in(builder.load_smem(word), region, 4, flag);
    builder.dma_in(builder.load_smem(word + 1), other, 4, flag);
    builder.wait(flag, 8);
  });
  ASSERT_EQ(loads.size(), 1U);
  EXPECT_EQ(loads[0].operand, 0);
}

TEST(FirstLoads, HighKernelsHaveTheRowsUnderTheLastEighthAndFlagsOfTheirOwn) {
  const std::vector<FirstLoad> loads = loads_of({true, true}, [](KernelBuilder& builder) {
    const VmemRegion region = builder.allocate_vmem(8);
    const std::uint32_t flag = builder.allocate_flag();
    builder.dma_in(builder.operand(0), region, 4, flag);
    builder.wait(flag, 4);
    EXPECT_EQ(builder.vmem_use().below, 0U);
    EXPECT_EQ(builder.vmem_use().above, 4096U + 8U);
    EXPECT_EQ(builder.vmem_bytes(), 8U * 512U);
  });
  ASSERT_EQ(loads.size(), 1U);
  EXPECT_EQ(loads[0].end_row(), 32'768U - 4096U);
  EXPECT_EQ(loads[0].flag, compiler::kHighKernelFlags.begin);
}

/// Then it is made low, by the same plan.
TEST(FirstLoads, AKernelThatTakesAllRowsHasNoRoomAbove) {
  compiler::Target target;
  target.place.is_high = true;
  KernelBuilder builder("test", target);
  constexpr std::uint64_t kAll = (16 << 20) / isa::kVmemRowBytes;
  builder.allocate_vmem(kAll * 7 / 8);
  EXPECT_TRUE(builder.vmem_use().fits(kAll));
  builder.allocate_vmem(8);
  EXPECT_FALSE(builder.vmem_use().fits(kAll));
}

TEST(FirstLoads, AddressesThatNobodyReadsAreNotComputed) {
  compiler::Target target;
  KernelBuilder builder("test", target);
  const VmemRegion region = builder.allocate_vmem(8);
  const std::uint32_t flag = builder.allocate_flag();
  builder.load_smem(builder.allocate_smem(1));
  builder.dma_in(builder.operand(0), region, 4, flag);
  builder.wait(flag, 4);
  const isa::Kernel kernel = builder.finish();
  for (const isa::Instruction& each : kernel.instructions) {
    EXPECT_NE(each.opcode, isa::Opcode::kSld);
  }
}

}  // namespace
}  // namespace tpu::test::openings_test
