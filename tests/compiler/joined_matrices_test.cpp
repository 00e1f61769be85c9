#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/compiler/dot_check.h"

namespace tpu::test::joined_matrices_test {
namespace {

using compiler::Target;
using hlo::ElementType;
using Extents = DotCase::Extents;

DotCase rows_in_lanes(std::int64_t rows, ElementType type) {
  return {"lanes", {6, rows, 200}, {200, 140},        {{}, {}, {2}, {0}},
          type,    type,           ElementType::kF32, {1, 2, 0}};
}

/// Two tiles of lanes, a whole one and parts, with padding rows and without; one matrix in a block
/// or several, whole k or parts of it; turned before the steps or beside them.
TEST(Dot, RowsInTheLanesOfSeveralMatricesAreThoseOfOneProduct) {
  int cuts = 0;
  for (const ElementType type : {ElementType::kF32, ElementType::kBf16}) {
    for (const std::int64_t rows : {256, 128, 64, 29}) {
      CutDot dot(rows_in_lanes(rows, type));
      dot.take_lanes();
      const auto tiles = static_cast<std::uint32_t>((rows + 7) / 8);
      EXPECT_EQ(dot.problem().lane_row_tiles, std::min(tiles, 16U));
      EXPECT_EQ(dot.problem().m, 8 * tiles * 6);
      EXPECT_TRUE(dot.problem().outer.empty());
      for (const std::uint32_t matrices : {1U, 2U, 3U, 6U}) {
        for (const std::uint32_t block_k : {1U, 2U}) {
          for (const bool beside : {false, true}) {
            compiler::DotTiling tiling;
            tiling.block_m = matrices * tiles;
            tiling.chunk_m = matrices % 2 == 0 && rows < 256 ? 2 * tiles : tiles;
            tiling.block_n = 2;
            tiling.block_k = block_k;
            tiling.turns_beside = beside;
            const Target target;
            const compiler::DotSizes sizes(dot.problem(), tiling, target);
            EXPECT_EQ(sizes.left.matrices, matrices);
            if (beside && !sizes.may_turn_beside()) continue;
            SCOPED_TRACE(testing::Message()
                         << rows << " rows, " << matrices << " matrices, " << block_k << " of k");
            dot.check(tiling, target);
            ++cuts;
          }
        }
      }
    }
  }
  EXPECT_EQ(cuts, 114);
}

TEST(Dot, RowsInLanesStayApartWhereSomethingCountsThemOrTheyAreNoNeighbours) {
  CutDot counted(rows_in_lanes(128, ElementType::kF32), true);
  counted.take_lanes();
  EXPECT_EQ(counted.problem().m, 128U);
  CutDot odd(rows_in_lanes(140, ElementType::kF32));  // The second tile of lanes has 12 of them.
  odd.take_lanes();
  EXPECT_EQ(odd.problem().m, 140U);
  compiler::DotProblem apart = CutDot(rows_in_lanes(128, ElementType::kF32)).problem();
  apart.outer[0].out += 4;  // A tile of something else lies between the results of two.
  compiler::take_rows_in_lanes(apart);
  EXPECT_EQ(apart.m, 128U);
}

/// Seven matrices of which some fit VMEM together: blocks of two to six would reach beyond the
/// last.
TEST(Dot, BlocksOfLanesAreAsManyMatricesAsDivideAll) {
  DotCase seven = rows_in_lanes(128, ElementType::kF32);
  seven.lhs[0] = 7;
  int joined = 0;
  for (const std::uint64_t kib : {1500, 2000, 2500, 3000, 3500, 4000}) {
    Target small;
    small.vmem_bytes = kib << 10;
    compiler::DotProblem problem = CutDot(seven).problem();
    const compiler::DotTiling tiling = compiler::choose_sides(problem, small).value();
    if (problem.lhs_lanes.distance != 0) {
      ++joined;
      EXPECT_TRUE(tiling.block_m == 16 || tiling.block_m == 7 * 16) << tiling.block_m;
    }
    check_dot(seven, small);
  }
  EXPECT_GT(joined, 0);
}

/// In the lanes of the left side, of the right one, of both; one tile of each matrix or two; one
/// matrix in a block or several.
TEST(Dot, WhatIsContractedInTheLanesOfSeveralMatricesIsOneSum) {
  int cuts = 0;
  for (const std::int64_t k : {128, 256}) {
    for (const bool left : {false, true}) {
      for (const bool right : {false, true}) {
        if (!left && !right) continue;
        const hlo::DotDimensions dims{{}, {}, {0, left ? 2 : 1}, {0, right ? 2 : 1}};
        CutDot dot({"lanes", left ? Extents{4, 40, k} : Extents{4, k, 40},
                    right ? Extents{4, 150, k} : Extents{4, k, 150}, dims, ElementType::kBf16,
                    ElementType::kF32});
        dot.take_lanes();
        EXPECT_EQ(dot.problem().k, 4 * k);
        EXPECT_TRUE(dot.problem().outer_k.empty());
        for (const std::uint32_t matrices : {1U, 2U, 4U}) {
          for (const std::uint32_t block_m : {6U, 2U}) {
            if (!left && block_m == 2) continue;
            compiler::DotTiling tiling;
            tiling.block_m = block_m;
            tiling.chunk_m = 2;
            tiling.block_n = 2;
            tiling.block_k = matrices * static_cast<std::uint32_t>(k) / 128;
            const compiler::DotSizes sizes(dot.problem(), tiling, Target{});
            EXPECT_EQ(sizes.left.matrices, left ? matrices : 1);
            EXPECT_EQ(sizes.right.matrices, right ? matrices : 1);
            SCOPED_TRACE(testing::Message() << "k " << k << ", left " << left << ", right " << right
                                            << ", " << matrices << " matrices");
            dot.check(tiling, Target{});
            ++cuts;
          }
        }
      }
    }
  }
  EXPECT_EQ(cuts, 30);
}

TEST(Dot, WhatIsContractedInLanesStaysApartWhereTilesAreNotFullOrRowsNoNeighbours) {
  CutDot odd({"odd", {4, 40, 100}, {4, 100, 150}, {{}, {}, {0, 2}, {0, 1}}});
  odd.take_lanes();
  EXPECT_EQ(odd.problem().k, 100U);
  compiler::DotProblem apart =
      CutDot({"apart", {4, 40, 128}, {4, 128, 150}, {{}, {}, {0, 2}, {0, 1}}}).problem();
  apart.outer_k[0].rhs += 4;
  compiler::take_k_in_lanes(apart);
  EXPECT_EQ(apart.k, 128U);
}

/// The same with 128 tokens of each of 16 examples: one sum of 2,048 where that takes less.
TEST(Dot, LanesOfSeveralMatricesAreJoinedWhereTheSearchExpectsLessTime) {
  compiler::DotProblem problem;
  problem.m = 8000;
  problem.n = 384;
  problem.k = 128;
  problem.outer_k = {{16, 2000, 96, 0}};
  problem.lhs_type = problem.rhs_type = ElementType::kBf16;
  compiler::DotProblem joined = problem;
  compiler::take_k_in_lanes(joined);
  EXPECT_EQ(joined.k, 2048U);
  const double of_all = compiler::find_dot_tiling(joined, Target{}).value().cycles;
  EXPECT_LT(of_all, compiler::find_dot_tiling(problem, Target{}).value().cycles);
  EXPECT_EQ(compiler::choose_sides(problem, Target{}).value().cycles, of_all);
  EXPECT_EQ(problem.k, 2048U);
}

TEST(Dot, MatricesWhoseRowsFollowEachOtherAreOne) {
  const DotCase test{"tokens", {3, 24, 40}, {40, 20}, {{}, {}, {2}, {0}}};
  const CutDot dot(test);
  EXPECT_TRUE(dot.problem().outer.empty());
  EXPECT_EQ(dot.problem().m, 3U * 24U);
  check_dot(test);
}
TEST(Dot, MatricesWithPaddingRowsAreOneToo) {
  const DotCase test{"padded", {3, 20, 40}, {40, 20}, {{}, {}, {2}, {0}}};
  const CutDot dot(test);
  EXPECT_TRUE(dot.problem().outer.empty());
  EXPECT_EQ(dot.problem().m, 3U * 24U);
  EXPECT_EQ(dot.problem().matrix_rows, 20U);
  check_dot(test);
}
/// Rows of matrices between which others stand, those of the other heads: contracted ones, and
/// those of operand and result.
DotCase contracted_apart(std::int64_t rows, std::int64_t m, std::int64_t n, ElementType type) {
  return {"contracted", {2, 16, rows, m},  {2, 16, 3, rows, n}, {{}, {}, {0, 1, 2}, {0, 1, 3}},
          type,         ElementType::kF32, ElementType::kF32,   {},
          {},           {2, 0, 1}};
}
DotCase result_apart(std::int64_t rows, std::int64_t k, std::int64_t n, ElementType type) {
  return {"result", {2, 16, rows, k},   {k, 3, n}, {{}, {}, {3}, {0}}, ElementType::kF32,
          type,     ElementType::kBf16, {},        {2, 0, 1},          {4, 2, 3, 1, 0}};
}
DotCase operand_apart(std::int64_t rows, std::int64_t k, std::int64_t n, ElementType type) {
  return {"operand", {16, 3, rows, k}, {3, k, n}, {{1}, {0}, {3}, {1}}, type, ElementType::kF32};
}

TEST(Dot, RowsThatStandApartAreGathered) {
  for (const ElementType type : {ElementType::kF32, ElementType::kBf16}) {
    for (const std::int64_t rows : {5, 8, 16, 64, 128}) {
      SCOPED_TRACE(testing::Message() << rows << " rows");
      const auto tiles = static_cast<std::uint32_t>((rows + 7) / 8);
      const CutDot gradient(contracted_apart(rows, 40, 24, type));
      EXPECT_EQ(gradient.problem().k, 2 * 16 * 8 * tiles);
      EXPECT_TRUE(gradient.problem().lhs_rows.is_one());
      EXPECT_EQ(gradient.problem().rhs_rows.tiles, tiles);
      EXPECT_EQ(gradient.problem().rhs_rows.distance, 3 * tiles * 4);
      EXPECT_TRUE(gradient.problem().outer_k.empty());
      const CutDot heads(result_apart(rows, 40, 24, type));
      EXPECT_EQ(heads.problem().m, 2 * 16 * 8 * tiles);
      EXPECT_TRUE(heads.problem().lhs_rows.is_one());
      EXPECT_EQ(heads.problem().out_rows.distance, 3 * tiles * 2);  // bf16.
      const CutDot batch(operand_apart(rows, 40, 24, type));
      EXPECT_EQ(batch.problem().m, 16 * 8 * tiles);
      EXPECT_FALSE(batch.problem().lhs_rows.is_one());
      EXPECT_TRUE(batch.problem().out_rows.is_one());
      for (const Target& target : {Target{}, v2_target()}) {
        check_dot(contracted_apart(rows, 40, 24, type), target);
        check_dot(result_apart(rows, 40, 24, type), target);
        check_dot(operand_apart(rows, 40, 24, type), target);
      }
    }
  }
}

/// Blocks of some of the matrices, of several lanes and sides that are exchanged.
TEST(Dot, BlocksOfRowsThatStandApartHaveWholeMatrices) {
  int cut = 0;
  for (const std::uint64_t kib : {1600, 2000, 2600, 3500}) {
    SCOPED_TRACE(kib);
    Target small;
    small.vmem_bytes = kib << 10;
    for (const DotCase& test : {contracted_apart(16, 140, 300, ElementType::kF32),
                                result_apart(16, 140, 300, ElementType::kBf16),
                                operand_apart(32, 140, 300, ElementType::kF32),
                                result_apart(64, 200, 130, ElementType::kF32)}) {
      compiler::DotProblem problem = CutDot(test).problem();
      const compiler::DotTiling tiling = compiler::choose_sides(problem, small).value();
      const compiler::DotSizes sizes(problem, tiling, small);
      cut += sizes.plan.tiles() > 3;  // Heads.
      check_dot(test, small);
    }
  }
  EXPECT_GT(cut, 10);
  for (const std::int64_t rows : {32, 64, 128}) {
    const compiler::DotProblem read =
        CutDot(result_apart(rows, 200, 300, ElementType::kF32)).problem();
    for (std::uint64_t kib = 1500; kib < 5000; kib += 50) {
      Target small;
      small.vmem_bytes = kib << 10;
      compiler::DotProblem problem = read;
      const compiler::DotTiling tiling = compiler::choose_sides(problem, small).value();
      const std::uint32_t tiles = problem.result_turned ? 16 * tiling.block_n : tiling.block_m;
      EXPECT_EQ(tiles % problem.out_rows.tiles, 0U) << rows << ", " << kib;
      EXPECT_EQ((problem.result_turned ? problem.n : problem.m) / 8 % tiles, 0U)
          << rows << ", " << kib;
    }
  }
}

/// Padding between so many matrices is not found: they stay matrices, and none is gathered.
TEST(Dot, ManyMatricesWithPaddingThatStandApartStayMatrices) {
  DotCase gradient{"gradient", {256, 12, 16}, {256, 2, 12, 24}, {{}, {}, {0, 1}, {0, 2}}};
  gradient.out_layout = {2, 0, 1};
  DotCase heads{"heads", {256, 12, 16}, {16, 2, 24}, {{}, {}, {2}, {0}}};
  heads.rhs_layout = {2, 0, 1};
  heads.out_layout = {3, 1, 2, 0};
  for (const DotCase& test : {gradient, heads}) {
    const compiler::DotProblem problem = CutDot(test).problem();
    EXPECT_TRUE(problem.rhs_rows.is_one());
    EXPECT_TRUE(problem.out_rows.is_one());
    EXPECT_EQ(problem.outer.size() + problem.outer_k.size(), 2U);  // Heads, and the matrices.
    check_dot(test);
  }
}

/// Heads whose lanes could be the rows of one product, between the rows that are contracted: a
/// block gathers one or the other.
TEST(Dot, ContractedRowsOfTheLeftSideMayStandApart) {
  for (const ElementType type : {ElementType::kF32, ElementType::kBf16}) {
    for (const std::int64_t rows : {8, 16, 64}) {
      for (const std::int64_t lanes : {16, 40, 140}) {
        SCOPED_TRACE(testing::Message() << rows << " rows, " << lanes << " lanes");
        check_dot({"outputs",
                   {2, 16, 4, rows, lanes},
                   {2, 16, rows, 64},
                   {{}, {}, {0, 1, 3}, {0, 1, 2}},
                   type,
                   type});
        check_dot({"turned",
                   {2, 16, rows, 64},
                   {2, 16, 4, rows, lanes},
                   {{}, {}, {0, 1, 2}, {0, 1, 3}},
                   type,
                   type,
                   ElementType::kF32,
                   {},
                   {},
                   {0, 2, 1}});
      }
    }
  }
}

/// Any order of any operand's and the result's dimensions that a kernel takes: heads between rows,
/// rows between lanes.
TEST(Dot, ProductsOfHeadsInAnyOrderAreRight) {
  std::mt19937 random(20261128);
  const auto one_of = [&](const Extents& values) { return values[random() % values.size()]; };
  int apart = 0, in_lanes = 0;
  for (int i = 0; i < 600; ++i) {
    // [example, head, query, feature] with [head, feature, out], or with what has examples, too.
    const std::int64_t b = one_of({2, 8, 16}), h = one_of({1, 2, 3}), q = one_of({8, 16, 20, 64}),
                       f = one_of({16, 40}), n = one_of({24, 130});
    const ElementType type = random() % 2 == 0 ? ElementType::kF32 : ElementType::kBf16;
    DotCase test{"heads", {b, h, q, f}, {}, {}, type, ElementType::kF32, ElementType::kF32};
    switch (random() % 4) {
      case 0:  // Heads keep to themselves.
        test.rhs = {h, f, n};
        test.dims = {{1}, {0}, {3}, {1}};
        break;
      case 1:  // Heads and features are contracted.
        test.rhs = {h, f, n};
        test.dims = {{}, {}, {1, 3}, {0, 1}};
        break;
      case 2:  // Examples and queries are.
        test.rhs = {b, q, n};
        test.dims = {{}, {}, {0, 2}, {0, 1}};
        break;
      default:
        test.rhs = {b, h, q, n};
        test.dims = {{1}, {1}, {0, 2}, {0, 2}};
    }
    const auto shuffled = [&](std::size_t rank) {
      Extents order(rank);
      std::iota(order.begin(), order.end(), 0);
      std::reverse(order.begin(), order.end());
      // Mostly the last two are the minor ones.
      const std::ptrdiff_t fixed = random() % 4 == 0 ? 0 : 2;
      std::shuffle(order.begin() + fixed, order.end(), random);
      return order;
    };
    const hlo::Module module = dot_module(test);
    test.lhs_layout = shuffled(4);
    test.rhs_layout = shuffled(test.rhs.size());
    test.out_layout = shuffled(module.computations[0].at(2).shape.dimensions.size());
    const hlo::Module laid_out = dot_module(test);
    const hlo::Computation& computation = laid_out.computations[0];
    std::optional<compiler::DotProblem> problem =
        compiler::find_dot_problem(computation.at(2), computation.at(0).shape,
                                   computation.at(1).shape, computation.at(2).shape);
    std::int64_t bytes = 0;
    for (int array = 0; array < 3; ++array) bytes += computation.at(array).shape.padded_bytes();
    if (!problem || bytes > 12 << 20) continue;
    compiler::choose_sides(*problem, Target{}).value();
    apart +=
        !problem->lhs_rows.is_one() || !problem->rhs_rows.is_one() || !problem->out_rows.is_one();
    in_lanes += !problem->lhs_lanes.is_one() || !problem->rhs_lanes.is_one();
    SCOPED_TRACE(i);
    check_dot(test, Target{});
  }
  EXPECT_GT(apart, 10);
  EXPECT_GT(in_lanes, 3);
}

TEST(Dot, RowsThatFillNoWholeBlocksStayApart) {
  const auto is_one = [](const DotCase& test, bool keeps_matrices = false) {
    const compiler::DotProblem problem = CutDot(test, keeps_matrices).problem();
    return problem.lhs_rows.is_one() && problem.rhs_rows.is_one() && problem.out_rows.is_one();
  };
  EXPECT_FALSE(is_one(result_apart(32, 40, 24, ElementType::kF32)));
  EXPECT_TRUE(is_one(result_apart(24, 40, 24, ElementType::kF32)));  // Three tiles of sixteen.
  EXPECT_TRUE(is_one(result_apart(32, 40, 24, ElementType::kF32), true));
  DotCase few = operand_apart(8, 40, 24, ElementType::kF32);  // 120 rows.
  few.lhs[0] = 15;
  EXPECT_TRUE(is_one(few));
  check_dot(few);
  check_dot(result_apart(24, 40, 24, ElementType::kF32));
}

TEST(Dot, PaddingBetweenContractedMatricesAddsNothing) {
  // 40 matrices of 13 rows, two row tiles each, are five tiles of the contracted dimension.
  for (const ElementType type : {ElementType::kF32, ElementType::kBf16}) {
    const DotCase test{"contracted", {40, 13, 150}, {40, 13, 260}, {{}, {}, {0, 1}, {0, 1}},
                       type,         type};
    const CutDot dot(test);
    EXPECT_TRUE(dot.problem().outer_k.empty());
    EXPECT_EQ(dot.problem().k, 640U);
    EXPECT_EQ(dot.problem().matrix_k, 13U);
    compiler::DotTiling tiling;
    tiling.block_m = tiling.chunk_m = 16;
    tiling.block_n = 1;
    for (const std::uint32_t block_k : {1U, 5U}) {
      SCOPED_TRACE(testing::Message() << "block_k " << block_k);
      tiling.block_k = block_k;
      dot.check(tiling, Target{});
    }
    check_dot(test);
  }
}
TEST(Dot, RowsOfATurnedResultAreThoseOfTheRightSide) {
  const DotCase test{"turned rows",
                     {40, 20},
                     {3, 24, 40},
                     {{}, {}, {0}, {2}},
                     ElementType::kF32,
                     ElementType::kF32,
                     ElementType::kF32,
                     {},
                     {},
                     {0, 2, 1}};
  const CutDot dot(test);
  EXPECT_TRUE(dot.problem().outer.empty());
  check_dot(test);
}

}  // namespace
}  // namespace tpu::test::joined_matrices_test
