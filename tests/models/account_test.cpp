#include <gtest/gtest.h>

#include "tests/models/hbm_burst_twin.h"
#include "tests/models/test_program.h"

namespace tpu::account_test {
namespace {

using test::program_of;
using test::run;

TEST(Accounts, AUnitGoesOnWorkingWhileTheCoreWaits) {
  const RunResult result = run(program_of(R"(
kernel top
  { dma.hbm_to_vmem 0, 64, 0, 1 }
  { vmatmul.f32.gmra.mxu0 %v0 }
  { dma.done.wait 1, 64 }
)"));
  const Counters& total = result.cores[0].total;
  const std::uint64_t waited = total.core[CoreState::kMemoryWait];
  ASSERT_GT(waited, 100u);
  // The push's eight cycles: its own, and seven of the wait.
  const UnitAccount account = unit_account(total, Unit::kMxu0);
  EXPECT_EQ(account.busy, 8u);
  EXPECT_EQ(account.idle[CoreState::kMemoryWait], waited - 7);
  EXPECT_EQ(account.idle[CoreState::kIssue], 2u);
  EXPECT_EQ(account.total(), result.cycles);
  const UnitAccount idle = unit_account(total, Unit::kMxu1);
  EXPECT_EQ(idle.busy, 0u);
  EXPECT_EQ(idle.idle[CoreState::kMemoryWait], waited);
  EXPECT_EQ(idle.total(), result.cycles);
  // Units that work in the cycle of their bundle alone are idle for the whole wait.
  for (const Unit unit :
       {Unit::kScalar, Unit::kVectorAlu, Unit::kVectorLoad, Unit::kVectorStore, Unit::kEup}) {
    EXPECT_EQ(unit_account(total, unit).idle[CoreState::kMemoryWait], waited) << to_string(unit);
  }
}

TEST(Accounts, WorkBehindTheEndOfTheRunDoesNotCount) {
  const RunResult result = run(program_of(R"(
kernel top
  { %s1 = smov 0 }
  { vmatmul.f32.gmra.mxu0 %v0 ;; vdelay 2 }
)"));
  const UnitAccount account = unit_account(result.cores[0].total, Unit::kMxu0);
  EXPECT_EQ(account.busy, 3u);
  EXPECT_EQ(account.idle[CoreState::kIssue], 1u);
  EXPECT_EQ(account.total(), 4u);
}

TEST(Accounts, ACoreThatHasFinishedIsFinishedUntilTheLastOneIs) {
  const isa::Program program = program_of(R"(
kernel top
  { %s1 = sld [smem:$0x1] ;; vdelay 1 }
  { %p1 = scmp.ne.s32.totalorder %s1, 0 }
  { sbr.rel (%p1) target = end }
  { %s2 = smov 0 ;; vmatmul.f32.gmra.mxu0 %v0 }
  { %s2 = smov 0 ;; vdelay 999 }
end:
  { %s2 = smov 0 }
)");
  RunOptions options;
  options.cores = {0, 1};
  const RunResult result = run(program, options);
  EXPECT_EQ(result.cycles, 2u + 3u + 1000u + 1u);
  EXPECT_EQ(result.cores[1].end_cycle, 6u);
  EXPECT_EQ(result.cores[1].total.core[CoreState::kFinished], 1000u);
  EXPECT_EQ(result.cores[1].total.core.total(), result.cycles);
  // The delay slot's push of core 1: two cycles while it ran, six after its end.
  const UnitAccount account = unit_account(result.cores[1].total, Unit::kMxu0);
  EXPECT_EQ(account.busy, 8u);
  EXPECT_EQ(account.idle[CoreState::kFinished], 994u);
  EXPECT_EQ(account.total(), result.cycles);
}

TEST(Accounts, BytesOfTheHbmAreThoseThatComeOrGoThere) {
  const Counters total = run(program_of(R"(
kernel top
  { dma.hbm_to_vmem 0, 64, 0, 1 }
  { dma.vmem_to_hbm 0, 24, 100, 2 }
  { dma.hbm_to_smem 0, 2, 1024, 3 }
  { dma.done.wait 1, 64 }
  { dma.done.wait 2, 24 }
  { dma.done.wait 3, 2 }
)"))
                             .cores[0]
                             .total;
  EXPECT_EQ(total.dmas, 3u);
  EXPECT_EQ(total.hbm_read_bytes, 66u << 10);
  EXPECT_EQ(total.hbm_write_bytes, 24u << 10);
  EXPECT_EQ(total.ici_bytes, 0u);
}

/// All that is counted, in the order of the struct.
std::vector<std::uint64_t*> numbers_of(Counters& counters) {
  std::vector<std::uint64_t*> numbers = {
      &counters.bundles,       &counters.scalar_ops,     &counters.vector_alu_ops,
      &counters.vector_loads,  &counters.vector_stores,  &counters.matmul_pushes,
      &counters.weight_pushes, &counters.xlu_pushes,     &counters.eup_pushes,
      &counters.dmas,          &counters.hbm_read_bytes, &counters.hbm_write_bytes,
      &counters.ici_bytes};
  for (std::uint64_t& cycles : counters.busy_cycles) numbers.push_back(&cycles);
  for (std::uint64_t& cycles : counters.schedule) numbers.push_back(&cycles);
  return numbers;
}

TEST(Accounts, EveryNumberAddsAndSubtracts) {
  Counters a, b;
  std::uint64_t value = 0;
  for (std::uint64_t* number : numbers_of(a)) *number = 1000 + ++value;
  for (std::uint64_t* number : numbers_of(b)) *number = 5000 + 7 * ++value;
  Counters sum = a;
  sum += b;
  Counters left = sum - b;
  const auto of_a = numbers_of(a), of_b = numbers_of(b), of_sum = numbers_of(sum);
  const auto of_left = numbers_of(left);
  for (std::size_t i = 0; i < of_a.size(); ++i) {
    EXPECT_EQ(*of_sum[i], *of_a[i] + *of_b[i]) << "number " << i;
    EXPECT_EQ(*of_left[i], *of_a[i]) << "number " << i;
  }
}

TEST(Accounts, SlotsAndUnitsAreCounted) {
  const RunResult result = run(program_of(R"(
kernel top
  { %s1 = smov 0 ;; %s2 = smov 1 ;; %v1 = vmov 1.0 ;; %v2 = vld [vmem:$0x0] }
  { vpow2.f32 %v1 ;; %v3 = vadd.f32 %v1, %v2 ;; vst [vmem:$0x8] %v2 }
  { vmatpush.msra.mxu1 %v1 }
  { vadd.xlane.f32.xlu0 %v1 }
  { vdelay 90 }
  { %v1 = vpop.xlane.xlu0 }
)"));
  const Counters& total = result.cores[0].total;
  EXPECT_EQ(total.bundles, 6u);
  EXPECT_EQ(total.scalar_ops, 2u);
  EXPECT_EQ(total.vector_alu_ops, 3u);
  EXPECT_EQ(total.vector_loads, 1u);
  EXPECT_EQ(total.vector_stores, 1u);
  EXPECT_EQ(total.weight_pushes, 1u);
  EXPECT_EQ(total.xlu_pushes, 1u);
  EXPECT_EQ(total.eup_pushes, 1u);
  const auto busy = [&](Unit unit) { return unit_account(total, unit).busy; };
  EXPECT_EQ(busy(Unit::kScalar), 1u);
  EXPECT_EQ(busy(Unit::kVectorAlu), 2u);
  EXPECT_EQ(busy(Unit::kXlu), 8u);
  EXPECT_EQ(busy(Unit::kEup), 1u);
}

/// No two units work in as many bundles: one that counts another's slot is seen.
TEST(Accounts, EachSlotKeepsItsOwnUnitBusy) {
  const RunResult result = run(program_of(R"(
kernel top
  { %s1 = smov 0 ;; %v1 = vmov 1.0 ;; %v2 = vld [vmem:$0x0] ;; vst [vmem:$0x8] %v0 }
  { %s2 = smov 0 ;; %v3 = vmov 1.0 ;; %v4 = vld [vmem:$0x0] ;; vst [vmem:$0x8] %v0 }
  { %s3 = smov 0 ;; %v5 = vmov 1.0 ;; %v6 = vld [vmem:$0x0] }
  { %s4 = smov 0 ;; %v7 = vmov 1.0 }
  { %s5 = smov 0 ;; vdelay 3 }
)"));
  const std::pair<Unit, std::uint64_t> expected[] = {{Unit::kScalar, 5},
                                                     {Unit::kVectorAlu, 4},
                                                     {Unit::kVectorLoad, 3},
                                                     {Unit::kVectorStore, 2},
                                                     {Unit::kEup, 0}};
  for (const auto& [unit, bundles] : expected) {
    const UnitAccount account = unit_account(result.cores[0].total, unit);
    EXPECT_EQ(account.busy, bundles) << to_string(unit);
    EXPECT_EQ(account.idle[CoreState::kIssue], 8 - bundles) << to_string(unit);
  }
}

TEST(Accounts, WarmUpStepsAreInNone) {
  // The pushes of the last two bundles are still under way when the account begins.
  const isa::Program program = program_of(R"(
kernel top
  { inlined_call site = 0 ;; vdelay 7 }
  { vadd.xlane.f32.xlu0 %v0 }
  { vmatmul.f32.gmra.mxu0 %v0 }
kernel callee
  { dma.hbm_to_vmem 0, 64, 0, 1 }
  { dma.done.wait 1, 64 }
  { vsyncadd 1, -64 }
)");
  // Steps of equal length: no refresh, and the memory in step with the core.
  MachineParams params;
  params.hbm.refresh_interval_ns = 0;
  params.hbm.pin_mbps = 2 * params.clock_mhz;
  for (bool interpret : {false, true}) {
    RunOptions options = test::on_core(0);
    options.interpret = interpret;
    options.warmup_steps = 2;
    options.steps = 3;
    const RunResult result = run(program, options, params);
    const CoreResult& core = result.cores[0];
    ASSERT_EQ(core.steps.size(), 3u);
    const std::uint64_t step = core.steps[0].end - core.steps[0].begin;
    EXPECT_EQ(core.begin_cycle, 2 * step);
    EXPECT_EQ(core.steps[0].begin, 2 * step);
    EXPECT_EQ(result.cycles, 5 * step);
    EXPECT_EQ(core.total.core.total(), 3 * step);
    EXPECT_EQ(core.total.dmas, 3u);
    EXPECT_EQ(core.ops[0].count, 3u);
    EXPECT_EQ(unit_account(core.total, Unit::kMxu0).total(), 3 * step);
    // Seven cycles of the push before, two pushes, and the first cycle of the last.
    EXPECT_EQ(unit_account(core.total, Unit::kMxu0).busy, 7u + 2 * 8u + 1u);
    const std::uint64_t interval = params.core.xlu_interval_cycles;
    EXPECT_EQ(unit_account(core.total, Unit::kXlu).busy, interval - 2 + 2 * interval + 2);
  }
}

class Recorder : public Observer {
 public:
  void on_step(std::uint32_t core, std::uint32_t step, std::uint64_t begin,
               std::uint64_t end) override {
    text += "step " + std::to_string(core) + " " + std::to_string(step) + " " +
            std::to_string(begin) + "-" + std::to_string(end) + "\n";
  }
  void on_op(std::uint32_t, std::uint32_t op, std::uint64_t begin, std::uint64_t end,
             const Counters& counters) override {
    text += "op " + std::to_string(op) + " " + std::to_string(begin) + "-" + std::to_string(end) +
            " of " + std::to_string(counters.core.total()) + "\n";
  }
  void on_wait(std::uint32_t, CoreState reason, std::uint64_t begin, std::uint64_t end) override {
    text += std::string(to_string(reason)) + " " + std::to_string(begin) + "-" +
            std::to_string(end) + "\n";
  }
  void on_dma(const DmaEvent& event) override {
    text += "dma " + std::to_string(event.begin) + "-" + std::to_string(event.end) + " " +
            std::to_string(event.bytes) + "\n";
  }
  std::string text;
};

TEST(Accounts, AnObserverSeesStepsOpsWaitsAndDmas) {
  Recorder recorder;
  RunOptions options = test::on_core(0);
  options.observer = &recorder;
  const RunResult result = run(program_of(R"(
kernel top
  { inlined_call site = 0 }
kernel copy
  { dma.hbm_to_vmem 0, 1, 0, 1 }
  { dma.done.wait 1, 1 }
)"),
                               options);
  // Begun in cycle 1, clock 1 of the memory: 27 clocks until data, 64 of data, 140 cycles of
  // latency.
  ASSERT_EQ(test::hbm_done(false, 1, 1), (92 * 940 + 899) / 900 + 140);
  EXPECT_EQ(recorder.text,
            "dma 1-237 1024\nmemory_wait 2-237\nop 0 1-238 of 237\nstep 0 0 0-238\n");
  EXPECT_EQ(result.cores[0].ops[0].counters.dmas, 1u);
}

TEST(Accounts, AUnitWorksOnBehindAShortWait) {
  // The push is in its second of eight cycles when the wait of three begins.
  const auto program = [](std::uint64_t delay) {
    return program_of("kernel top\n{ dma.hbm_to_vmem 0, 1, 0, 1 ;; vdelay " +
                      std::to_string(delay) +
                      " }{ vmatmul.f32.gmra.mxu0 %v0 }{ dma.done.wait 1, 1 }{ vdelay 20 }");
  };
  const std::uint64_t whole = run(program(0)).cores[0].total.core[CoreState::kMemoryWait];
  ASSERT_GT(whole, 100u);
  for (const bool interpret : {false, true}) {
    RunOptions options = test::on_core(0);
    options.interpret = interpret;
    const RunResult result = run(program(whole - 3), options);
    const Counters& total = result.cores[0].total;
    ASSERT_EQ(total.core[CoreState::kMemoryWait], 3u);
    const UnitAccount account = unit_account(total, Unit::kMxu0);
    EXPECT_EQ(account.busy, 8u);
    EXPECT_EQ(account.idle[CoreState::kMemoryWait], 0u);
    // All other cycles of the core, less five of the push.
    EXPECT_EQ(account.idle[CoreState::kIssue], result.cycles - 3 - 5);
  }
}

TEST(Accounts, WeightsAreLoadedBesideTheMultiplication) {
  // Weights go into the second register of each cell: the array that multiplies is not busy.
  const RunResult result = run(program_of(R"(
kernel top
  { vmatpush.msra.mxu0 %v0 ;; vdelay 7 }
  { vmatpush.msra.mxu0 %v0 }
  { vmatmul.f32.gmra.mxu1 %v0 ;; vdelay 7 }
)"));
  const Counters& total = result.cores[0].total;
  EXPECT_EQ(total.weight_pushes, 2u);
  EXPECT_EQ(unit_account(total, Unit::kMxu0).busy, 0u);
  EXPECT_EQ(unit_account(total, Unit::kMxu1).busy, 8u);
}

}  // namespace
}  // namespace tpu::account_test
