// Small kernels that follow each other are one, and the state of small loops stays in VMEM.

#include "workloads/compiler/kernels/kernel_sequence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "tests/compiler/hlo_check.h"
#include "tests/compiler/machine_target.h"
#include "workloads/compiler/compiler.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/passes/pipeline.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::kernel_sequence_test {
namespace {

isa::Program compiled(const std::string& text) {
  return compiler::compile(hlo::read_hlo_text("test.hlo", text), target_of({}, 1));
}

constexpr const char* kAdd = R"(HloModule test
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
)";

TEST(KernelSequence, SumsAlongBothDimensionsAndWhatReadsThemAreOneKernel) {
  const std::string text = std::string(kAdd) + R"(ENTRY main {
  x = f32[40,200] parameter(0)
  y = bf16[40,200] parameter(1)
  z = f32[] constant(0)
  yf = f32[40,200] convert(y)
  product = f32[40,200] multiply(x, yf)
  rows = f32[40] reduce(product, z), dimensions={1}, to_apply=add
  columns = f32[200] reduce(product, z), dimensions={0}, to_apply=add
  r = f32[40,200] broadcast(rows), dimensions={0}
  c = f32[40,200] broadcast(columns), dimensions={1}
  outer = f32[40,200] multiply(r, c)
  twice = f32[40,200] add(outer, x)
  all = f32[] reduce(twice, z), dimensions={0,1}, to_apply=add
  spread = f32[40,200] broadcast(all), dimensions={}
  centred = f32[40,200] subtract(twice, spread)
  ROOT t = (f32[40,200], f32[200], f32[]) tuple(centred, columns, all)
}
)";
  check_hlo(text);
  const isa::Program program = compiled(text);
  EXPECT_EQ(program.ops.size(), 1U);
  // What only the kernel itself reads has no place in HBM.
  for (const isa::Buffer& buffer : program.buffers) {
    EXPECT_NE(buffer.role, isa::BufferRole::kTemporary) << buffer.name;
  }
}

TEST(KernelSequence, AResultMayTakeTheMemoryOfAnOperandThatALaterMemberReads) {
  std::string text = std::string(kAdd) + R"(ENTRY main {
  x = f32[64,256] parameter(0)
  y = f32[64,256] parameter(1)
  w = f32[64,256] parameter(2)
  z = f32[] constant(0)
  sum = f32[64,256] add(x, y)
  columns = f32[256] reduce(sum, z), dimensions={0}, to_apply=add
  c = f32[64,256] broadcast(columns), dimensions={1}
  other = f32[64,256] multiply(c, y)
  less = f32[64,256] subtract(other, w)
  ROOT t = (f32[64,256], f32[64,256], f32[256]) tuple(sum, less, columns)
}
)";
  text.insert(text.find("HloModule test") + 14,
              ", input_output_alias={ {0}: (2, {}, may-alias), {1}: (0, {}, may-alias) }");
  check_hlo(text);
  EXPECT_EQ(compiled(text).ops.size(), 1U);
}

