#include "workloads/compiler/passes/fuse/streamed_shifts.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/compiler/machine_target.h"
#include "tests/compiler/pass_check.h"
#include "workloads/compiler/compiler.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/hlo/hlo_reader.h"

// Kernels that read arrays around the places of a block. VMEM is small, 1 MiB: whole arrays have no
// room in it.

namespace tpu::test::streamed_shifts_test {
namespace {

constexpr int kExpressions = 60;

std::size_t moves_left(const std::string& text, std::uint32_t vmem_mib = 1) {
  return left_behind("read_shifts_in_place",
                     {hlo::HloOpcode::kSlice, hlo::HloOpcode::kPad, hlo::HloOpcode::kConcatenate},
                     text, vmem_mib);
}

/// Kernels of a program with so little VMEM.
std::size_t kernels_of(const std::string& text) {
  compiler::Target target = target_of({}, 1);
  target.vmem_bytes = std::uint64_t{1} << 20;
  return compiler::compile(hlo::read_hlo_text("stencil.hlo", text), target).ops.size();
}

using Extents = std::vector<int>;

std::string shape_of(const std::string& type, const Extents& extents) {
  std::string text = type + "[";
  for (std::size_t i = 0; i < extents.size(); ++i) {
    text += (i > 0 ? "," : "") + std::to_string(extents[i]);
  }
  return text + "]";
}

std::string slice_of(const std::string& array, const Extents& starts, const Extents& extents,
                     const Extents& steps) {
  std::string text = " slice(" + array + "), slice={";
  for (std::size_t d = 0; d < starts.size(); ++d) {
    const int end = starts[d] + (extents[d] - 1) * steps[d] + 1;
    text += (d > 0 ? ", [" : "[") + std::to_string(starts[d]) + ":" + std::to_string(end) + ":" +
            std::to_string(steps[d]) + "]";
  }
  return text + "}\n";
}

/// x + 3 (its neighbours along all dimensions), inside; what is at the border is padding, or x
/// where the result has no border.
std::string star(const std::string& type, const Extents& extents, bool has_border) {
  Extents inner = extents;
  for (int& extent : inner) extent -= 2;
  const Extents ones(extents.size(), 1);
  const std::string whole = shape_of(type, extents), part = shape_of(type, inner);
  std::string text = "HloModule test\nENTRY main {\n  x = " + whole +
                     " parameter(0)\n  zero = " + type + "[] constant(0)\n  three = " + type +
                     "[] constant(3)\n  c = " + part + slice_of("x", ones, inner, ones);
  std::string sum = "c";
  for (std::size_t d = 0; d < extents.size(); ++d) {
    for (const int start : {0, 2}) {
      Extents starts = ones;
      starts[d] = start;
      const std::string n = std::to_string(d) + "." + std::to_string(start);
      text += "  part." + n + " = " + part + slice_of("x", starts, inner, ones);
      text += "  sum." + n + " = " + part + " add(" + sum + ", part." + n + ")\n";
      sum = "sum." + n;
    }
  }
  text += "  threes = " + part + " broadcast(three), dimensions={}\n  scaled = " + part +
          " multiply(" + sum + ", threes)\n";
  if (!has_border) return text + "  ROOT result = " + part + " add(scaled, c)\n}\n";
  std::string padding;
  for (std::size_t d = 0; d < extents.size(); ++d) padding += d > 0 ? "x1_1" : "1_1";
  return text + "  padded = " + whole + " pad(scaled, zero), padding=" + padding +
         "\n  ROOT result = " + whole + " add(x, padded)\n}\n";
}

void expect_one_kernel(const std::string& text) {
  EXPECT_EQ(moves_left(text), 0U) << text;
  EXPECT_EQ(kernels_of(text), 1U) << text;
}

TEST(StreamedShifts, AStarOfNeighboursIsOneKernel) {
  for (const std::string type : {"f32", "bf16", "s32"}) {
    for (const bool has_border : {true, false}) {
      SCOPED_TRACE(type + (has_border ? " with its border" : ""));
      expect_one_kernel(star(type, {421, 640}, has_border));  // Several lane tiles, a last tile.
      expect_one_kernel(star(type, {20, 40, 300}, has_border));
      expect_one_kernel(star(type, {26, 66, 130}, has_border));  // A row tile less inside.
      expect_one_kernel(star(type, {40, 5, 24, 128}, has_border));
    }
  }
}

/// Many blocks, of which the last one is smaller; and one row tile in a block.
TEST(StreamedShifts, WideRowsComeRowTileByRowTile) {
  expect_one_kernel(star("f32", {117, 2200}, true));
  expect_one_kernel(star("f32", {2000, 256}, false));
}

/// `name` is x rolled: its last element along a dimension before the others, or its first behind.
std::string roll(const std::string& name, const std::string& x, const Extents& extents,
                 std::size_t dimension, int by) {
  const Extents ones(extents.size(), 1);
  Extents upper = extents, lower = extents, starts(extents.size(), 0);
  upper[dimension] -= by;
  lower[dimension] = by;
  starts[dimension] = by;
  return "  " + name + ".u = " + shape_of("f32", upper) + slice_of(x, starts, upper, ones) + "  " +
         name + ".l = " + shape_of("f32", lower) +
         slice_of(x, Extents(extents.size(), 0), lower, ones) + "  " + name + " = " +
         shape_of("f32", extents) + " concatenate(" + name + ".u, " + name + ".l), dimensions={" +
         std::to_string(dimension) + "}\n";
}

/// The other end of the array comes with the first block, and its begin with the last one.
TEST(StreamedShifts, RolledArraysComeAroundTheirEnds) {
  struct Case {
    Extents extents;
    std::vector<std::pair<std::size_t, int>> rolls;
  };
  for (const Case& each : std::vector<Case>{{{320, 512}, {{0, 1}, {0, 319}, {1, 1}, {1, 511}}},
                                            {{328, 384}, {{0, 20}, {0, 17}, {1, 130}}},
                                            {{24, 64, 128}, {{0, 1}, {0, 23}, {1, 63}, {2, 127}}},
                                            {{48, 32, 128}, {{0, 47}, {1, 8}}}}) {
    const std::string shape = shape_of("f32", each.extents);
    std::string text = "HloModule test\nENTRY main {\n  x = " + shape + " parameter(0)\n";
    std::string sum = "x";
    for (std::size_t i = 0; i < each.rolls.size(); ++i) {
      const std::string n = std::to_string(i);
      text += roll("r" + n, "x", each.extents, each.rolls[i].first, each.rolls[i].second);
      text += "  s" + n + " = " + shape + " subtract(r" + n + ", " + sum + ")\n";
      sum = "s" + n;
    }
    expect_one_kernel(text + "  ROOT result = " + shape + " add(x, " + sum + ")\n}\n");
  }
}

/// Of packed rows that two blocks share half a register ends where the next ones come.
TEST(StreamedShifts, HalfRegistersOfRowsAreKept) {
  expect_one_kernel(R"(HloModule test
ENTRY main {
  x = bf16[1421,640] parameter(0)
  a = bf16[1420,640] slice(x), slice={[1:1421], [0:640]}
  b = bf16[1420,640] slice(x), slice={[0:1420], [0:640]}
  ROOT d = bf16[1420,640] subtract(a, b)
}
)");
}

/// A roll of a roll: both axes go on at the other end.
TEST(StreamedShifts, ARollAlongTwoDimensionsGoesOnAtBothEnds) {
  const Extents extents{320, 512};
  expect_one_kernel("HloModule test\nENTRY main {\n  x = f32[320,512] parameter(0)\n" +
                    roll("a", "x", extents, 0, 319) + roll("b", "a", extents, 1, 3) +
                    "  ROOT result = f32[320,512] subtract(x, b)\n}\n");
}

/// What is read at several distances is computed at each of them.
TEST(StreamedShifts, FluxesAreComputedWhereTheyAreRead) {
  expect_one_kernel(R"(HloModule test
ENTRY main {
  h = f32[300,520] parameter(0)
  u = f32[300,520] parameter(1)
  zero = f32[] constant(0)
  hl = f32[300,519] slice(h), slice={[0:300], [0:519]}
  hr = f32[300,519] slice(h), slice={[0:300], [1:520]}
  ul = f32[300,519] slice(u), slice={[0:300], [0:519]}
  ur = f32[300,519] slice(u), slice={[0:300], [1:520]}
  l = f32[300,519] multiply(hl, ul)
  r = f32[300,519] multiply(hr, ur)
  flux = f32[300,519] add(l, r)
  west = f32[300,518] slice(flux), slice={[0:300], [0:518]}
  east = f32[300,518] slice(flux), slice={[0:300], [1:519]}
  change = f32[300,518] subtract(east, west)
  padded = f32[300,520] pad(change, zero), padding=0_0x1_1
  ROOT next = f32[300,520] subtract(h, padded)
}
)");
}

/// Numbers of places move with what they are part of.
TEST(StreamedShifts, PlacesOfAMovedValueAreItsOwn) {
  expect_one_kernel(R"(HloModule test
ENTRY main {
  x = f32[301,520] parameter(0)
  i = s32[301,520] iota(), iota_dimension=0
  f = f32[301,520] iota(), iota_dimension=1
  c = f32[301,520] convert(i)
  a = f32[301,520] multiply(x, c)
  b = f32[301,520] add(a, f)
  p = f32[297,510] slice(b), slice={[3:300], [7:517]}
  q = f32[297,510] slice(x), slice={[1:298], [0:510]}
  ROOT result = f32[297,510] subtract(p, q)
}
)");
}

TEST(StreamedShifts, SumsOfDifferencesAreMadeBesideThem) {
  const std::string text = R"(HloModule test
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
ENTRY main {
  x = f32[301,1030] parameter(0)
  zero = f32[] constant(0)
  u = f32[300,1030] slice(x), slice={[1:301], [0:1030]}
  l = f32[300,1030] slice(x), slice={[0:300], [0:1030]}
  d = f32[300,1030] subtract(u, l)
  a = f32[300,1030] abs(d)
  ROOT sum = f32[300] reduce(a, zero), dimensions={1}, to_apply=add
}
)";
  EXPECT_EQ(moves_left(text), 0U);
}

/// `name` is an array padded at one end of a dimension, and cut at the other: it moves by `by`.
std::string pushed(const std::string& name, const std::string& array, const std::string& shape,
                   std::size_t dimension, int by) {
  const std::string sides = std::to_string(by) + "_" + std::to_string(-by);
  return "  " + name + " = " + shape + " pad(" + array +
         ", zero), padding=" + (dimension == 0 ? sides + "x0_0" : "0_0x" + sides) + "\n";
}

/// Sums along one dimension of an array that stands `reach` elements away on both sides, weighted.
std::string sum_around(const std::string& name, const std::string& array, const std::string& shape,
                       std::size_t dimension, int reach) {
  std::string text, sum;
  for (int by = -reach; by <= reach; ++by) {
    const std::string n = name + "." + std::to_string(by + reach);
    text += pushed(n, array, shape, dimension, by) + "  " + n + ".w = " + shape + " multiply(" + n +
            ", threes)\n";
    if (!sum.empty()) {
      text += "  " + n + ".s = " + shape + " subtract(" + n + ".w, " + sum + ")\n";
    }
    sum = sum.empty() ? n + ".w" : n + ".s";
  }
  return text + "  " + name + " = " + shape + " negate(" + sum + ")\n";
}

std::string of_sums(const std::string& type, const Extents& extents, const std::string& sums,
                    const std::string& result) {
  const std::string shape = shape_of(type, extents);
  return "HloModule test\nENTRY main {\n  x = " + shape + " parameter(0)\n  zero = " + type +
         "[] constant(0)\n  three = " + type + "[] constant(3)\n  threes = " + shape +
         " broadcast(three), dimensions={}\n" + sums + "  ROOT result = " + result + "\n}\n";
}

/// A sum of rows that is needed in other lanes is turned in them, and not each of its terms: two
/// lane tiles beside each other make one.
TEST(StreamedShifts, SumsAreTurnedWhole) {
  const auto around = [](const std::string& type, const Extents& extents, int reach) {
    const std::string shape = shape_of(type, extents);
    return of_sums(
        type, extents,
        sum_around("rows", "x", shape, 0, reach) + sum_around("all", "rows", shape, 1, reach),
        shape + " abs(all)");
  };
  for (const std::string type : {"f32", "bf16", "s32"}) {
    expect_one_kernel(around(type, {421, 640}, 1));
    moves_left(around(type, {421, 640}, 2));
    for (const Extents& extents : {Extents{421, 640}, Extents{1301, 200}}) {
      const std::string shape = shape_of(type, extents);
      moves_left(of_sums(type, extents,
                         sum_around("a", "x", shape, 0, 1) + pushed("b", "a", shape, 1, -130) +
                             pushed("c", "a", shape, 1, 256),
                         shape + " subtract(b, c)"));
    }
  }
}

/// Straight code has some of the lane tiles of wide rows, and those on both sides of them.
TEST(StreamedShifts, SumsOfWideRowsAreTurnedInALoop) {
  const Extents extents{200, 5000};
  const std::string shape = shape_of("f32", extents);
  const std::string text = of_sums(
      "f32", extents, sum_around("rows", "x", shape, 0, 1) + sum_around("all", "rows", shape, 1, 1),
      shape + " abs(all)");
  EXPECT_EQ(moves_left(text, 8), 0U);
}

/// The sum has a lane tile more than what is made of it; a turned sum is a term of another one.
TEST(StreamedShifts, PartsOfTurnedSumsAndSumsOfThem) {
  const Extents extents{300, 516};
  const std::string shape = shape_of("f32", extents), part = "f32[298,512]";
  moves_left(of_sums("f32", extents,
                     sum_around("a", "x", shape, 0, 2) + "  l = " + part +
                         slice_of("a", {1, 1}, {298, 512}, {1, 1}) + "  r = " + part +
                         slice_of("a", {1, 4}, {298, 512}, {1, 1}),
                     part + " subtract(l, r)"));
  moves_left(of_sums("f32", extents,
                     sum_around("a", "x", shape, 0, 1) + sum_around("b", "a", shape, 1, 1) +
                         pushed("c", "b", shape, 1, 1) + "  d = " + shape + " multiply(c, x)\n" +
                         pushed("e", "d", shape, 1, -2),
                     shape + " subtract(b, e)"));
}

std::string with_steps(const std::string& type, const Extents& array, const Extents& starts,
                       const Extents& extents, const Extents& steps) {
  return "HloModule test\nENTRY main {\n  x = " + shape_of(type, array) +
         " parameter(0)\n  ROOT result = " + shape_of(type, extents) +
         slice_of("x", starts, extents, steps) + "}\n";
}

/// The slice is a kernel by itself: it moves no boxes.
TEST(StreamedShifts, SlicesWithStepsAlongRowsLoadRowsWithADistance) {
  for (const std::string type : {"f32", "bf16", "s32"}) {
    SCOPED_TRACE(type);
    expect_one_kernel(with_steps(type, {1024, 640}, {0, 0}, {512, 640}, {2, 1}));
    expect_one_kernel(with_steps(type, {1027, 640}, {5, 0}, {341, 640}, {3, 1}));
    expect_one_kernel(with_steps(type, {2050, 640}, {1, 130}, {292, 510}, {7, 1}));
    expect_one_kernel(
        with_steps(type, {16, 28, 28, 128}, {0, 0, 0, 0}, {16, 14, 14, 128}, {1, 2, 2, 1}));
    expect_one_kernel(
        with_steps(type, {16, 29, 31, 128}, {0, 1, 2, 0}, {16, 14, 10, 128}, {1, 2, 3, 1}));
  }
}

/// Of all phases at once: each line comes once.
TEST(StreamedShifts, PixelsOfAPoolComeOnce) {
  const Extents half{8, 14, 15, 128}, steps{1, 2, 2, 1};
  std::string text = "HloModule test\nENTRY main {\n  x = f32[8,28,30,128] parameter(0)\n";
  for (const int y : {0, 1}) {
    for (const int x : {0, 1}) {
      text += "  p" + std::to_string(2 * y + x) + " = f32[8,14,15,128]" +
              slice_of("x", {0, y, x, 0}, half, steps);
    }
  }
  expect_one_kernel(text + R"(  a = f32[8,14,15,128] maximum(p0, p1)
  b = f32[8,14,15,128] subtract(p2, p3)
  ROOT result = f32[8,14,15,128] add(a, b)
}
)");
}

