#include "models/host/loader.h"

#include <gtest/gtest.h>

#include <cmath>
#include <list>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <unordered_map>

#include "models/host/input_pipeline.h"
#include "sim/base/error.h"
#include "tests/models/test_program.h"

namespace tpu::loader_test {
namespace {

constexpr double kCyclesPerSecond = 940e6;

/// A dataset whose examples take a thread 1 ms; storage, disk and copies cost next to nothing.
MachineParams thread_bound(std::uint32_t vcpus) {
  MachineParams params;
  params.host.vcpus = vcpus;
  params.host.storage_mb_per_s = 1e6;
  params.host.storage_latency_us = 0;
  params.host.disk_mb_per_s = 1e6;
  params.host.disk_latency_us = 0;
  params.host.copy_mb_per_s = 1e6;
  params.input.images = 1000;
  params.input.file_bytes = 100000;
  params.input.pixels = 20000;
  params.input.decode_ns_per_pixel = 30;
  params.input.augment_us = 400;
  return params;
}

/// Examples a second over the last half of 20 batches that follow each other without a gap.
double rate_of(const MachineParams& params, std::uint64_t examples = 64,
               std::uint64_t bytes = 1000) {
  Loader loader(params, examples, bytes);
  std::uint64_t half = 0, end = 0;
  for (int batch = 0; batch < 20; ++batch) {
    end = loader.make(0);
    if (batch == 9) half = end;
  }
  return 10.0 * static_cast<double>(examples) /
         (static_cast<double>(end - half) / kCyclesPerSecond);
}

TEST(Loader, ADatasetOfOneImageIsRead) {
  MachineParams params = thread_bound(1);
  params.input.images = 1;
  EXPECT_TRUE(Loader::is_described(params));
  params.input.images = 0;
  EXPECT_FALSE(Loader::is_described(params));
}

TEST(Loader, ThreadsShareTheWork) {
  EXPECT_NEAR(rate_of(thread_bound(1)), 1000, 1);
  EXPECT_NEAR(rate_of(thread_bound(4)), 4000, 4);
  // Examples that fill no round of the threads go on with those of the next batch.
  EXPECT_NEAR(rate_of(thread_bound(48)), 48000, 1500);
  MachineParams fewer = thread_bound(48);
  fewer.input.workers = 3;
  EXPECT_NEAR(rate_of(fewer), 3000, 10);
}

TEST(Loader, ReadsAreBoundByBandwidthOrByLatency) {
  MachineParams params = thread_bound(96);
  params.host.storage_mb_per_s = 50;
  EXPECT_NEAR(rate_of(params), 50e6 / 100000, 1);
  params = thread_bound(96);
  params.host.storage_latency_us = 10000;
  params.host.storage_parallel_reads = 8;
  EXPECT_NEAR(rate_of(params), 800, 8);
  params.host.storage_parallel_reads = 1;
  EXPECT_NEAR(rate_of(params), 100, 1);
}

/// Ten workers of a host of four vCPUs: a read takes 9 ms to its first byte and 1 ms more, an
/// example 1 ms of a thread.
TEST(Loader, AWorkerThatReadsForItselfWaitsForTheStorage) {
  MachineParams params = thread_bound(4);
  params.input.reader = "worker";
  params.input.workers = 10;
  params.host.storage_latency_us = 9000;
  params.host.storage_mb_per_s = 100;
  EXPECT_NEAR(worker_seconds(params, 1000, 64), 0.011, 1e-9);
  const auto stage = [&](const std::string& name) {
    for (const LoaderStage& stage : loader_stages(params, 1000, 64)) {
      if (stage.name == name) return stage.examples_per_s;
    }
    return 0.0;
  };
  // 10 of 11 ms each, one behind the other on the storage's wire: 1,000 a second there.
  EXPECT_NEAR(stage(kWorkerStage), 10 / 0.011, 0.01);
  EXPECT_NEAR(rate_of(params), 10 / 0.011, 5);
  // As many reads ahead as the storage takes, and the wire bounds.
  params.input.reader = "ahead";
  EXPECT_EQ(stage(kWorkerStage), 0);
  EXPECT_NEAR(rate_of(params), 1000, 5);
  // The threads bound, whoever reads: four of 1 ms.
  params.input.reader = "worker";
  params.host.storage_mb_per_s = 1e5;
  params.input.workers = 400;
  EXPECT_NEAR(rate_of(params), 4000, 20);
  // No worker reads what is in RAM.
  params.input.workers = 1;
  params.input.cache = "ram";
  EXPECT_EQ(stage(kWorkerStage), 0);
}

/// One of them, example after example.
TEST(Loader, OneWorkerReadsWhenItHasDecoded) {
  MachineParams params = thread_bound(4);
  params.input.reader = "worker";
  params.input.workers = 1;
  params.host.storage_latency_us = 2000;
  params.host.storage_mb_per_s = 100;
  Loader loader(params, 3, 1000);
  // Each 2 ms to the first byte, 1 ms of bytes, 1 ms on a thread; the copy of the last one.
  const double copy = 1000 / 1e12;
  EXPECT_NEAR(static_cast<double>(loader.make(940)), 940 + (3 * 0.004 + copy) * kCyclesPerSecond,
              5);
}

TEST(Loader, CopiesIntoTheBatchTakeOneThread) {
  MachineParams params = thread_bound(96);
  params.host.copy_mb_per_s = 300;
  EXPECT_NEAR(rate_of(params, 64, 600000), 500, 1);
}

TEST(Loader, ACacheTakesThePlaceOfWhatIsBeforeIt) {
  MachineParams params = thread_bound(1);
  params.host.storage_mb_per_s = 1;
  params.input.cache = "disk";
  params.host.disk_mb_per_s = 60;
  EXPECT_NEAR(rate_of(params, 64, 600000), 100, 1);
  params.input.cache = "ram";
  params.host.copy_mb_per_s = 1200;
  EXPECT_NEAR(rate_of(params, 64, 600000), 2000, 2);
}

/// The reads of an epoch that find their file in a cache that throws out the least recently used.
double found_in_epochs(int files, int held, bool shuffled) {
  std::mt19937 random(7);
  std::vector<int> order(files);
  std::iota(order.begin(), order.end(), 0);
  std::list<int> kept;
  std::unordered_map<int, std::list<int>::iterator> places;
  int found = 0;
  constexpr int kEpochs = 6;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    if (shuffled) std::shuffle(order.begin(), order.end(), random);
    for (const int file : order) {
      const auto place = places.find(file);
      if (place != places.end()) {
        if (epoch > 0) ++found;
        kept.erase(place->second);
      }
      kept.push_front(file);
      places[file] = kept.begin();
      if (static_cast<int>(kept.size()) > held) {
        places.erase(kept.back());
        kept.pop_back();
      }
    }
  }
  return 1.0 * found / files / (kEpochs - 1);
}

TEST(PageCache, FindsWhatOneThatThrowsOutTheLeastRecentlyUsedFinds) {
  constexpr int kFiles = 8000;
  for (const double held : {0.1, 0.3, 0.5, 0.7, 0.9, 0.98, 1.0}) {
    for (const bool shuffled : {false, true}) {
      const double real = found_in_epochs(kFiles, static_cast<int>(held * kFiles), shuffled);
      EXPECT_NEAR(PageCache::found_share(held, shuffled), real, 0.01) << held << shuffled;
    }
  }
  EXPECT_NEAR(PageCache::found_share(0.5, true), 0.5 - 0.5 * std::log(2), 1e-12);
  EXPECT_EQ(PageCache::found_share(0.999, false), 0);
}

/// 16 GiB of RAM, files of 1 MiB and batches of 64 examples of 1 MiB, three of them ahead.
TEST(PageCache, HoldsWhatTheBatchesLeaveOfTheRam) {
  MachineParams params = thread_bound(1);
  params.host.ram_gib = 16;
  params.input.page_cache = true;
  params.input.prefetch_batches = 2;
  params.input.images = 16 * 1024 - 3 * 64;
  constexpr std::uint64_t kMiB = 1 << 20;
  EXPECT_EQ(PageCache(params, kMiB, 64, kMiB).held(), 1);
  EXPECT_EQ(PageCache(params, kMiB, 64, kMiB).found(), 1);
  params.input.images *= 2;
  PageCache cache(params, kMiB, 64, kMiB);
  EXPECT_EQ(cache.held(), 0.5);
  EXPECT_EQ(cache.found(), std::floor((0.5 - 0.5 * std::log(2)) * 1024) / 1024);
  int found = 0;
  for (int read = 0; read < 2048; ++read) {
    const int before = found;
    if (cache.finds_next()) ++found;
    // Evenly: never more than one away from their share.
    EXPECT_LE(std::abs(found - cache.found() * (read + 1)), 1) << before;
  }
  EXPECT_EQ(found, 2048 * cache.found());
  params.input.order = "sequential";
  EXPECT_EQ(PageCache(params, kMiB, 64, kMiB).found(), 0);
  params.input.page_cache = false;
  EXPECT_EQ(PageCache(params, kMiB, 64, kMiB).held(), 0);
}

/// Two threads of 1 ms an example; a file of 100,000 bytes takes 1 ms of copying more. The storage
/// sends 100 files a second.
TEST(PageCache, FilesPassByTheStorageAndAreCopiedAndDecodedAgain) {
  MachineParams params = thread_bound(2);
  params.host.storage_mb_per_s = 10;
  params.host.copy_mb_per_s = 100;
  EXPECT_NEAR(rate_of(params, 64, 10), 100, 1);
  params.input.page_cache = true;
  EXPECT_NEAR(thread_work(params, 10).seconds(), 0.002, 1e-9);
  for (const char* const reader : {"ahead", "worker"}) {
    params.input.reader = reader;
    EXPECT_NEAR(rate_of(params, 64, 10), 1000, 5) << reader;
  }
  // More files than RAM: the storage sends those that are not found, all where the order is fixed.
  params.host.ram_gib = 1;
  params.input.images = 20000;
  const PageCache cache = page_cache_of(params, 10, 64);
  EXPECT_NEAR(cache.held(), 1.073741824 / 2, 1e-5);
  EXPECT_GT(cache.found(), 0.17);
  EXPECT_LT(cache.found(), 0.19);
  for (const char* const reader : {"ahead", "worker"}) {
    params.input.reader = reader;
    params.input.workers = 16;
    params.input.order = "shuffled";
    EXPECT_NEAR(rate_of(params, 1024, 10), 100 / (1 - cache.found()), 1) << reader;
    EXPECT_NEAR(loader_stages(params, 10, 64).front().examples_per_s, 100 / (1 - cache.found()),
                0.01);
    params.input.order = "sequential";
    EXPECT_NEAR(rate_of(params, 64, 10), 100, 1) << reader;
  }
}

/// A worker reads 9 ms where it does not find the file, and works 1 ms in any case.
TEST(PageCache, AWorkerWaitsForTheStorageOnlyWhereItDoesNotFindItsFile) {
  MachineParams params = thread_bound(8);
  params.input.reader = "worker";
  params.input.workers = 1;
  params.host.storage_latency_us = 9000;
  params.host.ram_gib = 1;
  params.input.images = 20000;
  params.input.page_cache = true;
  const double missed = 1 - page_cache_of(params, 10, 64).found();
  const double seconds = 0.001 + 100000 / 1e12 + missed * (0.009 + 100000 / 1e12);
  EXPECT_NEAR(worker_seconds(params, 10, 64), seconds, 1e-9);
  EXPECT_NEAR(rate_of(params, 1024, 10), 1 / seconds, 0.01 / seconds);
}

/// Four threads take 2 ms each for a prepared example; the disk sends 100 a second.
TEST(PageCache, PreparedExamplesOnTheDiskStayInRamAndAreLoadedByAThread) {
  MachineParams params = thread_bound(4);
  params.input.cache = "disk";
  params.input.load_us = 2000;
  params.host.disk_mb_per_s = 60;
  EXPECT_NEAR(rate_of(params, 64, 600000), 100, 1);
  params.input.page_cache = true;
  EXPECT_NEAR(rate_of(params, 64, 600000), 2000, 10);
  EXPECT_EQ(file_bytes_of(params, 600000), 600000.0 * 1000);
  params.input.cache = "ram";
  params.input.page_cache = false;
  EXPECT_NEAR(rate_of(params, 64, 600000), 2000, 10);
}

TEST(Loader, TheRateIsThatOfTheSlowestStage) {
  // Four settings, each with another bound; loader_stages() says the same as the simulation.
  for (int which = 0; which < 4; ++which) {
    MachineParams params = thread_bound(8);
    params.host.storage_latency_us = which == 0 ? 50000 : 100;
    params.host.storage_parallel_reads = 16;
    params.host.copy_mb_per_s = which == 1 ? 100 : 1e5;
    if (which ==
        3) {  // A read takes 10 ms to its first byte and 2 ms more: four fill 2/3 of the rate.
      params.host.storage_latency_us = 10000;
      params.host.storage_mb_per_s = 50;
      params.host.storage_parallel_reads = 4;
    }
    double least = HUGE_VAL;
    for (const LoaderStage& stage : loader_stages(params, 150000, 64)) {
      least = std::min(least, stage.examples_per_s);
    }
    EXPECT_NEAR(rate_of(params, 64, 150000), least, 0.02 * least) << which;
  }
}

TEST(Loader, AnExampleCrossesTheStagesOneAfterTheOther) {
  MachineParams params = thread_bound(4);
  params.host.storage_latency_us = 2000;
  params.host.storage_mb_per_s = 100;
  params.host.copy_mb_per_s = 1;
  Loader loader(params, 1, 1000);
  // 2 ms to the first byte, 1 ms of bytes, 1 ms on a thread, 1 ms into the batch.
  EXPECT_NEAR(static_cast<double>(loader.make(940)), 940 + 0.005 * kCyclesPerSecond, 5);
}

/// One read at a time: 2 ms until its first byte, then 1 ms of bytes, again and again.
TEST(Loader, TheStorageIsIdleForTheLatencyOfItsReads) {
  MachineParams params = thread_bound(4);
  params.host.storage_latency_us = 2000;
  params.host.storage_mb_per_s = 100;
  params.host.storage_parallel_reads = 1;
  Loader loader(params, 5, 1000);
  loader.make(0);
  ExactAccounts accounts;
  constexpr std::uint64_t kMillisecond = 940000;
  loader.add_accounts("host 0", 5 * 3 * kMillisecond, accounts);
  ASSERT_EQ(accounts.at(0).part, "storage of host 0");
  const std::map<std::string, std::uint64_t> storage(accounts[0].cycles.begin(),
                                                     accounts[0].cycles.end());
  EXPECT_EQ(storage.at("busy"), 5 * kMillisecond);
  EXPECT_EQ(storage.at("idle: latency"), 5 * 2 * kMillisecond);
  EXPECT_EQ(storage.at("idle: not asked"), 0u);
}

TEST(Loader, ARamThatIsTooSmallIsNamedWithTheNumber) {
  MachineParams params = thread_bound(4);
  params.host.ram_gib = 16;
  params.input.cache = "ram";
  params.input.images = 100000;
  try {
    Loader(params, 256, 602112);
    FAIL() << "no error";
  } catch (const ConfigurationError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("needs 56.5 GiB"), std::string::npos) << text;
    EXPECT_NE(text.find("which has 16 GiB"), std::string::npos) << text;
  }
  params.input.images = 10000;
  EXPECT_NO_THROW(Loader(params, 256, 602112));
}