/// State that changes places, grows by slices that the counter places, and leaves a stack.
std::string loop(int trips) {
  const std::string n = std::to_string(trips);
  return std::string(kAdd) + R"(body {
  p = (s32[], f32[16,128], f32[16,128], f32[)" +
         n + R"(,16,128]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  a = f32[16,128] get-tuple-element(p), index=1
  b = f32[16,128] get-tuple-element(p), index=2
  xs = f32[)" +
         n + R"(,16,128] get-tuple-element(p), index=3
  zero = s32[] constant(0)
  x1 = f32[1,16,128] dynamic-slice(xs, i, zero, zero), dynamic_slice_sizes={1,16,128}
  x = f32[16,128] reshape(x1)
  none = f32[] constant(0)
  columns = f32[128] reduce(a, none), dimensions={0}, to_apply=add
  c = f32[16,128] broadcast(columns), dimensions={1}
  k = f32[] constant(0.0625)
  ks = f32[16,128] broadcast(k), dimensions={}
  mean = f32[16,128] multiply(c, ks)
  sum = f32[16,128] add(mean, x)
  next = f32[16,128] subtract(sum, b)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT t = (s32[], f32[16,128], f32[16,128], f32[)" +
         n + R"(,16,128]) tuple(j, next, a, xs)
}
cond {
  p = (s32[], f32[16,128], f32[16,128], f32[)" +
         n + R"(,16,128]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  l = s32[] constant()" +
         n + R"()
  ROOT c = pred[] compare(i, l), direction=LT
}
ENTRY main {
  x = f32[16,128] parameter(0)
  y = f32[16,128] parameter(1)
  xs = f32[)" +
         n + R"(,16,128] parameter(2)
  s = s32[] constant(0)
  t = (s32[], f32[16,128], f32[16,128], f32[)" +
         n + R"(,16,128]) tuple(s, x, y, xs)
  w = (s32[], f32[16,128], f32[16,128], f32[)" +
         n + R"(,16,128]) while(t), condition=cond, body=body
  a = f32[16,128] get-tuple-element(w), index=1
  b = f32[16,128] get-tuple-element(w), index=2
  ROOT r = (f32[16,128], f32[16,128]) tuple(a, b)
}
)";
}

std::uint64_t cycles(const std::string& text) { return check_hlo(text).result.cycles; }

/// One kernel computes; the others at most bring its operands into their layouts.
testing::AssertionResult is_one_sequence(const isa::Program& program) {
  int sequences = 0;
  for (const isa::CallSite& call : program.call_sites) {
    if (call.is_opening()) continue;
    const isa::OpInfo& op = program.ops[call.op];
    const bool is_sequence =
        op.name.size() > 9 && op.name.substr(op.name.size() - 9) == ".sequence";
    if (is_sequence) {
      ++sequences;
    } else if (op.category != "data formatting") {
      return testing::AssertionFailure() << op.name << " is a kernel of its own";
    }
  }
  if (sequences != 1) return testing::AssertionFailure() << sequences << " sequences";
  return testing::AssertionSuccess();
}

TEST(KernelSequence, ALoopWhoseBodyIsASequenceIsOneKernel) {
  for (const int trips : {2, 3, 8}) {
    SCOPED_TRACE(trips);
    const isa::Program program = compiled(loop(trips));
    check_hlo(loop(trips));
    EXPECT_TRUE(is_one_sequence(program));
  }
  // A trip costs less than two kernels that go to HBM and back would.
  const std::uint64_t few = cycles(loop(4)), many = cycles(loop(12));
  EXPECT_LT((many - few) / 8, 4 * target_of({}, 1).dma_latency_cycles);
}

/// State that nothing reads gets what other state was at the begin of the last iteration.
TEST(KernelSequence, StateOfTheIterationBeforeIsWrittenBehindTheLoop) {
  const std::string text = R"(HloModule test
body {
  p = (s32[], f32[16,128], f32[16,128], f32[16,128]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  now = f32[16,128] get-tuple-element(p), index=1
  x = f32[16,128] get-tuple-element(p), index=3
  next = f32[16,128] add(now, x)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT t = (s32[], f32[16,128], f32[16,128], f32[16,128]) tuple(j, next, now, x)
}
cond {
  p = (s32[], f32[16,128], f32[16,128], f32[16,128]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  l = s32[] constant(400)
  ROOT c = pred[] compare(i, l), direction=LT
}
ENTRY main {
  a = f32[16,128] parameter(0)
  b = f32[16,128] parameter(1)
  x = f32[16,128] parameter(2)
  s = s32[] constant(0)
  t = (s32[], f32[16,128], f32[16,128], f32[16,128]) tuple(s, a, b, x)
  w = (s32[], f32[16,128], f32[16,128], f32[16,128]) while(t), condition=cond, body=body
  now = f32[16,128] get-tuple-element(w), index=1
  before = f32[16,128] get-tuple-element(w), index=2
  ROOT r = (f32[16,128], f32[16,128]) tuple(now, before)
}
)";
  check_hlo(text);
  EXPECT_TRUE(is_one_sequence(compiled(text)));
}

/// A scan over [64,256] whose body reads only a part of its state.
std::string loop_over_part(const std::string& rows, const std::string& lanes, int height,
                           int width) {
  const std::string part = "f32[" + std::to_string(height) + "," + std::to_string(width) + "]";
  const std::string state = "(s32[], f32[64,256], f32[5,64,256])";
  const std::string columns = "f32[" + std::to_string(width) + "]";
  return std::string(kAdd) + "body {\n  p = " + state + R"( parameter(0)
  i = s32[] get-tuple-element(p), index=0
  a = f32[64,256] get-tuple-element(p), index=1
  xs = f32[5,64,256] get-tuple-element(p), index=2
  zero = s32[] constant(0)
  x1 = f32[1,64,256] dynamic-slice(xs, i, zero, zero), dynamic_slice_sizes={1,64,256}
  x = f32[64,256] reshape(x1)
  none = f32[] constant(0)
  cut = )" +
         part + " slice(a), slice={" + rows + ", " + lanes + R"(}
  squares = )" +
         part + R"( multiply(cut, cut)
  columns = )" +
         columns + R"( reduce(squares, none), dimensions={0}, to_apply=add
  all = f32[] reduce(columns, none), dimensions={0}, to_apply=add
  k = f32[] constant(0.0001)
  mean = f32[] multiply(all, k)
  c = f32[64,256] broadcast(mean), dimensions={}
  next = f32[64,256] add(c, x)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT t = )" +
         state + R"( tuple(j, next, xs)
}
cond {
  p = )" +
         state + R"( parameter(0)
  i = s32[] get-tuple-element(p), index=0
  l = s32[] constant(5)
  ROOT c = pred[] compare(i, l), direction=LT
}
ENTRY main {
  x = f32[64,256] parameter(0)
  xs = f32[5,64,256] parameter(1)
  s = s32[] constant(0)
  t = )" +
         state + R"( tuple(s, x, xs)
  w = )" +
         state + R"( while(t), condition=cond, body=body
  ROOT a = f32[64,256] get-tuple-element(w), index=1
}
)";
}

/// Of a state that stays in VMEM a part is handed on, too: one range of it, or some of the lanes of
/// each row tile.
TEST(KernelSequence, APartOfTheStateOfALoopIsHandedOn) {
  for (const std::string& text :
       {loop_over_part("[32:64]", "[0:256]", 32, 256), loop_over_part("[8:24]", "[0:256]", 16, 256),
        loop_over_part("[0:64]", "[128:256]", 64, 128)}) {
    SCOPED_TRACE(text);
    check_hlo(text);
    EXPECT_TRUE(is_one_sequence(compiled(text)));
  }
}

