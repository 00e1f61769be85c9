#include "workloads/graph/hlo_cost_analysis.h"

#include <gtest/gtest.h>

#include "workloads/graph/op_info.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::hlo::hlo_cost_analysis_test {
namespace {

Module module_of(const std::string& lines, const std::string& before = "") {
  return read_hlo_text("m.hlo", "HloModule m\n" + before + "ENTRY e {\n" + lines + "}\n");
}

isa::OpInfo root_info(const Module& module) {
  HloCostAnalysis analysis(module);
  const Computation& entry = module.entry_computation();
  return op_info(analysis, entry, entry.at(entry.root));
}

std::uint64_t root_bytes(const std::string& lines, const std::string& before = "") {
  return root_info(module_of(lines, before)).hbm_bytes;
}

TEST(CompulsoryBytes, AreOperandsAndResultOnce) {
  EXPECT_EQ(root_bytes("  a = f32[8,16] parameter(0)\n  b = f32[16,4] parameter(1)\n"
                       "  ROOT d = f32[8,4] dot(a, b), lhs_contracting_dims={1}, "
                       "rhs_contracting_dims={0}\n"),
            4u * (8 * 16 + 16 * 4 + 8 * 4));
  EXPECT_EQ(root_bytes("  a = f32[8,16] parameter(0)\n  ROOT m = f32[8,16] multiply(a, a)\n"),
            2u * 4 * 8 * 16);
  // An initial value is no array.
  EXPECT_EQ(root_bytes("  a = f32[8,16] parameter(0)\n  z = f32[] constant(0)\n"
                       "  ROOT r = f32[8] reduce(a, z), dimensions={1}, to_apply=add\n",
                       "add {\n  x = f32[] parameter(0)\n  y = f32[] parameter(1)\n"
                       "  ROOT s = f32[] add(x, y)\n}\n"),
            4u * (8 * 16 + 8));
  EXPECT_EQ(root_bytes("  a = f32[8,16]{1,0:S(1)} parameter(0)\n"
                       "  ROOT n = f32[8,16]{1,0} negate(a)\n"),
            4u * 8 * 16);
}

TEST(CompulsoryBytes, OfSlicesAndUpdatesAreTheirOwn) {
  EXPECT_EQ(root_bytes("  a = f32[100,16] parameter(0)\n  i = s32[] parameter(1)\n"
                       "  z = s32[] constant(0)\n  ROOT s = f32[1,16] dynamic-slice(a, i, z), "
                       "dynamic_slice_sizes={1,16}\n"),
            2u * 64 + 4);
  EXPECT_EQ(root_bytes("  a = f32[100,16] parameter(0)\n  u = f32[1,16] parameter(1)\n"
                       "  i = s32[] parameter(2)\n  z = s32[] constant(0)\n"
                       "  ROOT s = f32[100,16] dynamic-update-slice(a, u, i, z)\n"),
            2u * 64 + 4);
}

TEST(CompulsoryBytes, OfRowsAreAtMostTheTable) {
  EXPECT_EQ(root_bytes("  a = f32[4,16] parameter(0)\n  i = s32[10,1] parameter(1)\n"
                       "  ROOT g = f32[10,16] gather(a, i), offset_dims={1}, "
                       "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
                       "slice_sizes={1,16}\n"),
            4u * 4 * 16 + 4 * 10 + 4 * 10 * 16);
}

constexpr const char* kSlicingFusion =
    "f {\n  p = f32[100,16] parameter(0)\n  i = s32[] parameter(1)\n  z = s32[] constant(0)\n"
    "  b = f32[100,16] bitcast(p)\n  s = f32[1,16] dynamic-slice(b, i, z), "
    "dynamic_slice_sizes={1,16}\n  n = f32[1,16] negate(s)\n"
    "  ROOT u = f32[100,16] dynamic-update-slice(b, n, i, z)\n}\n";

TEST(CompulsoryBytes, OfAFusionAreWhatItsComputationReadsAndWrites) {
  EXPECT_EQ(root_bytes("  a = f32[100,16] parameter(0)\n  i = s32[] parameter(1)\n"
                       "  ROOT r = f32[100,16] fusion(a, i), kind=kLoop, calls=f\n",
                       kSlicingFusion),
            2u * 64 + 4);
  // Within a fusion that is fused itself, too.
  EXPECT_EQ(root_bytes("  a = f32[100,16] parameter(0)\n  i = s32[] parameter(1)\n"
                       "  ROOT r = f32[100,16] fusion(a, i), kind=kLoop, calls=outer\n",
                       std::string(kSlicingFusion) +
                           "outer {\n  p = f32[100,16] parameter(0)\n  i = s32[] parameter(1)\n"
                           "  ROOT u = f32[100,16] fusion(p, i), kind=kLoop, calls=f\n}\n"),
            2u * 64 + 4);
  // An array that comes in twice is read once.
  EXPECT_EQ(root_bytes("  a = f32[8,16] parameter(0)\n"
                       "  ROOT r = f32[8,16] fusion(a, a), kind=kLoop, calls=g\n",
                       "g {\n  p = f32[8,16] parameter(0)\n  q = f32[8,16] parameter(1)\n"
                       "  ROOT s = f32[8,16] add(p, q)\n}\n"),
            2u * 4 * 8 * 16);
}

TEST(Category, IsTheProfilersWord) {
  const auto of = [](const std::string& lines, const std::string& before = "") {
    return root_info(module_of(lines, before)).category;
  };
  const std::string dot = "dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n";
  EXPECT_EQ(of("  a = f32[8,8] parameter(0)\n  ROOT d = f32[8,8] " + dot), "convolution");
  EXPECT_EQ(of("  a = f32[8,8] parameter(0)\n  ROOT d = f32[8,8] fusion(a), kind=kLoop, calls=f\n",
               "f {\n  a = f32[8,8] parameter(0)\n  ROOT d = f32[8,8] " + dot + "}\n"),
            "convolution fusion");
  EXPECT_EQ(of("  a = f32[8,8] parameter(0)\n  ROOT d = f32[8,8] fusion(a), kind=kInput, calls=f\n",
               "f {\n  a = f32[8,8] parameter(0)\n  ROOT d = f32[8,8] tanh(a)\n}\n"),
            "input fusion");
  EXPECT_EQ(of("  a = f32[8,4] parameter(0)\n  ROOT t = f32[4,8] transpose(a), dimensions={1,0}\n"),
            "data formatting");
  EXPECT_EQ(of("  a = f32[8] parameter(0)\n  ROOT t = f32[8] tanh(a)\n"), "non-fusion elementwise");
  EXPECT_EQ(of("  a = f32[8] parameter(0)\n  ROOT t = f32[8] reverse(a), dimensions={0}\n"),
            "reverse");
}

TEST(OpInfo, TakesScopeAndSourceFromWhatItFusesOrMoves) {
  const std::string fused =
      "f {\n  a = f32[8,8] parameter(0), metadata={op_name=\"w\"}\n"
      "  d = f32[8,8] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
      "metadata={op_name=\"step/dot\" source_file=\"m.py\" source_line=7}\n"
      "  ROOT t = f32[8,8] tanh(d), metadata={op_name=\"step/tanh\"}\n}\n";
  const isa::OpInfo fusion = root_info(module_of(
      "  a = f32[8,8] parameter(0)\n  ROOT r = f32[8,8] fusion(a), kind=kLoop, calls=f\n", fused));
  EXPECT_EQ(fusion.op_name, "step/dot");
  EXPECT_EQ(fusion.source, "m.py:7");
  EXPECT_EQ(root_info(module_of("  a = f32[8,8] parameter(0), metadata={op_name=\"state[0]\"}\n"
                                "  b = f32[8,8] bitcast(a)\n  ROOT c = f32[8,8] copy(b)\n"))
                .op_name,
            "state[0]");
  EXPECT_EQ(
      root_info(module_of("  a = f32[8,8] parameter(0)\n  ROOT c = f32[8,8] copy(a)\n")).op_name,
      "");
}

}  // namespace
}  // namespace tpu::hlo::hlo_cost_analysis_test
