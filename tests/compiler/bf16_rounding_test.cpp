// What a program rounds to bf16 is rounded; between operations of one kernel more bits are kept,
// but no step sees them.

#include <gtest/gtest.h>

#include "tests/compiler/hlo_check.h"

namespace tpu::test::bf16_rounding_test {
namespace {

TEST(Bf16Rounding, AConversionToBf16AndBackRounds) {
  check_hlo(R"(HloModule test
ENTRY main {
  x = f32[16,128] parameter(0)
  n = s32[16,128] parameter(1)
  narrow = bf16[16,128] convert(x)
  wide = f32[16,128] convert(narrow)
  lost = f32[16,128] subtract(x, wide)
  k = s32[] constant(1001)
  ks = s32[16,128] broadcast(k), dimensions={}
  large = s32[16,128] multiply(n, ks)
  count = bf16[16,128] convert(large)
  counted = f32[16,128] convert(count)
  ROOT t = (f32[16,128], f32[16,128]) tuple(lost, counted)
}
)");
}

TEST(Bf16Rounding, AComparisonSeesWhatAnotherKernelReads) {
  // The gradient of a minimum asks which operand it took. The minimum comes from memory, behind the
  // sum that needs all of it; the operand is computed again.
  check_hlo(R"(HloModule test
larger {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] maximum(a, b)
}
ENTRY main {
  x = bf16[64,256] parameter(0)
  y = bf16[64,256] parameter(1)
  product = bf16[64,256] multiply(x, y)
  half = bf16[] constant(0.5)
  halves = bf16[64,256] broadcast(half), dimensions={}
  least = bf16[64,256] minimum(product, halves)
  wide = f32[64,256] convert(least)
  turned = f32[256,64] transpose(wide), dimensions={1,0}
  low = f32[] constant(-100)
  most = f32[] reduce(wide, low), dimensions={0,1}, to_apply=larger
  spread = bf16[] convert(most)
  all = bf16[64,256] broadcast(spread), dimensions={}
  is_taken = pred[64,256] compare(product, least), direction=EQ
  gradient = bf16[64,256] select(is_taken, all, halves)
  floors = bf16[64,256] floor(product)
  ROOT t = (bf16[64,256], bf16[64,256], f32[256,64], bf16[64,256]) tuple(gradient, least, turned, floors)
}
)");
}

}  // namespace
}  // namespace tpu::test::bf16_rounding_test
