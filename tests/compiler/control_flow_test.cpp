#include "workloads/compiler/passes/expand/control_flow.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/compiler/hlo_check.h"
#include "workloads/compiler/passes/pipeline.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::control_flow_test {
namespace {

/// A loop over a matrix and a counter that starts at `start`; `next` is the counter's next value.
/// The matrix is turned around in each iteration: a loop of arithmetic alone would be unrolled.
std::string counted_loop(const std::string& start, const std::string& next,
                         const std::string& limit, const std::string& direction) {
  return R"(HloModule loop
body {
  p = (s32[], f32[24,200]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[24,200] get-tuple-element(p), index=1
  one = s32[] constant(1)
  two = s32[] constant(2)
  n = s32[] )" +
         next + R"(
  h = f32[] constant(0.5)
  hb = f32[24,200] broadcast(h), dimensions={}
  y = f32[24,200] multiply(x, hb)
  c = f32[] convert(i)
  cb = f32[24,200] broadcast(c), dimensions={}
  a = f32[24,200] add(y, cb)
  z = f32[24,200] reverse(a), dimensions={0}
  ROOT t = (s32[], f32[24,200]) tuple(n, z)
}
cond {
  p = (s32[], f32[24,200]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  l = s32[] constant()" +
         limit + R"()
  ROOT c = pred[] compare(i, l), direction=)" +
         direction + R"(
}
ENTRY main {
  x = f32[24,200] parameter(0)
  s = s32[] constant()" +
         start + R"()
  t = (s32[], f32[24,200]) tuple(s, x)
  w = (s32[], f32[24,200]) while(t), condition=cond, body=body
  i = s32[] get-tuple-element(w), index=0
  y = f32[24,200] get-tuple-element(w), index=1
  ROOT r = (s32[], f32[24,200], f32[24,200]) tuple(i, y, x)
}
)";
}

std::optional<std::uint64_t> trips_of(const std::string& text) {
  const compiler::ScheduledModule scheduled =
      compiler::schedule(hlo::read_hlo_text("test.hlo", text), target_of({}, 1), nullptr);
  return scheduled.regions.at(0).trips;
}

TEST(ControlFlow, ALoopCarriesArraysAndKeepsItsInputs) {
  check_hlo(counted_loop("0", "add(i, one)", "5", "LT"));
}

TEST(ControlFlow, TripCountsFollowFromTheCounter) {
  EXPECT_EQ(trips_of(counted_loop("0", "add(i, one)", "5", "LT")), 5U);
  EXPECT_EQ(trips_of(counted_loop("0", "add(two, i)", "5", "LT")), 3U);
  EXPECT_EQ(trips_of(counted_loop("0", "add(i, two)", "6", "LE")), 4U);
  EXPECT_EQ(trips_of(counted_loop("9", "subtract(i, two)", "0", "GT")), 5U);
  EXPECT_EQ(trips_of(counted_loop("3", "add(i, one)", "7", "NE")), 4U);
  check_hlo(counted_loop("9", "subtract(i, two)", "0", "GT"));
}

TEST(ControlFlow, ALoopThatNeverRunsIsItsInitialState) {
  check_hlo(counted_loop("8", "add(i, one)", "5", "LT"));
}

/// A loop whose end the data decide.
constexpr const char* kSearch = R"(HloModule search
body {
  p = (f32[], f32[8,128]) parameter(0)
  a = f32[] get-tuple-element(p), index=0
  x = f32[8,128] get-tuple-element(p), index=1
  two = f32[] constant(2)
  b = f32[] multiply(a, two)
  bb = f32[8,128] broadcast(a), dimensions={}
  y = f32[8,128] add(x, bb)
  ROOT t = (f32[], f32[8,128]) tuple(b, y)
}
cond {
  p = (f32[], f32[8,128]) parameter(0)
  a = f32[] get-tuple-element(p), index=0
  l = f32[] constant(1000)
  ROOT c = pred[] compare(a, l), direction=LT
}
ENTRY main {
  a = f32[] parameter(0)
  x = f32[8,128] parameter(1)
  t = (f32[], f32[8,128]) tuple(a, x)
  ROOT w = (f32[], f32[8,128]) while(t), condition=cond, body=body
}
)";

TEST(ControlFlow, ALoopWithoutATripCountTestsItsPredicate) {
  EXPECT_EQ(trips_of(kSearch), std::nullopt);
  HloCheck check;
  check.low = 1;
  check_hlo(kSearch, check);
  check.low = 2000;  // No iteration.
  check.high = 3000;
  check_hlo(kSearch, check);
}

