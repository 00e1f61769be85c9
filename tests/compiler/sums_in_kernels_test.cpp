#include "workloads/compiler/passes/fuse/sums_in_kernels.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/compiler/machine_target.h"
#include "workloads/compiler/compiler.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::sums_in_kernels_test {
namespace {

constexpr std::uint64_t kRowBytes = std::uint64_t{8} << 20;
const std::string kAdd =
    "HloModule sums\nadd {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] "
    "add(a, b)\n}\n";

/// A value of as many elements as there are sums along rows: kernels that spread it may compute it
/// among the rows, where lanes cannot be moved.
TEST(SumsInKernels, WhatMovesLanesIsNotMadeOfSums) {
  const auto is_made = [](const std::string& other) {
    const std::string tiled = "{2,1,0:T(8,128)}";
    const hlo::Module module = hlo::read_hlo_text(
        "sums.hlo", kAdd +
                        "ENTRY main {\n  p = f32[4,8,32,60]{3,2,1,0:T(8,128)} parameter(0)\n  q = "
                        "f32[4,8,61]" +
                        tiled + " parameter(1)\n  z = f32[] constant(0)\n  r = f32[4,8,60]" +
                        tiled + " reduce(p, z), dimensions={2}, to_apply=add\n  o = f32[4,8,60]" +
                        tiled + other + "\n  ROOT v = f32[4,8,60]" + tiled + " add(r, o)\n}\n");
    const hlo::Computation& entry = module.entry_computation();
    const compiler::SteppedExtents extents(entry);
    return compiler::SumsInKernels(entry, extents, kRowBytes).is_made_of_column_sum(entry.root);
  };
  EXPECT_TRUE(is_made(" negate(r)"));
  EXPECT_FALSE(is_made(" slice(q), slice={[0:4], [0:8], [1:61]}"));
}

/// Each of these sums over the outermost dimension stands in VMEM until the end, three times: one
/// does, together they have kernels of their own.
TEST(SumsInKernels, SumsThatFitNoVmemTogetherAreMadeApart) {
  for (const int sums : {1, 2, 4, 6}) {
    std::string text = kAdd + "ENTRY main {\n  i = s32[7168] parameter(0)\n", tuple, types;
    text +=
        "  z = f32[] constant(0)\n  n = s32[6,7168,80] iota(), iota_dimension=0\n"
        "  j = s32[6,7168,80] broadcast(i), dimensions={1}\n"
        "  e = pred[6,7168,80] compare(n, j), direction=EQ\n"
        "  zeros = f32[6,7168,80] broadcast(z), dimensions={}\n";
    for (int k = 0; k < sums; ++k) {
      const std::string s = std::to_string(k);
      text += "  t" + s + " = f32[6,80] parameter(" + std::to_string(k + 1) + ")\n  b" + s +
              " = f32[6,7168,80] broadcast(t" + s + "), dimensions={0,2}\n  c" + s +
              " = f32[6,7168,80] select(e, b" + s + ", zeros)\n  r" + s +
              " = f32[7168,80] reduce(c" + s + ", z), dimensions={0}, to_apply=add\n";
      tuple += (k > 0 ? ", r" : "r") + s;
      types += k > 0 ? ", f32[7168,80]" : "f32[7168,80]";
    }
    text += "  ROOT all = (" + types + ") tuple(" + tuple + ")\n}\n";
    EXPECT_NO_THROW(compiler::compile(hlo::read_hlo_text("sums.hlo", text), target_of({}, 1)))
        << sums;
  }
}

}  // namespace
}  // namespace tpu::test::sums_in_kernels_test
