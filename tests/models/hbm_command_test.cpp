#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <random>

#include "bench/hbm_twins/traffic.h"
#include "models/memory/hbm_command_controller.h"
#include "models/memory/hbm_controller.h"
#include "sim/base/error.h"
#include "tests/models/test_program.h"

namespace tpu::hbm_command_test {
namespace {

constexpr std::uint32_t kClock = 940;
constexpr std::uint32_t kChannels = 32;
constexpr std::uint64_t kLatency = 140;

HbmRequest request(bool write, std::uint64_t address, std::uint64_t granules,
                   std::uint64_t per_run = 0, std::uint64_t stride = 0) {
  HbmRequest request;
  request.write = write;
  request.address = address;
  request.granules = granules;
  request.granules_per_run = per_run;
  request.stride = stride;
  return request;
}

struct Arrival {
  std::uint64_t cycle = 0;
  HbmRequest request;
};
using Traffic = std::vector<Arrival>;

/// The cycle in which each request is done. `step`: the model is advanced at least so often.
std::vector<std::uint64_t> run(HbmModel& hbm, Traffic traffic, std::uint64_t step = 0) {
  std::vector<std::uint64_t> done(traffic.size());
  std::uint64_t now = 0;
  const auto advance_to = [&](std::uint64_t cycle) {
    while (true) {
      std::uint64_t next = hbm.next_event().value_or(cycle);
      if (step > 0) next = std::min(next, now + step);
      if (next > cycle) break;
      now = std::max(now, next);
      for (const HbmRequest& finished : hbm.advance(now)) {
        EXPECT_EQ(finished.done, step == 0 ? now : finished.done);
        done[finished.token] = finished.done;
      }
      if (now >= cycle && !(hbm.next_event() && *hbm.next_event() <= cycle)) break;
    }
    now = std::max(now, cycle);
  };
  for (std::size_t i = 0; i < traffic.size(); ++i) {
    advance_to(traffic[i].cycle);
    traffic[i].request.token = i;
    hbm.submit(traffic[i].request, traffic[i].cycle);
  }
  while (const auto next = hbm.next_event()) advance_to(step > 0 ? now + step : *next);
  return done;
}

/// When all of it is done.
std::uint64_t end(HbmModel& hbm, const Traffic& traffic) {
  const std::vector<std::uint64_t> done = run(hbm, traffic);
  return *std::max_element(done.begin(), done.end());
}

std::uint64_t command_end(const Traffic& traffic, const HbmParams& params = {}) {
  HbmCommandController hbm(params, kClock, 2);
  return end(hbm, traffic);
}

HbmParams without_refresh() {
  HbmParams params;
  params.refresh_interval_ns = 0;
  return params;
}

std::uint64_t done_at(std::uint64_t clock) { return (clock * 940 + 899) / 900 + kLatency; }

TEST(HbmCommands, AGranuleIsTwoRowsInTurn) {
  // In clocks of 1/900 us: ACT at 0, the second after tRRDS (4 ns), tRCDRD 12 ns, RL 18 ns.
  // The first row alone bears a read each 3 clocks (tCCDL) until the second one is open, 4 later.
  const std::uint64_t first = 11 + 17;
  EXPECT_EQ(command_end({{0, request(false, 5, 1)}}, without_refresh()),
            done_at(first + 2 * 32 + 1 + 1));
  HbmParams one_group = without_refresh();
  one_group.command.bank_groups = 1;
  EXPECT_EQ(command_end({{0, request(false, 5, 1)}}, one_group), done_at(first + 3 * 31 + 2));
}

TEST(HbmCommands, AStreamTakesEveryBurstOfTheBus) {
  const std::uint64_t granules = 200;
  const std::uint64_t end =
      command_end({{0, request(false, 0, granules * kChannels)}}, without_refresh());
  EXPECT_LE(end, done_at(11 + 17 + granules * 64 + 4));
  EXPECT_GE(end, done_at(11 + 17 + granules * 64));
}

TEST(HbmCommands, AMemoryOfOneChannelTakesItAll) {
  HbmParams params = without_refresh();
  params.channels = 1;  // Of two pseudo channels, one for each core.
  const std::uint64_t granules = 200;
  const std::uint64_t end = command_end({{0, request(false, 0, granules)}}, params);
  EXPECT_LE(end, done_at(11 + 17 + granules * 64 + 4));
  EXPECT_GE(end, done_at(11 + 17 + granules * 64));
}

/// A granule that is a single burst has no second row.
TEST(HbmCommands, AGranuleOfOneBurstIsOneRow) {
  HbmParams params = without_refresh();
  params.burst_beats = isa::kHbmGranuleBytes * 8 / (params.channel_bits / params.pseudo_channels);
  EXPECT_EQ(command_end({{0, request(false, 5, 1)}}, params),
            done_at(11 + 17 + params.burst_beats / 2));
}

/// Commands of all channels keep their distances, found without the scheduler.
class DistanceCheck {
 public:
  explicit DistanceCheck(const HbmParams& params) : t_(params, kClock), banks_(params.banks) {}

