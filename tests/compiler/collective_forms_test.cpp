#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "tests/compiler/hlo_check.h"

namespace tpu::test {
namespace {

std::string collective(const std::string& operand, const std::string& result,
                       const std::string& call, bool reduces = false) {
  const std::string type = operand.substr(0, operand.find('['));
  std::string text = "HloModule c, replica_count=4\n";
  if (reduces) {
    text += "sum {\n  a = " + type + "[] parameter(0)\n  b = " + type + "[] parameter(1)\n" +
            "  ROOT c = " + type + "[] add(a, b)\n}\nmost {\n  a = " + type +
            "[] parameter(0)\n  b = " + type + "[] parameter(1)\n  ROOT c = " + type +
            "[] maximum(a, b)\n}\n";
  }
  return text + "ENTRY main {\n  x = " + operand + " parameter(0)\n  ROOT r = " + result + " " +
         call + "\n}\n";
}

HloCheck four_cores() {
  HloCheck check;
  check.cores = 4;
  return check;
}

TEST(CollectiveForms, AllGatherJoinsTheArraysOfAllReplicas) {
  check_hlo(collective("f32[8,128]", "f32[32,128]", "all-gather(x), dimensions={0}"), four_cores());
  check_hlo(collective("f32[5,70]", "f32[5,280]",
                       "all-gather(x), dimensions={1}, replica_groups=[1,4]<=[4]"),
            four_cores());
  HloCheck check = four_cores();
  check.least = -2000000000;
  check.most = 2000000000;
  check_hlo(collective("s32[40]", "s32[160]", "all-gather(x), dimensions={0}"), check);
}

TEST(CollectiveForms, ReduceScatterLeavesEachReplicaItsPart) {
  check_hlo(collective("f32[32,128]", "f32[8,128]",
                       "reduce-scatter(x), dimensions={0}, to_apply=sum", true),
            four_cores());
}

TEST(CollectiveForms, AllToAllExchangesParts) {
  check_hlo(collective("f32[8,12,40]", "f32[8,12,40]", "all-to-all(x), dimensions={1}"),
            four_cores());
}

TEST(CollectiveForms, CollectivePermutePassesArraysOn) {
  check_hlo(collective("f32[8,128]", "f32[8,128]",
                       "collective-permute(x), source_target_pairs={{0,1},{1,2},{2,3},{3,0}}"),
            four_cores());
  // Who receives nothing has zeros.
  check_hlo(
      collective("f32[8,128]", "f32[8,128]", "collective-permute(x), source_target_pairs={{3,1}}"),
      four_cores());
}

TEST(CollectiveForms, AllReducesByOtherOperationsAndOfIntegers) {
  check_hlo(collective("f32[8,128]", "f32[8,128]", "all-reduce(x), to_apply=most", true),
            four_cores());
  HloCheck check = four_cores();
  check.least = -500000000;
  check.most = 500000000;
  check_hlo(collective("s32[8,128]", "s32[8,128]", "all-reduce(x), to_apply=sum", true), check);
}

TEST(CollectiveForms, ReplicasKnowTheirNumber) {
  check_hlo(
      "HloModule n, replica_count=4\nENTRY main {\n  x = u32[3] parameter(0)\n"
      "  i = u32[] partition-id()\n  b = u32[3] broadcast(i), dimensions={}\n"
      "  ROOT r = u32[3] add(x, b)\n}\n",
      four_cores());
}

TEST(CollectiveForms, GroupsOfSomeReplicasAreRefusedByName) {
  try {
    compiler::compile(
        hlo::read_hlo_text(
            "test.hlo", collective("f32[8,128]", "f32[16,128]",
                                   "all-gather(x), dimensions={0}, replica_groups={{0,1},{2,3}}")),
        target_of({}, 4));
    FAIL() << "expected a refusal";
  } catch (const WorkloadError& error) {
    EXPECT_NE(std::string(error.what()).find("found 2 groups of 2"), std::string::npos)
        << error.what();
  }
}

TEST(CollectiveForms, OneReplicaIsNotEnoughForAGather) {
  EXPECT_THROW(
      compiler::compile(hlo::read_hlo_text("test.hlo", collective("f32[8,128]", "f32[32,128]",
                                                                  "all-gather(x), dimensions={0}")),
                        target_of({}, 1)),
      WorkloadError);
}

}  // namespace
}  // namespace tpu::test
