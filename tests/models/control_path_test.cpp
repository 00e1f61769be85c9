// Paths of loops and conditionals with values off: known, stated, assumed.

#include <gtest/gtest.h>

#include "tests/models/test_program.h"

namespace tpu::control_path_test {
namespace {

/// Loops as often as element 0 of granule 40 says, tested at the top, ten cycles a trip.
isa::Program loop_program() {
  isa::Program program = test::program_of(R"(
kernel top
  { dma.hbm_to_vmem 40, 1, 0, 1 }
  { dma.done.wait 1, 1 }
  { vsyncadd 1, -1 }
  { %v1 = vld [vmem:$0x0 sm:$0x1] }
  { vpush %v1 }
  { %s2 = spop }
  { %s1 = smov 0 }
again:
  { %p1 = scmp.lt.s32.totalorder %s1, %s2 }
  { sbr.rel (!%p1) target = end }
  { %s1 = sadd.s32 %s1, 1 }
  { sbr.rel target = again }
  { %s3 = smov 0 ;; vdelay 5 }
end:
  { %s3 = smov 0 }
)");
  isa::Buffer buffer;
  buffer.name = "count";
  buffer.role = isa::BufferRole::kParameter;
  buffer.granule = 40;
  buffer.bytes = isa::kHbmGranuleBytes;
  program.buffers.push_back(buffer);
  isa::ControlOp loop;
  loop.name = "while.1";
  loop.points.push_back({8, false, 0, 0});
  program.control.push_back(loop);
  return program;
}

/// Three branches of 1, 100 and 1000 cycles by element 0 of granule 40, in a tree as XLA's: the
/// first, then the other two behind one test.
isa::Program branch_program() {
  isa::Program program = loop_program();
  program.kernels = test::program_of(R"(
kernel top
  { dma.hbm_to_vmem 40, 1, 0, 1 }
  { dma.done.wait 1, 1 }
  { vsyncadd 1, -1 }
  { %v1 = vld [vmem:$0x0 sm:$0x1] }
  { vpush %v1 }
  { %s2 = spop }
  { %p1 = scmp.ge.s32.totalorder %s2, 1 }
  { sbr.rel (%p1) target = others }
  { %s3 = smov 0 }
  { %s3 = smov 0 }
others:
  { %p1 = scmp.lt.s32.totalorder %s2, 1 }
  { sbr.rel (%p1) target = end }
  { %p1 = scmp.ge.s32.totalorder %s2, 2 }
  { sbr.rel (%p1) target = last }
  { %p1 = scmp.lt.s32.totalorder %s2, 2 }
  { %s3 = smov 0 ;; vdelay 99 }
last:
  { sbr.rel (%p1) target = end }
  { %s3 = smov 0 }
  { %s3 = smov 0 ;; vdelay 999 }
end:
  { %s3 = smov 0 }
)")
                        .kernels;
  isa::ControlOp& op = program.control[0];
  op.name = "conditional.1";
  op.branches = 3;
  op.points = {{7, false, 0, 1}, {11, false, 1, 3}, {13, false, 1, 2}, {16, false, 2, 3}};
  return program;
}

RunOptions with_input(std::uint32_t word) {
  RunOptions options = test::on_core(0);
  options.inputs = [word](std::uint32_t, const isa::Buffer&) {
    return std::vector<std::uint32_t>{word};
  };
  options.inputs_from = "from the test";
  return options;
}

RunOptions stated(std::uint64_t number) {
  RunOptions options = test::on_core(0);
  options.paths[0] = number;
  return options;
}

/// No kernel may be followed.
RunOptions without_following() {
  RunOptions options = test::on_core(0);
  options.follow.instructions = 0;
  return options;
}

std::uint64_t cycles_with_values(const isa::Program& program, std::uint32_t word) {
  Machine machine(MachineParams(), program);
  CoreLoad load;
  load.hbm.push_back({40, {word}});
  machine.load(0, load);
  RunOptions options = test::on_core(0);
  options.values = true;
  return machine.run(options).cycles;
}

TEST(ControlPath, MoreTripsThanTheLimitAreAnEndlessLoopButWhereTheyAreStated) {
  const isa::Program program = loop_program();
  RunOptions options = with_input(7);
  options.max_trips = 7;
  EXPECT_EQ(test::fault_of(program, options), "");
  options.max_trips = 6;
  const std::string fault = test::fault_of(program, options);
  EXPECT_NE(fault.find("while.1 has made more than 6 trips: an endless loop, or --max-trips has "
                       "to allow more"),
            std::string::npos)
      << fault;
  options = stated(7);
  options.max_trips = 6;
  EXPECT_EQ(test::fault_of(program, options), "");
}

/// The limit is that of one execution: trips of steps do not add up.
TEST(ControlPath, TripsOfEachExecutionCountApart) {
  const isa::Program program = loop_program();
  RunOptions options = with_input(4);
  options.steps = 3;
  options.max_trips = 4;
  EXPECT_EQ(test::fault_of(program, options), "");
  options.max_trips = 3;
  EXPECT_NE(test::fault_of(program, options), "");
}

TEST(ControlPath, TripsAreThoseOfTheInputsOrAsStated) {
  const isa::Program program = loop_program();
  for (const std::uint32_t trips : {0U, 1U, 7U}) {
    const std::uint64_t cycles = cycles_with_values(program, trips);
    const RunResult known = test::run(program, with_input(trips));
    const RunResult said = test::run(program, stated(trips));
    EXPECT_EQ(known.cycles, cycles) << trips;
    EXPECT_EQ(said.cycles, cycles) << trips;
    ASSERT_EQ(known.paths.size(), 1u);
    for (const PathTaken& path : {known.paths[0], said.paths[0]}) {
      EXPECT_EQ(path.executions, 1u);
      EXPECT_EQ(path.least_trips, trips);
      EXPECT_EQ(path.most_trips, trips);
      EXPECT_FALSE(path.assumed);
    }
    EXPECT_FALSE(known.paths[0].stated);
    EXPECT_TRUE(said.paths[0].stated);
  }
}

TEST(ControlPath, NothingIsFollowedForAStatedPath) {
  bool asked = false;
  RunOptions options = stated(3);
  options.inputs = [&](std::uint32_t, const isa::Buffer&) {
    asked = true;
    return std::vector<std::uint32_t>{0};
  };
  EXPECT_TRUE(test::run(loop_program(), options).notes.empty());
  EXPECT_FALSE(asked);
}

TEST(ControlPath, BranchesAreThoseOfTheInputsOrAsStated) {
  const isa::Program program = branch_program();
  for (const std::uint32_t branch : {0U, 1U, 2U}) {
    const std::uint64_t cycles = cycles_with_values(program, branch);
    const RunResult known = test::run(program, with_input(branch));
    const RunResult said = test::run(program, stated(branch));
    EXPECT_EQ(known.cycles, cycles) << branch;
    EXPECT_EQ(said.cycles, cycles) << branch;
    std::vector<std::uint64_t> counts(3);
    counts[branch] = 1;
    EXPECT_EQ(known.paths.at(0).branch_counts, counts);
    EXPECT_EQ(said.paths.at(0).branch_counts, counts);
    EXPECT_EQ(known.paths.at(0).executions, 1u);
    EXPECT_EQ(said.paths.at(0).executions, 1u);
  }
}

TEST(ControlPath, WhatIsNotFollowedIsAssumedAndSaid) {
  const RunResult loop = test::run(loop_program(), without_following());
  EXPECT_EQ(loop.cycles, cycles_with_values(loop_program(), 1));
  EXPECT_TRUE(loop.paths.at(0).assumed);
  EXPECT_EQ(loop.paths.at(0).most_trips, 1u);
  ASSERT_FALSE(loop.notes.empty());
  EXPECT_NE(loop.notes[0].find("depends on more data than is followed"), std::string::npos);
  const RunResult branch = test::run(branch_program(), without_following());
  EXPECT_EQ(branch.cycles, cycles_with_values(branch_program(), 0));
  EXPECT_TRUE(branch.paths.at(0).assumed);
}

/// Any number that control needs is gone on without, and said: here how many granules to wait for.
TEST(ControlPath, AWaitForAnUnknownNumberGoesOnAndIsSaid) {
  const isa::Program program = test::program_of(R"(
kernel top
  { dma.hbm_to_vmem 40, 1, 0, 1 }
  { dma.done.wait 1, 1 }
  { %v1 = vld [vmem:$0x0] }
  { vpush %v1 ;; vdelay 9 }
  { %s2 = spop }
  { %s2 = sand.u32 %s2, 1 }
  { vwait.ge.trace 1, %s2 }
)");
  const RunResult result = test::run(program, without_following());
  ASSERT_FALSE(result.notes.empty());
  EXPECT_NE(result.notes[0].find("depends on more data than is followed"), std::string::npos);
}

TEST(ControlPath, ALoopTestedAtItsEndMakesItsFirstTripUntested) {
  isa::Program program = test::program_of(R"(
kernel top
  { %s1 = smov 0 }
again:
  { %s1 = sadd.s32 %s1, 1 }
  { %p1 = scmp.lt.s32.totalorder %s1, 6 }
  { sbr.rel (%p1) target = again }
  { %s3 = smov 0 }
)");
  isa::ControlOp loop;
  loop.name = "while.1";
  loop.points.push_back({3, true, 0, 0});
  program.control.push_back(loop);
  EXPECT_EQ(test::run(program).paths.at(0).most_trips, 6u);
  const std::uint64_t six = test::run(program).cycles;
  EXPECT_EQ(test::run(program, stated(4)).cycles, six - 2 * 4);
  EXPECT_EQ(test::run(program, stated(0)).paths.at(0).most_trips, 1u);
}

}  // namespace
}  // namespace tpu::control_path_test