TEST(StreamedShifts, PaddingAndPlacesHaveStepsToo) {
  expect_one_kernel(R"(HloModule test
ENTRY main {
  x = f32[1025,600] parameter(0)
  k = f32[] constant(7)
  i = s32[1025,600] iota(), iota_dimension=0
  c = f32[1025,600] convert(i)
  y = f32[1025,600] multiply(x, c)
  p = f32[1032,602] pad(y, k), padding=3_4x1_1
  q = f32[1032,602] pad(x, k), padding=4_3x2_0
  a = f32[344,602] slice(p), slice={[0:1032:3], [0:602:1]}
  b = f32[344,602] slice(q), slice={[2:1032:3], [0:602:1]}
  ROOT result = f32[344,602] subtract(a, b)
}
)");
}

/// An array that ends before some blocks and begins behind others.
TEST(StreamedShifts, JoinedArraysOfOtherHeights) {
  const std::string text = R"(HloModule test
ENTRY main {
  x = f32[11,256] parameter(0)
  y = f32[2100,256] parameter(1)
  z = f32[2111,256] parameter(2)
  xx = f32[11,256] multiply(x, x)
  joined = f32[2111,256] concatenate(xx, y), dimensions={0}
  ROOT result = f32[2111,256] add(joined, z)
}
)";
  EXPECT_EQ(moves_left(text), 0U);
}

