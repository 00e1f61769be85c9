#include "workloads/graph/while_loop_analysis.h"

#include <gtest/gtest.h>

#include "workloads/graph/hlo_cost_analysis.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::hlo::while_loop_analysis_test {
namespace {

/// A loop over a counter and a matrix. `next` and `test` are lines that define n and ROOT.
std::string loop_text(const std::string& start, const std::string& next, const std::string& test,
                      const std::string& before = "") {
  return "HloModule m\n" + before +
         "body {\n  p = (s32[], (f32[4,4], s32[])) parameter(0)\n"
         "  i = s32[] get-tuple-element(p), index=0\n"
         "  rest = (f32[4,4], s32[]) get-tuple-element(p), index=1\n"
         "  x = f32[4,4] get-tuple-element(rest), index=0\n"
         "  l = s32[] get-tuple-element(rest), index=1\n"
         "  one = s32[] constant(1)\n  n = s32[] " +
         next +
         "\n  y = f32[4,4] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
         "  both = (f32[4,4], s32[]) tuple(y, l)\n"
         "  ROOT t = (s32[], (f32[4,4], s32[])) tuple(n, both)\n}\n"
         "test {\n  p = (s32[], (f32[4,4], s32[])) parameter(0)\n"
         "  i = s32[] get-tuple-element(p), index=0\n"
         "  rest = (f32[4,4], s32[]) get-tuple-element(p), index=1\n"
         "  x = f32[4,4] get-tuple-element(rest), index=0\n"
         "  l = s32[] get-tuple-element(rest), index=1\n"
         "  ten = s32[] constant(10)\n  ROOT c = pred[] " +
         test +
         "\n}\nENTRY e {\n  x = f32[4,4] parameter(0)\n  unknown = s32[] parameter(1)\n"
         "  start = s32[] constant(" +
         start +
         ")\n  seven = s32[] constant(7)\n  both = (f32[4,4], s32[]) tuple(x, seven)\n"
         "  t = (s32[], (f32[4,4], s32[])) tuple(start, both)\n"
         "  ROOT w = (s32[], (f32[4,4], s32[])) while(t), condition=test, body=body\n}\n";
}

std::optional<std::uint64_t> trips(const std::string& text) {
  const Module module = read_hlo_text("m.hlo", text);
  const Computation& entry = module.entry_computation();
  return trip_count(module, entry, entry.at(entry.root));
}

TEST(WhileLoopAnalysis, CountsACounterUpAndDown) {
  EXPECT_EQ(trips(loop_text("0", "add(i, one)", "compare(i, ten), direction=LT")), 10u);
  EXPECT_EQ(trips(loop_text("3", "add(one, i)", "compare(i, ten), direction=LE")), 8u);
  EXPECT_EQ(trips(loop_text("15", "subtract(i, one)", "compare(ten, i), direction=LT")), 5u);
  EXPECT_EQ(trips(loop_text("10", "add(i, one)", "compare(i, ten), direction=LT")), 0u);
}

TEST(WhileLoopAnalysis, TakesALimitFromStateThatNeverChanges) {
  EXPECT_EQ(trips(loop_text("0", "add(i, one)", "compare(i, l), direction=LT")), 7u);
  EXPECT_EQ(trips(loop_text("0", "add(i, l)", "compare(i, ten), direction=LT")), 2u);
}

TEST(WhileLoopAnalysis, SeesThroughCallsFusionsAndCopies) {
  const std::string step =
      "step {\n  a = s32[] parameter(0)\n  b = s32[] constant(2)\n  ROOT s = s32[] add(a, b)\n}\n"
      "less {\n  a = s32[] parameter(0)\n  b = s32[] parameter(1)\n  k = s32[] copy(a)\n"
      "  ROOT s = pred[] compare(k, b), direction=LT\n}\n";
  EXPECT_EQ(
      trips(loop_text("0", "fusion(i), kind=kLoop, calls=step", "call(i, l), to_apply=less", step)),
      4u);
}

TEST(WhileLoopAnalysis, HasNoCountWhereDataDecides) {
  EXPECT_EQ(trips(loop_text("0", "multiply(i, one)", "compare(i, ten), direction=LT")),
            std::nullopt);
  // Both sides change.
  EXPECT_EQ(trips(loop_text("0", "add(i, one)", "compare(i, i), direction=NE")), std::nullopt);
  // Forever.
  EXPECT_EQ(trips(loop_text("0", "subtract(i, one)", "compare(i, i), direction=EQ")), std::nullopt);
  std::string text = loop_text("0", "add(i, one)", "compare(i, ten), direction=LT");
  text.replace(text.find("tuple(start"), 11, "tuple(unknown");
  EXPECT_EQ(trips(text), std::nullopt);
  EXPECT_EQ(data_dependent_control(read_hlo_text("m.hlo", text)), std::vector<std::string>{"w"});
}

TEST(WhileLoopAnalysis, AStatedCountGoesFirst) {
  std::string text = loop_text("0", "multiply(i, one)", "compare(i, ten), direction=LT");
  text.replace(text.find("body=body"), 9,
               "body=body, backend_config={\"known_trip_count\":{\"n\":\"13\"}}");
  EXPECT_EQ(trips(text), 13u);
  EXPECT_TRUE(data_dependent_control(read_hlo_text("m.hlo", text)).empty());
}

TEST(WhileLoopAnalysis, CostsCountEveryTrip) {
  const Module module =
      read_hlo_text("m.hlo", loop_text("0", "add(i, one)", "compare(i, ten), direction=LT"));
  const HloCost cost = HloCostAnalysis(module).of(module.entry);
  EXPECT_EQ(cost.matmul_flops, 10 * 2 * 64);
  EXPECT_EQ(matmul_flops(module), cost.matmul_flops);
  // A trip: the dot reads one matrix and writes one; the counter's add and compare move a word each
  // way.
  EXPECT_EQ(cost.hbm_bytes, 10 * (2 * 64 + (4 + 4) + (4 + 1)));
}

}  // namespace
}  // namespace tpu::hlo::while_loop_analysis_test
