#include "workloads/compiler/passes/simplify/short_dimensions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/compiler/hlo_check.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::short_dimensions_test {
namespace {

/// The largest rank of an array that the pass leaves of an entry whose values it keeps, and how
/// many reductions.
std::string left_of(const std::string& entry) {
  const std::string text = kAddAndLeast + ("ENTRY main {\n" + entry + "}\n");
  HloCheck check;
  check.tolerance = 1e-5;
  check_hlo(text, check);
  hlo::Module module = hlo::read_hlo_text("test.hlo", text);
  compiler::unroll_short_dimensions(module);
  EXPECT_NO_THROW(hlo::verify(module));
  std::int64_t rank = 0, reductions = 0;
  for (const hlo::HloInstruction& instruction : module.entry_computation().instructions) {
    const bool is_small = instruction.shape.element_count() < 4096;
    if (!is_small) rank = std::max(rank, instruction.shape.rank());
    reductions += instruction.opcode == hlo::HloOpcode::kReduce ? 1 : 0;
  }
  return "rank " + std::to_string(rank) + ", " + std::to_string(reductions) + " reductions";
}

/// All pairs of 300 and 400 points: the square of their differences, and another operand.
std::string pairs(const std::string& coordinates = "3", const std::string& points = "300") {
  const std::string space = "f32[" + points + ",400," + coordinates + "]";
  return "  x = f32[" + points + "," + coordinates + "] parameter(0)\n  y = f32[400," +
         coordinates + "] parameter(1)\n  zero = f32[] constant(0)\n  two = f32[] constant(2)\n" +
         "  u = " + space + " broadcast(x), dimensions={0,2}\n  v = " + space +
         " broadcast(y), dimensions={1,2}\n  d = " + space + " subtract(u, v)\n  q = " + space +
         " multiply(d, d)\n";
}

TEST(ShortDimensions, SumsAlongThemBecomeTerms) {
  EXPECT_EQ(left_of(pairs() + "  ROOT s = f32[300,400] reduce(q, zero), dimensions={2}, "
                              "to_apply=add\n"),
            "rank 2, 0 reductions");
  EXPECT_EQ(left_of(pairs() + "  ROOT s = f32[300,400] reduce(q, two), dimensions={2}, "
                              "to_apply=least\n"),
            "rank 2, 0 reductions");
  EXPECT_EQ(left_of(pairs() + "  ROOT s = f32[400] reduce(q, zero), dimensions={0,2}, "
                              "to_apply=add\n"),
            "rank 2, 3 reductions");
}

/// What counts along the short dimension has a number at each index of it (random numbers for each
/// coordinate). What neither counts nor has it is left.
TEST(ShortDimensions, WhatCountsAlongThemBecomesTerms) {
  const auto counted = [](const std::string& dimension) {
    return left_of(
        "  zero = f32[] constant(0)\n  i = s32[70000,2] iota(), iota_dimension=0\n"
        "  j = s32[70000,2] iota(), iota_dimension=" +
        dimension +
        "\n  k = s32[70000,2] add(i, j)\n  l = s32[70000,2] multiply(k, k)\n"
        "  m = f32[70000,2] convert(l)\n  n = f32[70000,2] sine(m)\n"
        "  ROOT s = f32[70000] reduce(n, zero), dimensions={1}, to_apply=add\n");
  };
  EXPECT_EQ(counted("1"), "rank 1, 0 reductions");
  EXPECT_EQ(counted("0"), "rank 2, 1 reductions");
}

TEST(ShortDimensions, SumsAlongOthersAreMadeForEachIndex) {
  const std::string forces = pairs() +
                             "  g = f32[300,400] parameter(2)\n"
                             "  w = f32[300,400,3] broadcast(g), dimensions={0,1}\n"
                             "  f = f32[300,400,3] multiply(w, d)\n";
  EXPECT_EQ(left_of(forces + "  ROOT s = f32[300,3] reduce(f, zero), dimensions={1}, "
                             "to_apply=add\n"),
            "rank 2, 3 reductions");
  EXPECT_EQ(left_of(forces + "  ROOT s = f32[3] reduce(f, zero), dimensions={0,1}, "
                             "to_apply=add\n"),
            "rank 2, 3 reductions");
  // In front of the others, and between them.
  EXPECT_EQ(left_of("  x = f32[3,300] parameter(0)\n  y = f32[3,400] parameter(1)\n"
                    "  zero = f32[] constant(0)\n"
                    "  u = f32[3,300,400] broadcast(x), dimensions={0,1}\n"
                    "  v = f32[3,300,400] broadcast(y), dimensions={0,2}\n"
                    "  i = f32[3,300,400] iota(), iota_dimension=0\n"
                    "  j = f32[3,300,400] iota(), iota_dimension=2\n"
                    "  p = f32[3,300,400] multiply(u, v)\n  q = f32[3,300,400] add(p, i)\n"
                    "  r = f32[3,300,400] subtract(q, j)\n"
                    "  ROOT s = f32[3,400] reduce(r, zero), dimensions={1}, to_apply=add\n"),
            "rank 2, 3 reductions");
}

TEST(ShortDimensions, OthersStay) {
  // Nine coordinates; few points; a sum from another number; a whole array.
  EXPECT_EQ(left_of(pairs("9") + "  ROOT s = f32[300,400] reduce(q, zero), dimensions={2}, "
                                 "to_apply=add\n"),
            "rank 3, 1 reductions");
  EXPECT_EQ(left_of(pairs("3", "16") + "  ROOT s = f32[16,400] reduce(q, zero), dimensions={2}, "
                                       "to_apply=add\n"),
            "rank 3, 1 reductions");
  EXPECT_EQ(left_of(pairs() + "  ROOT s = f32[300,400] reduce(q, two), dimensions={2}, "
                              "to_apply=add\n"),
            "rank 3, 1 reductions");
  EXPECT_EQ(left_of(pairs() + "  g = f32[300,400,3] parameter(2)\n"
                              "  h = f32[300,400,3] multiply(g, q)\n"
                              "  ROOT s = f32[300,400] reduce(h, zero), dimensions={2}, "
                              "to_apply=add\n"),
            "rank 3, 1 reductions");
  // A large array that has the dimension, and none that has it.
  EXPECT_EQ(left_of("  x = f32[40000,3] parameter(0)\n  zero = f32[] constant(0)\n"
                    "  y = f32[9,3] parameter(1)\n"
                    "  u = f32[40000,9,3] broadcast(x), dimensions={0,2}\n"
                    "  v = f32[40000,9,3] broadcast(y), dimensions={1,2}\n"
                    "  q = f32[40000,9,3] multiply(u, v)\n"
                    "  ROOT s = f32[40000,9] reduce(q, zero), dimensions={2}, to_apply=add\n"),
            "rank 3, 1 reductions");
  EXPECT_EQ(left_of("  x = f32[300] parameter(0)\n  zero = f32[] constant(0)\n"
                    "  y = f32[400] parameter(1)\n"
                    "  u = f32[300,400,3] broadcast(x), dimensions={0}\n"
                    "  v = f32[300,400,3] broadcast(y), dimensions={1}\n"
                    "  q = f32[300,400,3] multiply(u, v)\n"
                    "  ROOT s = f32[300,400] reduce(q, zero), dimensions={2}, to_apply=add\n"),
            "rank 3, 1 reductions");
}

}  // namespace
}  // namespace tpu::test::short_dimensions_test
