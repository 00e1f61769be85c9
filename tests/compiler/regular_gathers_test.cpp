#include "workloads/compiler/passes/expand/regular_gathers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>

#include "tests/compiler/hlo_check.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::regular_gathers_test {
namespace {

/// Checks values in the interpreter and on the machine; the module behind the pass.
hlo::Module rewritten(const std::string& text) {
  const hlo::Module before = hlo::read_hlo_text("test.hlo", text);
  hlo::verify(before);
  hlo::Module after = before;
  compiler::rewrite_regular_gathers(after);
  hlo::verify(after);
  std::mt19937 engine(5);
  std::vector<reference::Value> arguments;
  for (hlo::InstructionId id : before.entry_computation().parameters()) {
    arguments.push_back(random_value(before.entry_computation().at(id).shape, engine, {}));
  }
  const reference::Value wanted = reference::Interpreter(before).run(arguments);
  const reference::Value found = reference::Interpreter(after).run(arguments);
  EXPECT_LE(distance(numbers_of(found), numbers_of(wanted)), 1e-6) << text;
  check_hlo(text);
  return after;
}

std::size_t count(const hlo::Module& module, std::initializer_list<hlo::HloOpcode> opcodes) {
  const std::vector<hlo::HloInstruction>& all = module.entry_computation().instructions;
  return static_cast<std::size_t>(std::count_if(all.begin(), all.end(), [&](const auto& i) {
    return std::find(opcodes.begin(), opcodes.end(), i.opcode) != opcodes.end();
  }));
}

/// The accesses by index that are left.
std::size_t left_of(const std::string& text) {
  return count(rewritten(text),
               {hlo::HloOpcode::kGather, hlo::HloOpcode::kScatter, hlo::HloOpcode::kDynamicSlice,
                hlo::HloOpcode::kDynamicUpdateSlice});
}

TEST(RegularGathers, NearestNeighboursOfAnImageAreRepetitions) {
  EXPECT_EQ(left_of(R"(HloModule m
ENTRY main {
  x = f32[2,4,6,10] parameter(0)
  i = f32[12] iota(), iota_dimension=0
  half = f32[] constant(0.5)
  halves = f32[12] broadcast(half), dimensions={}
  middle = f32[12] add(i, halves)
  c = f32[] constant(6)
  cs = f32[12] broadcast(c), dimensions={}
  d = f32[] constant(12)
  ds = f32[12] broadcast(d), dimensions={}
  scaled = f32[12] multiply(middle, cs)
  place = f32[12] divide(scaled, ds)
  lower = f32[12] floor(place)
  number = s32[12] convert(lower)
  indices = s32[12,1] reshape(number)
  ROOT y = f32[2,4,12,10] gather(x, indices), offset_dims={0,1,3}, collapsed_slice_dims={2}, start_index_map={2}, index_vector_dim=1, slice_sizes={2,4,1,10}
}
)"),
            0U);
}

TEST(RegularGathers, TheirGradientAddsWhatWasRepeated) {
  EXPECT_EQ(left_of(R"(HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY main {
  x = f32[2,4,10] parameter(0)
  g = f32[2,8,10] parameter(1)
  indices = s32[8,1] constant({{0},{0},{1},{1},{2},{2},{3},{3}})
  ROOT y = f32[2,4,10] scatter(x, indices, g), update_window_dims={0,2}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, index_vector_dim=1, to_apply=add
}
)"),
            0U);
}

TEST(RegularGathers, AReflectedBorderIsMadeOfPieces) {
  EXPECT_EQ(left_of(R"(HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY main {
  x = f32[5,20] parameter(0)
  g = f32[9,20] parameter(1)
  indices = s32[9] constant({2,1,0,1,2,3,4,3,2})
  y = f32[9,20] gather(x, indices), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,20}
  z = f32[5,20] scatter(x, indices, g), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
  ROOT r = (f32[9,20], f32[5,20]) tuple(y, z)
}
)"),
            0U);
}

