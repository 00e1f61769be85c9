#include "workloads/compiler/passes/pass_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "sim/base/error.h"
#include "workloads/compiler/passes/memory/hbm_plan.h"
#include "workloads/compiler/passes/module_verifier.h"
#include "workloads/compiler/passes/pipeline.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::pass_table_test {
namespace {

using compiler::Fact;
using compiler::Facts;
using compiler::Pass;
using compiler::ScheduledModule;
using compiler::Stage;
using hlo::HloInstruction;
using hlo::HloOpcode;

/// What a broken table or module is refused with; empty when it is not.
std::string bug_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const SimulatorBug& bug) {
    return bug.what();
  }
  return "";
}

std::size_t row_of(const std::vector<Pass>& table, const std::string& name) {
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const Pass& pass) { return pass.name == name; });
  return static_cast<std::size_t>(found - table.begin());
}

std::string bug_of_order(const std::function<void(std::vector<Pass>&)>& disturb) {
  std::vector<Pass> table = compiler::pass_table();
  disturb(table);
  return bug_of([&] { compiler::check_order(table); });
}

TEST(PassTable, IsInOrder) {
  EXPECT_EQ(bug_of_order([](std::vector<Pass>&) {}), "");
}

TEST(PassTable, RefusesAPassWhoseNeedNobodyHasEstablished) {
  EXPECT_EQ(bug_of_order([](std::vector<Pass>& table) {
              table.erase(table.begin() + static_cast<std::ptrdiff_t>(row_of(table, "widen")));
            }),
            "table of passes: part_large_fusions needs \"types that memory holds\", which nothing "
            "before it establishes (no pass does)");
  EXPECT_EQ(bug_of_order([](std::vector<Pass>& table) {
              std::swap(table[row_of(table, "fuse")], table[row_of(table, "read_slices_in_place")]);
            }),
            "table of passes: read_slices_in_place needs \"fused\", which nothing before it "
            "establishes (there is fuse)");
}

TEST(PassTable, RefusesAPassThatComesTooLate) {
  EXPECT_EQ(bug_of_order([](std::vector<Pass>& table) {
              const std::size_t row = row_of(table, "join_padded_sums");
              const std::size_t layouts = row_of(table, "assign_layouts");
              std::rotate(table.begin() + static_cast<std::ptrdiff_t>(row),
                          table.begin() + static_cast<std::ptrdiff_t>(row) + 1,
                          table.begin() + static_cast<std::ptrdiff_t>(layouts) + 1);
            }),
            "table of passes: join_padded_sums has to stand before the pass that establishes "
            "\"layouts\"");
}

TEST(PassTable, RefusesPassesInTheWrongOrder) {
  EXPECT_EQ(bug_of_order([](std::vector<Pass>& table) {
              std::swap(table[row_of(table, "rewrite_convolutions")],
                        table[row_of(table, "rewrite_windows")]);
            }),
            "table of passes: rewrite_windows has to stand behind rewrite_convolutions");
  EXPECT_EQ(bug_of_order([](std::vector<Pass>& table) {
              std::swap(table[row_of(table, "rewrite_regular_gathers")],
                        table[row_of(table, "rewrite_indexed_access")]);
            }),
            "table of passes: rewrite_regular_gathers has to stand before rewrite_indexed_access");
  EXPECT_EQ(bug_of_order([](std::vector<Pass>& table) {
              table[row_of(table, "widen")].stage = Stage::kInline;
            }),
            "table of passes: widen stands behind a later stage");
}

/// A counted loop that reads a slice by its counter, a sum behind it.
constexpr const char* kLoop = R"(HloModule m

