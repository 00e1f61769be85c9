#include "traces/timeline.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace tpu::traces {
namespace {

TEST(DisjointLanes, SpansThatTouchShareALane) {
  const auto lanes = disjoint_lanes({{0, 10, 0}, {10, 20, 1}, {20, 20, 2}, {20, 30, 3}});
  ASSERT_EQ(lanes.size(), 1u);
  EXPECT_EQ(lanes[0].size(), 4u);
}

TEST(DisjointLanes, OneCycleOfOverlapNeedsASecondLane) {
  EXPECT_EQ(disjoint_lanes({{0, 10, 0}, {9, 20, 1}}).size(), 2u);
}

TEST(DisjointLanes, LanesAreAsManyAsSpansOverlapAtMost) {
  std::mt19937 random(3);
  for (int round = 0; round < 100; ++round) {
    std::vector<Span> spans;
    std::uint64_t begin = 0;
    for (std::size_t i = 0; i < 40; ++i) {
      begin += random() % 4;
      spans.push_back({begin, begin + 1 + random() % 12, i});
    }
    std::size_t most = 0;
    for (const Span& at : spans) {
      std::size_t alive = 0;
      for (const Span& span : spans) {
        if (span.begin <= at.begin && at.begin < span.end) ++alive;
      }
      most = std::max(most, alive);
    }
    const auto lanes = disjoint_lanes(spans);
    EXPECT_EQ(lanes.size(), most);
    std::size_t count = 0;
    for (const auto& lane : lanes) {
      count += lane.size();
      for (std::size_t i = 1; i < lane.size(); ++i) EXPECT_GE(lane[i].begin, lane[i - 1].end);
    }
    EXPECT_EQ(count, spans.size());
  }
}

TEST(Binned, AnAmountIsSpreadEvenly) {
  EXPECT_EQ(binned({{5, 25, 40}}, 40, 4), (std::vector<double>{10, 20, 10, 0}));
}

TEST(Binned, AnEmptySpanFallsIntoOnePart) {
  EXPECT_EQ(binned({{10, 10, 3}}, 40, 4), (std::vector<double>{0, 3, 0, 0}));
}

TEST(Binned, NothingIsLost) {
  std::mt19937 random(5);
  std::vector<Quantity> quantities;
  double total = 0;
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t begin = random() % 1000;
    const std::uint64_t end = begin + random() % (1000 - begin + 1);
    quantities.push_back({begin, end, static_cast<double>(random() % 100)});
    total += quantities.back().amount;
  }
  const std::vector<double> sums = binned(quantities, 1000, 37);
  EXPECT_NEAR(std::accumulate(sums.begin(), sums.end(), 0.0), total, 1e-6 * total);
}

}  // namespace
}  // namespace tpu::traces
