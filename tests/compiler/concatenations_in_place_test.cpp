#include "workloads/compiler/passes/fuse/concatenations_in_place.h"

#include <gtest/gtest.h>

#include "tests/compiler/hlo_check.h"
#include "tests/compiler/pass_check.h"

namespace tpu::test::concatenations_in_place_test {
namespace {

/// Concatenations that are kernels of their own.
std::size_t concatenations_left(const std::string& text, std::uint32_t vmem_mib = 16) {
  return left_behind("write_concatenations_in_place", {hlo::HloOpcode::kConcatenate}, text,
                     vmem_mib);
}

/// Sum and product of two arrays, joined along a dimension.
std::string sum_and_product(const std::string& shape, const std::string& joined, int dimension) {
  return "HloModule m\nENTRY main {\n  x = " + shape + " parameter(0)\n  y = " + shape +
         " parameter(1)\n  a = " + shape + " add(x, y)\n  b = " + shape +
         " multiply(x, y)\n  ROOT z = " + joined + " concatenate(a, b), dimensions={" +
         std::to_string(dimension) + "}\n}\n";
}

TEST(ConcatenationsInPlace, PartsOfWholeTilesAreWrittenWhereTheyStand) {
  EXPECT_EQ(concatenations_left(sum_and_product("f32[40,512,256]", "f32[40,1024,256]", 1)), 0U);
  EXPECT_EQ(concatenations_left(sum_and_product("f32[4000,256]", "f32[4000,512]", 1)), 0U);
  EXPECT_EQ(concatenations_left(sum_and_product("bf16[8,512,256]", "bf16[8,1024,256]", 1)), 0U);
  EXPECT_EQ(concatenations_left(sum_and_product("f32[12,20,60,200]", "f32[12,40,60,200]", 1)), 0U);
  EXPECT_EQ(concatenations_left(sum_and_product("f32[4096,256]", "f32[8192,256]", 0)), 0U);
}

/// 113 row tiles, a prime, and the small VMEM has no room for all of a range in two buffers.
TEST(ConcatenationsInPlace, BlocksHaveWholeRangesOrPartsOfOne) {
  EXPECT_EQ(concatenations_left(sum_and_product("f32[5,904,256]", "f32[5,1808,256]", 1)), 0U);
  EXPECT_EQ(concatenations_left(sum_and_product("f32[3,768,1000]", "f32[3,1536,1000]", 1), 1), 0U);
  EXPECT_EQ(concatenations_left(sum_and_product("f32[300,16,128]", "f32[300,32,128]", 1)), 0U);
}

/// Selections of what stands elsewhere make those of rows (read_shifts_in_place); turning all lanes
/// is expected to take as long as the kernel.
TEST(ConcatenationsInPlace, OtherRowsInATileAreSelectedAndLanesAreKernels) {
  EXPECT_EQ(concatenations_left(sum_and_product("f32[40,516,256]", "f32[40,1032,256]", 1)), 0U);
  EXPECT_EQ(concatenations_left(sum_and_product("f32[4100,300]", "f32[4100,600]", 1)), 1U);
}

TEST(ConcatenationsInPlace, OtherResultsStayBesideThem) {
  EXPECT_EQ(concatenations_left(R"(HloModule m
ENTRY main {
  x = f32[16,512,256] parameter(0)
  y = f32[16,512,256] parameter(1)
  w = f32[256,256] parameter(2)
  a = f32[16,512,256] add(x, y)
  b = f32[16,512,256] multiply(x, y)
  c = f32[16,512,256] tanh(a)
  d = f32[16,512,256] negate(b)
  e = f32[16,512,256] subtract(x, y)
  f = f32[16,512,256] abs(x)
  first = f32[16,1024,256] concatenate(a, b), dimensions={1}
  second = f32[16,512,512] concatenate(d, e), dimensions={2}
  p = f32[16,512,256] dot(c, w), lhs_contracting_dims={2}, rhs_contracting_dims={0}
  ROOT all = (f32[16,1024,256], f32[16,512,256], f32[16,512,512], f32[16,512,256], f32[16,512,256]) tuple(first, p, second, c, f)
}
)"),
            0U);
}

TEST(ConcatenationsInPlace, PartsThatOthersReadAreWrittenForThem) {
  EXPECT_EQ(concatenations_left(R"(HloModule m
ENTRY main {
  x = f32[16,512,256] parameter(0)
  y = f32[16,512,256] parameter(1)
  a = f32[16,512,256] add(x, y)
  b = f32[16,512,256] multiply(x, y)
  z = f32[16,1024,256] concatenate(a, b), dimensions={1}
  ROOT all = (f32[16,1024,256], f32[16,512,256]) tuple(z, b)
}
)"),
            1U);
  // One of them is given, one twice the same: selections, likewise.
  EXPECT_EQ(concatenations_left(R"(HloModule m
ENTRY main {
  x = f32[16,512,256] parameter(0)
  y = f32[16,512,256] parameter(1)
  a = f32[16,512,256] add(x, y)
  b = f32[16,512,256] multiply(x, y)
  z = f32[16,1536,256] concatenate(a, b, y), dimensions={1}
  c = f32[16,512,256] subtract(x, y)
  d = f32[16,1024,256] concatenate(c, c), dimensions={1}
  ROOT all = (f32[16,1536,256], f32[16,1024,256]) tuple(z, d)
}
)"),
            0U);
}

/// What stays of a part, a matrix, is fetched while the part before is written.
TEST(ConcatenationsInPlace, PartsOfAKernelHaveWholeRanges) {
  EXPECT_EQ(concatenations_left(R"(HloModule m
ENTRY main {
  x = f32[24,4,64,128] parameter(0)
  y = f32[24,64,128] parameter(1)
  yb = f32[24,4,64,128] broadcast(y), dimensions={0,2,3}
  a = f32[24,4,64,128] multiply(x, yb)
  b = f32[24,4,64,128] add(x, yb)
  ROOT z = f32[24,8,64,128] concatenate(a, b), dimensions={1}
}
)",
                                1),
            0U);
}

/// The halves of a rotation are read and written in place: the memory moves the array in and out,
/// and nothing else but the angles.
TEST(ConcatenationsInPlace, ARotationMovesItsArrayOnce) {
  const auto run = check_hlo(R"(HloModule m
ENTRY main {
  x = f32[2,16,64,512] parameter(0)
  c = f32[32,512] parameter(1)
  s = f32[32,512] parameter(2)
  first = f32[2,16,32,512] slice(x), slice={[0:2], [0:16], [0:32], [0:512]}
  second = f32[2,16,32,512] slice(x), slice={[0:2], [0:16], [32:64], [0:512]}
  cb = f32[2,16,32,512] broadcast(c), dimensions={2,3}
  sb = f32[2,16,32,512] broadcast(s), dimensions={2,3}
  fc = f32[2,16,32,512] multiply(first, cb)
  ss = f32[2,16,32,512] multiply(second, sb)
  fs = f32[2,16,32,512] multiply(first, sb)
  sc = f32[2,16,32,512] multiply(second, cb)
  a = f32[2,16,32,512] subtract(fc, ss)
  b = f32[2,16,32,512] add(fs, sc)
  ROOT z = f32[2,16,64,512] concatenate(a, b), dimensions={2}
}
)");
  const double bytes = 2.0 * 4 * 2 * 16 * 64 * 512, bytes_per_cycle = 460.8e9 / 940e6;
  EXPECT_GT(static_cast<double>(run.result.cycles), bytes / bytes_per_cycle);
  EXPECT_LT(static_cast<double>(run.result.cycles), 1.5 * bytes / bytes_per_cycle);
}

}  // namespace
}  // namespace tpu::test::concatenations_in_place_test
