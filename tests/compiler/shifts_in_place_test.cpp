#include "workloads/compiler/passes/fuse/shifts_in_place.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/compiler/hlo_check.h"
#include "tests/compiler/machine_target.h"
#include "tests/compiler/pass_check.h"
#include "workloads/compiler/compiler.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::shifts_in_place_test {
namespace {

constexpr int kStencils = 60;

/// Pads, slices and concatenations that are kernels of their own.
std::size_t moves_left(const std::string& text, std::uint32_t vmem_mib = 16) {
  return left_behind("read_shifts_in_place",
                     {hlo::HloOpcode::kSlice, hlo::HloOpcode::kPad, hlo::HloOpcode::kConcatenate},
                     text, vmem_mib);
}

std::string shape_of(const std::string& type, const std::vector<int>& extents) {
  std::string text = type + "[";
  for (std::size_t i = 0; i < extents.size(); ++i) {
    text += (i > 0 ? "," : "") + std::to_string(extents[i]);
  }
  return text + "]";
}

/// `name` is the array whose element i is that of `x` at i + by, around its end.
std::string roll(const std::string& name, const std::string& type, const std::vector<int>& extents,
                 std::size_t dimension, int by) {
  const auto part = [&](const std::string& suffix, int begin, int end) {
    std::vector<int> cut = extents;
    cut[dimension] = end - begin;
    std::string bounds;
    for (std::size_t d = 0; d < extents.size(); ++d) {
      const bool is_cut = d == dimension;
      bounds += (d > 0 ? ", [" : "[") + std::to_string(is_cut ? begin : 0) + ":" +
                std::to_string(is_cut ? end : extents[d]) + "]";
    }
    return "  " + name + suffix + " = " + shape_of(type, cut) + " slice(x), slice={" + bounds +
           "}\n";
  };
  return part(".upper", by, extents[dimension]) + part(".lower", 0, by) + "  " + name + " = " +
         shape_of(type, extents) + " concatenate(" + name + ".upper, " + name +
         ".lower), dimensions={" + std::to_string(dimension) + "}\n";
}

struct Roll {
  std::size_t dimension;
  int by;
};

/// A weighted sum of an array rolled by several distances.
std::string stencil(const std::string& type, const std::vector<int>& extents,
                    const std::vector<Roll>& rolls) {
  const std::string shape = shape_of(type, extents);
  std::string text = "HloModule test\nENTRY main {\n  x = " + shape +
                     " parameter(0)\n  y = " + shape + " parameter(1)\n  w = " + type +
                     "[] constant(0.375)\n  ws = " + shape +
                     " broadcast(w), dimensions={}\n  sum.0 = " + shape + " multiply(x, y)\n";
  for (std::size_t i = 0; i < rolls.size(); ++i) {
    const std::string n = std::to_string(i), next = std::to_string(i + 1);
    text += roll("roll." + n, type, extents, rolls[i].dimension, rolls[i].by);
    text += "  scaled." + n + " = " + shape + " multiply(roll." + n + ", ws)\n";
    text += "  sum." + next + " = " + shape + " subtract(scaled." + n + ", sum." + n + ")\n";
  }
  return text + "  ROOT result = " + shape + " add(sum." + std::to_string(rolls.size()) +
         ", y)\n}\n";
}

TEST(ShiftsInPlace, AStencilOfRolledArraysIsOneKernel) {
  const std::string text =
      stencil("f32", {4, 64, 384},
              {{1, 1}, {1, 63}, {1, 20}, {1, 40}, {2, 1}, {2, 383}, {2, 130}, {2, 256}, {0, 3}});
  EXPECT_EQ(moves_left(text), 0);
  const isa::Program program =
      compiler::compile(hlo::read_hlo_text("stencil.hlo", text), target_of({}, 1));
  EXPECT_EQ(program.ops.size(), 1U);
  for (const isa::Buffer& buffer : program.buffers) {
    EXPECT_NE(buffer.role, isa::BufferRole::kTemporary) << buffer.name;
  }
}

/// More than other members of sequences bring: 3 MiB.
TEST(ShiftsInPlace, AQuarterOfVmemIsEnough) {
  EXPECT_EQ(moves_left(stencil("f32", {4, 128, 512}, {{1, 1}, {1, 127}, {2, 510}})), 0);
}

TEST(ShiftsInPlace, AKernelOfSeveralResultsIsOneToo) {
  std::string text = stencil("f32", {4, 64, 256}, {{1, 1}, {2, 3}});
  const std::string root = "  ROOT result";
  text.replace(text.find(root), root.size(), "  result");
  text.insert(text.rfind('}'),
              "  twice = f32[4,64,256] add(result, sum.1)\n"
              "  ROOT all = (f32[4,64,256], f32[4,64,256]) tuple(result, twice)\n");
  EXPECT_EQ(moves_left(text), 0);
}

/// Sums of a stencil, beside it: the residual of a solver.
TEST(ShiftsInPlace, SumsOfAStencilAreMadeInItsKernel) {
  for (const std::string dimensions : {"2", "1", "0,1,2"}) {
    std::string text = stencil("f32", {4, 60, 256}, {{1, 1}, {1, 59}, {2, 1}, {2, 255}});
    const std::string root = "  ROOT result", kept = dimensions == "2"   ? "[4,60]"
                                                     : dimensions == "1" ? "[4,256]"
                                                                         : "[]";
    text.replace(text.find(root), root.size(), "  result");
    text.insert(
        text.find("ENTRY"),
        "add {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT s = f32[] add(a, "
        "b)\n}\n");
    text.insert(text.rfind('}'),
                "  zero = f32[] constant(0)\n  squares = f32[4,60,256] "
                "multiply(result, result)\n  sums = f32" +
                    kept + " reduce(squares, zero), dimensions={" + dimensions +
                    "}, to_apply=add\n  ROOT all = (f32[4,60,256], f32" + kept +
                    ") tuple(result, sums)\n");
    EXPECT_EQ(moves_left(text), 0) << dimensions;
  }
}

TEST(ShiftsInPlace, RollsOfArraysThatFillNoWholeTilesAreSelected) {
  EXPECT_EQ(moves_left(stencil("f32", {3, 61, 300}, {{1, 1}, {1, 60}, {2, 7}, {2, 290}, {0, 1}})),
            0);
  EXPECT_EQ(moves_left(stencil("f32", {200, 136}, {{0, 3}, {0, 199}, {1, 135}, {1, 2}})), 0);
}

TEST(ShiftsInPlace, PackedArraysRollByWholeTilesOfRowsAndByPartsOfThem) {
  EXPECT_EQ(moves_left(stencil("bf16", {4, 128, 256}, {{1, 16}, {1, 120}, {2, 3}, {0, 1}})), 0);
  EXPECT_EQ(moves_left(stencil("bf16", {4, 128, 256}, {{1, 4}, {1, 120}, {1, 3}, {1, 127}})), 0);
}

TEST(ShiftsInPlace, ALoopOfThemKeepsItsStateInVmem) {
  const std::vector<int> extents{2, 64, 256};
  const std::string shape = shape_of("f32", extents),
                    state = "(s32[], " + shape + ", " + shape + ")";
  const std::string text =
      "HloModule test\nbody {\n  p = " + state +
      " parameter(0)\n  i = s32[] get-tuple-element(p), index=0\n  x = " + shape +
      " get-tuple-element(p), index=1\n  before = " + shape + " get-tuple-element(p), index=2\n" +
      roll("a", "f32", extents, 1, 1) + roll("b", "f32", extents, 1, 63) +
      roll("c", "f32", extents, 2, 2) + roll("d", "f32", extents, 2, 254) + "  ab = " + shape +
      " add(a, b)\n  cd = " + shape + " add(c, d)\n  abcd = " + shape +
      " add(ab, cd)\n  k = f32[] constant(0.2)\n  ks = " + shape +
      " broadcast(k), dimensions={}\n  less = " + shape + " multiply(abcd, ks)\n  next = " + shape +
      " subtract(less, before)\n  one = s32[] constant(1)\n  j = s32[] add(i, "
      "one)\n  ROOT t = " +
      state + " tuple(j, next, x)\n}\ncond {\n  p = " + state +
      " parameter(0)\n  i = s32[] get-tuple-element(p), index=0\n  n = s32[] "
      "constant(5)\n  ROOT c = pred[] compare(i, n), direction=LT\n}\nENTRY "
      "main {\n  x = " +
      shape + " parameter(0)\n  y = " + shape +
      " parameter(1)\n  zero = s32[] constant(0)\n  s = " + state +
      " tuple(zero, x, y)\n  ROOT w = " + state + " while(s), condition=cond, body=body\n}\n";
  const CompiledRun run = check_hlo(text);
  const isa::Program program =
      compiler::compile(hlo::read_hlo_text("loop.hlo", text), target_of({}, 1));
  EXPECT_LE(program.ops.size(), 3U);
}

TEST(ShiftsInPlace, PadsAndConcatenationsOfSeveralArraysAreReadToo) {
  EXPECT_EQ(moves_left(R"(HloModule test
ENTRY main {
  x = f32[4,120,250] parameter(0)
  y = f32[4,128,256] parameter(1)
  u = f32[4,20,256] parameter(2)
  v = f32[4,108,256] parameter(3)
  k = f32[] constant(2.5)
  padded = f32[4,128,256] pad(x, k), padding=0_0x5_3x4_2
  joined = f32[4,128,256] concatenate(u, v), dimensions={1}
  product = f32[4,128,256] multiply(padded, joined)
  ROOT sum = f32[4,128,256] add(product, y)
}
)"),
            0);
}

/// Parts of one array that are no roll of it: its first rows twice, its latter part at its own end.
TEST(ShiftsInPlace, OtherPartsOfOneArrayAreNoRoll) {
  EXPECT_EQ(moves_left(R"(HloModule test
ENTRY main {
  x = f32[4,128,256] parameter(0)
  y = f32[4,128,256] parameter(1)
  a = f32[4,9,256] slice(x), slice={[0:4], [0:9], [0:256]}
  b = f32[4,119,256] slice(x), slice={[0:4], [0:119], [0:256]}
  ab = f32[4,128,256] concatenate(a, b), dimensions={1}
  c = f32[4,119,256] slice(x), slice={[0:4], [9:128], [0:256]}
  d = f32[4,9,256] slice(x), slice={[0:4], [119:128], [0:256]}
  cd = f32[4,128,256] concatenate(c, d), dimensions={1}
  product = f32[4,128,256] multiply(ab, cd)
  ROOT sum = f32[4,128,256] add(product, y)
}
)"),
            0);
}

/// Of a larger array, by several distances: what a stencil without its border is made of.
std::string sum_of_slices(const std::string& type, const std::vector<int>& extents,
                          std::mt19937& engine) {
  std::vector<int> larger = extents;
  for (int& extent : larger) extent += 2;
  const std::string shape = shape_of(type, extents);
  std::string text = "HloModule test\nENTRY main {\n  x = " + shape_of(type, larger) +
                     " parameter(0)\n  sum.0 = " + shape + " parameter(1)\n";
  for (int i = 0; i < 4; ++i) {
    const std::string n = std::to_string(i), next = std::to_string(i + 1);
    std::string bounds;
    for (std::size_t d = 0; d < extents.size(); ++d) {
      const int begin = static_cast<int>(engine() % 3);
      bounds += (d > 0 ? ", [" : "[") + std::to_string(begin) + ":" +
                std::to_string(begin + extents[d]) + "]";
    }
    text += "  part." + n + " = " + shape + " slice(x), slice={" + bounds + "}\n  sum." + next +
            " = " + shape + " subtract(part." + n + ", sum." + n + ")\n";
  }
  return text + "  ROOT result = " + shape + " add(sum.4, sum.0)\n}\n";
}

TEST(ShiftsInPlace, RandomStencilsHaveTheirValues) {
  std::mt19937 engine(7);
  const auto one_of = [&](const std::vector<int>& values) {
    return values[engine() % values.size()];
  };
  int taken = 0;
  for (int i = 0; i < kStencils; ++i) {
    const std::string type = one_of({0, 0, 1}) == 0 ? "f32" : "bf16";
    std::vector<int> extents;
    for (int outer = one_of({0, 1, 2}); outer > 0; --outer) extents.push_back(one_of({1, 2, 3, 8}));
    if (one_of({0, 1, 1, 1}) == 1) extents.push_back(one_of({1, 7, 16, 61, 64}));
    extents.push_back(one_of({1, 50, 128, 200, 256, 384, 1024}));
    std::vector<Roll> rolls;
    for (std::size_t d = 0; d < extents.size(); ++d) {
      for (int count = one_of({0, 1, 2}); count > 0 && extents[d] > 1; --count) {
        rolls.push_back(
            {d, 1 + static_cast<int>(engine() % static_cast<unsigned>(extents[d] - 1))});
      }
    }
    SCOPED_TRACE(type + " " + std::to_string(i));
    const bool is_inner = i % 3 == 2;
    const auto left =
        moves_left(is_inner ? sum_of_slices(type, extents, engine) : stencil(type, extents, rolls));
    if ((is_inner || !rolls.empty()) && left == 0) ++taken;
  }
  EXPECT_GT(taken, kStencils / 4);
}

TEST(ShiftsInPlace, ARolledArrayThatIsNeededAnywayIsWritten) {
  std::string text = stencil("f32", {4, 64, 256}, {{1, 1}, {1, 63}});
  const std::string root = "  ROOT result";
  text.replace(text.find(root), root.size(), "  result");
  text.insert(text.rfind('}'),
              "  ROOT all = (f32[4,64,256], f32[4,64,256]) tuple(result, roll.0)\n");
  EXPECT_GT(moves_left(text), 0);
}

/// Its arithmetic hides the transfers, which whole arrays in VMEM do not.
TEST(ShiftsInPlace, AKernelThatComputesForLongStaysInBlocks) {
  std::string text = stencil("f32", {4, 128, 256}, {{2, 1}});
  const std::string root = "  ROOT result = f32[4,128,256] add(sum.1, y)";
  text.replace(text.find(root), root.size(), R"(  a = f32[4,128,256] tanh(sum.1)
  b = f32[4,128,256] cosine(a)
  c = f32[4,128,256] power(b, y)
  ROOT result = f32[4,128,256] add(c, y))");
  EXPECT_GT(moves_left(text), 0);
}

TEST(ShiftsInPlace, ArraysThatDoNotFitVmemComeBlockByBlock) {
  const std::string text = stencil("f32", {4, 64, 256}, {{1, 1}, {1, 63}});
  EXPECT_EQ(moves_left(text), 0);
  EXPECT_EQ(moves_left(text, 1), 0);
}

}  // namespace
}  // namespace tpu::test::shifts_in_place_test
