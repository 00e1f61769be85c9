#include "workloads/compiler/passes/simplify/block_products.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/compiler/hlo_check.h"
#include "tests/compiler/pass_check.h"

namespace tpu::test::block_products_test {
namespace {

/// What an entry takes and the dots that the pass leaves of it. Both have its values: what is
/// compiled, and what the pass makes of the entry as it stands.
struct BlockRun {
  std::size_t dots = 0;
  double cycles = 0;
};

BlockRun run_blocks(const std::string& entry, double tolerance = 1e-5, bool rounds = true) {
  const std::string text = "HloModule blocks\nENTRY main {\n" + entry + "}\n";
  HloCheck check;
  check.tolerance = tolerance;
  check.round_matmul_operands = rounds;
  BlockRun run;
  run.cycles = static_cast<double>(check_hlo(text, check).result.cycles);
  hlo::Module module = hlo::read_hlo_text("test.hlo", text);
  const std::vector<reference::Value> arguments = case_of(module, 7).arguments;
  const auto values = interpret(module, arguments, 1, rounds);
  compiler::multiply_in_blocks(module, compiler::Target());
  EXPECT_NO_THROW(hlo::verify(module));
  const auto found = interpret(module, arguments, 1, rounds);
  // The reference rounds the operands of exact products, too.
  EXPECT_LE(distance(numbers_of(found.at(0)), numbers_of(values.at(0))), rounds ? 4e-3 : tolerance);
  run.dots = count(module, hlo::HloOpcode::kDot);
  return run;
}

/// Cycles to move so many bytes to or from HBM.
double cycles_to_move(double bytes) { return bytes / compiler::Target().hbm_bytes_per_cycle; }

constexpr double kMatrixCycles = 12000;  ///< To make the matrix with blocks.
constexpr std::size_t kDotsOfOne = 3;    ///< Its two, and the product.

TEST(BlockProducts, PartsOfTheLanes) {
  // Twelve times as long where each part stands in lanes of its own.
  const BlockRun run = run_blocks(R"(  x = f32[1024,256] parameter(0)
  m = f32[8,8] parameter(1)
  s = f32[1024,32,8] reshape(x)
  d = f32[1024,32,8] dot(s, m), lhs_contracting_dims={2}, rhs_contracting_dims={0}
  ROOT r = f32[1024,256] reshape(d)
)");
  EXPECT_EQ(run.dots, kDotsOfOne);
  EXPECT_LT(run.cycles, 2 * cycles_to_move(2 << 20) + kMatrixCycles);
}

/// The matrix comes first, its other dimension is contracted, and it is not square.
TEST(BlockProducts, TheMatrixOnTheLeft) {
  EXPECT_EQ(run_blocks(R"(  x = f32[1024,256] parameter(0)
  m = f32[12,8] parameter(1)
  s = f32[1024,32,8] reshape(x)
  d = f32[12,1024,32] dot(m, s), lhs_contracting_dims={1}, rhs_contracting_dims={2}
  t = f32[1024,32,12] transpose(d), dimensions={1,2,0}
  ROOT r = f32[1024,384] reshape(t)
)")
                .dots,
            kDotsOfOne);
}

/// Neighbours that are contracted stand apart.
TEST(BlockProducts, PartsThatStandApart) {
  const BlockRun run = run_blocks(R"(  x = f32[2048,256] parameter(0)
  m = f32[4,6] parameter(1)
  s = f32[2048,8,4,8] reshape(x)
  d = f32[2048,8,8,6] dot(s, m), lhs_contracting_dims={2}, rhs_contracting_dims={0}
  t = f32[2048,8,6,8] transpose(d), dimensions={0,1,3,2}
  ROOT r = f32[2048,384] reshape(t)
)");
  EXPECT_EQ(run.dots, kDotsOfOne);
  EXPECT_LT(run.cycles, 2 * cycles_to_move(5 << 20) + kMatrixCycles);
}

/// Rows are joined and split, too, between what takes the array apart and what puts it together.
TEST(BlockProducts, RearrangementsAroundThemVanish) {
  const BlockRun run = run_blocks(R"(  x = f32[8,512,256] parameter(0)
  m = f32[8,8] parameter(1)
  s = f32[4096,8,32] reshape(x)
  d = f32[4096,32,8] dot(s, m), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[4096,8,32] transpose(d), dimensions={0,2,1}
  ROOT r = f32[8,512,256] reshape(t)
)");
  EXPECT_EQ(run.dots, kDotsOfOne);
  EXPECT_LT(run.cycles, 2 * cycles_to_move(5 << 20) + kMatrixCycles);
}

TEST(BlockProducts, PartsOfTheRows) {
  const BlockRun run = run_blocks(R"(  x = f32[16,256,128] parameter(0)
  m = f32[4,4] parameter(1)
  s = f32[16,64,4,128] reshape(x)
  d = f32[16,64,128,4] dot(s, m), lhs_contracting_dims={2}, rhs_contracting_dims={1}
  t = f32[16,64,4,128] transpose(d), dimensions={0,1,3,2}
  ROOT r = f32[16,256,128] reshape(t)
)");
  EXPECT_EQ(run.dots, kDotsOfOne);
  EXPECT_LT(run.cycles, 2 * cycles_to_move(4 << 20) + kMatrixCycles);
}

/// A transform of blocks from both sides and back, with operations between: nothing but the four
/// products and their matrices is left.
TEST(BlockProducts, BlocksFromBothSides) {
  const BlockRun run = run_blocks(R"(  x = f32[4,128,256] parameter(0)
  m = f32[8,8] parameter(1)
  s = f32[4,16,8,32,8] reshape(x)
  a = f32[4,16,32,8,8] dot(s, m), lhs_contracting_dims={2}, rhs_contracting_dims={1}
  b = f32[4,16,32,8,8] dot(a, m), lhs_contracting_dims={3}, rhs_contracting_dims={1}
  c = f32[4,16,8,32,8] transpose(b), dimensions={0,1,3,2,4}
  g = f32[4,16,8,32,8] round-nearest-even(c)
  h = f32[4,16,8,32,8] multiply(g, c)
  e = f32[4,16,32,8,8] dot(h, m), lhs_contracting_dims={2}, rhs_contracting_dims={0}
  f = f32[4,16,32,8,8] dot(e, m), lhs_contracting_dims={3}, rhs_contracting_dims={0}
  t = f32[4,16,8,32,8] transpose(f), dimensions={0,1,3,2,4}
  ROOT r = f32[4,128,256] reshape(t)
)",
                                  3e-3);
  EXPECT_EQ(run.dots, 4 * kDotsOfOne);
  EXPECT_LT(run.cycles, 4 * cycles_to_move(1 << 20) + 3 * kMatrixCycles);
}

/// The gradient of the small matrix: blocks on the diagonal of a product of the whole arrays, which
/// operations make.
TEST(BlockProducts, TheMatrixOfTwoArrays) {
  const BlockRun run = run_blocks(R"(  x = f32[2048,256] parameter(0)
  y = f32[2048,128] parameter(1)
  s = f32[2048,32,8] reshape(x)
  u = f32[2048,32,8] negate(s)
  v = f32[2048,32,4] reshape(y)
  ROOT d = f32[8,4] dot(u, v), lhs_contracting_dims={0,1}, rhs_contracting_dims={0,1}
)",
                                  2e-5);
  EXPECT_EQ(run.dots, 3U);
  EXPECT_LT(run.cycles, 2 * cycles_to_move(3 << 20) + 2 * kMatrixCycles);
}

