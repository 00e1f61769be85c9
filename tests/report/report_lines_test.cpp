#include <gtest/gtest.h>

#include "sim/report/energy.h"
#include "sim/report/run_diff.h"
#include "sim/report/text_report.h"
#include "sim/report/training_report.h"
#include "tests/traces/synthetic_record.h"

/// Lines of the text report, letter by letter. The figures follow from the record: two steps of
/// 1,100 cycles of 940 MHz on two cores, so 1.170 us and 4,400 cycles; what else is in them stands
/// at each test.

namespace tpu::report::report_lines_test {
namespace {

const TextStyle kStyle{false, 120};

std::string text_of(const traces::RunRecord& record) {
  SimulatorCost cost;
  cost.cpu_s = 1.5;
  cost.compile_cpu_s = 0.5;
  cost.run_cpu_s = 0.75;
  cost.peak_rss_bytes = 3 << 20;
  return text_report(record, summarize(record), cost, kStyle);
}

/// From where a line begins to the line that begins the next part.
std::string part_of(const std::string& text, const std::string& begin, const std::string& end) {
  const std::size_t from = text.find(begin);
  if (from == std::string::npos) return "no \"" + begin + "\" in\n" + text;
  const std::size_t to = text.find(end, from + 1);
  return text.substr(from, to == std::string::npos ? to : to - from);
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Without steps before those that count; nothing repeats.
TEST(ReportLines, KeyFiguresOfARun) {
  // 480 x 4 of 8,800 push slots; 13,107,200 FLOPs of 65,536 a cycle for 1,100 cycles; 1,200 of
  // 8,800 slots; 120,000 bytes of 490.2 a cycle; waits for the host 600 cycles, ended 200 before
  // the other; 200 cycles of FLOPs, 245 of bytes.
  EXPECT_EQ(part_of(text_of(test::synthetic_record()), "made-up", "  Energy"),
            R"(made-up, batch 256, 2 cores of v3-8
TPU v3, 940 MHz, 2 MXUs of 128x128 a core, 61.60 TFLOP/s and 460.8 GB/s of HBM a core
compiled by by hand; 2 steps; values on (by hand)

  Step time                     1.170 us   min 1.170 us, max 1.170 us; last step 1,100 cycles
  First step                    1.170 us   the first of the run, which waits for the first batch: no warm step ran
  Examples per second        218,763,636
  MXU utilization                 43.6 %   push slots used; useful FLOPs are 18.2 % of 61.60 TFLOP/s a core
  Padding of matrix work          2.00 x   FLOPs with dimensions padded to the MXU over useful FLOPs
  Vector ALU utilization          13.6 %
  HBM utilization                 22.3 %   117.19 KiB a step and core, of 460.8 GB/s
  TPU idle time                   18.2 %   waits for the host or has nothing to run
  Roofline bound                0.213 us   useful FLOPs; the step takes 5.50 x that
  Bound as moved                0.260 us   HBM bytes that moved at the rate of the pins; the step takes 4.49 x that
)");
}

/// Steps of warm-up, messages, bytes that bound, a loop that data decides, another machine.
TEST(ReportLines, KeyFiguresOfARunWithAllThatARunCanHave) {
  traces::RunRecord record = test::synthetic_record();
  record.params.name = "mine";
  record.params.core.mxu.count = 1;
  record.data_dependent_control = 1;
  record.compulsory_hbm_bytes = 110000;
  record.values = false;
  record.values_from.clear();
  for (CoreResult& core : record.result.cores) {
    core.warmup = {{0, 940}, {1000, 2100}, {2100, 3200}};
    core.total.ici_bytes = 100000;
    core.steps[1].end += 470;
  }
  // 100,000 bytes a core of two links of 87.2 bytes a cycle for 2,200 cycles; steps of 1,100 and
  // 1,570 cycles; useful FLOPs are those that ran, 800 a step; 110,000 bytes are 224.4 cycles.
  EXPECT_EQ(part_of(text_of(record), "made-up", "  Energy"),
            R"(made-up, batch 256, 2 cores of v3-8 (mine)
TPU v3, 940 MHz, 1 MXU of 128x128 a core, 30.80 TFLOP/s and 460.8 GB/s of HBM a core
compiled by by hand; 2 steps; values off

  Step time                     1.420 us   min 1.170 us, max 1.670 us; last step 1,570 cycles
  First step                        1 us   of the run; the time above is the 4th step's, which repeats the 3rd
  Examples per second        180,254,682
  MXU utilization                 87.3 %   push slots used; useful FLOPs are 0.0 % of 30.80 TFLOP/s a core
  Data decides                         1   loop or branch: useful FLOPs are those that ran
  Padding of matrix work          2.00 x   FLOPs with dimensions padded to the MXU over useful FLOPs
  Vector ALU utilization          13.6 %
  HBM utilization                 22.3 %   117.19 KiB a step and core, of 460.8 GB/s
  ICI utilization                 52.1 %
  TPU idle time                   18.2 %   waits for the host or has nothing to run
  Roofline bound                0.239 us   compulsory HBM bytes; the step takes 5.95 x that
  Bound as moved                0.260 us   HBM bytes that moved at the rate of the pins; the step takes 5.45 x that
)");
  record.data_dependent_control = 2;
  EXPECT_TRUE(has(text_of(record), " 2   loops, branches: useful FLOPs are those that ran\n"));
  EXPECT_FALSE(has(text_of(test::synthetic_record()), "Data decides"));
  // What has to move is what moved: one bound.
  record.compulsory_hbm_bytes = 120001;
  EXPECT_FALSE(has(text_of(record), "Bound as moved"));
  record.ops[0].padded_matmul_flops = 803;  // Below half a percent.
  EXPECT_FALSE(has(text_of(record), "Padding of matrix work"));
  record.ops[0].matmul_flops = 4200;
  record.ops[0].padded_matmul_flops = 4221;  // Half a percent, which doubles hold exactly here.
  EXPECT_FALSE(has(text_of(record), "Padding of matrix work"));
  record.ops[0].padded_matmul_flops = 4222;
  EXPECT_TRUE(has(text_of(record), "Padding of matrix work"));
}

TEST(ReportLines, StepsHaveOrdinals) {
  const std::pair<std::size_t, const char*> ordinals[] = {
      {1, "2nd step's"},   {2, "3rd step's"},   {3, "4th step's"},   {10, "11th step's"},
      {11, "12th step's"}, {12, "13th step's"}, {20, "21st step's"}, {110, "111th step's"}};
  for (const auto& [before, ordinal] : ordinals) {
    traces::RunRecord record = test::synthetic_record();
    for (CoreResult& core : record.result.cores) {
      for (std::size_t i = 0; i < before; ++i) core.warmup.push_back({0, 100000 * (i + 1)});
    }
    EXPECT_TRUE(has(text_of(record), std::string("the time above is the ") + ordinal + ", and no "))
        << text_of(record).substr(0, 600);
  }
}

TEST(ReportLines, EnergyAndPrice) {
  traces::RunRecord record = test::synthetic_record();
  const Energy energy = energy_of(record);
  const auto joules = [](double value) { return short_number(value) + " J"; };
  EXPECT_EQ(part_of(text_of(record), "  Energy", "  Input"),
            "  Energy of a step        " + right(joules(energy.total()), 14) + "   inferred, " +
                joules(energy.low) + " to " + joules(energy.high) + "; a chip takes " +
                fixed(energy.watts_per_chip, 0) + " W (TDP 450)\n");
  while (record.result.cores.size() < 8) {
    record.core_numbers.push_back(static_cast<std::uint32_t>(record.core_numbers.size()));
    record.result.cores.push_back(record.result.cores[0]);
  }
  // $8 an hour; 875,054,545 examples a second.
  EXPECT_EQ(part_of(text_of(record), "  Price", "  Input"),
            "  Price                          $8.00/h   393,774,545,455 examples a dollar (list "
            "price)\n");
  record.examples_per_core = 0;
  EXPECT_FALSE(has(text_of(record), "  Price"));
  EXPECT_FALSE(has(text_of(record), "Examples per second"));
  record.params.chip = "v4";
  EXPECT_TRUE(has(text_of(record),
                  "  Energy of a step          not modelled   no power of this chip "
                  "was published\n"));
}

/// Waits for the host beyond half of the time; having finished is none.
TEST(ReportLines, TheHostIsTheBottleneckWhereMoreThanHalfOfTheTimeIsItsOwn) {
  traces::RunRecord record = test::synthetic_record();
  for (CoreResult& core : record.result.cores) {
    core.total.core = {};
    core.total.core.add(CoreState::kIssue, 470);
    core.total.core.add(CoreState::kInfeedWait, 250);
    core.total.core.add(CoreState::kPeerHostWait, 255);
    core.total.core.add(CoreState::kFinished, 25);
  }
  EXPECT_TRUE(has(text_of(record), "The host is the bottleneck"));
  for (CoreResult& core : record.result.cores) core.total.core.add(CoreState::kIssue, 20);
  EXPECT_FALSE(has(text_of(record), "The host is the bottleneck"));
}

/// Each cause its row, 100 cycles more than the one above: bars are 40 wide.
TEST(ReportLines, EachThingThatCoresDoIsARow) {
  traces::RunRecord record = test::synthetic_record();
  record.result.cores.resize(1);
  Counters& total = record.result.cores[0].total;
  total.core = {};
  const CoreState states[] = {CoreState::kIssue,        CoreState::kMemoryWait,
                              CoreState::kInfeedWait,   CoreState::kOutfeedWait,
                              CoreState::kIciWait,      CoreState::kPeerWait,
                              CoreState::kPeerHostWait, CoreState::kFinished};
  for (std::size_t i = 0; i < 8; ++i) total.core.add(states[i], 50 + 50 * i + (i == 7 ? 200 : 0));
  for (auto& idle : total.idle) idle = total.core;
  total.schedule = {};
  total.schedule[static_cast<std::size_t>(ScheduleCause::kMxuPush)] = 12;
  total.schedule[static_cast<std::size_t>(ScheduleCause::kLoad)] = 28;
  total.schedule[static_cast<std::size_t>(ScheduleCause::kBranch)] = 9;
  total.schedule[static_cast<std::size_t>(ScheduleCause::kScalar)] = 1;
  record.result.cores[0].waited_for = {{1, 300}, {4, 100}};
  const std::string text = text_of(record);
  EXPECT_EQ(part_of(text, "What the cores do", "Units"),
            R"(What the cores do
  compute       #                                           2.5 %
    for  load 1.4 %, mxu_push 0.6 %, others 0.5 %
  memory wait   ##                                          5.0 %
  infeed wait   ###                                         7.5 %
  outfeed wait  ####                                       10.0 %
  ICI transfer  #####                                      12.5 %
  peer wait     ######                                     15.0 %
  peer's infeed #######                                    17.5 %
  finished      ############                               30.0 %
  Cores wait for others that are late 20.0 % of the time, most for core 1 (15.0 %).

)");
  // Of 2,000 cycles and the unit's own 960, which are no others.
  total.busy_cycles = {};
  EXPECT_EQ(part_of(text_of(record), "  scalar", "  vector_alu"),
            "  scalar        0.0 %         2.5 %        5.0 %     35.0 %     27.5 %    30.0 %\n");
  total.busy_cycles[static_cast<std::size_t>(Unit::kScalar)] = 2000;
  EXPECT_EQ(part_of(text_of(record), "  scalar", "  vector_alu"),
            "  scalar       50.0 %         1.2 %        2.5 %     17.5 %     13.8 %    15.0 %\n");
}

/// Of a step: 400 and 500 cycles of XLA's beside 600 and 300 of ours, the third has no estimate.
TEST(ReportLines, EstimatesBesideOurs) {
  traces::RunRecord record = test::synthetic_record();
  record.ops[0].estimated_cycles = 400;
  record.ops[1].estimated_cycles = 500;
  EXPECT_EQ(part_of(text_of(record), "XLA's own", "HBM of a core"),
            R"(XLA's own estimate beside ours (never used)
      us   XLA's   ratio     ops  differ
   0.957   0.957    1.00       2          all with an estimate
   0.160                       1          without one
   0.638   0.426    1.50       1       1  longer: schedule
          its bundles and empty cycles alone take 1.50 x the estimate
   0.319   0.532    0.60       1       1  shorter: HBM
          HBM pins busy 82 % of our time; the estimate is 2.04 x their need
  Largest of the 2 that differ by over a quarter
   0.638   0.426    1.50  fusion.1  (convolution fusion)
          its bundles and empty cycles alone take 1.50 x the estimate
   0.319   0.532    0.60  copy.2  (copy)
          HBM pins busy 82 % of our time; the estimate is 2.04 x their need

)");
  EXPECT_EQ(part_of(text_of(record), "      us   XLA's    part", "  bound by:"),
            R"(      us   XLA's    part   count   MXU   VPU   HBM  bound by      padding  operation
   0.638   0.426  57.1 %       1   80%   25%    0%  padding         2.00x  fusion.1  (convolution fusion)
          jit(step)/dot_general  model.py:12
   0.319   0.532  28.6 %       1    0%    0%   82%  HBM                    copy.2  (copy)
   0.160          14.3 %       1    0%    0%    0%  host                   infeed.3  (infeed)

)");
}

/// 1,200 of ours and 1,000 of XLA's are nearer than a quarter.
TEST(ReportLines, OneEstimateMayDiffer) {
  traces::RunRecord record = test::synthetic_record();
  record.ops[0].estimated_cycles = 500;
  EXPECT_FALSE(has(text_of(record), "  Largest of the"));
  record.ops[1].estimated_cycles = 500;
  EXPECT_TRUE(has(text_of(record), "  Largest of the 1 that differ by over a quarter\n"));
}

/// As its own time, of which 1 ms is none of less than a millisecond.
TEST(ReportLines, AStepOfAMillisecondHasMilliseconds) {
  traces::RunRecord record = test::synthetic_record();
  record.ops[0].estimated_cycles = 470000;
  for (const bool is_shorter : {false, true}) {
    for (CoreResult& core : record.result.cores) {
      for (StepSpan& step : core.steps) step.end = step.begin + 940000 - (is_shorter ? 1 : 0);
    }
    const std::string text = text_of(record);
    for (const char* heads : {"   XLA's    part ", "   XLA's   ratio "}) {
      EXPECT_EQ(has(text, std::string("\n      ms") + heads), !is_shorter) << heads;
      EXPECT_EQ(has(text, std::string("\n      us") + heads), is_shorter) << heads;
    }
  }
}

/// A step above a millisecond has its operations in milliseconds.
TEST(ReportLines, LongStepsHaveMilliseconds) {
  traces::RunRecord record = test::synthetic_record();
  for (CoreResult& core : record.result.cores) {
    for (StepSpan& step : core.steps) step.end = step.begin + 1880000;
  }
  record.ops[0].estimated_cycles = 470000;
  const std::string text = text_of(record);
  EXPECT_TRUE(has(text, "  Step time                         2 ms "));
  EXPECT_TRUE(has(text, "\n      ms   XLA's    part "));
  EXPECT_TRUE(has(text, "\n0.000638   0.500  57.1 % ")) << text;
  EXPECT_TRUE(has(text, "\n      ms   XLA's   ratio "));
  EXPECT_TRUE(has(text, "\n0.000638   0.500    0.00       1 "));
}

TEST(ReportLines, PathsMemoryLossAndCost) {
  traces::RunRecord record = test::synthetic_record();
  isa::ControlOp loop, branches;
  loop.name = "while.3";
  loop.source = "m.py:3";
  loop.op_name = "jit/while";
  branches.name = "cond.4";
  branches.branches = 3;
  record.control = {loop, branches};
  record.result.paths = {{0, 3, 2, 9, {}, true, false},
                         {1, 5, 0, 0, {2, 0, 3}, false, true},
                         {0, 1, 1, 1, {}, false, false},
                         {0, 1, 4, 4, {}, false, false},
                         {1, 1, 0, 0, {0, 0, 1}, false, false}};
  const std::string text = text_of(record);
  EXPECT_EQ(part_of(text, "Paths of", "Not modelled"), R"(Paths of loops and conditionals (core 0)
  while.3: 2 to 9 trips in each of 3 executions (stated)  m.py:3  jit/while
  cond.4: branch 0 2 times, branch 2 3 times (assumed)
  while.3: 1 trip  m.py:3  jit/while
  while.3: 4 trips  m.py:3  jit/while
  cond.4: branch 2
)");
  record.result.paths.resize(12, record.result.paths[2]);
  EXPECT_FALSE(has(text_of(record), " more\n"));
  record.result.paths.resize(14, record.result.paths[2]);
  EXPECT_TRUE(has(text_of(record), "  and 2 more\n"));
  EXPECT_EQ(
      part_of(text, "HBM of a core", "Loss"),
      R"(HBM of a core: 3.00 GiB of 15.48 GiB planned, at most 108.00 KiB in use (parameters 8.00 KiB, temporaries 100.00 KiB)
  100.00 KiB  t  f32[25600]
    8.00 KiB  w  f32[8,32]{1,0:T(8,128)}  (8.0x expansion due to padding)

)");
  EXPECT_EQ(part_of(text, "Loss", "Paths"),
            "Loss\n  step 0     2.500000\n  step 1     1.250000\n\n\n");
  EXPECT_EQ(
      part_of(text, "Simulated", "never"),
      "Simulated 4,400 core cycles in 1.50 s of CPU time (building and compiling 0.50 s, machine "
      "0.75 s), peak memory 3.00 MiB\n");
}

/// A twentieth more than without padding is no expansion; without a place in the source, no line.
TEST(ReportLines, PaddingBelowATwentiethIsNotSaid) {
  traces::RunRecord record = test::synthetic_record();
  record.buffers[0].unpadded_bytes = 7802;  // Of 8,192: 5.0 % more.
  EXPECT_FALSE(has(text_of(record), "expansion"));
  record.buffers[0].unpadded_bytes = 7801;
  EXPECT_TRUE(has(text_of(record), "(1.1x expansion due to padding)"));
  record.buffers[0].unpadded_bytes = 0;
  EXPECT_FALSE(has(text_of(record), "expansion"));
  record.hbm_plan_bytes = 0;
  EXPECT_FALSE(has(text_of(record), "HBM of a core:"));
}

TEST(ReportLines, ATrainingHasItsTimeItsStepsAndTheirShapes) {
  traces::RunRecord record = test::synthetic_record();
  // 5,000 + 200 of 9,600 cycles are no steps; the mean of 3 x 1,100 and 6,300 cycles is 2,400.
  EXPECT_EQ(part_of(training_text(record, kStyle), "Training", "  steps "),
            R"(Training: 2 epochs of 512 examples, scenario jax
  takes 10.21 us: 4 steps, 100,266,667 examples/s; chips idle 54.2 %
  from step to step: mean 2.553 us, min 1.170 us, max 6.702 us, p1 1.170 us, p50 1.170 us, p90 6.702 us, p99 6.702 us
)");
  TrainingTime& time = record.training->time;
  time.causes = {4400, 480, 200, 3560};
  time.causes[static_cast<std::size_t>(TrainingCause::kEvaluation)] = 960;
  EXPECT_TRUE(has(training_text(record, kStyle), "chips idle 39.2 %\n"));
  record.training->epochs = 1;
  const std::pair<std::uint64_t, const char*> times[] = {
      {59, "  takes 59 s: "},
      {60, "  takes 1 min 0.0 s: "},
      {307, "  takes 5 min 7.0 s: "},
      {3600, "  takes 1 h 0 min: "},
      {86400, "  takes 1 d 0 h 0 min: "},
      {2 * 3600 + 61, "  takes 2 h 1 min: "},
      {(26 * 60 + 61) * 60 + 7, "  takes 1 d 3 h 1 min: "}};
  for (const auto& [seconds, words] : times) {
    time.cycles = 940000000 * seconds;
    const std::string text = training_text(record, kStyle);
    EXPECT_TRUE(has(text, words)) << text;
    EXPECT_TRUE(has(text, "Training: 1 epoch of 512 examples"));
  }
}

TEST(ReportLines, AComparisonEndsWithWhatEachRunCost) {
  traces::RunRecord a = test::synthetic_record(), b = a;
  a.config = "one";
  b.config = "two";
  b.params.clock_mhz = 470;
  SimulatorCost cost;
  cost.cpu_s = 2;
  const std::string text =
      comparison_report({a, b}, {summarize(a), summarize(b)}, {cost, {}}, kStyle);
  EXPECT_EQ(
      part_of(text, "one: Sim", "never"),
      "one: Simulated 4,400 core cycles in 2.00 s of CPU time (building and compiling 0.00 s, "
      "machine 0.00 s), peak memory 0 B\n"
      "two: Simulated 4,400 core cycles in 0.00 s of CPU time (building and compiling 0.00 s, "
      "machine 0.00 s), peak memory 0 B\n");
  EXPECT_EQ(text.find("made-up, batch 256, 2 cores\n\n"), 0u);
  EXPECT_TRUE(has(text, "== two: TPU v3, 470 MHz"));
  // Each has its losses; what is zero for both is no row.
  EXPECT_NE(text.find("\nLoss\n"), text.rfind("\nLoss\n"));
  EXPECT_TRUE(has(text, "  HBM utilization, %"));
  EXPECT_FALSE(has(text, "  ICI utilization, %"));
  a.batch = 1;
  EXPECT_EQ(comparison_report({a}, {summarize(a)}, {cost}, kStyle).find("made-up, batch 1, 2"), 0u);
  EXPECT_EQ(text_of(a).find("made-up, batch 1, 2 cores of one (v3-8)"), 0u);
  a.batch = 0;
  a.result.cores.resize(1);
  EXPECT_EQ(comparison_report({a}, {summarize(a)}, {cost}, kStyle).find("made-up, 1 core\n\n"), 0u);
}

}  // namespace
}  // namespace tpu::report::report_lines_test
