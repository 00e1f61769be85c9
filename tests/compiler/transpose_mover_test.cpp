#include "workloads/compiler/passes/simplify/transpose_mover.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/compiler/hlo_check.h"
#include "tests/compiler/pass_check.h"

namespace tpu::test::transpose_mover_test {
namespace {

/// A dot whose rows come first, to be transposed to the order of x.
const char* const kDot = R"(HloModule tokens
ENTRY main {
  x = f32[64,64,512] parameter(0)
  w = f32[64,64] parameter(1)
  b = f32[64] parameter(2)
  d = f32[64,64,512] dot(w, x), lhs_contracting_dims={0}, rhs_contracting_dims={1}
  t = f32[64,64,512] transpose(d), dimensions={1,0,2}
)";

hlo::Module behind(const std::string& text) {
  const GraphCase graph = case_of(hlo::read_hlo_text("test.hlo", text), 7);
  expect_values_kept(graph, compiler::delay_transposes);
  return simplified_around(graph.module, compiler::delay_transposes);
}

TEST(TransposeMover, OperationsStandBehindTheDot) {
  const std::string text = std::string(kDot) + R"(
  bs = f32[64,64,512] broadcast(b), dimensions={1}
  e = f32[64,64,512] add(t, bs)
  g = f32[64,64,512] tanh(e)
  ROOT h = f32[64,64,512] add(g, x)
}
)";
  const hlo::Module module = behind(text);
  EXPECT_EQ(root(module).opcode, hlo::HloOpcode::kTranspose);
  // One kernel.
  EXPECT_EQ(count_kind(run_to_fusion(module), "kOutput"), 1U);
  const double bytes = 3.0 * 64 * 64 * 512 * 4;
  EXPECT_LT(static_cast<double>(check_hlo(text).result.cycles),
            bytes / compiler::Target().hbm_bytes_per_cycle + 12000);
}

/// In an order that is not its own inverse; vectors whose dimensions change places.
TEST(TransposeMover, DimensionsTakeTurns) {
  const hlo::Module module = behind(R"(HloModule turns
ENTRY main {
  x = f32[12,24,136] parameter(0)
  w = f32[24,40] parameter(1)
  c = f32[40,12] parameter(2)
  e = f32[136,12] parameter(3)
  d = f32[40,12,136] dot(w, x), lhs_contracting_dims={0}, rhs_contracting_dims={1}
  t = f32[136,40,12] transpose(d), dimensions={2,0,1}
  cs = f32[136,40,12] broadcast(c), dimensions={1,2}
  es = f32[136,40,12] broadcast(e), dimensions={0,2}
  f = f32[136,40,12] multiply(t, cs)
  ROOT g = f32[136,40,12] subtract(f, es)
}
)");
  EXPECT_EQ(root(module).opcode, hlo::HloOpcode::kTranspose);
}

/// Two dots whose results lie the same way meet; one that stands as it is keeps what it meets.
TEST(TransposeMover, OtherProducts) {
  const std::string other = R"(
  y = f32[64,64,512] parameter(3)
  p = f32[64,64,512] dot(w, y), lhs_contracting_dims={0}, rhs_contracting_dims={1}
  q = f32[64,64,512] transpose(p), dimensions={1,0,2}
  ROOT h = f32[64,64,512] multiply(t, q)
}
)";
  EXPECT_EQ(root(behind(kDot + other)).opcode, hlo::HloOpcode::kTranspose);
  const std::string plain = R"(
  v = f32[512,512] parameter(3)
  p = f32[64,64,512] dot(x, v), lhs_contracting_dims={2}, rhs_contracting_dims={0}
  ROOT h = f32[64,64,512] multiply(t, p)
}
)";
  EXPECT_EQ(root(behind(kDot + plain)).opcode, hlo::HloOpcode::kMultiply);
}

/// A reduction has a kernel of its own, with what stands before it; dots of a batch are left, too.
TEST(TransposeMover, WhatIsReducedAndBatchesKeepTheirOrder) {
  const hlo::Module reduced = behind(R"(HloModule reduced
add {
  m = f32[] parameter(0)
  n = f32[] parameter(1)
  ROOT s = f32[] add(m, n)
}
)" + std::string(kDot).substr(std::string("HloModule tokens\n").size()) +
                                     R"(
  zero = f32[] constant(0)
  g = f32[64,64,512] multiply(t, x)
  h = f32[64,64,512] multiply(g, g)
  r = f32[64,64] reduce(h, zero), dimensions={2}, to_apply=add
  ROOT all = (f32[64,64,512], f32[64,64]) tuple(g, r)
}
)");
  const hlo::Computation& entry = reduced.entry_computation();
  EXPECT_EQ(entry.at(root(reduced).operands[0]).opcode, hlo::HloOpcode::kMultiply);
  const hlo::Module batch = behind(R"(HloModule batch
ENTRY main {
  x = f32[8,64,128] parameter(0)
  w = f32[8,32,64] parameter(1)
  y = f32[32,8,128] parameter(2)
  d = f32[8,32,128] dot(w, x), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}
  t = f32[32,8,128] transpose(d), dimensions={1,0,2}
  ROOT h = f32[32,8,128] multiply(t, y)
}
)");
  EXPECT_EQ(root(batch).opcode, hlo::HloOpcode::kMultiply);
}

}  // namespace
}  // namespace tpu::test::transpose_mover_test
