#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "tests/models/test_program.h"
#include "tests/traces/synthetic_record.h"
#include "traces/bundle_recorder.h"
#include "traces/core_events.h"

namespace tpu::traces::record_test {
namespace {

/// Before the run a record has all that the program says.
TEST(StartRecord, HasWhatTheProgramSays) {
  isa::Program program = test::program_of("kernel top\n  { %s1 = smov 7 }\n");
  program.name = "name";
  program.compiler = "compiler";
  program.examples_per_core = 3;
  program.model_flops = 5;
  program.data_dependent_control = 7;
  program.compulsory_hbm_bytes = 11;
  program.hbm_peak_bytes = 13;
  program.infeed_bytes = 17;
  program.infeed_host_bytes = 19;
  program.ops.resize(2);
  program.ops[1].name = "second";
  program.kernels.resize(3);
  program.kernels[2].name = "code";
  program.kernels[2].bundles.resize(23);
  program.kernels[2].instructions.resize(29);
  program.call_sites = {{2, 1, {}}, {9, 0, {}}};  // The last one has no code.
  program.buffers.resize(1);
  program.buffers[0].name = "weights";
  program.buffers[0].data = {1, 2, 3};
  program.control.resize(1);
  program.control[0].name = "while";
  program.control[0].points.resize(4);
  MachineParams params;
  params.clock_mhz = 123;
  const RunRecord record = start_record(params, program);
  EXPECT_EQ(record.params.clock_mhz, 123);
  EXPECT_EQ(record.program, "name");
  EXPECT_EQ(record.compiler, "compiler");
  EXPECT_EQ(record.examples_per_core, 3u);
  EXPECT_EQ(record.model_flops, 5u);
  EXPECT_EQ(record.data_dependent_control, 7u);
  EXPECT_EQ(record.compulsory_hbm_bytes, 11u);
  EXPECT_EQ(record.hbm_plan_bytes, 13u);
  EXPECT_EQ(record.infeed_bytes, 17u);
  EXPECT_EQ(record.infeed_host_bytes, 19u);
  ASSERT_EQ(record.ops.size(), 2u);
  EXPECT_EQ(record.ops[1].name, "second");
  ASSERT_EQ(record.kernels.size(), 1u);
  EXPECT_EQ(record.kernels[0].op, 1u);
  EXPECT_EQ(record.kernels[0].kernel, 2u);
  EXPECT_EQ(record.kernels[0].name, "code");
  EXPECT_EQ(record.kernels[0].bundles, 23u);
  EXPECT_EQ(record.kernels[0].instructions, 29u);
  EXPECT_EQ(record.lifetimes.size(), 1u);
  ASSERT_EQ(record.buffers.size(), 1u);
  EXPECT_EQ(record.buffers[0].name, "weights");
  EXPECT_TRUE(record.buffers[0].data.empty());
  ASSERT_EQ(record.control.size(), 1u);
  EXPECT_EQ(record.control[0].name, "while");
  EXPECT_TRUE(record.control[0].points.empty());
}

/// A wait in pieces is one wait, named by its longest piece; behind a gap another one begins; what
/// did not end where a bundle issues was none of the bundle's.
TEST(BundleRecorder, AWaitIsWhatEndsWhereTheBundleIssues) {
  const isa::Program program = test::program_of("kernel top\n  { %s1 = smov 7 }\n");
  const MachineParams params;
  const auto waited = [&](const std::vector<std::array<std::uint64_t, 2>>& pieces) {
    BundleRecorder recorder(program, params, {0, 1000});
    CoreState reason = CoreState::kIciWait;
    for (const auto& [begin, end] : pieces) {
      recorder.on_wait(0, reason, begin, end);
      reason = CoreState::kMemoryWait;
    }
    IssuedBundles bundles;
    bundles.end = 1;
    bundles.cycle = 100;
    recorder.on_bundles(bundles);
    const BundleLog log = recorder.take();
    EXPECT_EQ(log.bundles.size(), 1u);
    return std::pair(log.bundles[0].waited, log.bundles[0].reason);
  };
  EXPECT_EQ(waited({{60, 100}}), std::pair(std::uint64_t{40}, CoreState::kIciWait));
  EXPECT_EQ(waited({{60, 90}, {90, 100}}), std::pair(std::uint64_t{40}, CoreState::kIciWait));
  EXPECT_EQ(waited({{60, 70}, {70, 100}}), std::pair(std::uint64_t{40}, CoreState::kMemoryWait));
  EXPECT_EQ(waited({{10, 60}, {90, 100}}), std::pair(std::uint64_t{10}, CoreState::kMemoryWait));
  EXPECT_EQ(waited({{60, 99}}).first, 0u);
}

/// Of 600 cycles: 480 of an MXU, 300 operations of two slots.
TEST(CoreEvents, SharesAreOfTheCyclesOfTheOperation) {
  RunRecord record = test::synthetic_record_with_events();
  OpEvent event = record.events.ops[0];
  event.mxu_busy = {480, 240, 0, 60};
  EXPECT_DOUBLE_EQ(mxu_share(event, 0), 0.8);
  EXPECT_DOUBLE_EQ(mxu_share(event, 1), 0.4);
  EXPECT_DOUBLE_EQ(mxu_share(event, 3), 0.1);
  EXPECT_DOUBLE_EQ(vector_alu_share(event), 0.25);
  OpResult& result = record.result.cores[0].ops[0];
  result.counters.busy_cycles[static_cast<std::size_t>(Unit::kXlu)] = 300;
  EXPECT_DOUBLE_EQ(mean_share(core_events(record, 0), event, Unit::kXlu), 0.25);
  result.cycles = 1;
  result.counters.busy_cycles[static_cast<std::size_t>(Unit::kXlu)] = 1;
  EXPECT_DOUBLE_EQ(mean_share(core_events(record, 0), event, Unit::kXlu), 1);
  result.cycles = 0;
  EXPECT_EQ(mean_share(core_events(record, 0), event, Unit::kXlu), 0);
}

/// An operation may take no cycle; one that ends before it begins, or that is none, is refused.
TEST(CoreEvents, EventsOfOperationsAreOfOperations) {
  const auto is_refused = [](std::uint32_t op, std::uint64_t begin, std::uint64_t end) {
    RunRecord record = test::synthetic_record_with_events();
    record.events.ops[1].op = op;
    record.events.ops[1].begin = begin;
    record.events.ops[1].end = end;
    try {
      check_events(record);
    } catch (const WorkloadError&) {
      return true;
    }
    return false;
  };
  EXPECT_FALSE(is_refused(2, 600, 601));
  EXPECT_FALSE(is_refused(2, 600, 600));
  EXPECT_TRUE(is_refused(2, 600, 599));
  EXPECT_TRUE(is_refused(3, 600, 601));
}

}  // namespace
}  // namespace tpu::traces::record_test
