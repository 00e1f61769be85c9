#include "workloads/xla/scheduled_lifetimes.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "workloads/hlo/hlo_reader.h"

/// A schedule with a loop: what is read last by what stands in the text.

namespace tpu::xla::scheduled_lifetimes_test {
namespace {

constexpr const char* kSchedule = R"(HloModule step, is_scheduled=true
body {
  state = (s32[], f32[64], f32[64], f32[64]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  x = f32[64] get-tuple-element(state), index=1
  w = f32[64] get-tuple-element(state), index=2
  y = f32[64] get-tuple-element(state), index=3
  one = s32[] constant(1)
  next = s32[] add(i, one)
  inner = f32[64] add(x, w)
  kept = f32[64] multiply(inner, w)
  ROOT out = (s32[], f32[64], f32[64], f32[64]) tuple(next, kept, w, y)
}
test {
  state = (s32[], f32[64], f32[64], f32[64]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  four = s32[] constant(4)
  ROOT go = pred[] compare(i, four), direction=LT
}
ENTRY main {
  a = f32[64] parameter(0)
  zero = s32[] constant(0)
  early = f32[64] add(a, a)
  start = f32[64] multiply(early, a)
  weights = f32[64] add(start, a)
  beside = f32[64] negate(weights)
  init = (s32[], f32[64], f32[64], f32[64]) tuple(zero, start, weights, beside)
  loop = (s32[], f32[64], f32[64], f32[64]) while(init), condition=test, body=body
  result = f32[64] get-tuple-element(loop), index=1
  looked = f32[64] bitcast(result)
  behind = f32[64] add(looked, a)
  passed = f32[64] get-tuple-element(loop), index=3
  ROOT last = f32[64] add(behind, passed)
}
)";

const std::vector<std::string> kOps = {"early", "start", "weights", "beside",
                                       "inner", "kept",  "behind",  "last"};

class ScheduledLifetimes : public ::testing::Test {
 protected:
  ScheduledLifetimes() {
    for (const std::string& name : kOps) {
      isa::OpInfo op;
      op.name = name;
      ops_.push_back(op);
    }
  }
  std::uint32_t number(const std::string& name) const {
    for (std::uint32_t op = 0; op < kOps.size(); ++op) {
      if (kOps[op] == name) return op;
    }
    return 99;
  }
  /// First and last op of a buffer that lives from its maker to the end, or to an op before.
  std::pair<std::string, std::string> life(const std::string& buffer,
                                           const std::string& overwritten_behind = "last") {
    isa::Buffer one;
    one.name = buffer;
    one.role = isa::BufferRole::kTemporary;
    const std::uint32_t maker = number(buffer.substr(0, buffer.find('@')));
    const hlo::Module module = hlo::read_hlo_text("schedule", kSchedule);
    const auto lives = scheduled_lifetimes(module, ops_, {one},
                                           {{maker == 99 ? 0 : maker, number(overwritten_behind)}});
    return {kOps[lives[0].first_op], kOps[lives[0].last_op]};
  }
  std::vector<isa::OpInfo> ops_;
};

using Life = std::pair<std::string, std::string>;

TEST_F(ScheduledLifetimes, ATemporaryLivesToItsLastReader) {
  EXPECT_EQ(life("early@{}"), (Life{"early", "start"}));
  EXPECT_EQ(life("inner@{}"), (Life{"inner", "kept"}));
  EXPECT_EQ(life("behind@{}"), (Life{"behind", "last"}));
}

/// `start` goes in as the loop's second array and lies where its result is read, through a bitcast.
TEST_F(ScheduledLifetimes, WhatALoopCarriesLivesToTheReaderOfItsResult) {
  EXPECT_EQ(life("start@{}"), (Life{"start", "behind"}));
  EXPECT_EQ(life("beside@{}"), (Life{"beside", "last"}));
}

/// What it reads in every trip is read by its last op, whatever stands behind.
TEST_F(ScheduledLifetimes, WhatALoopReadsLivesAsLongAsItRuns) {
  EXPECT_EQ(life("weights@{}"), (Life{"weights", "kept"}));
}

/// The next trip begins with it.
TEST_F(ScheduledLifetimes, WhatATripHandsOnIsThereInTheWholeLoop) {
  EXPECT_EQ(life("kept@{}"), (Life{"inner", "behind"}));
}

/// Another buffer stands in its place behind `weights`; `beside`, which makes it, may read it.
TEST_F(ScheduledLifetimes, NothingOutlivesWhatIsWrittenOverIt) {
  EXPECT_EQ(life("start@{}", "weights"), (Life{"start", "beside"}));
}

TEST_F(ScheduledLifetimes, WhatTheModuleDoesNotNameStaysAsItIs) {
  EXPECT_EQ(life("scratch@{}", "weights"), (Life{"early", "weights"}));
  EXPECT_EQ(life("early", "weights"), (Life{"early", "weights"}));
}

}  // namespace
}  // namespace tpu::xla::scheduled_lifetimes_test