/// Rows of images, with the other pieces in another order on both sides.
TEST(BlockProducts, TheMatrixOfTwoArraysAlongRows) {
  EXPECT_EQ(run_blocks(R"(  x = f32[16,256,128] parameter(0)
  y = f32[16,256,128] parameter(1)
  s = f32[16,64,4,128] reshape(x)
  v = f32[16,64,4,128] reshape(y)
  ROOT d = f32[4,4] dot(s, v), lhs_contracting_dims={3,1,0}, rhs_contracting_dims={3,1,0}
)",
                       2e-5)
                .dots,
            3U);
  // Part by part something else: rows of one side meet columns of the other.
  EXPECT_EQ(run_blocks(R"(  x = f32[16,256,64] parameter(0)
  y = f32[16,256,64] parameter(1)
  s = f32[16,64,4,64] reshape(x)
  v = f32[16,64,4,64] reshape(y)
  ROOT d = f32[4,4] dot(s, v), lhs_contracting_dims={0,1,3}, rhs_contracting_dims={0,3,1}
)",
                       2e-5)
                .dots,
            1U);
}

/// Long rows are contracted a few tiles at a time, which stand apart without being moved.
TEST(BlockProducts, LongRowsAreTakenApartByTiles) {
  const BlockRun run = run_blocks(R"(  x = f32[256,4608] parameter(0)
  m = f32[3,3] parameter(1)
  s = f32[256,1536,3] reshape(x)
  d = f32[256,1536,3] dot(s, m), lhs_contracting_dims={2}, rhs_contracting_dims={1}
  e = f32[256,1536,3] tanh(d)
  ROOT r = f32[256,4608] reshape(e)
)",
                                  2e-5);
  EXPECT_EQ(run.dots, kDotsOfOne);
  EXPECT_LT(run.cycles, 2.2 * cycles_to_move(9 << 20) + kMatrixCycles);
}

/// Nothing goes behind the product but another one.
TEST(BlockProducts, LongRowsBetweenProducts) {
  const BlockRun run = run_blocks(R"(  x = f32[512,4096] parameter(0)
  m = f32[64,64] parameter(1)
  w = f32[4096,128] parameter(2)
  s = f32[512,64,64] reshape(x)
  d = f32[512,64,64] dot(s, m), lhs_contracting_dims={2}, rhs_contracting_dims={0}
  r = f32[512,4096] reshape(d)
  ROOT y = f32[512,128] dot(r, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
)",
                                  4e-3);
  EXPECT_EQ(run.dots, 1 + kDotsOfOne);
  EXPECT_LT(run.cycles, 2 * cycles_to_move(10 << 20) + kMatrixCycles);
}