/// Loops of arithmetic with up to 1,024 instructions in all iterations are none, nor are those that
/// run once.
TEST(ControlFlow, AShortLoopOfArithmeticIsUnrolled) {
  const auto loop = [](int trips, const std::string& more) {
    return R"(HloModule short
rotate {
  x = u32[24,200] parameter(0)
  r = u32[] parameter(1)
  b = u32[24,200] broadcast(r), dimensions={}
  ROOT y = u32[24,200] shift-left(x, b)
}
body {
  p = (s32[], u32[24,200], u32[4], u32[4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = u32[24,200] get-tuple-element(p), index=1
  now = u32[4] get-tuple-element(p), index=2
  next = u32[4] get-tuple-element(p), index=3
  one = s32[] constant(1)
  n = s32[] add(i, one)
  second = u32[1] slice(now), slice={[1:2]}
  r = u32[] reshape(second)
  y = u32[24,200] call(x, r), to_apply=rotate
  z = u32[24,200] xor(x, y)
)" + more + R"(  ROOT t = (s32[], u32[24,200], u32[4], u32[4]) tuple(n, z, next, now)
}
cond {
  p = (s32[], u32[24,200], u32[4], u32[4]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  l = s32[] constant()" +
           std::to_string(trips) + R"()
  ROOT c = pred[] compare(i, l), direction=LT
}
ENTRY main {
  x = u32[24,200] parameter(0)
  s = s32[] constant(0)
  a = u32[4] constant({1, 13, 7, 3})
  b = u32[4] constant({2, 5, 9, 4})
  t = (s32[], u32[24,200], u32[4], u32[4]) tuple(s, x, a, b)
  w = (s32[], u32[24,200], u32[4], u32[4]) while(t), condition=cond, body=body
  ROOT y = u32[24,200] get-tuple-element(w), index=1
}
)";
  };
  const auto schedule = [](const std::string& text) {
    return compiler::schedule(hlo::read_hlo_text("test.hlo", text), target_of({}, 1), nullptr);
  };
  // 12 and 4 instructions an iteration.
  for (const auto& [trips, loops] : {std::pair(5, 0U), std::pair(64, 0U), std::pair(65, 1U)}) {
    const compiler::ScheduledModule scheduled = schedule(loop(trips, ""));
    EXPECT_EQ(scheduled.regions.size(), loops) << trips;
    check_hlo(loop(trips, ""));
  }
  // The amounts are constants, so that all of it is one kernel.
  const compiler::ScheduledModule unrolled = schedule(loop(5, ""));
  const auto& made = unrolled.module.entry_computation().instructions;
  EXPECT_EQ(std::count_if(made.begin(), made.end(),
                          [](const auto& i) { return i.opcode == hlo::HloOpcode::kFusion; }),
            1);
  const std::string turn = "  q = u32[24,200] reverse(z), dimensions={0}\n";
  for (const auto& [trips, loops] : {std::pair(1, 0U), std::pair(2, 1U)}) {
    EXPECT_EQ(schedule(loop(trips, turn)).regions.size(), loops) << trips;
    check_hlo(loop(trips, turn));
  }
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
    text.replace(at, from.size(), to);
    at += to.size();
  }
  return text;
}

/// A scan: takes a matrix of each input by the counter, keeps a running sum, and stacks what it
/// makes; from the last to the first with `reverse`, else from the first.
std::string scan(bool reverse) {
  return R"(HloModule scan
body {
  p = (s32[], f32[8,128], f32[6,8,128], f32[6,8,128], f32[6,8,128]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  sum = f32[8,128] get-tuple-element(p), index=1
  xs = f32[6,8,128] get-tuple-element(p), index=2
  made = f32[6,8,128] get-tuple-element(p), index=3
  old = f32[6,8,128] get-tuple-element(p), index=4
  zero = s32[] constant(0)
  one = s32[] constant(1)
  five = s32[] constant(5)
  back = s32[] subtract(five, i)
  n = s32[] add(i, one)
  slice = f32[1,8,128] dynamic-slice(xs, )" +
         std::string(reverse ? "back" : "i") + R"(, zero, zero), dynamic_slice_sizes={1,8,128}
  x = f32[8,128] reshape(slice)
  next = f32[8,128] add(sum, x)
  y = f32[8,128] multiply(next, x)
  y1 = f32[1,8,128] reshape(y)
  before = f32[1,8,128] reshape(sum)
  m = f32[6,8,128] dynamic-update-slice(made, y1, )" +
         std::string(reverse ? "back" : "i") + R"(, zero, zero)
  o = f32[6,8,128] dynamic-update-slice(old, before, i, zero, zero)
  ROOT t = (s32[], f32[8,128], f32[6,8,128], f32[6,8,128], f32[6,8,128]) tuple(n, next, xs, m, o)
}
cond {
  p = (s32[], f32[8,128], f32[6,8,128], f32[6,8,128], f32[6,8,128]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  l = s32[] constant(6)
  ROOT c = pred[] compare(i, l), direction=LT
}
ENTRY main {
  x = f32[8,128] parameter(0)
  xs = f32[6,8,128] parameter(1)
  z = f32[] constant(0)
  zs = f32[6,8,128] broadcast(z), dimensions={}
  s = s32[] constant(0)
  t = (s32[], f32[8,128], f32[6,8,128], f32[6,8,128], f32[6,8,128]) tuple(s, x, xs, zs, zs)
  w = (s32[], f32[8,128], f32[6,8,128], f32[6,8,128], f32[6,8,128]) while(t), condition=cond, body=body
  sum = f32[8,128] get-tuple-element(w), index=1
  m = f32[6,8,128] get-tuple-element(w), index=3
  o = f32[6,8,128] get-tuple-element(w), index=4
  ROOT r = (f32[8,128], f32[6,8,128], f32[6,8,128]) tuple(sum, m, o)
}
)";
}

/// A tile of 8 by 128 is four granules of f32, two of bf16.
class SlicesByTheCounter : public testing::TestWithParam<std::pair<std::string, std::int64_t>> {};
INSTANTIATE_TEST_SUITE_P(ControlFlow, SlicesByTheCounter,
                         testing::Values(std::make_pair("f32", 4), std::make_pair("bf16", 2)),
                         [](const auto& at) { return at.param.first; });

TEST_P(SlicesByTheCounter, HaveTheirPlacesFromTheTopLevel) {
  for (const bool reverse : {false, true}) {
    SCOPED_TRACE(reverse ? "backwards" : "forwards");
    const std::string text = replaced(scan(reverse), "f32", GetParam().first);
    HloCheck check;
    check.tolerance = GetParam().first == "bf16" ? 5e-3 : 1e-5;
    check_hlo(text, check);
    const compiler::ScheduledModule scheduled =
        compiler::schedule(hlo::read_hlo_text("test.hlo", text), target_of({}, 1), nullptr);
    const compiler::ScheduledModule& body = scheduled.regions.at(0).bodies.at(0);
    // The slice is no kernel, nor are the updates: the sequence that the body is writes what it
    // makes, and what the iteration began with, where they belong.
    EXPECT_EQ(body.plan.written_in_place.size(), 2U);
    std::vector<std::int64_t> steps;
    for (const hlo::HloInstruction& instruction : body.module.entry_computation().instructions) {
      if (instruction.opcode != hlo::HloOpcode::kDynamicSlice) continue;
      EXPECT_EQ(instruction.operands.size(), 1U);
      steps.push_back(body.plan.steps_of.at(static_cast<std::size_t>(instruction.id)).at(0));
    }
    const std::int64_t step = GetParam().second;
    EXPECT_EQ(steps, (std::vector<std::int64_t>{reverse ? -step : step}));
  }
}

int allocations(const std::string& text) {
  const compiler::ScheduledModule scheduled =
      compiler::schedule(hlo::read_hlo_text("test.hlo", text), target_of({}, 1), nullptr);
  const hlo::Computation& entry = scheduled.module.entry_computation();
  return static_cast<int>(
      std::count_if(entry.instructions.begin(), entry.instructions.end(), hlo::is_allocation));
}

/// Arrays begin as sevens, so that what no iteration writes can be told from memory as it was.
TEST(ControlFlow, WhatIterationsWriteWholeBeginsAsMemoryAlone) {
  const std::string text = replaced(scan(false), "z = f32[] constant(0)", "z = f32[] constant(7)");
  struct Case {
    std::string why, from, to;
    int allocations;
  };
  const std::vector<Case> cases{
      {"both are written whole", "ENTRY", "ENTRY", 2},
      {"backwards, too", "dynamic-update-slice(made, y1, i,",
       "dynamic-update-slice(made, y1, back,", 2},
      {"a matrix is left", "l = s32[] constant(6)", "l = s32[] constant(5)", 0},
      {"one place all the time", "dynamic-update-slice(made, y1, i,",
       "dynamic-update-slice(made, y1, one,", 1},
      {"two matrices at a time, which overlap",
       "  m = f32[6,8,128] dynamic-update-slice(made, y1, i,",
       "  y2 = f32[2,8,128] concatenate(y1, before), dimensions={0}\n"
       "  m = f32[6,8,128] dynamic-update-slice(made, y2, i,",
       1},
      {"the next matrix is read before", "y = f32[8,128] multiply(next, x)",
       "ahead = f32[1,8,128] dynamic-slice(made, five, zero, zero), dynamic_slice_sizes={1,8,128}\n"
       "  ahead1 = f32[8,128] reshape(ahead)\n  y = f32[8,128] multiply(next, ahead1)",
       1},
      {"the array is read after", "ROOT t = (s32[], f32[8,128],",
       "far = f32[1,8,128] dynamic-slice(m, five, zero, zero), dynamic_slice_sizes={1,8,128}\n"
       "  far1 = f32[8,128] reshape(far)\n  next2 = f32[8,128] add(next, far1)\n"
       "  ROOT t = (s32[], f32[8,128],",
       1},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.why);
    std::string changed = replaced(text, one.from, one.to);
    if (one.why == "the array is read after")
      changed = replaced(changed, "tuple(n, next,", "tuple(n, next2,");
    check_hlo(changed);
    EXPECT_EQ(allocations(changed), one.allocations);
  }
}

TEST(ControlFlow, PredicatesAndShortNumbersAreStackedInPlace) {
  check_hlo(R"(HloModule stacks
body {
  p = (s32[], f32[5,24,136], pred[5,24,136], bf16[5,24,136]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  xs = f32[5,24,136] get-tuple-element(p), index=1
  signs = pred[5,24,136] get-tuple-element(p), index=2
  shorts = bf16[5,24,136] get-tuple-element(p), index=3
  zero = s32[] constant(0)
  one = s32[] constant(1)
  n = s32[] add(i, one)
  x = f32[1,24,136] dynamic-slice(xs, i, zero, zero), dynamic_slice_sizes={1,24,136}
  h = f32[] constant(0.25)
  hb = f32[1,24,136] broadcast(h), dimensions={}
  sign = pred[1,24,136] compare(x, hb), direction=GT
  b = bf16[1,24,136] convert(x)
  made = pred[5,24,136] dynamic-update-slice(signs, sign, i, zero, zero)
  short = bf16[5,24,136] dynamic-update-slice(shorts, b, i, zero, zero)
  ROOT t = (s32[], f32[5,24,136], pred[5,24,136], bf16[5,24,136]) tuple(n, xs, made, short)
}
cond {
  p = (s32[], f32[5,24,136], pred[5,24,136], bf16[5,24,136]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  l = s32[] constant(5)
  ROOT c = pred[] compare(i, l), direction=LT
}
ENTRY main {
  xs = f32[5,24,136] parameter(0)
  no = pred[] constant(true)
  nos = pred[5,24,136] broadcast(no), dimensions={}
  z = bf16[] constant(3)
  zs = bf16[5,24,136] broadcast(z), dimensions={}
  s = s32[] constant(0)
  t = (s32[], f32[5,24,136], pred[5,24,136], bf16[5,24,136]) tuple(s, xs, nos, zs)
  w = (s32[], f32[5,24,136], pred[5,24,136], bf16[5,24,136]) while(t), condition=cond, body=body
  signs = pred[5,24,136] get-tuple-element(w), index=2
  shorts = bf16[5,24,136] get-tuple-element(w), index=3
  two = f32[] constant(2)
  twos = f32[5,24,136] broadcast(two), dimensions={}
  x = f32[5,24,136] select(signs, twos, xs)
  ROOT r = (f32[5,24,136], bf16[5,24,136]) tuple(x, shorts)
}
)");
}

TEST(ControlFlow, SlicesWhosePlacesAreClampedKeepTheirIndex) {
  std::string text = scan(false);
  text.replace(text.find("constant(6)"), 11, "constant(9)");
  check_hlo(text);
  const compiler::ScheduledModule scheduled =
      compiler::schedule(hlo::read_hlo_text("test.hlo", text), target_of({}, 1), nullptr);
  EXPECT_TRUE(scheduled.regions.at(0).bodies.at(0).plan.written_in_place.empty());
}

TEST(ControlFlow, StateThatChangesPlacesIsCopied) {
  const char* text = R"(HloModule swap
body {
  p = (s32[], f32[8,128], f32[8,128], f32[8,128]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  a = f32[8,128] get-tuple-element(p), index=1
  b = f32[8,128] get-tuple-element(p), index=2
  c = f32[8,128] get-tuple-element(p), index=3
  one = s32[] constant(1)
  n = s32[] add(i, one)
  s = f32[8,128] add(b, c)
  ROOT t = (s32[], f32[8,128], f32[8,128], f32[8,128]) tuple(n, b, a, s)
}
cond {
  p = (s32[], f32[8,128], f32[8,128], f32[8,128]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  l = s32[] constant(7)
  ROOT c = pred[] compare(l, i), direction=GT
}
ENTRY main {
  a = f32[8,128] parameter(0)
  b = f32[8,128] parameter(1)
  s = s32[] constant(0)
  t = (s32[], f32[8,128], f32[8,128], f32[8,128]) tuple(s, a, b, a)
  ROOT w = (s32[], f32[8,128], f32[8,128], f32[8,128]) while(t), condition=cond, body=body
}
)";
  check_hlo(text);
}

/// A body has its rows of eight in the rows of tiles, not in the lanes; what the entry gives it and
/// takes from it lies so from the beginning.
TEST(ControlFlow, ArraysOfTheEntryLieAsABodyHasThem) {
  const std::string text = replaced(scan(false), "8,128", "1024,8");
  check_hlo(text);
  const compiler::ScheduledModule scheduled =
      compiler::schedule(hlo::read_hlo_text("test.hlo", text), target_of({}, 1), nullptr);
  const hlo::Computation& entry = scheduled.module.entry_computation();
  for (const hlo::HloInstruction& instruction : entry.instructions) {
    if (instruction.opcode == hlo::HloOpcode::kCopy) {  // Of what the caller keeps, as it lies.
      EXPECT_EQ(instruction.shape.layout, entry.at(instruction.operands[0]).shape.layout)
          << instruction.name;
    }
    if (instruction.opcode != hlo::HloOpcode::kParameter) continue;
    const std::int64_t lanes = instruction.shape.rank() - 2;
    EXPECT_EQ(instruction.shape.layout.minor_to_major.at(0), lanes) << instruction.name;
  }
}

/// A row that is squared in each iteration, and one that becomes wider: it has more bytes then, as
/// what a broadcast makes of a row has, and stays inside.
std::string loop_over_weights(const std::string& condition) {
  return R"(HloModule weights
body {
  p = (s32[], f32[16,128], f32[128,128], f32[1,128], bf16[128]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[16,128] get-tuple-element(p), index=1
  w = f32[128,128] get-tuple-element(p), index=2
  v = f32[1,128] get-tuple-element(p), index=3
  one = s32[] constant(1)
  n = s32[] add(i, one)
  o = bf16[128] get-tuple-element(p), index=4
  wide = f32[128] convert(o)
  r = f32[128] reshape(v)
  q = f32[128] multiply(r, r)
  b = f32[16,128] broadcast(q), dimensions={1}
  d = f32[16,128] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  e = f32[16,128] broadcast(wide), dimensions={1}
  f = f32[16,128] add(d, e)
  y = f32[16,128] add(f, b)
  z = f32[16,128] tanh(y)
  ROOT t = (s32[], f32[16,128], f32[128,128], f32[1,128], bf16[128]) tuple(n, z, w, v, o)
}
cond {
  p = (s32[], f32[16,128], f32[128,128], f32[1,128], bf16[128]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[16,128] get-tuple-element(p), index=1
  v = f32[1,128] get-tuple-element(p), index=3
)" + condition +
         R"(}
ENTRY main {
  x = f32[16,128] parameter(0)
  w = f32[128,128] parameter(1)
  v = f32[1,128] parameter(2)
  o = bf16[128] parameter(3)
  s = s32[] constant(0)
  t = (s32[], f32[16,128], f32[128,128], f32[1,128], bf16[128]) tuple(s, x, w, v, o)
  l = (s32[], f32[16,128], f32[128,128], f32[1,128], bf16[128]) while(t), condition=cond, body=body
  y = f32[16,128] get-tuple-element(l), index=1
  u = f32[1,128] get-tuple-element(l), index=3
  ROOT out = (f32[16,128], f32[1,128]) tuple(y, u)
}
)";
}

TEST(ControlFlow, WhatNeverChangesIsComputedBeforeTheLoop) {
  const std::string counted =
      "  l = s32[] constant(4)\n  ROOT c = pred[] compare(i, l), direction=LT\n";
  const std::string tested =
      "  e = f32[1,1] slice(x), slice={[0:1], [0:1]}\n  f = f32[1,1] slice(v), slice={[0:1], "
      "[0:1]}\n"
      "  g = f32[] reshape(e)\n  h = f32[] reshape(f)\n"
      "  ROOT c = pred[] compare(g, h), direction=LT\n";
  for (const std::string& condition : {counted, tested}) {
    const std::string text = loop_over_weights(condition);
    HloCheck check;
    check.low = -0.5;
    check.high = 0.5;
    check.tolerance = 2e-3;
    check_hlo(text, check);
    hlo::Module module = hlo::read_hlo_text("test.hlo", text);
    const std::vector<compiler::ScheduledRegion> regions = compiler::outline_control_flow(module);
    ASSERT_EQ(regions.size(), 1U);
    const auto count = [](const hlo::Module& in, hlo::HloOpcode opcode) {
      const std::vector<hlo::HloInstruction>& all = in.entry_computation().instructions;
      return std::count_if(all.begin(), all.end(),
                           [&](const auto& each) { return each.opcode == opcode; });
    };
    const hlo::Module& body = regions[0].bodies[0].module;
    EXPECT_EQ(count(body, hlo::HloOpcode::kMultiply), 0);
    EXPECT_EQ(count(module, hlo::HloOpcode::kMultiply), 1);
    EXPECT_EQ(count(body, hlo::HloOpcode::kReshape), 0);
    EXPECT_EQ(count(body, hlo::HloOpcode::kConvert), 1);
    EXPECT_EQ(count(body, hlo::HloOpcode::kBroadcast), 2);
    EXPECT_EQ(count(body, hlo::HloOpcode::kTanh), 1);
  }
}

TEST(ControlFlow, LoopsStandInsideLoopsAndReadWhatNeverChanges) {
  const char* text = R"(HloModule nested
inner_body {
  p = (s32[], f32[16,128], f32[128,128]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[16,128] get-tuple-element(p), index=1
  w = f32[128,128] get-tuple-element(p), index=2
  one = s32[] constant(1)
  n = s32[] add(i, one)
  y = f32[16,128] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  z = f32[16,128] tanh(y)
  ROOT t = (s32[], f32[16,128], f32[128,128]) tuple(n, z, w)
}
inner_cond {
  p = (s32[], f32[16,128], f32[128,128]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  l = s32[] constant(2)
  ROOT c = pred[] compare(i, l), direction=LT
}
body {
  p = (s32[], f32[16,128], f32[128,128], f32[4,16,128]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[16,128] get-tuple-element(p), index=1
  w = f32[128,128] get-tuple-element(p), index=2
  r = f32[4,16,128] get-tuple-element(p), index=3
  one = s32[] constant(1)
  zero = s32[] constant(0)
  n = s32[] add(i, one)
  t0 = (s32[], f32[16,128], f32[128,128]) tuple(zero, x, w)
  t1 = (s32[], f32[16,128], f32[128,128]) while(t0), condition=inner_cond, body=inner_body
  y = f32[16,128] get-tuple-element(t1), index=1
  u = f32[1,16,128] reshape(y)
  q = f32[4,16,128] dynamic-update-slice(r, u, i, zero, zero)
  ROOT t = (s32[], f32[16,128], f32[128,128], f32[4,16,128]) tuple(n, y, w, q)
}
cond {
  p = (s32[], f32[16,128], f32[128,128], f32[4,16,128]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  l = s32[] constant(4)
  ROOT c = pred[] compare(i, l), direction=LT
}
ENTRY main {
  x = f32[16,128] parameter(0)
  w = f32[128,128] parameter(1)
  s = s32[] constant(0)
  zero = f32[] constant(0)
  e = f32[4,16,128] broadcast(zero), dimensions={}
  t = (s32[], f32[16,128], f32[128,128], f32[4,16,128]) tuple(s, x, w, e)
  l = (s32[], f32[16,128], f32[128,128], f32[4,16,128]) while(t), condition=cond, body=body
  y = f32[16,128] get-tuple-element(l), index=1
  r = f32[4,16,128] get-tuple-element(l), index=3
  sum = f32[16,128] add(x, y)
  ROOT out = (f32[16,128], f32[4,16,128]) tuple(sum, r)
}
)";
  HloCheck check;
  check.low = -0.5;
  check.high = 0.5;
  check.tolerance = 2e-3;
  check_hlo(text, check);
  // The weights are not copied: the loop reads them where they stand.
  const compiler::ScheduledModule scheduled =
      compiler::schedule(hlo::read_hlo_text("test.hlo", text), target_of({}, 1), nullptr);
  for (const hlo::HloInstruction& in : scheduled.module.entry_computation().instructions) {
    if (in.opcode != hlo::HloOpcode::kCopy) continue;
    EXPECT_FALSE(in.shape.rank() == 2 && in.shape.dimensions[0] == 128) << in.name;
  }
  for (const compiler::ScheduledModule& body : scheduled.regions.at(0).bodies) {
    for (const hlo::HloInstruction& in : body.module.entry_computation().instructions) {
      EXPECT_FALSE(in.opcode == hlo::HloOpcode::kCopy && in.shape.rank() > 2) << in.name;
    }
  }
}

std::string conditional(const std::string& selector, const std::string& branches) {
  return R"(HloModule choice
first {
  p = (f32[8,128], f32[]) parameter(0)
  x = f32[8,128] get-tuple-element(p), index=0
  a = f32[] get-tuple-element(p), index=1
  b = f32[8,128] broadcast(a), dimensions={}
  y = f32[8,128] multiply(x, b)
  ROOT t = (f32[8,128], f32[]) tuple(y, a)
}
second {
  x = f32[8,128] parameter(0)
  c = f32[] constant(3)
  ROOT t = (f32[8,128], f32[]) tuple(x, c)
}
third {
  x = f32[8,128] parameter(0)
  n = f32[8,128] negate(x)
  c = f32[] constant(-1)
  ROOT t = (f32[8,128], f32[]) tuple(n, c)
}
ENTRY main {
  x = f32[8,128] parameter(0)
  a = f32[] parameter(1)
  s = )" +
         selector + R"( parameter(2)
  t = (f32[8,128], f32[]) tuple(x, a)
  r = (f32[8,128], f32[]) conditional()" +
         branches + R"(
  y = f32[8,128] get-tuple-element(r), index=0
  c = f32[] get-tuple-element(r), index=1
  cb = f32[8,128] broadcast(c), dimensions={}
  z = f32[8,128] add(y, cb)
  ROOT out = (f32[8,128], f32[8,128]) tuple(z, x)
}
)";
}

TEST(ControlFlow, AConditionalRunsTheBranchThatItsPredicateNames) {
  for (double value : {0.0, 1.0}) {
    HloCheck check;
    check.least = check.most = value;
    check_hlo(conditional("pred[]", "s, t, x), true_computation=first, false_computation=second"),
              check);
  }
}

TEST(ControlFlow, AnIndexOutsideTheBranchesNamesTheLastOne) {
  for (double value : {0.0, 1.0, 2.0, 5.0, -4.0}) {
    HloCheck check;
    check.least = check.most = value;
    check_hlo(conditional("s32[]", "s, t, x, x), branch_computations={first, second, third}"),
              check);
  }
}

TEST(ControlFlow, ConstantsSurviveTheStepsOfARun) {
  // A step leaves its temporaries behind; the table must still be there in the next one.
  const char* text = R"(HloModule steps
ENTRY main {
  x = f32[8,128] parameter(0)
  t = s32[2,4] constant({{1, 2, 3, 4}, {5, 6, 7, 8}})
  f = f32[2,4] convert(t)
  p = f32[] constant(0)
  b = f32[8,128] pad(f, p), padding=0_6x0_124
  y = f32[8,128] tanh(x)
  e = f32[8,128] exponential(y)
  r = f32[8,128] reverse(e), dimensions={0}
  d = f32[8,128] add(r, e)
  ROOT z = f32[8,128] add(b, d)
}
)";
  HloCheck check;
  check.steps = 3;
  check_hlo(text, check);
}

}  // namespace
}  // namespace tpu::test::control_flow_test
