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
      "HloModule r\nlast {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] "
      "sine(a)\n}\n"
      "ENTRY main {\n  x = f32[8,128] parameter(0)\n  i = s32[2,1] parameter(1)\n"
      "  u = f32[2,128] parameter(2)\n"
      "  c = f32[8,128] custom-call(x), custom_call_target=\"attention\"\n"
      "  d = f32[8,128] custom-call(c), custom_call_target=\"attention\"\n"
      "  ROOT r = f32[8,128] scatter(d, i, u), update_window_dims={1}, inserted_window_dims={0}, "
      "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=last\n}\n");
  EXPECT_NE(text.find("2 operations have no kernel"), std::string::npos) << text;
  EXPECT_NE(text.find("custom-call(f32[8,128]) -> f32[8,128], 2 times, 0 FLOPs, 16.00K of HBM"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("a call of \"attention\""), std::string::npos) << text;
  EXPECT_NE(text.find("expected the update alone, a sum, product"), std::string::npos) << text;
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
