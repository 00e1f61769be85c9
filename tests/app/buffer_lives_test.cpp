#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "tests/app/program_fixture.h"
#include "traces/buffer_lifetimes.h"
#include "traces/run_file.h"

/// From which op to which a buffer holds data, against what the ops read (`op_operands`, which is
/// made another way) and against the places that the plan gives.

namespace tpu::app::buffer_lives_test {
namespace {

/// Two matrices that live side by side, one that both end in, a loop with an array of its own.
constexpr const char* kLoop = R"(HloModule loop
body {
  state = (s32[], f32[64,1280], f32[1280,1280]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  x = f32[64,1280] get-tuple-element(state), index=1
  w = f32[1280,1280] get-tuple-element(state), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  y = f32[64,1280] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  z = f32[64,1280] dot(y, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT out = (s32[], f32[64,1280], f32[1280,1280]) tuple(next, z, w)
}
test {
  state = (s32[], f32[64,1280], f32[1280,1280]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  four = s32[] constant(4)
  ROOT go = pred[] compare(i, four), direction=LT
}
ENTRY main {
  a = f32[64,1280] parameter(0)
  b = f32[1280,1280] parameter(1)
  zero = s32[] constant(0)
  first = f32[64,1280] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  second = f32[64,1280] dot(first, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  init = (s32[], f32[64,1280], f32[1280,1280]) tuple(zero, second, b)
  loop = (s32[], f32[64,1280], f32[1280,1280]) while(init), condition=test, body=body
  last = f32[64,1280] get-tuple-element(loop), index=1
  trips = s32[] get-tuple-element(loop), index=0
  sum = f32[64,1280] dot(last, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT both = (f32[64,1280], s32[]) tuple(sum, trips)
}
)";

class BufferLivesTest : public ProgramTest {
 protected:
  traces::RunRecord record_of(const std::string& words) const {
    const Outcome outcome = tpusim("run " + words + " -o lives.h5");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return traces::read_run_file((folder_ / "lives.h5").string());
  }
};

std::string maker_of(const isa::Buffer& buffer) {
  return buffer.name.substr(0, buffer.name.find_first_of("@{"));
}

TEST_F(BufferLivesTest, WhatAnOpReadsIsThereAndGoesBehindItsLastReader) {
  write("loop.hlo", kLoop);
  const std::string captured = std::string(TPUSIM_SOURCE_DIR) + "/workloads/captured/mlp";
  for (const std::string& words :
       {std::string("mlp --cores 1"), std::string("lenet --cores 1"),
        std::string("transformer --cores 1"), std::string("mlp --cores 2 --batch 64"), captured}) {
    const traces::RunRecord record = record_of(words);
    ASSERT_EQ(record.lifetimes.size(), record.buffers.size());
    std::map<std::uint32_t, std::uint32_t> last_reader;
    for (const traces::OpOperand& edge : record.operands) {
      if (edge.is_parameter) continue;
      std::uint32_t& last = last_reader[edge.operand];
      last = std::max(last, edge.op);
    }
    std::map<std::string, std::uint32_t> numbers;
    for (std::uint32_t op = 0; op < record.ops.size(); ++op) {
      numbers.emplace(record.ops[op].name, op);
    }
    std::map<std::uint32_t, std::uint32_t> last_life;  // Of all that an op makes.
    for (std::size_t i = 0; i < record.buffers.size(); ++i) {
      const auto maker = numbers.find(maker_of(record.buffers[i]));
      if (maker == numbers.end()) continue;
      EXPECT_LE(record.lifetimes[i].first_op, maker->second) << words;
      std::uint32_t& last = last_life[maker->second];
      last = std::max(last, record.lifetimes[i].last_op);
    }
    std::size_t checked = 0, ended = 0;
    for (const auto& [op, reader] : last_reader) {
      if (last_life.count(op) == 0) continue;
      EXPECT_GE(last_life[op], reader) << words << ": " << record.ops[op].name;
      ++checked;
      ended += last_life[op] == reader;
    }
    EXPECT_GT(checked, 1u) << words;
    EXPECT_GT(ended, 0u) << words;
  }
}

/// The plan puts a buffer where another lies only when that one is read for the last time: in the
/// op that makes it at the soonest.
TEST_F(BufferLivesTest, BuffersInTheSamePlaceLiveOneAfterTheOther) {
  write("loop.hlo", kLoop);
  for (const char* words : {"mlp --cores 1", "lenet --cores 1", "transformer --cores 1"}) {
    const traces::RunRecord record = record_of(words);
    for (std::size_t a = 0; a < record.buffers.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        const isa::Buffer &one = record.buffers[a], &other = record.buffers[b];
        if (one.role != isa::BufferRole::kTemporary || other.role != isa::BufferRole::kTemporary) {
          continue;
        }
        const std::uint64_t begin = std::max(one.granule, other.granule) * 1024;
        if (begin >= std::min(one.granule * 1024 + one.bytes, other.granule * 1024 + other.bytes)) {
          continue;
        }
        const isa::Lifetime &x = record.lifetimes[a], &y = record.lifetimes[b];
        EXPECT_TRUE(x.last_op <= y.first_op || y.last_op <= x.first_op)
            << words << ": " << one.name << ", " << other.name;
      }
    }
    EXPECT_LE(traces::hbm_peak_bytes(record), record.hbm_plan_bytes);
    EXPECT_GT(traces::hbm_peak_bytes(record), record.hbm_plan_bytes * 9 / 10) << words;
  }
}

/// What a loop's body keeps for itself is there as long as the loop runs, no longer.
TEST_F(BufferLivesTest, WhatABodyKeepsLivesAsLongAsItsLoop) {
  write("loop.hlo", kLoop);
  const traces::RunRecord record = record_of("loop.hlo");
  std::map<std::string, isa::Lifetime> lives;
  for (std::size_t i = 0; i < record.buffers.size(); ++i) {
    if (record.buffers[i].role != isa::BufferRole::kTemporary) continue;
    lives[record.buffers[i].name] = record.lifetimes[i];
  }
  const auto last = static_cast<std::uint32_t>(record.ops.size() - 1);
  ASSERT_EQ(record.ops[last].name, "sum");
  const auto expect = [&](const std::string& buffer, const std::string& first, std::uint32_t end) {
    ASSERT_EQ(lives.count(buffer), 1u) << buffer;
    EXPECT_EQ(record.ops[lives[buffer].first_op].name, first) << buffer;
    EXPECT_EQ(lives[buffer].last_op, end) << buffer;
  };
  // The loop's state lies where its first value did; behind the loop the product is read.
  expect("second", "second", last);
  // The body has a kernel of the name that the first product has, too.
  EXPECT_EQ(std::count_if(record.ops.begin(), record.ops.end(),
                          [](const auto& op) { return op.name == "fusion.0"; }),
            2);
  expect("fusion.0", "fusion.0", 1);
  EXPECT_EQ(lives["fusion.1"].last_op, last - 1);
  // The loop begins behind what its counter begins with.
  const auto zero = std::find_if(record.ops.begin(), record.ops.end(),
                                 [](const auto& op) { return op.name == "copy.zero"; });
  EXPECT_EQ(lives["fusion.1"].first_op, zero - record.ops.begin() + 1);
}

}  // namespace
}  // namespace tpu::app::buffer_lives_test
