#include "workloads/compiler/passes/fuse/slices_in_place.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "sim/base/ceil_divide.h"
#include "tests/compiler/hlo_check.h"
#include "tests/compiler/pass_check.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/array_part.h"
#include "workloads/compiler/passes/layout/layouts.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::slices_in_place_test {
namespace {

/// Slices that are kernels of their own.
std::size_t slices_left(const std::string& text, std::uint32_t vmem_mib = 16) {
  return left_behind("read_slices_in_place", {hlo::HloOpcode::kSlice}, text, vmem_mib);
}

/// A slice of a parameter with layouts, as the pass meets it.
std::optional<compiler::ArrayPart> part_of(const std::string& array, const std::string& slice,
                                           const std::string& bounds) {
  hlo::Module module = hlo::read_hlo_text("part.hlo", "HloModule m\nENTRY main {\n  x = " + array +
                                                          " parameter(0)\n  ROOT y = " + slice +
                                                          " slice(x), slice={" + bounds + "}\n}\n");
  compiler::assign_layouts(module);
  const hlo::Computation& entry = module.entry_computation();
  const hlo::HloInstruction& root = entry.at(entry.root);
  return compiler::part_of_slice(entry.at(root.operands[0]).shape, root);
}

TEST(SlicesInPlace, LanesAreCutInWholeTiles) {
  const auto gate = part_of("f32[16,512]", "f32[16,128]", "[0:16], [256:384]");
  ASSERT_TRUE(gate);
  EXPECT_EQ(gate->granule, 2 * 4);
  EXPECT_EQ(gate->pitch, 4 * 4);
  EXPECT_TRUE(part_of("f32[3,16,300]", "f32[3,16,44]", "[0:3], [0:16], [256:300]"));
  EXPECT_FALSE(part_of("f32[16,512]", "f32[16,128]", "[0:16], [64:192]"));
  const auto half = part_of("f32[16,512]", "f32[16,50]", "[0:16], [320:370]");
  ASSERT_TRUE(half);
  EXPECT_EQ(half->granule, 2 * 4);
  EXPECT_EQ(half->pitch, 4 * 4);
  EXPECT_EQ(half->lanes, 64);
  EXPECT_FALSE(part_of("f32[16,512]", "f32[16,65]", "[0:16], [320:385]"));
  EXPECT_FALSE(part_of("bf16[16,512]", "bf16[16,50]", "[0:16], [320:370]"));
  EXPECT_FALSE(part_of("u8[64,512]", "u8[64,128]", "[0:64], [128:256]"));
  EXPECT_FALSE(part_of("f32[16,512]", "f32[16,128]", "[0:16], [128:384:2]"));
}

TEST(SlicesInPlace, RowsAndWhatIsOutsideOfThemAreCut) {
  const auto rows = part_of("f32[64,200]", "f32[20,200]", "[24:44], [0:200]");
  ASSERT_TRUE(rows);
  EXPECT_EQ(rows->granule, 3 * 2 * 4);
  EXPECT_EQ(rows->pitch, 0);
  const auto one = part_of("f32[5,64,256]", "f32[1,16,128]", "[3:4], [8:24], [128:256]");
  ASSERT_TRUE(one);
  EXPECT_EQ(one->granule, (3 * 8 + 1) * 2 * 4 + 4);
  EXPECT_EQ(one->pitch, 2 * 4);
  EXPECT_FALSE(part_of("f32[64,200]", "f32[20,200]", "[20:40], [0:200]"));
  const auto packed = part_of("bf16[5,64,300]", "bf16[4,17,300]", "[1:5], [16:33], [0:300]");
  ASSERT_TRUE(packed);
  EXPECT_EQ(packed->granule, (8 + 2) * 3 * 2);
  EXPECT_EQ(packed->run, 3);
  EXPECT_EQ(packed->pitch, 8 * 3 * 2);
  EXPECT_TRUE(part_of("f32[5,64,128]", "f32[2,64,128]", "[2:4], [0:64], [0:128]"));
}

/// A slice with its array, whose dimensions are in their order.
struct Cut {
  hlo::Shape array;
  hlo::HloInstruction slice;
};

Cut random_cut(std::mt19937& random) {
  const auto below = [&random](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  const std::int64_t rank = 2 + below(3);
  std::vector<std::int64_t> whole, taken, starts, steps;
  for (std::int64_t d = 0; d < rank; ++d) {
    const std::int64_t unit = d + 1 == rank ? 128 : d + 2 == rank ? 8 : 1;
    const std::int64_t tiles = 1 + below(4), some = below(2) == 0 ? tiles : 1 + below(tiles);
    const std::int64_t start = below(tiles - some + 1) * unit;
    const std::int64_t cut_off = below(4) == 0 ? below(unit) : 0;
    const std::int64_t step = unit == 1 && below(3) == 0 ? 2 + below(2) : 1;
    whole.push_back(tiles * unit);
    taken.push_back(ceil_divide(some * unit - cut_off, step));
    starts.push_back(start);
    steps.push_back(step);
  }
  const auto type = below(2) == 0 ? hlo::ElementType::kF32 : hlo::ElementType::kBf16;
  std::vector<std::int64_t> order(whole.size());
  std::iota(order.rbegin(), order.rend(), 0);
  Cut cut;
  cut.array = hlo::array_shape(type, whole);
  cut.array.layout = compiler::tiled_layout(type, order);
  cut.slice.opcode = hlo::HloOpcode::kSlice;
  cut.slice.shape = hlo::array_shape(type, taken);
  cut.slice.shape.layout = cut.array.layout;
  hlo::SliceBounds bounds;
  bounds.starts = starts;
  bounds.strides = steps;
  cut.slice.slice = bounds;
  return cut;
}

/// The granule at which each row tile of the slice begins, tile by tile.
std::vector<std::int64_t> granules_of_row_tiles(const Cut& cut) {
  const std::size_t rank = cut.array.dimensions.size();
  const std::int64_t tile = cut.array.type == hlo::ElementType::kF32 ? 4 : 2;
  std::vector<std::int64_t> found{0};
  for (std::size_t d = 0; d < rank; ++d) {
    const std::int64_t unit = d + 1 == rank ? 128 : d + 2 == rank ? 8 : 1;
    const std::int64_t first = cut.slice.slice->starts[d] / unit;
    const std::int64_t tiles = d + 1 == rank ? 1 : ceil_divide(cut.slice.shape.dimensions[d], unit);
    std::vector<std::int64_t> next;
    for (const std::int64_t before : found) {
      for (std::int64_t i = 0; i < tiles; ++i) {
        const std::int64_t index = first + i * cut.slice.slice->strides[d];
        next.push_back(before * ceil_divide(cut.array.dimensions[d], unit) + index);
      }
    }
    found = next;
  }
  for (std::int64_t& each : found) each *= tile;
  return found;
}

/// Whether the row tiles, each of so many granules, are ranges of `run` of them at one distance.
bool are_ranges(const std::vector<std::int64_t>& begins, std::int64_t granules, std::size_t run) {
  for (std::size_t i = 1; i < begins.size(); ++i) {
    const std::int64_t step = begins[i] - begins[i - 1];
    if (i % run != 0 && step != granules) return false;
    if (i % run == 0 && i > run && begins[i] - begins[i - run] != begins[run] - begins[0]) {
      return false;
    }
  }
  return begins.size() % run == 0;
}

TEST(SlicesInPlace, RangesStandWhereTheRowTilesDo) {
  std::mt19937 random(7);
  int parts = 0, several = 0;
  for (int i = 0; i < 3000; ++i) {
    const Cut cut = random_cut(random);
    const std::vector<std::int64_t> begins = granules_of_row_tiles(cut);
    const std::int64_t tile = cut.array.type == hlo::ElementType::kF32 ? 4 : 2;
    const std::int64_t granules = tile * ceil_divide(cut.slice.shape.dimensions.back(), 128);
    bool has_ranges = false;
    for (std::size_t run = 1; run <= begins.size(); ++run) {
      has_ranges |= are_ranges(begins, granules, run);
    }
    const auto part = compiler::part_of_slice(cut.array, cut.slice);
    ASSERT_EQ(part.has_value(), has_ranges) << hlo::to_string(cut.array) << i;
    if (!part) continue;
    ++parts;
    several += part->is_one_range() ? 0 : 1;
    const std::int64_t run =
        part->is_one_range() ? static_cast<std::int64_t>(begins.size()) : part->run;
    for (std::size_t k = 0; k < begins.size(); ++k) {
      const auto number = static_cast<std::int64_t>(k);
      ASSERT_EQ(part->granule + number / run * part->pitch + number % run * granules, begins[k]);
    }
  }
  EXPECT_GT(several, 500);
  EXPECT_LT(several, parts);
  EXPECT_LT(parts, 3000);
}

TEST(SlicesInPlace, BlocksHaveWholeRangesOrPartsOfOne) {
  const auto product_of_slices = [](const std::string& type, const std::string& array,
                                    const std::string& slice, const std::string& at) {
    return "HloModule m\nENTRY main {\n  x = " + type + array + " parameter(0)\n  y = " + type +
           slice + " parameter(1)\n  a = " + type + slice + " slice(x), slice={" + at +
           "}\n  ROOT z = " + type + slice + " multiply(a, y)\n}\n";
  };
  // Two row tiles of eight; 113, a prime, of 120; 96 of 128 in blocks of fewer.
  EXPECT_EQ(slices_left(product_of_slices("f32", "[300,64,128]", "[300,16,128]",
                                          "[0:300], [8:24], [0:128]")),
            0U);
  EXPECT_EQ(slices_left(
                product_of_slices("f32", "[5,960,256]", "[5,904,256]", "[0:5], [8:912], [0:256]")),
            0U);
  EXPECT_EQ(slices_left(product_of_slices("bf16", "[2,4,1024,200]", "[2,3,768,200]",
                                          "[0:2], [1:4], [128:896], [0:200]")),
            1U);  // Ranges at two distances.
  EXPECT_EQ(slices_left(product_of_slices("bf16", "[3,1024,1000]", "[3,768,1000]",
                                          "[0:3], [128:896], [0:1000]"),
                        1),
            0U);
  // Steps outside of the tiles.
  EXPECT_EQ(slices_left(product_of_slices("f32", "[64,128,512]", "[32,128,512]",
                                          "[1:64:2], [0:128], [0:512]")),
            0U);
  EXPECT_EQ(slices_left(product_of_slices("bf16", "[3,60,24,100]", "[3,20,24,100]",
                                          "[0:3], [2:60:3], [0:24], [0:100]")),
            0U);
  // In one kernel with its neighbours.
  EXPECT_EQ(
      slices_left(product_of_slices("f32", "[4,32,64]", "[4,8,64]", "[0:4], [16:24], [0:64]")), 0U);
}

/// Elements of long rows in turns are parts along a dimension of their own, by reshapes before and
/// behind; a sum reads its parts under another name.
TEST(SlicesInPlace, ElementsInTurnsArePartsOfOneReshape) {
  const std::string text = R"(HloModule m
ENTRY main {
  x = f32[9,3000] parameter(0)
  y = f32[9,1000] parameter(1)
  a = f32[9,1000] slice(x), slice={[0:9], [0:3000:3]}
  b = f32[9,999] slice(x), slice={[0:9], [4:3000:3]}
  c = f32[8,1000] slice(x), slice={[1:9], [2:3000:3]}
  z = f32[] constant(2.5)
  pb = f32[9,1000] pad(b, z), padding=0_0x1_0
  pc = f32[9,1000] pad(c, z), padding=1_0x0_0
  s = f32[9,1000] add(a, pb)
  t = f32[9,1000] multiply(s, y)
  u = f32[9,1000] subtract(t, pc)
  v = f32[9,2000] pad(u, z), padding=0_0x1_0_1
  ROOT all = (f32[9,1000], f32[9,2000]) tuple(u, v)
}
)";
  EXPECT_EQ(left_behind("split_steps", {hlo::HloOpcode::kReshape}, text, 16), 12U);
  EXPECT_EQ(slices_left(R"(HloModule m
ENTRY main {
  x = f32[16,40000] parameter(0)
  a = f32[16,20000] slice(x), slice={[0:16], [0:40000:2]}
  b = f32[16,20000] slice(x), slice={[0:16], [1:40000:2]}
  ROOT c = f32[16,20000] add(a, b)
}
)"),
            0U);
}

/// Long vectors are read from anywhere in a row of lanes on: up to the last element, where no tile
/// is behind the last block, and before it.
TEST(SlicesInPlace, VectorsAreReadFromAnywhereInARow) {
  const auto sliced = [](std::int64_t length, std::int64_t start, std::int64_t other,
                         std::int64_t count) {
    const std::string whole = "f32[" + std::to_string(length) + "]";
    const std::string part = "f32[" + std::to_string(count) + "]";
    const auto slice = [&](const std::string& name, std::int64_t first) {
      return "  " + name + " = " + part + " slice(x), slice={[" + std::to_string(first) + ":" +
             std::to_string(first + count) + "]}\n";
    };
    return "HloModule m\nadd { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] "
           "add(a, b) }\nENTRY main {\n  x = " +
           whole + " parameter(0)\n  y = " + part + " parameter(1)\n" + slice("a", start) +
           slice("b", other) + "  c = " + part + " subtract(a, b)\n  d = " + part +
           " multiply(c, y)\n  zero = f32[] constant(0)\n  s = f32[] reduce(d, zero), " +
           "dimensions={0}, to_apply=add\n  ROOT all = (" + part + ", f32[]) tuple(d, s)\n}\n";
  };
  EXPECT_EQ(slices_left(sliced(140000, 1, 0, 139999)), 0U);
  EXPECT_EQ(slices_left(sliced(150000, 1030, 5001, 140000)), 0U);
  EXPECT_EQ(slices_left(sliced(131072 + 1023, 1023, 511, 131072)), 0U);
  EXPECT_EQ(slices_left(sliced(131072 + 1024, 7, 1023, 131072)), 0U);
  EXPECT_EQ(slices_left(sliced(200000, 130, 900, 150000), 1), 0U);
  // Whole rows of lanes, and short ones, are moved as others are.
  EXPECT_EQ(slices_left(sliced(150000, 256, 3, 140000)), 1U);
  EXPECT_EQ(slices_left(sliced(4000, 3, 6, 3000)), 2U);
}

TEST(SlicesInPlace, GatesOfAProductAreReadByOneKernel) {
  EXPECT_EQ(slices_left(R"(HloModule m
ENTRY main {
  x = f32[16,256] parameter(0)
  w = f32[256,512] parameter(1)
  c = f32[16,128] parameter(2)
  d = f32[16,512] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  i = f32[16,128] slice(d), slice={[0:16], [0:128]}
  f = f32[16,128] slice(d), slice={[0:16], [128:256]}
  g = f32[16,128] slice(d), slice={[0:16], [256:384]}
  o = f32[16,128] slice(d), slice={[0:16], [384:512]}
  si = f32[16,128] logistic(i)
  sf = f32[16,128] logistic(f)
  tg = f32[16,128] tanh(g)
  so = f32[16,128] logistic(o)
  kept = f32[16,128] multiply(sf, c)
  new = f32[16,128] multiply(si, tg)
  sum = f32[16,128] add(kept, new)
  t = f32[16,128] tanh(sum)
  h = f32[16,128] multiply(so, t)
  ROOT all = (f32[16,128], f32[16,128]) tuple(sum, h)
}
)"),
            0U);
}

/// A transpose that leaves its slice where it lies is another name of it: the kernel's dimensions
/// correspond as they lie, whether the extents tell them apart or not.
TEST(SlicesInPlace, TransposedSlicesLieAsTheSlicesDo) {
  for (const int rows : {65, 128}) {
    const std::string n = std::to_string(rows);
    const std::string t = "f32[128," + n + "]", layout = t + "{0,1}";
    EXPECT_EQ(
        slices_left("HloModule m, entry_computation_layout={(f32[" + n + ",256]{1,0}, " + layout +
                    ", f32[128]{0})->" + layout + "}\nENTRY main {\n  x = f32[" + n +
                    ",256] parameter(0)\n  p = " + t + " parameter(1)\n" +
                    "  v = f32[128] parameter(2)\n  e = f32[" + n + ",256] exponential(x)\n" +
                    "  a = f32[" + n + ",128] slice(e), slice={[0:" + n + "], [0:128]}\n" +
                    "  b = f32[" + n + ",128] slice(e), slice={[0:" + n + "], [128:256]}\n" +
                    "  ta = " + t + " transpose(a), dimensions={1,0}\n" + "  tb = " + t +
                    " transpose(b), dimensions={1,0}\n" + "  w = " + t +
                    " broadcast(v), dimensions={0}\n" + "  m = " + t + " multiply(ta, p)\n" +
                    "  n = " + t + " multiply(tb, w)\n" + "  ROOT s = " + t + " add(m, n)\n}\n"),
        0U)
        << rows;
  }
}

TEST(SlicesInPlace, BlocksAndSumsAlongCutLanes) {
  EXPECT_EQ(slices_left(std::string("HloModule m\n") + R"(
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY main {
  x = f32[3,1000,768] parameter(0)
  v = f32[256] parameter(1)
  a = f32[3,1000,256] slice(x), slice={[0:3], [0:1000], [512:768]}
  b = f32[3,1000,256] slice(x), slice={[0:3], [0:1000], [128:384]}
  vb = f32[3,1000,256] broadcast(v), dimensions={2}
  p = f32[3,1000,256] multiply(a, b)
  q = f32[3,1000,256] add(p, vb)
  zero = f32[] constant(0)
  rows = f32[3,1000] reduce(q, zero), dimensions={2}, to_apply=add
  lanes = f32[256] reduce(q, zero), dimensions={0,1}, to_apply=add
  w = f32[256,256] parameter(2)
  d = f32[3,1000,256] dot(q, w), lhs_contracting_dims={2}, rhs_contracting_dims={0}
  ROOT all = (f32[3,1000,256], f32[3,1000], f32[256], f32[3,1000,256]) tuple(q, rows, lanes, d)
}
)"),
            0U);
}

TEST(SlicesInPlace, SumsLeaveOutTheNeighboursOfCutLanes) {
  EXPECT_EQ(slices_left(std::string("HloModule m\n") + R"(
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY main {
  x = f32[3,9,700] parameter(0)
  v = f32[188] parameter(1)
  a = f32[3,9,188] slice(x), slice={[0:3], [0:9], [512:700]}
  b = f32[3,9,188] slice(x), slice={[0:3], [0:9], [128:316]}
  vb = f32[3,9,188] broadcast(v), dimensions={2}
  p = f32[3,9,188] multiply(a, b)
  q = f32[3,9,188] add(p, vb)
  zero = f32[] constant(0)
  rows = f32[3,9] reduce(q, zero), dimensions={2}, to_apply=add
  lanes = f32[188] reduce(q, zero), dimensions={0,1}, to_apply=add
  ROOT all = (f32[3,9,188], f32[3,9], f32[188]) tuple(q, rows, lanes)
}
)"),
            0U);
}

/// Halves of 128 features, and a slice of few, turn in their tile; sums leave out what stood there.
TEST(SlicesInPlace, HalvesOfATileTurnInIt) {
  EXPECT_EQ(slices_left(std::string("HloModule m\n") + R"(
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY main {
  x = f32[40,24,128] parameter(0)
  y = f32[40,24,300] parameter(1)
  a = f32[40,24,64] slice(x), slice={[0:40], [0:24], [0:64]}
  b = f32[40,24,64] slice(x), slice={[0:40], [0:24], [64:128]}
  c = f32[40,24,64] slice(y), slice={[0:40], [0:24], [140:204]}
  gate = f32[40,24,64] logistic(b)
  p = f32[40,24,64] multiply(a, gate)
  q = f32[40,24,64] add(p, c)
  zero = f32[] constant(0)
  rows = f32[40,24] reduce(q, zero), dimensions={2}, to_apply=add
  lanes = f32[64] reduce(q, zero), dimensions={0,1}, to_apply=add
  ROOT all = (f32[40,24,64], f32[40,24], f32[64]) tuple(q, rows, lanes)
}
)",
                        1),
            0U);
}

