#include "models/host/training_loop.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "sim/base/error.h"

namespace tpu::training_loop_test {
namespace {

constexpr std::size_t at(TrainingCause cause) { return static_cast<std::size_t>(cause); }

std::uint64_t sum(const TrainingTime& time) {
  return std::accumulate(time.causes.begin(), time.causes.end(), std::uint64_t{0});
}

TrainingPlan plan_of(std::uint64_t steps, std::uint64_t cycles) {
  TrainingPlan plan;
  plan.steps_of_epoch = steps;
  plan.full.cycles = cycles;
  return plan;
}

TEST(TrainingLoop, StepsThatWaitForNothingAddUp) {
  const TrainingTime time = TrainingLoop(plan_of(1000, 70)).run();
  EXPECT_EQ(time.cycles, 70000u);
  EXPECT_EQ(time.causes[at(TrainingCause::kSteps)], 70000u);
  EXPECT_EQ(time.step_times, (std::map<std::uint64_t, std::uint64_t>{{70, 1000}}));
  EXPECT_LT(time.simulated, 10u);
}

TEST(TrainingLoop, TheSlowerOfInputAndDeviceIsThePace) {
  TrainingPlan plan = plan_of(100, 70);
  plan.full.input_cycles = 200;
  plan.first_batch_cycles = 500;
  TrainingTime time = TrainingLoop(plan).run();
  EXPECT_EQ(time.cycles, 500u + 99 * 200 + 70);
  EXPECT_EQ(time.causes[at(TrainingCause::kInput)], time.cycles - 7000);
  plan.full.input_cycles = 60;
  time = TrainingLoop(plan).run();
  EXPECT_EQ(time.cycles, 500u + 100 * 70);
}

TEST(TrainingLoop, ALaunchIsHiddenBehindTheStepBeforeOrNot) {
  TrainingPlan plan = plan_of(100, 70);
  plan.launch_cycles = 30;
  EXPECT_EQ(TrainingLoop(plan).run().cycles, 100u * (70 + 30)) << "one after the other";
  plan.launches_ahead = 1;
  EXPECT_EQ(TrainingLoop(plan).run().cycles, 30u + 100 * 70) << "the next while one runs";
  plan.launch_cycles = 90;
  EXPECT_EQ(TrainingLoop(plan).run().cycles, 100u * 90 + 70) << "the host is the slower one";
  plan.launches_ahead = 0;
  plan.steps_a_launch = 10;
  EXPECT_EQ(TrainingLoop(plan).run().cycles, 10u * 90 + 100 * 70) << "ten steps a launch";
  plan.steps_of_epoch = 95;
  EXPECT_EQ(TrainingLoop(plan).run().cycles, 10u * 90 + 95 * 70) << "the last has five";
}

TEST(TrainingLoop, AReadbackEmptiesTheQueueOfLaunches) {
  TrainingPlan plan = plan_of(100, 70);
  plan.launch_cycles = 30;
  plan.launches_ahead = 1;
  plan.readback_every = 10;
  plan.readback_cycles = 500;
  const TrainingTime time = TrainingLoop(plan).run();
  // Each of the first nine costs itself and the launch behind it, which nothing hides.
  EXPECT_EQ(time.cycles, 30u + 100 * 70 + 9 * (500 + 30) + 500);
  EXPECT_EQ(time.causes[at(TrainingCause::kReadback)], 5000u);
  EXPECT_EQ(time.causes[at(TrainingCause::kLaunch)], 300u);
  EXPECT_EQ(time.step_times.at(70), 90u);
  EXPECT_EQ(time.step_times.at(600), 9u);
}

TEST(TrainingLoop, ANewShapeIsCompiledOnce) {
  TrainingPlan plan = plan_of(10, 70);
  plan.epochs = 5;
  plan.has_ragged = true;
  plan.full.compile_cycles = 10000;
  plan.ragged = {20, 0, 9000};
  const TrainingTime time = TrainingLoop(plan).run();
  EXPECT_EQ(time.compilations, 2u);
  EXPECT_EQ(time.cycles, 10000u + 9000 + 5 * (700 + 20));
  EXPECT_EQ(time.steps, 55u);
  EXPECT_EQ(time.step_times.at(9020), 1u);
  EXPECT_EQ(time.step_times.at(20), 4u);
}

TEST(TrainingLoop, InputGoesOnDuringACheckpoint) {
  TrainingPlan plan = plan_of(40, 70);
  plan.full.input_cycles = 100;
  plan.batches_ahead = 4;
  plan.checkpoint_every = 20;
  plan.checkpoint_read_cycles = 1000;
  const TrainingTime time = TrainingLoop(plan).run();
  // Four batches wait behind the checkpoint: the steps of four hide what three of them are short.
  EXPECT_EQ(time.causes[at(TrainingCause::kCheckpoint)], 2000u);
  const TrainingTime without = [&] {
    plan.checkpoint_every = 0;
    return TrainingLoop(plan).run();
  }();
  EXPECT_LT(time.cycles, without.cycles + 2000);
  EXPECT_GT(time.cycles, without.cycles + 1000);
}

TEST(TrainingLoop, TransfersAndEvaluationsAreTheHostsWork) {
  TrainingPlan plan = plan_of(100, 70);
  plan.transfer_cycles = 25;
  plan.steps_a_launch = 5;
  TrainingTime time = TrainingLoop(plan).run();
  EXPECT_EQ(time.cycles, 100u * 70 + 100 * 25);
  EXPECT_EQ(time.causes[at(TrainingCause::kTransfer)], 2500u);
  plan.transfer_cycles = 0;
  plan.first_batch_cycles = 40;
  plan.evaluation = {20, 30, 300};
  plan.evaluation_every = 10;
  plan.evaluation_steps = 3;
  time = TrainingLoop(plan).run();
  // Its own pipeline begins anew and is slower than its steps; its program is compiled once.
  EXPECT_EQ(time.causes[at(TrainingCause::kEvaluation)], 10u * (40 + 3 * 30));
  EXPECT_EQ(time.cycles, 40u + 100 * 70 + 10 * (40 + 3 * 30) + 300);
  EXPECT_EQ(time.evaluations, 10u);
}

TEST(TrainingLoop, ACheckpointInTheBackgroundWaitsForTheOneBefore) {
  TrainingPlan plan = plan_of(40, 70);
  plan.checkpoint_every = 10;
  plan.checkpoint_read_cycles = 50;
  plan.checkpoint_write_cycles = 900;
  EXPECT_EQ(TrainingLoop(plan).run().cycles, 40u * 70 + 4 * 950);
  plan.checkpoint_in_background = true;
  // Written while 700 cycles of steps run: 200 are waited for each time but the first.
  EXPECT_EQ(TrainingLoop(plan).run().cycles, 40u * 70 + 4 * 50 + 3 * (900 - 700));
}

TEST(TrainingLoop, APreemptedJobRepeatsWhatItHadNotSaved) {
  TrainingPlan plan = plan_of(100, 70);
  plan.full.compile_cycles = 1000;
  plan.checkpoint_every = 10;
  plan.preempted_after = 37;
  plan.restart_cycles = 5000;
  TrainingTime time = TrainingLoop(plan).run();
  EXPECT_EQ(time.causes[at(TrainingCause::kRepeated)], 7u * 70);
  EXPECT_EQ(time.causes[at(TrainingCause::kSteps)], 100u * 70);
  EXPECT_EQ(time.steps, 107u);
  EXPECT_EQ(time.compilations, 2u);
  EXPECT_EQ(time.cycles, 107u * 70 + 5000 + 2 * 1000);
  plan.compile_is_cached = true;
  time = TrainingLoop(plan).run();
  EXPECT_EQ(time.compilations, 1u);
}

TEST(TrainingLoop, TheFirstEpochFillsTheCache) {
  TrainingPlan plan = plan_of(50, 70);
  plan.epochs = 4;
  plan.full.input_cycles = 20;
  plan.first_input_cycles = 300;
  plan.first_batch_cycles = 300;
  const TrainingTime time = TrainingLoop(plan).run();
  EXPECT_EQ(time.cycles, 50u * 300 + 70 + 150 * 70);
}

/// Random trainings: what is counted is what running every step gives.
TEST(TrainingLoop, CountedStepsAreThoseOfARunInFull) {
  std::mt19937 random(7);
  const auto below = [&](std::uint64_t count) { return random() % count; };
  int counted_plans = 0;
  for (int which = 0; which < 1000; ++which) {
    TrainingPlan plan = plan_of(1 + below(120), 1 + below(90));
    plan.epochs = 1 + below(60);
    plan.full.input_cycles = below(3) == 0 ? below(150) : 0;
    plan.full.compile_cycles = below(1000);
    plan.has_ragged = below(2) == 0;
    plan.ragged = {1 + below(60), below(50), below(900)};
    plan.evaluation = {1 + below(40), below(30), below(500)};
    plan.first_batch_cycles = below(400);
    plan.first_input_cycles = below(4) == 0 ? below(300) : 0;
    plan.batches_ahead = 1 + below(5);
    plan.launch_cycles = below(60);
    plan.steps_a_launch = 1 + below(8);
    plan.launches_ahead = below(3);
    plan.transfer_cycles = below(3) == 0 ? below(30) : 0;
    plan.fallback_cycles = below(3) == 0 ? below(40) : 0;
    plan.readback_every = below(2) == 0 ? 1 + below(20) : 0;
    plan.readback_cycles = below(80);
    plan.evaluation_every = below(2) == 0 ? 1 + below(60) : 0;
    plan.evaluation_steps = 1 + below(9);
    plan.checkpoint_every = below(2) == 0 ? 1 + below(40) : 0;
    plan.checkpoint_read_cycles = below(100);
    plan.checkpoint_write_cycles = below(3000);
    plan.checkpoint_in_background = below(2) == 0;
    plan.preempted_after = below(3) == 0 ? 1 + below(500) : 0;
    plan.restart_cycles = below(2000);
    const TrainingTime counted = TrainingLoop(plan).run();
    const TrainingTime full = TrainingLoop(plan).run(false);
    SCOPED_TRACE(which);
    ASSERT_EQ(counted.cycles, full.cycles);
    ASSERT_EQ(counted.causes, full.causes);
    ASSERT_EQ(counted.step_times, full.step_times);
    ASSERT_EQ(counted.steps, full.steps);
    ASSERT_EQ(counted.compilations, full.compilations);
    ASSERT_EQ(counted.evaluations, full.evaluations);
    ASSERT_EQ(counted.checkpoints, full.checkpoints);
    ASSERT_EQ(full.simulated, full.steps);
    ASSERT_EQ(sum(full), full.cycles) << "every cycle has a cause";
    if (counted.simulated < full.steps / 2) ++counted_plans;
  }
  EXPECT_GT(counted_plans, 250) << "of 1,000: odd periods hardly ever meet";
}

TEST(TrainingLoop, AYearIsCounted) {
  // 150 ms a step; printed, evaluated and saved now and then; 1,252 steps an epoch.
  TrainingPlan plan = plan_of(1251, 141'000'000);
  plan.epochs = 168'000;
  plan.has_ragged = true;
  plan.ragged = {40'000'000, 30'000'000, 9'000'000'000};
  plan.full.input_cycles = 139'123'457;
  plan.batches_ahead = 4;
  plan.launch_cycles = 300'000;
  plan.launches_ahead = 1;
  plan.readback_every = 100;
  plan.readback_cycles = 700'000;
  plan.evaluation_every = 1252;
  plan.evaluation_steps = 49;
  plan.evaluation.cycles = 50'000'000;
  plan.checkpoint_every = 1000;
  plan.checkpoint_read_cycles = 20'000'000;
  const TrainingTime time = TrainingLoop(plan).run();
  EXPECT_EQ(time.steps, 168'000ull * 1252);
  EXPECT_EQ(sum(time), time.cycles);
  EXPECT_GT(time.cycles, 940'000'000ull * 3600 * 24 * 365);
  EXPECT_LT(time.simulated, 500'000u);
}

TEST(TrainingLoop, StepsThatTakeNoTimeTakeNone) {
  const TrainingTime time = TrainingLoop(plan_of(1'000'000, 0)).run();
  EXPECT_EQ(time.cycles, 0u);
  EXPECT_EQ(time.steps, 1'000'000u);
  EXPECT_LT(time.simulated, 10u);
}

TEST(TrainingLoop, AnEpochOfBillionsOfStepsIsCounted) {
  TrainingPlan plan = plan_of(1'000'000'007, 100);
  plan.epochs = 3;
  plan.launch_cycles = 30;
  plan.readback_every = 100;
  plan.readback_cycles = 500;
  const TrainingTime time = TrainingLoop(plan).run();
  EXPECT_EQ(time.steps, 3'000'000'021ull);
  EXPECT_EQ(time.cycles, 3'000'000'021ull * 130 + 30'000'000ull * 500);
  EXPECT_LT(time.simulated, 10'000u);
}

TEST(TrainingLoop, WhatIsTooLongIsRefused) {
  TrainingPlan plan = plan_of(1'000'000'000, 1'000'000'000);
  plan.epochs = 1000;
  EXPECT_THROW(TrainingLoop(plan).run(), ConfigurationError);
  plan = plan_of(1'000'003, 100);
  plan.epochs = 1'000'000;
  plan.readback_every = 97;
  plan.evaluation_every = 89;
  plan.checkpoint_every = 83;
  try {
    TrainingLoop(plan).run();
    FAIL() << "no error";
  } catch (const ConfigurationError& error) {
    EXPECT_NE(std::string(error.what()).find("divide each other"), std::string::npos);
  }
}

TEST(TrainingLoop, PercentilesCountEachStep) {
  const std::map<std::uint64_t, std::uint64_t> times{{10, 90}, {20, 9}, {1000, 1}};
  EXPECT_EQ(percentile(times, 50), 10u);
  EXPECT_EQ(percentile(times, 90), 10u);
  EXPECT_EQ(percentile(times, 95), 20u);
  EXPECT_EQ(percentile(times, 99), 20u);
  EXPECT_EQ(percentile(times, 99.5), 1000u);
}

}  // namespace
}  // namespace tpu::training_loop_test