TEST(KernelSequence, PadsSlicesAndConcatenationsMoveElementsInsideOfIt) {
  // Along major dimensions, rows and lanes, by whole tiles and not, with one lane tile and with
  // two.
  for (const std::string lanes : {"120", "200"}) {
    SCOPED_TRACE(lanes);
    const std::string array = "[3,20," + lanes + "]";
    const std::string more = std::to_string(std::stoi(lanes) + 9);
    const std::string less = std::to_string(std::stoi(lanes) - 5);
    const std::string text = std::string(kAdd) + R"(ENTRY main {
  x = f32)" + array + R"( parameter(0)
  k = s32)" + array + R"( parameter(1)
  one = f32[] constant(1)
  ones = f32)" + array + R"( broadcast(one), dimensions={}
  y = f32)" + array + R"( add(x, ones)
  rows_end = f32[3,13,)" + lanes +
                             R"(] slice(y), slice={[0:3], [7:20], [0:)" + lanes + R"(]}
  rows_begin = f32[3,7,)" + lanes +
                             R"(] slice(y), slice={[0:3], [0:7], [0:)" + lanes + R"(]}
  rolled = f32)" + array + R"( concatenate(rows_end, rows_begin), dimensions={1}
  lanes_end = f32[3,20,)" + less +
                             R"(] slice(rolled), slice={[0:3], [0:20], [5:)" + lanes + R"(]}
  lanes_begin = f32[3,20,5] slice(rolled), slice={[0:3], [0:20], [0:5]}
  turned = f32)" + array + R"( concatenate(lanes_end, lanes_begin), dimensions={2}
  product = f32)" + array + R"( multiply(turned, x)
  two = f32[] constant(2)
  padded = f32[4,26,)" + more +
                             R"(] pad(product, two), padding=1_0x2_4x3_6
  squares = f32[4,26,)" + more +
                             R"(] multiply(padded, padded)
  zero = s32[] constant(0)
  late = s32)" + array + R"( pad(k, zero), padding=0_0x8_-8x-3_3
  both = s32)" + array + R"( add(late, k)
  ROOT t = (f32[4,26,)" + more +
                             "], s32" + array + R"() tuple(squares, both)
}
)";
    check_hlo(text);
    EXPECT_EQ(compiled(text).ops.size(), 1U);
  }
}

/// Rows that become columns, dimensions in another order, and the same elements in rows of another
/// length or in a vector, between elementwise operations: one kernel. Packed arrays, too.
TEST(KernelSequence, CopiesToOtherOrdersAreMembers) {
  struct Form {
    std::vector<int> extents, order;
    int columns;  ///< Of the same elements in rows.
  };
  for (const Form& form :
       {Form{{20, 40}, {1, 0}, 100}, Form{{1, 200}, {1, 0}, 8}, Form{{130, 9}, {1, 0}, 234},
        Form{{3, 16, 24}, {2, 0, 1}, 128}, Form{{5, 7, 140}, {1, 0, 2}, 35},
        Form{{4, 12, 20}, {0, 2, 1}, 96}, Form{{2, 3, 8, 10}, {3, 1, 0, 2}, 60}}) {
    int count = 1;
    std::string from, to, order;
    for (std::size_t i = 0; i < form.extents.size(); ++i) {
      const std::string comma = i > 0 ? "," : "";
      count *= form.extents[i];
      from += comma + std::to_string(form.extents[i]);
      to += comma + std::to_string(form.extents[static_cast<std::size_t>(form.order[i])]);
      order += comma + std::to_string(form.order[i]);
    }
    const std::string rows =
        std::to_string(count / form.columns) + "," + std::to_string(form.columns);
    const std::string all = std::to_string(count);
    for (const std::string type : {"f32", "s32", "bf16"}) {
      SCOPED_TRACE(type + "[" + from + "] to [" + to + "] and [" + rows + "]");
      const auto array = [&type](const std::string& name, const std::string& extents) {
        return "  " + name + " = " + type + "[" + extents + "] ";
      };
      const std::string text =
          "HloModule test\nENTRY main {\n" + array("x", from) + "parameter(0)\n" + array("w", to) +
          "parameter(1)\n" + array("u", rows) + "parameter(2)\n" + array("v", all) +
          "parameter(3)\n" + array("y", from) + "add(x, x)\n" + array("t", to) +
          "transpose(y), dimensions={" + order + "}\n" + array("a", to) + "add(t, w)\n" +
          array("r", rows) + "reshape(y)\n" + array("b", rows) + "add(r, u)\n" + array("f", all) +
          "reshape(b)\n" + array("c", all) + "add(f, v)\n  ROOT q = (" + type + "[" + to + "], " +
          type + "[" + rows + "], " + type + "[" + all + "]) tuple(a, b, c)\n}\n";
      check_hlo(text);
      EXPECT_TRUE(is_one_sequence(compiled(text)));
    }
  }
}

/// A kernel whose arrays come and go while it works does so still where a vector beside it only
/// becomes a row.
TEST(KernelSequence, WhatMovesElementsDoesNotHoldALargeKernelUp) {
  const auto calls = [](double rows) {
    const std::string wide = "f32[" + std::to_string(static_cast<int>(rows) / 8 * 8) + ",256]";
    return compiled("HloModule test\nENTRY main {\n  x = " + wide +
                    " parameter(0)\n  v = f32[64] parameter(1)\n  y = " + wide +
                    " multiply(x, x)\n  t = f32[8,8] reshape(v)\n  d = f32[8,8] transpose(t), " +
                    "dimensions={1,0}\n  ROOT r = (" + wide + ", f32[8,8]) tuple(y, d)\n}\n")
        .ops.size();
  };
  // What it moves, 2 KiB a row, takes no longer than the starts of the two kernels beside it.
  const compiler::Target target;
  const double rows = 2 * compiler::kKernelCycles * target.hbm_bytes_per_cycle / 2048;
  EXPECT_EQ(calls(0.9 * rows), 1U);
  EXPECT_GT(calls(1.1 * rows), 1U);
}

/// Bytes that a run of the only kernel reads and writes in HBM; it runs once.
std::pair<std::uint64_t, std::uint64_t> traffic_of_sequence(const CompiledRun& run) {
  for (std::size_t i = 0; i < run.program.ops.size(); ++i) {
    if (run.program.ops[i].name.find(".sequence") == std::string::npos) continue;
    const OpResult& op = run.result.cores.at(0).ops[i];
    EXPECT_EQ(op.count, 1U) << run.program.ops[i].name;
    return {op.counters.hbm_read_bytes, op.counters.hbm_write_bytes};
  }
  ADD_FAILURE() << "no sequence";
  return {};
}

