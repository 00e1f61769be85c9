#include "workloads/compiler/passes/simplify/column_products.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/compiler/hlo_check.h"
#include "tests/compiler/pass_check.h"

namespace tpu::test::column_products_test {
namespace {

/// Dots that the pass leaves of an entry whose values it keeps, with what the matrix unit rounds.
std::size_t dots_left(const std::string& entry, double tolerance = 2e-6, bool rounds = true) {
  const std::string text = "HloModule columns\nENTRY main {\n" + entry + "}\n";
  HloCheck check;
  check.tolerance = tolerance;
  check.round_matmul_operands = rounds;
  check_hlo(text, check);
  hlo::Module module = hlo::read_hlo_text("test.hlo", text);
  compiler::multiply_columns(module, compiler::Target());
  EXPECT_NO_THROW(hlo::verify(module));
  return count(module, hlo::HloOpcode::kDot);
}

TEST(ColumnProducts, PointsTimesAMatrix) {
  EXPECT_EQ(dots_left(R"(  x = f32[120011,3] parameter(0)
  m = f32[3,4] parameter(1)
  ROOT d = f32[120011,4] dot(x, m), lhs_contracting_dims={1}, rhs_contracting_dims={0}
)"),
            0U);
  EXPECT_EQ(dots_left(R"(  x = f32[2,150000] parameter(0)
  m = f32[2,5] parameter(1)
  ROOT d = f32[5,150000] dot(m, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}
)"),
            0U);
}

TEST(ColumnProducts, SeveralContractedDimensions) {
  EXPECT_EQ(dots_left(R"(  x = f32[2,150000,2] parameter(0)
  m = f32[3,2,2] parameter(1)
  ROOT d = f32[150000,3] dot(x, m), lhs_contracting_dims={0,2}, rhs_contracting_dims={2,1}
)"),
            0U);
}

TEST(ColumnProducts, SumsOverPoints) {
  EXPECT_EQ(dots_left(R"(  x = f32[600011,3] parameter(0)
  y = f32[3,600011] parameter(1)
  ROOT d = f32[3,3] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={1}
)",
                      1e-5),
            0U);
  // Each sum is a kernel's result; those of fewer points are done sooner by the matrix unit.
  EXPECT_EQ(dots_left(R"(  x = f32[30011,3] parameter(0)
  y = f32[4,30011] parameter(1)
  ROOT d = f32[3,4] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={1}
)",
                      1e-5),
            1U);
}

/// Planes of several long dimensions, each operand's in its order.
TEST(ColumnProducts, PlanesTimesAMatrix) {
  EXPECT_EQ(dots_left(R"(  x = f32[9,200,500] parameter(0)
  m = f32[2,9] parameter(1)
  ROOT d = f32[2,200,500] dot(m, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
)"),
            0U);
  EXPECT_EQ(dots_left(R"(  x = f32[70,3,40,50] parameter(0)
  v = f32[70,50] parameter(1)
  m = f32[3,3] parameter(2)
  w = f32[70,3,40,50] broadcast(v), dimensions={0,3}
  y = f32[70,3,40,50] multiply(x, w)
  ROOT d = f32[70,40,50,3] dot(y, m), lhs_contracting_dims={1}, rhs_contracting_dims={0}
)"),
            0U);
}

/// Of several dimensions the matrix unit has the last one alone in its tiles: of sixteen elements
/// an eighth of them.
TEST(ColumnProducts, ShortPlanesTimesAMatrixAreNotForTheMatrixUnit) {
  const auto left = [](const std::string& extents) {
    return dots_left("  x = f32[" + extents + ",3] parameter(0)\n  m = f32[2,3] parameter(1)\n" +
                     "  ROOT d = f32[2," + extents +
                     "] dot(m, x), lhs_contracting_dims={1}, rhs_contracting_dims={3}\n");
  };
  EXPECT_EQ(left("8,150,16"), 0U);
  EXPECT_EQ(left("8,18,128"), 1U);
}

TEST(ColumnProducts, SumsOverPlanes) {
  EXPECT_EQ(dots_left(R"(  x = f32[3,900,1000] parameter(0)
  y = f32[900,3,1000] parameter(1)
  ROOT d = f32[3,3] dot(x, y), lhs_contracting_dims={1,2}, rhs_contracting_dims={0,2}
)",
                      1e-5),
            0U);
  // The operands' rows and columns are not in the same order.
  EXPECT_EQ(dots_left(R"(  x = f32[3,900,1000] parameter(0)
  y = f32[1000,3,900] parameter(1)
  ROOT d = f32[3,3] dot(x, y), lhs_contracting_dims={1,2}, rhs_contracting_dims={2,0}
)",
                      1e-5),
            1U);
}

/// What is made of columns, and of means, is made column by column.
TEST(ColumnProducts, OperationsBetweenThem) {
  EXPECT_EQ(dots_left(R"(  x = f32[250000,3] parameter(0)
  m = f32[3,3] parameter(1)
  v = f32[3] parameter(2)
  w = f32[250000] parameter(3)
  d = f32[250000,3] dot(x, m), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  vs = f32[250000,3] broadcast(v), dimensions={1}
  ws = f32[250000,3] broadcast(w), dimensions={0}
  e = f32[250000,3] subtract(d, vs)
  f = f32[250000,3] multiply(e, ws)
  g = f32[250000,3] dot(f, m), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  h = f32[3,3] dot(f, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  ROOT all = (f32[250000,3], f32[3,3], f32[250000,3]) tuple(g, h, f)
)",
                      2e-4),
            0U);
}

/// What lies between two such dots is not moved as columns: of so many points, one alone is for the
/// matrix unit.
TEST(ColumnProducts, WhatLiesBetweenThemIsNotMoved) {
  const std::string first = R"(  x = f32[30000,3] parameter(0)
  m = f32[3,3] parameter(1)
  d = f32[30000,3] dot(x, m), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  )";
  EXPECT_EQ(dots_left(first + "ROOT t = f32[30000,3] tanh(d)\n", 1e-4), 1U);
  EXPECT_EQ(dots_left(first + R"(t = f32[30000,3] tanh(d)
  ROOT e = f32[30000,3] dot(t, m), lhs_contracting_dims={1}, rhs_contracting_dims={1}
)",
                      2e-3),
            0U);
}

TEST(ColumnProducts, WhatAsksForPrecisionIsNotRounded) {
  EXPECT_EQ(dots_left(R"(  x = f32[90011,3] parameter(0)
  m = f32[3,3] parameter(1)
  ROOT d = f32[90011,3] dot(x, m), lhs_contracting_dims={1}, rhs_contracting_dims={0}, operand_precision={highest,highest}
)",
                      1e-6, false),
            0U);
}

TEST(ColumnProducts, FewPointsAndManyFeaturesAreForTheMatrixUnit) {
  EXPECT_EQ(dots_left(R"(  x = f32[3000,3] parameter(0)
  m = f32[3,3] parameter(1)
  ROOT d = f32[3000,3] dot(x, m), lhs_contracting_dims={1}, rhs_contracting_dims={0}
)"),
            1U);
  EXPECT_EQ(dots_left(R"(  x = f32[30000,8] parameter(0)
  m = f32[8,8] parameter(1)
  ROOT d = f32[30000,8] dot(x, m), lhs_contracting_dims={1}, rhs_contracting_dims={0}
)"),
            1U);
}

}  // namespace
}  // namespace tpu::test::column_products_test
