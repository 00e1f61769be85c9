#include "workloads/compiler/passes/simplify/large_sums.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/compiler/hlo_check.h"
#include "tests/compiler/pass_check.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::large_sums_test {
namespace {

/// Reductions that the pass makes of an entry, whose values it keeps, for a core with 1 MiB of
/// VMEM.
std::size_t reductions_of(const std::string& entry) {
  const std::string text = kAddAndLeast + ("ENTRY main {\n" + entry + "}\n");
  compiler::Target target;
  target.vmem_bytes = 1 << 20;
  HloCheck check;
  check.tolerance = 1e-5;
  check_hlo(text, check);
  hlo::Module module = hlo::read_hlo_text("test.hlo", text);
  compiler::cut_large_sums(module, target);
  EXPECT_NO_THROW(hlo::verify(module));
  check_hlo(hlo::to_string(module), check);
  return count(module, hlo::HloOpcode::kReduce);
}

/// Squares of the differences of 4,000 points and some centers, in an order of dimensions.
std::string distances(const std::string& centers, const std::string& points = "4000") {
  const std::string space = "f32[" + points + ",12," + centers + "]";
  return "  x = f32[" + points + ",12] parameter(0)\n  c = f32[12," + centers +
         "] parameter(1)\n  zero = f32[] constant(0)\n  u = " + space +
         " broadcast(x), dimensions={0,1}\n  v = " + space +
         " broadcast(c), dimensions={1,2}\n  d = " + space + " subtract(u, v)\n  q = " + space +
         " multiply(d, d)\n";
}

/// 32 tiles of lanes and three of rows, four times, are 1.5 MiB: a tile of rows at a time.
TEST(LargeSums, AFewRowsAtATime) {
  EXPECT_EQ(reductions_of(distances("20") + "  ROOT s = f32[4000,20] reduce(q, zero), "
                                            "dimensions={1}, to_apply=add\n"),
            3U);
  // The results of 16 fit; so do 24 of 2,000 points.
  EXPECT_EQ(reductions_of(distances("16", "3000") + "  ROOT s = f32[3000,16] reduce(q, zero), "
                                                    "dimensions={1}, to_apply=add\n"),
            1U);
}

/// The rows may stand before the longest dimension, a leaf count them, and sums begin anywhere.
TEST(LargeSums, WhateverTheOrderAndTheReduction) {
  EXPECT_EQ(reductions_of(R"(  x = f32[12,4000] parameter(0)
  c = f32[27] parameter(1)
  far = f32[] constant(3)
  u = f32[27,12,4000] broadcast(x), dimensions={1,2}
  v = f32[27,12,4000] broadcast(c), dimensions={0}
  n = s32[27,12,4000] iota(), iota_dimension=0
  m = f32[27,12,4000] convert(n)
  k = s32[27,12,4000] iota(), iota_dimension=1
  l = f32[27,12,4000] convert(k)
  d = f32[27,12,4000] multiply(u, m)
  e = f32[27,12,4000] subtract(d, v)
  f = f32[27,12,4000] add(e, l)
  ROOT s = f32[27,4000] reduce(f, far), dimensions={1}, to_apply=least
)"),
            4U);
}

TEST(LargeSums, OneTermIsNoSum) {
  EXPECT_EQ(reductions_of(R"(  x = f32[4000,1] parameter(0)
  c = f32[1,20] parameter(1)
  zero = f32[] constant(0)
  u = f32[4000,1,20] broadcast(x), dimensions={0,1}
  v = f32[4000,1,20] broadcast(c), dimensions={1,2}
  q = f32[4000,1,20] multiply(u, v)
  ROOT s = f32[4000,20] reduce(q, zero), dimensions={1}, to_apply=add
)"),
            1U);
}

/// Sums of one of nine planes have room.
TEST(LargeSums, OthersMayStandOutside) {
  EXPECT_EQ(reductions_of(R"(  x = f32[2,40,600] parameter(0)
  c = f32[9,2] parameter(1)
  zero = f32[] constant(0)
  u = f32[9,2,40,600] broadcast(x), dimensions={1,2,3}
  v = f32[9,2,40,600] broadcast(c), dimensions={0,1}
  q = f32[9,2,40,600] multiply(u, v)
  ROOT s = f32[9,40,600] reduce(q, zero), dimensions={1}, to_apply=add
)"),
            1U);
}

TEST(LargeSums, WhatStandsInMemoryIsReadOnce) {
  EXPECT_EQ(reductions_of(R"(  x = f32[4000,12,20] parameter(0)
  zero = f32[] constant(0)
  q = f32[4000,12,20] multiply(x, x)
  ROOT s = f32[4000,20] reduce(q, zero), dimensions={1}, to_apply=add
)"),
            1U);
  // Places in a table of twelve.
  EXPECT_EQ(reductions_of(R"(  x = f32[4000,20] parameter(0)
  c = f32[12] parameter(1)
  zero = f32[] constant(0)
  u = f32[4000,12,20] broadcast(x), dimensions={0,2}
  v = f32[4000,12,20] broadcast(c), dimensions={1}
  q = f32[4000,12,20] multiply(u, v)
  ROOT s = f32[4000,20] reduce(q, zero), dimensions={1}, to_apply=add
)"),
            1U);
}

/// 50,000 points and 16 centers of 10 numbers: uncut, the points went by one after the other, in
/// 200 cycles each (10.3 million in all). Of each half a tile of rows and 391 of lanes is added up
/// ten times, in three operations of two slots, and moved.
TEST(LargeSums, PointsStandInTheLanes) {
  const CompiledRun run = check_hlo(kAddAndLeast + std::string(R"(ENTRY main {
  x = f32[50000,10] parameter(0)
  c = f32[16,10] parameter(1)
  zero = f32[] constant(0)
  u = f32[50000,16,10] broadcast(x), dimensions={0,2}
  v = f32[50000,16,10] broadcast(c), dimensions={1,2}
  d = f32[50000,16,10] subtract(u, v)
  q = f32[50000,16,10] multiply(d, d)
  ROOT s = f32[50000,16] reduce(q, zero), dimensions={2}, to_apply=add
}
)"));
  const double tiles = 2 * 391, work = 10 * 3 / 2.0 * tiles;
  EXPECT_GT(run.result.cycles, work);
  EXPECT_LT(run.result.cycles, 6 * work);
}

}  // namespace
}  // namespace tpu::test::large_sums_test
