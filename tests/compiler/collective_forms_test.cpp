#include <gtest/gtest.h>

#include "models/machine.h"
#include "sim/base/error.h"
#include "tests/compiler/hlo_check.h"
#include "tests/compiler/machine_target.h"
#include "workloads/compiler/compiler.h"
#include "workloads/compiler/passes/expand/async_pairs.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::collective_forms_test {
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

TEST(CollectiveForms, CollectivePermutePassesSeveralArraysOnAlsoOfATuple) {
  const std::string pairs = ", source_target_pairs={{0,1},{1,2},{3,0}}";
  const std::string head =
      "HloModule c, replica_count=4\nENTRY main {\n  x = f32[8,128] parameter(0)\n"
      "  y = s32[9] parameter(1)\n";
  const std::string both = "(f32[8,128], s32[9])";
  check_hlo(head + "  ROOT r = " + both + " collective-permute(x, y)" + pairs + "\n}\n",
            four_cores());
  check_hlo(head + "  t = " + both + " tuple(x, y)\n  ROOT r = " + both + " collective-permute(t)" +
                pairs + "\n}\n",
            four_cores());
  // Of one replica, which receives nothing.
  check_hlo(head + "  t = " + both + " tuple(x, y)\n  ROOT r = " + both +
            " collective-permute(t), source_target_pairs={}\n}\n");
}

/// What the compiler says of a text that it refuses.
std::string refusal_of(const std::string& text, std::uint32_t cores = 1) {
  compiler::Target target;
  target.cores = cores;
  target.hbm_bytes = std::uint64_t{1} << 30;
  try {
    compiler::compile(hlo::read_hlo_text("test.hlo", text), target);
  } catch (const WorkloadError& error) {
    return error.what();
  }
  return "";
}

TEST(CollectiveForms, CollectivePermuteOfPartsInPlaceIsRefused) {
  for (const std::uint32_t cores : {1U, 4U}) {
    const std::string refusal = refusal_of(
        "HloModule m\nENTRY e {\n  b = u32[2,8,128] parameter(0)\n"
        "  t = (u32[2,8,128], u32[2,8,128]) tuple(b, b)\n  z = s32[] constant(0)\n"
        "  s = (s32[], s32[], s32[]) tuple(z, z, z)\n"
        "  ROOT c = (u32[2,8,128], u32[2,8,128]) collective-permute(t, t, s, s), "
        "slice_sizes={{1,8,128}}\n}\n",
        cores);
    EXPECT_NE(refusal.find("expected arrays of the shapes of its results"), std::string::npos)
        << refusal;
  }
}

TEST(CollectiveForms, AllReducesByOtherOperationsAndOfIntegers) {
  check_hlo(collective("f32[8,128]", "f32[8,128]", "all-reduce(x), to_apply=most", true),
            four_cores());
  HloCheck check = four_cores();
  check.least = -500000000;
  check.most = 500000000;
  check_hlo(collective("s32[8,128]", "s32[8,128]", "all-reduce(x), to_apply=sum", true), check);
}

/// Large enough that each replica combines a part of all arrays, which no part fills.
TEST(CollectiveForms, LargeAllReducesByOtherOperationsGoInParts) {
  HloCheck check = four_cores();
  check.least = -500000000;
  check.most = 500000000;
  for (const char* groups : {"", ", replica_groups={{0,3},{2,1}}"}) {
    const std::string most = std::string("all-reduce(x), to_apply=most") + groups;
    check_hlo(collective("f32[70,128]", "f32[70,128]", most, true), four_cores());
    check_hlo(collective("bf16[9000]", "bf16[9000]", most, true), four_cores());
    check_hlo(collective("s32[3,41,40]", "s32[3,41,40]",
                         std::string("all-reduce(x), to_apply=sum") + groups, true),
              check);
  }
}

/// An array of n words crosses the links about twice, not once for each replica.
TEST(CollectiveForms, IntegersCostAboutWhatFloatingSumsDo) {
  const auto cycles = [](const std::string& type, std::uint32_t cores) {
    const std::string array = type + "[1048576]";
    std::string text = collective(array, array, "all-reduce(x), to_apply=sum", true);
    text.replace(text.find("count=4"), 7, "count=" + std::to_string(cores));
    MachineParams params;
    params.ici.mesh_x = params.ici.mesh_y = cores == 32 ? 4 : 2;
    const isa::Program program =
        compiler::compile(hlo::read_hlo_text("t.hlo", text), target_of(params, cores));
    Machine machine(params, program);
    return static_cast<double>(machine.run(RunOptions()).cycles);
  };
  EXPECT_LT(cycles("s32", 8), 3 * cycles("f32", 8));
  EXPECT_LT(cycles("s32", 32), 3 * cycles("f32", 32));
}