/// Sums and products of an array and of slices, pads and joined parts of it, of one extent.
class RandomExpression {
 public:
  explicit RandomExpression(std::mt19937& engine) : engine_(engine) {}

  std::string text() {
    const std::vector<std::string> types{"f32", "f32", "bf16", "s32"};
    type_ = types[below(4)];
    extents_ = below(2) == 0 ? Extents{between(300, 500), between(300, 700)}
                             : Extents{between(9, 30), between(17, 66), between(100, 300)};
    if (below(4) == 0) extents_.back() = 128 * between(2, 4);
    text_ = "HloModule test\nENTRY main {\n  k = " + type_ + "[] constant(3)\n";
    std::string sum;
    for (int i = 0; i < 4; ++i) {
      const std::string value = moved(std::to_string(i));
      const std::string name = "sum." + std::to_string(i);
      if (!sum.empty()) {
        text_ += "  " + name + " = " + shape_of(type_, extents_) +
                 (below(2) == 0 ? " subtract(" : " add(") + sum + ", " + value + ")\n";
      }
      sum = sum.empty() ? value : name;
    }
    return text_ + "  ROOT result = " + shape_of(type_, extents_) + " negate(" + sum + ")\n}\n";
  }

 private:
  int below(int most) { return static_cast<int>(engine_() % static_cast<unsigned>(most)); }
  int between(int least, int most) { return least + below(most - least + 1); }

