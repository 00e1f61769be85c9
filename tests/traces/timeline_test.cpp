#include "traces/timeline.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace tpu::traces::timeline_test {
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

double sum_of(const std::vector<double>& parts) {
  double sum = 0;
  for (const double part : parts) sum += part;
  return sum;
}

/// Two amounts that together need the whole of [0, 20) at one a cycle; the one that ends first goes
/// first.
TEST(Binned, NothingIsLostThatBeginsAtAnEdgeOfParts) {
  for (std::uint64_t begin = 0; begin < 2200; begin += 11) {
    const std::vector<double> sums = binned({{begin, 2200, 1}}, 2200, 2000);
    EXPECT_NEAR(std::accumulate(sums.begin(), sums.end(), 0.0), 1, 1e-9) << begin;
  }
}

TEST(BinnedWithin, NoPartIsOverFullAndNothingGetsLost) {
  const std::vector<Quantity> greedy{{0, 20, 10}, {0, 10, 10}};
  EXPECT_EQ(binned_within({}, greedy, 20, 4, 1), (std::vector<double>{5, 5, 5, 5}));
  EXPECT_EQ(binned_within({}, greedy, 20, 4, 2), (std::vector<double>{10, 10, 0, 0}));
}

TEST(BinnedWithin, EvenAmountsComeFirstAndWhatIsTooMuchPassesLater) {
  EXPECT_EQ(binned_within({{0, 10, 30}}, {{0, 10, 5}}, 40, 4, 2),
            (std::vector<double>{20, 15, 0, 0}));
  EXPECT_EQ(binned_within({}, {{30, 40, 30}}, 40, 4, 2), (std::vector<double>{0, 0, 10, 20}));
}

/// What the last parts have no room for passes before them, to the first one and to the last byte.
TEST(BinnedWithin, WhatIsTooMuchAtTheEndPassesEarlier) {
  EXPECT_EQ(binned_within({{30, 40, 79}}, {}, 40, 4, 2), (std::vector<double>{19, 20, 20, 20}));
  EXPECT_EQ(binned_within({{30, 40, 20.5}}, {}, 40, 4, 2), (std::vector<double>{0, 0, 0.5, 20}));
}

/// What begins where the run ends passes in its last part.
TEST(BinnedWithin, WhatBeginsAtTheEndIsNotLost) {
  EXPECT_EQ(binned_within({}, {{40, 40, 3}, {45, 50, 4}}, 40, 4, 2),
            (std::vector<double>{0, 0, 0, 7}));
}

TEST(BinnedWithin, RandomAmountsKeepTheirSum) {
  std::uint64_t state = 1;
  const auto random = [&](std::uint64_t below) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (state >> 33) % below;
  };
  for (int round = 0; round < 200; ++round) {
    std::vector<Quantity> even, greedy;
    double sum = 0;
    for (int i = 0; i < 13; ++i) {
      const std::uint64_t begin = random(300);
      Quantity each{begin, begin + random(100), static_cast<double>(random(150))};
      sum += each.amount;
      (i % 4 == 0 ? even : greedy).push_back(each);
    }
    const std::vector<double> parts = binned_within(even, greedy, 1000, 7, 2);
    EXPECT_NEAR(sum_of(parts), sum, 1e-9 * sum);
    for (const double part : parts) EXPECT_LE(part, 2 * 1000.0 / 7 + 1e-9);
  }
}

}  // namespace
}  // namespace tpu::traces::timeline_test