/// Results of the XLU come in order: halves that are turned one behind the other's sums waited for
/// those, a row tile in 140 cycles (194 thousand in all).
TEST(SlicesInPlace, HalvesTurnWhileTheSumsOfRowsAboveAreUnderWay) {
  HloCheck check;
  check.tolerance = 1e-3;
  const CompiledRun run = check_hlo(R"(HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY main {
  x = f32[400,24,128] parameter(0)
  w = f32[64,256] parameter(1)
  a = f32[400,24,64] slice(x), slice={[0:400], [0:24], [0:64]}
  b = f32[400,24,64] slice(x), slice={[0:400], [0:24], [64:128]}
  e = f32[400,24,64] exponential(b)
  p = f32[400,24,64] multiply(a, a)
  q = f32[400,24,64] multiply(p, e)
  zero = f32[] constant(0)
  rows = f32[400,24] reduce(q, zero), dimensions={2}, to_apply=add
  wide = f32[400,24,64] broadcast(rows), dimensions={0,1}
  n = f32[400,24,64] divide(q, wide)
  d = f32[400,24,256] dot(n, w), lhs_contracting_dims={2}, rhs_contracting_dims={0}
  ROOT all = (f32[400,24,256], f32[400,24]) tuple(d, rows)
}
)",
                                    check);
  EXPECT_LT(run.result.cycles, 125000U);
}

