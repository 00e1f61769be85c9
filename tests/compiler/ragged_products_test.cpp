// Dots whose left side is cut in groups.

#include <gtest/gtest.h>

#include <string>

#include "tests/compiler/hlo_check.h"

namespace tpu::test::ragged_products_test {
namespace {

std::string product(const std::string& left, const std::string& right, const std::string& sizes,
                    const std::string& result, const std::string& dimensions) {
  return "HloModule r\nENTRY main {\n  a = " + left + " parameter(0)\n  b = " + right +
         " parameter(1)\n  g = " + sizes + " parameter(2)\n  ROOT r = " + result +
         " ragged-dot(a, b, g), " + dimensions + "\n}\n";
}

/// Sizes whose sum is below, at and beyond what there is.
HloCheck groups_of(double least, double most) {
  HloCheck check;
  check.least = least;
  check.most = most;
  return check;
}

const std::string kRows =
    "lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, rhs_group_dims={0}";

TEST(RaggedProducts, EachGroupOfRowsMeetsItsOwnMatrix) {
  for (const double most : {3.0, 9.0, 20.0}) {
    check_hlo(product("f32[40,20]", "f32[5,20,30]", "s32[5]", "f32[40,30]", kRows),
              groups_of(0, most));
  }
  check_hlo(product("bf16[40,20]", "bf16[5,20,30]", "s32[5]", "bf16[40,30]", kRows),
            groups_of(0, 9));
  check_hlo(product("f32[40,20]", "f32[30,20,5]", "s32[5]", "f32[40,30]",
                    "lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0}, "
                    "rhs_group_dims={2}"),
            groups_of(0, 9));
}

TEST(RaggedProducts, GroupsOfWhatIsContractedHaveProductsOfTheirOwn) {
  check_hlo(product("f32[40,20]", "f32[40,30]", "s32[5]", "f32[5,20,30]",
                    "lhs_contracting_dims={0}, rhs_contracting_dims={0}, lhs_ragged_dims={0}"),
            groups_of(0, 12));
}

TEST(RaggedProducts, BatchesHaveSizesOfTheirOwn) {
  const std::string batch = "lhs_batch_dims={0}, rhs_batch_dims={0}, ";
  for (const char* sizes : {"s32[3,4]", "s32[4]"}) {
    check_hlo(product("f32[3,14,6]", "f32[3,4,6,9]", sizes, "f32[3,14,9]",
                      batch + "lhs_contracting_dims={2}, rhs_contracting_dims={2}, "
                              "lhs_ragged_dims={1}, rhs_group_dims={1}"),
              groups_of(0, 5));
    check_hlo(product("f32[3,14,6]", "f32[3,14,9]", sizes, "f32[4,3,6,9]",
                      batch + "lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
                              "lhs_ragged_dims={1}"),
              groups_of(0, 5));
  }
}

TEST(RaggedProducts, RowsBeforeTheGroupsHaveSizesOfTheirOwn) {
  check_hlo(product("f32[3,14,6]", "f32[4,6,9]", "s32[3,4]", "f32[3,14,9]",
                    "lhs_contracting_dims={2}, rhs_contracting_dims={1}, lhs_ragged_dims={1}, "
                    "rhs_group_dims={0}"),
            groups_of(0, 5));
}

TEST(RaggedProducts, GroupsOfBatchesChangeNothing) {
  check_hlo(product("f32[8,14,6]", "f32[8,6,9]", "s32[4]", "f32[8,14,9]",
                    "lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, "
                    "rhs_contracting_dims={1}, lhs_ragged_dims={0}"),
            groups_of(0, 5));
}

}  // namespace
}  // namespace tpu::test::ragged_products_test
