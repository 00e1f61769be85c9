#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "tests/compiler/fused_graph.h"
#include "tests/compiler/hlo_check.h"
#include "workloads/compiler/cost.h"

namespace tpu::test::reduce_test {
namespace {

using frontend::Extents;
using frontend::GraphBuilder;
using frontend::Tensor;
using hlo::ElementType;
using hlo::HloOpcode;

constexpr Tolerance kSums{1e-5, 2e-4};

TEST(Reduce, RowsAndMajorsToLanes) {
  for (const Extents& extents : std::vector<Extents>{
           {50, 64}, {9, 200}, {3, 5, 21, 130}, {17, 1500}, {1000, 70}, {33, 3000}}) {
    FusedGraph test;
    const Tensor x = test.input(ElementType::kF32, extents);
    Extents reduced;
    for (std::size_t i = 0; i + 1 < extents.size(); ++i) {
      reduced.push_back(static_cast<std::int64_t>(i));
    }
    const Tensor square = test.graph.multiply(x, x);
    test.check({test.graph.reduce_sum(x, reduced), test.graph.reduce_sum(square, reduced),
                test.graph.reduce_max(x, reduced)},
               kSums);
  }
}

TEST(Reduce, ChannelsOfSpatialLayout) {
  for (ElementType type : {ElementType::kF32, ElementType::kBf16}) {
    FusedGraph test;
    test.set_layout({3, 0, 2, 1});
    const Extents extents{11, 7, 9, 70};
    const Tensor x = test.graph.convert(test.input(type, extents), ElementType::kF32);
    const Tensor y = test.graph.convert(test.input(type, extents), ElementType::kF32);
    test.check({test.graph.reduce_sum(x, {0, 1, 2}),
                test.graph.reduce_sum(test.graph.multiply(x, y), {0, 1, 2})},
               kSums);
  }
}

TEST(Reduce, LanesToVector) {
  for (const Extents& extents :
       std::vector<Extents>{{50, 64}, {200, 200}, {17, 1500}, {1100, 10}, {300, 1100}}) {
    FusedGraph test;
    const Tensor x = test.input(ElementType::kF32, extents);
    test.check({test.graph.reduce_sum(x, {1}), test.graph.reduce_max(x, {1})}, kSums);
  }
}

TEST(Reduce, LanesToArray) {
  for (const Extents& extents :
       std::vector<Extents>{{3, 10, 21, 140}, {2, 150, 60}, {1, 3, 300, 20}, {5, 7, 1300}}) {
    FusedGraph test;
    const Tensor x = test.input(ElementType::kF32, extents);
    const std::int64_t last = static_cast<std::int64_t>(extents.size()) - 1;
    test.check({test.graph.reduce_sum(x, {last}), test.graph.reduce_max(x, {last})}, kSums);
  }
}

TEST(Reduce, EverythingToScalar) {
  for (const Extents& extents :
       std::vector<Extents>{{5000}, {50, 64}, {3, 10, 21, 140}, {7}, {300, 1100}}) {
    FusedGraph test;
    const Tensor x = test.input(ElementType::kF32, extents);
    Extents all;
    for (std::size_t i = 0; i < extents.size(); ++i) all.push_back(static_cast<std::int64_t>(i));
    test.check({test.graph.reduce_sum(x, all), test.graph.reduce_max(x, all)}, {1e-5, 5e-2});
  }
}

TEST(Reduce, MajorDimensionsOnly) {
  FusedGraph test;
  test.set_layout({3, 0, 2, 1});
  const Tensor x = test.input(ElementType::kF32, {11, 7, 9, 200});
  test.check({test.graph.reduce_sum(x, {1, 2})}, kSums);
  FusedGraph batch;
  const Tensor y = batch.input(ElementType::kF32, {6, 30, 200});
  batch.check({batch.graph.reduce_sum(y, {0})}, kSums);
}

/// A product of arrays that are broadcast along different dimensions of the space, added up along
/// the third one, as small attention heads are contracted. Nothing of it streams.
KernelHarness::Result check_small_product(const Extents& space) {
  FusedGraph test;
  const Tensor x = test.input(ElementType::kF32, {space[0], space[1], space[2], space[4]});
  const Tensor y = test.input(ElementType::kF32, {space[0], space[2], space[3], space[4]});
  const Tensor product = test.graph.multiply(test.graph.broadcast(x, space, {0, 1, 2, 4}),
                                             test.graph.broadcast(y, space, {0, 2, 3, 4}));
  return test.check({test.graph.reduce_sum(product, {2})}, kSums);
}

/// Two loads a tile, for the sums of both row tiles wait in registers.
TEST(Reduce, SumsOfTheRowTilesOfAGroupStayInRegisters) {
  const KernelHarness::Result result = check_small_product({4, 12, 20, 16, 256});
  const std::uint64_t tiles = 4 * 12 * 20 * 2 * 2;
  EXPECT_GE(result.cycles, 2 * tiles);
  EXPECT_LT(result.cycles, 4 * tiles);
}

/// It would wait for all of its operands. Each is three DMAs of a part here.
TEST(Reduce, OperandsThatStayComeInParts) {
  EXPECT_EQ(check_small_product({16, 24, 10, 8, 256}).dmas, 3U * 16);
}

/// Members of an ensemble read the same examples, which do not fit: they stream again for each.
TEST(Reduce, MatricesOfAllMembersThatDoNotFitAreReadAgainForEach) {
  FusedGraph test;
  test.target.vmem_bytes = 1 << 20;
  const Extents space{3, 30, 40, 130};
  const Tensor members = test.input(ElementType::kF32, space);
  const Tensor examples = test.input(ElementType::kF32, {30, 40, 130});
  const Tensor shift = test.input(ElementType::kF32, {30, 40});
  const Tensor product =
      test.graph.multiply(members, test.graph.broadcast(examples, space, {1, 2, 3}));
  const Tensor sum = test.graph.add(product, test.graph.broadcast(shift, space, {1, 2}));
  const auto result = test.check({sum, test.graph.reduce_sum(sum, {1, 2})}, kSums);
  const std::uint64_t once = 30 * 40 * 256 * 4;
  EXPECT_GE(result.dma_bytes, (3 + 3 + 3) * once);
  EXPECT_LT(result.dma_bytes, (3 + 3 + 3) * once + (1 << 18));
}

/// Sums over the outermost dimension, of matrices that VMEM does not hold three times: a kernel
/// goes through a range of the rows of all of them, then through the next one, and moves no more.
/// So it does where the rows are numbers in lanes, and of packed arrays.
TEST(Reduce, SumsOverMatricesThatDoNotFitGoInRangesOfRows) {
  for (const ElementType type : {ElementType::kF32, ElementType::kBf16}) {
    FusedGraph test;
    test.target.vmem_bytes = 1 << 20;
    test.set_layout({2, 1, 0});
    test.set_layout({1, 0});
    const Extents space{3, 405, 300};
    const Tensor x = test.graph.convert(test.input(type, space), ElementType::kF32);
    const Tensor of_each = test.input(ElementType::kF32, {3});
    const Tensor product = test.graph.multiply(x, test.graph.broadcast(of_each, space, {0}));
    const auto result = test.check({test.graph.reduce_sum(product, {0}), product}, kSums);
    const std::uint64_t matrix = 408 * 384 * 4;
    const std::uint64_t moved = (type == ElementType::kF32 ? 7 : 5) * matrix + matrix / 2;
    EXPECT_LT(result.dma_bytes, moved + (1 << 16));
  }
  FusedGraph test;
  test.target.vmem_bytes = 2 << 20;
  test.set_layout({2, 1, 0});
  test.set_layout({1, 0});
  const Extents space{2, 3000, 100};
  const Tensor row = test.input(ElementType::kF32, {3000});
  const Tensor x = test.input(ElementType::kF32, space);
  const Tensor sum = test.graph.add(x, test.graph.broadcast(row, space, {1}));
  test.check({test.graph.reduce_sum(sum, {0})}, kSums);
}

/// Of a mask that two passes need, the numbers that it is made of are kept: a kernel that uses its
/// sum takes little longer than one that makes it.
TEST(Reduce, WhatAMaskIsMadeOfIsKeptForTheNextPass) {
  const auto cycles = [](bool uses_sum) {
    FusedGraph test;
    const Extents extents{512, 256};
    const Tensor x =
        test.graph.convert(test.input(ElementType::kS32, extents, -3, 3), ElementType::kF32);
    const Tensor some =
        test.graph.splat(ElementType::kF32, extents, 0.659);  // Of 0 less, of 1 more.
    const Tensor none = test.graph.splat(ElementType::kF32, extents, 0);
    Tensor y = x;
    for (int i = 0; i < 6; ++i) y = test.graph.unary(HloOpcode::kLogistic, y);
    const Tensor mask = test.graph.compare(y, some, hlo::ComparisonDirection::kGt);
    const Tensor sum = test.graph.reduce_sum(test.graph.select(mask, x, none), {1});
    const Tensor apart = test.graph.subtract(x, test.graph.broadcast(sum, extents, {0}));
    const Tensor root = uses_sum ? test.graph.select(mask, apart, none) : sum;
    return test.check({root}, kSums).cycles;
  };
  EXPECT_LT(cycles(true), cycles(false) + 512 * 256 / 1024 * 6 * 18 / 2);
}

TEST(Reduce, RowsWithinEachMajor) {
  FusedGraph test;
  const Tensor x = test.input(ElementType::kF32, {11, 30, 300});
  test.check({test.graph.reduce_sum(x, {1}), test.graph.reduce_max(x, {1})}, kSums);
}

TEST(Reduce, LanesAndMajorsToRows) {
  FusedGraph test;
  const Tensor x = test.input(ElementType::kF32, {6, 150, 300});
  test.check({test.graph.reduce_sum(x, {0, 2})}, kSums);
  FusedGraph outer;
  const Tensor y = outer.input(ElementType::kF32, {6, 3, 50, 130});
  outer.check({outer.graph.reduce_sum(y, {1, 3})}, kSums);
}

TEST(Reduce, RowsAndLanesOfEachMajor) {
  FusedGraph test;
  const Tensor x = test.input(ElementType::kF32, {150, 20, 30});
  test.check({test.graph.reduce_sum(x, {1, 2})}, kSums);
  FusedGraph two;
  const Tensor y = two.input(ElementType::kF32, {3, 11, 20, 30});
  two.check({two.graph.reduce_sum(y, {2, 3})}, kSums);
}

// Eight sums share a register on their way through the XLU, and 64 of them the wait for it: each
// combines its eight sublanes by 10 operations, two in a cycle, and is chosen by one more. A sum by
// itself would wait for the XLU's latency.
TEST(Reduce, NumbersOfMatricesShareTheWaitForTheLanes) {
  constexpr std::int64_t kNumbers = 512;
  for (const bool is_greatest : {false, true}) {
    FusedGraph test;
    test.set_layout({2, 1, 0});
    GraphBuilder& g = test.graph;
    const Tensor x = test.input(ElementType::kF32, {kNumbers, 8, 128});
    const Tensor numbers = is_greatest ? g.reduce_max(x, {1, 2}) : g.reduce_sum(x, {1, 2});
    const std::uint64_t cycles = test.check({numbers}, {1e-5, 1e-4}).cycles;
    EXPECT_GT(cycles, kNumbers * 11 / 2);
    EXPECT_LT(cycles, kNumbers * CoreParams().xlu_latency_cycles / 4);
  }
}

/// However many tiles there are: of nineteen, three are left behind two times eight. Of twenty four
/// are, and take no less.
TEST(Reduce, SumsOfAnyNumberOfTilesShareTheWaitForTheLanes) {
  const auto cycles = [](std::int64_t rows, const Extents& extents, const Extents& reduced) {
    FusedGraph test;
    test.set_layout({2, 1, 0});
    Extents whole = extents;
    whole[0] = rows;
    if (reduced[0] == 0) std::swap(whole[0], whole[1]);
    return test.check({test.graph.reduce_sum(test.input(ElementType::kF32, whole), reduced)}, kSums)
        .cycles;
  };
  EXPECT_LE(cycles(152, {0, 6, 77}, {0, 2}), cycles(160, {0, 6, 77}, {0, 2}));
  EXPECT_LE(cycles(152, {0, 8, 128}, {1, 2}), cycles(160, {0, 8, 128}, {1, 2}));
}

TEST(Reduce, SoftmaxInOneKernel) {
  for (const Extents& extents : std::vector<Extents>{{50, 64}, {37, 1000}, {2, 3, 40, 300}}) {
    FusedGraph test;
    GraphBuilder& g = test.graph;
    const Tensor x = test.input(ElementType::kF32, extents, -5, 5);
    const std::int64_t last = static_cast<std::int64_t>(extents.size()) - 1;
    Extents kept;
    for (std::int64_t i = 0; i < last; ++i) kept.push_back(i);
    const Tensor shifted = g.subtract(x, g.broadcast(g.reduce_max(x, {last}), extents, kept));
    const Tensor e = g.unary(HloOpcode::kExponential, shifted);
    const Tensor sum = g.reduce_sum(e, {last});
    test.check({g.divide(e, g.broadcast(sum, extents, kept)), g.unary(HloOpcode::kLog, sum)},
               {5e-6, 1e-7});
  }
}

// What two passes need is computed in the first of them and kept: four functions of each tile, not
// eight. Along the lanes and along the rows of matrices; behind a first sum, too.
TEST(Reduce, WhatPassesShareIsComputedOnce) {
  constexpr std::int64_t kMatrices = 32;
  const Extents extents{kMatrices, 64, 256};
  const std::int64_t tiles = kMatrices * 8 * 2;
  for (const std::int64_t along : {1, 2}) {
    for (const bool is_behind_a_sum : {false, true}) {
      FusedGraph test;
      test.set_layout({2, 1, 0});
      GraphBuilder& g = test.graph;
      const Tensor x = test.input(ElementType::kF32, extents, -5, 5);
      const Extents kept = along == 1 ? Extents{0, 2} : Extents{0, 1};
      Tensor y = x;
      if (is_behind_a_sum) {
        y = g.subtract(x, g.broadcast(g.reduce_max(x, {along}), extents, kept));
      }
      for (int i = 0; i < 4; ++i) y = g.unary(HloOpcode::kLogistic, y);
      const Tensor sum = g.reduce_sum(y, {along});
      const auto cycles = static_cast<double>(
          test.check({g.divide(y, g.broadcast(sum, extents, kept))}, {1e-5, 1e-6}).cycles);
      const compiler::VectorCost of = compiler::vector_cost(HloOpcode::kLogistic);
      EXPECT_GT(cycles, 4 * of.instructions / 2 * tiles) << along;
      EXPECT_LT(cycles, 1.5 * 4 * of.cycles * tiles) << along;
    }
  }
}

// A row tile of the array and of the result, twice each, takes 12.8 MB of VMEM: there is no room
// for what both passes need, another 6.4.
TEST(Reduce, WhatHasNoRoomIsComputedAgain) {
  const Extents extents{8, 100000};
  FusedGraph test;
  test.set_layout({1, 0});
  GraphBuilder& g = test.graph;
  const Tensor y = g.unary(HloOpcode::kLogistic, test.input(ElementType::kF32, extents, -5, 5));
  const Tensor sum = g.reduce_sum(y, {1});
  const auto cycles = static_cast<double>(
      test.check({g.divide(y, g.broadcast(sum, extents, {0}))}, {1e-5, 1e-6}).cycles);
  EXPECT_GT(cycles, 2 * compiler::vector_cost(HloOpcode::kLogistic).instructions / 2 * 782);
}

// Rows of 150001 lanes: eight rows of two operands and a result, twice each, would take 29 MB of
// VMEM. The lanes are cut in tiles; the last one has padding, which no sum and no maximum has.
TEST(Reduce, RowsOfLanesThatFillVmemAreCut) {
  const Extents extents{3, 150001};
  FusedGraph test;
  test.set_layout({1, 0});
  GraphBuilder& g = test.graph;
  const Tensor x = test.input(ElementType::kF32, extents, -3, -1);
  // A part of an array, where it stands.
  const Tensor y = g.slice(test.input(ElementType::kF32, {3, 200000}, 1, 2), {0, 256}, {3, 150257});
  const Tensor of_lanes = test.input(ElementType::kF32, {150001}, 1, 2);
  const Tensor of_rows = test.input(ElementType::kF32, {3}, 1, 2);
  Tensor z = g.add(g.multiply(x, g.broadcast(of_lanes, extents, {1})),
                   g.multiply(y, g.broadcast(of_rows, extents, {0})));
  z = g.add(z, g.multiply(g.iota(ElementType::kF32, extents, 1), g.splat_like(z, -1e-4)));
  z = g.add(z, g.convert(g.iota(ElementType::kS32, extents, 0), ElementType::kF32));
  test.check({z, g.reduce_max(z, {1}), g.reduce_sum(g.multiply(x, y), {1})}, {1e-4, 1e-3});
}

// Elements that are compared with all rows of a table: no array covers what they are compared in,
// so that tiles of lanes may come one after the other, each with all rows.
TEST(Reduce, LanesOfWhatNoArrayCoversAreCut) {
  const Extents extents{24, 90001};
  FusedGraph test;
  test.set_layout({1, 0});
  GraphBuilder& g = test.graph;
  const Tensor number = test.input(ElementType::kF32, {90001}, 0, 20);
  const Tensor table = test.input(ElementType::kF32, {24}, -2, 2);
  const Tensor is_it =
      g.compare(g.broadcast(number, extents, {1}), g.iota(ElementType::kF32, extents, 0),
                hlo::ComparisonDirection::kGe);
  const auto sum = [&](Tensor value) {
    const Tensor all = g.broadcast(value, extents, {0});
    return g.reduce_sum(g.select(is_it, all, g.splat_like(all, 0)), {0});
  };
  test.check({sum(table), sum(g.multiply(table, table)), sum(g.splat_like(table, 1)),
              sum(g.add(table, table)), sum(g.splat_like(table, 2)),
              sum(g.subtract(table, g.splat_like(table, 3)))},
             {1e-4, 1e-3});
}

// Sums of the rows of one tile, without the rows of its padding, are in the register that they are
// made of: a norm of a norm is one pass over the tiles, however long the lanes are. One that is a
// result, too, is added up as others are.
TEST(Reduce, RowsOfOneTileAreCombinedInIt) {
  for (const Extents& extents :
       std::vector<Extents>{{5, 3, 200}, {2, 8, 1000}, {2, 3, 7, 130}, {3, 640001}, {8, 400000}}) {
    const auto rows = static_cast<std::int64_t>(extents.size()) - 2;
    Extents kept;
    for (std::int64_t i = 0; i <= rows + 1; ++i) {
      if (i != rows) kept.push_back(i);
    }
    for (const ElementType type : {ElementType::kF32, ElementType::kBf16}) {
      FusedGraph test;
      std::vector<std::int64_t> minor_to_major;
      for (std::int64_t i = rows + 1; i >= 0; --i) minor_to_major.push_back(i);
      test.set_layout(minor_to_major);
      GraphBuilder& g = test.graph;
      const auto all = [&](Tensor column) { return g.broadcast(column, extents, kept); };
      const Tensor x = g.convert(test.input(type, extents, -3, -1), ElementType::kF32);
      const Tensor most = g.reduce_max(x, {rows});
      const Tensor e = g.unary(HloOpcode::kExponential, g.subtract(x, all(most)));
      const Tensor share = g.divide(e, all(g.reduce_sum(e, {rows})));
      std::vector<Tensor> results{share};
      if (extents.back() <= 1000) results.push_back(g.reduce_max(share, {rows}));
      if (extents.back() <= 1000) results.push_back(most);
      test.check(results, {type == ElementType::kF32 ? 1e-5 : 1e-2, 1e-5});
    }
  }
}

// Numbers of s32, and an initial value that is no zero.
TEST(Reduce, WithTheInitialValueIntegersOfOneTileAreCombinedInIt) {
  for (const char* type : {"s32", "f32"}) {
    std::string text = R"(HloModule combined
least {
  a = T[] parameter(0)
  b = T[] parameter(1)
  ROOT c = T[] minimum(a, b)
}
add {
  a = T[] parameter(0)
  b = T[] parameter(1)
  ROOT c = T[] add(a, b)
}
ENTRY main {
  x = T[4,6,300] parameter(0)
  one = T[] constant(1)
  five = T[] constant(5)
  l = T[4,300] reduce(x, one), dimensions={1}, to_apply=least
  s = T[4,300] reduce(x, five), dimensions={1}, to_apply=add
  w = T[4,6,300] broadcast(l), dimensions={0,2}
  u = T[4,6,300] broadcast(s), dimensions={0,2}
  v = T[4,6,300] subtract(x, w)
  ROOT y = T[4,6,300] multiply(v, u)
}
)";
    for (std::size_t at = 0; (at = text.find("T[", at)) != std::string::npos;) {
      text.replace(at, 1, type);
    }
    check_hlo(text);
  }
}

// Of 640,001 lanes the sums of all tiles (20 MB) do not fit VMEM, and 5,001 tiles have no parts of
// one size that begin with a register: most of the tiles are gone through in parts, the rest behind
// them. A vector comes part by part, too, and positions count on.
TEST(Reduce, TilesThatNoPartsDivideAreGoneThroughInTwoRanges) {
  for (const std::int64_t lanes : {640001, 640128, 1000000}) {
    FusedGraph test;
    test.set_layout({1, 0});
    GraphBuilder& g = test.graph;
    const Extents extents{3, lanes};
    const Tensor x = test.input(ElementType::kF32, extents, -2, 2);
    const Tensor factor = g.broadcast(test.input(ElementType::kF32, {lanes}, 1, 2), extents, {1});
    const Tensor number = g.multiply(g.iota(ElementType::kF32, extents, 1), g.splat_like(x, 1e-6));
    test.check({g.reduce_sum(g.multiply(x, factor), {0}), g.reduce_max(g.add(x, number), {0})},
               kSums);
  }
}

// A sum of all elements goes on in the kernel of the rest.
TEST(Reduce, SumsAlongTheTilesOfARangeGoOnInTheRest) {
  FusedGraph test;
  test.set_layout({1, 0});
  const Tensor x = test.input(ElementType::kF32, {3, 640001}, -2, 2);
  const std::vector<Tensor> results{test.graph.reduce_sum(x, {0}), test.graph.reduce_max(x, {0}),
                                    test.graph.reduce_sum(x, {0, 1})};
  test.check(results, kSums);
}

// Sums over a few matrices of long lanes, which do not fit VMEM, are made for a range of the lanes
// after the other; what is smaller comes range by range, too.
TEST(Reduce, SumsOverFewMatricesOfLongLanesGoInRangesOfThem) {
  const Extents extents{4, 3, 300001};
  for (const std::int64_t along : {0, 1}) {
    FusedGraph test;
    test.set_layout({2, 1, 0});
    GraphBuilder& g = test.graph;
    const Tensor x = test.input(ElementType::kBf16, extents, -2, 2);
    const Tensor of_lanes = test.input(ElementType::kF32, {300001}, 1, 2);
    const Tensor of_rows = test.input(ElementType::kF32, {3}, 1, 2);
    const Tensor y =
        g.multiply(g.convert(x, ElementType::kF32), g.broadcast(of_lanes, extents, {2}));
    const Tensor z = g.add(y, g.broadcast(of_rows, extents, {1}));
    const Tensor number = g.convert(g.iota(ElementType::kS32, extents, 0), ElementType::kF32);
    const Tensor place = g.multiply(g.iota(ElementType::kF32, extents, 2), g.splat_like(z, 1e-5));
    test.check({g.reduce_sum(g.add(z, number), {along}), g.reduce_max(g.add(z, place), {along})},
               kSums);
  }
}

// Of one matrix it has all rows.
TEST(Reduce, MatricesOfFewRowsComeRangeByRangeOfTheirLanes) {
  const Extents extents{3, 3, 300001};
  FusedGraph test;
  test.set_layout({2, 1, 0});
  GraphBuilder& g = test.graph;
  const Tensor x = test.input(ElementType::kF32, extents, -2, 2);
  const Tensor matrix = test.input(ElementType::kF32, {3, 300001}, -2, 2);
  test.check({g.reduce_sum(g.multiply(x, g.broadcast(matrix, extents, {1, 2})), {0})}, kSums);
}

// Rows of several tiles are added in ranges of their lanes, and read with their sums.
TEST(Reduce, MoreThanEightLongRowsComeRangeByRange) {
  const Extents extents{11, 300001};
  FusedGraph test;
  test.set_layout({1, 0});
  GraphBuilder& g = test.graph;
  const Tensor x = test.input(ElementType::kF32, extents, -2, 2);
  const Tensor of_rows = test.input(ElementType::kF32, {11}, 1, 2);
  const Tensor y = g.multiply(x, g.broadcast(of_rows, extents, {0}));
  test.check({g.reduce_sum(y, {0}), g.reduce_max(x, {0}), y}, kSums);
}

// An array of all lanes is written range by range beside the sums.
TEST(Reduce, WholeArraysAreMadeInRangesOfTheirLanesToo) {
  FusedGraph test;
  test.set_layout({2, 1, 0});
  const Tensor x = test.input(ElementType::kF32, {4, 3, 300001}, -2, 2);
  test.check({test.graph.add(x, x), test.graph.reduce_sum(x, {1})}, kSums);
}

// Lanes of which one number is made stay together.
TEST(Reduce, RangesOfLanesAreRefusedWhereTheyAreNotAlone) {
  FusedGraph test;
  test.set_layout({2, 1, 0});
  const Tensor x = test.input(ElementType::kF32, {4, 3, 300001}, -2, 2);
  const std::vector<Tensor> results{test.graph.reduce_max(x, {1}),
                                    test.graph.reduce_sum(x, {0, 1, 2})};
  EXPECT_THROW(test.check(results, kSums), WorkloadError);
}

/// All dimensions but the one above the minor one.
Extents without_rows(const Extents& extents) {
  Extents kept;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    if (i + 2 != extents.size()) kept.push_back(static_cast<std::int64_t>(i));
  }
  return kept;
}