/// A batch of four examples takes a thread 4 ms. While nobody asks the queue fills, and so many
/// batches wait before it as are made ahead; then they come at once, the next one 4 ms later.
TEST(Loader, BatchesAreMadeAheadWhileNobodyAsks) {
  for (const std::uint32_t prefetch : {0U, 2U, 5U}) {
    MachineParams params = thread_bound(1);
    params.input.prefetch_batches = prefetch;
    InputPipeline pipeline(params, {16 << 10, 16 << 10, 4}, {{0, nullptr}});
    const auto rested = static_cast<std::uint64_t>(0.1 * kCyclesPerSecond);
    const auto soon = rested + static_cast<std::uint64_t>(0.003 * kCyclesPerSecond);
    while (pipeline.next_event().value_or(rested) < rested) {
      pipeline.advance(*pipeline.next_event());
    }
    std::uint32_t at_once = 0;
    for (std::uint64_t now = rested; now < soon;) {
      pipeline.request(0, 16, at_once);
      while (pipeline.advance(now).empty()) now = std::max(now + 1, *pipeline.next_event());
      if (now < soon) ++at_once;
    }
    EXPECT_EQ(at_once, params.host.infeed_queue_batches + 1 + prefetch);
  }
}

/// Takes a batch of four examples of 16 KiB and works for `work` cycles.
isa::Program taker(std::uint64_t work) {
  isa::Program program = test::program_of("kernel top\n" + std::string(R"(
  { dma.infeed_to_hbm 64, 0, 1 }
  { dma.done.wait 1, 64 }
  { vsyncadd 1, -64 ;; vdelay )") + std::to_string(work) +
                                          " }\n");
  program.infeed_bytes = 64 << 10;
  program.examples_per_core = 4;
  return program;
}

TEST(Loader, ABatchGoesToAllCoresOfTheHostAtOnce) {
  RunOptions options;
  options.steps = 6;
  const RunResult result = test::run(taker(1000), options, thread_bound(4));
  for (const CoreResult& core : result.cores) {
    for (std::size_t step = 2; step < 6; ++step) {
      // 32 examples, 1 ms on one of four threads each.
      const double cycles = static_cast<double>(core.steps[step].end - core.steps[step].begin);
      EXPECT_NEAR(cycles, 0.008 * kCyclesPerSecond, 0.02 * 0.008 * kCyclesPerSecond);
    }
    EXPECT_NEAR(static_cast<double>(core.end_cycle), static_cast<double>(result.cycles), 5000);
  }
}

TEST(Loader, AStepMayTakeOneExampleButHasToSayHowMany) {
  isa::Program program = taker(1000);
  program.examples_per_core = 1;
  EXPECT_EQ(test::run(program, {}, thread_bound(4)).cores.size(), 8u);
  program.examples_per_core = 0;
  EXPECT_THROW(test::run(program, {}, thread_bound(4)), WorkloadError);
}

TEST(Loader, AStatedRateCountsWhateverTheDatasetSays) {
  MachineParams params = thread_bound(1);
  params.host.examples_per_s = 32000;
  RunOptions options;
  options.steps = 4;
  const RunResult result = test::run(taker(1000), options, params);
  const StepSpan& span = result.cores[0].steps[3];
  EXPECT_NEAR(static_cast<double>(span.end - span.begin), 0.001 * kCyclesPerSecond, 5000);
}

TEST(Loader, AHostThatIsFasterThanTheChipsIsHiddenBehindThem) {
  // The host needs 0.8 ms a batch, the chips 4 ms: only the first batch is waited for.
  MachineParams params = thread_bound(4);
  params.input.decode_ns_per_pixel = 3;
  params.input.augment_us = 40;
  RunOptions options;
  options.steps = 5;
  const RunResult result = test::run(taker(4 * 940000), options, params);
  EXPECT_LT(result.cores[0].total.core[CoreState::kInfeedWait], 940000u);
  EXPECT_GT(result.cores[0].total.core[CoreState::kInfeedWait], 752000u);
}

TEST(Loader, ANetworkBeforeTheChipsIsSharedByAllCores) {
  MachineParams params = thread_bound(96);
  params.host.network_mb_per_s = 10;
  RunOptions options;
  options.steps = 6;
  const RunResult result = test::run(taker(1000), options, params);
  const StepSpan& span = result.cores[0].steps[5];
  const double expected = 8 * 65536 / 10e6 * kCyclesPerSecond;
  EXPECT_NEAR(static_cast<double>(span.end - span.begin), expected, 0.01 * expected);
}

/// Step times in cycles of eight cores whose host hands batches over as `params` say.
std::vector<double> handed_over(const MachineParams& params, std::uint64_t work) {
  RunOptions options;
  options.steps = 8;
  const RunResult result = test::run(taker(work), options, params);
  std::vector<double> steps;
  for (std::size_t step = 4; step < 8; ++step) {
    const StepSpan& span = result.cores[7].steps[step];
    steps.push_back(static_cast<double>(span.end - span.begin));
  }
  return steps;
}

TEST(HandOver, AddsToTheTimeOnTheWire) {
  // A thread takes 2 ms a batch and 65,536 bytes a core at 100 MB/s, then the bytes of all cores
  // cross the network at 50 MB/s, or those of two cores PCIe: no part hides behind another.
  for (const bool is_node : {true, false}) {
    for (const bool is_described : {true, false}) {
      MachineParams params;
      if (is_described) params = thread_bound(96);
      params.hbm.refresh_interval_ns = 0;  // The write into the HBM is in each step alike.
      params.host.hand_over_us = 2000;
      params.host.hand_over_mb_per_s = 100;
      if (is_node) params.host.network_mb_per_s = 50;
      const double wire = is_node ? 8 * 65536 / 50e6 : 2 * 65536 / 15e9;
      const double expected = (2000e-6 + 65536 / 100e6 + wire) * kCyclesPerSecond;
      for (const double cycles : handed_over(params, 1000)) {
        EXPECT_NEAR(cycles, expected, 3) << is_node << is_described;
      }
      // Its rate is what the pipeline says of itself.
      if (!is_described) continue;
      const std::vector<LoaderStage> stages = loader_stages(params, 65536 / 4, 8 * 4);
      EXPECT_STREQ(stages.back().name, "hand-over");
      EXPECT_NEAR(stages.back().examples_per_s, 8 * 4 * kCyclesPerSecond / expected, 1);
    }
  }
}

TEST(HandOver, HidesBehindAStepThatIsLonger) {
  MachineParams params;
  const double step = handed_over(params, 4'000'000).front();
  params.host.hand_over_us = 2000;
  for (const double cycles : handed_over(params, 4'000'000)) EXPECT_NEAR(cycles, step, 400);
}

TEST(HandOver, AccountsOfTheHostAddUp) {
  // Which a run checks at its end; the thread is busy but for what the host makes of a batch.
  MachineParams params;
  params.host.hand_over_us = 2000;
  params.host.network_mb_per_s = 50;
  params.host.examples_per_s = 4 * 8 / 0.020;
  RunOptions options;
  options.steps = 8;
  options.warmup_steps = 2;
  const RunResult result = test::run(taker(1000), options, params);
  const double busy = 2e-3 + 8 * 65536 / 50e6;
  bool is_found = false;
  for (const PartAccount& part : result.parts) {
    if (part.part != "hand-over of host 0") continue;
    is_found = true;
    double all = 0;
    for (const auto& [activity, cycles] : part.cycles) all += static_cast<double>(cycles);
    EXPECT_NEAR(static_cast<double>(part.cycles[0].second) / all, busy / 0.020, 0.01);
  }
  EXPECT_TRUE(is_found);
}

/// A file is read in 1 ms behind 2 ms of latency; a buffer of ten is full behind ten of them, and
/// the next example leaves it behind one more.
TEST(Loader, AShuffleBufferIsFullBeforeTheFirstExampleLeavesIt) {
  MachineParams params = thread_bound(4);
  params.host.storage_latency_us = 2000;
  params.host.storage_mb_per_s = 100;
  params.input.shuffle_examples = 10;
  Loader loader(params, 1, 1000);
  const double thread = 0.001 * kCyclesPerSecond;
  EXPECT_NEAR(static_cast<double>(loader.make(0)), 0.012 * kCyclesPerSecond + thread, 10);
  EXPECT_NEAR(static_cast<double>(loader.make(0)), 0.013 * kCyclesPerSecond + thread, 10);
  const double rate = rate_of(params);
  params.input.shuffle_examples = 0;
  EXPECT_NEAR(rate, rate_of(params), 1);
}

TEST(Loader, AShuffleBufferTakesRam) {
  MachineParams params = thread_bound(4);
  params.host.ram_gib = 1;
  params.input.images = 100000;
  params.input.shuffle_examples = 50000;  // Of 100,000 bytes each.
  EXPECT_EQ(shuffle_bytes(params, 1000), 5e9);
  EXPECT_EQ(loader_ram_bytes(params, 64, 1000), 5e9 + bytes_made_ahead(params, 64, 1000));
  try {
    Loader(params, 64, 1000);
    FAIL() << "no error";
  } catch (const ConfigurationError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("a shuffle buffer of 4.66 GiB"), std::string::npos) << text;
  }
  params.input.images = 1000;  // It holds no more than there are.
  EXPECT_EQ(shuffle_bytes(params, 1000), 1e8);
  // Files that stay in RAM have what it leaves.
  params.input.page_cache = true;
  const double gib = 1024.0 * 1024 * 1024;
  params.input.images = 100000;
  params.input.shuffle_examples = 5000;
  EXPECT_NEAR(page_cache_of(params, 1000, 64).held(),
              (gib - 5e8 - bytes_made_ahead(params, 64, 1000)) / 1e10, 1e-9);
  params.input.reader = "worker";
  EXPECT_THROW(Loader(params, 64, 1000), ConfigurationError);
}

}  // namespace
}  // namespace tpu::loader_test
