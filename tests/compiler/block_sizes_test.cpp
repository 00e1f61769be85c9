#include <gtest/gtest.h>

#include "workloads/compiler/kernels/contraction/convolution_lanes_tiling.h"
#include "workloads/compiler/kernels/contraction/convolution_patches.h"
#include "workloads/compiler/kernels/contraction/convolution_tiling.h"
#include "workloads/compiler/kernels/contraction/dot_tiling.h"

namespace tpu::test::block_sizes_test {
namespace {

using compiler::ConvolutionProblem;
using compiler::ConvolutionSizes;
using compiler::ConvolutionTiling;
using compiler::DotProblem;
using compiler::DotTiling;
using compiler::Target;
using hlo::ElementType;

/// Rows of VMEM that every kernel leaves for what the scheduler spills.
constexpr std::uint64_t kSpills = 2048;
/// An fp32 tile of 8 by 128 takes eight rows, a bf16 one four.
constexpr std::uint64_t kTile = 8, kPackedTile = 4;

/// Four matrices [64, 384] x [384, 256], each with its own right side.
DotProblem four_products() {
  DotProblem problem;
  problem.outer = {{4, 1, 1, 1}};
  problem.m = 64;
  problem.n = 256;
  problem.k = 384;
  return problem;
}

std::uint64_t rows_of(const DotProblem& problem, const DotTiling& tiling) {
  return compiler::DotSizes(problem, tiling, Target()).plan.vmem_rows();
}

/// Two of the four matrices in a block, each of them whole.
DotTiling two_matrices() {
  DotTiling tiling;
  tiling.block_outer = 2;
  tiling.block_m = 8;
  tiling.block_n = 2;
  tiling.block_k = 3;
  return tiling;
}

// Everything that the DMAs touch lies there twice: one buffer is filled while the other is read.
constexpr std::uint64_t kRight = 2 * (2 * 16 * 2 * 3) * kTile, kLeft = 2 * (2 * 8 * 3) * kTile;
constexpr std::uint64_t kResult = 2 * (2 * 8 * 2) * kTile;

TEST(DotBlocks, EachMatrixOfABlockHasItsRightSide) {
  DotProblem problem = four_products();
  EXPECT_EQ(rows_of(problem, two_matrices()), kLeft + kRight + kResult + kSpills);
  problem.outer = {{4, 1, 0, 1}};  // All have the same one: it comes once, and stays.
  EXPECT_EQ(rows_of(problem, two_matrices()), kLeft + kRight / 4 + kResult + kSpills);
}

TEST(DotBlocks, TurnedResultsLieInWholeBlocksOf128RowsAndOnceMoreBeforeTheyAreTurned) {
  DotProblem problem = four_products();
  problem.result_turned = true;
  const std::uint64_t blocks = 2 * 2 * 16;  // Tiles of [256, 128], of which 64 columns are used.
  EXPECT_EQ(rows_of(problem, two_matrices()),
            kLeft + kRight + 2 * blocks * kTile + 2 * 8 * 2 * kTile + kSpills);
}

/// A result of one block of columns has as many rows of tiles, turned, as it has columns in eights;
/// others have those of whole blocks.
TEST(DotBlocks, OfAShortTurnedResultOnlyTheRowsThatItHasLieInVmem) {
  DotProblem problem = four_products();
  problem.result_turned = true;
  DotTiling tiling = two_matrices();
  tiling.block_n = 1;
  const auto rows = [&](std::uint32_t columns, std::uint32_t period) {
    problem.n = columns;
    problem.row_period = period;
    return compiler::DotSizes(problem, tiling, Target()).out_rows.block;
  };
  EXPECT_EQ(rows(100, 0), 13u);
  EXPECT_EQ(rows(128, 0), 16u);
  EXPECT_EQ(rows(100, 8), 16u);
  EXPECT_EQ(rows(256, 0), 16u);  // A half of it.
  problem.m = 129;
  EXPECT_EQ(compiler::DotSizes(problem, tiling, Target()).out_columns.tiles, 2u);
}

/// Eighteen tiles of columns: a sixteenth part of them is two tiles, and the last cut tried is one.
TEST(DotBlocks, ASingleTileIsAmongTheCuts) {
  DotProblem problem;
  problem.m = 8;
  problem.n = 18 * 128;
  problem.k = 128;
  Target target;
  DotTiling least;
  least.block_m = 2;  // Of the eight rows, sixteen as bf16 lies.
  target.vmem_bytes = rows_of(problem, least) * 512;
  const DotTiling found = find_dot_tiling(problem, target).value();
  EXPECT_EQ(found.block_n, 1u);
  EXPECT_EQ(rows_of(problem, found), rows_of(problem, least));
}

TEST(DotBlocks, ATransposedLeftSideLiesInWholeBlocksAndOnceMoreTurned) {
  DotProblem problem = four_products();
  problem.lhs_transposed = true;
  const std::uint64_t blocks = 2 * 16 * 3;  // Tiles of [384, 128], of which 64 columns are used.
  EXPECT_EQ(rows_of(problem, two_matrices()),
            2 * blocks * kTile + 2 * 8 * 3 * kTile + kRight + kResult + kSpills);
}

TEST(DotBlocks, PackedResultsHaveTheirSumsApartAndOperandsInStepTheirBuffers) {
  DotProblem problem = four_products();
  problem.result_types = {ElementType::kBf16};
  problem.epilogue_types = {ElementType::kF32};
  const std::uint64_t tiles = 2 * 8 * 2;
  EXPECT_EQ(rows_of(problem, two_matrices()),
            kLeft + kRight + 2 * tiles * kPackedTile + tiles * kTile + 2 * tiles * kTile + kSpills);
}

TEST(ContractionPlan, ABlockComesAnewWhenTheInnermostDimensionOfItsOwnMovesOrOneOutside) {
  compiler::ContractionPlan plan({Target(), 1});
  plan.grid = {2, 3, 1, 4};
  const auto changes = [&](compiler::GridDimensions dimensions) {
    compiler::ContractionPlan::Blocks blocks;
    blocks.dimensions = dimensions;
    return plan.changes(blocks);
  };
  EXPECT_EQ(changes({}), 1);
  EXPECT_EQ(changes({0}), 2);
  EXPECT_EQ(changes({1, 2}), 2 * 3);
  EXPECT_EQ(changes({2}), 1);  // There is one.
  EXPECT_EQ(changes({0, 3}), 2 * 3 * 4);
  plan.lhs.dimensions = {0};
  plan.lhs.bytes = 4400 * 1000.0;
  const double once = plan.cycles(Target());
  plan.lhs.dimensions = {1};
  EXPECT_NEAR(plan.cycles(Target()) - once, 4 * plan.lhs.bytes / Target().hbm_bytes_per_cycle,
              1e-6 * once);
}

TEST(DotBlocks, ACutThatFillsVmemToTheLastByteIsTaken) {
  DotProblem problem;
  problem.m = problem.n = problem.k = 2048;
  Target target;
  const DotTiling best = find_dot_tiling(problem, target).value();
  const std::uint64_t rows = rows_of(problem, best);
  target.vmem_bytes = rows * 512;
  EXPECT_EQ(rows_of(problem, find_dot_tiling(problem, target).value()), rows);
  EXPECT_EQ(find_dot_tiling(problem, target).value().cycles, best.cycles);
  --target.vmem_bytes;
  EXPECT_LT(rows_of(problem, find_dot_tiling(problem, target).value()), rows);
}

TEST(DotBlocks, NoCutIsExpectedToWriteItsResultsFasterThanHbmTakesThem) {
  DotProblem problem;
  problem.outer = {{64, 1, 0, 1}};  // One right side for all: it may stay while they go by.
  problem.m = 512;
  problem.n = 2048;
  problem.k = 128;
  const Target target;
  const double bytes = 64.0 * 512 * 2048 * 4;
  EXPECT_GE(find_dot_tiling(problem, target).value().cycles, bytes / target.hbm_bytes_per_cycle);
}

/// An image of 8 by 8 pixels, of which all results stand in one block.
ConvolutionSizes sizes_of(std::int64_t window_y, std::int64_t window_x) {
  ConvolutionProblem problem;
  problem.spatial[0] = {8, window_y, 8, 1, 1, 1, window_y / 2};
  problem.spatial[1] = {8, window_x, 8, 1, 1, 1, window_x / 2};
  problem.rows = 16;
  problem.columns = problem.contracted = 128;
  ConvolutionTiling tiling;
  tiling.block_rows = 2;
  tiling.block_y = tiling.pixels_x = 8;
  return {problem, tiling, Target()};
}

TEST(ConvolutionBlocks, ReadARowOfPixelsOnEachSideOfAWindowOfThree) {
  const ConvolutionSizes high = sizes_of(3, 1);
  EXPECT_EQ(high.shift_y, -1);
  EXPECT_EQ(high.shift_x, 0);
  EXPECT_EQ(high.slab_y, 8U + 2);
  EXPECT_EQ(high.slab_x, 8U);
  EXPECT_EQ(high.plan.lhs.rows, 10 * 8 * 2 * kTile);
  const ConvolutionSizes wide = sizes_of(1, 3);
  EXPECT_EQ(wide.shift_y, 0);
  EXPECT_EQ(wide.shift_x, -1);
  EXPECT_EQ(wide.slab_y, 8U);
  EXPECT_EQ(wide.slab_x, 8U + 2);
  // Sums that are the results lie nowhere else.
  EXPECT_FALSE(wide.sums_apart);
  EXPECT_EQ(wide.plan.rows_apart, 0U);
}

/// A window of one pixel between pixels of padding is read where it stands: a block reads as many
/// pixels as it has results.
TEST(ConvolutionBlocks, ReadAsManyPixelsAsResultsWithAPaddedWindowOfOne) {
  ConvolutionProblem problem;
  for (compiler::SpatialDimension& each : problem.spatial) {
    each.input = 8;
    each.window = each.padding = 1;
    each.output = 10;
  }
  problem.rows = problem.columns = problem.contracted = 128;
  ConvolutionTiling tiling;
  tiling.block_y = tiling.pixels_x = 10;
  const ConvolutionSizes sizes(problem, tiling, Target());
  EXPECT_EQ(sizes.shift_y, -1);
  EXPECT_EQ(sizes.shift_x, -1);
  EXPECT_EQ(sizes.slab_y, 10U);
  EXPECT_EQ(sizes.slab_x, 10U);
}

/// Behind the first result each has its buffers, and where it is packed a place to wait in.
TEST(ConvolutionBlocks, SeveralResultsHaveTheirBuffersAndThoseThatAreRoundedTheirSums) {
  ConvolutionProblem problem;
  problem.rows = 24;
  problem.spatial[0].output = problem.spatial[0].input = 6;
  problem.spatial[1].output = problem.spatial[1].input = 8;
  problem.has_epilogue = true;
  ConvolutionTiling tiling;
  tiling.block_rows = 3;
  tiling.block_y = 2;
  tiling.pixels_x = 8;
  const std::uint64_t tiles = 3 * 2 * 8;
  const auto rows = [&](std::vector<ElementType> results) {
    problem.result_types = std::move(results);
    return ConvolutionSizes(problem, tiling, Target()).plan.vmem_rows();
  };
  const std::uint64_t one = rows({ElementType::kF32});
  EXPECT_EQ(rows({ElementType::kF32, ElementType::kF32}), one + 2 * tiles * kTile);
  EXPECT_EQ(rows({ElementType::kF32, ElementType::kBf16}),
            one + 2 * tiles * kPackedTile + tiles * kTile);
  EXPECT_EQ(rows({ElementType::kBf16, ElementType::kF32}), one + 2 * tiles * kPackedTile);
}

/// The cut that takes least, be it one that fills VMEM to the last byte.
TEST(ConvolutionBlocks, WithTheBatchInTheLanesTheBestCutThatFitsIsTaken) {
  ConvolutionProblem problem;
  problem.batch_in_lanes = true;
  problem.rows = 128;
  problem.contracted = problem.columns = 64;
  for (compiler::SpatialDimension& each : problem.spatial) each = {16, 3, 16, 1, 1, 1, 1};
  Target target;
  const auto sizes = [&](const compiler::LanesTiling& tiling) {
    const compiler::Patches patches(problem, tiling.group, tiling.feature_blocks);
    return compiler::LanesSizes(problem, tiling, patches, target);
  };
  const compiler::LanesTiling best = find_lanes_tiling(problem, target).value();
  compiler::LanesTiling rows_apart = best;
  rows_apart.block_y = rows_apart.chunk = 1;
  EXPECT_GT(sizes(rows_apart).plan.cycles(target), best.cycles);
  const std::uint64_t rows = sizes(best).plan.vmem_rows();
  target.vmem_bytes = rows * 512;
  EXPECT_EQ(find_lanes_tiling(problem, target).value().cycles, best.cycles);
  EXPECT_EQ(sizes(find_lanes_tiling(problem, target).value()).plan.vmem_rows(), rows);
}

/// With the batch in the lanes tiles of features are rounded in pairs, in registers; an odd number
/// of them waits.
TEST(ConvolutionBlocks, WithTheBatchInTheLanesOddTilesOfFurtherResultsWait) {
  ConvolutionProblem problem;
  problem.batch_in_lanes = true;
  problem.rows = 128;
  problem.contracted = 8;
  for (compiler::SpatialDimension& each : problem.spatial) each.input = each.output = 4;
  for (const std::uint32_t columns : {2U, 3U}) {
    problem.columns = 8 * columns;
    compiler::LanesTiling tiling;
    tiling.block_columns = columns;
    tiling.block_y = 2;
    tiling.groups = 4;
    const compiler::Patches patches(problem, 1, 1);
    const auto sizes = [&](std::vector<ElementType> results) {
      problem.result_types = std::move(results);
      return compiler::LanesSizes(problem, tiling, patches, Target());
    };
    problem.has_epilogue = false;  // Sums that are the results lie nowhere else.
    const compiler::LanesSizes plain = sizes({ElementType::kF32});
    EXPECT_EQ(plain.plan.rows_apart, plain.moving_rows);
    problem.has_epilogue = true;
    const std::uint64_t one = sizes({ElementType::kF32}).plan.vmem_rows();
    const compiler::LanesSizes both = sizes({ElementType::kF32, ElementType::kBf16});
    const std::uint64_t tiles = std::uint64_t{columns} * 2 * 4;
    EXPECT_EQ(both.sum_rows, tiles * kTile);
    EXPECT_EQ(both.plan.vmem_rows(),
              one + 2 * tiles * kPackedTile + (columns == 3 ? tiles * kTile : 0));
  }
}

}  // namespace
}  // namespace tpu::test::block_sizes_test