/// A gate whose product is made for a dot: packed row tiles have the same rows.
TEST(SlicesInPlace, PackedResultsHaveTheRowsOfWhatTheyAreMadeFrom) {
  EXPECT_EQ(slices_left(R"(HloModule m
ENTRY main {
  x = f32[3,1000,512] parameter(0)
  a = f32[3,1000,256] slice(x), slice={[0:3], [0:1000], [0:256]}
  b = f32[3,1000,256] slice(x), slice={[0:3], [0:1000], [256:512]}
  gate = f32[3,1000,256] logistic(b)
  c = f32[3,1000,256] multiply(a, gate)
  ROOT z = bf16[3,1000,256] convert(c)
}
)",
                        1),
            0U);
  EXPECT_EQ(slices_left(R"(HloModule m
ENTRY main {
  x = f32[12,40,200] parameter(0)
  y = bf16[11,40,200] parameter(1)
  a = f32[11,40,200] slice(x), slice={[1:12], [0:40], [0:200]}
  b = f32[11,40,200] slice(x), slice={[0:11], [0:40], [0:200]}
  c = f32[11,40,200] multiply(a, b)
  d = bf16[11,40,200] convert(c)
  ROOT z = bf16[11,40,200] add(d, y)
}
)"),
            0U);
}

TEST(SlicesInPlace, PartsOfAnAxisStepOverWhatIsCutOff) {
  EXPECT_EQ(slices_left(R"(HloModule m
ENTRY main {
  x = f32[24,4,64,384] parameter(0)
  y = f32[24,64,128] parameter(1)
  a = f32[24,4,64,128] slice(x), slice={[0:24], [0:4], [0:64], [256:384]}
  yb = f32[24,4,64,128] broadcast(y), dimensions={0,2,3}
  ROOT z = f32[24,4,64,128] multiply(a, yb)
}
)",
                        1),
            0U);
  EXPECT_EQ(slices_left(R"(HloModule m
ENTRY main {
  x = f32[24,8,64,128] parameter(0)
  y = f32[24,64,128] parameter(1)
  a = f32[24,4,64,128] slice(x), slice={[0:24], [2:6], [0:64], [0:128]}
  yb = f32[24,4,64,128] broadcast(y), dimensions={0,2,3}
  ROOT z = f32[24,4,64,128] multiply(a, yb)
}
)",
                        1),
            0U);
}

