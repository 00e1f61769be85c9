#include <gtest/gtest.h>

#include "tests/compiler/graph_check.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::sliced_kernels_test {
namespace {

/// Checks the values of a module whose kernels keep more than fits 1 MiB of VMEM.
void check_in_parts(const std::string& text) {
  GraphCase graph = case_of(hlo::read_hlo_text("parts.hlo", text), 5);
  graph.machine.core.vmem_mib = 1;
  const Verdict verdict = check_graph(graph);
  EXPECT_EQ(verdict.kind, Verdict::Kind::kEqual) << verdict.message;
}

constexpr const char* kAdd = R"(
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }
)";

TEST(SlicedKernels, ABroadcastLargerThanVmemIsReadPartByPart) {
  check_in_parts(std::string("HloModule m\n") + R"(
ENTRY main {
  x = f32[24,64,128] parameter(0)
  y = f32[24,4,64,128] parameter(1)
  v = f32[24] parameter(2)
  r = f32[24,128] parameter(3)
  xb = f32[24,4,64,128] broadcast(x), dimensions={0,2,3}
  vb = f32[24,4,64,128] broadcast(v), dimensions={0}
  rb = f32[24,4,64,128] broadcast(r), dimensions={0,3}
  i = f32[24,4,64,128] iota(), iota_dimension=0
  a = f32[24,4,64,128] add(xb, y)
  b = f32[24,4,64,128] multiply(a, vb)
  c = f32[24,4,64,128] subtract(b, rb)
  ROOT d = f32[24,4,64,128] add(c, i)
}
)");
}

TEST(SlicedKernels, AMaskOfAllHeadsThatDoesNotFitIsReadAgainForEach) {
  check_in_parts(std::string("HloModule m\n") + kAdd + R"(
ENTRY main {
  scores = f32[2,3,600,384] parameter(0)
  mask = s32[2,600,384] parameter(1)
  bias = bf16[600,384] parameter(2)
  shift = f32[2,3,600] parameter(3)
  mb = s32[2,3,600,384] broadcast(mask), dimensions={0,2,3}
  zero = s32[] constant(0)
  zeros = s32[2,3,600,384] broadcast(zero), dimensions={}
  open = pred[2,3,600,384] compare(mb, zeros), direction=GT
  low = f32[] constant(-100)
  lows = f32[2,3,600,384] broadcast(low), dimensions={}
  bf = f32[600,384] convert(bias)
  bb = f32[2,3,600,384] broadcast(bf), dimensions={2,3}
  sb = f32[2,3,600,384] broadcast(shift), dimensions={0,1,2}
  biased = f32[2,3,600,384] add(scores, bb)
  moved = f32[2,3,600,384] subtract(biased, sb)
  masked = f32[2,3,600,384] select(open, moved, lows)
  m = f32[2,3,600] reduce(masked, low), dimensions={3}, to_apply=max
  n = f32[2,3,384] reduce(masked, low), dimensions={2}, to_apply=max
  ROOT all = (f32[2,3,600,384], f32[2,3,600], f32[2,3,384]) tuple(masked, m, n)
}
)");
}

TEST(SlicedKernels, SumsThatStayWithTheirPartAndSumsOverAllPartsStandInOneKernel) {
  check_in_parts(std::string("HloModule m\n") + kAdd + R"(
ENTRY main {
  x = f32[22,6,64,128] parameter(0)
  y = f32[22,64,128] parameter(1)
  yb = f32[22,6,64,128] broadcast(y), dimensions={0,2,3}
  z = f32[22,6,64,128] multiply(x, yb)
  zero = f32[] constant(0)
  low = f32[] constant(-100)
  s = f32[22,64,128] reduce(z, zero), dimensions={1}, to_apply=add
  t = f32[64,128] reduce(z, zero), dimensions={0,1}, to_apply=add
  u = f32[128] reduce(z, zero), dimensions={0,1,2}, to_apply=add
  m = f32[6,64] reduce(z, low), dimensions={0,3}, to_apply=max
  ROOT all = (f32[22,64,128], f32[64,128], f32[128], f32[6,64]) tuple(s, t, u, m)
}
)");
}

TEST(SlicedKernels, SumsAlongLanesOfBf16AreWrittenPartByPart) {
  check_in_parts(std::string("HloModule m\n") + kAdd + R"(
ENTRY main {
  x = bf16[30,48,40,16] parameter(0)
  y = bf16[30,48,16] parameter(1)
  xf = f32[30,48,40,16] convert(x)
  yf = f32[30,48,16] convert(y)
  yb = f32[30,48,40,16] broadcast(yf), dimensions={0,1,3}
  z = f32[30,48,40,16] multiply(xf, yb)
  zero = f32[] constant(0)
  s = f32[30,48,40] reduce(z, zero), dimensions={3}, to_apply=add
  t = f32[30,48,16] reduce(z, zero), dimensions={2}, to_apply=add
  ROOT all = (f32[30,48,40], f32[30,48,16]) tuple(s, t)
}
)");
}

