#include "workloads/compiler/passes/layout/narrow_copies.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/compiler/hlo_check.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::narrow_copies_test {
namespace {

constexpr const char* kOrder = "{2,1,0:T(8,128)}";
constexpr const char* kOther = "{2,0,1:T(8,128)}";
constexpr const char* kOtherPacked = "{2,0,1:T(8,128)(2,1)}";

std::string array(const std::string& type, const std::string& layout) {
  return type + "[64,40,128]" + layout;
}

/// A value in one order, a copy of it in another one, and what reads that: HLO text with %c.
hlo::Module copied(const std::string& made, const std::string& read) {
  std::string text = "HloModule test\nadd {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n";
  text += "  ROOT s = f32[] add(a, b)\n}\nENTRY main {\n" + made + "  c = " + array("f32", kOther) +
          " copy(v)\n" + read + "}\n";
  hlo::Module module = hlo::read_hlo_text("test.hlo", text);
  compiler::copy_narrow_values(module.computations[static_cast<std::size_t>(module.entry)],
                               compiler::Target{});
  hlo::verify(module);
  return module;
}

const std::string& sum() {
  static const std::string text = "  x = " + array("f32", kOrder) +
                                  " parameter(0)\n  v = " + array("f32", kOrder) + " add(x, x)\n";
  return text;
}

std::string rounded(const std::string& rest = {}) {
  return "  r = " + array("bf16", kOtherPacked) + " convert(c)\n" + rest;
}

/// Types of the arrays that copies make.
std::string copies(const hlo::Module& module) {
  std::string types;
  for (const hlo::HloInstruction& each : module.entry_computation().instructions) {
    if (each.opcode == hlo::HloOpcode::kCopy)
      types += std::string(hlo::to_string(each.shape.type)) + " ";
  }
  return types;
}

TEST(NarrowCopies, WhatIsRoundedBehindACopyIsRoundedBeforeIt) {
  const hlo::Module module =
      copied(sum(), rounded("  ROOT t = (" + array("bf16", kOtherPacked) + ") tuple(r)\n"));
  EXPECT_EQ(copies(module), "bf16 ");
}

TEST(NarrowCopies, SumsToAVectorReadTheValueWhereItIsMade) {
  const std::string sums =
      "  z = f32[] constant(0)\n  s = f32[128]{0:T(1024)} reduce(c, z), dimensions={0,1}, "
      "to_apply=add\n  ROOT t = (" +
      array("bf16", kOtherPacked) + ", f32[128]{0:T(1024)}) tuple(r, s)\n";
  const hlo::Module module = copied(sum(), rounded(sums));
  EXPECT_EQ(copies(module), "bf16 ");
  for (const hlo::HloInstruction& each : module.entry_computation().instructions) {
    if (each.opcode != hlo::HloOpcode::kReduce) continue;
    EXPECT_EQ(module.entry_computation().at(each.operands[0]).name, "v");
  }
}

TEST(NarrowCopies, WhatOthersReadInTheOrderOfTheCopyIsCopiedAsItIs) {
  const std::string others = "  n = " + array("f32", kOther) + " negate(c)\n  ROOT t = (" +
                             array("bf16", kOtherPacked) + ", " + array("f32", kOther) +
                             ") tuple(r, n)\n";
  EXPECT_EQ(copies(copied(sum(), rounded(others))), "f32 ");
}

/// A sum with several dimensions lies as the copy does.
TEST(NarrowCopies, OtherSumsReadTheCopy) {
  const std::string sums =
      "  z = f32[] constant(0)\n  s = f32[64,128]{1,0:T(8,128)} reduce(c, z), dimensions={1}, "
      "to_apply=add\n  ROOT t = (" +
      array("bf16", kOtherPacked) + ", f32[64,128]{1,0:T(8,128)}) tuple(r, s)\n";
  EXPECT_EQ(copies(copied(sum(), rounded(sums))), "f32 ");
}

/// Copies of both might be more than the one.
TEST(NarrowCopies, WhatTwoTypesAreMadeOfIsCopiedAsItIs) {
  const std::string both = "  q = " + array("s8", "{2,0,1:T(8,128)(4,1)}") +
                           " convert(c)\n  ROOT t = (" + array("bf16", kOtherPacked) + ", " +
                           array("s8", "{2,0,1:T(8,128)(4,1)}") + ") tuple(r, q)\n";
  EXPECT_EQ(copies(copied(sum(), rounded(both))), "f32 ");
}

/// A parameter would be rounded by a kernel of its own.
TEST(NarrowCopies, WhatNoKernelMakesIsCopiedAsItIs) {
  const std::string parameter = "  v = " + array("f32", kOrder) + " parameter(0)\n";
  const std::string root = "  ROOT t = (" + array("bf16", kOtherPacked) + ") tuple(r)\n";
  EXPECT_EQ(copies(copied(parameter, rounded(root))), "f32 ");
}

TEST(NarrowCopies, WhatIsWidenedForItsCopyAloneIsWidenedBehindIt) {
  for (const bool is_read_twice : {false, true}) {
    const std::string more = is_read_twice ? ", " + array("f32", kOrder) : "";
    const hlo::Module module =
        copied("  x = " + array("bf16", "{2,1,0:T(8,128)(2,1)}") +
                   " parameter(0)\n  v = " + array("f32", kOrder) + " convert(x)\n",
               "  ROOT t = (" + array("f32", kOther) + more + ") tuple(c" +
                   (is_read_twice ? ", v" : "") + ")\n");
    EXPECT_EQ(copies(module), is_read_twice ? "f32 " : "bf16 ");
  }
}

/// Heads of a product that is summed up and multiplied again, each with its rows elsewhere.
TEST(NarrowCopies, ValuesStayTheSame) {
  check_hlo(
      "HloModule test\nadd {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
      "  ROOT s = f32[] add(a, b)\n}\nENTRY main {\n  p = bf16[64,40,40] parameter(0)\n"
      "  q = bf16[64,40,128] parameter(1)\n  w = f32[128,16] parameter(2)\n"
      "  y = f32[64,40,128] dot(p, q), lhs_batch_dims={0}, lhs_contracting_dims={1}, "
      "rhs_batch_dims={0}, rhs_contracting_dims={1}\n  r = bf16[64,40,128] convert(y)\n"
      "  v = bf16[128,16] convert(w)\n"
      "  o = f32[64,40,16] dot(r, v), lhs_contracting_dims={2}, rhs_contracting_dims={0}\n"
      "  z = f32[] constant(0)\n  s = f32[128] reduce(y, z), dimensions={0,1}, to_apply=add\n"
      "  u = f32[40,16] reduce(o, z), dimensions={0}, to_apply=add\n"
      "  ROOT t = (f32[64,40,16], f32[128], f32[40,16]) tuple(o, s, u)\n}\n",
      [] {
        HloCheck check;
        check.tolerance = 1e-2;
        return check;
      }());
}

}  // namespace
}  // namespace tpu::test::narrow_copies_test
