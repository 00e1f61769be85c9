#include "workloads/compiler/passes/fuse/large_fusions.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::large_fusions_test {
namespace {

using hlo::HloInstruction;
using hlo::HloOpcode;

/// The beams that go on, of keys and of values, in one fusion: numbers of beams know the batch, but
/// not the layer, so that a kernel can be cut by layers alone.
hlo::Module beams(const std::string& layers) {
  const std::string kept = "f32[" + layers + ",2,5,20,8,64]{5,4,3,2,1,0:T(8,128)}";
  const std::string all = "[" + layers + ",2,5,5,20,8,64]{6,5,4,3,2,1,0:T(8,128)}";
  const auto picked = [&](const std::string& name, const std::string& array) {
    return "  " + name + "b = f32" + all + " broadcast(" + array +
           "), dimensions={0,1,3,4,5,6}\n  " + name + "s = f32" + all + " select(is, " + name +
           "b, none)\n  " + name + " = " + kept + " reduce(" + name +
           "s, zero), dimensions={3}, to_apply=sum\n";
  };
  return hlo::read_hlo_text(
      "beams.hlo",
      "HloModule b\nsum {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
      "  ROOT c = f32[] add(a, b)\n}\ninside {\n  x = " +
          kept + " parameter(0)\n  y = " + kept +
          " parameter(1)\n  i = s32[2,5]{1,0:T(8,128)} parameter(2)\n"
          "  zero = f32[] constant(0)\n  none = f32" +
          all + " broadcast(zero), dimensions={}\n  n = s32" + all +
          " broadcast(i), dimensions={1,2}\n  m = s32" + all +
          " iota(), iota_dimension=3\n  is = pred" + all + " compare(n, m), direction=EQ\n" +
          picked("k", "x") + picked("v", "y") + "  ROOT r = (" + kept + ", " + kept +
          ") tuple(k, v)\n}\nENTRY main {\n  x = " + kept + " parameter(0)\n  y = " + kept +
          " parameter(1)\n  i = s32[2,5]{1,0:T(8,128)} parameter(2)\n  f = (" + kept + ", " + kept +
          ") fusion(x, y, i), kind=kLoop, calls=inside\n  g = " + kept +
          " get-tuple-element(f), index=0\n  h = " + kept +
          " get-tuple-element(f), index=1\n  ROOT t = (" + kept + ", " + kept +
          ") tuple(h, g)\n}\n");
}

std::vector<HloInstruction> fusions_of(const hlo::Module& module) {
  std::vector<HloInstruction> fusions;
  for (const HloInstruction& each : module.entry_computation().instructions) {
    if (each.opcode == HloOpcode::kFusion) fusions.push_back(each);
  }
  return fusions;
}

/// A layer's sums are 2 x 5 x 20 registers of 4 KiB, kept once as sums and twice as results: of two
/// arrays 4.7 MiB, which 16 MiB have room for and 4 do not.
TEST(LargeFusions, ResultsThatDoNotFitTogetherHaveKernelsOfTheirOwn) {
  compiler::Target target;
  hlo::Module small = beams("2");
  compiler::part_large_fusions(small, target);
  EXPECT_EQ(fusions_of(small).size(), 1U);

  target.vmem_bytes = 4 << 20;
  hlo::Module large = beams("2");
  ASSERT_FALSE(compiler::has_elementwise_kernel(large, large.entry_computation(),
                                                fusions_of(large).at(0), target));
  compiler::part_large_fusions(large, target);
  const std::vector<HloInstruction> parts = fusions_of(large);
  ASSERT_EQ(parts.size(), 2U);
  const hlo::Computation& entry = large.entry_computation();
  for (std::size_t k = 0; k < 2; ++k) {
    EXPECT_TRUE(compiler::has_elementwise_kernel(large, entry, parts[k], target));
    // Its own array, and the numbers.
    ASSERT_EQ(parts[k].operands.size(), 2U);
    // The results change places, and stand in the order in which they are needed.
    EXPECT_EQ(entry.at(parts[k].operands[0]).parameter_number, static_cast<std::int64_t>(1 - k));
    EXPECT_EQ(entry.at(parts[k].operands[1]).parameter_number, 2);
    EXPECT_EQ(entry.at(entry.root).operands[k], parts[k].id);
  }
}

/// Counts of a vector that VMEM does not hold, as integers: the lanes are cut in tiles, whose sums
/// are complete with the last one.
TEST(LargeFusions, WhatReadsSumsHasAKernelOfItsOwnWhereTheseAreCut) {
  const std::string all = "[256,1000000]{1,0:T(8,128)}";
  hlo::Module module = hlo::read_hlo_text(
      "counts.hlo",
      "HloModule c\nsum {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] "
      "add(a, b)\n}\ninside {\n  x = s32[1000000]{0:T(1024)} parameter(0)\n  zero = f32[] "
      "constant(0)\n  i = s32" +
          all + " iota(), iota_dimension=0\n  w = s32" + all +
          " broadcast(x), dimensions={1}\n  p = pred" + all +
          " compare(i, w), direction=EQ\n  f = f32" + all +
          " convert(p)\n  s = f32[256]{0:T(1024)} reduce(f, zero), dimensions={1}, "
          "to_apply=sum\n  ROOT r = s32[256]{0:T(1024)} convert(s)\n}\nENTRY main {\n  x = "
          "s32[1000000]{0:T(1024)} parameter(0)\n  ROOT f = s32[256]{0:T(1024)} fusion(x), "
          "kind=kInput, calls=inside\n}\n");
  hlo::Module roomy = module;
  compiler::Target target;
  compiler::part_large_fusions(roomy, target);
  EXPECT_EQ(fusions_of(roomy).size(), 1U);

  target.vmem_bytes = 2 << 20;
  compiler::part_large_fusions(module, target);
  const std::vector<HloInstruction> parts = fusions_of(module);
  ASSERT_EQ(parts.size(), 2U);
  const hlo::Computation& entry = module.entry_computation();
  EXPECT_EQ(parts[1].id, entry.root);
  EXPECT_EQ(parts[1].operands, std::vector<hlo::InstructionId>{parts[0].id});
  EXPECT_EQ(parts[0].shape.type, hlo::ElementType::kF32);
  for (const HloInstruction& part : parts) {
    EXPECT_TRUE(compiler::has_elementwise_kernel(module, entry, part, target)) << part.name;
  }
}

}  // namespace
}  // namespace tpu::test::large_fusions_test