  /// A new parameter, or what is computed of one.
  std::string array(const std::string& n, const Extents& extents) {
    const std::string shape = shape_of(type_, extents), name = "x." + n;
    text_ += "  " + name + " = " + shape + " parameter(" + std::to_string(parameters_++) + ")\n";
    if (below(2) == 0) return name;
    text_ += "  y." + n + " = " + shape + " add(" + name + ", " + name + ")\n";
    return "y." + n;
  }

  std::string moved(const std::string& n) {
    const std::string name = "moved." + n, shape = shape_of(type_, extents_);
    Extents given = extents_, starts(extents_.size()), steps(extents_.size(), 1);
    const int kind = below(3);
    if (kind == 0) {  // A slice.
      for (std::size_t d = 0; d < given.size(); ++d) {
        const bool may_step = d + 1 < given.size() && below(3) == 0;
        steps[d] = may_step ? between(2, 3) : 1;
        starts[d] = below(11);
        given[d] = starts[d] + (extents_[d] - 1) * steps[d] + 1 + below(5);
      }
      const std::string from = array(n, given);
      text_ += "  " + name + " = " + shape + slice_of(from, starts, extents_, steps);
      return name;
    }
    if (kind == 1) {
      std::string padding;
      for (std::size_t d = 0; d < given.size(); ++d) {
        const int low = below(10), high = below(3);
        given[d] -= low + high > given[d] - 2 ? 0 : low + high;
        const bool fits = given[d] + low + high == extents_[d];
        padding += (d > 0 ? "x" : "") + std::to_string(fits ? low : 0) + "_" +
                   std::to_string(fits ? high : 0);
      }
      const std::string from = array(n, given);
      text_ += "  " + name + " = " + shape + " pad(" + from + ", k), padding=" + padding + "\n";
      return name;
    }
    const auto d = static_cast<std::size_t>(below(static_cast<int>(given.size())));
    Extents rest = extents_;
    given[d] = between(1, std::min(extents_[d] - 1, 20));
    rest[d] -= given[d];
    const std::string a = array(n + ".a", given), b = array(n + ".b", rest);
    text_ += "  " + name + " = " + shape + " concatenate(" + a + ", " + b + "), dimensions={" +
             std::to_string(d) + "}\n";
    return name;
  }