  void operator()(const HbmCommand& command) {
    const std::uint64_t now = command.clock;
    switch (command.kind) {
      case HbmCommand::Kind::kActivate:
        return activate(command, now);
      case HbmCommand::Kind::kPrecharge: {
        Bank& bank = banks_.at(command.bank);
        EXPECT_TRUE(bank.open);
        EXPECT_GE(now, bank.activated + t_.row_open);
        if (bank.any_read) {
          EXPECT_GE(now, bank.last_read + t_.read_to_precharge);
        }
        if (bank.any_write) {
          EXPECT_GE(now, bank.write_end + t_.write_recovery);
        }
        bank = Bank();
        bank.closed = now;
        bank.was_closed = true;
        return;
      }
      case HbmCommand::Kind::kRefresh:
        return refresh(command, now);
      default:
        return column(command, now);
    }
  }
  std::uint64_t columns() const { return columns_; }
  std::uint64_t activates() const { return rows_.size(); }
  std::uint64_t refreshes() const { return refreshes_; }

 private:
  struct Bank {
    bool open = false, any_read = false, any_write = false, was_closed = false;
    std::uint64_t row = 0, activated = 0, last_read = 0, write_end = 0, closed = 0, refreshed = 0;
  };

  void activate(const HbmCommand& command, std::uint64_t now) {
    Bank& bank = banks_.at(command.bank);
    EXPECT_FALSE(bank.open);
    if (bank.was_closed) {
      EXPECT_GE(now, bank.closed + t_.precharge);
    }
    EXPECT_GE(now, bank.refreshed);
    if (rows_.size() >= 4) {
      EXPECT_GE(now, rows_[rows_.size() - 4].clock + t_.four_rows);
    }
    if (!rows_.empty()) {
      EXPECT_GE(now, rows_.back().clock + t_.row_to_row);
    }
    for (const HbmCommand& row : rows_) {
      if (row.bank % t_.groups == command.bank % t_.groups) {
        EXPECT_GE(now, row.clock + t_.row_to_row_group);
      }
    }
    rows_.push_back(command);
    if (rows_.size() > 64) rows_.erase(rows_.begin(), rows_.begin() + 32);
    bank.open = true;
    bank.row = command.row;
    bank.activated = now;
  }

  void column(const HbmCommand& command, std::uint64_t now) {
    ++columns_;
    const bool write = command.kind == HbmCommand::Kind::kWrite;
    Bank& bank = banks_.at(command.bank);
    EXPECT_TRUE(bank.open);
    EXPECT_EQ(bank.row, command.row);
    EXPECT_GE(now, bank.activated + t_.row_to_column[write ? 1 : 0]);
    const std::uint64_t data = now + t_.column_to_data[write ? 1 : 0];
    EXPECT_GE(data, bus_end_ + (write && !last_write_ && columns_ > 1 ? t_.bus_turn : 0));
    const std::uint32_t group = command.bank % t_.groups;
    if (group_any_[group]) {
      EXPECT_GE(now, group_column_[group] + t_.column_to_column_group);
    }
    if (!write && any_write_) {
      EXPECT_GE(now, write_end_ + t_.write_to_read);
      if (group_write_[group] > 0) {
        EXPECT_GE(now, group_write_[group] + t_.write_to_read_group);
      }
    }
    group_any_[group] = true;
    group_column_[group] = now;
    bus_end_ = data + t_.burst;
    last_write_ = write;
    if (write) {
      any_write_ = bank.any_write = true;
      write_end_ = group_write_[group] = bank.write_end = bus_end_;
    } else {
      bank.any_read = true;
      bank.last_read = now;
    }
  }