TEST(CollectiveForms, ReplicasKnowTheirNumber) {
  check_hlo(
      "HloModule n, replica_count=4\nENTRY main {\n  x = u32[3] parameter(0)\n"
      "  i = u32[] partition-id()\n  b = u32[3] broadcast(i), dimensions={}\n"
      "  ROOT r = u32[3] add(x, b)\n}\n",
      four_cores());
}

TEST(CollectiveForms, GroupsOfSomeReplicasWorkAmongThemselves) {
  for (const char* groups : {"{{0,1},{2,3}}", "{{0,2},{3,1}}", "[2,2]<=[2,2]T(1,0)"}) {
    SCOPED_TRACE(groups);
    const std::string attribute = std::string(", replica_groups=") + groups;
    check_hlo(collective("f32[8,128]", "f32[16,128]", "all-gather(x), dimensions={0}" + attribute),
              four_cores());
    check_hlo(collective("f32[16,40]", "f32[16,20]",
                         "reduce-scatter(x), dimensions={1}, to_apply=sum" + attribute, true),
              four_cores());
    check_hlo(
        collective("f32[30,50]", "f32[30,50]", "all-reduce(x), to_apply=sum" + attribute, true),
        four_cores());
    check_hlo(collective("s32[70]", "s32[70]", "all-reduce(x), to_apply=most" + attribute, true),
              four_cores());
    check_hlo(collective("f32[8,12]", "f32[8,12]", "all-to-all(x), dimensions={1}" + attribute),
              four_cores());
  }
}

TEST(CollectiveForms, RingsOfOtherGroupsFollowEachOtherWithoutMixingTheirCredits) {
  // Eight sums along rows and columns of the replicas by turns, of different sizes.
  std::string text =
      "HloModule c, replica_count=4\nsum {\n  a = f32[] parameter(0)\n  b = f32[] "
      "parameter(1)\n  ROOT c = f32[] add(a, b)\n}\nENTRY main {\n  x0 = "
      "f32[640,128] parameter(0)\n";
  for (int i = 0; i < 8; ++i) {
    const std::string from = "x" + std::to_string(i), to = "x" + std::to_string(i + 1);
    text += "  r" + std::to_string(i) + " = f32[640,128] all-reduce(" + from +
            "), to_apply=sum, replica_groups=" + (i % 2 == 0 ? "{{0,1},{2,3}}" : "{{0,2},{1,3}}") +
            "\n  " + to + " = f32[640,128] tanh(r" + std::to_string(i) + ")\n";
  }
  check_hlo(text + "  ROOT r = f32[640,128] negate(x8)\n}\n", four_cores());
}

TEST(CollectiveForms, SeveralArraysOfAllTypesAreGathered) {
  HloCheck check = four_cores();
  check_hlo(
      "HloModule g, replica_count=4\nENTRY main {\n  a = bf16[3,1100] parameter(0)\n  b = pred[9] "
      "parameter(1)\n  c = f32[2500] parameter(2)\n  d = u32[] parameter(3)\n  e = u32[1] "
      "reshape(d)\n  ROOT r = (bf16[3,4400], pred[36], f32[10000], u32[4]) tuple(g0, g1, g2, "
      "g3)\n  g0 = bf16[3,4400] all-gather(a), dimensions={1}\n  g1 = pred[36] all-gather(b), "
      "dimensions={0}\n  g2 = f32[10000] all-gather(c), dimensions={0}\n  g3 = u32[4] "
      "all-gather(e), dimensions={0}\n}\n",
      check);
  check_hlo(
      "HloModule g, replica_count=4\nENTRY main {\n  a = f32[3,16] parameter(0)\n  b = s32[8,8] "
      "parameter(1)\n  ROOT g = (f32[12,16], s32[32,8]) all-gather(a, b), dimensions={0}\n}\n",
      check);
}

TEST(CollectiveForms, OperandsThatAnUpdateBringsAreThoseOfTheOperation) {
  hlo::Module module = hlo::read_hlo_text(
      "test.hlo",
      "HloModule m\nf {\n  x = f32[9] parameter(0)\n  y = f32[9] parameter(1)\n"
      "  ROOT z = f32[9] subtract(x, y)\n}\nENTRY main {\n  p = f32[9] parameter(0)\n"
      "  s = ((), f32[9], s32[]) async-start(), calls=f\n  q = f32[9] negate(p)\n"
      "  u = ((f32[9], f32[9]), f32[9], s32[]) async-update(s, p, q)\n"
      "  d = f32[9] async-done(u)\n  ROOT e = f32[9] exponential(d)\n}\n");
  compiler::join_async_pairs(module);
  const std::string joined = to_string(module);
  EXPECT_NE(joined.find("%d = f32[9] call(%p, %q), to_apply=%f"), std::string::npos) << joined;
  check_hlo(joined);
}

