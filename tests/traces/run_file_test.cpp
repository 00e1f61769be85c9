#include "traces/run_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "models/parameter_table.h"
#include "sim/base/error.h"
#include "tests/traces/synthetic_record.h"
#include "traces/event_recorder.h"
#include "traces/hdf5_file.h"

namespace tpu::traces::run_file_test {
namespace {

namespace fs = std::filesystem;

class RunFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "tpusim-run-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    path_ = (folder_ / "run.h5").string();
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::vector<char> bytes() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  fs::path folder_;
  std::string path_;
};

void expect_equal(const Counters& a, const Counters& b) {
  EXPECT_EQ(a.bundles, b.bundles);
  EXPECT_EQ(a.matmul_pushes, b.matmul_pushes);
  EXPECT_EQ(a.vector_alu_ops, b.vector_alu_ops);
  EXPECT_EQ(a.hbm_read_bytes, b.hbm_read_bytes);
  EXPECT_EQ(a.hbm_write_bytes, b.hbm_write_bytes);
  EXPECT_EQ(a.busy_cycles, b.busy_cycles);
  EXPECT_EQ(a.schedule, b.schedule);
  for (std::size_t state = 0; state < CycleAccount<CoreState>::kStates; ++state) {
    EXPECT_EQ(a.core[static_cast<CoreState>(state)], b.core[static_cast<CoreState>(state)]);
  }
}

TEST_F(RunFileTest, ARecordComesBack) {
  RunRecord record = test::synthetic_record_with_events();
  record.params.hbm.pin_mbps = 1234;
  record.params.host.examples_per_s = 0.1;
  record.params.ici.wrap_x = true;
  record.result.cores[1].warmup = {{0, 70}, {70, 130}};
  record.command = {"run", "a net", "--set", "a=b"};
  record.what_if = {{"HBM free", "--set hbm.pin_mbps=1", 0.5, 1000, "", 0, 0.75},
                    {"batch 128 a core", "--batch 128", 0, 0, "does not fit"}};
  CriticalPath& critical = record.result.critical_path;
  critical.cycles = 21;
  critical.path = {1, 2, 3, 4, 5, 6};
  for (std::size_t set = 0; set < critical.without.size(); ++set) critical.without[set] = 100 - set;
  critical.twice_the_mxus = 17;
  critical.ops.resize(record.ops.size());
  critical.ops.at(1).path[3] = 4;
  critical.ops.at(1).gain[3] = -2;
  critical.ops.at(1).cycles[3] = 1.5;
  record.training->time.steps = 5;
  record.training->time.evaluations = 6;
  record.training->time.checkpoints = 7;
  record.result.cores[0].chip = 2;
  record.result.cores[1].chip = 3;
  write_run_file(path_, record);
  const RunRecord back = read_run_file(path_);
  EXPECT_EQ(back.result.cores[0].chip, 2u);
  EXPECT_EQ(back.result.cores[1].chip, 3u);
  EXPECT_EQ(back.result.cores[1].core, 1u);
  ASSERT_TRUE(back.training);
  EXPECT_EQ(back.training->epochs, 2u);
  EXPECT_EQ(back.training->examples, 512u);
  EXPECT_EQ(back.training->time.cycles, 9600u);
  EXPECT_EQ(back.training->time.steps, 5u);
  EXPECT_EQ(back.training->time.simulated, 4u);
  EXPECT_EQ(back.training->time.compilations, 1u);
  EXPECT_EQ(back.training->time.evaluations, 6u);
  EXPECT_EQ(back.training->time.checkpoints, 7u);
  EXPECT_EQ(back.result.critical_path.cycles, 21u);
  ASSERT_EQ(back.result.parts.size(), record.result.parts.size());
  EXPECT_EQ(back.result.parts[1].part, record.result.parts[1].part);
  EXPECT_EQ(back.result.parts[0].cycles, record.result.parts[0].cycles);
  EXPECT_EQ(back.result.parts[0].channel, 7u);
  ASSERT_EQ(back.result.parts[0].moved.size(), 2u);
  EXPECT_EQ(back.result.parts[0].moved[1].begin_cycle, 1100u);
  EXPECT_EQ(back.result.parts[0].moved[1].bytes, 4700u);
  EXPECT_EQ(back.ops[0].vmem_bytes, record.ops[0].vmem_bytes);
  EXPECT_EQ(back.result.critical_path.path, critical.path);
  EXPECT_EQ(back.result.critical_path.without, critical.without);
  EXPECT_EQ(back.result.critical_path.twice_the_mxus, 17u);
  EXPECT_EQ(back.result.critical_path.shares(), critical.shares());
  ASSERT_EQ(back.result.critical_path.ops.size(), critical.ops.size());
  EXPECT_EQ(back.result.critical_path.ops[1].path[3], 4u);
  EXPECT_EQ(back.result.critical_path.ops[1].gain[3], -2);
  EXPECT_EQ(back.result.critical_path.ops[1].cycles[3], 1.5);
  EXPECT_EQ(back.command, record.command);
  ASSERT_EQ(back.what_if.size(), 2u);
  EXPECT_EQ(back.what_if[0].name, "HBM free");
  EXPECT_EQ(back.what_if[0].settings, "--set hbm.pin_mbps=1");
  EXPECT_EQ(back.what_if[0].step_ms, 0.5);
  EXPECT_EQ(back.what_if[0].examples_per_s, 1000);
  EXPECT_EQ(back.what_if[0].as_it_is_ms, 0.75);
  EXPECT_EQ(back.what_if[1].problem, "does not fit");
  ASSERT_EQ(back.result.cores[1].warmup.size(), 2u);
  EXPECT_EQ(back.result.cores[1].warmup[1].begin, 70u);
  EXPECT_EQ(back.result.cores[1].warmup[1].end, 130u);
  EXPECT_TRUE(back.result.cores[0].warmup.empty());
  EXPECT_EQ(parameter_table(back.params), parameter_table(record.params));
  EXPECT_EQ(back.config, record.config);
  EXPECT_EQ(back.workload, record.workload);
  EXPECT_EQ(back.program, record.program);
  EXPECT_EQ(back.compiler, record.compiler);
  EXPECT_EQ(back.values, record.values);
  EXPECT_EQ(back.values_from, record.values_from);
  EXPECT_EQ(back.detail, record.detail);
  EXPECT_EQ(back.configuration_toml, record.configuration_toml);
  EXPECT_EQ(back.workload_sha256, record.workload_sha256);
  EXPECT_EQ(back.batch, record.batch);
  EXPECT_EQ(back.examples_per_core, record.examples_per_core);
  EXPECT_EQ(back.model_flops, record.model_flops);
  EXPECT_EQ(back.compulsory_hbm_bytes, record.compulsory_hbm_bytes);
  EXPECT_EQ(back.hbm_plan_bytes, record.hbm_plan_bytes);
  ASSERT_EQ(back.kernels.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(back.kernels[i].op, record.kernels[i].op);
    EXPECT_EQ(back.kernels[i].kernel, record.kernels[i].kernel);
    EXPECT_EQ(back.kernels[i].name, record.kernels[i].name);
    EXPECT_EQ(back.kernels[i].bundles, record.kernels[i].bundles);
    EXPECT_EQ(back.kernels[i].instructions, record.kernels[i].instructions);
  }
  ASSERT_EQ(back.lifetimes.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(back.lifetimes[i].first_op, record.lifetimes[i].first_op);
    EXPECT_EQ(back.lifetimes[i].last_op, record.lifetimes[i].last_op);
  }
  EXPECT_EQ(back.infeed_bytes, record.infeed_bytes);
  EXPECT_EQ(back.infeed_host_bytes, record.infeed_host_bytes);
  EXPECT_EQ(back.core_numbers, record.core_numbers);
  EXPECT_EQ(back.losses, record.losses);
  EXPECT_EQ(back.result.notes, record.result.notes);
  EXPECT_EQ(back.result.cycles, record.result.cycles);
  EXPECT_EQ(back.result.events, record.result.events);
  ASSERT_EQ(back.ops.size(), record.ops.size());
  for (std::size_t i = 0; i < back.ops.size(); ++i) {
    EXPECT_EQ(back.ops[i].name, record.ops[i].name);
    EXPECT_EQ(back.ops[i].category, record.ops[i].category);
    EXPECT_EQ(back.ops[i].op_name, record.ops[i].op_name);
    EXPECT_EQ(back.ops[i].source, record.ops[i].source);
    EXPECT_EQ(back.ops[i].shape, record.ops[i].shape);
    EXPECT_EQ(back.ops[i].flops, record.ops[i].flops);
    EXPECT_EQ(back.ops[i].padded_matmul_flops, record.ops[i].padded_matmul_flops);
  }
  ASSERT_EQ(back.operands.size(), 3u);
  EXPECT_EQ(back.operands[1].op, 1u);
  EXPECT_FALSE(back.operands[1].is_parameter);
  EXPECT_TRUE(back.operands[2].is_parameter);
  ASSERT_EQ(back.buffers.size(), record.buffers.size());
  EXPECT_EQ(back.buffers[1].role, isa::BufferRole::kOutput);
  EXPECT_EQ(back.buffers[0].unpadded_bytes, 1024u);
  ASSERT_EQ(back.result.cores.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    const CoreResult &a = back.result.cores[i], &b = record.result.cores[i];
    EXPECT_EQ(a.core, b.core);
    EXPECT_EQ(a.end_cycle, b.end_cycle);
    ASSERT_EQ(a.steps.size(), b.steps.size());
    EXPECT_EQ(a.steps[1].begin, b.steps[1].begin);
    EXPECT_EQ(a.steps[1].end, b.steps[1].end);
    expect_equal(a.total, b.total);
    EXPECT_EQ(a.waited_for, b.waited_for);
    for (std::size_t unit = 0; unit < kUnits; ++unit) {
      EXPECT_EQ(a.total.idle[unit][CoreState::kMemoryWait],
                b.total.idle[unit][CoreState::kMemoryWait]);
    }
    ASSERT_EQ(a.ops.size(), b.ops.size());
    for (std::size_t op = 0; op < a.ops.size(); ++op) {
      EXPECT_EQ(a.ops[op].count, b.ops[op].count);
      EXPECT_EQ(a.ops[op].cycles, b.ops[op].cycles);
      EXPECT_EQ(a.ops[op].beside, b.ops[op].beside);
      expect_equal(a.ops[op].counters, b.ops[op].counters);
    }
  }
  ASSERT_TRUE(back.has_events);
  ASSERT_EQ(back.events.ops.size(), record.events.ops.size());
  EXPECT_EQ(back.events.ops[1].hbm_bytes, 120000u);
  EXPECT_EQ(back.events.ops[0].mxu_busy, record.events.ops[0].mxu_busy);
  ASSERT_EQ(back.events.waits.size(), record.events.waits.size());
  EXPECT_EQ(back.events.waits[3].end, record.events.waits[3].end);
  EXPECT_EQ(back.events.waits[3].reason, CoreState::kInfeedWait);
  ASSERT_EQ(back.events.dmas.size(), record.events.dmas.size());
  EXPECT_EQ(back.events.dmas[3].destination, isa::MemorySpace::kHbm);
  EXPECT_EQ(back.events.dmas[4].destination_core, 1u);
  EXPECT_EQ(back.events.dmas[4].bytes, 4096u);
}

/// A loop that data decided, and a conditional whose second branch never ran.
TEST_F(RunFileTest, ThePathsThatARunTookComeBack) {
  RunRecord record = test::synthetic_record();
  record.control = {{"while.3", "scan", "m.py:4", 0, {}}, {"conditional.5", "", "", 3, {}}};
  record.result.paths = {{1, 7, 0, 0, {5, 0, 2}, false, true}, {0, 4, 2, 9, {}, true, false}};
  write_run_file(path_, record);
  const RunRecord back = read_run_file(path_);
  ASSERT_EQ(back.control.size(), 2u);
  EXPECT_EQ(back.control[0].name, "while.3");
  EXPECT_EQ(back.control[1].branches, 3u);
  ASSERT_EQ(back.result.paths.size(), 2u);
  const PathTaken &conditional = back.result.paths[0], &loop = back.result.paths[1];
  EXPECT_EQ(loop.executions, 4u);
  EXPECT_EQ(loop.least_trips, 2u);
  EXPECT_EQ(loop.most_trips, 9u);
  EXPECT_TRUE(loop.stated);
  EXPECT_FALSE(loop.assumed);
  EXPECT_TRUE(loop.branch_counts.empty());
  EXPECT_EQ(conditional.op, 1u);
  EXPECT_EQ(conditional.branch_counts, (std::vector<std::uint64_t>{5, 0, 2}));
  EXPECT_FALSE(conditional.stated);
  EXPECT_TRUE(conditional.assumed);
}

TEST_F(RunFileTest, ARecordWithoutEventsComesBackWithoutThem) {
  write_run_file(path_, test::synthetic_record());
  EXPECT_FALSE(read_run_file(path_).has_events);
}

TEST_F(RunFileTest, TheSameRecordGivesTheSameBytes) {
  write_run_file(path_, test::synthetic_record_with_events());
  const std::vector<char> first = bytes();
  write_run_file(path_, read_run_file(path_));
  EXPECT_EQ(bytes(), first);
}

TEST_F(RunFileTest, HalfAFileIsAnErrorThatSaysSo) {
  write_run_file(path_, test::synthetic_record());
  fs::resize_file(path_, fs::file_size(path_) / 2);
  try {
    read_run_file(path_);
    FAIL() << "no error";
  } catch (const WorkloadError& error) {
    EXPECT_NE(std::string(error.what()).find("the file is not complete"), std::string::npos);
  }
}

/// A table of the first row of another, so many times.
Table repeated(const Table& table, std::size_t rows) {
  Table result;
  for (const Table::NamedColumn& column : table.columns()) {
    std::visit(
        [&](const auto& values) {
          result.add(column.name, std::decay_t<decltype(values)>(rows, values.at(0)));
        },
        column.values);
  }
  return result;
}

TEST_F(RunFileTest, CoresAndOpsThatHaveNoResultsAreRefusedBeforeMemoryIsTaken) {
  write_run_file(path_, test::synthetic_record());
  const Hdf5Contents contents = read_hdf5(path_, {"run", 10});
  const auto error_with = [&](const char* table, std::size_t rows) -> std::string {
    Hdf5Contents crafted = contents;
    crafted.tables[table] = repeated(contents.table(table), rows);
    write_hdf5(path_, {"run", 10}, crafted);
    try {
      read_run_file(path_);
    } catch (const WorkloadError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(
      error_with("cores", 10000),
      path_ + ": op_counters: expected a row for each of 10000 cores and 3 ops, found 6 rows");
  EXPECT_EQ(
      error_with("ops", 10000),
      path_ + ": op_counters: expected a row for each of 2 cores and 10000 ops, found 6 rows");
  EXPECT_EQ(error_with("cores", 2), path_ + ": cores: expected each core once, found core 0 twice");
}

TEST_F(RunFileTest, APathIsOfALoopOrConditionalOfTheProgram) {
  RunRecord record = test::synthetic_record();
  record.control.resize(2);
  for (const std::uint32_t op : {1U, 2U}) {
    PathTaken path;
    path.op = op;
    path.executions = 3;
    record.result.paths = {path};
    write_run_file(path_, record);
    std::string error;
    try {
      EXPECT_EQ(read_run_file(path_).result.paths[0].op, op);
    } catch (const WorkloadError& refused) {
      error = refused.what();
    }
    EXPECT_EQ(error,
              op == 1 ? "" : path_ + ": paths: row 0: expected one of 2 loops and conditionals");
  }
}

TEST(EventRecorder, EventsOfWarmUpStepsAreForgotten) {
  EventRecorder recorder;
  for (const std::uint64_t begin : {0, 100, 200}) {
    for (const std::uint32_t core : {0U, 1U}) {
      recorder.on_op(core, 0, begin, begin + 50, {});
      recorder.on_wait(core, CoreState::kMemoryWait, begin + 10, begin + 20);
      DmaEvent dma;
      dma.source_core = core;
      dma.begin = begin + 60;
      dma.end = begin + 110;  // In the next step.
      recorder.on_dma(dma);
    }
    if (begin < 200) recorder.on_account({1, 0, 1, begin + 100});
  }
  const Events events = recorder.take();
  EXPECT_EQ(events.ops.size(), 3u + 1u);
  EXPECT_EQ(events.waits.size(), 3u + 1u);
  EXPECT_EQ(events.dmas.size(), 3u + 2u);
  for (const OpEvent& op : events.ops) EXPECT_TRUE(op.core == 0 || op.begin == 200);
}

TEST(EventRecorder, EventsComeOutInTheOrderOfTheirBegin) {
  EventRecorder recorder;
  Counters counters;
  counters.matmul_pushes = 7;
  counters.hbm_read_bytes = 1;
  counters.hbm_write_bytes = 2;
  counters.busy_cycles[static_cast<std::size_t>(Unit::kMxu1)] = 5;
  recorder.on_op(1, 4, 20, 30, counters);
  recorder.on_op(0, 3, 10, 40, counters);
  recorder.on_wait(0, CoreState::kIciWait, 9, 9);
  DmaEvent late, early;
  late.begin = 8;
  early.begin = 2;
  recorder.on_dma(late);
  recorder.on_dma(early);
  const Events events = recorder.take();
  ASSERT_EQ(events.ops.size(), 2u);
  EXPECT_EQ(events.ops[0].op, 3u);
  EXPECT_EQ(events.ops[1].matmul_pushes, 7u);
  EXPECT_EQ(events.ops[1].hbm_bytes, 3u);
  EXPECT_EQ(events.ops[1].mxu_busy[1], 5u);
  ASSERT_EQ(events.waits.size(), 1u);
  EXPECT_EQ(events.dmas[0].begin, 2u);
  EXPECT_TRUE(recorder.take().ops.empty());
}

}  // namespace
}  // namespace tpu::traces::run_file_test
