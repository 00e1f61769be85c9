// Scatters of several arrays, and by computations of their own.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "tests/compiler/hlo_check.h"
#include "workloads/compiler/passes/expand/scatter_expander.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::scatter_forms_test {
namespace {

/// Of pairs (value, number) the greater value stays, with its number.
const std::string kGreatest =
    "best {\n  v = f32[] parameter(0)\n  i = s32[] parameter(1)\n  w = f32[] parameter(2)\n"
    "  j = s32[] parameter(3)\n  g = pred[] compare(w, v), direction=GT\n"
    "  a = f32[] select(g, w, v)\n  b = s32[] select(g, j, i)\n"
    "  ROOT t = (f32[], s32[]) tuple(a, b)\n}\n";

/// Twice the value and the update: the order of updates shows.
std::string in_order(const std::string& type) {
  return "step {\n  a = " + type + "[] parameter(0)\n  b = " + type +
         "[] parameter(1)\n  d = " + type + "[] add(a, a)\n  ROOT r = " + type +
         "[] add(d, b)\n}\n";
}

const std::string kElements =
    "update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
    "index_vector_dim=1";

/// Instructions of an opcode that the pass leaves in the entry.
std::ptrdiff_t count_behind(const std::string& text, hlo::HloOpcode opcode) {
  hlo::Module module = hlo::read_hlo_text("scatter.hlo", text);
  compiler::expand_scatters(module);
  EXPECT_NO_THROW(hlo::verify(module));
  const auto& code = module.entry_computation().instructions;
  return std::count_if(code.begin(), code.end(),
                       [opcode](const auto& each) { return each.opcode == opcode; });
}

TEST(ScatterForms, OfSeveralUpdatesTheGreatestStaysWithItsNumber) {
  check_hlo("HloModule a\n" + kGreatest +
            "ENTRY main {\n  x = f32[12] parameter(0)\n  k = s32[12] parameter(1)\n"
            "  n = s32[300,1] parameter(2)\n  u = f32[300] parameter(3)\n"
            "  l = s32[300] parameter(4)\n  ROOT r = (f32[12], s32[12]) scatter(x, k, n, u, l), " +
            kElements + ", to_apply=best\n}\n");
}

TEST(ScatterForms, WindowsThatOverlapAreAppliedOneAfterTheOther) {
  check_hlo("HloModule w\n" + kGreatest +
            "ENTRY main {\n  x = f32[7,9,5] parameter(0)\n  k = s32[7,9,5] parameter(1)\n"
            "  n = s32[2,20] parameter(2)\n  u = f32[3,20,4] parameter(3)\n"
            "  l = s32[3,20,4] parameter(4)\n"
            "  ROOT r = (f32[7,9,5], s32[7,9,5]) scatter(x, k, n, u, l), update_window_dims={0,2}, "
            "inserted_window_dims={1}, scatter_dims_to_operand_dims={1,0}, index_vector_dim=0, "
            "to_apply=best\n}\n");
}

TEST(ScatterForms, BatchesHaveRowsOfTheirOwn) {
  check_hlo("HloModule b\n" + in_order("f32") +
            "ENTRY main {\n  x = f32[3,10,130] parameter(0)\n  n = s32[6,3,1] parameter(1)\n"
            "  u = f32[6,3,130] parameter(2)\n"
            "  ROOT r = f32[3,10,130] scatter(x, n, u), update_window_dims={2}, "
            "inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, "
            "input_batching_dims={0}, scatter_indices_batching_dims={1}, index_vector_dim=2, "
            "to_apply=step\n}\n");
}

TEST(ScatterForms, UpdatesOfOnePlaceComeInTheirOrder) {
  HloCheck few;
  few.least = 0;
  few.most = 3;
  for (const char* type : {"f32", "s32", "u32"}) {
    const std::string t = type;
    check_hlo("HloModule o\n" + in_order(t) + "ENTRY main {\n  x = " + t +
                  "[5] parameter(0)\n  n = s32[20,1] parameter(1)\n  u = " + t +
                  "[20] parameter(2)\n  ROOT r = " + t + "[5] scatter(x, n, u), " + kElements +
                  ", to_apply=step\n}\n",
              few);
  }
}

TEST(ScatterForms, ArraysThatDoNotMeetAreScattersOfOneEach) {
  const std::string text =
      "HloModule s\nboth {\n  a = f32[] parameter(0)\n  b = s32[] parameter(1)\n"
      "  c = f32[] parameter(2)\n  d = s32[] parameter(3)\n  e = f32[] add(c, a)\n"
      "  f = s32[] maximum(b, d)\n  ROOT t = (f32[], s32[]) tuple(e, f)\n}\n"
      "ENTRY main {\n  x = f32[12,40] parameter(0)\n  k = s32[12,40] parameter(1)\n"
      "  n = s32[30,1] parameter(2)\n  u = f32[30,40] parameter(3)\n  l = s32[30,40] parameter(4)\n"
      "  ROOT r = (f32[12,40], s32[12,40]) scatter(x, k, n, u, l), update_window_dims={1}, "
      "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
      "to_apply=both\n}\n";
  check_hlo(text);
  EXPECT_EQ(count_behind(text, hlo::HloOpcode::kScatter), 2);
  EXPECT_EQ(count_behind(text, hlo::HloOpcode::kWhile), 0);
}

/// What jax.lax.scatter_apply makes: the computation does not read the update.
/// Each value twice the one before by two ways: 2^64 ways from the last to the parameters.
TEST(ScatterForms, AComputationWithManyWaysIsWalkedOnce) {
  std::string code =
      "many {\n  a = f32[] parameter(0)\n  b = s32[] parameter(1)\n  c = f32[] parameter(2)\n"
      "  d = s32[] parameter(3)\n  v0 = f32[] minimum(a, c)\n";
  for (int i = 0; i < 64; ++i) {
    const std::string before = "v" + std::to_string(i);
    code += "  v" + std::to_string(i + 1) + " = f32[] maximum(" + before + ", " + before + ")\n";
  }
  code += "  f = s32[] maximum(b, d)\n  ROOT t = (f32[], s32[]) tuple(v64, f)\n}\n";
  EXPECT_GE(count_behind("HloModule m\n" + code +
                             "ENTRY main {\n  x = f32[12] parameter(0)\n  k = s32[12] "
                             "parameter(1)\n  n = s32[30,1] parameter(2)\n  u = f32[30] "
                             "parameter(3)\n  l = s32[30] parameter(4)\n"
                             "  ROOT r = (f32[12], s32[12]) scatter(x, k, n, u, l), " +
                             kElements + ", to_apply=many\n}\n",
                         hlo::HloOpcode::kTuple),
            1);
}

TEST(ScatterForms, AFunctionIsAppliedAsOftenAsItsPlaceIsNamed) {
  check_hlo(
      "HloModule f\nsine {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
      "  ROOT r = f32[] sine(a)\n}\nENTRY main {\n  x = f32[7] parameter(0)\n"
      "  n = s32[20,1] parameter(1)\n  u = f32[20] parameter(2)\n"
      "  ROOT r = f32[7] scatter(x, n, u), " +
      kElements + ", to_apply=sine\n}\n");
}

TEST(ScatterForms, UniqueIndicesNeedNoLoop) {
  const std::string text =
      "HloModule q\n" + in_order("bf16") +
      "ENTRY main {\n  x = bf16[40,9] parameter(0)\n  c = s32[] constant(3)\n"
      "  i = s32[8,1] iota(), iota_dimension=0\n  m = s32[8,1] broadcast(c), dimensions={}\n"
      "  n = s32[8,1] multiply(i, m)\n  u = bf16[8,9] parameter(1)\n"
      "  ROOT r = bf16[40,9] scatter(x, n, u), update_window_dims={1}, "
      "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
      "unique_indices=true, to_apply=step\n}\n";
  check_hlo(text);
  EXPECT_EQ(count_behind(text, hlo::HloOpcode::kWhile), 0);
}

TEST(ScatterForms, SumsOfSixtyFourBitsAreScattered) {
  check_hlo(
      "HloModule u\nsum {\n  a = u64[] parameter(0)\n  b = u64[] parameter(1)\n"
      "  ROOT c = u64[] add(a, b)\n}\nENTRY main {\n  x = u32[12] parameter(0)\n"
      "  n = s32[20,1] parameter(1)\n  u = u32[20] parameter(2)\n  w = u64[12] convert(x)\n"
      "  s = u64[] constant(4294967296)\n  sx = u64[12] broadcast(s), dimensions={}\n"
      "  y = u64[12] multiply(w, sx)\n  v = u64[20] convert(u)\n  r = u64[12] scatter(y, n, v), " +
      kElements +
      ", to_apply=sum\n  h = u64[] constant(32)\n  hx = u64[12] broadcast(h), dimensions={}\n"
      "  top = u64[12] shift-right-logical(r, hx)\n  a = u32[12] convert(top)\n"
      "  b = u32[12] convert(r)\n  ROOT t = (u32[12], u32[12]) tuple(a, b)\n}\n");
}

}  // namespace
}  // namespace tpu::test::scatter_forms_test