TEST(BlockProducts, AVector) {
  const BlockRun run = run_blocks(R"(  x = f32[524288] parameter(0)
  m = f32[4,4] parameter(1)
  s = f32[131072,4] reshape(x)
  d = f32[131072,4] dot(s, m), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  ROOT r = f32[524288] reshape(d)
)");
  EXPECT_EQ(run.dots, kDotsOfOne);
  EXPECT_LT(run.cycles, 2 * cycles_to_move(4 << 20) + kMatrixCycles);
}

TEST(BlockProducts, OtherTypesAndPrecisions) {
  EXPECT_EQ(run_blocks(R"(  x = f32[1024,256] parameter(0)
  m = f32[8,8] parameter(1)
  s = f32[1024,32,8] reshape(x)
  d = f32[1024,32,8] dot(s, m), lhs_contracting_dims={2}, rhs_contracting_dims={0}, operand_precision={highest,highest}
  ROOT r = f32[1024,256] reshape(d)
)",
                       2e-6, false)
                .dots,
            kDotsOfOne);
  EXPECT_EQ(run_blocks(R"(  x = bf16[4096,256] parameter(0)
  m = bf16[16,16] parameter(1)
  s = bf16[4096,16,16] reshape(x)
  d = bf16[4096,16,16] dot(s, m), lhs_contracting_dims={2}, rhs_contracting_dims={0}
  ROOT r = bf16[4096,256] reshape(d)
)",
                       4e-3)
                .dots,
            kDotsOfOne);
}

/// What has a number for each part of each row, behind the product or before it, stays in parts,
/// where the whole rows are long.
TEST(BlockProducts, NumbersOfEachPart) {
  const auto dots = [](const std::string& text) {
    const std::string module_text = std::string(kAddAndLeast) + R"(
ENTRY main {
  x = f32[256,1024] parameter(0)
  m = f32[16,16] parameter(1)
  s = f32[256,64,16] reshape(x)
  zero = f32[] constant(0)
)" + text + R"(
  ROOT r = f32[256,1024] reshape(last)
}
)";
    hlo::Module module = hlo::read_hlo_text("test.hlo", module_text);
    compiler::multiply_in_blocks(module, compiler::Target());
    return count(module, hlo::HloOpcode::kDot);
  };
  EXPECT_EQ(dots(R"(
  d = f32[256,64,16] dot(s, m), lhs_contracting_dims={2}, rhs_contracting_dims={0}
  q = f32[256,64,16] multiply(d, d)
  n = f32[256,64] reduce(q, zero), dimensions={2}, to_apply=add
  ns = f32[256,64,16] broadcast(n), dimensions={0,1}
  last = f32[256,64,16] divide(d, ns)
)"),
            1U);
  EXPECT_EQ(dots(R"(
  q = f32[256,64,16] multiply(s, s)
  n = f32[256,64] reduce(q, zero), dimensions={2}, to_apply=add
  ns = f32[256,64,16] broadcast(n), dimensions={0,1}
  e = f32[256,64,16] divide(s, ns)
  last = f32[256,64,16] dot(e, m), lhs_contracting_dims={2}, rhs_contracting_dims={0}
)"),
            1U);
  EXPECT_EQ(dots(R"(
  last = f32[256,64,16] dot(s, m), lhs_contracting_dims={2}, rhs_contracting_dims={0}
)"),
            kDotsOfOne);
}

/// Split between tiles, or outside of them, or whole tiles wide; little to move; read as it is
/// split, by more than it takes to make it so.
TEST(BlockProducts, OthersStay) {
  const auto left = [](const std::string& whole, const std::string& split,
                       const std::string& matrix, const std::string& result, int along) {
    return run_blocks("  x = f32[" + whole + "] parameter(0)\n  m = f32[" + matrix +
                      "] parameter(1)\n  s = f32[" + split + "] reshape(x)\n  ROOT d = f32[" +
                      result + "] dot(s, m), lhs_contracting_dims={" + std::to_string(along) +
                      "}, rhs_contracting_dims={0}\n")
        .dots;
  };
  EXPECT_EQ(left("16,512,128", "16,64,8,128", "8,8", "16,64,128,8", 2), 1U);
  EXPECT_EQ(run_blocks(R"(  x = f32[16,512,128] parameter(0)
  m = f32[8,8] parameter(1)
  s = f32[16,64,8,128] reshape(x)
  d = f32[16,64,128,8] dot(s, m), lhs_contracting_dims={2}, rhs_contracting_dims={1}
  t = f32[16,64,8,128] transpose(d), dimensions={0,1,3,2}
  ROOT r = f32[16,512,128] reshape(t)
)")
                .dots,
            1U);
  EXPECT_EQ(left("64,16,640", "8,8,16,640", "8,8", "8,16,640,8", 1), 1U);
  EXPECT_EQ(left("512,512", "512,4,128", "128,128", "512,4,128", 2), 1U);
  EXPECT_EQ(left("16,64", "16,8,8", "8,8", "16,8,8", 2), 1U);
  EXPECT_EQ(left("256,2048", "256,32,64", "64,128", "256,32,128", 2), 1U);
}

}  // namespace
}  // namespace tpu::test::block_products_test