/// Small products with what stands behind them, of sides that lie straight and turned, whose rows,
/// columns and contracted dimension end inside of tiles, one matrix and several, of both types.
TEST(KernelSequence, ProductsAreMembers) {
  const std::string text = std::string(kAdd) + R"(ENTRY main {
  x = f32[20,40] parameter(4)
  w = f32[40,200] parameter(0)
  b = f32[200] parameter(5)
  v = f32[200,300] parameter(1)
  a = f32[3,16,128] parameter(2)
  c = f32[3,128,128] parameter(3)
  z = f32[] constant(0)
  zs = f32[20,200] broadcast(z), dimensions={}
  spread = f32[20,200] broadcast(b), dimensions={1}
  xw = f32[20,200] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  biased = f32[20,200] add(xw, spread)
  h = f32[20,200] maximum(biased, zs)
  short = bf16[20,200] convert(h)
  y = f32[20,300] dot(short, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  dv = f32[200,300] dot(h, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  dh = f32[20,200] dot(y, v), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  chosen = f32[20,200] multiply(dh, h)
  db = f32[200] reduce(chosen, z), dimensions={0}, to_apply=add
  dw = f32[40,200] dot(x, chosen), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  new_w = f32[40,200] subtract(w, dw)
  several = f32[3,16,128] dot(a, c), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}
  squares = f32[3,16,128] multiply(several, several)
  ROOT t = (f32[20,300], f32[200,300], f32[200], f32[40,200], f32[3,16,128]) tuple(y, dv, db, new_w, squares)
}
)";
  for (const std::string kind : {"f32", "bf16"}) {
    SCOPED_TRACE(kind);
    std::string typed = text;
    if (kind == "bf16") {
      for (const std::string name : {"x = ", "w = ", "v = ", "a = ", "c = "}) {
        const std::size_t at = typed.find("  " + name + "f32[");
        typed.replace(at + 2 + name.size(), 3, "bf16");
      }
      const std::size_t at = typed.find("  new_w");
      typed.insert(at, "  w32 = f32[40,200] convert(w)\n");
      typed.replace(typed.find("subtract(w, dw)"), 15, "subtract(w32, dw)");
    }
    HloCheck check;
    check.tolerance = 5e-3;  // Operands of products are rounded to bf16.
    const CompiledRun run = check_hlo(typed, check);
    EXPECT_TRUE(is_one_sequence(run.program));
    // Five results in whole tiles, and nothing of what is between.
    const std::uint64_t tile = 4096;
    EXPECT_EQ(traffic_of_sequence(run).second, (3 * 3 + 25 * 3 + 1 + 5 * 2 + 3 * 2) * tile);
  }
}

/// Rows that fill a granule of their tiles: a kernel of its own moves only that, a member nothing.
TEST(KernelSequence, ProductsOfTwoFeaturesAreMembers) {
  HloCheck check;
  check.tolerance = 5e-3;
  const CompiledRun run = check_hlo(
      R"(HloModule m, entry_computation_layout={(f32[128,256]{0,1}, f32[256,256]{1,0}, f32[256,2]{1,0})->(f32[128,2]{0,1}, bf16[128,256]{1,0})}
ENTRY main {
  x = f32[128,256] parameter(0)
  w = f32[256,256] parameter(1)
  a = f32[256,2] parameter(2)
  y = f32[128,256] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  h = f32[128,256] tanh(y)
  z = f32[128,2] dot(h, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  k = bf16[128,256] convert(h)
  ROOT t = (f32[128,2], bf16[128,256]) tuple(z, k)
}
)",
      check);
  EXPECT_TRUE(is_one_sequence(run.program));
}

