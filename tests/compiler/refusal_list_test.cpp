#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "tests/compiler/hlo_check.h"
#include "workloads/compiler/compiler.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::refusal_list_test {
namespace {

std::string refusal_of(const std::string& text) {
  try {
    compiler::compile(hlo::read_hlo_text("test.hlo", text), target_of({}, 1));
  } catch (const WorkloadError& error) {
    return error.what();
  }
  return "";
}

TEST(RefusalList, NamesEveryKindWithItsNumberAndItsBytes) {
  const std::string text = refusal_of(
      "HloModule r\nENTRY main {\n  x = f32[8,128] parameter(0)\n  i = s32[8,128] parameter(1)\n"
      "  z = f32[] constant(0)\n  n = s32[] constant(0)\n"
      "  c = f32[8,128] custom-call(x), custom_call_target=\"attention\"\n"
      "  d = f32[8,128] custom-call(c), custom_call_target=\"attention\"\n"
      "  ROOT r = (f32[8,16], s32[8,16]) custom-call(d, i, z, n), "
      "custom_call_target=\"PartialReduce\"\n}\n");
  EXPECT_NE(text.find("2 operations have no kernel"), std::string::npos) << text;
  EXPECT_NE(text.find("custom-call(f32[8,128]) -> f32[8,128], 2 times, 0 FLOPs, 16.00K of HBM"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("a call of \"attention\""), std::string::npos) << text;
  EXPECT_NE(text.find("expected a PartialReduce with log2_reduction"), std::string::npos) << text;
}

TEST(RefusalList, NamesTheFirstOperationsOriginAndItsLine) {
  const std::string text = refusal_of(
      "HloModule r\nENTRY main {\n  x = f32[8,128] parameter(0)\n  ROOT c = f32[8,128] "
      "custom-call(x), custom_call_target=\"attention\", "
      "metadata={op_name=\"jit(step)/attend\" source_file=\"model.py\" source_line=12}\n}\n");
  EXPECT_NE(text.find("(c, from jit(step)/attend (model.py:12): expected an operation of HLO"),
            std::string::npos)
      << text;
}

std::vector<std::string> notes_of(const std::string& text) {
  compiler::CompileReport report;
  compiler::compile(hlo::read_hlo_text("test.hlo", text), target_of({}, 1), &report);
  return report.notes;
}

/// What is computed otherwise than asked for is said with where the first such operation is from.
TEST(RefusalList, WhatIsComputedOtherwiseIsNoted) {
  const std::string where =
      ", metadata={op_name=\"jit(f)/add\" source_file=\"f.py\" source_line=3}";
  EXPECT_EQ(notes_of("HloModule n\nENTRY main {\n  x = s64[8] parameter(0)\n  y = s64[8] "
                     "add(x, x)" +
                     where + "\n  ROOT z = s32[8] convert(y)\n}\n"),
            std::vector<std::string>{"s64 values are computed as s32, the chip has no 64-bit "
                                     "integers: x, from jit(f)/add (f.py:3), and 1 more"});
  const auto bits = [&](const std::string& algorithm) {
    return notes_of(
        "HloModule n\nENTRY main {\n  s = u32[2,2] parameter(0)\n  k = u64[2] "
        "bitcast-convert(s)\n  r = (u64[2], u32[8]) rng-bit-generator(k), algorithm=" +
        algorithm + "\n  ROOT b = u32[8] get-tuple-element(r), index=1\n}\n");
  };
  EXPECT_EQ(bits("rng_default"),
            std::vector<std::string>{"random bits of no stated algorithm are Philox's, those of "
                                     "the chip are not public: r"});
  EXPECT_TRUE(bits("rng_philox").empty());
  EXPECT_TRUE(bits("rng_three_fry").empty());
}

std::string sharded(const std::string& header, const std::string& sharding) {
  return "HloModule s" + header + "\nENTRY main {\n  x = f32[8,128] parameter(0)\n" +
         "  c = f32[8,128] custom-call(x), custom_call_target=\"Sharding\", sharding=" + sharding +
         "\n  ROOT r = f32[8,128] tanh(c)\n}\n";
}

// 2^38 elements are 2^28 cycles of 1,024: at that the machine takes a kernel for an endless one.
TEST(RefusalList, AnArrayThatNoCoreGetsThroughIsRefusedBeforeItIsMade) {
  const auto sum_of = [](const std::string& extent) {
    return refusal_of(
        "HloModule r\nadd {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
        "  ROOT c = f32[] add(a, b)\n}\nENTRY main {\n  x = f32[] parameter(0)\n"
        "  z = f32[] constant(0)\n"
        "  w = f32[" +
        extent +
        "] broadcast(x), dimensions={}\n"
        "  ROOT r = f32[] reduce(w, z), dimensions={0}, to_apply=add\n}\n");
  };
  EXPECT_NE(sum_of("1099511627776").find("at most 2^38 elements, found 1099511627776"),
            std::string::npos);
  EXPECT_EQ(sum_of("65536"), "");
}

TEST(CustomCalls, AnnotationsOfWholeArraysAreCopies) {
  EXPECT_EQ(refusal_of(sharded("", "{devices=[8,1]<=[8]}")), "");
  EXPECT_EQ(refusal_of(sharded(", num_partitions=8", "{replicated}")), "");
  EXPECT_EQ(refusal_of(sharded(", num_partitions=8", "{devices=[1,1]<=[1]}")), "");
}

TEST(CustomCalls, AModuleThatIsStillToBePartitionedIsRefusedWithItsAnnotation) {
  const std::string text = refusal_of(sharded(", num_partitions=8", "{devices=[8,1]<=[8]}"));
  EXPECT_NE(text.find("expected a module after SPMD partitioning"), std::string::npos) << text;
  EXPECT_NE(text.find("{devices=[8,1]<=[8]}"), std::string::npos) << text;
}

}  // namespace
}  // namespace tpu::test::refusal_list_test