  void refresh(const HbmCommand& command, std::uint64_t now) {
    ++refreshes_;
    for (std::uint32_t b = 0; b < banks_.size(); ++b) {
      if (command.bank != banks_.size() && command.bank != b) continue;
      EXPECT_FALSE(banks_[b].open);
      if (banks_[b].was_closed) {
        EXPECT_GE(now, banks_[b].closed + t_.precharge);
      }
      EXPECT_GE(now, banks_[b].refreshed);
      banks_[b].refreshed = now + t_.refresh;
    }
  }

  const HbmCommandTiming t_;
  std::vector<Bank> banks_;
  std::vector<HbmCommand> rows_;  ///< The last ACTs.
  std::uint64_t columns_ = 0, refreshes_ = 0, bus_end_ = 0, write_end_ = 0;
  bool last_write_ = false, any_write_ = false;
  std::map<std::uint32_t, bool> group_any_;
  std::map<std::uint32_t, std::uint64_t> group_column_, group_write_;
};

HbmParams random_params(std::mt19937& random) {
  const auto pick = [&](std::initializer_list<std::uint32_t> values) {
    return values.begin()[random() % values.size()];
  };
  HbmParams params;
  params.channels = pick({2, 4, 6});
  params.row_bytes = pick({1024, 2048});
  params.banks = pick({8, 16});
  params.refresh_interval_ns = pick({0, 1500, 3900});
  params.first_refresh_ns = pick({0, 300});
  params.drain_bursts = pick({1, 32, 64});
  params.bus_turn_clocks = pick({0, 2, 30});
  params.command.bank_groups = pick({1, 2, 4, 8});
  params.command.four_rows_ns = pick({16, 60});
  params.command.column_to_column_group_clocks = pick({2, 3, 4});
  params.command.queue_granules = pick({1, 2, 8});
  params.command.single_bank_refresh = random() % 3 == 0;
  return params;
}

Traffic random_traffic(std::mt19937& random) {
  Traffic traffic;
  std::uint64_t now = random() % 2000;
  for (int i = 1 + static_cast<int>(random() % 12); i > 0; --i) {
    HbmRequest next = request(random() % 2 == 0, random() % 5000, random() % 60);
    if (random() % 2 == 0) {
      next.granules_per_run = 1 + random() % 5;
      next.stride = random() % 300;
      next.first = random() % 10;
    }
    traffic.push_back({now, next});
    now += random() % 3 == 0 ? random() % 3000 : random() % 100;
  }
  return traffic;
}

TEST(HbmCommands, KeepTheDistancesOfTheStandard) {
  std::uint64_t refreshes = 0;
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const HbmParams params = random_params(random);
    HbmCommandController hbm(params, kClock, 2);
    std::vector<DistanceCheck> checks(hbm.channels().size(), DistanceCheck(params));
    for (std::size_t c = 0; c < checks.size(); ++c) hbm.channels()[c].watch(std::ref(checks[c]));
    const Traffic traffic = random_traffic(random);
    run(hbm, traffic);
    std::uint64_t columns = 0, asked = 0;
    for (const DistanceCheck& check : checks) {
      columns += check.columns();
      refreshes += check.refreshes();
    }
    for (const Arrival& arrival : traffic) asked += arrival.request.granules * 32;
    ASSERT_EQ(columns, asked);
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(refreshes, 100u);
}

TEST(HbmCommands, ARowStaysOpenForTheGranuleThatStillReadsIt) {
  const HbmCommandTiming timing(without_refresh(), kClock);
  HbmCommandChannel channel(timing);
  std::vector<std::uint64_t> rows;
  channel.watch([&](const HbmCommand& command) {
    if (command.kind == HbmCommand::Kind::kActivate) rows.push_back(command.row);
  });
  channel.add(false, 0, 0, 0);
  channel.add(false, 2, 1, 0);   // Opened while the first one is read.
  channel.add(false, 30, 2, 0);  // Other rows of the same two banks as the second one.
  std::uint64_t bursts = 0;
  channel.advance(10000, [&](std::uint32_t, std::uint64_t) { ++bursts; });
  EXPECT_EQ(bursts, 96u);
  EXPECT_EQ(rows, (std::vector<std::uint64_t>{0, 0, 0, 0, 1, 1}));
}

/// The commands of a channel to which granules come by their index and clock, up to a clock.
std::vector<HbmCommand> commands_of(const HbmParams& params,
                                    std::initializer_list<std::array<std::uint64_t, 2>> granules,
                                    std::uint64_t end) {
  const HbmCommandTiming timing(params, kClock);
  HbmCommandChannel channel(timing);
  std::vector<HbmCommand> commands;
  channel.watch([&](const HbmCommand& command) { commands.push_back(command); });
  for (const auto& [index, arrival] : granules) {
    channel.advance(arrival, [](std::uint32_t, std::uint64_t) {});
    channel.add(false, index, 0, arrival);
  }
  channel.advance(end, [](std::uint32_t, std::uint64_t) {});
  return commands;
}

std::vector<std::uint64_t> clocks_of(const std::vector<HbmCommand>& commands,
                                     HbmCommand::Kind kind) {
  std::vector<std::uint64_t> clocks;
  for (const HbmCommand& command : commands) {
    if (command.kind == kind) clocks.push_back(command.clock);
  }
  return clocks;
}

TEST(HbmCommands, TheFifthRowWaitsForTheFirstOfFour) {
  // Three granules of different rows: six ACTs, each group has its turn. In clocks of 1/900 us
  // tRRDS is 4; four rows in tFAW: 16 ns hold nobody up, 60 ns are 54 clocks.
  HbmParams params = without_refresh();
  params.row_bytes = 1024;
  EXPECT_EQ(
      clocks_of(commands_of(params, {{0, 0}, {2, 0}, {4, 0}}, 1000), HbmCommand::Kind::kActivate),
      (std::vector<std::uint64_t>{0, 4, 8, 12, 16, 20}));
  params.command.four_rows_ns = 60;
  EXPECT_EQ(
      clocks_of(commands_of(params, {{0, 0}, {2, 0}, {4, 0}}, 1000), HbmCommand::Kind::kActivate),
      (std::vector<std::uint64_t>{0, 4, 8, 12, 54, 58}));
}

TEST(HbmCommands, BanksAreRefreshedInTurn) {
  HbmParams params;
  params.first_refresh_ns = 700;
  params.command.single_bank_refresh = true;
  const std::uint64_t first = 630, interval = 3510 / params.banks;
  const std::vector<HbmCommand> commands = commands_of(params, {}, first + 40 * interval);
  ASSERT_EQ(commands.size(), 40u);
  for (std::uint32_t k = 0; k < commands.size(); ++k) {
    EXPECT_EQ(commands[k].kind, HbmCommand::Kind::kRefresh);
    EXPECT_EQ(commands[k].bank, k % params.banks);
    EXPECT_EQ(commands[k].clock, first + k * interval);
  }
}

/// An idle row is closed when the refresh is due and refreshed tRP later; a row that is open for
/// less than tRAS is closed when that is over. It opens again when the refresh is done.
TEST(HbmCommands, ARefreshClosesTheRowAsSoonAsItMayBe) {
  HbmParams params;
  params.first_refresh_ns = 1000;
  const HbmCommandTiming t(params, kClock);
  using Clocks = std::vector<std::uint64_t>;
  for (const bool late : {false, true}) {
    params.first_refresh_ns = late ? 1000 : 10;  // 900 clocks, or 9: before the first read.
    const std::uint64_t closes = late ? 900 : 4 + t.row_open;  // The second ACT is at 4.
    const std::uint64_t done = closes + t.precharge + t.refresh;
    const std::vector<HbmCommand> commands =
        late ? commands_of(params, {{0, 0}, {0, 901}}, 2000) : commands_of(params, {{0, 0}}, 2000);
    EXPECT_EQ(clocks_of(commands, HbmCommand::Kind::kPrecharge), Clocks({closes, closes}));
    EXPECT_EQ(clocks_of(commands, HbmCommand::Kind::kRefresh), Clocks({closes + t.precharge}));
    EXPECT_EQ(clocks_of(commands, HbmCommand::Kind::kActivate), Clocks({0, 4, done, done + 4}));
  }
  // One bank's refresh leaves its neighbour open.
  params.first_refresh_ns = 1000;
  params.command.single_bank_refresh = true;
  const std::uint64_t refresh = (params.command.bank_refresh_ns * 9 + 9) / 10;
  const std::vector<HbmCommand> commands = commands_of(params, {{0, 0}, {0, 901}}, 1100);
  EXPECT_EQ(clocks_of(commands, HbmCommand::Kind::kPrecharge), Clocks({900}));
  EXPECT_EQ(clocks_of(commands, HbmCommand::Kind::kActivate),
            Clocks({0, 4, 900 + t.precharge + refresh}));
}

/// A memory clock is two beats of a pin; every time is rounded up to whole clocks. Each parameter
/// has a value of its own.
TEST(HbmCommands, TimesAreThoseOfTheDataSheetInMemoryClocks) {
  HbmParams params;
  params.pin_mbps = 1700;
  params.precharge_ns = 13;
  params.read_activate_ns = 17;
  params.write_activate_ns = 7;
  params.read_latency_ns = 23;
  params.write_latency_ns = 11;
  params.read_to_precharge_ns = 6;
  params.write_recovery_ns = 19;
  params.write_to_read_ns = 9;
  params.bus_turn_clocks = 5;
  params.refresh_interval_ns = 4001;
  params.refresh_ns = 353;
  params.first_refresh_ns = 757;
  params.command.row_to_row_ns = 5;
  params.command.row_to_row_group_ns = 8;
  params.command.four_rows_ns = 31;
  params.command.row_open_ns = 41;
  params.command.write_to_read_other_ns = 3;
  params.command.bank_refresh_ns = 101;
  const auto clocks = [](std::uint32_t ns) {
    return static_cast<std::uint64_t>(std::ceil(ns * 1700.0 / 2000));
  };
  const HbmCommandTiming t(params, kClock);
  EXPECT_EQ(t.burst, 2u);  // Four beats.
  EXPECT_EQ(t.bursts_per_granule, 32u);
  EXPECT_EQ(t.granules_per_row, params.row_bytes / 1024);
  EXPECT_EQ(t.row_to_column, (std::array<std::uint64_t, 2>{clocks(17), clocks(7)}));
  EXPECT_EQ(t.column_to_data, (std::array<std::uint64_t, 2>{clocks(23), clocks(11)}));
  EXPECT_EQ(t.row_open, clocks(41));
  EXPECT_EQ(t.precharge, clocks(13));
  EXPECT_EQ(t.read_to_precharge, clocks(6));
  EXPECT_EQ(t.write_recovery, clocks(19));
  EXPECT_EQ(t.row_to_row, clocks(5));
  EXPECT_EQ(t.row_to_row_group, clocks(8));
  EXPECT_EQ(t.four_rows, clocks(31));
  EXPECT_EQ(t.write_to_read, clocks(3));
  EXPECT_EQ(t.write_to_read_group, clocks(9));
  EXPECT_EQ(t.bus_turn, 5u);
  EXPECT_EQ(t.refresh_interval, clocks(4001));
  EXPECT_EQ(t.refresh, clocks(353));
  EXPECT_EQ(t.first_refresh, clocks(757));
  params.command.single_bank_refresh = true;
  EXPECT_EQ(HbmCommandTiming(params, kClock).refresh_interval, clocks(4001) / params.banks);
  EXPECT_EQ(HbmCommandTiming(params, kClock).refresh, clocks(101));
  // Reads of one group are apart by what is longer, the bursts or tCCDL.
  for (const std::uint32_t distance : {1U, 2U, 3U}) {
    params.command.column_to_column_group_clocks = distance;
    EXPECT_EQ(HbmCommandTiming(params, kClock).column_to_column_group, std::max(2U, distance));
  }
  // A bank has to be ready before its own turn comes again, after 16 of 212 clocks (3401 in all).
  params.command.bank_refresh_ns = 3975;
  ASSERT_EQ(clocks(3975) + clocks(13), 16u * 212 - 1);
  EXPECT_NO_THROW(HbmCommandTiming(params, kClock));
  ++params.command.bank_refresh_ns;
  EXPECT_THROW(HbmCommandTiming(params, kClock), ConfigurationError);
}

TEST(HbmCommands, DoNotDependOnHowOftenTheyAreAskedFor) {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const HbmParams params = random_params(random);
    const Traffic traffic = random_traffic(random);
    HbmCommandController often({params}, kClock, 2), seldom(params, kClock, 2);
    ASSERT_EQ(run(often, traffic, 7), run(seldom, traffic)) << seed;
  }
}

TEST(HbmCommands, RefreshOfSingleBanksLeavesTheOthersAtWork) {
  HbmParams all, single;
  single.command.single_bank_refresh = true;
  const Traffic stream = {{0, request(false, 0, 4096)}};
  const std::uint64_t none = command_end(stream, without_refresh());
  EXPECT_GT(command_end(stream, all), none + none / 12);  // 341 of 3510 clocks
  EXPECT_LT(command_end(stream, single), none + none / 25);
}

TEST(HbmCommands, TheClosedFormStaysWithinItsBounds) {
  for (const bench::HbmTraffic& traffic : bench::hbm_traffic()) {
    for (const std::uint32_t first_refresh_ns : {0u, 750u, 2600u}) {
      HbmParams params;
      params.first_refresh_ns = first_refresh_ns;
      HbmController closed(params, kClock, 2);
      HbmCommandController commands(params, kClock, 2);
      const auto expected = static_cast<double>(bench::run(commands, traffic));
      EXPECT_NEAR(static_cast<double>(bench::run(closed, traffic)) / expected, 1, traffic.bound)
          << traffic.name << ", first refresh after " << first_refresh_ns << " ns";
    }
  }
}

TEST(HbmCommands, TakeThePlaceOfTheClosedFormInTheMachine) {
  const isa::Program program = test::program_of(R"(kernel top
  { dma.hbm_to_vmem 0, 256, 0, 1 }
  { dma.done.wait 1, 256 }
  { %s1 = smov 1 }
)");
  RunOptions options = test::on_core(0);
  options.hbm_command = true;
  const std::uint64_t done = command_end({{0, request(false, 0, 256)}});
  EXPECT_EQ(test::run(program, options).cycles, done + 2);
  options.interpret = true;
  EXPECT_EQ(test::run(program, options).cycles, done + 2);
  EXPECT_NE(test::run(program).cycles, done + 2);
}

TEST(HbmCommands, RefusesBankGroupsThatDoNotDivideTheBanks) {
  HbmParams params;
  params.command.bank_groups = 3;
  try {
    HbmCommandController hbm(params, kClock, 2);
    FAIL();
  } catch (const ConfigurationError& error) {
    EXPECT_STREQ(error.what(),
                 "hbm.command.bank_groups: expected a power of two that divides hbm.banks = 16, "
                 "found 3");
  }
}

}  // namespace
}  // namespace tpu::hbm_command_test
