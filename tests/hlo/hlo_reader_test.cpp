#include "workloads/hlo/hlo_reader.h"

#include <gtest/gtest.h>

#include <cstring>

#include "sim/base/error.h"

namespace tpu::hlo::hlo_reader_test {
namespace {

const char kModule[] =
    R"(HloModule step, input_output_alias={ {0}: (1, {}, may-alias) }, replica_count=2

FileNames
1 "train.py"

FunctionNames
1 "step"

FileLocations
1 {file_name_id=1 function_name_id=1 line=42 end_line=42 column=3 end_column=9}

StackFrames
1 {file_location_id=1 parent_frame_id=1}

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %add = f32[] add(f32[] %a, f32[] %b)
}

ENTRY main {
  images = f32[8,14,14,3]{3,2,1,0} parameter(0)
  weights = f32[3,3,3,16]{3,2,1,0} parameter(1)
  conv = f32[8,7,7,16]{3,2,1,0} convolution(images, weights), window={size=3x3 stride=2x2 pad=0_1x1_0 rhs_reversal=0x1}, dim_labels=b01f_01io->b01f, metadata={op_name="jit(step)/conv" stack_frame_id=1}
  zero = f32[] constant(0)
  total = f32[16]{0} reduce(conv, zero), dimensions={0,1,2}, to_apply=%sum
  all = f32[16]{0} all-reduce(total), replica_groups=[2,2]<=[2,2]T(1,0), to_apply=sum
  ROOT out = (f32[3,3,3,16]{3,2,1,0}, /*index=1*/f32[16]{0}) tuple(weights, all)
}
)";

