#include "traces/perfetto.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "sim/base/error.h"
#include "tests/traces/perfetto_reader.h"
#include "tests/traces/synthetic_record.h"
#include "traces/buffer_lifetimes.h"
#include "traces/core_events.h"
#include "traces/host_stages.h"
#include "traces/link_loads.h"
#include "traces/protobuf_writer.h"

namespace tpu::traces::perfetto_test {
namespace {

namespace fs = std::filesystem;
using test::Fields;
using test::parse;
using test::Track;
using test::tracks_of;

class PerfettoTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "tpusim-perfetto-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    path_ = (folder_ / "x.pftrace").string();
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string text() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  fs::path folder_;
  std::string path_;
};

TEST(ProtobufMessage, BytesAreThoseOfTheSpecification) {
  ProtobufMessage message;
  message.varint(1, 150).bytes(2, "testing").number(3, 1.0);
  EXPECT_EQ(message.text(),
            std::string("\x08\x96\x01\x12\x07testing\x19\x00\x00\x00\x00\x00\x00\xf0\x3f", 21));
  EXPECT_EQ(ProtobufMessage().varint(16, ~std::uint64_t{0}).text(),
            "\x80\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
}

TEST_F(PerfettoTest, EachCoreHasItsTracks) {
  export_perfetto(test::synthetic_record_with_events(), path_);
  const auto tracks = tracks_of(text());
  std::map<std::string, std::vector<std::string>> children;
  for (const auto& [id, track] : tracks) {
    const std::string parent = track.parent != 0 ? tracks.at(track.parent).name : "";
    children[parent].push_back(track.name);
  }
  EXPECT_EQ(children[""], (std::vector<std::string>{"TPU v3 chip 0"}));
  EXPECT_EQ(children["TPU v3 chip 0"], (std::vector<std::string>{"core 0", "core 1"}));
  EXPECT_EQ(children["core 0"],
            (std::vector<std::string>{
                "Steps", "XLA Ops", "Sequencer", "Causes", "MXU0", "MXU1", "VPU", "XLU", "EUP",
                "DMA HBM->VMEM", "DMA VMEM->HBM", "DMA VMEM->ICI->VMEM", "HBM GB/s of core 0",
                "MXU % of core 0", "VMEM in use of core 0", "HBM in use of core 0"}));
  EXPECT_EQ(children["DMA HBM->VMEM"], (std::vector<std::string>{"DMA HBM->VMEM #2"}));
  EXPECT_EQ(
      children["core 1"],
      (std::vector<std::string>{"Steps", "XLA Ops", "Sequencer", "Causes", "MXU0", "MXU1", "VPU",
                                "XLU", "EUP", "HBM GB/s of core 1", "MXU % of core 1",
                                "VMEM in use of core 1", "HBM in use of core 1", "HBM channels"}));
  EXPECT_EQ(children["HBM channels"], (std::vector<std::string>{"HBM channel 7 of core 1"}));
}

/// Op 1 of core 0 begins in the last hundred cycles of op 0.
TEST_F(PerfettoTest, OpsThatOverlapGoToLanesWithANumber) {
  RunRecord record = test::synthetic_record_with_events();
  for (OpEvent& event : record.events.ops) {
    if (event.core == 0 && event.op == 1) event.begin -= 100;
  }
  export_perfetto(record, path_);
  std::map<std::string, std::size_t> slices;
  for (const auto& [id, track] : tracks_of(text())) {
    if (track.name.rfind("XLA Ops", 0) == 0) slices[track.name] += track.slices.size();
  }
  EXPECT_EQ(slices, (std::map<std::string, std::size_t>{{"XLA Ops", 10}, {"XLA Ops #2", 2}}));
}

Track track_named(const std::string& trace, const std::string& name, const std::string& parent) {
  const auto tracks = tracks_of(trace);
  for (const auto& [id, track] : tracks) {
    if (track.name == name && tracks.at(track.parent).name == parent) return track;
  }
  ADD_FAILURE() << "no track " << name << " of " << parent;
  return {};
}

/// Ops 0 and 1 issue until the wait for the infeed, which is op 2.
TEST_F(PerfettoTest, TheSequencerWaitsAndRunsItsOps) {
  export_perfetto(test::synthetic_record_with_events(), path_);
  const Track track = track_named(text(), "Sequencer", "core 0");
  EXPECT_EQ(track.names, (std::vector<std::string>{"fusion.1", "copy.2", "infeed wait", "fusion.1",
                                                   "copy.2", "infeed wait"}));
  ASSERT_EQ(track.slices.size(), 6u);
  EXPECT_EQ(track.slices[1], std::pair(std::uint64_t{600 * 1000 / 940}, std::uint64_t{957}));
}

/// Of op 0 six tenths depend on the MXU, of op 1 all on the HBM; op 2 on the host.
TEST_F(PerfettoTest, CausesAreThoseOfTheCriticalPath) {
  RunRecord record = test::synthetic_record_with_events();
  std::vector<CriticalPath::Op>& ops = record.result.critical_path.ops;
  ops.assign(3, {});
  ops[0].cycles[static_cast<std::size_t>(Resource::kMxu)] = 720;
  ops[0].cycles[static_cast<std::size_t>(Resource::kHbm)] = 480;
  ops[1].cycles[static_cast<std::size_t>(Resource::kHbm)] = 600;
  ops[2].cycles[static_cast<std::size_t>(Resource::kHost)] = 200;
  export_perfetto(record, path_);
  const Track track = track_named(text(), "Causes", "core 1");
  EXPECT_EQ(track.names, (std::vector<std::string>{"MXU", "HBM", "host", "MXU", "HBM", "host"}));
}

TEST_F(PerfettoTest, AnOpOnWhichNoCycleDependsHasNoCause) {
  RunRecord record = test::synthetic_record_with_events();
  std::vector<CriticalPath::Op>& ops = record.result.critical_path.ops;
  ops.assign(3, {});
  ops[0].cycles[static_cast<std::size_t>(Resource::kMxu)] = 1200;
  ops[2].cycles[static_cast<std::size_t>(Resource::kHost)] = 0.5;
  export_perfetto(record, path_);
  const Track track = track_named(text(), "Causes", "core 1");
  EXPECT_EQ(track.names, (std::vector<std::string>{"MXU", "host", "MXU", "host"}));
}

/// Slices of a track are one after another: an op that runs inside another has none of its own.
TEST_F(PerfettoTest, CausesDoNotOverlap) {
  RunRecord record = test::synthetic_record_with_events();
  std::vector<CriticalPath::Op>& ops = record.result.critical_path.ops;
  ops.assign(3, {});
  for (CriticalPath::Op& op : ops) op.cycles[static_cast<std::size_t>(Resource::kMxu)] = 100;
  ops[1].cycles[static_cast<std::size_t>(Resource::kHbm)] = 600;
  const auto first = std::find_if(record.events.ops.begin(), record.events.ops.end(),
                                  [](const OpEvent& event) { return event.core == 1; });
  record.events.ops.insert(first + 1, {1, 1, 100, 500, 0, 0, 0, {}});
  export_perfetto(record, path_);
  const Track track = track_named(text(), "Causes", "core 1");
  EXPECT_EQ(track.names, (std::vector<std::string>{"MXU", "HBM", "MXU", "MXU", "HBM", "MXU"}));
}

TEST_F(PerfettoTest, ChannelsShowWhatPassedAndVmemWhatOpsHave) {
  export_perfetto(test::synthetic_record_with_events(), path_);
  const Track channel = track_named(text(), "HBM channel 7 of core 1", "HBM channels");
  ASSERT_EQ(channel.values.size(), 3u);
  EXPECT_NEAR(channel.values[0].second, 9400 / 1100.0 * 0.94, 1e-9);
  EXPECT_NEAR(channel.values[1].second, 4700 / 1100.0 * 0.94, 1e-9);
  EXPECT_EQ(channel.values[2], std::pair(std::uint64_t{2200 * 1000 / 940}, 0.0));
  const Track vmem = track_named(text(), "VMEM in use of core 0", "core 0");
  ASSERT_GE(vmem.values.size(), 3u);
  EXPECT_EQ(vmem.values[0].second, 3 << 20);
  EXPECT_EQ(vmem.values[1], std::pair(std::uint64_t{600 * 1000 / 940}, 0.0));
}

/// InternedData: event_names are field 2 (1 is event_categories, 3 debug_annotation_names).
TEST_F(PerfettoTest, NamesOfSlicesAreInternedAsEventNames) {
  export_perfetto(test::synthetic_record_with_events(), path_);
  std::set<std::string> names;
  for (const std::string& packet : test::perfetto_packets(text())) {
    const test::Fields fields = test::parse(packet);
    const auto [begin, end] = fields.texts.equal_range(12);
    for (auto at = begin; at != end; ++at) {
      const test::Fields interned = test::parse(at->second);
      const auto [first, last] = interned.texts.equal_range(2);
      for (auto each = first; each != last; ++each) {
        names.insert(test::parse(each->second).texts.find(2)->second);
      }
    }
  }
  for (const char* name : {"fusion.1", "copy.2", "infeed.3"}) EXPECT_EQ(names.count(name), 1u);
}

TEST_F(PerfettoTest, TimesAreCyclesInNanoseconds) {
  export_perfetto(test::synthetic_record_with_events(), path_);
  for (const auto& [id, track] : tracks_of(text())) {
    if (track.name != "Steps") continue;
    ASSERT_EQ(track.slices.size(), 2u);
    const bool first_core = track.slices[0].second == 1000 * 1000 / 940;
    EXPECT_EQ(track.slices[0].second, (first_core ? 1000 : 1100) * 1000 / 940);
    EXPECT_EQ(track.slices[1].second, (first_core ? 2000 : 2200) * 1000 / 940);
  }
}

TEST_F(PerfettoTest, OverlappingDmasGoToLanesAndTouchingOnesShareOne) {
  export_perfetto(test::synthetic_record_with_events(), path_);
  for (const auto& [id, track] : tracks_of(text())) {
    if (track.name == "DMA HBM->VMEM") {
      EXPECT_EQ(track.slices.size(), 1u);
    }
    if (track.name == "DMA HBM->VMEM #2") {
      EXPECT_EQ(track.slices.size(), 2u);
    }
    if (track.name == "DMA VMEM->HBM") {
      EXPECT_EQ(track.slices.size(), 1u);
    }
  }
}

/// The value of a counter in a cycle.
double value_at(const Track& track, std::uint64_t cycle) {
  double value = 0;
  for (const auto& [time, next] : track.values) {
    if (time > cycle * 1000 / 940) break;
    value = next;
  }
  return value;
}

TEST_F(PerfettoTest, CountersAreSharesOfTheMxusAndBytesOfTheHbm) {
  RunRecord record = test::synthetic_record_with_events();
  DmaEvent elsewhere;  // Core 0 of another chip has an HBM of its own.
  elsewhere.source_chip = elsewhere.destination_chip = 1;
  elsewhere.begin = 900;
  elsewhere.end = 990;
  elsewhere.bytes = 60000;
  record.events.dmas.push_back(elsewhere);
  export_perfetto(record, path_);
  std::map<std::string, Track> counters;
  for (const auto& [id, track] : tracks_of(text())) {
    if (track.counter) counters[track.name] = track;
  }
  ASSERT_EQ(counters.size(), 9u);
  // 120 pushes of eight cycles on two MXUs, in the 600 cycles of op 0.
  const Track& mxu = counters["MXU % of core 0"];
  EXPECT_NEAR(value_at(mxu, 300), 100 * 120 * 8 / 2 / 600.0, 0.5);
  EXPECT_NEAR(value_at(mxu, 750), 0, 1e-9);
  // 120,000 bytes at 490.2 a cycle from 600 on keep the pins busy for 245 cycles.
  const Track& hbm = counters["HBM GB/s of core 0"];
  EXPECT_NEAR(value_at(hbm, 590), 0, 1e-9);
  EXPECT_NEAR(value_at(hbm, 650), 460.8, 1e-6);
  EXPECT_NEAR(value_at(hbm, 840), 460.8, 1e-6);
  EXPECT_NEAR(value_at(hbm, 850), 0, 1e-9);
  // The one from VMEM to VMEM does not touch the HBM.
  EXPECT_NEAR(value_at(hbm, 930), 0, 1e-9);
  // What passed the channels of core 1 is known: 9,400 bytes in 1,100 cycles, then 4,700.
  EXPECT_NEAR(value_at(counters["HBM GB/s of core 1"], 650), 9400 / 1100.0 * 0.94, 1e-9);
  EXPECT_NEAR(value_at(counters["HBM GB/s of core 1"], 1650), 4700 / 1100.0 * 0.94, 1e-9);
}

/// A stretch of a few clocks, rounded to cycles, may look faster than the pins.
TEST_F(PerfettoTest, TheHbmMovesWhatPassedItsChannelsAndNeverMoreThanItsPins) {
  RunRecord record = test::synthetic_record_with_events();
  std::vector<PartAccount::Moved>& moved = record.result.parts[0].moved;
  moved = {{0, 0}, {100, 600}, {101, 400}, {102, 0}, {200, 5000}, {220, 0}};
  // A core that did what core 1 did is simulated as it, and has its channels.
  record.result.cores.push_back(record.result.cores[1]);
  record.core_numbers.push_back(2);
  for (const std::size_t core : {1, 2}) {
    for (const std::size_t bins : {1, 22, 2200}) {
      const std::vector<double> bytes = hbm_bytes(record, core_events(record, core), bins);
      double sum = 0;
      for (const double part : bytes) {
        sum += part;
        EXPECT_LE(part, 460.8e9 / 940e6 * 2200 / static_cast<double>(bins) + 1e-6);
      }
      EXPECT_NEAR(sum, 6000, 1e-6) << bins;
      if (bins == 22) {
        EXPECT_NEAR(bytes[1], 1000, 1e-6);
        EXPECT_NEAR(bytes[2], 5000, 1e-6);
      }
    }
  }
}

/// A core has 460.8 GB/s at the pins: 490.2 bytes a cycle of 940 MHz. DMAs overlap, and would make
/// up to 633.
TEST_F(PerfettoTest, TheHbmMovesWhatDmasMovedAndNeverMoreThanItsPins) {
  const RunRecord record = test::synthetic_record_with_events();
  for (const std::size_t bins : {1, 7, 22, 2000}) {
    const std::vector<double> bytes = hbm_bytes(record, core_events(record, 0), bins);
    double sum = 0;
    for (const double part : bytes) {
      sum += part;
      EXPECT_LE(part, 460.8e9 / 940e6 * 2200 / static_cast<double>(bins) + 1e-6);
    }
    EXPECT_NEAR(sum, 60000 + 30000 + 30000, 1e-6) << bins;
  }
}

/// From chip 0 to chip 3 of 2x2: along x, then along y, over chip 1.
TEST_F(PerfettoTest, ALinkCarriesWhatPassesItAndNoMoreThanItCan) {
  RunRecord record = test::synthetic_record_with_events();
  DmaEvent dma;
  dma.source = dma.destination = isa::MemorySpace::kVmem;
  dma.destination_chip = 3;
  dma.begin = 0;
  dma.end = 100;
  dma.bytes = 50000;
  record.events.dmas.push_back(dma);
  const double part = 656e9 / 8 / 940e6 * 100;  // Of a link of 656 Gb/s in 100 cycles.
  std::map<std::pair<std::uint32_t, std::uint32_t>, double> carried;
  for (const LinkLoad& link : link_loads(record)) {
    const std::vector<double> bytes = link_bytes(record, link, 22);
    double& sum = carried[{link.from_chip, link.to_chip}];
    for (const double in_part : bytes) {
      EXPECT_LE(in_part, part + 1e-6);
      sum += in_part;
    }
    if (link.bytes > 0) {
      EXPECT_NEAR(bytes[0], part, 1e-6);
      EXPECT_NEAR(bytes[5], 50000 - 5 * part, 1e-6);
    }
  }
  EXPECT_EQ(carried.size(), 8u);
  for (const auto& [ends, sum] : carried) {
    const bool on_its_way = ends == std::pair{0U, 1U} || ends == std::pair{1U, 3U};
    EXPECT_NEAR(sum, on_its_way ? 50000 : 0, 1e-6) << ends.first << " to " << ends.second;
  }
  export_perfetto(record, path_);
  std::vector<std::string> names;
  for (const auto& [id, track] : tracks_of(text())) {
    if (track.name.rfind("ICI", 0) == 0) names.push_back(track.name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"ICI links", "ICI GB/s from chip 0 +x to chip 1",
                                             "ICI GB/s from chip 1 +y to chip 3"}));
}

/// Parameters of 8 KiB all the time, the temporary of 100 KiB over them.
TEST_F(PerfettoTest, HbmInUseIsThatOfTheOpsThatRun) {
  const RunRecord record = test::synthetic_record_with_events();
  export_perfetto(record, path_);
  const std::vector<std::uint64_t> in_use = hbm_in_use(record);
  for (const auto& [id, track] : tracks_of(text())) {
    if (track.name != "HBM in use of core 1") continue;
    EXPECT_EQ(value_at(track, 300), static_cast<double>(in_use[0]));
    EXPECT_EQ(value_at(track, 2199), static_cast<double>(in_use[2]));
    return;
  }
  FAIL() << "no such counter";
}

TEST_F(PerfettoTest, TheHostHasARateAndASliceForEachStage) {
  RunRecord record = test::synthetic_record_with_events();
  DmaEvent infeed;
  infeed.source = isa::MemorySpace::kInfeed;
  infeed.destination = isa::MemorySpace::kHbm;
  infeed.begin = 900;
  infeed.end = 1000;
  infeed.bytes = 4096;
  record.events.dmas.push_back(infeed);
  export_perfetto(record, path_);
  double bytes = 0;
  std::size_t stages = 0;
  for (const auto& [id, track] : tracks_of(text())) {
    if (track.name == "infeed and outfeed GB/s of all cores") {
      for (std::size_t i = 0; i + 1 < track.values.size(); ++i) {
        const auto ns = static_cast<double>(track.values[i + 1].first - track.values[i].first);
        bytes += track.values[i].second * ns;
      }
    }
    if (track.name.rfind("host: ", 0) == 0) {
      ++stages;
      EXPECT_EQ(track.slices,
                (std::vector<std::pair<std::uint64_t, std::uint64_t>>{{0, 2200 * 1000 / 940}}));
    }
  }
  EXPECT_NEAR(bytes, 4096, 4096 * 0.02);  // Whole nanoseconds.
  EXPECT_EQ(stages, host_stages(record).size());
  EXPECT_GE(stages, 1u);
}

/// 40,000 slices, as a run has DMAs: 20 bytes each, ten millions in 200 MB.
TEST_F(PerfettoTest, ASliceTakesLessThanTwentyBytes) {
  RunRecord record = test::synthetic_record_with_events();
  std::uint64_t random = 1;
  for (std::uint64_t i = 0; i < 40000; ++i) {
    random = random * 6364136223846793005ULL + 1442695040888963407ULL;
    DmaEvent dma;
    dma.begin = 10 * i + (random >> 60);
    dma.end = dma.begin + 700 + (random >> 40) % 256;
    dma.bytes = 1024 * (1 + (random >> 33) % 512);
    record.events.dmas.push_back(dma);
  }
  record.result.cycles = 10 * 40000 + 2000;
  export_perfetto(record, path_);
  EXPECT_LT(fs::file_size(path_), 40000 * 20u);
  std::size_t slices = 0;
  for (const auto& [id, track] : tracks_of(text())) slices += track.slices.size();
  EXPECT_GT(slices, 40000u);
}

/// The arguments of all events in their order: name and message, a DebugAnnotation.
std::vector<std::pair<std::string, Fields>> arguments_of(const std::string& trace) {
  std::map<std::uint64_t, std::string> names;  // As they are interned.
  std::vector<std::pair<std::string, Fields>> arguments;
  for (const std::string& packet_text : test::perfetto_packets(trace)) {
    const Fields packet = parse(packet_text);
    if (packet.texts.count(12) > 0) {
      const Fields interned = parse(packet.texts.find(12)->second);
      const auto [begin, end] = interned.texts.equal_range(3);
      for (auto at = begin; at != end; ++at) {
        const Fields name = parse(at->second);
        names[name.numbers.find(1)->second] = name.texts.find(2)->second;
      }
    }
    if (packet.texts.count(11) == 0) continue;
    const Fields event = parse(packet.texts.find(11)->second);
    const auto [begin, end] = event.texts.equal_range(4);
    for (auto at = begin; at != end; ++at) {
      const Fields argument = parse(at->second);
      arguments.emplace_back(names[argument.numbers.find(1)->second], argument);
    }
  }
  return arguments;
}

/// Core 1 of chip 3 is core 7 of the slice.
TEST_F(PerfettoTest, ADmaNamesTheCoreThatItGoesTo) {
  RunRecord record = test::synthetic_record_with_events();
  record.events.dmas.back().destination_chip = 3;
  export_perfetto(record, path_);
  std::vector<std::uint64_t> cores;
  for (const auto& [name, argument] : arguments_of(text())) {
    if (name == "destination_core") cores.push_back(argument.numbers.find(3)->second);
  }
  EXPECT_EQ(cores, std::vector<std::uint64_t>{7});
}

/// Two steps on two cores; a resource on which no cycle of the op depends has no share of it.
TEST_F(PerfettoTest, ACauseHasItsShareAndNoOtherIsNamed) {
  RunRecord record = test::synthetic_record_with_events();
  std::vector<CriticalPath::Op>& ops = record.result.critical_path.ops;
  ops.assign(3, {});
  ops[0].cycles[static_cast<std::size_t>(Resource::kMxu)] = 720;
  ops[0].cycles[static_cast<std::size_t>(Resource::kHbm)] = 480;
  export_perfetto(record, path_);
  std::map<std::string, std::vector<double>> shares;
  for (const auto& [name, argument] : arguments_of(text())) {
    for (std::size_t r = 0; r < kResources; ++r) {
      if (name != to_string(static_cast<Resource>(r))) continue;
      double share = 0;
      std::memcpy(&share, &argument.numbers.find(5)->second, 8);
      shares[name].push_back(share);
    }
  }
  const std::map<std::string, std::vector<double>> expected{{"MXU", {0.6, 0.6, 0.6, 0.6}},
                                                            {"HBM", {0.4, 0.4, 0.4, 0.4}}};
  EXPECT_EQ(shares, expected);
}

/// The infeed of core 0's first step ends with its wait: an arrow from the DMA to the wait's end.
TEST_F(PerfettoTest, ArrowsLeadFromDmasToTheWaitsThatTheyEnd) {
  RunRecord record = test::synthetic_record_with_events();
  DmaEvent infeed;
  infeed.source = isa::MemorySpace::kInfeed;
  infeed.destination = isa::MemorySpace::kHbm;
  infeed.begin = 950;
  infeed.end = 1000;
  infeed.bytes = 4096;
  record.events.dmas.push_back(infeed);
  export_perfetto(record, path_);
  std::map<std::uint64_t, std::vector<std::uint64_t>> ends;  // Flow: out at, in at, ns.
  for (const std::string& packet_text : test::perfetto_packets(text())) {
    const Fields packet = parse(packet_text);
    if (packet.texts.count(11) == 0) continue;
    const Fields event = parse(packet.texts.find(11)->second);
    for (const std::uint32_t field : {47, 48}) {
      if (event.numbers.count(field) == 0) continue;
      ends[event.numbers.find(field)->second].push_back(packet.numbers.find(8)->second);
    }
  }
  ASSERT_EQ(ends.size(), 1u);
  std::vector<std::uint64_t>& times = ends.begin()->second;
  std::sort(times.begin(), times.end());
  // From the DMA to the wait's end, and from there to what goes on.
  EXPECT_EQ(times,
            (std::vector<std::uint64_t>{950 * 1000 / 940, 1000 * 1000 / 940, 1000 * 1000 / 940}));
}

TEST_F(PerfettoTest, PerfettosOwnSchemaAgrees) {
  const std::string checker = TPUSIM_SOURCE_DIR "/../shared/viewers/check_perfetto.py";
  if (!fs::exists(checker) || std::system("python3 -c 'import perfetto' 2>/dev/null") != 0) {
    GTEST_SKIP() << "no check_perfetto.py or no Python package perfetto here";
  }
  export_perfetto(test::synthetic_record_with_events(), path_);
  // The checker does not look into compressed packets.
  ProtobufMessage plain;
  for (const std::string& packet : test::perfetto_packets(text())) plain.bytes(1, packet);
  std::ofstream(path_, std::ios::binary) << plain.text();
  EXPECT_EQ(std::system(("python3 " + checker + " " + path_ + " >/dev/null").c_str()), 0);
}

TEST_F(PerfettoTest, ARunWithoutEventsIsRefused) {
  try {
    export_perfetto(test::synthetic_record(), path_);
    FAIL() << "no error";
  } catch (const WorkloadError& error) {
    EXPECT_EQ(std::string(error.what()),
              "the run was recorded without events; run it again with --output");
  }
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(PerfettoTest, AFullDeviceIsAnError) {
  EXPECT_THROW(export_perfetto(test::synthetic_record_with_events(), "/dev/full"), UsageError);
}

}  // namespace
}  // namespace tpu::traces::perfetto_test
