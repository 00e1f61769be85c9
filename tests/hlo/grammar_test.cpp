#include <gtest/gtest.h>

#include <string>

#include "sim/base/error.h"
#include "workloads/hlo/annotations.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::hlo::grammar_test {
namespace {

Module read(const std::string& text) { return read_hlo_text("m.hlo", text); }

Module entry_of(const std::string& lines, const std::string& header = "HloModule m") {
  return read(header + "\nENTRY e {\n" + lines + "\n}\n");
}

std::string error_of(const std::string& lines) {
  try {
    verify(entry_of(lines));
  } catch (const WorkloadError& error) {
    return error.what();
  }
  return "no error";
}

/// The text of the module, which must read as the same module.
std::string printed(const Module& module) {
  const std::string text = to_string(module);
  EXPECT_EQ(to_string(read(text)), text);
  return text;
}

TEST(HloGrammar, AShapeThatIsNotStatedIsInferred) {
  const Module module = entry_of(
      "  a = f32[2,3] parameter(0)\n  b = transpose(a), dimensions={1,0}\n"
      "  ROOT t = tuple(b, a)");
  EXPECT_EQ(to_string(module.entry_computation().at(1).shape), "f32[3,2]");
  EXPECT_EQ(to_string(module.entry_computation().at(2).shape), "(f32[3,2], f32[2,3])");
}

TEST(HloGrammar, AShapeThatNothingImpliesMustBeStated) {
  EXPECT_EQ(error_of("  a = f32[2] parameter(0)\n  ROOT b = convert(a)").substr(0, 55),
            "m.hlo:4:12: expected a shape in front of this opcode, f");
}

TEST(HloGrammar, AnOperandMayBeAnInstructionItself) {
  const Module module = entry_of("  ROOT r = sqrt(f32[4] negate(f32[4] parameter(0)))");
  const Computation& entry = module.entry_computation();
  ASSERT_EQ(entry.instructions.size(), 3u);
  EXPECT_EQ(entry.at(0).name, "parameter.anon");
  EXPECT_EQ(entry.at(1).opcode, HloOpcode::kNegate);
  EXPECT_EQ(entry.at(entry.root).operands, (std::vector<InstructionId>{1}));
  printed(module);
}

TEST(HloGrammar, ANumberSignTakesAnElementOfATuple) {
  const Module module = entry_of(
      "  p = (f32[2], (s32[3], s32[4])) parameter(0)\n"
      "  ROOT n = s32[4] negate(s32[4] %p#1#1)");
  const Computation& entry = module.entry_computation();
  ASSERT_EQ(entry.instructions.size(), 4u);
  EXPECT_EQ(entry.at(1).tuple_index, 1);
  EXPECT_EQ(to_string(entry.at(1).shape), "(s32[3], s32[4])");
  EXPECT_EQ(entry.at(2).tuple_index, 1);
  printed(module);
}

TEST(HloGrammar, AComputationMayStandWhereItIsCalled) {
  const Module module = entry_of(
      "  a = f32[8] parameter(0)\n  z = f32[] constant(0)\n"
      "  ROOT r = f32[] reduce(a, z), dimensions={0}, to_apply=\n  {\n"
      "    x = f32[] parameter(0)\n    y = f32[] parameter(1)\n    ROOT s = f32[] add(x, y)\n  }");
  verify(module);
  ASSERT_EQ(module.computations.size(), 2u);
  EXPECT_EQ(module.computations[0].name, "computation.1");
  printed(module);
}

TEST(HloGrammar, AnAsyncStartNamedAfterItsOperationWrapsIt) {
  const Module module = entry_of(
      "  p = f32[8,2] parameter(0)\n"
      "  s = ((f32[8,2]), f32[4,2]{1,0:S(1)}, s32[]) slice-start(p), slice={[0:4], [0:2]}, "
      "async_execution_thread=\"copy\", metadata={op_name=\"n\"}\n"
      "  ROOT d = f32[4,2]{1,0:S(1)} slice-done(s)");
  const HloInstruction& start = module.entry_computation().at(1);
  EXPECT_EQ(start.opcode, HloOpcode::kAsyncStart);
  EXPECT_EQ(start.raw_attributes.get(), "async_execution_thread=\"copy\"");
  const Computation& wrapped = module.computation(start.called.at(0));
  EXPECT_EQ(wrapped.raw_attributes, "execution_thread=\"copy\"");
  EXPECT_EQ(wrapped.at(wrapped.root).opcode, HloOpcode::kSlice);
  EXPECT_EQ(wrapped.at(wrapped.root).slice->limits, (std::vector<std::int64_t>{4, 2}));
  EXPECT_EQ(module.entry_computation().at(2).opcode, HloOpcode::kAsyncDone);
  printed(module);
}

TEST(HloGrammar, CommentsAreBlanks) {
  const Module module = read_hlo_text(
      "m.hlo",
      "HloModule m // of a test\nENTRY e {\n  a = f32[2] /*index=0*/ parameter(0) /**/\n"
      "  ROOT t = (f32[2], /*index=1*/f32[2]) tuple(a, /*x=*/ a) // twice\n}\n");
  EXPECT_EQ(module.entry_computation().instructions.size(), 2U);
}

TEST(HloGrammar, OldTextsHaveTheShapeBeforeALiteral) {
  const Module module = read_hlo_text(
      "m.hlo", "HloModule m\nENTRY e {\n  ROOT a = s32[2] constant(s32[2] {1, 2})\n}\n");
  EXPECT_EQ(module.entry_computation().at(0).literal,
            (std::vector<std::uint8_t>{1, 0, 0, 0, 2, 0, 0, 0}));
}

TEST(HloGrammar, LiteralsKeepTheirBits) {
  const std::string text = printed(entry_of(
      "  a = f32[3] constant({nan, -nan, nan(0x12345)})\n  b = c64[2] constant({(1, -2.5), (0, "
      "inf)})\n"
      "  c = f8e4m3fn[3] constant({448, 0.015625, -0.001953125})\n  d = s4[2] constant({-8, 7})\n"
      "  e = (f32[2], s32[]) constant(({1, 2}, 3))\n  f = f16[2] constant({65504, 5.96e-08})\n"
      "  g = f32[2,0] constant({ {  }, {  } })\n  h = u64[] constant(18446744073709551615)\n"
      "  i = f32[2,2] constant(7)\n  j = bf16[3,5] constant({...})\n"
      "  ROOT t = () tuple()"));
  for (const char* part :
       {"{nan, -nan, nan(0x12345)}", "{(1, -2.5), (0, inf)}", "{448, 0.0156, -0.002}", "{-8, 7}",
        "constant(({1, 2}, 3))", "{6.55e+04, 5.96e-08}", "f32[2,0] constant({})",
        "18446744073709551615", "{{7, 7}, {7, 7}}", "bf16[3,5] constant({...})"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(HloGrammar, NumbersBeyondTheirTypeAndLiteralsOfOtherExtentAreRefused) {
  EXPECT_NE(error_of("  ROOT a = f16[] constant(65520)").find("the range of f16"),
            std::string::npos);
  EXPECT_NE(error_of("  ROOT a = s8[] constant(128)").find("from -128 to 127"), std::string::npos);
  EXPECT_NE(error_of("  ROOT a = f32[2,2] constant({1, 2, 3, 4})").find("expected \"{\""),
            std::string::npos);
  EXPECT_NE(
      error_of("  ROOT a = f32[2] constant({1, 2, 3})").find("the end of the literal after 2"),
      std::string::npos);
  EXPECT_NE(error_of("  ROOT a = f32[1000000000] constant(0)").find("at most 2^28 bytes"),
            std::string::npos);
}

TEST(HloGrammar, WhatTheGraphHasNoPlaceForIsKeptAsText) {
  const std::string line =
      "  ROOT %a = f32[<=4,2]{1,0:T(8,128)L(1024)E(32)S(5)} custom-call(), "
      "custom_call_target=\"x\", "
      "api_version=API_VERSION_TYPED_FFI, sharding={maximal device=0}, "
      "metadata={op_type=\"t\" op_name=\"n\\\"m\" source_line=3 source_end_line=4 "
      "profile_type={1} deduplicated_name=\"d\"}";
  EXPECT_NE(printed(entry_of(line)).find("f32[<=4,2]{1,0:T(8,128)L(1024)E(32)S(5)}"),
            std::string::npos);
  const std::string text = printed(entry_of(line));
  EXPECT_NE(text.find("api_version=API_VERSION_TYPED_FFI, sharding={maximal device=0}"),
            std::string::npos);
  EXPECT_NE(text.find("source_end_line=4 profile_type={1} deduplicated_name=\"d\""),
            std::string::npos);
}

TEST(HloGrammar, TheHeaderIsKept) {
  const Module module = entry_of(
      "  p = (f32[2], f32[2]) parameter(0)\n  x = f32[2] get-tuple-element(p), index=1\n"
      "  ROOT t = (f32[2], (f32[2], f32[2])) tuple(x, p)",
      "HloModule m, is_scheduled=true, input_output_alias={ {1,0}: (0, {1}, must-alias) }, "
      "entry_computation_layout={((f32[2]{0}, f32[2]{0:T(256)}))->(f32[2]{0}, (f32[2]{0}, "
      "f32[2]{0}))}, replica_count=2, num_partitions=4, "
      "frontend_attributes={a.b=\"c\",examples_per_step=\"8\",m={x = 1}}");
  EXPECT_EQ(module.replicas, 8);
  EXPECT_EQ(module.partitions, 4);
  EXPECT_EQ(module.examples_per_step, 8);
  ASSERT_EQ(module.aliases.size(), 1u);
  EXPECT_EQ(module.aliases[0].within_output, std::vector<std::int64_t>{0});
  EXPECT_EQ(module.aliases[0].within_parameter, std::vector<std::int64_t>{1});
  EXPECT_TRUE(module.aliases[0].must);
  const std::string text = printed(module);
  for (const char* part :
       {"is_scheduled=true", "{1,0}: (0, {1}, must-alias)", "f32[2]{0:T(256)}", "replica_count=2",
        "num_partitions=4", "examples_per_step=\"8\",a.b=\"c\",m={x = 1}"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(HloGrammar, GroupsKeepTheFormInWhichTheyAreStated) {
  const std::string before =
      "HloModule m\nadd { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, "
      "b) }\n";
  const auto with = [&](const std::string& groups) {
    return read(before +
                "ENTRY e {\n p = f32[4] parameter(0)\n ROOT r = f32[4] all-reduce(p), "
                "replica_groups=" +
                groups + ", to_apply=add\n}");
  };
  for (const char* groups : {"{}", "{{0,1},{2,3}}", "[2,2]<=[4]", "[2,2]<=[2,2]T(1,0)",
                             "mesh['x'=2,'y'=4] {'y':(2)2}", "mesh['x'=2,'y'=2] {'y','x'}"}) {
    EXPECT_NE(printed(with(groups)).find(std::string("replica_groups=") + groups + ","),
              std::string::npos)
        << groups;
  }
  using Groups = std::vector<std::vector<std::int64_t>>;
  const auto groups_of = [&](const std::string& text) {
    return with(text).entry_computation().at(1).replica_groups.get();
  };
  // 'y' is 4 = 2 outer x 2 inner: its inner part pairs neighbours.
  EXPECT_EQ(groups_of("mesh['x'=2,'y'=4] {'y':(2)2}"), (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(groups_of("mesh['x'=2,'y'=4] {'y':(1)2}"), (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  // The last axis listed is the minor one of the group.
  EXPECT_EQ(groups_of("mesh['x'=2,'y'=2] {'y','x'}"), (Groups{{0, 2, 1, 3}}));
  Module changed = with("[2,2]<=[4]");
  changed.entry_computation().at(1).replica_groups = Groups{{0, 3}, {1, 2}};
  EXPECT_NE(printed(changed).find("replica_groups={{0,3},{1,2}}"), std::string::npos);
}

TEST(HloGrammar, NestingBeyondReasonIsRefused) {
  std::string deep = "  ROOT r = ";
  for (int i = 0; i < 10000; ++i) deep += "negate(";
  EXPECT_NE(error_of(deep).find("at most 64 operands inside each other"), std::string::npos);
  std::string bodies = "  ROOT r = ";
  for (int i = 0; i < 10000; ++i) bodies += "f32[] call(), to_apply={ ROOT r = ";
  EXPECT_NE(error_of(bodies).find("at most 64 computations inside each other"), std::string::npos);
  EXPECT_NE(error_of("  ROOT r = " + std::string(10000, '(')).find("at most 64 nested tuples"),
            std::string::npos);
  std::string dimensions;
  for (int i = 0; i < 10000; ++i) dimensions += "1,";
  EXPECT_NE(error_of("  ROOT r = f32[" + dimensions + "1] parameter(0)").find("at most 255"),
            std::string::npos);
}

TEST(HloGrammar, ALongChainBackwardsIsPutInOrder) {
  std::string lines = "  ROOT n20000 = f32[] negate(n19999)\n";
  for (int i = 19999; i > 0; --i) {
    lines += "  n" + std::to_string(i) + " = f32[] negate(n" + std::to_string(i - 1) + ")\n";
  }
  const Module module = entry_of(lines + "  n0 = f32[] parameter(0)");
  EXPECT_EQ(module.entry_computation().at(0).name, "n0");
  EXPECT_EQ(module.entry_computation().root, 20000);
}

TEST(HloGrammar, OperandsOfAnotherShapeThanStatedAreRefused) {
  EXPECT_NE(error_of("  a = f32[2] parameter(0)\n  ROOT b = f32[2] negate(f32[3] a)")
                .find("m.hlo:4:26: expected the shape of this operand, f32[2], found \"f32[3] a"),
            std::string::npos);
}

TEST(Annotations, CutArraysAreFoundBeforeThePartitionerAlone) {
  const auto found = [](const std::string& sharding, const std::string& entry = "main") {
    return unpartitioned_annotation(
        read("HloModule m\nENTRY " + entry +
             " {\n ROOT p = f32[8,8] parameter(0), sharding=" + sharding + "\n}"));
  };
  EXPECT_EQ(found("{devices=[8,1]<=[8]}"), "instruction \"p\" with sharding={devices=[8,1]<=[8]}");
  EXPECT_EQ(found("{devices=[1,10]0,1,2,3,4,5,6,7,8,9}"),
            "instruction \"p\" with sharding={devices=[1,10]0,1,2,3,4,5,6,7,8,9}");
  EXPECT_EQ(found("{devices=[8,1]<=[8]}", "main.1_spmd"), "");
  EXPECT_EQ(found("{replicated}"), "");
  EXPECT_EQ(found("{devices=[1,1,8]<=[8] last_tile_dim_replicate}"), "");
  EXPECT_NE(found("{devices=[2,1,4]<=[8] last_tile_dim_replicate}"), "");
  const auto with_axes = [&found](const std::string& axes) {
    return found("{replicated}, frontend_attributes={xla.sdy.sharding=\"#sdy.sharding<@mesh, [" +
                 axes + "]>\"}");
  };
  EXPECT_EQ(with_axes("{}, {}"), "");
  EXPECT_EQ(with_axes(R"({\"data\"}, {})"), "instruction \"p\" with a sharding of Shardy");
}

}  // namespace
}  // namespace tpu::hlo::grammar_test
