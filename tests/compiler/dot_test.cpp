#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/compiler/dot_check.h"
#include "tests/compiler/hlo_check.h"

namespace tpu::test::dot_test {
namespace {

using compiler::Target;
using hlo::ElementType;
using hlo::Shape;
using Extents = DotCase::Extents;

/// Arrays of other sizes than any core has.
Target large_arrays(std::uint32_t count, std::uint32_t rows, std::uint32_t columns) {
  Target target;
  target.mxu_count = count;
  target.mxu_rows = rows;
  target.mxu_columns = columns;
  target.matmul_latency_cycles = 7 + rows / 2 + columns / 4 + 2;
  return target;
}
const Target kLargeTargets[] = {large_arrays(1, 256, 256), large_arrays(2, 128, 256),
                                large_arrays(2, 256, 128), large_arrays(4, 256, 256),
                                large_arrays(1, 384, 512)};

TEST(Dot, WholeTiles) { check_dot({"whole", {64, 128}, {128, 256}, kPlain}); }
TEST(Dot, OddExtents) { check_dot({"odd", {37, 203}, {203, 141}, kPlain}); }
TEST(Dot, OneRow) { check_dot({"row", {1, 130}, {130, 10}, kPlain}); }
TEST(Dot, SeveralTilesOfEachDimension) { check_dot({"several", {300, 300}, {300, 300}, kPlain}); }
TEST(Dot, PackedOperandsAndResult) {
  check_dot({"packed",
             {45, 261},
             {261, 150},
             kPlain,
             ElementType::kBf16,
             ElementType::kBf16,
             ElementType::kBf16});
}
TEST(Dot, PackedOperandsWithAnF32Result) {
  check_dot({"mixed",
             {45, 133},
             {133, 300},
             kPlain,
             ElementType::kBf16,
             ElementType::kBf16,
             ElementType::kF32});
}
TEST(Dot, OnePackedOperand) {
  check_dot({"left",
             {33, 77},
             {77, 129},
             kPlain,
             ElementType::kBf16,
             ElementType::kF32,
             ElementType::kF32});
  check_dot({"right",
             {33, 77},
             {77, 129},
             kPlain,
             ElementType::kF32,
             ElementType::kBf16,
             ElementType::kBf16});
}
TEST(Dot, RightSideTransposed) {
  check_dot({"nt", {35, 70}, {131, 70}, kRightTransposed});
  check_dot({"nt16",
             {35, 270},
             {131, 270},
             kRightTransposed,
             ElementType::kBf16,
             ElementType::kBf16,
             ElementType::kBf16});
}
TEST(Dot, LeftSideTransposed) {
  check_dot({"tn", {70, 35}, {70, 131}, kLeftTransposed});
  check_dot({"tn16",
             {141, 135},
             {141, 131},
             kLeftTransposed,
             ElementType::kBf16,
             ElementType::kBf16,
             ElementType::kF32});
}
TEST(Dot, LeftSideTransposedAndWider) {
  check_dot({"turned", {70, 300}, {70, 40}, kLeftTransposed});
  check_dot({"turned16",
             {150, 270},
             {150, 131},
             kLeftTransposed,
             ElementType::kBf16,
             ElementType::kBf16,
             ElementType::kBf16});
  check_dot({"turned_batch", {5, 24, 140}, {5, 24, 20}, {{0}, {0}, {1}, {1}}});
}
TEST(Dot, BothSidesTransposed) {
  check_dot({"tt", {70, 35}, {131, 70}, {{}, {}, {0}, {1}}});
  check_dot({"tt16",
             {70, 135},
             {31, 70},
             {{}, {}, {0}, {1}},
             ElementType::kBf16,
             ElementType::kF32,
             ElementType::kBf16});
}
TEST(Dot, BatchDimensions) {
  check_dot({"batch", {6, 33, 40}, {6, 40, 20}, {{0}, {0}, {2}, {1}}});
  check_dot({"scores",
             {6, 33, 40},
             {6, 21, 40},
             {{0}, {0}, {2}, {2}},
             ElementType::kBf16,
             ElementType::kBf16,
             ElementType::kF32});
  check_dot({"two", {2, 3, 24, 40}, {2, 3, 40, 20}, {{0, 1}, {0, 1}, {3}, {2}}});
  check_dot({"values",
             {4, 24, 40},
             {4, 24, 20},
             {{0}, {0}, {1}, {1}},
             ElementType::kBf16,
             ElementType::kBf16,
             ElementType::kBf16});
}
TEST(Dot, FreeDimensionsAboveTheRows) {
  check_dot({"free", {5, 13, 40}, {40, 20}, {{}, {}, {2}, {0}}});
}

TEST(Dot, EveryCutOfAProductIsRight) {
  const CutDot dot({"cuts", {150, 300}, {300, 260}, kPlain});
  compiler::DotTiling tiling;
  for (const std::uint32_t columns : {2U, 1U}) {
    for (const std::uint32_t block_k : {1U, 3U}) {
      for (const std::uint32_t block_m : {4U, 12U, 20U}) {
        for (const bool outermost : {false, true}) {
          SCOPED_TRACE(testing::Message() << "block_k " << block_k << ", block_m " << block_m);
          tiling.block_m = block_m;
          tiling.block_n = 2;
          tiling.block_k = block_k;
          tiling.chunk_m = 4;
          tiling.columns_at_once = columns;
          tiling.columns_outermost = outermost;
          dot.check(tiling, Target{});
        }
      }
    }
  }
  for (const std::uint32_t columns : {4U, 2U, 1U}) {
    for (const std::uint32_t parts : {3U, 1U}) {
      SCOPED_TRACE(testing::Message() << columns << " columns, " << parts << " parts of k");
      tiling.block_m = 20;
      tiling.block_n = 4;
      tiling.block_k = 3;
      tiling.columns_at_once = columns;
      tiling.k_parts = parts;
      dot.check(tiling, large_arrays(2, 384, 256));
    }
  }
}

/// Lots of a step: neighbouring columns, or tiles along k, all of which the arrays have or not.
TEST(Dot, StepsOfSeveralColumnsOrTilesAlongK) {
  using compiler::LotsOf;
  struct Lots {
    LotsOf of;
    std::uint32_t lots, block_n, columns, block_k;
  };
  const Lots cuts[] = {{LotsOf::kColumns, 3, 6, 2, 8},    {LotsOf::kColumns, 4, 8, 1, 4},
                       {LotsOf::kColumns, 2, 4, 2, 5},    {LotsOf::kContracted, 4, 6, 2, 8},
                       {LotsOf::kContracted, 5, 6, 1, 5}, {LotsOf::kContracted, 8, 2, 2, 16}};
  for (const ElementType type : {ElementType::kF32, ElementType::kBf16}) {
    for (const bool left : {false, true}) {
      for (const bool right : {false, true}) {
        const hlo::DotDimensions dims{{}, {}, {left ? 0 : 1}, {right ? 1 : 0}};
        const Extents lhs = left ? Extents{900, 20} : Extents{20, 900};
        const Extents rhs = right ? Extents{700, 900} : Extents{900, 700};
        const CutDot dot({"lots", lhs, rhs, dims, type, type, ElementType::kF32});
        for (const Lots& cut : cuts) {
          compiler::DotTiling tiling;
          tiling.block_m = left ? 16 : 4;
          tiling.chunk_m = left ? 16 : 4;
          tiling.block_n = cut.block_n;
          tiling.columns_at_once = cut.columns;
          tiling.block_k = cut.block_k;
          tiling.lots_of = cut.of;
          tiling.lots = cut.lots;
          SCOPED_TRACE(testing::Message() << "left " << left << ", right " << right << ", "
                                          << cut.lots << " lots, blocks of " << cut.block_k);
          dot.check(tiling, Target{});
        }
      }
    }
  }
}

/// The last block along k of matrices that stand in one block has tiles beyond them.
TEST(Dot, MatricesWithTilesBeyondTheirEnds) {
  const CutDot dot({"matrices", {3, 20, 300}, {3, 300, 40}, {{0}, {0}, {2}, {1}}});
  for (const std::uint32_t lots : {1U, 2U}) {
    compiler::DotTiling tiling;
    tiling.block_outer = 3;
    tiling.block_m = tiling.chunk_m = 4;
    tiling.block_n = 2;
    tiling.columns_at_once = 2;
    tiling.block_k = 4;
    tiling.lots_of = compiler::LotsOf::kContracted;
    tiling.lots = lots;
    dot.check(tiling, Target{});
  }
}

/// Products of eight features of many points take what the memory takes to move them, whichever
/// side is long: a tile of weights for eight rows is loaded beside others, whose results have their
/// latency together. 30,000 points are 235 tiles of 4 KiB, 40,000 are 313, no multiple of anything.
TEST(Dot, FewFeaturesOfManyPointsAreBoundByTheMemory) {
  const auto cycles = [](const std::string& array, const std::string& dot) {
    HloCheck check;
    check.tolerance = 1e-5;
    return double(
        check_hlo("HloModule m\nENTRY main {\n  x = " + array + " parameter(0)\n" + dot + "}\n",
                  check)
            .result.cycles);
  };
  const Target target;
  const double tile = 4096 / target.hbm_bytes_per_cycle;
  const double mapped = cycles("f32[30000,8]{0,1}", R"(  m = f32[8,8] parameter(1)
  ROOT d = f32[30000,8]{0,1} dot(x, m), lhs_contracting_dims={1}, rhs_contracting_dims={0}
)");
  EXPECT_GT(mapped, 0.9 * 2 * 235 * tile);
  EXPECT_LT(mapped, 1.3 * 2 * 235 * tile);
  const double products = cycles("f32[40000,8]{0,1}", R"(  y = f32[40000,8]{0,1} parameter(1)
  ROOT d = f32[8,8] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}
)");
  EXPECT_GT(products, 0.9 * 2 * 313 * tile);
  EXPECT_LT(products, 1.5 * 2 * 313 * tile);
  // Of two features a quarter of each tile is moved: the matrix units are the bound.
  const double pairs = cycles("f32[120000,2]{0,1}", R"(  m = f32[2,2] parameter(1)
  ROOT d = f32[120000,2]{0,1} dot(x, m), lhs_contracting_dims={1}, rhs_contracting_dims={0}
)");
  EXPECT_GT(pairs, 0.9 * 2 * 938 * tile / 4);
  EXPECT_LT(pairs, 0.6 * 2 * 938 * tile);
}

/// Rows in several blocks of 128, turned one or two at a time, and in part of one, the whole of k
/// or parts of it in a block, with padding along k; columns in one pass, whose steps all turn, or
/// several.
TEST(Dot, RowsThatLieTransposedAreTurnedBesideTheStepsBefore) {
  int cuts = 0;
  for (const ElementType type : {ElementType::kF32, ElementType::kBf16}) {
    for (const std::int64_t rows : {300, 100}) {
      const CutDot dot(
          {"turned", {570, rows}, {570, 500}, kLeftTransposed, type, type, ElementType::kF32});
      for (const std::uint32_t block_m : {64U, 48U, 16U}) {
        for (const std::uint32_t chunk : {32U, 16U}) {
          for (const std::uint32_t block_k : {5U, 1U}) {
            for (const std::uint32_t block_n : {4U, 2U}) {
              compiler::DotTiling tiling;
              tiling.block_m = rows == 100 ? 16 : block_m;
              tiling.block_n = block_n;
              tiling.block_k = block_k;
              tiling.chunk_m = chunk;
              tiling.columns_at_once = 2;
              tiling.turns_beside = true;
              const bool divides = tiling.block_m % chunk == 0;
              const Target target;
              if (!divides ||
                  !compiler::DotSizes(dot.problem(), tiling, target).may_turn_beside()) {
                continue;
              }
              SCOPED_TRACE(testing::Message() << "rows " << rows << ", blocks of " << tiling.block_m
                                              << ", " << block_k << ", chunks of " << chunk);
              dot.check(tiling, target);
              ++cuts;
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(cuts, 26);
}

/// 128 rows in a block of 24 tiles: of the 16 tiles of the second block that is turned, half have
/// no place among the block's rows.
TEST(Dot, RowsThatAreTurnedMayBeMoreThanABlockHas) {
  for (const std::int64_t k : {64, 200}) {
    const CutDot dot({"turned", {k, 128}, {k, 16}, kLeftTransposed});
    compiler::DotTiling tiling;
    tiling.block_m = tiling.chunk_m = 24;
    tiling.block_k = k == 64 ? 1 : 2;
    tiling.turns_beside = k != 64;
    dot.check(tiling, Target{});
  }
}

/// The gradient of a table of 8,000 words, of tokens in the lanes, with an Adam update behind it:
/// fewer blocks are turned where the features' rows stream, but each tile of weights meets few.
TEST(Dot, TheSidesAreExchangedWhereTheSearchExpectsLessTime) {
  compiler::DotProblem problem;
  problem.m = 384;
  problem.n = 8000;
  problem.k = 120;  // No whole tile of lanes, so examples stay apart.
  problem.lhs_transposed = problem.rhs_transposed = true;
  problem.outer_k = {{16, 96, 2000, 0}};
  problem.lhs_type = problem.rhs_type = ElementType::kBf16;
  problem.epilogue_types = problem.result_types = std::vector<ElementType>(3, ElementType::kF32);
  problem.has_epilogue = true;
  compiler::DotProblem by_blocks = problem;
  compiler::exchange_where_cheaper(by_blocks);
  EXPECT_FALSE(by_blocks.sides_exchanged);
  const double straight = compiler::find_dot_tiling(problem, Target{}).value().cycles;
  const double exchanged =
      compiler::find_dot_tiling(*compiler::with_sides_exchanged(problem), Target{}).value().cycles;
  EXPECT_LT(exchanged, straight);
  EXPECT_EQ(compiler::choose_sides(problem, Target{}).value().cycles, exchanged);
  EXPECT_TRUE(problem.sides_exchanged);
}

TEST(Dot, BlocksOfTheSideWithoutOuterDimensionsStayWhileMatricesGoBy) {
  const CutDot shared_columns({"columns", {3, 50, 300}, {300, 260}, {{}, {}, {2}, {0}}}, true);
  const CutDot shared_rows({"rows",
                            {300, 150},
                            {300, 3, 260},
                            {{}, {}, {0}, {0}},
                            ElementType::kF32,
                            ElementType::kF32,
                            ElementType::kF32,
                            {},
                            {2, 0, 1},
                            {2, 0, 1}});
  ASSERT_EQ(shared_columns.problem().outer.size(), 1U);
  ASSERT_EQ(shared_rows.problem().outer.size(), 1U);
  compiler::DotTiling tiling;
  tiling.outer_inside = true;
  for (const std::uint32_t block_k : {1U, 3U}) {
    SCOPED_TRACE(testing::Message() << "block_k " << block_k);
    tiling.block_k = block_k;
    tiling.block_n = 1;
    tiling.block_m = tiling.chunk_m = 4;
    tiling.columns_outermost = true;
    shared_columns.check(tiling, Target{});
    tiling.block_m = tiling.chunk_m = 16;
    tiling.columns_outermost = false;
    shared_rows.check(tiling, Target{});
  }
}
TEST(Dot, LargerArrays) {
  for (const Target& target : kLargeTargets) {
    SCOPED_TRACE(std::to_string(target.mxu_count) + " of " + std::to_string(target.mxu_rows) + "x" +
                 std::to_string(target.mxu_columns));
    check_dot({"odd", {37, 203}, {203, 141}, kPlain}, target);
    check_dot({"several", {96, 260}, {260, 520}, kPlain}, target);
    check_dot({"transposed", {60, 333}, {150, 333}, kRightTransposed}, target);
    check_dot({"packed",
               {261, 45},
               {261, 150},
               kLeftTransposed,
               ElementType::kBf16,
               ElementType::kBf16,
               ElementType::kBf16},
              target);
    check_dot({"batches", {3, 20, 256}, {3, 256, 300}, {{0}, {0}, {2}, {1}}}, target);
  }
}

const compiler::OperandParts kSeveralParts[] = {{3, 3}, {2, 2}, {3, 1}, {1, 2}, {2, 3}};

/// A lot for each pair of parts: of sides that lie and are turned in any way, of several tiles of
/// each dimension, and of matrices side by side.
TEST(Dot, InPartsOfItsSides) {
  const hlo::DotDimensions both{{}, {}, {0}, {1}};
  for (const compiler::OperandParts& parts : kSeveralParts) {
    SCOPED_TRACE(testing::Message() << parts[0] << " and " << parts[1] << " parts");
    std::vector<DotCase> cases{{"odd", {37, 203}, {203, 141}, kPlain},
                               {"row", {1, 130}, {130, 10}, kPlain},
                               {"few", {20, 5}, {5, 30}, kPlain},
                               {"several", {300, 300}, {300, 300}, kPlain},
                               {"nt", {35, 270}, {131, 270}, kRightTransposed},
                               {"tn", {141, 256}, {141, 131}, kLeftTransposed},
                               {"tt", {70, 35}, {131, 70}, both},
                               {"matrices", {6, 33, 40}, {6, 40, 20}, {{0}, {0}, {2}, {1}}},
                               {"sums", {3, 24, 30}, {3, 24, 40}, {{}, {}, {0, 1}, {0, 1}}}};
    cases.push_back({"turned", {24, 140}, {140, 40}, kPlain});
    cases.back().out_layout = {0, 1};
    for (DotCase& test : cases) {
      test.parts = parts;
      check_dot(test);
    }
    for (const Target& target : kLargeTargets) check_dot(cases[3], target);
  }
}

/// A side of bf16 is one part, whatever is said of it.
TEST(Dot, OneSideInPartsBesideAPackedOne) {
  DotCase test{"packed", {37, 203}, {203, 141}, kPlain, ElementType::kF32, ElementType::kBf16};
  test.parts = {3, 1};
  check_dot(test);
  hlo::Module module = dot_module(test);
  hlo::HloInstruction& dot = module.computations[0].at(2);
  dot.raw_attributes = compiler::precision_of_parts({3, 3});
  const hlo::Computation& entry = module.computations[0];
  const auto problem = compiler::dot_problem(dot, entry.at(0).shape, entry.at(1).shape, dot.shape);
  EXPECT_EQ(problem.parts, (compiler::OperandParts{3, 1}));
}

/// What shares the time of a step is shared out over all of its lots: tiles of columns that are
/// complete, and rows that are turned, whose parts are not those of bf16.
TEST(Dot, StepsInPartsHaveOtherWorkBeside) {
  DotCase test{"turned", {570, 500}, {570, 500}, kLeftTransposed};
  test.parts = {3, 3};
  const CutDot turned(test);
  for (const std::uint32_t block_m : {64U, 48U}) {
    compiler::DotTiling tiling;
    tiling.block_m = block_m;
    tiling.chunk_m = block_m == 64 ? 32 : 16;
    tiling.block_n = 4;
    tiling.block_k = 5;
    tiling.columns_at_once = 2;
    tiling.turns_beside = true;
    ASSERT_TRUE(compiler::DotSizes(turned.problem(), tiling, Target{}).may_turn_beside());
    turned.check(tiling, Target{});
  }
  test = {"rounded", {256, 300}, {300, 512}, kPlain};
  test.out_type = ElementType::kBf16;
  test.parts = {3, 3};
  const CutDot rounded(test);
  for (const std::uint32_t block_m : {32U, 8U}) {
    compiler::DotTiling tiling;
    tiling.block_m = block_m;
    tiling.chunk_m = 8;
    tiling.block_n = 4;
    tiling.block_k = 3;
    tiling.columns_at_once = 2;
    tiling.finished_tiles = compiler::tiles_to_finish(rounded.problem(), tiling);
    ASSERT_GT(tiling.finished_tiles, 0U);
    rounded.check(tiling, Target{});
  }
}

/// Each array takes another matrix of the block, of which both sides have one, or one side has one
/// for all; steps of one lot and of several.
TEST(Dot, ArraysTakeDifferentMatrices) {
  const DotCase cases[] = {{"both", {8, 40, 300}, {8, 300, 40}, {{0}, {0}, {2}, {1}}},
                           {"nt", {8, 40, 100}, {8, 70, 100}, {{0}, {0}, {2}, {2}}},
                           {"tn", {8, 100, 40}, {8, 100, 70}, {{0}, {0}, {1}, {1}}},
                           {"left", {8, 40, 100}, {100, 70}, {{}, {}, {2}, {0}}},
                           {"right", {40, 100}, {8, 100, 70}, {{}, {}, {1}, {1}}}};
  for (DotCase test : cases) {
    if (test.name == "right") test.out_layout = {2, 0, 1};
    for (const compiler::OperandParts& parts : {compiler::OperandParts{1, 1}, {3, 3}}) {
      test.parts = parts;
      const CutDot dot(test, true);
      for (const Target& target :
           {Target{}, large_arrays(2, 384, 256), large_arrays(4, 128, 128)}) {
        for (const std::uint32_t lots : {1U, 2U}) {
          if (lots > 1 && dot.problem().is_in_parts()) continue;
          SCOPED_TRACE(testing::Message() << test.name << ", " << parts[0] << " parts, " << lots
                                          << " lots, arrays of " << target.mxu_rows);
          compiler::DotTiling tiling;
          tiling.block_outer = 8;
          tiling.block_m = test.name == "tn" ? 16 : 5;
          tiling.chunk_m = tiling.block_m;
          tiling.block_k = test.name == "both" ? 3 : 1;
          tiling.arrays_take_matrices = true;
          tiling.lots = lots;
          dot.check(tiling, target);
        }
      }
    }
  }
}

/// 64 products of 32 rows by 128: sixteen pushes of weights for four of rows, which each array has
/// for half of the matrices. At six passes they are the bound.
TEST(Dot, SmallMatricesAreSharedOutOverTheArrays) {
  DotCase test{"small", {64, 32, 128}, {64, 128, 128}, {{0}, {0}, {2}, {1}}};
  test.parts = {3, 3};
  const compiler::DotProblem problem = CutDot(test).problem();
  const double passes = 64 * 6 * 16 * 8;
  const compiler::DotTiling two = compiler::find_dot_tiling(problem, Target{}).value();
  EXPECT_TRUE(two.arrays_take_matrices);
  EXPECT_GE(two.cycles, passes / 2);
  EXPECT_LE(two.cycles, 1.25 * passes / 2);
  const compiler::DotTiling one = compiler::find_dot_tiling(problem, v2_target()).value();
  EXPECT_FALSE(one.arrays_take_matrices);
  EXPECT_GE(one.cycles, passes);
  check_dot(test);
}

TEST(Dot, ContractedDimensionsAboveTheMatrices) {
  check_dot({"gradient", {3, 20, 30}, {3, 20, 40}, {{}, {}, {0, 1}, {0, 1}}});
  check_dot({"one", {3, 24, 30}, {3, 24, 40}, {{}, {}, {0, 1}, {0, 1}}});
  check_dot({"along_lanes",
             {3, 20, 150},
             {3, 150, 40},
             {{}, {}, {0, 2}, {0, 1}},
             ElementType::kBf16,
             ElementType::kBf16,
             ElementType::kBf16});
  check_dot({"batch",
             {2, 3, 16, 130},
             {3, 140, 2, 16},
             {{0}, {2}, {1, 2}, {0, 3}},
             ElementType::kF32,
             ElementType::kF32,
             ElementType::kF32,
             {3, 2, 1, 0},
             {1, 3, 2, 0},
             {}});
}
TEST(Dot, BatchDimensionsBetweenTheOthers) {
  // Queries and keys of attention as [batch, token, head, feature], tokens in lanes.
  const Extents tokens_minor{1, 3, 2, 0};
  check_dot({"scores",
             {2, 140, 3, 16},
             {2, 24, 3, 16},
             {{0, 2}, {0, 2}, {3}, {3}},
             ElementType::kF32,
             ElementType::kF32,
             ElementType::kF32,
             tokens_minor,
             tokens_minor,
             {}});
  check_dot({"context",
             {2, 130, 3, 16},
             {2, 3, 24, 130},
             {{0, 2}, {0, 1}, {1}, {3}},
             ElementType::kBf16,
             ElementType::kF32,
             ElementType::kBf16,
             tokens_minor,
             {},
             {}});
}
TEST(Dot, FreeDimensionsAboveTheColumns) {
  check_dot({"heads",
             {40, 24},
             {24, 3, 20},
             {{}, {}, {1}, {0}},
             ElementType::kF32,
             ElementType::kF32,
             ElementType::kF32,
             {},
             {2, 0, 1},
             {2, 0, 1}});
}
TEST(Dot, TheResultMayLieTransposed) {
  check_dot({"turned",
             {24, 140},
             {140, 40},
             kPlain,
             ElementType::kF32,
             ElementType::kF32,
             ElementType::kF32,
             {},
             {},
             {0, 1}});
  check_dot({"all",
             {4, 24, 140},
             {140, 40},
             {{}, {}, {2}, {0}},
             ElementType::kF32,
             ElementType::kF32,
             ElementType::kBf16,
             {1, 2, 0},
             {0, 1},
             {1, 2, 0}});
}

TEST(Dot, TheSidesAreExchangedWhereThatLeavesLessToTranspose) {
  compiler::DotProblem problem;
  problem.m = 128;
  problem.n = 512;
  problem.k = 256;
  problem.rhs_transposed = true;
  problem.result_turned = true;  // 1 x 4 blocks of the result
  EXPECT_EQ(compiler::blocks_to_transpose(problem), 4U);
  compiler::exchange_where_cheaper(problem);
  EXPECT_TRUE(problem.sides_exchanged);
  EXPECT_FALSE(problem.lhs_transposed);  // [n, k] is what the MXU takes
  EXPECT_TRUE(problem.rhs_transposed);
  EXPECT_FALSE(problem.result_turned);
  EXPECT_EQ(problem.m, 512U);
  EXPECT_EQ(compiler::blocks_to_transpose(problem), 0U);
}

TEST(Dot, WhatIsNoMatrixProductIsRefusedByNameAndShape) {
  const DotCase test{"strange", {4, 5, 6}, {7, 5, 6}, {{}, {}, {1, 2}, {1, 2}}};
  hlo::Module module = dot_module(test);
  try {
    compiler::lower_dot(module, module.computations[0], module.computations[0].at(2), Target{});
    FAIL();
  } catch (const WorkloadError& error) {
    EXPECT_NE(std::string(error.what()).find("strange"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("f32[4,5,6]"), std::string::npos);
  }
}

}  // namespace
}  // namespace tpu::test::dot_test
