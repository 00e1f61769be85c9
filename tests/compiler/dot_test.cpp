#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "tests/compiler/kernel_harness.h"
#include "tests/compiler/padded_array.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/kernels/contraction/dot_kernel.h"
#include "workloads/compiler/kernels/lowering.h"

namespace tpu::test::dot_test {
namespace {

using compiler::Target;
using hlo::ElementType;
using hlo::Shape;
using Extents = std::vector<std::int64_t>;

Target v2_target() {
  Target target;
  target.chip = "v2";
  target.mxu_count = 1;
  return target;
}

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

struct DotCase {
  std::string name;
  Extents lhs, rhs;
  hlo::DotDimensions dims;
  ElementType lhs_type = ElementType::kF32, rhs_type = ElementType::kF32;
  ElementType out_type = ElementType::kF32;
  /// Minor to major; empty: row-major.
  Extents lhs_layout = {};
  Extents rhs_layout = {};
  Extents out_layout = {};
};

Shape in_layout(Shape shape, const Extents& layout) {
  if (!layout.empty()) shape.layout = compiler::tiled_layout(shape.type, layout);
  return shape;
}

Extents free_of(const Extents& extents, const Extents& batch, const Extents& contracting) {
  Extents free;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    const auto has = [&](const Extents& list) {
      return std::find(list.begin(), list.end(), static_cast<std::int64_t>(d)) != list.end();
    };
    if (!has(batch) && !has(contracting)) free.push_back(static_cast<std::int64_t>(d));
  }
  return free;
}

/// A module with one dot of two parameters.
hlo::Module dot_module(const DotCase& test) {
  hlo::Module module;
  module.computations.emplace_back();
  hlo::Computation& computation = module.computations[0];
  module.entry = 0;
  const auto parameter = [&](std::int64_t number, ElementType type, const Extents& extents,
                             const Extents& layout) {
    hlo::HloInstruction instruction;
    instruction.id = static_cast<hlo::InstructionId>(computation.instructions.size());
    instruction.name = "p" + std::to_string(number);
    instruction.opcode = hlo::HloOpcode::kParameter;
    instruction.parameter_number = number;
    instruction.shape = in_layout(array_in_memory(type, extents), layout);
    computation.instructions.push_back(instruction);
  };
  parameter(0, test.lhs_type, test.lhs, test.lhs_layout);
  parameter(1, test.rhs_type, test.rhs, test.rhs_layout);
  hlo::HloInstruction dot;
  dot.id = 2;
  dot.name = test.name;
  dot.opcode = hlo::HloOpcode::kDot;
  dot.operands = {0, 1};
  dot.dot = test.dims;
  Extents out;
  for (std::int64_t d : test.dims.lhs_batch) out.push_back(test.lhs[static_cast<std::size_t>(d)]);
  for (std::int64_t d : free_of(test.lhs, test.dims.lhs_batch, test.dims.lhs_contracting)) {
    out.push_back(test.lhs[static_cast<std::size_t>(d)]);
  }
  for (std::int64_t d : free_of(test.rhs, test.dims.rhs_batch, test.dims.rhs_contracting)) {
    out.push_back(test.rhs[static_cast<std::size_t>(d)]);
  }
  dot.shape = in_layout(array_in_memory(test.out_type, out), test.out_layout);
  computation.instructions.push_back(dot);
  computation.root = 2;
  return module;
}

/// Row-major position of indices.
std::size_t flat(const Extents& extents, const Extents& index) {
  std::size_t at = 0;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    at = at * static_cast<std::size_t>(extents[d]) + static_cast<std::size_t>(index[d]);
  }
  return at;
}

/// The dot by loops over its indices, of operands rounded to bf16, summed in double.
std::vector<float> expected_dot(const DotCase& test, const std::vector<float>& lhs,
                                const std::vector<float>& rhs) {
  const Extents lhs_free = free_of(test.lhs, test.dims.lhs_batch, test.dims.lhs_contracting);
  const Extents rhs_free = free_of(test.rhs, test.dims.rhs_batch, test.dims.rhs_contracting);
  std::vector<std::pair<std::int64_t, std::int64_t>> digits;  // (dimension of lhs, of rhs)
  for (std::size_t i = 0; i < test.dims.lhs_batch.size(); ++i) {
    digits.emplace_back(test.dims.lhs_batch[i], test.dims.rhs_batch[i]);
  }
  for (std::int64_t d : lhs_free) digits.emplace_back(d, -1);
  for (std::int64_t d : rhs_free) digits.emplace_back(-1, d);
  Extents extents;
  for (const auto& [l, r] : digits) {
    extents.push_back(l >= 0 ? test.lhs[static_cast<std::size_t>(l)]
                             : test.rhs[static_cast<std::size_t>(r)]);
  }
  std::size_t count = 1;
  for (std::int64_t extent : extents) count *= static_cast<std::size_t>(extent);
  std::int64_t terms = 1;
  for (std::int64_t d : test.dims.lhs_contracting) terms *= test.lhs[static_cast<std::size_t>(d)];
  // How far each term's elements lie behind those of the first term.
  std::vector<std::size_t> left_of(static_cast<std::size_t>(terms)), right_of(left_of.size());
  for (std::size_t k = 0; k < left_of.size(); ++k) {
    Extents l(test.lhs.size()), r(test.rhs.size());
    auto left = static_cast<std::int64_t>(k);
    for (std::size_t j = 0; j < test.dims.lhs_contracting.size(); ++j) {
      const auto lk = static_cast<std::size_t>(test.dims.lhs_contracting[j]);
      l[lk] = r[static_cast<std::size_t>(test.dims.rhs_contracting[j])] = left % test.lhs[lk];
      left /= test.lhs[lk];
    }
    left_of[k] = flat(test.lhs, l);
    right_of[k] = flat(test.rhs, r);
  }
  std::vector<double> x(lhs.size()), y(rhs.size());
  std::transform(lhs.begin(), lhs.end(), x.begin(), rounded_to_bf16);
  std::transform(rhs.begin(), rhs.end(), y.begin(), rounded_to_bf16);
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i) {
    Extents l(test.lhs.size()), r(test.rhs.size());
    std::size_t rest = i;
    for (std::size_t d = digits.size(); d-- > 0;) {
      const auto digit = static_cast<std::int64_t>(rest % static_cast<std::size_t>(extents[d]));
      rest /= static_cast<std::size_t>(extents[d]);
      if (digits[d].first >= 0) l[static_cast<std::size_t>(digits[d].first)] = digit;
      if (digits[d].second >= 0) r[static_cast<std::size_t>(digits[d].second)] = digit;
    }
    const std::size_t left = flat(test.lhs, l), right = flat(test.rhs, r);
    double sum = 0;
    for (std::size_t k = 0; k < left_of.size(); ++k) {
      sum += x[left + left_of[k]] * y[right + right_of[k]];
    }
    out[i] = static_cast<float>(sum);
  }
  return out;
}