/// Arrays that a kernel of its own reads block by block while it works stay out.
TEST(KernelSequence, LargeProductsStandByThemselves) {
  const auto calls = [](int width) {
    const std::string n = std::to_string(width), x = "f32[64," + n + "]";
    return compiled("HloModule test\nENTRY main {\n  x = " + x + " parameter(0)\n  w = f32[" + n +
                    "," + n + "] parameter(1)\n  y = " + x +
                    " dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n  z = " + x +
                    " dot(y, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n  ROOT t = (" +
                    x + ") tuple(z)\n}\n")
        .ops.size();
  };
  EXPECT_EQ(calls(512), 1U);
  EXPECT_EQ(calls(768), 2U);
  // Nor do they join in a loop that more than they are the body of.
  const std::string text = R"(HloModule test
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
body {
  p = (s32[], f32[448,512], f32[512,512]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[448,512] get-tuple-element(p), index=1
  w = f32[512,512] get-tuple-element(p), index=2
  y = f32[448,512] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  z = f32[448,512] dot(y, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  none = f32[] constant(0)
  sums = f32[448,512] reduce-window(z, none), window={size=1x512 pad=0_0x511_0}, to_apply=add
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT t = (s32[], f32[448,512], f32[512,512]) tuple(j, sums, w)
}
cond {
  p = (s32[], f32[448,512], f32[512,512]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  l = s32[] constant(3)
  ROOT c = pred[] compare(i, l), direction=LT
}
ENTRY main {
  x = f32[448,512] parameter(0)
  w = f32[512,512] parameter(1)
  s = s32[] constant(0)
  t = (s32[], f32[448,512], f32[512,512]) tuple(s, x, w)
  v = (s32[], f32[448,512], f32[512,512]) while(t), condition=cond, body=body
  ROOT a = f32[448,512] get-tuple-element(v), index=1
}
)";
  for (const isa::OpInfo& op : compiled(text).ops) {
    EXPECT_EQ(op.name.find(".sequence"), std::string::npos) << op.name;
  }
}

/// A recurrent layer: a product of its state, gates that are parts of it, and arrays that get what
/// each iteration begins with, makes, and leaves to the next one.
std::string recurrent_layer(int trips, const std::string& type) {
  const std::string n = std::to_string(trips), h = "f32[16,128]";
  const std::string stack = "f32[" + n + ",16,128]", wide = "f32[" + n + ",16,256]";
  const std::string state = "(s32[], " + h + ", " + type + "[128,256], " + wide + ", " + stack +
                            ", " + stack + ", " + wide + ")";
  return "HloModule test\nbody {\n  p = " + state + R"( parameter(0)
  i = s32[] get-tuple-element(p), index=0
  h = )" +
         h + R"( get-tuple-element(p), index=1
  w = )" +
         type + R"([128,256] get-tuple-element(p), index=2
  xs = )" +
         wide + R"( get-tuple-element(p), index=3
  before = )" +
         stack + R"( get-tuple-element(p), index=4
  after = )" +
         stack + R"( get-tuple-element(p), index=5
  gates = )" +
         wide + R"( get-tuple-element(p), index=6
  zero = s32[] constant(0)
  one = s32[] constant(1)
  x1 = f32[1,16,256] dynamic-slice(xs, i, zero, zero), dynamic_slice_sizes={1,16,256}
  x = f32[16,256] reshape(x1)
  hw = f32[16,256] dot(h, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  z = f32[16,256] add(hw, x)
  a = f32[16,128] slice(z), slice={[0:16], [0:128]}
  b = f32[16,128] slice(z), slice={[0:16], [128:256]}
  kept = f32[16,128] multiply(a, h)
  next = f32[16,128] add(kept, b)
  h1 = f32[1,16,128] reshape(h)
  next1 = f32[1,16,128] reshape(next)
  z1 = f32[1,16,256] reshape(z)
  before2 = )" +
         stack + R"( dynamic-update-slice(before, h1, i, zero, zero)
  after2 = )" +
         stack + R"( dynamic-update-slice(after, next1, i, zero, zero)
  gates2 = )" +
         wide + R"( dynamic-update-slice(gates, z1, i, zero, zero)
  j = s32[] add(i, one)
  ROOT t = )" +
         state + R"( tuple(j, next, w, xs, before2, after2, gates2)
}
cond {
  p = )" +
         state + R"( parameter(0)
  i = s32[] get-tuple-element(p), index=0
  l = s32[] constant()" +
         n + R"()
  ROOT c = pred[] compare(i, l), direction=LT
}
ENTRY main {
  h = )" +
         h + R"( parameter(0)
  w = )" +
         type + R"([128,256] parameter(1)
  xs = )" +
         wide + R"( parameter(2)
  s = s32[] constant(0)
  f = f32[] constant(0)
  none = )" +
         stack + R"( broadcast(f), dimensions={}
  never = )" +
         wide + R"( broadcast(f), dimensions={}
  t = )" +
         state + R"( tuple(s, h, w, xs, none, none, never)
  v = )" +
         state + R"( while(t), condition=cond, body=body
  a = )" +
         h + R"( get-tuple-element(v), index=1
  b = )" +
         stack + R"( get-tuple-element(v), index=4
  c = )" +
         stack + R"( get-tuple-element(v), index=5
  d = )" +
         wide + R"( get-tuple-element(v), index=6
  ROOT r = ()" +
         h + ", " + stack + ", " + stack + ", " + wide + R"() tuple(a, b, c, d)
}
)";
}

TEST(KernelSequence, ARecurrentLayerIsOneKernel) {
  for (const std::string type : {"f32", "bf16"}) {
    for (const int trips : {2, 5}) {
      SCOPED_TRACE(type + " " + std::to_string(trips));
      HloCheck check;
      check.tolerance = 5e-3;
      const CompiledRun run = check_hlo(recurrent_layer(trips, type), check);
      EXPECT_TRUE(is_one_sequence(run.program));
      // State and weights come and go once, a slice of the arrays in each iteration. Nobody reads
      // the counter.
      const auto times = static_cast<std::uint64_t>(trips);
      const std::uint64_t tile = 4096, state = 2 * tile;
      const std::uint64_t weights = type == "f32" ? 32 * tile : 16 * tile;
      const auto [read, written] = traffic_of_sequence(run);
      EXPECT_EQ(read, state + weights + times * 2 * state);
      EXPECT_EQ(written, state + times * (2 * state + 2 * state));
      for (const isa::OpInfo& op : run.program.ops) {
        if (op.matmul_flops == 0) continue;
        EXPECT_EQ(op.matmul_flops, times * 2 * 16 * 128 * 256);
        EXPECT_EQ(op.padded_matmul_flops, op.matmul_flops);
        EXPECT_EQ(op.hbm_bytes, read + written);
      }
    }
  }
}

bool has_sequence_that_runs_once(const CompiledRun& run) {
  for (std::size_t i = 0; i < run.program.ops.size(); ++i) {
    const bool is_sequence = run.program.ops[i].name.find(".sequence") != std::string::npos;
    if (is_sequence && run.result.cores.at(0).ops[i].count == 1) return true;
  }
  return false;
}

