#include "workloads/compiler/passes/simplify/sliced_values.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/compiler/hlo_check.h"
#include "tests/compiler/pass_check.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::sliced_values_test {
namespace {

/// Elements of the largest product in the entry, behind the pass, which keeps its values.
std::int64_t largest_product(const std::string& body) {
  const std::string text = "HloModule m\nENTRY main {\n" + body + "}\n";
  check_hlo(text);
  hlo::Module module =
      simplified_around(hlo::read_hlo_text("test.hlo", text), compiler::compute_sliced_values);
  check_hlo(hlo::to_string(module));
  std::int64_t most = 0;
  for (const hlo::HloInstruction& value : module.entry_computation().instructions) {
    if (value.opcode != hlo::HloOpcode::kMultiply) continue;
    most = std::max(most, value.shape.element_count());
  }
  return most;
}

/// What one row, one column or every fourth of both is multiplied with is sliced, too: spread along
/// the other dimension it is whole.
TEST(SlicedValues, AreComputedOfSlices) {
  const std::string product =
      "  x = f32[40,64] parameter(0)\n  r = f32[40] parameter(1)\n  c = f32[64] parameter(2)\n"
      "  i = s32[] parameter(3)\n  u = f32[40,64] broadcast(r), dimensions={0}\n"
      "  v = f32[40,64] broadcast(c), dimensions={1}\n  p = f32[40,64] multiply(x, u)\n"
      "  q = f32[40,64] add(p, v)\n";
  EXPECT_EQ(largest_product(product + "  ROOT s = f32[1,64] slice(q), slice={[7:8], [0:64]}\n"),
            64);
  EXPECT_EQ(largest_product(product + "  ROOT s = f32[40,1] slice(q), slice={[0:40], [63:64]}\n"),
            40);
  EXPECT_EQ(
      largest_product(product + "  ROOT s = f32[10,16] slice(q), slice={[1:40:4], [2:64:4]}\n"),
      160);
  EXPECT_EQ(largest_product(product + "  o = s32[] constant(3)\n  ROOT s = f32[2,8] "
                                      "dynamic-slice(q, i, o), dynamic_slice_sizes={2,8}\n"),
            16);
}

/// Half of an array is no small part; a dot's result would have to be written for its slice.
TEST(SlicedValues, StayWhereThatSparesNothing) {
  const std::string product =
      "  x = f32[40,64] parameter(0)\n  y = f32[64,64] parameter(1)\n"
      "  d = f32[40,64] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n";
  EXPECT_EQ(largest_product(product + "  p = f32[40,64] multiply(x, x)\n  s = f32[11,64] slice(p), "
                                      "slice={[0:11], [0:64]}\n  ROOT t = (f32[11,64], f32[40,64]) "
                                      "tuple(s, d)\n"),
            40 * 64);
  EXPECT_EQ(largest_product(product + "  p = f32[40,64] multiply(x, d)\n  ROOT s = f32[4,64] "
                                      "slice(p), slice={[0:4], [0:64]}\n"),
            40 * 64);
}

}  // namespace
}  // namespace tpu::test::sliced_values_test