/// Maxima of a prime count of matrices, which do not fit VMEM, are made in two parts: what a slice
/// has before the second one is more than its own granules.
TEST(SlicesInPlace, RangesOfAnAxisBeginBehindWhatIsCutOff) {
  EXPECT_EQ(slices_left(std::string("HloModule m\n") + R"(
most { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }
ENTRY main {
  x = f32[131,128,256] parameter(0)
  y = f32[131,64,256] parameter(1)
  a = f32[131,64,256] slice(x), slice={[0:131], [64:128], [0:256]}
  least = f32[] constant(-inf)
  c = f32[131,64,256] multiply(a, y)
  ROOT z = f32[131,256] reduce(c, least), dimensions={1}, to_apply=most
}
)",
                        1),
            0U);
}

TEST(SlicesInPlace, AnArrayThatIsWrittenOverKeepsItsOldValueForTheSlice) {
  slices_left(R"(HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }
ENTRY main {
  x = f32[64,256] parameter(0)
  one = f32[64,256] parameter(1)
  y = f32[64,256] add(x, one)
  a = f32[64,128] slice(x), slice={[0:64], [128:256]}
  b = f32[64,128] slice(y), slice={[0:64], [0:128]}
  c = f32[64,128] multiply(a, b)
  ROOT all = (f32[64,256], f32[64,128]) tuple(y, c)
}
)");
}

