#include "workloads/compiler/passes/fuse/copy_sequences.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "tests/compiler/hlo_check.h"

namespace tpu::test::copy_sequences_test {
namespace {

/// Parameters that become each other are copied, scalars, words and packed arrays, and one beside
/// them is computed: all that is copied before it together, and all that is copied behind.
TEST(CopySequences, CopiesThatFollowEachOtherAreOneKernel) {
  const std::string text =
      R"(HloModule test, input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias), {2}: (2, {}, may-alias), {3}: (3, {}, may-alias), {4}: (4, {}, may-alias), {5}: (5, {}, may-alias) }
ENTRY main {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = s32[3,40] parameter(2)
  d = s32[3,40] parameter(3)
  e = bf16[20,300] parameter(4)
  f = bf16[20,300] parameter(5)
  x = f32[300,300] parameter(6)
  y = f32[300,300] multiply(x, x)
  ROOT t = (f32[], f32[], s32[3,40], s32[3,40], bf16[20,300], bf16[20,300], f32[300,300]) tuple(b, a, d, c, f, e, y)
}
)";
  EXPECT_LE(check_hlo(text).program.ops.size(), 3U);
}

/// A branch that hands on what it gets.
TEST(CopySequences, ABranchOfCopiesIsOneKernel) {
  const std::string text = R"(HloModule test
kept {
  s = (f32[8,10], f32[40], f32[100,100]) parameter(0)
  a = f32[8,10] get-tuple-element(s), index=0
  b = f32[40] get-tuple-element(s), index=1
  c = f32[100,100] get-tuple-element(s), index=2
  ROOT t = (f32[8,10], f32[40], f32[100,100]) tuple(a, b, c)
}
changed {
  s = (f32[8,10], f32[40], f32[100,100]) parameter(0)
  a = f32[8,10] get-tuple-element(s), index=0
  b = f32[40] get-tuple-element(s), index=1
  c = f32[100,100] get-tuple-element(s), index=2
  d = f32[100,100] dot(c, c), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (f32[8,10], f32[40], f32[100,100]) tuple(a, b, d)
}
ENTRY main {
  p = pred[] parameter(0)
  a = f32[8,10] parameter(1)
  b = f32[40] parameter(2)
  c = f32[100,100] parameter(3)
  t = (f32[8,10], f32[40], f32[100,100]) tuple(a, b, c)
  ROOT r = (f32[8,10], f32[40], f32[100,100]) conditional(p, t, t), true_computation=kept, false_computation=changed
}
)";
  HloCheck numbers;
  numbers.tolerance = 1e-3;
  EXPECT_LE(check_hlo(text, numbers).program.ops.size(), 3U);
}

/// A state whose parts change places in each iteration, more of them than a kernel has addresses
/// for.
TEST(CopySequences, StatesThatChangePlacesAreCopiedTogether) {
  constexpr int kParts = 20;
  const auto listed = [](const std::function<std::string(int)>& part) {
    std::string all;
    for (int i = 0; i < kParts; ++i) all += ", " + part(i);
    return all;
  };
  const std::string state = "(s32[], f32[300,300]" + listed([](int) { return "f32[8,10]"; }) + ")";
  std::string text = "HloModule test\nbody {\n  s = " + state +
                     " parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
                     "  w = f32[300,300] get-tuple-element(s), index=1\n"
                     "  v = f32[300,300] dot(w, w), lhs_contracting_dims={1}, "
                     "rhs_contracting_dims={0}\n  one = s32[] constant(1)\n"
                     "  j = s32[] add(i, one)\n";
  for (int i = 0; i < kParts; ++i) {
    text += "  x" + std::to_string(i) +
            " = f32[8,10] get-tuple-element(s), index=" + std::to_string(i + 2) + "\n";
  }
  text += "  ROOT t = " + state + " tuple(j, v" +
          listed([](int i) { return "x" + std::to_string((i + 1) % kParts); }) +
          ")\n}\ntest {\n  s = " + state +
          " parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n  n = s32[] constant(3)\n"
          "  ROOT p = pred[] compare(i, n), direction=LT\n}\nENTRY main {\n"
          "  w = f32[300,300] parameter(0)\n  z = s32[] constant(0)\n";
  for (int i = 0; i < kParts; ++i) {
    text += "  x" + std::to_string(i) + " = f32[8,10] parameter(" + std::to_string(i + 1) + ")\n";
  }
  text += "  s = " + state + " tuple(z, w" + listed([](int i) { return "x" + std::to_string(i); }) +
          ")\n  ROOT l = " + state + " while(s), condition=test, body=body\n}\n";
  HloCheck numbers;
  numbers.low = -0.05;
  numbers.high = 0.05;
  numbers.tolerance = 1e-3;
  EXPECT_LE(check_hlo(text, numbers).program.ops.size(), 7U);
}

}  // namespace
}  // namespace tpu::test::copy_sequences_test