TEST(RegularGathers, EveryThirdRowComesToTheFront) {
  EXPECT_EQ(left_of(R"(HloModule m
ENTRY main {
  x = f32[7,10,16] parameter(0)
  indices = s32[3] constant({9,6,3})
  ROOT y = f32[3,7,16] gather(x, indices), offset_dims={1,2}, collapsed_slice_dims={1}, start_index_map={1}, index_vector_dim=1, slice_sizes={7,1,16}
}
)"),
            0U);
}

/// What stands between rows that are far apart is not read: 100,000 rows would not fit VMEM.
TEST(RegularGathers, FewDistantRowsAreTakenOneByOne) {
  EXPECT_EQ(left_of(R"(HloModule m
ENTRY main {
  x = f32[100000,10] parameter(0)
  indices = s32[3] constant({89999,49999,9999})
  ROOT y = f32[3,10] gather(x, indices), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,10}
}
)"),
            0U);
}

/// Indices [count, length]: those of frame i from 2 + hop * i on.
std::string frames_text(int count, int length, int hop) {
  const std::string i = std::to_string(count), j = std::to_string(length);
  const std::string shape = "s32[" + i + "," + j + "]";
  return "  rows = " + shape + " iota(), iota_dimension=0\n  hop = s32[] constant(" +
         std::to_string(hop) + ")\n  hops = " + shape +
         " broadcast(hop), dimensions={}\n  begins = " + shape +
         " multiply(rows, hops)\n  columns = " + shape +
         " iota(), iota_dimension=1\n  first = s32[] constant(2)\n  firsts = " + shape +
         " broadcast(first), dimensions={}\n  places = " + shape +
         " add(begins, columns)\n  moved = " + shape + " add(places, firsts)\n  indices = s32[" +
         i + "," + j + ",1] reshape(moved)\n";
}

/// Frames that overlap by a part of their length, by all but one, and with gaps between.
TEST(RegularGathers, FramesOfASignalArePartsSideBySide) {
  for (const auto& [length, hop] : {std::pair{8, 3}, std::pair{4, 1}, std::pair{3, 5}}) {
    const std::string j = std::to_string(length);
    EXPECT_EQ(left_of("HloModule m\nENTRY main {\n  x = f32[3,107,2] parameter(0)\n" +
                      frames_text(20, length, hop) + "  ROOT y = f32[3,20," + j +
                      ",2] gather(x, indices), offset_dims={0,3}, collapsed_slice_dims={1}, "
                      "start_index_map={1}, index_vector_dim=2, slice_sizes={3,1,2}\n}\n"),
              0U);
    EXPECT_EQ(
        left_of("HloModule m\nadd { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] "
                "add(a, b) }\nENTRY main {\n  x = f32[3,107,2] parameter(0)\n  g = f32[3,20," +
                j + ",2] parameter(1)\n" + frames_text(20, length, hop) +
                "  ROOT y = f32[3,107,2] scatter(x, indices, g), update_window_dims={0,3}, "
                "inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, index_vector_dim=2, "
                "to_apply=add\n}\n"),
        0U);
  }
}

/// The last frame ends before the parts that it is made of would, behind the array.
TEST(RegularGathers, AFrameMayEndWithTheArray) {
  EXPECT_EQ(
      left_of("HloModule m\nENTRY main {\n  x = f32[3,65] parameter(0)\n" + frames_text(20, 6, 3) +
              "  ROOT y = f32[20,6,3] gather(x, indices), offset_dims={2}, "
              "collapsed_slice_dims={1}, start_index_map={1}, index_vector_dim=2, "
              "slice_sizes={3,1}\n}\n"),
      0U);
  EXPECT_EQ(
      left_of("HloModule m\nENTRY main {\n  x = f32[63,3] parameter(0)\n" + frames_text(20, 4, 3) +
              "  ROOT y = f32[20,4,3] gather(x, indices), offset_dims={2}, "
              "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=2, "
              "slice_sizes={1,3}\n}\n"),
      0U);
}