std::string error_of(const std::string& text) {
  try {
    read_hlo_text("m.hlo", text);
  } catch (const WorkloadError& error) {
    return error.what();
  }
  return "no error";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

TEST(HloReader, ReadsOperandsAttributesAliasesAndSourceLines) {
  const Module module = read_hlo_text("m.hlo", kModule);
  verify(module);
  EXPECT_EQ(module.replicas, 2);
  ASSERT_EQ(module.aliases.size(), 1u);
  EXPECT_EQ(module.aliases[0].parameter_number, 1);
  const Computation& entry = module.entry_computation();
  const HloInstruction& convolution = entry.at(2);
  EXPECT_EQ(convolution.opcode, HloOpcode::kConvolution);
  EXPECT_EQ(convolution.window[0].padding_high, 1);
  EXPECT_EQ(convolution.window[1].padding_low, 1);
  EXPECT_TRUE(convolution.window[1].reversal);
  EXPECT_EQ(convolution.convolution->input_spatial, (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(convolution.convolution->kernel_output_feature, 3);
  EXPECT_EQ(source_of(module, convolution.metadata), "train.py:42");
  EXPECT_EQ(entry.at(4).called, (std::vector<ComputationId>{0}));
}

TEST(HloReader, ExpandsIotaGroupsWithTransposedAxes) {
  const Module module = read_hlo_text("m.hlo", kModule);
  // [2,2]<=[2,2]T(1,0): devices 0 1 / 2 3 read by columns.
  EXPECT_EQ(module.entry_computation().at(5).replica_groups.get(),
            (std::vector<std::vector<std::int64_t>>{{0, 2}, {1, 3}}));
}

TEST(HloReader, ExpandsMeshGroupsAlongTheNamedAxes) {
  const Module module =
      read_hlo_text("m.hlo", replaced(kModule, "[2,2]<=[2,2]T(1,0)", "mesh['x'=2,'y'=2] {'x'}"));
  EXPECT_EQ(module.entry_computation().at(5).replica_groups.get(),
            (std::vector<std::vector<std::int64_t>>{{0, 2}, {1, 3}}));
}

TEST(HloReader, ReadsLiteralsOfEachKind) {
  const Module module = read_hlo_text("m.hlo", R"(HloModule m
ENTRY e {
  a = f32[2,2]{1,0} constant({ { 1, -2.5 }, { inf, 1e-3 } })
  b = bf16[2]{0} constant({1.00390625, 3})
  c = pred[3]{0} constant({true, false, 1})
  d = s32[] constant(-7)
  e = f32[4096]{0} constant({...})
  ROOT t = (f32[2,2]{1,0}, bf16[2]{0}, pred[3]{0}, s32[], f32[4096]{0}) tuple(a, b, c, d, e)
})");
  const Computation& entry = module.entry_computation();
  float values[4];
  ASSERT_EQ(entry.at(0).literal.size(), sizeof values);
  std::memcpy(values, entry.at(0).literal.data(), sizeof values);
  EXPECT_EQ(values[1], -2.5f);
  EXPECT_EQ(values[2], std::numeric_limits<float>::infinity());
  // 1.00390625 lies half way between two bf16 numbers: the even one is 1.
  EXPECT_EQ(entry.at(1).literal, (std::vector<std::uint8_t>{0x80, 0x3f, 0x40, 0x40}));
  EXPECT_EQ(entry.at(2).literal, (std::vector<std::uint8_t>{1, 0, 1}));
  EXPECT_EQ(entry.at(3).literal, (std::vector<std::uint8_t>{0xf9, 0xff, 0xff, 0xff}));
  EXPECT_TRUE(entry.at(4).literal.empty());
}

TEST(HloReader, PutsOperandsBeforeTheirUsers) {
  const Module module = read_hlo_text("m.hlo", R"(HloModule m
ENTRY e {
  ROOT b = f32[] negate(a)
  a = f32[] parameter(0)
})");
  EXPECT_EQ(module.entry_computation().at(0).name, "a");
  EXPECT_EQ(module.entry_computation().root, 1);
}

TEST(HloReader, NamesTheCauseAndThePlaceOfAnError) {
  EXPECT_EQ(error_of(replaced(kModule, "tuple(weights", "tuple(weight")).substr(0, 70),
            "m.hlo:28:68: expected an instruction of this computation, found \"weigh");
  EXPECT_NE(error_of(replaced(kModule, "dimensions={0,1,2}", "dimensions={0,1,x}"))
                .find("m.hlo:26:58: expected an element of the list, an integer, found \"x}"),
            std::string::npos);
  EXPECT_NE(
      error_of(replaced(kModule, "convolution(", "convolve(")).find("expected an opcode of HLO"),
      std::string::npos);
  EXPECT_NE(error_of(replaced(kModule, "to_apply=%sum", "to_apply=%none"))
                .find("expected a computation of this module"),
            std::string::npos);
}

TEST(HloReader, RefusesModulesThatEndInMidAirAndCycles) {
  const std::string whole = kModule;
  for (std::size_t length = 0; length + 3 < whole.size(); length += 7) {
    EXPECT_NE(error_of(whole.substr(0, length)), "no error") << length;
  }
  EXPECT_NE(error_of("HloModule m\nENTRY e {\n a = f32[] negate(b)\n ROOT b = f32[] negate(a)\n}")
                .find("is among its own operands"),
            std::string::npos);
  EXPECT_NE(
      error_of(
          "HloModule m\nENTRY e {\n p = f32[] parameter(0)\n ROOT b = f32[] call(p), to_apply=e\n}")
          .find("calls itself"),
      std::string::npos);
  EXPECT_NE(error_of("HloModule m, x=" + std::string(10000, '{')).find("nested brackets"),
            std::string::npos);
  EXPECT_NE(error_of("HloModule m, x={\"y}\n").find("the closing quote of this string"),
            std::string::npos);
  EXPECT_NE(error_of("HloModule m\nENTRY e {\n ROOT a = f32[1000000000] constant({1, 2})\n}")
                .find("1000000000 elements"),
            std::string::npos);
}

}  // namespace
}  // namespace tpu::hlo::hlo_reader_test