/// A sum over the rows of an array and all partial sums, from the first or from the last row on.
std::string partial_sums(int trips, bool backwards) {
  const std::string n = std::to_string(trips), arrays = "f32[" + n + ",8,128]";
  const std::string state = "(s32[], f32[8,128], " + arrays + ", " + arrays + ")";
  const auto part = [](const std::string& name, const std::string& shape, int index) {
    return "  " + name + " = " + shape + " get-tuple-element(p), index=" + std::to_string(index) +
           "\n";
  };
  return "HloModule test\nbody {\n  p = " + state + " parameter(0)\n" + part("i", "s32[]", 0) +
         part("h", "f32[8,128]", 1) + part("xs", arrays, 2) + part("before", arrays, 3) +
         "  zero = s32[] constant(0)\n  one = s32[] constant(1)\n  last = s32[] constant(" +
         std::to_string(trips - 1) + ")\n  back = s32[] subtract(last, i)\n" +
         "  x1 = f32[1,8,128] dynamic-slice(xs, " + (backwards ? "back" : "i") +
         ", zero, zero), dynamic_slice_sizes={1,8,128}\n  x = f32[8,128] reshape(x1)\n"
         "  next = f32[8,128] add(h, x)\n  next1 = f32[1,8,128] reshape(next)\n  after = " +
         arrays + " dynamic-update-slice(before, next1, " + (backwards ? "back" : "i") +
         ", zero, zero)\n  j = s32[] add(i, one)\n  ROOT t = " + state +
         " tuple(j, next, xs, after)\n}\ncond {\n  p = " + state + " parameter(0)\n" +
         part("i", "s32[]", 0) + "  n = s32[] constant(" + n +
         ")\n  ROOT c = pred[] compare(i, n), direction=LT\n}\nENTRY main {\n"
         "  h = f32[8,128] parameter(0)\n  xs = " +
         arrays +
         " parameter(1)\n  s = s32[] constant(0)\n  f = f32[] constant(0)\n  none = " + arrays +
         " broadcast(f), dimensions={}\n  t = " + state + " tuple(s, h, xs, none)\n  v = " + state +
         " while(t), condition=cond, body=body\n"
         "  i = s32[] get-tuple-element(v), index=0\n"
         "  a = f32[8,128] get-tuple-element(v), index=1\n  b = " +
         arrays + " get-tuple-element(v), index=3\n  c = " + arrays +
         " negate(b)\n  ROOT r = (s32[], f32[8,128], " + arrays + ", " + arrays +
         ") tuple(i, a, b, c)\n}\n";
}

/// An iteration that waited for its operand, and then for its result to be written, would take two
/// latencies of a DMA and more.
TEST(KernelSequence, TheNextIterationsOperandsComeWhileOneRuns) {
  const auto cycles = [](int trips, bool backwards) {
    const CompiledRun run = check_hlo(partial_sums(trips, backwards));
    EXPECT_TRUE(has_sequence_that_runs_once(run));
    return static_cast<std::int64_t>(run.result.cycles);
  };
  const std::int64_t latency = compiler::Target().dma_latency_cycles;
  for (const bool backwards : {false, true}) {
    const std::int64_t iteration = (cycles(60, backwards) - cycles(20, backwards)) / 40;
    EXPECT_LT(iteration, 2 * latency) << backwards;
    EXPECT_GT(iteration, latency) << backwards;
  }
  // The first is the last but one, or the last.
  check_hlo(partial_sums(2, true));
  check_hlo(partial_sums(3, false));
}

/// Vectors move by rows of 128, packed arrays by whole tiles along the rows; others by kernels of
/// their own.
TEST(KernelSequence, VectorsMoveByWholeRowsOfLanesAndPackedArraysByAnyRows) {
  const auto text = [](const std::string& rows, const std::string& lanes) {
    const std::string r1 = rows, r2 = std::to_string(40 - std::stoi(rows));
    const std::string l1 = lanes, l2 = std::to_string(384 - std::stoi(lanes));
    return std::string(kAdd) + R"(ENTRY main {
  x = f32[40,256] parameter(0)
  y = f32[40,128] parameter(1)
  z = f32[] constant(0)
  xs = f32[256] reduce(x, z), dimensions={0}, to_apply=add
  ys = f32[128] reduce(y, z), dimensions={0}, to_apply=add
  both = f32[384] concatenate(xs, ys), dimensions={0}
  end = f32[)" +
           l2 + "] slice(both), slice={[" + l1 + R"(:384]}
  begin = f32[)" +
           l1 + "] slice(both), slice={[0:" + l1 + R"(]}
  turned = f32[384] concatenate(end, begin), dimensions={0}
  product = f32[384] multiply(turned, both)
  xh = bf16[40,256] convert(x)
  yh = bf16[40,128] convert(y)
  wide = bf16[40,384] concatenate(xh, yh), dimensions={1}
  low = bf16[)" +
           r2 + ",384] slice(wide), slice={[" + r1 + R"(:40], [0:384]}
  high = bf16[)" +
           r1 + ",384] slice(wide), slice={[0:" + r1 + R"(], [0:384]}
  rolled = bf16[40,384] concatenate(low, high), dimensions={0}
  ROOT t = (f32[384], bf16[40,384]) tuple(product, rolled)
}
)";
  };
  check_hlo(text("16", "128"));
  EXPECT_EQ(compiled(text("16", "128")).ops.size(), 1U);
  check_hlo(text("24", "256"));
  EXPECT_EQ(compiled(text("24", "256")).ops.size(), 1U);
  check_hlo(text("13", "128"));
  EXPECT_EQ(compiled(text("13", "128")).ops.size(), 1U);
  check_hlo(text("16", "100"));
  EXPECT_GT(compiled(text("16", "100")).ops.size(), 1U);
}

/// Members of the only sequence of a module by opcode.
std::map<hlo::HloOpcode, int> members_of(const std::string& text) {
  const compiler::ScheduledModule made = compiler::lower_to_kernels(
      hlo::read_hlo_text("test.hlo", text), target_of({}, 1), nullptr, {});
  std::map<hlo::HloOpcode, int> members;
  for (const hlo::HloInstruction& each : made.module.entry_computation().instructions) {
    if (!compiler::is_kernel_sequence(each)) continue;
    for (const auto& member : made.module.computation(each.called[0]).instructions) {
      ++members[member.opcode];
    }
  }
  return members;
}

