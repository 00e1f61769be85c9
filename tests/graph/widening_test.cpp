#include "workloads/graph/widening.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "workloads/hlo/hlo_reader.h"

/// Which extents grow with the padding of products, and what keeps others as they are.

namespace tpu::hlo::widening_test {
namespace {

/// The shapes of a widened module by the name of the instruction, and what became of its products.
struct Widened {
  explicit Widened(const std::string& text, std::int64_t multiple = 128)
      : result(widen_products(read_hlo_text("text", "HloModule m\n" + text), multiple, 8)) {
    for (const Computation& computation : result.module.computations) {
      for (const HloInstruction& in : computation.instructions) {
        shapes[in.name] = to_string(in.shape, false);
      }
    }
  }
  WidenedModule result;
  std::map<std::string, std::string> shapes;
};

TEST(Widening, AProductGrowsByWhatItsTilesPad) {
  Widened m(R"(ENTRY e {
    a = f32[30,200] parameter(0)
    b = f32[200,10] parameter(1)
    ROOT c = f32[30,10] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  })");
  EXPECT_EQ(m.shapes["a"], "f32[32,256]");
  EXPECT_EQ(m.shapes["b"], "f32[256,128]");
  EXPECT_EQ(m.shapes["c"], "f32[32,128]");
  EXPECT_EQ(m.result.widened, 3u);
  EXPECT_EQ(m.result.kept, 0u);
}

TEST(Widening, WhatFillsItsTilesStays) {
  Widened m(R"(ENTRY e {
    a = f32[8,128] parameter(0)
    b = f32[128,256] parameter(1)
    other = f32[3,5] parameter(2)
    c = f32[8,256] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    ROOT t = (f32[8,256], f32[3,5]) tuple(c, other)
  })");
  EXPECT_EQ(m.shapes["t"], "(f32[8,256], f32[3,5])");
  EXPECT_EQ(m.result.widened + m.result.kept, 0u);
}

/// 30 rows are contracted by the second product, so they are 128; sizes go through what stands
/// between them, into the constant and out of the reduction.
TEST(Widening, AnExtentGrowsWhereverItGoes) {
  Widened m(R"(sum {
    x = f32[] parameter(0)
    y = f32[] parameter(1)
    ROOT z = f32[] add(x, y)
  }
  ENTRY e {
    a = f32[30,128] parameter(0)
    b = f32[128,10] parameter(1)
    c = f32[30,10] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    zero = f32[] constant(0)
    two = f32[30,10] constant({...})
    zeros = f32[30,10] broadcast(zero), dimensions={}
    d = f32[30,10] maximum(c, zeros)
    s = f32[10] reduce(d, zero), dimensions={0}, to_apply=sum
    r = f32[30,10] broadcast(s), dimensions={1}
    m = f32[30,10] multiply(r, two)
    t = f32[10,30] transpose(m), dimensions={1,0}
    q = f32[10,30,2] parameter(2)
    p = f32[10,30,4] pad(q, zero), padding=0_0x0_0x1_1
    cut = f32[10,30,1] slice(p), slice={[0:10],[0:30],[1:2]}
    ROOT g = f32[10,128] dot(t, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  })");
  for (const char* name : {"c", "two", "zeros", "d", "r", "m"}) {
    EXPECT_EQ(m.shapes[name], "f32[128,128]") << name;
  }
  EXPECT_EQ(m.shapes["s"], "f32[128]");
  EXPECT_EQ(m.shapes["a"], "f32[128,128]");
  EXPECT_EQ(m.shapes["g"], "f32[128,128]");
  EXPECT_EQ(m.shapes["cut"], "f32[10,30,1]");  // Nothing ties it to the products.
}