TEST(RegularGathers, FramesAtUnequalDistancesStay) {
  EXPECT_EQ(
      left_of("HloModule m\nENTRY main {\n  x = f32[3,107] parameter(0)\n" + frames_text(20, 4, 3) +
              "  squares = s32[20,4,1] multiply(indices, indices)\n  bound = s32[] constant(100)\n"
              "  bounds = s32[20,4,1] broadcast(bound), dimensions={}\n  inside = s32[20,4,1] "
              "remainder(squares, bounds)\n  ROOT y = f32[3,20,4] gather(x, inside), "
              "offset_dims={0}, collapsed_slice_dims={1}, start_index_map={1}, "
              "index_vector_dim=2, slice_sizes={3,1}\n}\n"),
      1U);
}

TEST(RegularGathers, IndicesOutsideAndIndicesThatDataDecideStay) {
  EXPECT_EQ(left_of(R"(HloModule m
ENTRY main {
  x = f32[8,128] parameter(0)
  data = s32[4] parameter(1)
  outside = s32[4] constant({0,1,2,8})
  y = f32[4,128] gather(x, outside), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,128}
  z = f32[4,128] gather(x, data), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,128}
  ROOT r = (f32[4,128], f32[4,128]) tuple(y, z)
}
)"),
            2U);
}

/// One window at [5, 2] of the last two dimensions, whose place JAX writes as a concatenation.
std::string one_window(const std::string& body) {
  return "HloModule m\n"
         "set { a = f32[] parameter(0)  ROOT b = f32[] parameter(1) }\n"
         "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }\n"
         "max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }\n"
         "ENTRY main {\n  x = f32[3,8,9] parameter(0)\n  u = f32[3,2,4] parameter(1)\n"
         "  five = s32[1] constant({5})\n  two = s32[1] constant({2})\n"
         "  place = s32[2] concatenate(five, two), dimensions={0}\n  zero = f32[] constant(0)\n"
         "  zeros = f32[3,8,9] broadcast(zero), dimensions={}\n" +
         body + "}\n";
}

std::string scatter_of(const std::string& array, const std::string& indices,
                       const std::string& combiner) {
  return "scatter(" + array + ", " + indices +
         ", u), update_window_dims={0,1,2}, inserted_window_dims={}, "
         "scatter_dims_to_operand_dims={1,2}, index_vector_dim=0, to_apply=" +
         combiner;
}

TEST(RegularGathers, AWindowAtAKnownPlaceIsASlice) {
  const hlo::Module gather =
      rewritten(one_window("  ROOT y = f32[3,2] gather(x, place), offset_dims={0,1}, "
                           "collapsed_slice_dims={2}, start_index_map={1,2}, index_vector_dim=0, "
                           "slice_sizes={3,2,1}\n"));
  EXPECT_EQ(count(gather, {hlo::HloOpcode::kGather}), 0U);
  EXPECT_EQ(count(gather, {hlo::HloOpcode::kSlice}), 1U);
  // Clamped: the window would begin at 7 of 8 rows, and at -1.
  const hlo::Module slice = rewritten(
      one_window("  a = s32[] constant(0)\n  b = s32[] constant(7)\n  c = s32[] constant(-1)\n"
                 "  ROOT y = f32[3,2,4] dynamic-slice(x, a, b, c), dynamic_slice_sizes={3,2,4}\n"));
  EXPECT_EQ(count(slice, {hlo::HloOpcode::kDynamicSlice}), 0U);
  EXPECT_EQ(count(slice, {hlo::HloOpcode::kSlice}), 1U);
  // A gather is clamped, too.
  EXPECT_EQ(
      left_of(one_window("  far = s32[2] constant({7,6})\n  ROOT y = f32[3,2,4] gather(x, far), "
                         "offset_dims={0,1,2}, collapsed_slice_dims={}, start_index_map={1,2}, "
                         "index_vector_dim=0, slice_sizes={3,2,4}\n")),
      0U);
}

