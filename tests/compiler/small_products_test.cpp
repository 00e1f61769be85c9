#include "workloads/compiler/passes/simplify/small_products.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

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

std::size_t dots_in(const std::string& text) {
  hlo::Module module = hlo::read_hlo_text("test.hlo", text);
  compiler::multiply_small_matrices(module);
  hlo::verify(module);
  const std::vector<hlo::HloInstruction>& all = module.entry_computation().instructions;
  return static_cast<std::size_t>(
      std::count_if(all.begin(), all.end(), [](const hlo::HloInstruction& instruction) {
        return instruction.opcode == hlo::HloOpcode::kDot;
      }));
}

std::size_t dots_after_pass(const std::string& examples) { return dots_in(interactions(examples)); }

/// 16 registers of 1024 multiplications where one dimension of the batch fills the lanes, four
/// where two do together.
TEST(SmallProducts, MatricesAreAsLargeAsTheVectorUnitIsFaster) {
  const auto dots = [](const std::string& batch, const std::string& dimensions,
                       const std::string& terms, const std::string& contracted) {
    const std::string left = "f32[" + batch + ",4," + terms + "]";
    return dots_in("HloModule p\nENTRY main {\n  x = " + left + " parameter(0)\n  y = " + left +
                   " parameter(1)\n  ROOT p = f32[" + batch + ",4,4] dot(x, y), lhs_batch_dims={" +
                   dimensions + "}, rhs_batch_dims={" + dimensions + "}, lhs_contracting_dims={" +
                   contracted + "}, rhs_contracting_dims={" + contracted + "}\n}\n");
  };
  EXPECT_EQ(dots("128", "0", "1024", "2"), 0U);
  EXPECT_EQ(dots("128", "0", "1025", "2"), 1U);
  EXPECT_EQ(dots("64,2", "0,1", "256", "3"), 0U);
  EXPECT_EQ(dots("64,2", "0,1", "257", "3"), 1U);
}

/// Eight matrices and more, of which one side fills the lanes.
TEST(SmallProducts, OfALongSideFewerMatricesAreMany) {
  const auto product = [](const std::string& batch, const std::string& rows,
                          const std::string& terms) {
    return "HloModule p\nENTRY main {\n  x = f32[" + batch + "," + rows + "," + terms +
           "] parameter(0)\n  y = f32[" + batch + ",5," + terms +
           "] parameter(1)\n  ROOT p = f32[" + batch + "," + rows +
           ",5] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
           "rhs_contracting_dims={2}\n}\n";
  };
  EXPECT_EQ(dots_in(product("8", "128", "3")), 0U);
  EXPECT_EQ(dots_in(product("7", "128", "3")), 1U);
  EXPECT_EQ(dots_in(product("8", "127", "3")), 1U);
  EXPECT_EQ(dots_in(product("8", "128", "25")), 0U);
  EXPECT_EQ(dots_in(product("8", "128", "26")), 1U);
  HloCheck check;
  check.round_matmul_operands = false;
  check_hlo(product("9", "150", "3"), check);
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

/// A vector and a matrix: whatever dimension is contracted, the matrix stays as it lies. So do
/// matrices of a batch, whose dimensions the result has in another order.
TEST(SmallProducts, AMatrixIsNotTurnedForItsVector) {
  const auto turned = [](const std::string& text) {
    HloCheck check;
    check.round_matmul_operands = false;
    check_hlo(text, check);
    hlo::Module module = hlo::read_hlo_text("test.hlo", text);
    compiler::multiply_small_matrices(module);
    hlo::verify(module);
    std::int64_t most = 0;
    for (const hlo::HloInstruction& value : module.entry_computation().instructions) {
      EXPECT_NE(value.opcode, hlo::HloOpcode::kDot);
      if (value.opcode == hlo::HloOpcode::kTranspose) {
        most = std::max(most, value.shape.element_count());
      }
    }
    return most;
  };
  for (const char* contracted : {"0", "1"}) {
    const std::string side = *contracted == '0' ? "300" : "70",
                      other = *contracted == '0' ? "70" : "300";
    for (const bool is_first : {false, true}) {
      const std::string of_vector = "0", of_matrix = contracted;
      EXPECT_EQ(turned("HloModule n\nENTRY main {\n  v = f32[" + side +
                       "] parameter(0)\n  m = f32[300,70] parameter(1)\n  ROOT r = f32[" + other +
                       "] dot(" + (is_first ? "m, v" : "v, m") + "), lhs_contracting_dims={" +
                       (is_first ? of_matrix : of_vector) + "}, rhs_contracting_dims={" +
                       (is_first ? of_vector : of_matrix) + "}\n}\n"),
                0);
    }
  }
  EXPECT_EQ(turned("HloModule n\nENTRY main {\n  v = f32[7,30] parameter(0)\n  m = f32[50,30,7] "
                   "parameter(1)\n  ROOT r = f32[7,50] dot(v, m), lhs_batch_dims={0}, "
                   "rhs_batch_dims={2}, lhs_contracting_dims={1}, rhs_contracting_dims={1}\n}\n"),
            350);
}

}  // namespace
}  // namespace tpu::test::small_products_test