/// Loops carry it; both branches of a conditional have it.
TEST(Widening, LoopsAndBranchesGrowWithIt) {
  Widened m(R"(body {
    state = (s32[], f32[8,100]) parameter(0)
    i = s32[] get-tuple-element(state), index=0
    x = f32[8,100] get-tuple-element(state), index=1
    one = s32[] constant(1)
    next = s32[] add(i, one)
    half = f32[] constant(0.5)
    y = f32[8,100] broadcast(half), dimensions={}
    ROOT out = (s32[], f32[8,100]) tuple(next, y)
  }
  test {
    at = (s32[], f32[8,100]) parameter(0)
    j = s32[] get-tuple-element(at), index=0
    four = s32[] constant(4)
    ROOT go = pred[] compare(j, four), direction=LT
  }
  yes { v = f32[8,100] parameter(0)
    ROOT w = f32[8,100] exponential(v) }
  no { ROOT u = f32[8,100] parameter(0) }
  ENTRY e {
    a = f32[8,100] parameter(0)
    b = f32[100,128] parameter(1)
    zero = s32[] constant(0)
    init = (s32[], f32[8,100]) tuple(zero, a)
    loop = (s32[], f32[8,100]) while(init), condition=test, body=body
    k = f32[8,100] get-tuple-element(loop), index=1
    which = pred[] parameter(2)
    l = f32[8,100] conditional(which, k, k), true_computation=yes, false_computation=no
    ROOT c = f32[8,128] dot(l, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  })");
  for (const char* name : {"a", "x", "y", "k", "v", "w", "u", "l"}) {
    EXPECT_EQ(m.shapes[name], "f32[8,128]") << name;
  }
  EXPECT_EQ(m.shapes["at"], "(s32[], f32[8,128])");
  EXPECT_EQ(m.result.kept, 0u);
}

TEST(Widening, FeaturesOfAConvolutionGrowAndItsWindowStays) {
  Widened m(R"(ENTRY e {
    x = bf16[6,10,10,3] parameter(0)
    k = bf16[3,3,3,64] parameter(1)
    c = bf16[6,8,8,64] convolution(x, k), window={size=3x3}, dim_labels=b01f_01io->b01f
    g = bf16[3,3,1,64] parameter(2)
    ROOT d = bf16[6,6,6,64] convolution(c, g), window={size=3x3}, dim_labels=b01f_01io->b01f, feature_group_count=64
  })");
  EXPECT_EQ(m.shapes["x"], "bf16[8,10,10,128]");
  EXPECT_EQ(m.shapes["k"], "bf16[3,3,128,64]");  // Groups of the second one are counted.
  EXPECT_EQ(m.shapes["d"], "bf16[8,6,6,64]");
  EXPECT_EQ(m.result.widened, 3u);
  EXPECT_EQ(m.result.kept, 3u);
}

