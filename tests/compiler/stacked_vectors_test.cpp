#include "workloads/compiler/passes/simplify/stacked_vectors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/compiler/hlo_check.h"
#include "tests/compiler/pass_check.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::stacked_vectors_test {
namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
    text.replace(at, from.size(), to);
    at += to.size();
  }
  return text;
}

/// A scan over T vectors of N, and one that goes back over what it stacked. `%e`: what the first
/// body adds to its state beside.
std::string scans(int steps, int length, const std::string& beside = "x") {
  const std::string vector = "f32[" + std::to_string(length) + "]";
  const std::string stack = "f32[" + std::to_string(steps) + "," + std::to_string(length) + "]";
  const std::string row = "f32[1," + std::to_string(length) + "]";
  std::string text = R"(HloModule scans
least { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] minimum(a, b) }
less {
  s = (s32[], VEC, STACK, STACK) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(TIMES)
  ROOT p = pred[] compare(i, n), direction=LT
}
forward {
  s = (s32[], VEC, STACK, STACK) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  c = VEC get-tuple-element(s), index=1
  xs = STACK get-tuple-element(s), index=2
  ys = STACK get-tuple-element(s), index=3
  zero = s32[] constant(0)
  one = s32[] constant(1)
  nought = f32[] constant(0)
  xr = ROW dynamic-slice(xs, i, zero), dynamic_slice_sizes={1,LENGTH}
  x = VEC reshape(xr)
  sums = VEC reduce(xs, nought), dimensions={0}, to_apply=least
  t = VEC tanh(c)
  d = VEC add(t, BESIDE)
  y = VEC multiply(d, t)
  yr = ROW reshape(y)
  u = STACK dynamic-update-slice(ys, yr, i, zero)
  j = s32[] add(i, one)
  ROOT r = (s32[], VEC, STACK, STACK) tuple(j, d, xs, u)
}
back {
  s = (s32[], VEC, STACK, STACK) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  c = VEC get-tuple-element(s), index=1
  ys = STACK get-tuple-element(s), index=2
  gs = STACK get-tuple-element(s), index=3
  zero = s32[] constant(0)
  one = s32[] constant(1)
  last = s32[] constant(LAST)
  k = s32[] subtract(last, i)
  yr = ROW dynamic-slice(ys, k, zero), dynamic_slice_sizes={1,LENGTH}
  y = VEC reshape(yr)
  g = VEC multiply(c, y)
  h = VEC sine(g)
  hr = ROW reshape(h)
  u = STACK dynamic-update-slice(gs, hr, k, zero)
  j = s32[] add(i, one)
  ROOT r = (s32[], VEC, STACK, STACK) tuple(j, h, ys, u)
}
ENTRY main {
  c = VEC parameter(0)
  xs = STACK parameter(1)
  zero = s32[] constant(0)
  nought = f32[] constant(0)
  none = STACK broadcast(nought), dimensions={}
  a = (s32[], VEC, STACK, STACK) tuple(zero, c, xs, none)
  w = (s32[], VEC, STACK, STACK) while(a), condition=less, body=forward
  d = VEC get-tuple-element(w), index=1
  ys = STACK get-tuple-element(w), index=3
  e = (s32[], VEC, STACK, STACK) tuple(zero, d, ys, none)
  v = (s32[], VEC, STACK, STACK) while(e), condition=less, body=back
  gs = STACK get-tuple-element(v), index=3
  f = VEC get-tuple-element(v), index=1
  ROOT all = (VEC, STACK, STACK) tuple(f, ys, gs)
}
)";
  text = replaced(text, "VEC", vector);
  text = replaced(text, "STACK", stack);
  text = replaced(text, "ROW", row);
  text = replaced(text, "LENGTH", std::to_string(length));
  text = replaced(text, "BESIDE", beside);
  text = replaced(text, "LAST", std::to_string(steps - 1));
  return replaced(text, "TIMES", std::to_string(steps));
}

struct Found {
  std::size_t stacks = 0;  ///< Arrays of three dimensions that loops are given.
  std::size_t pads = 0;    ///< Around loops.
};

/// What a module has behind the pass.
Found found_in(const std::string& text) {
  Found found;
  compiler::Target target;
  target.hbm_bytes = std::uint64_t{1} << 30;
  const auto look = [&](const compiler::PassResult& result) {
    if (result.pass() != "tile_stacked_vectors") return;
    const hlo::Computation& entry = result.module().entry_computation();
    found.pads = count(result.module(), hlo::HloOpcode::kPad);
    for (const hlo::HloInstruction& loop : entry.instructions) {
      if (loop.custom_call_target.get().find("tpusim.while") != 0) continue;
      for (const hlo::InstructionId operand : loop.operands) {
        found.stacks += entry.at(operand).shape.rank() == 3 ? 1 : 0;
      }
    }
  };
  compiler::schedule(hlo::read_hlo_text("scans.hlo", text), target, nullptr, look);
  return found;
}

std::uint64_t checked_cycles(const std::string& text) {
  HloCheck check;
  check.tolerance = 1e-4;
  return check_hlo(text, check).result.cycles;
}

/// The first loop gives back what it reads in the place of what it writes: neither has tiles there.
TEST(StackedVectors, ArraysThatChangePlacesKeepTheirRows) {
  const std::string text =
      replaced(scans(6, 1500, "sums"), "tuple(j, d, xs, u)", "tuple(j, d, u, xs)");
  EXPECT_EQ(found_in(text).stacks, 2U);
  checked_cycles(text);
}

TEST(StackedVectors, VectorsHaveTilesOfTheirOwn) {
  for (const int length : {1024, 1500, 3000}) {
    SCOPED_TRACE(length);
    EXPECT_EQ(found_in(scans(6, length)).stacks, 4U);
    checked_cycles(scans(6, length));
  }
  // What the second loop is given are the first one's tiles as they are.
  EXPECT_EQ(found_in(scans(6, 1500)).pads, 3U);
}

TEST(StackedVectors, ShortVectorsOfSmallArraysStayInTheirRows) {
  EXPECT_EQ(found_in(scans(6, 700)).stacks, 0U);
  EXPECT_EQ(found_in(scans(300, 700)).stacks, 4U);
  checked_cycles(scans(300, 700));
  EXPECT_EQ(found_in(scans(300, 500)).stacks, 0U);
}

TEST(StackedVectors, ArraysThatAreReadOtherwiseStay) {
  EXPECT_EQ(found_in(scans(6, 1500, "sums")).stacks, 3U);
  checked_cycles(scans(6, 1500, "sums"));
}

/// An iteration reads a vector of 4,096 and writes one, in two kernels at most: it takes no longer
/// for 400 iterations' arrays than for 40 (45 thousand cycles each, for all of them were copied).
TEST(StackedVectors, AnIterationMovesItsOwnVectorsAlone) {
  const auto few = double(checked_cycles(scans(40, 4096))) / 40;
  const auto many = double(checked_cycles(scans(400, 4096))) / 400;
  EXPECT_LT(many, 1.3 * few);
  EXPECT_LT(many, 4000);
}

}  // namespace
}  // namespace tpu::test::stacked_vectors_test
