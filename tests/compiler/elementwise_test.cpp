#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "tests/compiler/fused_graph.h"

namespace tpu::test::elementwise_test {
namespace {

using frontend::GraphBuilder;
using frontend::Tensor;
using hlo::ElementType;
using hlo::HloOpcode;

TEST(Elementwise, AddsArraysOfOddExtents) {
  FusedGraph test;
  const Tensor a = test.input(ElementType::kF32, {37, 300});
  const Tensor b = test.input(ElementType::kF32, {37, 300});
  test.check({test.graph.add(a, b)});
}

TEST(Elementwise, StreamsManyBlocks) {
  FusedGraph test;
  const Tensor a = test.input(ElementType::kF32, {1003, 257});
  const Tensor b = test.input(ElementType::kF32, {1003, 257});
  test.check({test.graph.multiply(a, b), test.graph.subtract(a, b)});
}

TEST(Elementwise, ScalarsAndVectors) {
  FusedGraph test;
  const Tensor a = test.input(ElementType::kF32, {});
  const Tensor b = test.input(ElementType::kF32, {});
  test.check({test.graph.add(a, b)});
  FusedGraph vectors;
  const Tensor c = vectors.input(ElementType::kF32, {3000});
  const Tensor d = vectors.input(ElementType::kF32, {});
  vectors.check({vectors.graph.multiply(c, vectors.graph.broadcast(d, {3000}, {}))});
}

TEST(Elementwise, VectorAlongLanesIsReadOncePerTile) {
  for (const frontend::Extents& extents : std::vector<frontend::Extents>{
           {50, 64}, {9, 200}, {3, 5, 21, 130}, {17, 1500}, {40, 3000}}) {
    FusedGraph test;
    const std::int64_t last = static_cast<std::int64_t>(extents.size()) - 1;
    const Tensor x = test.input(ElementType::kF32, extents);
    const Tensor scale = test.input(ElementType::kF32, {extents.back()});
    const Tensor shift = test.input(ElementType::kF32, {extents.back()});
    const Tensor scaled = test.graph.multiply(x, test.graph.broadcast(scale, extents, {last}));
    test.check({test.graph.add(scaled, test.graph.broadcast(shift, extents, {last}))});
  }
}

TEST(Elementwise, SpatialLayoutWithChannelVector) {
  FusedGraph test;
  test.set_layout({3, 0, 2, 1});
  const frontend::Extents extents{5, 7, 9, 70};
  const Tensor x = test.input(ElementType::kF32, extents);
  const Tensor scale = test.input(ElementType::kF32, {70});
  const Tensor y = test.graph.multiply(x, test.graph.broadcast(scale, extents, {3}));
  test.check({test.graph.binary(HloOpcode::kMaximum, y, test.graph.splat_like(y, 0))});
}

TEST(Elementwise, PackedOperandsAndResults) {
  for (const frontend::Extents& extents :
       std::vector<frontend::Extents>{{50, 64}, {9, 200}, {3, 21, 130}, {17, 1500}, {300, 700}}) {
    FusedGraph test;
    const std::int64_t last = static_cast<std::int64_t>(extents.size()) - 1;
    const Tensor a = test.input(ElementType::kBf16, extents);
    const Tensor b = test.input(ElementType::kF32, extents);
    const Tensor c = test.input(ElementType::kF32, {extents.back()});
    const Tensor sum = test.graph.add(test.graph.convert(a, ElementType::kF32), b);
    const Tensor product = test.graph.multiply(sum, test.graph.broadcast(c, extents, {last}));
    test.check({sum, test.graph.convert(product, ElementType::kBf16)});
  }
}

TEST(Elementwise, RowValuesAreSpreadOverLanes) {
  for (const frontend::Extents& extents :
       std::vector<frontend::Extents>{{50, 64}, {200, 200}, {17, 1500}, {1100, 10}}) {
    FusedGraph test;
    const Tensor x = test.input(ElementType::kF32, extents);
    const Tensor row = test.input(ElementType::kF32, {extents[0]});
    test.check({test.graph.subtract(x, test.graph.broadcast(row, extents, {0}))});
  }
}

TEST(Elementwise, RowValuesOfHigherRank) {
  for (ElementType type : {ElementType::kF32, ElementType::kBf16}) {
    FusedGraph test;
    const frontend::Extents extents{3, 10, 21, 140};
    const Tensor x = test.input(ElementType::kF32, extents);
    const Tensor row = test.input(type, {3, 10, 21});
    const Tensor wide = test.graph.convert(row, ElementType::kF32);
    test.check({test.graph.subtract(x, test.graph.broadcast(wide, extents, {0, 1, 2}))});
  }
}

TEST(Elementwise, OperandsOfFewerMajorsAndRows) {
  FusedGraph test;
  const frontend::Extents extents{4, 11, 20, 150};
  const Tensor x = test.input(ElementType::kF32, extents);
  const Tensor tile = test.input(ElementType::kF32, {20, 150});
  const Tensor major = test.input(ElementType::kF32, {11, 150});
  const Tensor packed = test.input(ElementType::kBf16, {4, 150});
  const Tensor one = test.input(ElementType::kF32, {11});
  Tensor sum = test.graph.add(x, test.graph.broadcast(tile, extents, {2, 3}));
  sum = test.graph.add(sum, test.graph.broadcast(major, extents, {1, 3}));
  const Tensor wide = test.graph.convert(packed, ElementType::kF32);
  sum = test.graph.add(sum, test.graph.broadcast(wide, extents, {0, 3}));
  test.check({test.graph.add(sum, test.graph.broadcast(one, extents, {1}))});
}

/// What comes again along other axes is spread over the lanes once, where it has room (512
/// registers) and comes often enough: eight times, or where the unit that spreads it, a register
/// in eight cycles, takes less for it once, and then what streams, than for it each time.
TEST(Elementwise, ColumnsOfMajorsAreSpreadOnce) {
  struct Case {
    frontend::Extents extents;
    std::vector<std::int64_t> axes;
    bool is_kept;
    std::size_t columns = 1;
  };
  for (const Case& each :
       {Case{{5, 6, 40, 100}, {1}, true}, Case{{8, 6, 40, 100}, {1, 2}, true},
        Case{{7, 6, 40, 100}, {1, 2}, false}, Case{{3, 30, 20, 100}, {0, 2}, true},
        Case{{4, 8, 16, 9, 20}, {1, 2}, true}, Case{{513, 9, 8, 20}, {0}, false},
        Case{{512, 9, 8, 20}, {0}, true}, Case{{256, 7, 8, 20}, {0}, false},
        // Two streams take 18.6 cycles a register.
        Case{{400, 9, 8, 20}, {0}, true, 12}, Case{{7, 20, 40, 100}, {1, 2}, true, 3},
        Case{{7, 20, 40, 100}, {1, 2}, false, 2}, Case{{4, 20, 40, 100}, {1, 2}, true, 6},
        Case{{4, 20, 40, 100}, {1, 2}, false, 3}}) {
    FusedGraph test;
    const Tensor x = test.input(ElementType::kF32, each.extents);
    frontend::Extents own;
    for (std::int64_t axis : each.axes) {
      own.push_back(each.extents[static_cast<std::size_t>(axis)]);
    }
    std::vector<Tensor> columns;
    for (std::size_t i = 0; i < each.columns; ++i) {
      columns.push_back(test.input(ElementType::kF32, own));
    }
    std::vector<std::int64_t> row_major(each.extents.size());
    std::iota(row_major.rbegin(), row_major.rend(), 0);
    test.set_layout(row_major);
    const auto rows = *(each.extents.end() - 2);
    const std::uint64_t registers = static_cast<std::uint64_t>(std::accumulate(
        each.extents.begin(), each.extents.end() - 2, (rows + 7) / 8, std::multiplies<>()));
    Tensor result = x;
    for (const Tensor& column : columns) {
      result = test.graph.multiply(result, test.graph.broadcast(column, each.extents, each.axes));
    }
    const std::uint64_t cycles = test.check({result}).cycles;
    EXPECT_EQ(each.is_kept, cycles < 8 * each.columns * registers)
        << hlo::to_string(hlo::array_shape(ElementType::kF32, each.extents)) << ", " << each.columns
        << " columns: " << cycles << " cycles, " << registers << " registers";
  }
}

/// Row tiles of a prime number, more than a block: of a single matrix in groups of eight, the last
/// one smaller; of several, where a group would go on in the next one, tile by tile. Numbers of
/// rows take the XLU's latency, which a group waits for once.
TEST(Elementwise, LargeMatricesOfAPrimeNumberOfRowTilesHaveGroups) {
  const auto cycles = [](const frontend::Extents& extents) {
    FusedGraph test;
    const Tensor x = test.input(ElementType::kF32, extents);
    frontend::Extents rows = extents;
    rows.pop_back();
    const Tensor column = test.input(ElementType::kF32, rows);
    std::vector<std::int64_t> axes(rows.size()), order(extents.size());
    std::iota(axes.begin(), axes.end(), 0);
    std::iota(order.rbegin(), order.rend(), 0);
    test.set_layout(order);
    return static_cast<double>(
        test.check({test.graph.multiply(x, test.graph.broadcast(column, extents, axes))}).cycles);
  };
  const double latency = compiler::Target().xlu_latency_cycles;
  EXPECT_LT(cycles({8 * 257, 20}), 257 * latency / 2);
  // As one block it would not fit VMEM.
  EXPECT_LT(cycles({8 * 1021, 1000}), 1021 * latency);
  cycles({3, 8 * 257, 20});
}

TEST(Elementwise, OneHotOfIntegerLabels) {
  FusedGraph test;
  const frontend::Extents extents{37, 300};
  const Tensor labels = test.input(ElementType::kS32, {37}, 0, 300);
  const Tensor hot =
      test.graph.compare(test.graph.iota(ElementType::kS32, extents, 1),
                         test.graph.broadcast(labels, extents, {0}), hlo::ComparisonDirection::kEq);
  test.check({test.graph.convert(hot, ElementType::kF32)});
}

TEST(Elementwise, LargeIntegersSpreadExactly) {
  FusedGraph test;
  const Tensor labels = test.input(ElementType::kS32, {37}, -2.0e9, 2.0e9);
  test.check({test.graph.broadcast(labels, {37, 20}, {0})}, {0, 0});
}

TEST(Elementwise, IotaAlongEachDimension) {
  for (std::int64_t dimension = 0; dimension < 4; ++dimension) {
    FusedGraph test;
    test.set_layout({3, 0, 2, 1});
    test.check({test.graph.iota(ElementType::kF32, {19, 3, 4, 200}, dimension),
                test.graph.iota(ElementType::kS32, {19, 3, 4, 200}, dimension)},
               {0, 0});
  }
  FusedGraph linear;
  linear.check({linear.graph.iota(ElementType::kS32, {5000}, 0)}, {0, 0});
}

/// One operation over a range of arguments.
void check_unary(HloOpcode opcode, double low, double high, const Tolerance& tolerance) {
  SCOPED_TRACE(std::string(hlo::to_string(opcode)));
  FusedGraph test;
  const Tensor x = test.input(ElementType::kF32, {30, 200}, low, high);
  test.check({test.graph.unary(opcode, x)}, tolerance);
}

TEST(Expression, UnaryOperationsAreAccurate) {
  check_unary(HloOpcode::kNegate, -3, 3, {0, 0});
  check_unary(HloOpcode::kAbs, -3, 3, {0, 0});
  check_unary(HloOpcode::kSign, -3, 3, {0, 0});
  check_unary(HloOpcode::kFloor, -300, 300, {0, 0});
  check_unary(HloOpcode::kCeil, -300, 300, {0, 0});
  check_unary(HloOpcode::kExponential, -10, 10, {2e-6, 0});
  check_unary(HloOpcode::kExponentialMinusOne, -1e-3, 1e-3, {1e-6, 0});
  check_unary(HloOpcode::kExponentialMinusOne, -10, 10, {2e-6, 0});
  check_unary(HloOpcode::kLog, 1e-3, 1000, {1e-6, 1e-7});
  check_unary(HloOpcode::kLogPlusOne, -1e-3, 1e-3, {1e-6, 0});
  check_unary(HloOpcode::kLogPlusOne, -0.9, 1000, {1e-6, 1e-7});
  check_unary(HloOpcode::kSqrt, 0, 1000, {5e-7, 0});
  check_unary(HloOpcode::kRsqrt, 1e-3, 1000, {5e-7, 0});
  check_unary(HloOpcode::kTanh, -4, 4, {5e-7, 0});
  check_unary(HloOpcode::kLogistic, -20, 20, {5e-6, 0});
  check_unary(HloOpcode::kErf, -5, 5, {2e-6, 1e-7});
}

TEST(Expression, DivisionComparisonAndSelection) {
  FusedGraph test;
  GraphBuilder& g = test.graph;
  const frontend::Extents extents{20, 140};
  const Tensor a = test.input(ElementType::kF32, extents, -5, 5);
  const Tensor b = test.input(ElementType::kF32, extents, 0.5, 9);
  const Tensor quotient = g.divide(a, b);
  const Tensor less = g.compare(a, b, hlo::ComparisonDirection::kLt);
  const Tensor positive = g.compare(a, g.splat_like(a, 0), hlo::ComparisonDirection::kGt);
  const Tensor both = g.binary(HloOpcode::kAnd, less, positive);
  const Tensor either = g.binary(HloOpcode::kOr, less, positive);
  const Tensor neither = g.unary(HloOpcode::kNot, either);
  test.check({g.select(both, quotient, g.splat_like(a, -7)),
              g.convert(g.binary(HloOpcode::kXor, both, neither), ElementType::kF32),
              g.divide(a, g.splat_like(a, 3)), g.divide(g.splat_like(a, 2), b)});
}

TEST(Expression, IntegerArithmetic) {
  FusedGraph test;
  GraphBuilder& g = test.graph;
  const frontend::Extents extents{20, 140};
  const Tensor a = test.input(ElementType::kS32, extents, -30000, 30000);
  const Tensor b = test.input(ElementType::kS32, extents, -30000, 30000);
  test.check({g.add(a, b), g.multiply(a, b), g.binary(HloOpcode::kMaximum, a, b),
              g.convert(a, ElementType::kF32)},
             {0, 0});
  FusedGraph back;
  const Tensor x = back.input(ElementType::kF32, extents, -30000, 30000);
  back.check({back.graph.convert(x, ElementType::kS32)}, {0, 0});
}

TEST(Expression, PowersWithConstants) {
  FusedGraph test;
  GraphBuilder& g = test.graph;
  const Tensor x = test.input(ElementType::kF32, {20, 140}, 0.1, 3);
  const auto power = [&](double exponent) {
    return g.binary(HloOpcode::kPower, x, g.splat_like(x, exponent));
  };
  test.check({power(2), power(-3), power(0.5), power(1.7),
              g.binary(HloOpcode::kPower, g.splat_like(x, 0.9), x)},
             {3e-6, 0});
}

TEST(Expression, PowersOfAnyBaseAndExponent) {
  FusedGraph test;
  GraphBuilder& g = test.graph;
  const Tensor x = test.input(ElementType::kF32, {20, 140}, -3, 3);
  const Tensor y = test.input(ElementType::kF32, {20, 140}, -3, 3);
  // Negative bases with whole exponents, 0 among them; others are no number.
  const Tensor whole = g.unary(HloOpcode::kFloor, y);
  test.check({g.binary(HloOpcode::kPower, x, whole), g.binary(HloOpcode::kPower, x, y)}, {4e-6, 0});
}

}  // namespace
}  // namespace tpu::test::elementwise_test