/// Rows and lanes in another order, inside of a tile and over two; what follows reads them there,
/// with sums along rows of them.
TEST(KernelSequence, WhatOnlyMovesElementsIsReadWhereItStands) {
  for (const auto& [rows, lanes] : {std::pair(8, 12), std::pair(11, 200)}) {
    const std::string r = std::to_string(rows), l = std::to_string(lanes);
    const std::string shape = "f32[" + r + "," + l + "]", last = std::to_string(rows - 3);
    const std::string text =
        std::string(kAdd) + "ENTRY main {\n  x = " + shape + " parameter(0)\n  y = " + shape +
        " parameter(1)\n  z = f32[] constant(0)\n" + "  s = " + shape + " add(x, y)\n" +
        "  a = f32[3," + l + "] slice(s), slice={[" + last + ":" + r + "], [0:" + l + "]}\n" +
        "  b = f32[" + last + "," + l + "] slice(s), slice={[0:" + last + "], [0:" + l + "]}\n" +
        "  c = " + shape + " concatenate(a, b), dimensions={0}\n" + "  sums = f32[" + r +
        "] reduce(c, z), dimensions={1}, to_apply=add\n" + "  spread = " + shape +
        " broadcast(sums), dimensions={0}\n" + "  d = " + shape +
        " multiply(c, spread)\n  e = " + shape + " subtract(d, s)\n" + "  f = f32[" + r +
        ",1] slice(e), slice={[0:" + r + "], [" + std::to_string(lanes - 1) + ":" + l + "]}\n" +
        "  g = f32[" + r + "," + std::to_string(lanes - 1) + "] slice(e), slice={[0:" + r +
        "], [0:" + std::to_string(lanes - 1) + "]}\n" + "  h = " + shape +
        " concatenate(f, g), dimensions={1}\n" + "  i = " + shape +
        " multiply(h, x)\n  ROOT t = (" + shape + ", f32[" + r + "]) tuple(i, sums)\n}\n";
    check_hlo(text);
    EXPECT_EQ(compiled(text).ops.size(), 1U) << shape;
    auto members = members_of(text);
    EXPECT_EQ(members[hlo::HloOpcode::kSlice] + members[hlo::HloOpcode::kConcatenate], 0) << shape;
    EXPECT_LE(members[hlo::HloOpcode::kFusion], 3) << shape;
  }
}

/// Small arrays with large ones inside, of which a kernel keeps columns: they have to fit, too.
TEST(KernelSequence, WhatMembersKeepBesideTheirArraysFits) {
  std::string text = std::string(kAdd) + R"(ENTRY main {
  x0 = f32[130,87] parameter(0)
  y0 = f32[130,87] parameter(1)
  i0 = s32[130] parameter(2)
  i1 = s32[87] parameter(3)
  z = f32[] constant(0)
)";
  // Columns picked out of both arrays, by comparing with all of them; then columns of what came.
  for (const auto& [n, to, from] :
       {std::array<const char*, 3>{"0", "130", "87"}, {"1", "87", "130"}}) {
    const std::string cube = "[130," + std::string(to) + "," + from + "] ",
                      end = std::string(n) + " = ";
    const std::string next = n[0] == '0' ? "1" : "2";
    text += "  zero" + end + "f32" + cube + "broadcast(z), dimensions={}\n  k" + end + "s32" +
            cube + "iota(), iota_dimension=2\n  w" + end + "s32" + cube + "broadcast(i" + n +
            "), dimensions={1}\n  is" + end + "pred" + cube + "compare(k" + n + ", w" + n +
            "), direction=EQ\n";
    for (const std::string name : {"x", "y"}) {
      text += "  " + name + "3" + end + "f32" + cube + "broadcast(" + name + n +
              "), dimensions={0,2}\n  " + name + "s" + end + "f32" + cube + "select(is" + n + ", " +
              name + "3" + n + ", zero" + n + ")\n  " + name + next + " = f32[130," + to +
              "] reduce(" + name + "s" + n + ", z), dimensions={2}, to_apply=add\n";
    }
  }
  text +=
      "  ROOT t = (f32[130,130], f32[130,130], f32[130,87], f32[130,87]) tuple(x1, y1, x2, "
      "y2)\n}\n";
  EXPECT_GT(compiled(text).ops.size(), 1U);
}

/// Numbers from HBM, made by members, and those that a loop carries: what reads them takes one lane
/// for all, so they have to stand in all of them.
TEST(KernelSequence, ScalarsStandInAllLanes) {
  const std::string text = std::string(kAdd) + R"(body {
  p = (s32[], f32[9,20], f32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[9,20] get-tuple-element(p), index=1
  f = f32[] get-tuple-element(p), index=2
  k = s32[] get-tuple-element(p), index=3
  one = s32[] constant(1)
  j = s32[] add(i, one)
  fb = f32[9,20] broadcast(f), dimensions={}
  kb = s32[9,20] broadcast(k), dimensions={}
  kf = f32[9,20] convert(kb)
  xf = f32[9,20] multiply(x, fb)
  y = f32[9,20] subtract(xf, kf)
  z = f32[] constant(0)
  s = f32[] reduce(y, z), dimensions={0,1}, to_apply=add
  c = f32[] constant(0.001)
  g = f32[] multiply(s, c)
  l = s32[] add(k, i)
  ROOT t = (s32[], f32[9,20], f32[], s32[]) tuple(j, y, g, l)
}
test {
  p = (s32[], f32[9,20], f32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3)
  ROOT r = pred[] compare(i, n), direction=LT
}
ENTRY main {
  x = f32[9,20] parameter(0)
  f = f32[] parameter(1)
  k = s32[] parameter(2)
  zero = s32[] constant(0)
  p = (s32[], f32[9,20], f32[], s32[]) tuple(zero, x, f, k)
  w = (s32[], f32[9,20], f32[], s32[]) while(p), condition=test, body=body
  y = f32[9,20] get-tuple-element(w), index=1
  g = f32[] get-tuple-element(w), index=2
  l = s32[] get-tuple-element(w), index=3
  fb = f32[9,20] broadcast(f), dimensions={}
  a = f32[9,20] multiply(y, fb)
  z = f32[] constant(0)
  s = f32[] reduce(a, z), dimensions={0,1}, to_apply=add
  sb = f32[9,20] broadcast(s), dimensions={}
  b = f32[9,20] add(a, sb)
  ROOT t = (f32[9,20], f32[], s32[]) tuple(b, g, l)
}
)";
  HloCheck check;
  check.least = 3;
  check.most = 9;
  check_hlo(text, check);
}

