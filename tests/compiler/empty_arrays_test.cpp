#include <gtest/gtest.h>

#include <string>

#include "tests/compiler/hlo_check.h"

namespace tpu::test::empty_arrays_test {
namespace {

std::string module_of(const std::string& body) {
  return "HloModule e\nsum {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
         "  ROOT c = f32[] add(a, b)\n}\nENTRY main {\n" +
         body + "}\n";
}

TEST(EmptyArrays, NothingComputesThem) {
  check_hlo(module_of("  p = f32[0,8] parameter(0)\n  ROOT a = f32[0,8] add(p, p)\n"));
  check_hlo(module_of(
      "  p = f32[8,0] parameter(0)\n  q = s32[0] parameter(1)\n  n = s32[0] negate(q)\n"
      "  t = f32[0,8] transpose(p), dimensions={1,0}\n  h = bf16[0,8] convert(t)\n"
      "  i = u32[0] iota(), iota_dimension=0\n  s = s32[0] sort(n), dimensions={0}, to_apply=less\n"
      "  ROOT r = (bf16[0,8], s32[0], u32[0], s32[0]) tuple(h, n, i, s)\n"
      "}\nless {\n  x = s32[] parameter(0)\n  y = s32[] parameter(1)\n"
      "  ROOT l = pred[] compare(x, y), direction=LT\n"));
}

TEST(EmptyArrays, WhatOtherOperationsMakeOfThemIsKnown) {
  check_hlo(module_of(
      "  p = f32[0,8] parameter(0)\n  v = f32[8,5] parameter(1)\n  c = f32[] constant(3)\n"
      "  s = f32[8] reduce(p, c), dimensions={0}, to_apply=sum\n"
      "  d = f32[8,5] dot(p, w), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
      "  w = f32[0,5] slice(v), slice={[0:0], [0:5]}\n"
      "  g = f32[2,8] pad(p, c), padding=1_1x0_0\n"
      "  j = f32[8,5] concatenate(w, v, w), dimensions={0}\n"
      "  z = s32[] constant(1)\n  u = f32[8,5] dynamic-update-slice(v, w, z, z)\n"
      "  ROOT r = (f32[8], f32[8,5], f32[2,8], f32[8,5], f32[8,5]) tuple(s, d, g, j, u)\n"));
}

/// jnp.polyadd of equal lengths: an update of all elements, whose place has no coordinates.
TEST(EmptyArrays, IndicesOfNoCoordinatesAreOfTheWholeArray) {
  check_hlo(module_of(
      "  v = f32[4,5] parameter(0)\n  u = f32[4,5] parameter(1)\n  w = f32[3,4,5] parameter(2)\n"
      "  i = s32[0] constant({})\n  j = s32[3,0] constant({{},{},{}})\n"
      "  a = f32[4,5] scatter(v, i, u), update_window_dims={0,1}, inserted_window_dims={}, "
      "scatter_dims_to_operand_dims={}, index_vector_dim=0, to_apply=sum\n"
      "  b = f32[4,5] scatter(v, j, w), update_window_dims={1,2}, inserted_window_dims={}, "
      "scatter_dims_to_operand_dims={}, index_vector_dim=1, to_apply=sum\n"
      "  g = f32[2,5] gather(v, i), offset_dims={0,1}, collapsed_slice_dims={}, "
      "start_index_map={}, index_vector_dim=0, slice_sizes={2,5}\n"
      "  ROOT r = (f32[4,5], f32[4,5], f32[2,5]) tuple(a, b, g)\n"));
}

TEST(EmptyArrays, LoopsCarryThem) {
  check_hlo(
      "HloModule l\nbody {\n  t = (s32[], f32[0,4], f32[4]) parameter(0)\n"
      "  i = s32[] get-tuple-element(t), index=0\n  o = s32[] constant(1)\n"
      "  n = s32[] add(i, o)\n  e = f32[0,4] get-tuple-element(t), index=1\n"
      "  f = f32[0,4] exponential(e)\n  v = f32[4] get-tuple-element(t), index=2\n"
      "  w = f32[4] add(v, v)\n  ROOT r = (s32[], f32[0,4], f32[4]) tuple(n, f, w)\n}\n"
      "until {\n  t = (s32[], f32[0,4], f32[4]) parameter(0)\n"
      "  i = s32[] get-tuple-element(t), index=0\n  m = s32[] constant(3)\n"
      "  ROOT l = pred[] compare(i, m), direction=LT\n}\n"
      "ENTRY main {\n  x = f32[0,4] parameter(0)\n  v = f32[4] parameter(1)\n"
      "  z = s32[] constant(0)\n  t = (s32[], f32[0,4], f32[4]) tuple(z, x, v)\n"
      "  ROOT w = (s32[], f32[0,4], f32[4]) while(t), body=body, condition=until\n}\n");
}

}  // namespace
}  // namespace tpu::test::empty_arrays_test
