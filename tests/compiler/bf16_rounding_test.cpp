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

/// Where a mean, a deviation or the like is a result, other kernels make what follows of the stored
/// one: the kernel that makes it does so, too. Here what is left of a product behind its rounding,
/// and the gradient of a maximum of quotients, whose divisor the gradient's kernel reads.
TEST(Bf16Rounding, AResultThatIsReadIsReadAsItIsStored) {
  check_hlo(R"(HloModule test
ENTRY main {
  x = bf16[16,128] parameter(0)
  y = bf16[16,128] parameter(1)
  product = bf16[16,128] multiply(x, y)
  square = bf16[16,128] multiply(product, product)
  more = bf16[16,128] add(square, product)
  rest = bf16[16,128] subtract(more, square)
  ROOT t = (bf16[16,128], bf16[16,128], bf16[16,128], bf16[16,128]) tuple(product, square, more, rest)
}
)");
  HloCheck check;
  check.tolerance = 5e-3;  // Of sums and roots that are not rounded between.
  check_hlo(R"(HloModule test
sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
larger {
  a = bf16[] parameter(0)
  b = bf16[] parameter(1)
  ROOT c = bf16[] maximum(a, b)
}
ENTRY main {
  x = bf16[8,8,3] parameter(0)
  zero = f32[] constant(0)
  low = bf16[] constant(-inf)
  wide = f32[8,8,3] convert(x)
  squares = f32[8,8,3] multiply(wide, wide)
  sums = f32[8,8] reduce(squares, zero), dimensions={2}, to_apply=sum
  narrow = bf16[8,8] convert(sums)
  one = bf16[] constant(1)
  ones = bf16[8,8] broadcast(one), dimensions={}
  more = bf16[8,8] add(narrow, ones)
  size = bf16[8,8] sqrt(more)
  sizes = bf16[8,8,3] broadcast(size), dimensions={0,1}
  quotient = bf16[8,8,3] divide(x, sizes)
  most = bf16[8,3] reduce(quotient, low), dimensions={1}, to_apply=larger
  all = bf16[8,8,3] broadcast(most), dimensions={0,2}
  is_most = pred[8,8,3] compare(quotient, all), direction=EQ
  hits = f32[8,8,3] convert(is_most)
  count = f32[8,3] reduce(hits, zero), dimensions={1}, to_apply=sum
  unit = f32[] constant(1)
  units = f32[8,3] broadcast(unit), dimensions={}
  any = f32[8,3] minimum(count, units)
  ROOT t = (bf16[8,8], f32[8,3]) tuple(size, any)
}
)",
            check);
}

}  // namespace
}  // namespace tpu::test::bf16_rounding_test