/// The next part's operands arrive in another buffer than those at hand; results of all kinds
/// leave.
TEST(SlicedKernels, ThePartsOfAProductFollowEachOtherThroughTwoBuffers) {
  check_in_parts(std::string("HloModule m\n") + kAdd + R"(
ENTRY main {
  x = f32[12,6,10,100] parameter(0)
  y = f32[12,10,16,100] parameter(1)
  v = f32[12,6] parameter(2)
  xb = f32[12,6,10,16,100] broadcast(x), dimensions={0,1,2,4}
  yb = f32[12,6,10,16,100] broadcast(y), dimensions={0,2,3,4}
  vb = f32[12,6,10,16,100] broadcast(v), dimensions={0,1}
  z = f32[12,6,10,16,100] multiply(xb, yb)
  zero = f32[] constant(0)
  low = f32[] constant(-100)
  s = f32[12,6,16,100] reduce(z, zero), dimensions={2}, to_apply=add
  w = f32[12,6,10,16,100] add(z, vb)
  m = f32[12,6,10] reduce(w, low), dimensions={3,4}, to_apply=max
  ROOT all = (f32[12,6,16,100], f32[12,6,10]) tuple(s, m)
}
)");
}

/// Of the outermost dimension alone no part fits.
TEST(SlicedKernels, PartsAreOfSeveralDimensionsTogether) {
  check_in_parts(std::string("HloModule m\n") + kAdd + R"(
ENTRY main {
  x = f32[2,5,3,8,2,16] parameter(0)
  y = f32[2,5,3,3,2,16] parameter(1)
  xb = f32[2,5,3,8,3,2,16] broadcast(x), dimensions={0,1,2,3,5,6}
  yb = f32[2,5,3,8,3,2,16] broadcast(y), dimensions={0,1,2,4,5,6}
  z = f32[2,5,3,8,3,2,16] multiply(xb, yb)
  zero = f32[] constant(0)
  ROOT s = f32[2,5,3,8,3] reduce(z, zero), dimensions={5,6}, to_apply=add
}
)");
}

/// Parts of two dimensions together, of which one operand has the outer one alone: several parts
/// read the same slice of it. (Small products with the batch in the lanes.)
TEST(SlicedKernels, PartsShareWhatHasTheOuterDimensionAlone) {
  check_in_parts(std::string("HloModule m\n") + kAdd + R"(
ENTRY main {
  x = f32[128,2,40,40] parameter(0)
  y = f32[128,2,8,40] parameter(1)
  xb = f32[128,2,40,8,40] broadcast(x), dimensions={0,1,2,4}
  yb = f32[128,2,40,8,40] broadcast(y), dimensions={0,1,3,4}
  z = f32[128,2,40,8,40] multiply(xb, yb)
  zero = f32[] constant(0)
  ROOT s = f32[128,2,40,8] reduce(z, zero), dimensions={4}, to_apply=add
}
)");
}

/// The one that is reduced is outermost and has no parts.
TEST(SlicedKernels, ADimensionThatIsReducedIsNotTheOneOfTheParts) {
  check_in_parts(std::string("HloModule m\n") + kAdd + R"(
ENTRY main {
  at = s32[2,16] parameter(0)
  x = f32[3,9,100] parameter(1)
  y = f32[3,9,100] parameter(2)
  i = s32[3,2,9,16,100] iota(), iota_dimension=0
  ab = s32[3,2,9,16,100] broadcast(at), dimensions={1,3}
  is = pred[3,2,9,16,100] compare(i, ab), direction=EQ
  zero = f32[] constant(0)
  zeros = f32[3,2,9,16,100] broadcast(zero), dimensions={}
  xb = f32[3,2,9,16,100] broadcast(x), dimensions={0,2,4}
  xs = f32[3,2,9,16,100] select(is, xb, zeros)
  s = f32[2,9,16,100] reduce(xs, zero), dimensions={0}, to_apply=add
  yb = f32[3,2,9,16,100] broadcast(y), dimensions={0,2,4}
  ys = f32[3,2,9,16,100] select(is, yb, zeros)
  t = f32[2,9,16,100] reduce(ys, zero), dimensions={0}, to_apply=add
  ROOT all = (f32[2,9,16,100], f32[2,9,16,100]) tuple(s, t)
}
)");
}

}  // namespace
}  // namespace tpu::test::sliced_kernels_test
