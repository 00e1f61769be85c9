#include "workloads/xla/collective_tables.h"

#include <gtest/gtest.h>

namespace tpu::test::collective_tables_test {
namespace {

using Words = std::vector<std::uint32_t>;

hlo::HloInstruction collective(hlo::HloOpcode opcode,
                               std::vector<std::vector<std::int64_t>> groups = {}) {
  hlo::HloInstruction instruction;
  instruction.opcode = opcode;
  instruction.replica_groups = std::move(groups);
  return instruction;
}

/// The four words of a partition.
Words row(const Words& table, std::size_t partition) {
  return {table.begin() + static_cast<std::ptrdiff_t>(4 * partition),
          table.begin() + static_cast<std::ptrdiff_t>(4 * partition + 4)};
}

TEST(CollectiveTables, OneTableOfAGatherIsARing) {
  const Words table =
      xla::collective_table(collective(hlo::HloOpcode::kAllGather), 8, 32, {0, 0, 1});
  ASSERT_EQ(table.size(), 32u);
  EXPECT_EQ(row(table, 0), (Words{0, 1, 5, 0}));
  EXPECT_EQ(row(table, 3), (Words{3, 6, 2, 0}));  // Partition 4 is core 0 of chip 3.
  EXPECT_EQ(row(table, 7), (Words{7, 0, 4, 0}));
}

TEST(CollectiveTables, ThreeTablesOfAGatherAreTheAxesOfAGrid) {
  const auto table = [](std::uint32_t number) {
    return xla::collective_table(collective(hlo::HloOpcode::kAllGather), 8, 32, {0, number, 3});
  };
  // Partition 5 is 1, 0, 1 of the grid; its neighbours are partitions 1, 7 and 4.
  EXPECT_EQ(row(table(0), 5), (Words{1, 1, 1, 0}));
  EXPECT_EQ(row(table(1), 5), (Words{0, 5, 5, 0}));
  EXPECT_EQ(row(table(2), 5), (Words{1, 6, 6, 0}));
}

TEST(CollectiveTables, GroupsCountForThemselves) {
  const Words table = xla::collective_table(
      collective(hlo::HloOpcode::kAllGather, {{0, 2, 4, 6}, {1, 3, 5, 7}}), 8, 32, {0, 0, 2});
  EXPECT_EQ(row(table, 2), (Words{0, 4, 4, 0}));  // Beside partition 6, which is device 4.
  EXPECT_EQ(row(table, 7), (Words{1, 3, 3, 0}));
}

TEST(CollectiveTables, AreEmptyWhereNobodyTried) {
  EXPECT_TRUE(
      xla::collective_table(collective(hlo::HloOpcode::kAllReduce), 8, 32, {0, 0, 1}).empty());
  EXPECT_TRUE(
      xla::collective_table(collective(hlo::HloOpcode::kAllGather), 32, 128, {0, 0, 1}).empty());
  EXPECT_TRUE(
      xla::collective_table(collective(hlo::HloOpcode::kAllGather), 8, 32, {0, 0, 2}).empty());
  EXPECT_TRUE(
      xla::collective_table(collective(hlo::HloOpcode::kAllGather, {{0, 8}}), 8, 32, {0, 0, 1})
          .empty());
}

}  // namespace
}  // namespace tpu::test::collective_tables_test