// Sums along the rows of a matrix are known when a block, which has whole matrices, went by: with
// one tile of rows and 25, rows and lanes that fill their tiles and not, several axes above; part
// by part, where the sums of all matrices (24 MiB) do not fit VMEM.
TEST(Reduce, SoftmaxAlongRowsInOneKernel) {
  for (const Extents& extents : std::vector<Extents>{
           {2, 3, 40, 300}, {5, 7, 64}, {9, 128, 128}, {3, 4, 197, 130}, {64, 16, 8, 700}}) {
    FusedGraph test;
    GraphBuilder& g = test.graph;
    const Tensor x = test.input(ElementType::kF32, extents, -5, 5);
    const auto rows = static_cast<std::int64_t>(extents.size()) - 2;
    const Extents kept = without_rows(extents);
    const Tensor most = g.reduce_max(x, {rows});
    const Tensor e =
        g.unary(HloOpcode::kExponential, g.subtract(x, g.broadcast(most, extents, kept)));
    const Tensor sum = g.reduce_sum(e, {rows});
    const Tensor share = g.divide(e, g.broadcast(sum, extents, kept));
    test.check({share, g.convert(share, ElementType::kBf16), most, sum}, {1e-2, 1e-5});
  }
}

// Values of a column's own, made of its sum, are computed once a matrix, divisors as reciprocals,
// and may be results in f32 and bf16; sums over other dimensions of what follows are added in the
// last pass.
TEST(Reduce, GradientOfASoftmaxAlongRowsInOneKernel) {
  const std::vector<std::pair<Extents, ElementType>> kinds{{{6, 24, 200}, ElementType::kF32},
                                                           {{4, 4, 50, 64}, ElementType::kF32},
                                                           {{4, 4, 50, 64}, ElementType::kBf16},
                                                           {{9, 40, 200}, ElementType::kBf16}};
  for (const auto& [extents, type] : kinds) {
    FusedGraph test;
    GraphBuilder& g = test.graph;
    const auto rows = static_cast<std::int64_t>(extents.size()) - 2;
    const Extents kept = without_rows(extents);
    Extents columns;
    for (std::int64_t axis : kept) columns.push_back(extents[static_cast<std::size_t>(axis)]);
    const Tensor p = test.input(ElementType::kF32, extents, 0, 1);
    const Tensor dp = g.convert(test.input(ElementType::kBf16, extents), ElementType::kF32);
    const Tensor whole = test.input(ElementType::kF32, columns, 1, 2);
    const Tensor sum = g.reduce_sum(g.multiply(p, dp), {rows});
    const Tensor mean = g.divide(sum, whole);
    const Tensor part = g.divide(g.subtract(dp, g.broadcast(mean, extents, kept)),
                                 g.broadcast(whole, extents, kept));
    const Tensor ds = g.multiply(p, part);
    Extents all_but_lanes;
    for (std::int64_t i = 0; i <= rows; ++i) all_but_lanes.push_back(i);
    test.check({ds, g.reduce_sum(ds, all_but_lanes), g.convert(mean, type)},
               {type == ElementType::kF32 ? 1e-5 : 1e-2, 1e-4});
  }
}

