#include "workloads/compiler/kernels/relayout/relayout_stretches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "workloads/compiler/ir/array_layout.h"

namespace tpu::test::relayout_stretches_test {
namespace {

using namespace compiler;

/// Index of the result: operand and index of the source, along the dimension that is cut.
using Taken = std::multiset<std::tuple<std::int64_t, int, std::int64_t>>;

SlabArray rows_of(std::int64_t extent, int operand) {
  const hlo::Shape shape = hlo::array_shape(hlo::ElementType::kF32, {extent, 8, 128});
  return {operand, in_order(shape, {0, 1, 2}), -1};
}

/// Boxes of random places, lengths, steps and spreads along the first dimension.
MovedSlabs random_boxes(std::mt19937& random, std::int64_t result, std::int64_t sources) {
  const auto below = [&](std::int64_t end) {
    return std::uniform_int_distribution<std::int64_t>(0, end - 1)(random);
  };
  MovedSlabs moved{{}, {}, rows_of(result, 2), 0, {}};
  for (const int operand : {0, 1}) moved.operands.push_back(rows_of(sources, operand));
  for (std::int64_t boxes = 1 + below(6); boxes > 0; --boxes) {
    Box box;
    box.source = static_cast<int>(below(2));
    box.dimensions.resize(3);
    Box::Dimension& d = box.dimensions[0];
    d.spread = below(4) == 0 ? 1 + below(3) : 1;
    d.step = below(4) == 0 ? 1 + below(3) : 1;
    d.to = below(3) == 0 ? 0 : below(result);
    d.from = below(3) == 0 ? 0 : below(sources);
    d.extent = std::min((result - 1 - d.to) / d.spread, (sources - 1 - d.from) / d.step) + 1;
    if (below(3) == 0) d.extent = 1 + below(d.extent);
    if (below(3) == 0) {  // Backwards.
      d.from += (d.extent - 1) * d.step;
      d.step = -d.step;
    }
    moved.boxes.push_back(box);
  }
  return moved;
}

/// What slabs bring is what boxes bring, out of the part of a source that the slab has, however
/// many of them are alike.
TEST(RelayoutStretches, BringWhatBoxesBring) {
  std::mt19937 random(7);
  std::size_t slabs = 0, stretches = 0;
  for (int round = 0; round < 300; ++round) {
    const std::int64_t result = 1 + random() % 700, sources = 1 + random() % 700;
    MovedSlabs moved = random_boxes(random, result, sources);
    std::vector<std::vector<Box>> of_stretches;
    moved.body = [&](std::vector<Box> boxes) {
      of_stretches.push_back(std::move(boxes));
      return SlabBody();
    };
    const std::vector<SlabStretch> made = stretches_of(moved, 1 + random() % 5);
    Taken wanted, taken;
    for (const Box& box : moved.boxes) {
      const Box::Dimension& d = box.dimensions[0];
      for (std::int64_t i = 0; i < d.extent; ++i) {
        wanted.emplace(d.to + i * d.spread, box.source, d.from + i * d.step);
      }
    }
    ASSERT_EQ(made.size(), of_stretches.size());
    std::int64_t begin = 0;
    for (std::size_t s = 0; s < made.size(); ++s) {
      const SlabStretch& stretch = made[s];
      ASSERT_EQ(stretch.target.begin, begin);
      for (std::int64_t slab = 0; slab * stretch.slab < stretch.extent; ++slab, ++slabs) {
        for (const Box& box : of_stretches[s]) {
          const SlabArray& source = stretch.sources[static_cast<std::size_t>(box.source)];
          const Box::Dimension& d = box.dimensions[0];
          for (std::int64_t i = 0; i < d.extent; ++i) {
            const std::int64_t from = d.from + i * d.step;
            EXPECT_GE(from, 0);
            EXPECT_LT(from, stretch.slab + source.more);
            taken.emplace(begin + slab * stretch.slab + d.to + i * d.spread, source.operand,
                          source.begin + slab * *source.advance + from);
          }
        }
      }
      begin += stretch.extent;
    }
    ASSERT_EQ(begin, result) << round;
    ASSERT_TRUE(taken == wanted) << round;
    stretches += made.size();
  }
  EXPECT_GT(slabs, 5 * stretches);
}

}  // namespace
}  // namespace tpu::test::relayout_stretches_test
