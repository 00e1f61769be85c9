#include "models/memory/hbm_controller.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>
#include <set>

#include "sim/base/error.h"
#include "tests/models/hbm_burst_twin.h"

namespace tpu::hbm_controller_test {
namespace {

constexpr std::uint32_t kClock = 940;

// Of a v3 chip, in memory clocks of 1/900 us: 32 bursts of two clocks each.
constexpr std::uint64_t kGranule = 64;
constexpr std::uint64_t kFirstRead = 27;             // 12 ns + 18 ns
constexpr std::uint64_t kFirstWrite = 12;            // 6 ns + 7 ns
constexpr std::uint64_t kToRead = 25;                // 9 ns + 18 ns
constexpr std::uint64_t kToWrite = 2;                // of the bus alone
constexpr std::uint64_t kReadMiss = 26;              // 5 ns + 14 ns + 12 ns, less a burst
constexpr std::uint64_t kWriteMiss = 37;             // 14 ns + 14 ns + 6 ns + 7 ns
constexpr std::uint64_t kInterval = 3510;            // 3900 ns
constexpr std::uint64_t kFirstRefresh = 675;         // 750 ns
constexpr std::uint64_t kRefresh = 315 + kReadMiss;  // 350 ns
constexpr std::uint64_t kChannels = 32;
constexpr std::uint64_t kLatency = 140;

/// The core cycle in which a request is done whose data ends in a memory clock.
std::uint64_t done_at(std::uint64_t clock) { return (clock * 940 + 899) / 900 + kLatency; }

HbmRequest read(std::uint64_t address, std::uint64_t granules, std::uint64_t token = 0) {
  HbmRequest request;
  request.address = address;
  request.granules = granules;
  request.token = token;
  return request;
}
HbmRequest write(std::uint64_t address, std::uint64_t granules, std::uint64_t token = 0) {
  HbmRequest request = read(address, granules, token);
  request.write = true;
  return request;
}
HbmRequest strided(HbmRequest request, std::uint64_t run, std::uint64_t stride) {
  request.granules_per_run = run;
  request.stride = stride;
  return request;
}

/// The cycle in which each request is done; tokens count from 0.
std::vector<std::uint64_t> finish(HbmController& hbm, std::size_t count) {
  std::vector<std::uint64_t> result(count);
  std::uint64_t now = 0;
  while (const std::optional<std::uint64_t> next = hbm.next_event()) {
    EXPECT_GE(*next, now);
    now = *next;
    for (const HbmRequest& request : hbm.advance(now)) result[request.token] = now;
  }
  return result;
}

std::uint64_t finish_one(const HbmRequest& request, const HbmParams& params = {}) {
  HbmController hbm(params, kClock, 2);
  hbm.submit(request, 0);
  return finish(hbm, 1)[0];
}

HbmParams without_refresh() {
  HbmParams params;
  params.refresh_interval_ns = 0;
  return params;
}

HbmMapping mapping() { return {kChannels, 16, 1}; }

/// The next granule after `granule` in the same channel for which `wanted(row)` holds.
template <class Wanted>
std::uint64_t next_in_channel(std::uint64_t granule, const Wanted& wanted) {
  const std::uint32_t channel = mapping().channel(granule);
  for (std::uint64_t next = granule + 1;; ++next) {
    if (mapping().channel(next) == channel && wanted(mapping().row(next))) return next;
  }
}
std::uint64_t next_in_bank(std::uint64_t granule) {
  const std::uint32_t bank = mapping().bank(mapping().row(granule));
  return next_in_channel(granule, [&](std::uint64_t row) { return mapping().bank(row) == bank; });
}

TEST(HbmController, AGranuleOpensItsRowAndTakesItsBursts) {
  EXPECT_EQ(finish_one(read(5, 1)), done_at(kFirstRead + kGranule));
  EXPECT_EQ(finish_one(write(5, 1)), done_at(kFirstWrite + kGranule));
}

TEST(HbmController, ContiguousGranulesGoToAllChannelsAtOnce) {
  EXPECT_EQ(finish_one(read(0, kChannels)), finish_one(read(0, 1)));
  EXPECT_EQ(finish_one(read(0, kChannels + 1)), done_at(kFirstRead + 2 * kGranule));
  EXPECT_EQ(finish_one(read(64, 5 * kChannels)), done_at(kFirstRead + 5 * kGranule));
}

TEST(HbmController, EachBlockOfGranulesReachesEachChannelOnce) {
  for (std::uint64_t block : {0u, 1u, 31u, 32u, 1000u, 123456u}) {
    std::set<std::uint32_t> reached;
    for (std::uint64_t i = 0; i < kChannels; ++i) {
      reached.insert(mapping().channel(block * kChannels + i));
    }
    EXPECT_EQ(reached.size(), kChannels) << block;
  }
}

TEST(HbmController, NeighbouringRowsOfAChannelLieInDifferentBanks) {
  for (std::uint64_t row = 0; row < 100000; ++row) {
    ASSERT_NE(mapping().bank(row), mapping().bank(row + 1)) << row;
  }
}

TEST(HbmController, StridesOfAPowerOfTwoReachAllChannels) {
  for (std::uint64_t stride : {32u, 64u, 256u, 1024u, 32768u}) {
    std::set<std::uint32_t> reached;
    for (std::uint64_t i = 0; i < 1024; ++i) reached.insert(mapping().channel(i * stride));
    EXPECT_EQ(reached.size(), kChannels) << stride;
  }
  EXPECT_EQ(finish_one(strided(read(0, 32), 1, 32)), finish_one(read(0, 32)));
}

TEST(HbmController, AStrideThatStaysInOneChannelWaitsForIt) {
  // 31 granules further on, the place in a block is one lower and the turn of the block one higher.
  EXPECT_EQ(finish_one(strided(read(31, 31), 1, 31), without_refresh()),
            done_at(kFirstRead + 31 * kGranule));
}

TEST(HbmController, ARowMissWaitsForClosingAndOpening) {
  const std::uint64_t other_bank = next_in_channel(7, [](std::uint64_t) { return true; });
  HbmController hbm({}, kClock, 2);
  hbm.submit(read(7, 1, 0), 0);
  hbm.submit(read(next_in_bank(7), 1, 1), 0);
  const std::vector<std::uint64_t> missing = finish(hbm, 2);
  EXPECT_EQ(missing[0], done_at(kFirstRead + kGranule));
  EXPECT_EQ(missing[1], done_at(kFirstRead + 2 * kGranule + kReadMiss));
  HbmController neighbours({}, kClock, 2);
  neighbours.submit(read(7, 1, 0), 0);
  neighbours.submit(read(other_bank, 1, 1), 0);
  EXPECT_EQ(finish(neighbours, 2)[1], done_at(kFirstRead + 2 * kGranule));
}

TEST(HbmController, AStrideWithinABankMissesARowWithEachGranule) {
  const std::uint64_t second = next_in_bank(0);
  const std::uint64_t stride = second;
  std::uint64_t runs = 1;
  while (mapping().channel(runs * stride) == mapping().channel(0) &&
         mapping().bank(mapping().row(runs * stride)) == mapping().bank(0)) {
    ++runs;
  }
  ASSERT_GE(runs, 2u);
  EXPECT_EQ(finish_one(strided(read(0, runs), 1, stride), without_refresh()),
            done_at(kFirstRead + runs * kGranule + (runs - 1) * kReadMiss));
  EXPECT_EQ(finish_one(strided(write(0, runs), 1, stride), without_refresh()),
            done_at(kFirstWrite + runs * kGranule + (runs - 1) * kWriteMiss));
}

TEST(HbmController, ALargerRowIsHitAgain) {
  HbmParams params;
  params.row_bytes = 2048;
  const HbmMapping large = {kChannels, 16, 2};
  EXPECT_EQ(large.row(0), large.row(kChannels));
  HbmController hbm(params, kClock, 2);
  hbm.submit(read(0, 1, 0), 0);
  hbm.submit(read(kChannels + 31, 1, 1), 0);  // the same channel, one block further on
  ASSERT_EQ(large.channel(0), large.channel(kChannels + 31));
  EXPECT_EQ(finish(hbm, 2)[1], done_at(kFirstRead + 2 * kGranule));
}

TEST(HbmController, ARefreshStopsAllChannelsWhenItIsDue) {
  const std::uint64_t before = 1 + (kFirstRefresh - 1 - kFirstRead) / kGranule;
  EXPECT_EQ(finish_one(read(0, before * kChannels)), done_at(kFirstRead + before * kGranule));
  EXPECT_EQ(finish_one(read(0, (before + 1) * kChannels)),
            done_at(kFirstRead + (before + 1) * kGranule + kRefresh));
}

TEST(HbmController, AnIdleChannelRefreshesOnTime) {
  const std::uint64_t due = kFirstRefresh + kInterval;
  const std::uint64_t now = (due * 940 + 899) / 900;  // the second refresh has just begun
  HbmController hbm({}, kClock, 2);
  hbm.submit(read(0, 1), now);
  EXPECT_EQ(finish(hbm, 1)[0], done_at(due + kRefresh + kGranule));
  HbmController later({}, kClock, 2);
  later.submit(read(0, 1), now + 1000);
  const std::uint64_t arrival = ((now + 1000) * 900 + 939) / 940;
  EXPECT_EQ(finish(later, 1)[0], done_at(arrival + kFirstRead + kGranule));
}

TEST(HbmController, RefreshLeavesNineTenthsOfThePinRate) {
  const std::uint64_t granules = 1 << 20;
  const double rate = 1024.0 * granules / static_cast<double>(finish_one(read(0, granules)));
  const double pins = 1800.0 * 128 * 16 / 8 / kClock;
  const double left = 1 - static_cast<double>(kRefresh) / kInterval;
  EXPECT_NEAR(rate, pins * left, 0.001 * rate);
  EXPECT_NEAR(rate, 440, 5);  // what silicon shows
  const HbmTiming timing({}, kClock);
  EXPECT_NEAR(kChannels * timing.single_rate() * 900 / kClock, rate, 0.001 * rate);
}

TEST(HbmController, ReadsAndWritesTogetherLoseTheTurns) {
  const std::uint64_t granules = 1 << 19;
  HbmController hbm({}, kClock, 2);
  hbm.submit(read(0, granules, 0), 0);
  hbm.submit(write(granules, granules, 1), 0);
  const std::vector<std::uint64_t> done = finish(hbm, 2);
  const double rate = 2048.0 * granules / static_cast<double>(std::max(done[0], done[1]));
  const HbmTiming timing({}, kClock);
  // A turn that a refresh covers costs nothing: one of 24 or so.
  const double every_turn = kChannels * timing.mixed_rate() * 900 / kClock;
  EXPECT_GE(rate, every_turn);
  EXPECT_NEAR(rate, every_turn, 0.006 * rate);
  EXPECT_NEAR(rate, 365, 5);  // what silicon shows
}

TEST(HbmController, GranulesOfBothDirectionsTakeTurns) {
  HbmController hbm(without_refresh(), kClock, 2);
  hbm.submit(read(0, 2 * kChannels, 0), 0);
  hbm.submit(write(4096, 2 * kChannels, 1), 0);
  // A write may begin first: its row opens sooner. Then R W R, and a turn before each.
  const std::uint64_t reads =
      kFirstWrite + kGranule + kToRead + kGranule + kToWrite + kGranule + kToRead + kGranule;
  const std::vector<std::uint64_t> done = finish(hbm, 2);
  EXPECT_EQ(done[1], done_at(reads - kGranule - kToRead));
  EXPECT_EQ(done[0], done_at(reads));
}

TEST(HbmController, ALongerDrainTurnsLessOften) {
  HbmParams params = without_refresh();
  params.drain_bursts = 64;
  HbmController hbm(params, kClock, 2);
  hbm.submit(read(0, 2 * kChannels, 0), 0);
  hbm.submit(write(4096, 2 * kChannels, 1), 0);
  const std::vector<std::uint64_t> done = finish(hbm, 2);
  EXPECT_EQ(done[1], done_at(kFirstWrite + 2 * kGranule));
  EXPECT_EQ(done[0], done_at(kFirstWrite + 4 * kGranule + kToRead));
}

TEST(HbmController, ALaterArrivalSlowsWhatIsUnderWay) {
  HbmController hbm(without_refresh(), kClock, 2);
  hbm.submit(read(0, 100 * kChannels, 0), 0);
  EXPECT_EQ(*hbm.next_event(),
            done_at(kFirstRead + 100 * kGranule));  // a bound: if nothing else comes
  EXPECT_TRUE(hbm.advance(1000).empty());
  hbm.submit(write(8192, 50 * kChannels, 1), 1000);
  const std::vector<std::uint64_t> done = finish(hbm, 2);
  EXPECT_EQ(done[0], done_at(kFirstRead + 150 * kGranule + 50 * (kToRead + kToWrite)));
  EXPECT_LT(done[1], done[0]);
}

TEST(HbmController, AShortRequestIsDoneBeforeALongOneThatKeepsOtherChannelsBusy) {
  HbmController hbm(without_refresh(), kClock, 2);
  hbm.submit(strided(read(31, 20, 0), 1, 31), 0);
  hbm.submit(read(1, 1, 1), 0);
  ASSERT_NE(mapping().channel(31), mapping().channel(1));
  const std::vector<std::uint64_t> done = finish(hbm, 2);
  EXPECT_EQ(done[1], done_at(kFirstRead + kGranule));
  EXPECT_EQ(done[0], done_at(kFirstRead + 20 * kGranule));
}

TEST(HbmController, RunsThatFollowEachOtherAreOneRun) {
  // What lies strided in VMEM may lie in one piece in the HBM.
  const std::uint64_t other_row = next_in_bank(100);
  for (const std::uint64_t run : {1u, 4u, 31u, 32u, 100u}) {
    HbmRequest part = strided(read(100, 1000, 1), run, run);
    part.first = 5;
    HbmController runs({}, kClock, 2), whole({}, kClock, 2);
    for (HbmController* hbm : {&runs, &whole}) hbm->submit(read(other_row, 1, 0), 0);
    runs.submit(part, 0);
    whole.submit(read(105, 1000, 1), 0);
    EXPECT_EQ(finish(runs, 2), finish(whole, 2)) << run;
  }
}

TEST(HbmController, APartOfAStridedArrayIsWhereItLies) {
  // Granules 5 to 12 of runs of 8: three of the first run, five of the second.
  HbmRequest part = strided(read(100, 8), 8, 1000);
  part.first = 5;
  HbmController hbm({}, kClock, 2), twice({}, kClock, 2);
  hbm.submit(part, 0);
  twice.submit(read(105, 3, 0), 0);
  twice.submit(read(1100, 5, 1), 0);
  const std::vector<std::uint64_t> both = finish(twice, 2);
  EXPECT_EQ(finish(hbm, 1)[0], std::max(both[0], both[1]));
}

TEST(HbmController, NothingToTransferTakesTheLatency) {
  HbmController hbm({}, kClock, 2);
  hbm.submit(read(0, 0), 94);
  EXPECT_TRUE(hbm.advance(94 + kLatency - 1).empty());
  EXPECT_EQ(hbm.advance(94 + kLatency).size(), 1u);
  EXPECT_TRUE(hbm.idle());
}

TEST(HbmController, WhatRaisesAFlagIsLookedForByItself) {
  HbmController hbm({}, kClock, 2);
  HbmRequest first = read(0, 1, 0), second = read(4096, 20 * kChannels, 1), third = read(1, 1, 2);
  first.flag = 3;
  second.flag = 4;
  hbm.submit(first, 0);
  hbm.submit(second, 0);
  EXPECT_EQ(hbm.next_event_of(3), hbm.next_event());
  EXPECT_GT(*hbm.next_event_of(4), done_at(kFirstRead + 10 * kGranule));
  EXPECT_FALSE(hbm.next_event_of(5));
  hbm.submit(third, 0);  // Behind the second; nobody knows what comes of it.
  EXPECT_TRUE(hbm.next_event_of(5));
  std::vector<std::uint64_t> tokens, done;
  while (tokens.size() < 3) {
    for (const HbmRequest& request : hbm.advance(*hbm.next_event_of(4))) {
      tokens.push_back(request.token);
      done.push_back(request.done);
    }
  }
  EXPECT_EQ(tokens, (std::vector<std::uint64_t>{0, 1, 2}));
  EXPECT_EQ(done[0], done_at(kFirstRead + kGranule));  // Each with its own cycle.
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
}

HbmParams random_params(std::mt19937& random) {
  const auto pick = [&](std::initializer_list<std::uint32_t> values) {
    return values.begin()[random() % values.size()];
  };
  HbmParams params;
  params.channels = pick({2, 4, 6, 10});
  params.pseudo_channels = pick({1, 2});
  params.pin_mbps = pick({1400, 1800, 2400});
  params.row_bytes = pick({1024, 2048, 4096});
  params.banks = pick({8, 16});
  params.refresh_interval_ns = pick({0, 900, 3900});
  params.first_refresh_ns = pick({0, 500, 5000});
  params.precharge_ns = pick({14, 60, 200});
  params.drain_bursts = pick({1, 32, 64, 100});
  params.bus_turn_clocks = pick({0, 2, 30});
  return params;
}

HbmRequest random_request(std::mt19937& random, std::uint64_t token) {
  HbmRequest request;
  request.write = random() % 2 == 0;
  request.address = random() % 5000;
  request.granules = random() % 4 == 0 ? random() % 400 : random() % 30;
  if (random() % 2 == 0) {
    request.granules_per_run = 1 + random() % 12;
    const std::uint64_t stride = random() % 300;
    request.stride = random() % 4 == 0 ? request.granules_per_run : stride;
    request.first = random() % 20;
  }
  request.token = token;
  return request;
}

/// How many sets of random requests are tried: a sample, or as many as the environment asks for.
std::uint32_t request_sets() {
  const char* const stated = std::getenv("TPUSIM_HBM_REQUEST_SETS");
  return stated == nullptr ? 1000 : static_cast<std::uint32_t>(std::strtoul(stated, nullptr, 10));
}

TEST(HbmController, AgreesWithEveryBurstByItself) {
  for (std::uint32_t seed = 0; seed < request_sets(); ++seed) {
    std::mt19937 random(seed);
    const HbmParams params = random_params(random);
    HbmController hbm(params, kClock, 2);
    test::HbmBurstTwin twin(params, kClock, 2);
    const std::size_t count = 1 + random() % (seed % 10 == 0 ? 100 : 25);
    std::vector<std::uint64_t> done(count);
    std::uint64_t now = random() % 3000;
    for (std::size_t i = 0; i < count; ++i) {
      // As in the machine, nothing is advanced only because a request arrives; it may be, though.
      if (seed % 2 == 0) {
        for (const HbmRequest& request : hbm.advance(now)) done[request.token] = now;
      }
      const HbmRequest request = random_request(random, i);
      hbm.submit(request, now);
      twin.submit(request, now);
      const std::uint64_t gap =
          random() % 3 == 0 ? random() % 3000 : random() % (seed % 3 == 0 ? 2 : 200);
      // What is done before the next arrival.
      while (hbm.next_event() && *hbm.next_event() <= now + gap) {
        const std::uint64_t at = *hbm.next_event();
        for (const HbmRequest& finished : hbm.advance(at)) done[finished.token] = at;
      }
      now += gap;
    }
    while (const std::optional<std::uint64_t> next = hbm.next_event()) {
      for (const HbmRequest& finished : hbm.advance(*next)) done[finished.token] = *next;
    }
    ASSERT_EQ(done, twin.run()) << "seed " << seed;
  }
}

/// Wherever the account ends, each clock more is one more of one cause, and none is taken back.
TEST(HbmController, AccountsGrowClockByClock) {
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    HbmParams params = random_params(random);
    params.channels = params.pseudo_channels = 2;
    params.refresh_interval_ns = 0;  // One that is overdue is known when something is asked for.
    if (seed % 2 == 0) params.drain_bursts = 1;  // Both directions take turns, granule by granule.
    std::vector<HbmRequest> requests;
    for (std::uint64_t i = 0; i < 8; ++i) {
      requests.push_back(random_request(random, i));
      requests.back().granules %= 6;  // Many rows miss.
      requests.back().address %= 300;
    }
    std::vector<std::vector<std::uint64_t>> before;
    for (std::uint64_t end = 0; end < 1200; ++end) {
      HbmController hbm(params, kClock, 2);
      for (const HbmRequest& request : requests) hbm.submit(request, 0);
      ExactAccounts accounts;
      hbm.add_accounts(0, end, accounts);
      std::vector<std::vector<std::uint64_t>> now;
      for (const ExactAccount& each : accounts) {
        now.emplace_back();
        for (const auto& [cause, clocks] : each.cycles) now.back().push_back(clocks);
      }
      for (std::size_t c = 0; c < before.size(); ++c) {
        for (std::size_t i = 0; i < now[c].size(); ++i) {
          ASSERT_GE(now[c][i], before[c][i]) << "seed " << seed << ", channel " << c << ", cycle "
                                             << end << ", " << accounts[c].cycles[i].first;
        }
      }
      before = std::move(now);
    }
  }
}

/// A refresh falls due while a granule is on the bus; the granule behind it is data, clock by
/// clock.
TEST(HbmController, AnAccountMayEndInARefreshAndInTheGranuleBehindIt) {
  const HbmTiming timing({}, kClock);
  const std::uint64_t before = 1 + (kFirstRefresh - 1 - kFirstRead) / kGranule;
  const std::uint64_t refresh = kFirstRead + before * kGranule, behind = refresh + kRefresh;
  for (std::uint64_t cycle = 700;; ++cycle) {
    const std::uint64_t clock = timing.to_memory(cycle);
    if (clock < refresh) continue;
    if (clock > behind + kGranule) break;
    HbmController hbm({}, kClock, 2);
    hbm.submit(read(0, (before + 1) * kChannels), 0);
    ExactAccounts accounts;
    hbm.add_accounts(0, cycle, accounts);
    ASSERT_EQ(accounts.size(), kChannels);
    const std::vector<std::pair<std::string, std::uint64_t>> expected = {
        {"data", before * kGranule + (clock > behind ? clock - behind : 0)},
        {"turn", 0},
        {"row miss", 0},
        {"refresh", std::min(clock, behind) - refresh},
        {"idle: row opens", kFirstRead},
        {"idle: not asked", 0}};
    ASSERT_EQ(accounts[5].cycles, expected) << clock;
  }
}

/// Whether the bus turns with each granule or seldom, when data moved is known of all of it.
TEST(HbmController, TheHistoryHasAllDataOfBothDirections) {
  for (const std::uint32_t drain : {1U, 64U, 256U}) {
    HbmParams params;
    params.drain_bursts = drain;
    HbmController hbm(params, kClock, 2);
    hbm.keep_history();
    hbm.submit(read(0, 7 * kChannels, 0), 0);
    hbm.submit(write(4096, 5 * kChannels, 1), 0);
    hbm.submit(read(8192, 3 * kChannels, 2), 500);
    const std::vector<std::uint64_t> done = finish(hbm, 3);
    ExactAccounts accounts;
    hbm.add_accounts(0, *std::max_element(done.begin(), done.end()), accounts);
    ASSERT_EQ(accounts.size(), kChannels);
    for (const ExactAccount& account : accounts) {
      std::uint64_t bytes = 0;
      for (const PartAccount::Moved& each : account.moved) bytes += each.bytes;
      EXPECT_EQ(bytes, (7u + 5 + 3) * 1024) << account.part << ", " << drain;
    }
  }
}

void expect_refused(const HbmParams& params, const std::string& message) {
  try {
    HbmController hbm(params, kClock, 2);
    FAIL() << "no error";
  } catch (const ConfigurationError& error) {
    EXPECT_EQ(error.what(), message);
  }
}

TEST(HbmController, RefusesParametersThatFitNoChannel) {
  HbmParams params;
  params.refresh_ns = params.refresh_interval_ns;
  expect_refused(params,
                 "hbm.refresh_ns: expected that a refresh and the reopening of a row take less "
                 "than hbm.refresh_interval_ns (3510 memory clocks), found 3536");
  params = {};
  params.channels = 0;
  expect_refused(params, "hbm.channels: expected at least one for each core, found 0 for 2 cores");
  params = {};
  params.pseudo_channels = 3;
  expect_refused(params,
                 "hbm.pseudo_channels: expected a divisor of hbm.channel_bits = 128, found 3");
  params = {};
  params.burst_beats = 6;
  expect_refused(params,
                 "hbm.burst_beats: expected bursts that fill a granule of 1024 bytes, found bursts "
                 "of 384 bit");
  params = {};
  params.row_bytes = 1000;
  expect_refused(params, "hbm.row_bytes: expected a multiple of 1024, found 1000");
  params = {};
  params.banks = 12;
  expect_refused(params, "hbm.banks: expected a power of two from 8 on, found 12");
}

TEST(HbmMapping, TheBankOfARowIsTheSumOfItsDigits) {
  const HbmMapping sixteen(kChannels, 16, 1);
  EXPECT_EQ(sixteen.bank(0x123), 6u);
  EXPECT_EQ(sixteen.bank(0xf1), 0u);
  EXPECT_EQ(HbmMapping(kChannels, 10, 1).bank(1234), 0u);
  EXPECT_EQ(HbmMapping(kChannels, 10, 1).bank(907), 6u);
}

/// Blocks of two granules: those whose number has an odd sum of its halves begin with the other.
TEST(HbmMapping, OfTwoChannelsAStrideOfTwoReachesBoth) {
  const HbmMapping two(2, 8, 1);
  const std::uint32_t first[] = {0, 1, 1, 0, 1, 0, 0, 1};
  for (std::uint64_t block = 0; block < 8; ++block) {
    EXPECT_EQ(two.channel(2 * block), first[block]) << block;
    EXPECT_EQ(two.channel(2 * block + 1), 1 - first[block]) << block;
  }
}

TEST(HbmController, RowsAtAStrideOfThePowerOfTwoLieInAllBanks) {
  std::set<std::uint32_t> banks;
  for (std::uint64_t row = 0; row < 16; ++row) banks.insert(mapping().bank(row * 16));
  EXPECT_EQ(banks.size(), 16u);
  // Sixteen rows of one channel, sixteen rows apart: none has to be closed for the next.
  HbmController hbm(without_refresh(), kClock, 2);
  std::uint64_t granule = 0;
  for (std::uint64_t i = 0; i < 16; ++i) {
    hbm.submit(read(granule, 1, i), 0);
    granule = next_in_channel(granule, [&](std::uint64_t row) { return row == (i + 1) * 16; });
  }
  EXPECT_EQ(finish(hbm, 16)[15], done_at(kFirstRead + 16 * kGranule));
}

}  // namespace
}  // namespace tpu::hbm_controller_test