TEST(Reduce, LayerNormInOneKernel) {
  for (ElementType type : {ElementType::kF32, ElementType::kBf16}) {
    FusedGraph test;
    GraphBuilder& g = test.graph;
    const Extents extents{3, 50, 300};
    const Tensor x = g.convert(test.input(type, extents), ElementType::kF32);
    const Tensor gamma = test.input(ElementType::kF32, {300});
    const Tensor mean = g.scale(g.reduce_sum(x, {2}), 1.0 / 300);
    const Tensor centred = g.subtract(x, g.broadcast(mean, extents, {0, 1}));
    const Tensor variance = g.scale(g.reduce_sum(g.multiply(centred, centred), {2}), 1.0 / 300);
    const Tensor inverse = g.unary(HloOpcode::kRsqrt, g.offset(variance, 1e-5));
    const Tensor normal = g.multiply(centred, g.broadcast(inverse, extents, {0, 1}));
    test.check({g.multiply(normal, g.broadcast(gamma, extents, {2})), inverse}, {5e-6, 1e-6});
  }
}

// Row tiles of a matrix that are no multiple of 16 become lines of lanes behind the passes: 18 and
// 9 of them, 25 (which groups of a power of two do not divide), and lines of a part of a matrix.
TEST(Reduce, RowsOfMatricesBecomeLinesOfLanes) {
  for (const Extents& extents : std::vector<Extents>{{16, 144, 256},
                                                     {40, 72, 200},
                                                     {5, 200, 130},
                                                     {3, 4, 136, 140},

                                                     {1, 1024, 600}}) {
    FusedGraph test;
    GraphBuilder& g = test.graph;
    const auto last = static_cast<std::int64_t>(extents.size()) - 1;
    Extents kept, layout{last};
    for (std::int64_t i = 0; i < last; ++i) {
      kept.push_back(i);
      layout.push_back(last - 1 - i);
    }
    test.set_layout(layout);
    const double each = 1.0 / static_cast<double>(extents.back());
    const Tensor x = test.input(ElementType::kF32, extents);
    const Tensor y = g.convert(test.input(ElementType::kBf16, extents), ElementType::kF32);
    const Tensor z = g.add(x, y);
    const Tensor mean = g.scale(g.reduce_sum(z, {last}), each);
    const Tensor square = g.scale(g.reduce_sum(g.multiply(z, z), {last}), each);
    const Tensor variance = g.subtract(square, g.multiply(mean, mean));
    const Tensor inverse = g.unary(HloOpcode::kRsqrt, g.offset(variance, 1e-5));
    const Tensor normal = g.multiply(g.subtract(z, g.broadcast(mean, extents, kept)),
                                     g.broadcast(inverse, extents, kept));
    const Tensor half = g.convert(normal, ElementType::kBf16);
    test.check({mean, variance, g.convert(inverse, ElementType::kBf16), half}, {1e-2, 1e-5});
  }
}

