#include "workloads/compiler/passes/layout/dot_costs.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/compiler/machine_target.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::dot_costs_test {
namespace {

using compiler::DotCosts;

/// Two layers that are alike, and products of which each differs from theirs in one thing.
const char* const kProducts = R"(
HloModule products
ENTRY main {
  x = f32[64,256,256] parameter(0)
  y = f32[64,256,256] parameter(1)
  z = f32[64,256,256] parameter(2)
  small = f32[64,256,128] parameter(3)
  rounded = bf16[64,256,256] parameter(4)
  first = f32[64,256,256] dot(x, y), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}
  second = f32[64,256,256] dot(first, z), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}
  turned = f32[64,256,256] dot(x, y), lhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_batch_dims={0}, rhs_contracting_dims={1}
  other_side = f32[64,256,256] dot(x, y), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={2}
  narrow = f32[64,256,128] dot(x, small), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}
  half_right = f32[64,256,256] dot(y, rounded), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}
  half = f32[64,256,256] dot(rounded, y), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}
  precise = f32[64,256,256] dot(x, y), lhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_batch_dims={0}, rhs_contracting_dims={1}, operand_precision={highest,highest}
  ROOT all = (f32[64,256,256], f32[64,256,256], f32[64,256,256], f32[64,256,256], f32[64,256,128], f32[64,256,256], f32[64,256,256], f32[64,256,256]) tuple(first, second, turned, other_side, narrow, half, half_right, precise)
}
)";

/// Layers that are alike are asked for once, everything else and every other order by itself, with
/// the cost that it has when it is asked for alone.
TEST(DotCosts, DotsThatAreAlikeShareOne) {
  const hlo::Module module = hlo::read_hlo_text("products.hlo", kProducts);
  const hlo::Computation& entry = module.entry_computation();
  const compiler::Target target = target_of(MachineParams(), 1);
  DotCosts costs(target);
  const auto of = [&](DotCosts& asked, hlo::InstructionId id, const DotCosts::Orders& orders) {
    const hlo::HloInstruction& dot = entry.at(id);
    return &asked.of(dot, entry.at(dot.operands[0]).shape, entry.at(dot.operands[1]).shape, orders);
  };
  const std::vector<hlo::InstructionId>& dots = entry.at(entry.root).operands;
  const DotCosts::Orders rows{{{0, 1, 2}, {0, 1, 2}, {0, 1, 2}}},
      columns{{{0, 2, 1}, {0, 1, 2}, {0, 1, 2}}};
  std::set<const DotCosts::Cost*> seen;
  for (const hlo::InstructionId dot : dots) {
    for (const DotCosts::Orders& orders : {rows, columns}) {
      const DotCosts::Cost* cost = of(costs, dot, orders);
      seen.insert(cost);
      DotCosts fresh(target);
      const DotCosts::Cost* alone = of(fresh, dot, orders);
      EXPECT_EQ(cost->products, alone->products) << entry.at(dot).name;
      EXPECT_EQ(cost->copies, alone->copies) << entry.at(dot).name;
    }
  }
  EXPECT_EQ(of(costs, dots[0], rows), of(costs, dots[1], rows));
  EXPECT_EQ(seen.size(), 2 * (dots.size() - 1));
  // The left side of `turned` lies the other way round: its blocks are turned, or it is copied.
  EXPECT_EQ(of(costs, dots[0], rows)->copies, 0);
  EXPECT_GT(of(costs, dots[2], rows)->copies, 0);
}

}  // namespace
}  // namespace tpu::test::dot_costs_test
