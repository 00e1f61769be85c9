#include "models/core/liveness.h"

#include <gtest/gtest.h>

#include "isa/assembler.h"

namespace tpu::liveness_test {
namespace {

constexpr ScalarSet scalar(int reg) { return ScalarSet{1} << reg; }
constexpr ScalarSet predicate(int reg) { return ScalarSet{1} << (isa::kScalarRegisters + reg); }

/// Where the vectors of a kernel are computed, too, so is every scalar that one of them reads.
TEST(Liveness, InAFollowedKernelAllThatIsReadMatters) {
  const auto use = [](const std::string& text) {
    return scalar_use_followed(isa::assemble_instruction(text));
  };
  const ScalarUse all = use("%v1 = vstv %s3");
  EXPECT_TRUE(all.root);
  EXPECT_EQ(all.reads, scalar(3));
  EXPECT_EQ(all.write, 0u);
  EXPECT_EQ(use("%v1 = vld [vmem:%s4 sm:%s5]").reads, scalar(4) | scalar(5));
  const ScalarUse guarded = use("%s6 = sadd.s32 (%p7), %s8, 1");
  EXPECT_TRUE(guarded.guarded);
  EXPECT_EQ(guarded.reads, scalar(8) | predicate(7));
  EXPECT_EQ(guarded.write, scalar(6));
}

}  // namespace
}  // namespace tpu::liveness_test
