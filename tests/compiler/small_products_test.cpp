#include "workloads/compiler/passes/small_products.h"

#include <gtest/gtest.h>

#include "tests/compiler/hlo_check.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::small_products_test {
namespace {

/// Interactions of four features of each example, and their gradient's dot.
std::string interactions(const std::string& examples) {
  return R"(HloModule interactions
ENTRY main {
  x = f32[)" +
         examples + R"(,4,20] parameter(0)
  g = f32[)" +
         examples + R"(,4,4] parameter(1)
  p = f32[)" +
         examples +
         R"(,4,4] dot(x, x), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={2}
  d = f32[)" +
         examples +
         R"(,4,20] dot(g, x), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_contracting_dims={1}
  ROOT r = (f32[)" +
         examples + ",4,4], f32[" + examples + R"(,4,20]) tuple(p, d)
}
)";
}

std::size_t dots_after_pass(const std::string& examples) {
  hlo::Module module = hlo::read_hlo_text("test.hlo", interactions(examples));
  compiler::multiply_small_matrices(module);
  hlo::verify(module);
  const std::vector<hlo::HloInstruction>& all = module.entry_computation().instructions;
  return static_cast<std::size_t>(
      std::count_if(all.begin(), all.end(), [](const hlo::HloInstruction& instruction) {
        return instruction.opcode == hlo::HloOpcode::kDot;
      }));
}

TEST(SmallProducts, ManySmallMatricesAreMultipliedOnTheVectorUnit) {
  EXPECT_EQ(dots_after_pass("130"), 0U);
  HloCheck check;
  check.round_matmul_operands = false;
  check_hlo(interactions("130"), check);
}

TEST(SmallProducts, FewMatricesStayWithTheMatrixUnit) { EXPECT_EQ(dots_after_pass("127"), 2U); }

TEST(SmallProducts, DotsThatContractNothingAreProductsOfBroadcasts) {
  HloCheck check;
  check.round_matmul_operands = false;
  check_hlo(
      "HloModule n\nENTRY main {\n  x = f32[6,70,200] parameter(0)\n  g = f32[200] parameter(1)\n"
      "  ROOT r = f32[200,6,70] dot(x, g), lhs_batch_dims={2}, lhs_contracting_dims={}, "
      "rhs_batch_dims={0}, rhs_contracting_dims={}\n}\n",
      check);
  check_hlo(
      "HloModule n\nENTRY main {\n  x = f32[300] parameter(0)\n  g = f32[70] parameter(1)\n"
      "  ROOT r = f32[300,70] dot(x, g), lhs_contracting_dims={}, rhs_contracting_dims={}\n}\n",
      check);
}

}  // namespace
}  // namespace tpu::test::small_products_test