/// Each line states 30 or 10 in numbers of its own, so that the product keeps them.
TEST(Widening, WhatIsStatedInNumbersStays) {
  const std::string begin = R"(sum {
    x = f32[] parameter(0)
    y = f32[] parameter(1)
    ROOT z = f32[] add(x, y)
  }
  ENTRY e {
    a = f32[30,128] parameter(0)
    b = f32[128,10] parameter(1)
    c = f32[30,10] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    zero = f32[] constant(0)
)";
  const std::pair<const char*, std::size_t> lines[] = {
      {"ROOT r = f32[300] reshape(c)", 2},
      {"ROOT r = f32[30,2,5] reshape(c)", 1},
      {"ROOT r = f32[30,1,10] reshape(c)", 0},
      {"ROOT r = f32[29,10] slice(c), slice={[1:30],[0:10]}", 1},
      {"ROOT r = f32[30,10] slice(c), slice={[0:30],[0:10]}", 0},
      {"ROOT r = f32[30,11] pad(c, zero), padding=0_0x0_1", 1},
      {"ROOT r = f32[30,10] pad(c, zero), padding=1_-1x0_0", 1},
      {"ROOT r = f32[30,10] reduce-window(c, zero), window={size=3x1 pad=1_1x0_0}, to_apply=sum",
       1},
      {"ROOT r = f32[30,10] concatenate(c), dimensions={0}", 1},
      {"ROOT r = f32[60,10] concatenate(c, c), dimensions={0}", 1},
      {"i = s32[] constant(0)\nROOT r = f32[30,4] dynamic-slice(c, i, i), "
       "dynamic_slice_sizes={30,4}",
       1},
      {"n = f32[30,10] constant({...})\nROOT r = f32[30,10] add(c, n)", 0},
      {"i = s32[7,1] parameter(2)\nROOT r = f32[7,10] gather(c, i), offset_dims={1}, "
       "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,10}",
       1},
      {"i = s32[7,1] parameter(2)\nq = f32[7,10] gather(c, i), offset_dims={1}, "
       "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,10}\n"
       "ROOT r = f32[7,128] dot(q, b), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
       2},
      {"i = f32[8,30,10,128] broadcast(c), dimensions={1,2}\n"
       "k = f32[3,3,128,128] parameter(2)\n"
       "ROOT r = f32[8,30,10,128] convolution(i, k), window={size=3x3 pad=1_1x1_1}, "
       "dim_labels=b01f_01io->b01f",
       2},
      {"ROOT r = f32[30,10] custom-call(c), custom_call_target=\"mine\"", 2}};
  for (const auto& [line, kept] : lines) {
    const Widened m(begin + "    " + line + "\n}");
    EXPECT_EQ(m.result.kept, kept) << line;
    EXPECT_TRUE(kept > 0 || m.result.widened == 2) << line;
  }
}

/// The body of a loop has it as a table of its own.
TEST(Widening, WhatALoopStatesInNumbersStays) {
  Widened m(R"(body {
    state = (s32[], f32[8,100]) parameter(0)
    i = s32[] get-tuple-element(state), index=0
    x = f32[8,100] get-tuple-element(state), index=1
    w = f32[8] custom-call(x), custom_call_target="mine"
    half = f32[] constant(0.5)
    y = f32[8,100] broadcast(half), dimensions={}
    ROOT out = (s32[], f32[8,100]) tuple(i, y)
  }
  test {
    at = (s32[], f32[8,100]) parameter(0)
    j = s32[] get-tuple-element(at), index=0
    four = s32[] constant(4)
    ROOT go = pred[] compare(j, four), direction=LT
  }
  ENTRY e {
    a = f32[8,100] parameter(0)
    b = f32[100,128] parameter(1)
    zero = s32[] constant(0)
    init = (s32[], f32[8,100]) tuple(zero, a)
    loop = (s32[], f32[8,100]) while(init), condition=test, body=body
    ROOT c = f32[8,128] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  })");
  EXPECT_EQ(m.shapes["a"], "f32[8,100]");
  EXPECT_EQ(m.result.kept, 1u);
}

TEST(Widening, ConstantsOfOneValueGrowOthersDoNot) {
  const std::string begin = R"(ENTRY e {
    a = f32[8,128] parameter(0)
    b = f32[128,2] parameter(1)
    c = f32[8,2] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
)";
  const std::string row = "{ 3, 3 }", other = "{ 3, 4 }";
  const auto with = [&](const std::string& value) {
    return Widened(begin + "n = f32[2] constant(" + value +
                   ")\nm = f32[8,2] broadcast(n), dimensions={1}\nROOT r = f32[8,2] add(c, m)\n}");
  };
  const Widened alike = with(row);
  EXPECT_EQ(alike.result.kept, 0u);
  for (const HloInstruction& in : alike.result.module.entry_computation().instructions) {
    if (in.name != "n") continue;
    ASSERT_EQ(in.literal.size(), 128u * 4);
    for (std::size_t i = 0; i < in.literal.size(); ++i) ASSERT_EQ(in.literal[i], in.literal[i % 4]);
  }
  EXPECT_EQ(with(other).result.kept, 1u);
}

}  // namespace
}  // namespace tpu::hlo::widening_test
