#include "workloads/compiler/passes/fuse/vectors_in_rows.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/compiler/hlo_check.h"
#include "tests/compiler/pass_check.h"

namespace tpu::test::vectors_in_rows_test {
namespace {

/// Kernels behind the pass, of a module whose values are right, that cut columns or put them
/// together. `shape`: of the two arguments, of so many points.
std::size_t moves_left(const std::string& points, const std::string& entry,
                       std::uint32_t vmem_mib = 16) {
  std::string text =
      "HloModule m\nadd {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
      "  ROOT c = f32[] add(a, b)\n}\nENTRY main {\n" +
      entry + "}\n";
  for (std::size_t at = text.find('N'); at != std::string::npos; at = text.find('N', at)) {
    const bool is_module = text.compare(at, 4, "NTRY") == 0;
    if (!is_module) text.replace(at, 1, points);
    at += is_module ? 1 : points.size();
  }
  return left_behind(
      "place_vectors_in_rows",
      {hlo::HloOpcode::kSlice, hlo::HloOpcode::kReshape, hlo::HloOpcode::kConcatenate}, text,
      vmem_mib);
}

/// Column `index` of a parameter as a vector.
std::string column(const std::string& name, const std::string& array, const std::string& shape,
                   int index) {
  return "  " + name + "s = " + shape.substr(0, 3) + "[N,1] slice(" + array + "), slice={[0:N], [" +
         std::to_string(index) + ":" + std::to_string(index + 1) + "]}\n  " + name + " = " +
         shape.substr(0, 3) + "[N] reshape(" + name + "s)\n";
}

const std::string kTwo = "  x = f32[N,3] parameter(0)\n  y = f32[N,3] parameter(1)\n" +
                         column("a", "x", "f32", 0) + column("b", "x", "f32", 1) +
                         column("c", "y", "f32", 2);

TEST(VectorsInRows, ColumnsAreReadWhereTheyStand) {
  const std::string sums = kTwo + "  p = f32[N] multiply(a, c)\n  ROOT r = f32[N] add(p, b)\n";
  EXPECT_EQ(moves_left("40011", sums), 0U);
  EXPECT_EQ(moves_left("32768", sums), 0U);
  EXPECT_EQ(moves_left("33000", sums), 0U);
  EXPECT_EQ(moves_left("90000", sums, 1), 0U);
}

TEST(VectorsInRows, ColumnsAreWrittenWhereTheyStand) {
  const std::string made = kTwo + R"(  p = f32[N] multiply(a, c)
  q = f32[N] subtract(a, b)
  r = f32[N] add(b, c)
  pr = f32[N,1] reshape(p)
  qr = f32[N,1] reshape(q)
  rr = f32[N,1] reshape(r)
  ROOT z = f32[N,3] concatenate(pr, qr, rr), dimensions={1}
)";
  EXPECT_EQ(moves_left("40011", made), 0U);
  EXPECT_EQ(moves_left("65536", made), 0U);
  EXPECT_EQ(moves_left("90000", made, 1), 0U);
}

TEST(VectorsInRows, OtherResultsStandBesideThem) {
  // One vector is a result, too; one row is given; a sum is made.
  EXPECT_EQ(moves_left("50003", kTwo + R"(  v = f32[N] parameter(2)
  zero = f32[] constant(0)
  p = f32[N] multiply(a, c)
  q = f32[N] multiply(b, v)
  s = f32[] reduce(p, zero), dimensions={0}, to_apply=add
  pr = f32[N,1] reshape(p)
  qr = f32[N,1] reshape(q)
  vr = f32[N,1] reshape(v)
  z = f32[N,4] concatenate(qr, vr, pr, qr), dimensions={1}
  ROOT all = (f32[N,4], f32[N], f32[]) tuple(z, p, s)
)"),
            0U);
  // The only result, which others read.
  EXPECT_EQ(moves_left("50003", kTwo + R"(  p = f32[N] multiply(a, c)
  pr = f32[N,1] reshape(p)
  z = f32[N,2] concatenate(pr, pr), dimensions={1}
  ROOT all = (f32[N,2], f32[N]) tuple(z, p)
)"),
            0U);
}

TEST(VectorsInRows, ElementsOfSmallMatricesAndOfSecondTiles) {
  EXPECT_EQ(moves_left("40011", R"(  x = f32[N,2,2] parameter(0)
  as = f32[N,1,1] slice(x), slice={[0:N], [0:1], [0:1]}
  bs = f32[N,1,1] slice(x), slice={[0:N], [0:1], [1:2]}
  cs = f32[N,1,1] slice(x), slice={[0:N], [1:2], [0:1]}
  ds = f32[N,1,1] slice(x), slice={[0:N], [1:2], [1:2]}
  a = f32[N] reshape(as)
  b = f32[N] reshape(bs)
  c = f32[N] reshape(cs)
  d = f32[N] reshape(ds)
  p = f32[N] multiply(a, d)
  q = f32[N] multiply(b, c)
  ROOT r = f32[N] subtract(p, q)
)"),
            0U);
  EXPECT_EQ(moves_left("20011", "  x = s32[N,19] parameter(0)\n" + column("a", "x", "s32", 2) +
                                    column("b", "x", "s32", 9) + column("c", "x", "s32", 18) +
                                    "  p = s32[N] multiply(a, b)\n"
                                    "  ROOT r = s32[N] add(p, c)\n"),
            0U);
}

TEST(VectorsInRows, WhatAnotherKernelNeedsIsMade) {
  // A product reads the vector.
  EXPECT_GT(moves_left("40000", kTwo + R"(  w = f32[N,64] parameter(2)
  p = f32[N] add(a, b)
  d = f32[64] dot(a, w), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  ROOT all = (f32[N], f32[64]) tuple(p, d)
)"),
            0U);
}

/// Slices behind the pass that reads elements.
std::size_t slices_left(const std::string& entry) {
  return left_behind("read_elements_in_place", {hlo::HloOpcode::kSlice},
                     "HloModule m\nENTRY main {\n" + entry + "}\n", 16);
}

TEST(VectorsInRows, ElementsAreReadInTheirTiles) {
  EXPECT_EQ(slices_left(R"(  x = f32[40000] parameter(0)
  m = f32[20,300] parameter(1)
  as = f32[1,1] slice(m), slice={[1:2], [2:3]}
  bs = f32[1,1] slice(m), slice={[13:14], [259:260]}
  a = f32[] reshape(as)
  b = f32[] reshape(bs)
  as2 = f32[40000] broadcast(a), dimensions={}
  bs2 = f32[40000] broadcast(b), dimensions={}
  p = f32[40000] multiply(x, as2)
  ROOT r = f32[40000] add(p, bs2)
)"),
            0U);
  // In a space of tiles, and in VMEM behind another kernel.
  EXPECT_EQ(slices_left(R"(  x = f32[40,200] parameter(0)
  m = f32[20,4] parameter(1)
  o = f32[4,4] parameter(2)
  n = f32[20,4] dot(m, o), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  as = f32[1,1] slice(n), slice={[11:12], [2:3]}
  a = f32[] reshape(as)
  a2 = f32[40,200] broadcast(a), dimensions={}
  ROOT r = f32[40,200] multiply(x, a2)
)"),
            0U);
}

/// Rows of a tile that are padding are not moved, and copies of whole tiles may read them.
TEST(VectorsInRows, PaddingRowsStayWhereTheyAre) {
  const auto cycles = [](const std::string& rows) {
    const std::string shape = "f32[" + rows + ",200000]";
    return check_hlo("HloModule m\nENTRY main {\n  x = " + shape + " parameter(0)\n  y = " + shape +
                     " parameter(1)\n  ROOT z = " + shape + " add(x, y)\n}\n")
        .result.cycles;
  };
  const auto of_all = static_cast<double>(cycles("8"));
  EXPECT_LT(static_cast<double>(cycles("2")), 0.4 * of_all);
  EXPECT_LT(static_cast<double>(cycles("3")), 0.65 * of_all);
  EXPECT_LT(static_cast<double>(cycles("6")), 0.9 * of_all);
  check_hlo(R"(HloModule m
ENTRY main {
  x = f32[3,40000] parameter(0)
  w = f32[40000,3] parameter(1)
  y = f32[3,40000] add(x, x)
  v = f32[120000] reshape(y)
  t = f32[40000,3] transpose(y), dimensions={1,0}
  d = f32[3,3] dot(y, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  u = bf16[3,40000] convert(y)
  c = bf16[6,40000] concatenate(u, u), dimensions={0}
  ROOT all = (f32[120000], f32[40000,3], f32[3,3], bf16[6,40000]) tuple(v, t, d, c)
}
)");
}

}  // namespace
}  // namespace tpu::test::vectors_in_rows_test