plus {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

body {
  s = (s32[], f32[8,128], f32[4,8,128]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8,128] get-tuple-element(s), index=1
  t = f32[4,8,128] get-tuple-element(s), index=2
  zero = s32[] constant(0)
  one = s32[] constant(1)
  slice = f32[1,8,128] dynamic-slice(t, i, zero, zero), dynamic_slice_sizes={1,8,128}
  row = f32[8,128] reshape(slice)
  y = f32[8,128] add(x, row)
  n = s32[] add(i, one)
  ROOT r = (s32[], f32[8,128], f32[4,8,128]) tuple(n, y, t)
}

condition {
  s = (s32[], f32[8,128], f32[4,8,128]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  four = s32[] constant(4)
  ROOT p = pred[] compare(i, four), direction=LT
}

ENTRY main {
  x = f32[8,128] parameter(0)
  t = f32[4,8,128] parameter(1)
  zero = s32[] constant(0)
  start = (s32[], f32[8,128], f32[4,8,128]) tuple(zero, x, t)
  loop = (s32[], f32[8,128], f32[4,8,128]) while(start), condition=condition, body=body
  y = f32[8,128] get-tuple-element(loop), index=1
  none = f32[] constant(0)
  ROOT sum = f32[8] reduce(y, none), dimensions={1}, to_apply=plus
}
)";

compiler::Target v3() {
  compiler::Target target;
  target.hbm_bytes = (std::uint64_t{16} << 30) - target.hbm_reserved_bytes;
  return target;
}

ScheduledModule scheduled_loop() {
  return compiler::schedule(hlo::read_hlo_text("loop.hlo", kLoop), v3(), nullptr);
}

HloInstruction& first(hlo::Module& module, HloOpcode opcode) {
  for (HloInstruction& instruction : module.entry_computation().instructions) {
    if (instruction.opcode == opcode) return instruction;
  }
  throw std::runtime_error("no such instruction");
}

/// The bug that the verifier finds in the loop, or in its body, after it has been disturbed.
std::string bug_of_module(const Facts& facts,
                          const std::function<void(ScheduledModule&)>& disturb) {
  ScheduledModule scheduled = scheduled_loop();
  disturb(scheduled);
  return bug_of([&] { compiler::verify_between_passes(scheduled, facts, "p"); });
}
ScheduledModule& body_of(ScheduledModule& scheduled) {
  return scheduled.regions.at(0).bodies.at(0);
}
std::string bug_of_body(const std::function<void(ScheduledModule&)>& disturb) {
  ScheduledModule scheduled = scheduled_loop();
  disturb(body_of(scheduled));
  return bug_of([&] { compiler::verify_between_passes(body_of(scheduled), {}, "p"); });
}

/// A bug whose text holds this.
void expect_bug(const std::string& bug, const std::string& part) {
  EXPECT_NE(bug.find("behind pass p: "), std::string::npos) << bug;
  EXPECT_NE(bug.find(part), std::string::npos) << bug;
}

const Facts kAll{Fact::kOutlined,    Fact::kLayouts,   Fact::kFused,
                 Fact::kStoredTypes, Fact::kScheduled, Fact::kPlanned};

TEST(ModuleVerifier, TakesAModuleBehindItsPasses) {
  EXPECT_EQ(bug_of_module(kAll, [](ScheduledModule&) {}), "");
  EXPECT_EQ(bug_of_body([](ScheduledModule&) {}), "");
}

TEST(ModuleVerifier, RefusesAShapeThatOperandsDoNotImply) {
  expect_bug(bug_of_module({},
                           [](ScheduledModule& scheduled) {
                             HloInstruction& element =
                                 first(scheduled.module, HloOpcode::kGetTupleElement);
                             element.shape.dimensions = {4, 4};
                           }),
             "which its operands imply");
}

TEST(ModuleVerifier, RefusesOperandsThatAreNot) {
  expect_bug(bug_of_module({},
                           [](ScheduledModule& scheduled) {
                             first(scheduled.module, HloOpcode::kGetTupleElement).operands[0] =
                                 4000;
                           }),
             "expected operands that stand before it");
}

TEST(ModuleVerifier, RefusesCyclesOfControlPredecessors) {
  const auto disturb = [](ScheduledModule& scheduled) {
    HloInstruction& parameter = first(scheduled.module, HloOpcode::kParameter);
    parameter.control_predecessors.edit() = {scheduled.module.entry_computation().root};
  };
  expect_bug(
      bug_of_module({},
                    [&](ScheduledModule& scheduled) {
                      const hlo::Computation& entry = scheduled.module.entry_computation();
                      disturb(scheduled);
                      first(scheduled.module, HloOpcode::kWhile).control_predecessors.edit() = {
                          entry.root};
                    }),
      "it waits for itself");
  expect_bug(
      bug_of_module(
          {Fact::kScheduled},
          [&](ScheduledModule& scheduled) {
            const hlo::Computation& entry = scheduled.module.entry_computation();
            scheduled.module.entry_computation().instructions[0].control_predecessors.edit() = {
                entry.root == 1 ? 2 : 1};
          }),
      "control predecessors in front of it");
}

TEST(ModuleVerifier, RefusesLayoutsThatAreNoOrder) {
  expect_bug(
      bug_of_module(
          {Fact::kLayouts},
          [](ScheduledModule& scheduled) {
            first(scheduled.module, HloOpcode::kParameter).shape.layout.minor_to_major = {1, 1};
          }),
      "expected a layout with each of 2 dimensions once");
}

TEST(ModuleVerifier, RefusesRegionsThatAreNotOrDoNotFit) {
  expect_bug(bug_of_module({},
                           [](ScheduledModule& scheduled) {
                             first(scheduled.module, HloOpcode::kWhile).tuple_index = 1;
                           }),
             "expected a region of its module");
  expect_bug(bug_of_module({},
                           [](ScheduledModule& scheduled) {
                             first(scheduled.module, HloOpcode::kWhile).operands.push_back(0);
                           }),
             "expected bodies that take all of its operands");
  expect_bug(bug_of_module({},
                           [](ScheduledModule& scheduled) {
                             std::vector<hlo::InstructionId>& operands =
                                 first(scheduled.module, HloOpcode::kWhile).operands;
                             std::rotate(operands.begin(), operands.begin() + 1, operands.end());
                           }),
             "expected operands that its bodies' parameters take");
}

TEST(ModuleVerifier, RefusesPlacesOutsideOfTheArray) {
  expect_bug(bug_of_body([](ScheduledModule& body) {
               first(body.module, HloOpcode::kDynamicSlice).slice.edit().strides[0] = 2;
             }),
             "expected places inside of its array");
  expect_bug(bug_of_body([](ScheduledModule& body) { body.counter.reset(); }),
             "expected a counted loop around its place");
}

TEST(ModuleVerifier, RefusesAPlanThatLacksPlaces) {
  expect_bug(
      bug_of_module({Fact::kPlanned},
                    [](ScheduledModule& scheduled) { scheduled.plan.granules_of.pop_back(); }),
      "places of");
  expect_bug(bug_of_module({Fact::kPlanned},
                           [](ScheduledModule& scheduled) { scheduled.plan.peak_granules = 1; }),
             "expected a place below the peak of the plan");
}

/// Rules of one instruction, by a module that breaks each.
TEST(ModuleVerifier, RefusesWhatAFactSaysIsGone) {
  struct Case {
    Fact fact;
    const char* text;
    const char* bug;
  };
  const std::vector<Case> cases{
      {Fact::kFlat,
       "f { x = f32[8] parameter(0) ROOT n = f32[8] negate(x) } ENTRY e { x = f32[8] parameter(0) "
       "ROOT c = f32[8] call(x), to_apply=f }",
       "no call in the entry"},
      {Fact::kInWords, "ENTRY e { x = s8[8] parameter(0) ROOT n = s8[8] negate(x) }",
       "a type that the lanes hold"},
      {Fact::kFused, "ENTRY e { x = f32[8] parameter(0) ROOT n = f32[8] negate(x) }",
       "a fusion around it"},
      {Fact::kWhole,
       "ENTRY e { x = f32[8] parameter(0) s = (f32[8], f32[8], u32[]) copy-start(x) ROOT d = "
       "f32[8] copy-done(s) }",
       "no start of an operation"},
      {Fact::kStoredTypes,
       "ENTRY e { x = f32[8,128] parameter(0) ROOT c = pred[8,128] compare(x, x), direction=LT }",
       "a type that memory holds"},
      {Fact::kLayouts, "ENTRY e { x = f32[8,128] parameter(0) ROOT n = f32[8,128] negate(x) }",
       "expected a layout"},
  };
  for (const Case& broken : cases) {
    ScheduledModule scheduled;
    scheduled.module = hlo::read_hlo_text("case.hlo", std::string("HloModule m\n") + broken.text);
    if (broken.fact == Fact::kLayouts) {
      first(scheduled.module, HloOpcode::kNegate).shape.layout.minor_to_major.clear();
    }
    EXPECT_EQ(bug_of([&] { compiler::verify_between_passes(scheduled, {}, "p"); }), "");
    expect_bug(bug_of([&] { compiler::verify_between_passes(scheduled, {broken.fact}, "p"); }),
               broken.bug);
  }
}

TEST(ModuleVerifier, RefusesGroupsWithoutANumberAndLoopsThatAreNotOutlined) {
  ScheduledModule groups;
  groups.module = hlo::read_hlo_text(
      "groups.hlo",
      "HloModule m\nplus { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) "
      "}\nENTRY e { x = f32[8] parameter(0) ROOT r = f32[8] all-reduce(x), "
      "replica_groups={{0,1},{2,3}}, to_apply=plus }");
  expect_bug(bug_of([&] { compiler::verify_between_passes(groups, {Fact::kGroupsNumbered}, "p"); }),
             "a number of its groups");
  ScheduledModule loop;
  loop.module = hlo::read_hlo_text("loop.hlo", kLoop);
  expect_bug(bug_of([&] { compiler::verify_between_passes(loop, {Fact::kOutlined}, "p"); }),
             "a region in the place of computations");
}

/// What --dump-after prints is HLO that our reader takes and prints again; of all passes, those of
/// bodies among them, one is the last.
TEST(PassTable, EveryDumpReadsBack) {
  std::size_t dumps = 0, calls = 0;
  std::string last;
  compiler::schedule(hlo::read_hlo_text("loop.hlo", kLoop), v3(), nullptr,
                     [&](const compiler::PassResult& result) {
                       const std::string text = hlo::to_string(result.module());
                       const hlo::Module read = hlo::read_hlo_text(result.pass(), text);
                       EXPECT_EQ(hlo::to_string(read), text) << result.pass();
                       EXPECT_EQ(last, "") << result.pass();
                       if (result.is_last()) last = result.pass();
                       ++dumps;
                       calls += text.find("tpusim.while.region0") != std::string::npos;
                       calls += text.find("tpusim.dynamic-slice.by_iteration") != std::string::npos;
                     });
  EXPECT_GT(dumps, compiler::pass_table().size());
  EXPECT_GT(calls, 10U);
  EXPECT_EQ(last, compiler::pass_table().back().name);
}

}  // namespace
}  // namespace tpu::test::pass_table_test
