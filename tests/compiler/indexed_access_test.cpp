#include "workloads/compiler/passes/expand/indexed_access.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"
#include "tests/compiler/gather_text.h"
#include "tests/compiler/hlo_check.h"
#include "workloads/compiler/cost.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::indexed_access_test {
namespace {

TEST(IndexedAccess, GathersAnElementPerRowOfABatch) {
  // What take_along_axis makes: the indices beyond the array are clamped.
  const char* attributes =
      "offset_dims={}, collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, "
      "start_indices_batching_dims={0}, index_vector_dim=2, slice_sizes={1,1}";
  check_hlo(gather("f32[32,300]", "s32[32,1,1]", "f32[32,1]", attributes), indices(-5, 310));
  check_hlo(gather("f32[32,300]", "s32[32,4,1]", "f32[32,4]", attributes), indices(-5, 310));
}

TEST(IndexedAccess, GathersRowsOfABatch) {
  check_hlo(gather("bf16[4,64,256]", "s32[4,20,1]", "bf16[4,20,256]",
                   "offset_dims={2}, collapsed_slice_dims={1}, start_index_map={1}, "
                   "operand_batching_dims={0}, start_indices_batching_dims={0}, "
                   "index_vector_dim=2, slice_sizes={1,1,256}"),
            indices(-3, 70));
}

TEST(IndexedAccess, GathersAlongTwoDimensionsAtOnce) {
  check_hlo(gather("f32[40,4,4]", "s32[6,2]", "f32[40,6]",
                   "offset_dims={0}, collapsed_slice_dims={1,2}, start_index_map={1,2}, "
                   "index_vector_dim=1, slice_sizes={40,1,1}"),
            indices(0, 3));
  check_hlo(gather("f32[40,4,5]", "s32[6,2]", "f32[40,6]",
                   "offset_dims={0}, collapsed_slice_dims={1,2}, start_index_map={2,1}, "
                   "index_vector_dim=1, slice_sizes={40,1,1}"),
            indices(-1, 6));
}

TEST(IndexedAccess, GathersWindows) {
  check_hlo(gather("f32[50,200]", "s32[3,1]", "f32[3,7,200]",
                   "offset_dims={1,2}, collapsed_slice_dims={}, start_index_map={0}, "
                   "index_vector_dim=1, slice_sizes={7,200}"),
            indices(-2, 60));
  check_hlo(gather("f32[9,30]", "s32[5]", "f32[4,3,5]",
                   "offset_dims={0,1}, collapsed_slice_dims={}, start_index_map={0}, "
                   "index_vector_dim=1, slice_sizes={4,3}"),
            indices(0, 6));
}

TEST(IndexedAccess, GathersIntegersAndPredicates) {
  const char* attributes =
      "offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
      "slice_sizes={1}";
  HloCheck check = indices(-2000000000, 2000000000);
  check_hlo(
      "HloModule g\nENTRY main {\n  x = s32[40] parameter(0)\n  p = s32[6,1] parameter(1)\n"
      "  m = s32[] constant(63)\n  b = s32[6,1] broadcast(m), dimensions={}\n"
      "  i = s32[6,1] and(p, b)\n  ROOT r = s32[6] gather(x, i), " +
          std::string(attributes) + "\n}\n",
      check);
  check_hlo(gather("pred[12]", "s32[6,1]", "pred[6]", attributes), indices(0, 14));
}

TEST(IndexedAccess, AnIndexThatCanOnlyBeZeroMovesNothing) {
  check_hlo(gather("f32[32,1]", "s32[1]", "f32[32]",
                   "offset_dims={0}, collapsed_slice_dims={1}, start_index_map={1}, "
                   "index_vector_dim=0, slice_sizes={32,1}"),
            indices(-3, 3));
}

std::string scatter(const std::string& array, const std::string& indices_shape,
                    const std::string& updates, const std::string& attributes) {
  const std::string type = array.substr(0, array.find('['));
  return "HloModule s\nsum {\n  a = " + type + "[] parameter(0)\n  b = " + type +
         "[] parameter(1)\n  ROOT c = " + type + "[] add(a, b)\n}\nENTRY main {\n  x = " + array +
         " parameter(0)\n  i = " + indices_shape + " parameter(1)\n  u = " + updates +
         " parameter(2)\n  ROOT r = " + array + " scatter(x, i, u), " + attributes +
         ", to_apply=sum\n}\n";
}

TEST(IndexedAccess, AddsAnElementPerRowOfABatch) {
  const char* attributes =
      "update_window_dims={}, inserted_window_dims={1}, scatter_dims_to_operand_dims={1}, "
      "input_batching_dims={0}, scatter_indices_batching_dims={0}, index_vector_dim=2";
  check_hlo(scatter("f32[32,300]", "s32[32,1,1]", "f32[32,1]", attributes), indices(-5, 310));
  check_hlo(scatter("f32[32,300]", "s32[32,4,1]", "f32[32,4]", attributes), indices(-5, 310));
}

TEST(IndexedAccess, AddsRowsOfABatch) {
  HloCheck check = indices(-3, 70);
  check.tolerance = 4e-3;  // The sums of bf16 are rounded once here, after each term there.
  check_hlo(scatter("bf16[4,64,256]", "s32[4,20,1]", "bf16[4,20,256]",
                    "update_window_dims={2}, inserted_window_dims={1}, "
                    "scatter_dims_to_operand_dims={1}, input_batching_dims={0}, "
                    "scatter_indices_batching_dims={0}, index_vector_dim=2"),
            check);
}

TEST(IndexedAccess, AddsAlongTwoDimensionsAtOnce) {
  check_hlo(scatter("f32[40,4,4]", "s32[6,2]", "f32[40,6]",
                    "update_window_dims={0}, inserted_window_dims={1,2}, "
                    "scatter_dims_to_operand_dims={1,2}, index_vector_dim=1"),
            indices(-1, 4));
}

TEST(IndexedAccess, AddsWindowsOnlyWhereTheyFit) {
  check_hlo(scatter("f32[50,200]", "s32[3,1]", "f32[3,7,200]",
                    "update_window_dims={1,2}, inserted_window_dims={}, "
                    "scatter_dims_to_operand_dims={0}, index_vector_dim=1"),
            indices(-4, 60));
}

/// A scatter of rows whose combiner is `operation` of a (what stands there) and b (the update);
/// without one, b alone.
std::string row_scatter(const std::string& type, const std::string& operation,
                        const std::string& rows, const std::string& width,
                        const std::string& picks) {
  const std::string columns = width.empty() ? "" : "," + width;
  const std::string windows = width.empty() ? "{}" : "{1}";
  const std::string combiner =
      operation.empty()
          ? "  ROOT b = " + type + "[] parameter(1)\n"
          : "  b = " + type + "[] parameter(1)\n  ROOT c = " + type + "[] " + operation + "\n";
  return "HloModule s\nlast {\n  a = " + type + "[] parameter(0)\n" + combiner +
         "}\nENTRY main {\n  x = " + type + "[" + rows + columns + "] parameter(0)\n  i = s32[" +
         picks + ",1] parameter(1)\n  u = " + type + "[" + picks + columns +
         "] parameter(2)\n  ROOT r = " + type + "[" + rows + columns +
         "] scatter(x, i, u), update_window_dims=" + windows +
         ", inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
         "to_apply=last\n}\n";
}

TEST(IndexedAccess, ScattersCombineAsTheirComputationSays) {
  for (const char* type : {"f32", "s32", "u32"}) {
    for (const char* operation :
         {"", "add(a, b)", "maximum(a, b)", "minimum(a, b)", "multiply(a, b)"}) {
      HloCheck check = indices(-5, 60);
      if (type == std::string("u32")) check.least = 0;
      check_hlo(row_scatter(type, operation, "50", "70", "40"), check);
      check_hlo(row_scatter(type, operation, "50", "", "40"), check);
    }
  }
  check_hlo(row_scatter("bf16", "", "50", "70", "40"), indices(-5, 60));
  check_hlo(row_scatter("pred", "or(a, b)", "50", "", "40"), indices(-5, 60));
}

/// Single elements of vectors that do and do not fit VMEM, whole chunks of indices and parts of
/// one, many at one place: of those that replace, the last one stays.
TEST(IndexedAccess, ElementsAreScatteredInTheirOrder) {
  for (const char* operation : {"", "add(a, b)", "multiply(a, b)"}) {
    check_hlo(row_scatter("f32", operation, "60001", "", "5000"), indices(-5, 700));
    check_hlo(row_scatter("s32", operation, "3000000", "", "1024"), indices(-5, 3000020));
  }
}

TEST(IndexedAccess, AScatteredElementTakesAsLongAsItsEstimate) {
  const CompiledRun few = check_hlo(row_scatter("f32", "", "60000", "", "2048"), indices(0, 59999));
  const CompiledRun many =
      check_hlo(row_scatter("f32", "", "60000", "", "10240"), indices(0, 59999));
  const auto cycles = static_cast<double>(many.result.cycles - few.result.cycles) / 8192;
  EXPECT_GT(cycles, 0.75 * compiler::kScatteredElementCycles);
  EXPECT_LT(cycles, 1.25 * compiler::kScatteredElementCycles);
}

/// Rows of packed tables that fit no VMEM as fp32: even and odd ones, some at the end of a tile.
TEST(IndexedAccess, RowsOfPackedTablesAreFetchedAsTheyAre) {
  const std::string attributes =
      "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
      "slice_sizes={1,";
  check_hlo(gather("bf16[9000,200]", "s32[77,1]", "bf16[77,200]", attributes + "200}"),
            indices(-5, 9010));
  check_hlo(gather("bf16[17001,100]", "s32[1100,1]", "bf16[1100,100]", attributes + "100}"),
            indices(-5, 17010));
}

/// Rows and single elements that are fetched one by one, not compared with all places.
TEST(IndexedAccess, LargeTablesAreReachedByRows) {
  for (const char* operation : {"add(a, b)", "maximum(a, b)"}) {
    check_hlo(row_scatter("f32", operation, "30000", "", "40"), indices(-5, 30020));
    check_hlo(row_scatter("s32", operation, "30000", "", "40"), indices(-5, 30020));
  }
  check_hlo(row_scatter("f32", "", "30000", "", "40"), indices(-5, 30020));
  check_hlo(
      "HloModule g\nENTRY main {\n  x = f32[30000] parameter(0)\n  i = s32[40,1] parameter(1)\n"
      "  ROOT r = f32[40] gather(x, i), offset_dims={}, collapsed_slice_dims={0}, "
      "start_index_map={0}, index_vector_dim=1, slice_sizes={1}\n}\n",
      indices(-5, 30020));
}

/// How many gathers and scatters are left.
std::size_t accesses_left(const std::string& text) {
  hlo::Module module = hlo::read_hlo_text("test.hlo", text);
  compiler::Refusals refusals;
  compiler::rewrite_indexed_access(module, compiler::Target(), refusals);
  const std::vector<hlo::HloInstruction>& all = module.entry_computation().instructions;
  return static_cast<std::size_t>(std::count_if(all.begin(), all.end(), [](const auto& each) {
    return each.opcode == hlo::HloOpcode::kGather || each.opcode == hlo::HloOpcode::kScatter;
  }));
}

/// Windows of 20 rows in each of 30 matrices. What they take whole they take at place 0, or there
/// is no such window; its elements are not found one by one.
TEST(IndexedAccess, WindowsOfWholeRowsAreAddedInRows) {
  const std::string text =
      "HloModule s\nsum {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] "
      "add(a, b)\n}\nENTRY main {\n  x = f32[30,500,130] parameter(0)\n  i = s32[30,2] "
      "parameter(1)\n  k = s32[] constant(1)\n  m = s32[30,1] broadcast(k), dimensions={}\n  z = "
      "s32[] constant(0)\n  h = s32[30,1] broadcast(z), dimensions={}\n  t = s32[30,1] slice(i), "
      "slice={[0:30],[1:2]}\n  o = s32[30,1] and(t, m)\n  g = s32[30,1] slice(i), "
      "slice={[0:30],[0:1]}\n  n = s32[30,2] concatenate(g, o), dimensions={1}\n  u = "
      "f32[30,20,130] parameter(2)\n  ROOT r = f32[30,500,130] scatter(x, n, u), "
      "update_window_dims={1,2}, inserted_window_dims={}, scatter_dims_to_operand_dims={1,2}, "
      "input_batching_dims={0}, scatter_indices_batching_dims={0}, index_vector_dim=1, "
      "to_apply=sum\n}\n";
  check_hlo(text, indices(-5, 510));
  hlo::Module module = hlo::read_hlo_text("test.hlo", text);
  compiler::Refusals refusals;
  compiler::rewrite_indexed_access(module, compiler::Target(), refusals);
  const hlo::Computation& entry = module.entry_computation();
  for (const hlo::HloInstruction& each : entry.instructions) {
    if (each.opcode != hlo::HloOpcode::kScatter) continue;
    EXPECT_EQ(entry.at(each.operands[1]).shape.element_count(), 30 * 20);
  }
  EXPECT_EQ(accesses_left(text), 1U);
}

/// The vector unit clamps the indices of a gather that stays, where they are many or are computed
/// in any case; unsigned ones are the kernel's to clamp. What a dump says is read again.
TEST(IndexedAccess, IndicesOfRowsAreClampedBefore) {
  struct Case {
    std::string type;
    std::int64_t count;
    bool are_computed, in_range;
  };
  for (const Case& each : {Case{"s32", 1024, false, true}, Case{"s32", 1023, false, false},
                           Case{"s32", 20, true, true}, Case{"u32", 1024, true, false}}) {
    const std::string picks = each.type + "[" + std::to_string(each.count) + "]";
    const std::string text =
        "HloModule g\nENTRY main {\n  x = f32[500,128] parameter(0)\n  p = " + picks +
        " parameter(1)\n  i = " + picks + " add(p, p)\n  ROOT r = f32[" +
        std::to_string(each.count) + ",128] gather(x, " + (each.are_computed ? "i" : "p") +
        "), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
        "slice_sizes={1,128}\n}\n";
    hlo::Module module = hlo::read_hlo_text("test.hlo", text);
    compiler::Refusals refusals;
    compiler::rewrite_indexed_access(module, compiler::Target(), refusals);
    const auto is_clamped = [](const hlo::Module& some) {
      const hlo::Computation& entry = some.entry_computation();
      const hlo::HloInstruction& gather = entry.at(entry.root);
      EXPECT_EQ(gather.opcode, hlo::HloOpcode::kGather);
      EXPECT_EQ(gather.gather->indices_in_range,
                entry.at(gather.operands[1]).opcode == hlo::HloOpcode::kMinimum);
      return gather.gather->indices_in_range;
    };
    EXPECT_EQ(is_clamped(module), each.in_range) << picks;
    EXPECT_EQ(is_clamped(hlo::read_hlo_text("again.hlo", hlo::to_string(module))), each.in_range);
    if (each.type == "s32") check_hlo(text, indices(-300, 600));
  }
  // The picks of rows that the pass makes are in range.
  hlo::Module module = hlo::read_hlo_text(
      "test.hlo", gather("bf16[500,128]", "s32[90,1]", "bf16[90,128]",
                         "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
                         "index_vector_dim=1, slice_sizes={1,128}"));
  compiler::Refusals refusals;
  compiler::rewrite_indexed_access(module, compiler::Target(), refusals);
  std::size_t gathers = 0;
  for (const hlo::HloInstruction& each : module.entry_computation().instructions) {
    if (each.opcode != hlo::HloOpcode::kGather) continue;
    EXPECT_TRUE(each.gather->indices_in_range);
    ++gathers;
  }
  EXPECT_EQ(gathers, 1U);
}

/// A gather of rows of a table of f32 by numbers of any extents ("4,10").
std::string row_gather(std::int64_t rows, std::int64_t width, const std::string& picks) {
  const std::string columns = std::to_string(width);
  const std::string places = std::to_string(std::count(picks.begin(), picks.end(), ',') + 1);
  return gather("f32[" + std::to_string(rows) + "," + columns + "]", "s32[" + picks + ",1]",
                "f32[" + picks + "," + columns + "]",
                "offset_dims={" + places +
                    "}, collapsed_slice_dims={0}, start_index_map={0}, "
                    "index_vector_dim=" +
                    places + ", slice_sizes={1," + columns + "}");
}

/// A row of 8 elements takes 7 cycles to copy and 11 to add to, a row of the table 6 for each
/// register of 1024 elements that are compared with it.
TEST(IndexedAccess, OfAShortTableEachPickIsComparedWithAllRows) {
  const auto most = [](double cycles) {
    return static_cast<std::int64_t>(cycles * 1024 / (6 * 8));
  };
  const std::int64_t copied = most(7), added = most(11);
  EXPECT_EQ(accesses_left(row_gather(copied, 8, "4,10")), 0U);
  EXPECT_EQ(accesses_left(row_gather(copied + 1, 8, "4,10")), 1U);
  EXPECT_EQ(accesses_left(row_scatter("f32", "add(a, b)", std::to_string(added), "8", "40")), 0U);
  EXPECT_EQ(accesses_left(row_scatter("f32", "add(a, b)", std::to_string(added + 1), "8", "40")),
            1U);
  // Rows of 130 elements fill two tiles of lanes.
  const auto most_wide = static_cast<std::int64_t>(7.0 * 2 * 1024 / (6 * 256));
  EXPECT_EQ(accesses_left(row_gather(most_wide, 130, "40")), 0U);
  EXPECT_EQ(accesses_left(row_gather(most_wide + 1, 130, "40")), 1U);
  // What is multiplied, and integers, are not summed up.
  EXPECT_EQ(accesses_left(row_scatter("f32", "multiply(a, b)", "200", "8", "4000")), 1U);
  EXPECT_EQ(accesses_left(row_scatter("s32", "add(a, b)", "200", "8", "4000")), 1U);
}

TEST(IndexedAccess, ShortTablesHaveTheirValues) {
  for (const char* picks : {"9", "4,10", "3,5,130", "2,130,5"}) {
    for (const auto& [rows, width] :
         {std::pair<std::int64_t, std::int64_t>{16, 8}, {9, 130}, {3, 64}}) {
      check_hlo(row_gather(rows, width, picks), indices(-2, static_cast<double>(rows) + 2));
      const std::string table = "f32[" + std::to_string(rows) + "," + std::to_string(width) + "]";
      const std::string list = picks;
      const std::string last = std::to_string(std::count(list.begin(), list.end(), ',') + 1);
      for (const char* operation : {"add", "maximum"}) {
        check_hlo(
            "HloModule s\nmany {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = "
            "f32[] " +
                std::string(operation) + "(a, b)\n}\nENTRY main {\n  x = " + table +
                " parameter(0)\n  i = s32[" + list + ",1] parameter(1)\n  u = f32[" + list + "," +
                std::to_string(width) + "] parameter(2)\n  ROOT r = " + table +
                " scatter(x, i, u), update_window_dims={" + last +
                "}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
                "index_vector_dim=" +
                last + ", to_apply=many\n}\n",
            indices(-2, static_cast<double>(rows) + 2));
      }
    }
  }
}

/// What lax.map over rows makes lies by columns here; rows are scattered into a copy.
TEST(IndexedAccess, TablesThatLieByColumnsAreCopied) {
  check_hlo(R"(HloModule map
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
least {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] minimum(a, b)
}
body {
  s = (s32[], f32[700,3], f32[700,3]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  y = f32[700,3] get-tuple-element(s), index=1
  x = f32[700,3] get-tuple-element(s), index=2
  zero = s32[] constant(0)
  one = s32[] constant(1)
  next = s32[] add(k, one)
  row = f32[1,3] dynamic-slice(x, k, zero), dynamic_slice_sizes={1,3}
  flat = f32[3] reshape(row)
  none = f32[] constant(0)
  sum = f32[] reduce(flat, none), dimensions={0}, to_apply=add
  sums = f32[3] broadcast(sum), dimensions={}
  new = f32[3] add(flat, sums)
  update = f32[1,3] reshape(new)
  z = f32[700,3] dynamic-update-slice(y, update, k, zero)
  ROOT t = (s32[], f32[700,3], f32[700,3]) tuple(next, z, x)
}
condition {
  s = (s32[], f32[700,3], f32[700,3]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT less = pred[] compare(k, n), direction=LT
}
ENTRY main {
  x = f32[700,3] parameter(0)
  i = s32[8,1] parameter(1)
  u = f32[8,3] parameter(2)
  zero = s32[] constant(0)
  none = f32[] constant(0)
  y = f32[700,3] broadcast(none), dimensions={}
  s = (s32[], f32[700,3], f32[700,3]) tuple(zero, y, x)
  l = (s32[], f32[700,3], f32[700,3]) while(s), condition=condition, body=body
  z = f32[700,3] get-tuple-element(l), index=1
  ROOT r = f32[700,3] scatter(z, i, u), update_window_dims={1}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=least
}
)",
            indices(0, 699));
}

/// A scatter into an array that is `start` everywhere, with what else stands in the entry and its
/// results.
std::string scatter_from(const std::string& type, const std::string& start,
                         const std::string& operation, const std::string& rows,
                         const std::string& width, const std::string& picks,
                         const std::string& more = "  ROOT t = ($) tuple(r)\n") {
  const std::string columns = width.empty() ? "" : "," + width;
  const std::string array = type + "[" + rows + columns + "]";
  std::string rest = more;
  for (std::size_t at = rest.find('$'); at != std::string::npos; at = rest.find('$', at)) {
    rest.replace(at, 1, array);
  }
  return "HloModule s\nlast {\n  a = " + type + "[] parameter(0)\n  b = " + type +
         "[] parameter(1)\n  ROOT c = " + type + "[] " + operation +
         "(a, b)\n}\nENTRY main {\n  v = " + type + "[] constant(" + start + ")\n  x = " + array +
         " broadcast(v), dimensions={}\n  i = s32[" + picks + ",1] parameter(0)\n  u = " + type +
         "[" + picks + columns + "] parameter(1)\n  r = " + array +
         " scatter(x, i, u), update_window_dims={" + (width.empty() ? " " : "1") +
         "}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
         "to_apply=last\n" +
         rest + "}\n";
}

/// The array that a scatter starts from is never in HBM where it is one value everywhere.
TEST(IndexedAccess, ScattersStartFromAValue) {
  for (const char* width : {"70", "200", ""}) {
    check_hlo(scatter_from("f32", "0", "add", "50", width, "40"), indices(-5, 60));
    check_hlo(scatter_from("f32", "-1.5", "maximum", "1301", width, "90"), indices(-5, 1310));
    check_hlo(scatter_from("s32", "7", "minimum", "50", width, "40"), indices(-5, 60));
  }
  HloCheck rounded_once = indices(-5, 60);  // The reference rounds each sum.
  rounded_once.tolerance = 4e-3;
  check_hlo(scatter_from("bf16", "0.5", "add", "50", "70", "40"), rounded_once);
}

TEST(IndexedAccess, WhatAScatterStartsFromIsTheSameForOthers) {
  check_hlo(scatter_from("f32", "3", "add", "50", "70", "40",
                         "  s = $ scatter(x, i, u), update_window_dims={1}, "
                         "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
                         "index_vector_dim=1, to_apply=last\n  d = $ multiply(r, s)\n"
                         "  q = $ scatter(d, i, u), update_window_dims={1}, "
                         "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
                         "index_vector_dim=1, to_apply=last\n"
                         "  ROOT t = ($, $, $, $) tuple(r, x, q, d)\n"),
            indices(-5, 60));
}

TEST(IndexedAccess, ScattersOfOneShapeStartFromDifferentValues) {
  check_hlo(scatter_from("f32", "3", "add", "50", "70", "40",
                         "  w = f32[] constant(4)\n  y = $ broadcast(w), dimensions={}\n"
                         "  s = $ scatter(y, i, u), update_window_dims={1}, "
                         "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
                         "index_vector_dim=1, to_apply=last\n  ROOT t = ($, $) tuple(r, s)\n"),
            indices(-5, 60));
}

/// HBM bytes of the kernel of the scatter: indices, updates, result.
TEST(IndexedAccess, AScatterFromAValueMovesNoArray) {
  const auto counters = [](const std::string& text) {
    const CompiledRun run = check_hlo(text, indices(0, 4095));
    std::size_t scatter = 0;
    while (run.program.ops.at(scatter).category != "scatter") ++scatter;
    return run.result.cores.at(0).ops[scatter].counters;
  };
  // Indices come 1,024 at a time, and so do updates that are elements; rows of updates in tiles.
  const auto rows = counters(scatter_from("f32", "0", "add", "4096", "100", "300"));
  EXPECT_EQ(rows.hbm_read_bytes, 4U * 1024 + 304 * 512);
  EXPECT_EQ(rows.hbm_write_bytes, 4096U * 512);
  // Where others read the value it is written for them.
  const auto shared = counters(
      scatter_from("f32", "0", "add", "4096", "100", "300", "  ROOT t = ($, $) tuple(r, x)\n"));
  EXPECT_EQ(shared.hbm_read_bytes, rows.hbm_read_bytes);
  const auto elements = counters(scatter_from("f32", "2", "add", "4096", "", "300"));
  EXPECT_EQ(elements.hbm_read_bytes, 2U * 4 * 1024);
  EXPECT_EQ(elements.hbm_write_bytes, 4096U * 4);
}

std::string dynamic_slice(const std::string& array, const std::string& result, int rank,
                          const std::string& sizes) {
  std::string text = "HloModule d\nENTRY main {\n  x = " + array + " parameter(0)\n";
  std::string starts;
  for (int d = 0; d < rank; ++d) {
    text += "  i" + std::to_string(d) + " = s32[] parameter(" + std::to_string(d + 1) + ")\n";
    starts += ", i" + std::to_string(d);
  }
  return text + "  ROOT r = " + result + " dynamic-slice(x" + starts +
         "), dynamic_slice_sizes=" + sizes + "\n}\n";
}

TEST(IndexedAccess, SlicesAlongMajorDimensionsByDma) {
  for (double start : {-3.0, 0.0, 2.0, 11.0}) {
    const HloCheck check = indices(start, start);
    check_hlo(dynamic_slice("f32[9,20,200]", "f32[1,20,200]", 3, "{1,20,200}"), check);
    check_hlo(dynamic_slice("bf16[5,6,40,130]", "bf16[2,3,40,130]", 4, "{2,3,40,130}"), check);
  }
}

TEST(IndexedAccess, SlicesAlongMinorDimensions) {
  for (double start : {-3.0, 5.0, 1000.0}) {
    const HloCheck check = indices(start, start);
    check_hlo(dynamic_slice("f32[30,200]", "f32[3,200]", 2, "{3,200}"), check);
    check_hlo(dynamic_slice("f32[6,30,200]", "f32[2,4,70]", 3, "{2,4,70}"), check);
    check_hlo(dynamic_slice("f32[100]", "f32[7]", 1, "{7}"), check);
    check_hlo(dynamic_slice("s32[8,2560]", "s32[1,2560]", 2, "{1,2560}"), check);
  }
}

std::string dynamic_update(const std::string& array, const std::string& update, int rank) {
  std::string text = "HloModule d\nENTRY main {\n  x = " + array +
                     " parameter(0)\n  u = " + update + " parameter(1)\n";
  std::string starts;
  for (int d = 0; d < rank; ++d) {
    text += "  i" + std::to_string(d) + " = s32[] parameter(" + std::to_string(d + 2) + ")\n";
    starts += ", i" + std::to_string(d);
  }
  return text + "  r = " + array + " dynamic-update-slice(x, u" + starts + ")\n  ROOT t = (" +
         array + ", " + array + ") tuple(r, x)\n}\n";
}

/// A cache that gets the keys of one place, wherever its dimension is: what the window does not
/// cover stays, and all of it where the place is not one of the array's.
TEST(IndexedAccess, AScatterOfOneWindowIsAnUpdate) {
  struct Window {
    std::string array, indices, updates, attributes;
    std::string sums = "add(a, b)";
  };
  for (const Window& window :
       std::vector<Window>{{"f32[2,3,20,8,16]", "s32[2]", "f32[3,8,16]",
                            "update_window_dims={0,1,2}, inserted_window_dims={0,2}, "
                            "scatter_dims_to_operand_dims={0,2}, index_vector_dim=0"},
                           {"bf16[3,20,40]", "s32[1]", "bf16[3,5,40]",
                            "update_window_dims={0,1,2}, inserted_window_dims={}, "
                            "scatter_dims_to_operand_dims={1}, index_vector_dim=0"},
                           {"f32[9,20,7]", "s32[1,2]", "f32[1,5,20,3]",
                            "update_window_dims={1,2,3}, inserted_window_dims={}, "
                            "scatter_dims_to_operand_dims={2,0}, index_vector_dim=1"},
                           {"s32[30]", "s32[1]", "s32[]",
                            "update_window_dims={}, inserted_window_dims={0}, "
                            "scatter_dims_to_operand_dims={0}, index_vector_dim=0",
                            "maximum(a, b)"}}) {
    std::string text = scatter(window.array, window.indices, window.updates, window.attributes);
    const std::string sum = "add(a, b)";
    text.replace(text.find(sum), sum.size(), window.sums);
    std::string last = text;
    last.replace(last.find("ROOT c"), 4, "    ").replace(last.find("  b ="), 5, "  ROOT b =");
    for (const std::string& each : {text, last}) {
      EXPECT_EQ(accesses_left(each), 0U) << each;
      for (const double place : {-1, 0, 2, 19}) check_hlo(each, indices(place, place));
    }
  }
}

/// Each element of the array would be compared with 300 of the update; the window is put in its
/// place by halves.
TEST(IndexedAccess, AWindowOfAVectorIsPutInItsPlace) {
  const std::string text =
      "HloModule u\nENTRY main {\n  x = f32[50000] parameter(0)\n  i = s32[] parameter(1)\n"
      "  u = f32[300] parameter(2)\n"
      "  ROOT r = f32[50000] dynamic-update-slice(x, u, i)\n}\n";
  for (const double place : {-7, 0, 12345, 49700, 60000}) {
    const CompiledRun run = check_hlo(text, indices(place, place));
    EXPECT_LT(run.result.cycles, 50000U);
  }
}

TEST(IndexedAccess, UpdatesLeaveTheOldArrayWhereItIsStillNeeded) {
  for (double start : {-3.0, 2.0, 11.0}) {
    const HloCheck check = indices(start, start);
    check_hlo(dynamic_update("f32[9,20,200]", "f32[1,20,200]", 3), check);
    check_hlo(dynamic_update("f32[5,6,40,130]", "f32[2,3,40,130]", 4), check);
    check_hlo(dynamic_update("f32[30,200]", "f32[3,200]", 2), check);
    check_hlo(dynamic_update("f32[2,30,200]", "f32[2,1,200]", 3), check);
    check_hlo(dynamic_update("f32[100]", "f32[7]", 1), check);
  }
}

/// The rows of a queue, and a row for each head of a cache: places outside are clamped.
TEST(IndexedAccess, UpdatesOfRowsAreScattered) {
  const std::string queue = dynamic_update("f32[5000,130]", "f32[64,130]", 2);
  const std::string cache = dynamic_update("s32[2,3,700,70]", "s32[2,3,5,70]", 4);
  for (const std::string& text : {queue, cache}) {
    EXPECT_EQ(accesses_left(text), 1U);
    for (double start : {-3.0, 37.0, 4990.0}) check_hlo(text, indices(start, start));
  }
  // A select of a small array takes less than its way through VMEM and the checks of each row.
  EXPECT_EQ(accesses_left(dynamic_update("f32[64,128]", "f32[1,128]", 2)), 0U);
}

/// What more rows take, of tables that stand in VMEM and that do not, by their lane tiles.
TEST(IndexedAccess, RowsTakeAsLongAsTheirKernelsEstimate) {
  const compiler::Target target;
  constexpr std::int64_t kFew = 2048, kMany = 6144;  // Whole chunks of indices.
  for (const auto& [rows, width] : {std::pair<std::int64_t, std::int64_t>{500, 128},
                                    {3000, 300},
                                    {90000, 128},
                                    {20000, 1000}}) {
    const std::int64_t tiles = ceil_divide(width, std::int64_t{128});
    const auto cycles = [last = static_cast<double>(rows) - 1](const std::string& text) {
      return static_cast<double>(check_hlo(text, indices(0, last)).result.cycles);
    };
    const auto gathered = [&](std::int64_t count) {
      const std::string picks = std::to_string(count), columns = std::to_string(width);
      return cycles(gather("f32[" + std::to_string(rows) + "," + columns + "]",
                           "s32[" + picks + "]", "f32[" + picks + "," + columns + "]",
                           "offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
                           "index_vector_dim=1, slice_sizes={1," +
                               columns + "}"));
    };
    const auto scattered = [&](std::int64_t count) {
      const std::string picks = std::to_string(count);
      std::string text =
          row_scatter("f32", "add(a, b)", std::to_string(rows), std::to_string(width), picks);
      const std::string column = "s32[" + picks + ",1]";  // Of which a vector is made first.
      text.replace(text.find(column), column.size(), "s32[" + picks + "]");
      return cycles(text);
    };
    EXPECT_NEAR((gathered(kMany) - gathered(kFew)) /
                    (compiler::gathered_rows_cycles(rows, tiles, kMany, target) -
                     compiler::gathered_rows_cycles(rows, tiles, kFew, target)),
                1, 0.25)
        << rows;
    EXPECT_NEAR((scattered(kMany) - scattered(kFew)) /
                    (compiler::scattered_rows_cycles(rows, tiles, kMany, target) -
                     compiler::scattered_rows_cycles(rows, tiles, kFew, target)),
                1, 0.25)
        << rows;
  }
}

}  // namespace
}  // namespace tpu::test::indexed_access_test