TEST(RegularGathers, AWindowIsReplacedWithoutAnIndex) {
  using hlo::HloOpcode;
  const auto set = [](const std::string& array) {
    return rewritten(
        one_window("  ROOT y = f32[3,8,9] " + scatter_of(array, "place", "set") + "\n"));
  };
  const hlo::Module selected = set("x"), padded = set("zeros");
  EXPECT_EQ(count(selected, {HloOpcode::kScatter}), 0U);
  EXPECT_EQ(count(selected, {HloOpcode::kSelect}), 1U);
  // From 5 up to 7 of 8, and from 2 up to 6 of 9.
  EXPECT_EQ(count(selected, {HloOpcode::kCompare}), 4U);
  EXPECT_EQ(count(padded, {HloOpcode::kPad}), 1U);
  EXPECT_EQ(count(padded, {HloOpcode::kSelect, HloOpcode::kScatter}), 0U);
  const hlo::Module added =
      rewritten(one_window("  ROOT y = f32[3,8,9] " + scatter_of("x", "place", "add") + "\n"));
  EXPECT_EQ(count(added, {HloOpcode::kScatter, HloOpcode::kSelect}), 0U);
  EXPECT_EQ(count(added, {HloOpcode::kAdd}), 1U);
  const hlo::Module update =
      rewritten(one_window("  a = s32[] constant(0)\n  b = s32[] constant(6)\n"
                           "  ROOT y = f32[3,8,9] dynamic-update-slice(x, u, a, b, b)\n"));
  EXPECT_EQ(count(update, {HloOpcode::kDynamicUpdateSlice}), 0U);
  // Up to the last rows and clamped to the last columns: a comparison each.
  EXPECT_EQ(count(update, {HloOpcode::kCompare}), 2U);
}

/// An update of these extents, whose starts are `z` (0) and `two`, behind the pass.
hlo::Module updated(const std::string& sizes, const std::string& starts) {
  return rewritten("HloModule m\nENTRY main {\n  x = f32[3,8,9] parameter(0)\n  u = f32[" + sizes +
                   "] parameter(1)\n  z = s32[] constant(0)\n  two = s32[] constant(2)\n"
                   "  ROOT y = f32[3,8,9] dynamic-update-slice(x, u, " +
                   starts + ")\n}\n");
}

TEST(RegularGathers, AWindowOfAllButOneDimensionIsAPartOfAConcatenation) {
  using hlo::HloOpcode;
  const hlo::Module middle = updated("3,4,9", "z, two, z"), begin = updated("3,4,9", "z, z, z");
  EXPECT_EQ(count(middle, {HloOpcode::kConcatenate}), 1U);
  EXPECT_EQ(count(middle, {HloOpcode::kSlice}), 2U);
  EXPECT_EQ(count(begin, {HloOpcode::kSlice}), 1U);
  EXPECT_EQ(count(updated("3,8,9", "z, z, z"), {HloOpcode::kConcatenate}), 0U);
  // Whole rows of the array: a kernel that may work in place.
  EXPECT_EQ(count(updated("1,8,9", "two, z, z"), {HloOpcode::kDynamicUpdateSlice}), 1U);
}

/// x.at[:, 5].set(y): elements are selected by their place out of what is repeated; no pad.
TEST(RegularGathers, AWindowOfOneRowIsRepeated) {
  using hlo::HloOpcode;
  const hlo::Module row = updated("3,1,9", "z, two, z"),
                    element = updated("1,1,1", "two, two, two");
  EXPECT_EQ(count(row, {HloOpcode::kPad, HloOpcode::kConcatenate}), 0U);
  EXPECT_EQ(count(row, {HloOpcode::kCompare}), 1U);
  EXPECT_EQ(count(element, {HloOpcode::kCompare}), 3U);
  // Four columns of one row: padded along the columns, repeated along the rows.
  const hlo::Module part = updated("3,1,4", "z, two, two");
  EXPECT_EQ(count(part, {HloOpcode::kPad}), 1U);
  EXPECT_EQ(count(part, {HloOpcode::kCompare}), 3U);
}

/// Nothing is scattered to a window that reaches beyond the array; other combiners keep a kernel.
TEST(RegularGathers, AWindowThatReachesBeyondOrIsCombinedOtherwiseStays) {
  EXPECT_EQ(left_of(one_window("  far = s32[2] constant({7,2})\n  ROOT y = f32[3,8,9] " +
                               scatter_of("x", "far", "set") + "\n")),
            1U);
  EXPECT_EQ(left_of(one_window("  ROOT y = f32[3,8,9] " + scatter_of("x", "place", "max") + "\n")),
            1U);
}

}  // namespace
}  // namespace tpu::test::regular_gathers_test