/// `expected`: computed where it is empty.
void check_dot(const DotCase& test, const Target& target, std::vector<float>& expected) {
  SCOPED_TRACE(test.name + " on " + target.chip);
  const hlo::Module module = dot_module(test);
  const hlo::Computation& computation = module.computations[0];
  const compiler::LoweredKernel lowered =
      compiler::lower_dot(module, computation, computation.at(2), target);
  const PaddedArray lhs = random_array(computation.at(0).shape, 1);
  const PaddedArray rhs = random_array(computation.at(1).shape, 2);
  if (expected.empty()) expected = expected_dot(test, lhs.values, rhs.values);
  for (DmaTiming timing : {DmaTiming::kAtOnce, DmaTiming::kLate}) {
    KernelHarness harness(target);
    const std::uint32_t a = harness.place(lhs.words);
    const std::uint32_t b = harness.place(rhs.words);
    const Shape& shape = computation.at(2).shape;
    const std::uint32_t c = harness.reserve(compiler::granules(shape) * 1024);
    harness.run(lowered.kernel, {a, b, c}, timing);
    const std::vector<float> out =
        values_of(shape, harness.read(c, compiler::granules(shape) * 256));
    ASSERT_EQ(out.size(), expected.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      const double tolerance =
          test.out_type == ElementType::kBf16 ? 0.02 + 0.01 * std::abs(expected[i]) : 2e-4;
      ASSERT_NEAR(out[i], expected[i], tolerance) << "element " << i;
    }
  }
}

void check_dot(const DotCase& test, const Target& target) {
  std::vector<float> expected;
  check_dot(test, target, expected);
}

void check_dot(const DotCase& test) {
  std::vector<float> expected;
  check_dot(test, Target{}, expected);
  check_dot(test, v2_target(), expected);
}

const hlo::DotDimensions kPlain{{}, {}, {1}, {0}};
const hlo::DotDimensions kRightTransposed{{}, {}, {1}, {1}};
const hlo::DotDimensions kLeftTransposed{{}, {}, {0}, {0}};

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

/// The kernels of one product, cut in different ways.
class CutDot {
 public:
  explicit CutDot(const DotCase& test, bool keeps_matrices = false)
      : module_(dot_module(test)),
        computation_(module_.computations[0]),
        epilogue_(compiler::matmul_epilogue(module_, computation_, computation_.at(2))),
        problem_(compiler::dot_problem(computation_.at(2), epilogue_.lhs_shape, epilogue_.rhs_shape,
                                       epilogue_.out_shape, {keeps_matrices})),
        lhs_(random_array(computation_.at(0).shape, 1)),
        rhs_(random_array(computation_.at(1).shape, 2)),
        expected_(expected_dot(test, lhs_.values, rhs_.values)) {}

  const compiler::DotProblem& problem() const { return problem_; }
  void take_lanes() {
    compiler::take_rows_in_lanes(problem_);
    compiler::take_k_in_lanes(problem_);
  }

  void check(const compiler::DotTiling& tiling, const Target& target) const {
    const compiler::LoweredKernel lowered =
        compiler::dot_kernel(problem_, tiling, epilogue_, target);
    const Shape& shape = computation_.at(2).shape;
    KernelHarness harness(target);
    const std::uint32_t a = harness.place(lhs_.words);
    const std::uint32_t b = harness.place(rhs_.words);
    const std::uint32_t c = harness.reserve(compiler::granules(shape) * 1024);
    harness.run(lowered.kernel, {a, b, c});
    const std::vector<float> out =
        values_of(shape, harness.read(c, compiler::granules(shape) * 256));
    for (std::size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], expected_[i], 2e-4) << i;
  }

 private:
  hlo::Module module_;
  const hlo::Computation& computation_;
  compiler::MatmulEpilogue epilogue_;
  compiler::DotProblem problem_;
  PaddedArray lhs_, rhs_;
  std::vector<float> expected_;
};

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