// Rows of 128 features: two sums of each tile take the XLU 8 cycles each, and what is done with
// them overlaps with the sums of the other tiles of a group of 16. Only the last sum of a group is
// waited for, and some twenty operations that follow from it one after the other, two cycles each.
TEST(Reduce, PassesOverShortRowsShareTheWaitForTheLanes) {
  constexpr std::int64_t kTiles = 256;
  const Extents extents{8 * kTiles, 128};
  FusedGraph test;
  test.set_layout({1, 0});
  GraphBuilder& g = test.graph;
  const Tensor x = test.input(ElementType::kF32, extents);
  const Tensor mean = g.scale(g.reduce_sum(x, {1}), 1.0 / 128);
  const Tensor square = g.scale(g.reduce_sum(g.multiply(x, x), {1}), 1.0 / 128);
  const Tensor variance = g.subtract(square, g.multiply(mean, mean));
  const Tensor inverse = g.unary(HloOpcode::kRsqrt, g.offset(variance, 1e-5));
  const Tensor normal = g.multiply(g.subtract(x, g.broadcast(mean, extents, {0})),
                                   g.broadcast(inverse, extents, {0}));
  const std::uint64_t cycles = test.check({normal}, {1e-5, 1e-5}).cycles;
  const CoreParams core;
  const std::uint64_t sums = 2 * core.xlu_interval_cycles * kTiles;
  EXPECT_GT(cycles, sums);
  EXPECT_LT(cycles, sums + kTiles / 16 * (core.xlu_latency_cycles + 40));
}

TEST(Reduce, OperationsBehindASumAlongRowsAreOfItsKernel) {
  FusedGraph test;
  const Tensor x = test.input(ElementType::kF32, {20, 140});
  const Tensor mean = test.graph.scale(test.graph.reduce_sum(x, {0}), 0.05);
  test.check({mean}, {1e-5, 1e-5});
}

TEST(Reduce, OperationsBehindASumOverMatricesAreRefused) {
  FusedGraph test;
  const Tensor x = test.input(ElementType::kF32, {4, 20, 140});
  const Tensor mean = test.graph.scale(test.graph.reduce_sum(x, {0}), 0.25);
  EXPECT_THROW(test.check({mean}), WorkloadError);
}

}  // namespace
}  // namespace tpu::test::reduce_test