/// As many addresses as a kernel has, of arrays that come and arrays that leave, and what is
/// beyond.
TEST(KernelSequence, ItHasNoMoreAddressesThanAKernel) {
  for (const auto& [in, out] :
       {std::pair(12, 12), std::pair(3, 21), std::pair(20, 4), std::pair(16, 16)}) {
    std::string text = std::string(kAdd) + "ENTRY main {\n  z = f32[] constant(0)\n";
    std::string types, names, last = "x0";
    for (int i = 0; i < in; ++i) {
      text += "  x" + std::to_string(i) + " = f32[8,20] parameter(" + std::to_string(i) + ")\n";
    }
    for (int i = 0; i < std::max(in, out); ++i) {
      const std::string n = std::to_string(i), x = "x" + std::to_string(i % in);
      text += "  y" + n + " = f32[8,20] multiply(" + last + ", " + x + ")\n  s" + n +
              " = f32[20] reduce(y" + n + ", z), dimensions={0}, to_apply=add\n  b" + n +
              " = f32[8,20] broadcast(s" + n + "), dimensions={1}\n";
      last = "b" + n;
      if (i < std::max(in, out) - out) continue;
      types += (types.empty() ? "" : ", ") + std::string("f32[20]");
      names += (names.empty() ? "" : ", ") + std::string("s") + n;
    }
    check_hlo(text + "  ROOT t = (" + types + ") tuple(" + names + ")\n}\n");
  }
}

/// Scalars, vectors and matrices of state: with the counter an operand and a result each.
std::string loop_over_states(int states) {
  std::string types = "s32[]", names, zeros, results;
  std::string body, next, given;
  for (int i = 0; i < states; ++i) {
    const std::string n = std::to_string(i), after = std::to_string((i + 1) % states);
    types += ", f32[8,20]";
    given += "  x" + n + " = f32[8,20] get-tuple-element(p), index=" + std::to_string(i + 1) + "\n";
    body += "  r" + n + " = f32[20] reduce(x" + n + ", z), dimensions={0}, to_apply=add\n  b" + n +
            " = f32[8,20] broadcast(r" + n + "), dimensions={1}\n  e" + n +
            " = f32[8,20] multiply(b" + n + ", eighth)\n  y" + n + " = f32[8,20] subtract(x" +
            after + ", e" + n + ")\n";
    next += ", y" + n;
    names += "  a" + n + " = f32[8,20] parameter(" + n + ")\n";
    zeros += ", a" + n;
    results += (i > 0 ? ", f32[8,20]" : "f32[8,20]");
  }
  std::string parts, outs;
  for (int i = 0; i < states; ++i) {
    const std::string n = std::to_string(i);
    parts += "  o" + n + " = f32[8,20] get-tuple-element(w), index=" + std::to_string(i + 1) + "\n";
    outs += (i > 0 ? ", o" : "o") + n;
  }
  return std::string(kAdd) + "body {\n  p = (" + types + ") parameter(0)\n" +
         "  i = s32[] get-tuple-element(p), index=0\n" + given +
         "  z = f32[] constant(0)\n  k = f32[] constant(0.125)\n" +
         "  eighth = f32[8,20] broadcast(k), dimensions={}\n  one = s32[] constant(1)\n" +
         "  j = s32[] add(i, one)\n" + body + "  ROOT t = (" + types + ") tuple(j" + next +
         ")\n}\ncond {\n  p = (" + types + ") parameter(0)\n" +
         "  i = s32[] get-tuple-element(p), index=0\n  l = s32[] constant(3)\n" +
         "  ROOT c = pred[] compare(i, l), direction=LT\n}\nENTRY main {\n" + names +
         "  s = s32[] constant(0)\n  t = (" + types + ") tuple(s" + zeros + ")\n  w = (" + types +
         ") while(t), condition=cond, body=body\n" + parts + "  ROOT r = (" + results + ") tuple(" +
         outs + ")\n}\n";
}

TEST(KernelSequence, ALoopHasAsManyAddressesAsACallCanLeave) {
  for (const int states : {10, 15, 16, 20}) {
    SCOPED_TRACE(states);
    const CompiledRun run = check_hlo(loop_over_states(states));
    const auto& ops = run.result.cores.at(0).ops;
    const bool runs_by_iteration =
        std::any_of(ops.begin(), ops.end(), [](const OpResult& op) { return op.count == 3; });
    EXPECT_EQ(runs_by_iteration, 2 * states > static_cast<int>(compiler::kMostKernelAddresses));
  }
}

TEST(KernelSequence, WhatItHoldsIsRefusedByName) {
  const std::string text = R"(HloModule test
ENTRY main {
  x = s32[16,128] parameter(0)
  y = s32[32,64] parameter(1)
  a = s32[16,128] add(x, x)
  b = s32[32,64] cbrt(y)
  ROOT t = (s32[16,128], s32[32,64]) tuple(a, b)
}
)";
  try {
    compiled(text);
    FAIL() << "expected a WorkloadError";
  } catch (const WorkloadError& error) {
    const std::string found = error.what();
    EXPECT_NE(found.find("1 operation has no kernel"), std::string::npos) << found;
    EXPECT_NE(found.find("cbrt"), std::string::npos) << found;
    EXPECT_EQ(found.find("s32[16,128]"), std::string::npos) << found;
  }
}

}  // namespace
}  // namespace tpu::test::kernel_sequence_test