TEST(CollectiveForms, PairsWithoutTheirStartOrOperandsAreRefused) {
  const std::string head =
      "HloModule m\nf {\n  x = f32[2,3] parameter(0)\n  ROOT z = f32[2,3] add(x, x)\n}\n"
      "ENTRY main {\n  p = f32[2,3] parameter(0)\n";
  const std::string state = "((f32[2,3]), f32[2,3], s32[])";
  EXPECT_NE(refusal_of(head + "  s = " + state + " async-start(p), calls=f\n  ROOT u = " + state +
                       " async-update()\n}\n")
                .find("u: expected the start of its operation as operand, found none"),
            std::string::npos);
  EXPECT_NE(refusal_of(head + "  s = " + state +
                       " async-start(), calls=f\n  ROOT u = " + "f32[2,3] async-done(s)\n}\n")
                .find("expected 1 operands for the computation that it starts, found 0"),
            std::string::npos);
}

TEST(CollectiveForms, SplitOperationsAreJoinedWhereTheyStart) {
  hlo::Module module = hlo::read_hlo_text(
      "test.hlo",
      "HloModule a, replica_count=4\nsum {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  "
      "ROOT c = f32[] add(a, b)\n}\nENTRY main {\n  x = f32[8,128] parameter(0)\n  s = "
      "(f32[8,128], f32[32,128]) all-gather-start(x), dimensions={0}\n  y = f32[8,128] "
      "negate(x)\n  t = f32[8,128] all-reduce-start(y), to_apply=sum\n  v = ((f32[8,128]), "
      "f32[8,128], s32[]) tanh-start(y)\n  d = f32[32,128] all-gather-done(s)\n  u = f32[8,128] "
      "all-reduce-done(t)\n  w = f32[8,128] tanh-done(v)\n  ROOT r = (f32[32,128], f32[8,128], "
      "f32[8,128]) tuple(d, u, w)\n}\n");
  compiler::join_async_pairs(module);
  const std::string text = to_string(module);
  EXPECT_EQ(text.find("-start"), std::string::npos) << text;
  EXPECT_EQ(text.find("-done"), std::string::npos) << text;
  check_hlo(text, four_cores());
}

TEST(CollectiveForms, GroupsThatLeaveAReplicaOutAreRefusedByName) {
  try {
    compiler::compile(hlo::read_hlo_text("test.hlo", collective("f32[8,128]", "f32[16,128]",
                                                                "all-gather(x), dimensions={0}, "
                                                                "replica_groups={{0,1}}")),
                      target_of({}, 4));
    FAIL() << "expected a refusal";
  } catch (const WorkloadError& error) {
    EXPECT_NE(std::string(error.what()).find("found 1 group of 2"), std::string::npos)
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

/// Groups of three and one, of one, two and one: an all-reduce keeps its shape whatever its group.
TEST(CollectiveForms, AllReducesOverGroupsOfDifferentSizes) {
  HloCheck integers = four_cores();
  integers.least = -500000000;
  integers.most = 500000000;
  for (const char* groups :
       {", replica_groups={{0,3,1},{2}}", ", replica_groups={{1},{3,0},{2}}"}) {
    const std::string sum = std::string("all-reduce(x), to_apply=sum") + groups;
    const std::string most = std::string("all-reduce(x), to_apply=most") + groups;
    check_hlo(collective("f32[8,128]", "f32[8,128]", sum, true), four_cores());
    check_hlo(collective("bf16[3,50]", "bf16[3,50]", sum, true), four_cores());
    check_hlo(collective("f32[70,128]", "f32[70,128]", most, true), four_cores());
    check_hlo(collective("s32[3,41,40]", "s32[3,41,40]", sum, true), integers);
    check_hlo(collective("s32[7]", "s32[7]", most, true), integers);
  }
}

/// Each array of a tuple has its own kind of sum, over the same groups.
TEST(CollectiveForms, AnAllReduceOfSeveralArraysOverGroupsOfDifferentSizes) {
  check_hlo(
      "HloModule c, replica_count=4\nsum {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
      "  ROOT c = f32[] add(a, b)\n}\nENTRY main {\n  x = f32[8,128] parameter(0)\n"
      "  y = f32[3,50] parameter(1)\n  z = f32[3,50] negate(y)\n"
      "  ROOT r = (f32[8,128], f32[3,50], f32[3,50]) all-reduce(x, y, z), to_apply=sum, "
      "replica_groups={{0,3,1},{2}}\n}\n",
      four_cores());
}

TEST(CollectiveForms, OtherCollectivesOverGroupsOfDifferentSizesAreRefused) {
  const std::string refusal =
      refusal_of(collective("f32[8,128]", "f32[24,128]",
                            "all-gather(x), dimensions={0}, replica_groups={{0,1,3},{2}}"),
                 4);
  EXPECT_NE(refusal.find("expected groups of equal size (of an all-reduce alone they may differ"),
            std::string::npos)
      << refusal;
  EXPECT_NE(refusal.find("found one of 3 and one of 1"), std::string::npos) << refusal;
}

}  // namespace
}  // namespace tpu::test::collective_forms_test