  std::mt19937& engine_;
  std::string type_, text_;
  Extents extents_;
  int parameters_ = 0;
};

TEST(StreamedShifts, RandomExpressionsHaveTheirValues) {
  std::mt19937 engine(11);
  int taken = 0;
  for (int i = 0; i < kExpressions; ++i) {
    const std::string text = RandomExpression(engine).text();
    SCOPED_TRACE(text);
    if (moves_left(text) == 0) ++taken;
  }
  EXPECT_GT(taken, kExpressions / 3);
}

/// A step of a loop whose state is rolled, or what is computed of it: the next state is not written
/// over what the last block still reads.
TEST(StreamedShifts, ALoopDoesNotWriteOverWhatItReadsElsewhere) {
  const Extents extents{320, 512};
  for (const std::string read : {"x", "square"}) {
    const std::string text =
        "HloModule test\nbody {\n  p = (s32[], f32[320,512]) parameter(0)\n  i = s32[] "
        "get-tuple-element(p), index=0\n  x = f32[320,512] get-tuple-element(p), index=1\n"
        "  square = f32[320,512] multiply(x, x)\n" +
        roll("down", read, extents, 0, 2) + roll("up", read, extents, 0, 318) +
        "  sum = f32[320,512] subtract(down, up)\n  k = f32[] constant(0.0625)\n  ks = "
        "f32[320,512] broadcast(k), dimensions={}\n  less = f32[320,512] multiply(sum, ks)\n"
        "  next = f32[320,512] subtract(less, x)\n  one = s32[] constant(1)\n  j = s32[] add(i, "
        "one)\n  ROOT t = (s32[], f32[320,512]) tuple(j, next)\n}\ncond {\n  p = (s32[], "
        "f32[320,512]) parameter(0)\n  i = s32[] get-tuple-element(p), index=0\n  n = s32[] "
        "constant(3)\n  ROOT c = pred[] compare(i, n), direction=LT\n}\nENTRY main {\n  x = "
        "f32[320,512] parameter(0)\n  zero = s32[] constant(0)\n  s = (s32[], f32[320,512]) "
        "tuple(zero, x)\n  w = (s32[], f32[320,512]) while(s), condition=cond, body=body\n  ROOT "
        "r = f32[320,512] get-tuple-element(w), index=1\n}\n";
    SCOPED_TRACE(read);
    moves_left(text);
  }
}

/// Other readers need the slice in HBM.
TEST(StreamedShifts, ASliceThatTheStepGivesIsWritten) {
  const std::string text = R"(HloModule test
ENTRY main {
  x = f32[421,640] parameter(0)
  a = f32[420,640] slice(x), slice={[1:421], [0:640]}
  b = f32[420,640] slice(x), slice={[0:420], [0:640]}
  d = f32[420,640] subtract(a, b)
  ROOT both = (f32[420,640], f32[420,640]) tuple(d, a)
}
)";
  EXPECT_EQ(moves_left(text), 1U);
}

}  // namespace
}  // namespace tpu::test::streamed_shifts_test