TEST(SlicesInPlace, OtherReadersKeepTheirSlice) {
  EXPECT_EQ(slices_left(R"(HloModule m
ENTRY main {
  x = f32[64,256] parameter(0)
  w = f32[128,128] parameter(1)
  a = f32[64,128] slice(x), slice={[0:64], [128:256]}
  d = f32[64,128] dot(a, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f32[64,128] slice(x), slice={[0:64], [64:192]}
  n = f32[64,128] negate(s)
  ROOT all = (f32[64,128], f32[64,128]) tuple(d, n)
}
)"),
            2U);
}

/// Cycles of a concatenation of `count` tiles.
std::uint64_t concatenation_cycles(int count) {
  std::string parameters, names;
  for (int i = 0; i < count; ++i) {
    const std::string name = "p" + std::to_string(i);
    parameters += "  " + name + " = f32[8,128] parameter(" + std::to_string(i) + ")\n";
    names += (i > 0 ? ", " : "") + name;
  }
  return check_hlo("HloModule m\nENTRY main {\n" + parameters + "  ROOT y = f32[8," +
                   std::to_string(128 * count) + "] concatenate(" + names +
                   "), dimensions={1}\n}\n")
      .result.cycles;
}

TEST(SlicesInPlace, TilesThatAreConcatenatedWaitForTheMemoryTogether) {
  // One after the other, each waits twice for the latency of a DMA.
  const std::uint64_t latency = compiler::Target().dma_latency_cycles;
  EXPECT_LT(concatenation_cycles(8) - concatenation_cycles(4), 4 * latency);
}

}  // namespace
}  // namespace tpu::test::slices_in_place_test
