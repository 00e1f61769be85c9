#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "isa/buffer_lifetimes.h"
#include "sim/base/error.h"
#include "tests/models/test_program.h"
#include "tests/traces/synthetic_record.h"
#include "traces/buffer_lifetimes.h"
#include "traces/chrome_trace.h"
#include "traces/csv.h"
#include "traces/run_file.h"
#include "traces/valid_utf8.h"
#include "traces/vcd.h"

/// Exports that are text: Chrome JSON, value change dumps, comma-separated tables.

namespace tpu::traces::text_exports_test {
namespace {

namespace fs = std::filesystem;

class TextExportsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "tpusim-export-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string text(const std::string& name) const {
    std::ifstream in(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  fs::path folder_;
};

TEST_F(TextExportsTest, ChromeHasEachEventWithItsTime) {
  RunRecord record = test::synthetic_record_with_events();
  record.ops[1].op_name = "a \"quoted\"\\\x01\xff";
  export_chrome(record, path("t.json"));
  const auto trace = nlohmann::json::parse(text("t.json"));
  std::map<std::string, int> names;
  double hbm = 0;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "X") ++names[event["name"]];
    if (event["ph"] == "C" && event["pid"] == 0) hbm += event["args"]["GB/s"].get<double>();
  }
  EXPECT_EQ(names, (std::map<std::string, int>{{"step 0", 2},
                                               {"step 1", 2},
                                               {"fusion.1", 4},
                                               {"copy.2", 4},
                                               {"infeed.3", 4},
                                               {"infeed wait", 4},
                                               {"DMA HBM->VMEM", 3},
                                               {"DMA VMEM->HBM", 1},
                                               {"DMA VMEM->ICI->VMEM", 1}}));
  for (const auto& event : trace["traceEvents"]) {
    if (event["name"] != "copy.2" || event["pid"] != 1) continue;
    EXPECT_NEAR(event["ts"], 600 / 940.0, 1e-9);
    EXPECT_NEAR(event["dur"], 300 / 940.0, 1e-9);
    EXPECT_EQ(event["args"]["op_name"], "a \"quoted\"\\\x01\xef\xbf\xbd");
    break;
  }
  std::set<std::string> threads;
  for (const auto& event : trace["traceEvents"]) {
    // A process's name belongs to none of its threads.
    if (event["name"] == "process_name") {
      EXPECT_EQ(event["tid"], 0);
    }
    if (event["name"] != "thread_name") continue;
    EXPECT_GT(event["tid"], 0);
    threads.insert(event["args"]["name"].get<std::string>());
  }
  for (const char* thread : {"Steps", "DMA HBM->VMEM", "DMA VMEM->HBM", "DMA VMEM->ICI->VMEM"}) {
    EXPECT_EQ(threads.count(thread), 1u) << thread;
  }
  std::vector<double> times;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "C" && event["pid"] == 0) times.push_back(event["ts"].get<double>());
  }
  ASSERT_EQ(times.size(), 2000u);
  for (std::size_t bin = 0; bin < times.size(); ++bin) {
    ASSERT_NEAR(times[bin], static_cast<double>(2200 * bin / 2000) / 940.0, 1e-6) << bin;
  }
  // 2,000 values of the run's 2,200 cycles: their mean is the bytes over the time.
  EXPECT_NEAR(hbm / 2000, 120000 / (2200 / 940e6) / 1e9, 1e-6);
}

/// Values of a signal of the dump by time in picoseconds.
std::map<std::uint64_t, std::string> values_of(const std::string& dump, const std::string& scope,
                                               const std::string& name) {
  std::istringstream in(dump);
  std::string line, at, code;
  std::uint64_t time = 0;
  std::map<std::uint64_t, std::string> values;
  while (std::getline(in, line)) {
    std::istringstream words(line);
    std::vector<std::string> parts;
    for (std::string part; words >> part;) parts.push_back(part);
    if (parts.empty()) continue;
    if (parts[0] == "$scope") at = parts[2];
    if (parts[0] == "$var" && at == scope && parts[4] == name) code = parts[3];
    if (parts[0][0] == '#') {
      const std::uint64_t next = std::stoull(parts[0].substr(1));
      EXPECT_GE(next, time);
      time = next;
    }
    if (parts.size() == 2 && parts[1] == code) values[time] = parts[0];
  }
  return values;
}

std::uint64_t ps(std::uint64_t cycle) { return cycle * 1000000 / 940; }

TEST_F(TextExportsTest, AValueChangeDumpHasOpsWaitsAndDmas) {
  export_vcd(test::synthetic_record_with_events(), {}, path("t.vcd"));
  const std::string dump = text("t.vcd");
  EXPECT_EQ(values_of(dump, "core0", "op"),
            (std::map<std::uint64_t, std::string>{{ps(0), "sfusion.1"},
                                                  {ps(600), "scopy.2"},
                                                  {ps(900), "sinfeed.3"},
                                                  {ps(1000), "sfusion.1"},
                                                  {ps(1600), "scopy.2"},
                                                  {ps(1900), "sinfeed.3"},
                                                  {ps(2000), "s-"}}));
  EXPECT_EQ(values_of(dump, "core1", "waits_for"),
            (std::map<std::uint64_t, std::string>{{ps(0), "s-"},
                                                  {ps(900), "sinfeed_wait"},
                                                  {ps(1100), "s-"},
                                                  {ps(2000), "sinfeed_wait"},
                                                  {ps(2200), "s-"}}));
  EXPECT_EQ(values_of(dump, "core0", "dmas_on_their_way"),
            (std::map<std::uint64_t, std::string>{{ps(0), "b0"},
                                                  {ps(600), "b1"},
                                                  {ps(610), "b10"},
                                                  {ps(800), "b1"},
                                                  {ps(850), "b10"},
                                                  {ps(900), "b1"},
                                                  {ps(950), "b0"}}));
}

/// 40 cores have more signals than there are printable letters: each has a code of its own.
TEST_F(TextExportsTest, SignalsOfAValueChangeDumpHaveCodesOfTheirOwn) {
  RunRecord record = test::synthetic_record_with_events();
  for (std::uint32_t number = 2; number < 40; ++number) {
    record.core_numbers.push_back(number);
    record.result.cores.push_back(record.result.cores[0]);
    record.result.cores.back().core = number % 2;
    record.result.cores.back().chip = number / 2;
  }
  record.params.ici.mesh_x = 20;
  export_vcd(record, {}, path("many.vcd"));
  std::istringstream lines(text("many.vcd"));
  std::set<std::string> codes;
  std::size_t signals = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word, type, width, code;
    words >> word >> type >> width >> code;
    if (word != "$var") continue;
    ++signals;
    codes.insert(code);
    for (const char letter : code) EXPECT_TRUE(letter > ' ' && letter < 127) << line;
  }
  EXPECT_GT(signals, 94u);
  EXPECT_EQ(codes.size(), signals);
}

/// What is on its way returns to nothing when the last DMA is done.
TEST_F(TextExportsTest, AValueChangeDumpHasTheBytesOnTheirWay) {
  const RunRecord record = test::synthetic_record_with_events();
  export_vcd(record, {}, path("t.vcd"));
  std::set<std::uint64_t> cycles;
  for (const DmaEvent& dma : record.events.dmas) cycles.insert({dma.begin, dma.end});
  std::map<std::uint64_t, std::string> expected{{ps(0), "b0"}};
  std::string last = "b0";
  for (const std::uint64_t cycle : cycles) {
    std::uint64_t bytes = 0;
    for (const DmaEvent& dma : record.events.dmas) {
      if (dma.begin <= cycle && cycle < dma.end) bytes += dma.bytes;
    }
    std::string digits;
    for (std::uint64_t rest = bytes; rest > 0; rest /= 2) {
      digits.insert(digits.begin(), rest % 2 == 0 ? '0' : '1');
    }
    const std::string value = "b" + (digits.empty() ? "0" : digits);
    if (value != last) expected[ps(cycle)] = value;  // A dump has what changes.
    last = value;
  }
  EXPECT_EQ(values_of(text("t.vcd"), "core0", "bytes_on_their_way"), expected);
  EXPECT_EQ(expected.rbegin()->second, "b0");
}

/// A push keeps an MXU busy for 8 cycles, or until the next one; a vector operation its slot for
/// one; of the bundle's two each has a signal.
TEST_F(TextExportsTest, AUnitHoldsTheInstructionThatKeepsItBusy) {
  const isa::Program program = test::program_of(
      "kernel top\n  { %s1 = smov 7 }\n  { vmatmul.f32.gmra.mxu0 %v0 ;; %v1 = vadd.f32 %v2, %v3 ;; "
      "%v4 = "
      "vadd.f32 %v5, %v6 }\n");
  BundleLog log;
  for (const std::uint64_t cycle : {100, 105, 120}) {
    BundleEvent event;
    event.cycle = cycle;
    event.number = 1;
    log.bundles.push_back(event);
  }
  export_vcd(test::synthetic_record_with_events(), {}, path("t.vcd"), {&program, &log});
  const std::string dump = text("t.vcd");
  using Values = std::map<std::uint64_t, std::string>;
  const std::string push = values_of(dump, "core0", "mxu0")[ps(100)];
  EXPECT_EQ(push.rfind("svmatmul", 0), 0u) << push;
  EXPECT_EQ(values_of(dump, "core0", "mxu0"),
            (Values{{ps(100), push}, {ps(113), "s-"}, {ps(120), push}, {ps(128), "s-"}}));
  for (const char* slot : {"valu0", "valu1"}) {
    EXPECT_EQ(values_of(dump, "core0", slot), (Values{{ps(100), "svadd.f32"},
                                                      {ps(101), "s-"},
                                                      {ps(105), "svadd.f32"},
                                                      {ps(106), "s-"},
                                                      {ps(120), "svadd.f32"},
                                                      {ps(121), "s-"}}))
        << slot;
  }
  EXPECT_TRUE(values_of(dump, "core1", "valu0").empty());
}

/// By the table of well-formed byte sequences (Unicode, table 3-7): both ends of each range, and
/// their neighbours.
TEST(ValidUtf8, KeepsCharactersAndReplacesEachByteThatIsNoPartOfOne) {
  for (const char* character :
       {"a", "\x7f", "\xc2\x80", "\xc2\xbf", "\xc3\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xe1\x80\x80",
        "\xec\xbf\xbf", "\xed\x80\x80", "\xed\x9f\xbf", "\xee\x80\x80", "\xef\xbf\xbf",
        "\xf0\x90\x80\x80", "\xf1\x80\x80\x80", "\xf3\xbf\xbf\xbf", "\xf4\x80\x80\x80",
        "\xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(valid_utf8(std::string("<") + character + ">"), std::string("<") + character + ">");
  }
  for (const std::string wrong :
       {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc2", "\xc2\x7f", "\xc2\xc0", "\xe0\x9f\xbf",
        "\xe1\x80", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf1\x80\x80", "\xf4\x90\x80\x80",
        "\xf5\x80\x80\x80", "\xff"}) {
    std::string replaced;
    for (const char byte : wrong) replaced += byte == '\x7f' ? "\x7f" : "\xef\xbf\xbd";
    EXPECT_EQ(valid_utf8("<" + wrong + ">"), "<" + replaced + ">");
  }
}

TEST_F(TextExportsTest, AWindowBeginsWithTheValuesOfItsFirstCycle) {
  const RunRecord record = test::synthetic_record_with_events();
  export_vcd(record, {650, 1000}, path("t.vcd"));
  EXPECT_EQ(values_of(text("t.vcd"), "core0", "op"),
            (std::map<std::uint64_t, std::string>{{ps(650), "scopy.2"}, {ps(900), "sinfeed.3"}}));
  EXPECT_THROW(export_vcd(record, {2200, 2300}, path("u.vcd")), UsageError);
  EXPECT_FALSE(fs::exists(folder_ / "u.vcd"));
}

/// Steps from cycle 700 on: the warm-up before them has left no events.
TEST_F(TextExportsTest, AWindowHoldsCyclesOfStepsThatCount) {
  RunRecord record = test::synthetic_record_with_events();
  record.result.cores[0].steps.front().begin = 700;
  record.result.cores[1].steps.front().begin = 710;
  EXPECT_THROW(export_vcd(record, {0, 700}, path("t.vcd")), UsageError);
  EXPECT_FALSE(fs::exists(folder_ / "t.vcd"));
  EXPECT_NO_THROW(export_vcd(record, {0, 701}, path("t.vcd")));
  EXPECT_NO_THROW(export_vcd(record, {2199, 2300}, path("t.vcd")));
}

TEST_F(TextExportsTest, EachTableIsAFile) {
  const Hdf5Contents contents = run_contents(test::synthetic_record_with_events());
  export_csv(contents, path("tables"));
  std::set<std::string> names;
  for (const auto& file : fs::directory_iterator(folder_ / "tables")) {
    names.insert(file.path().filename());
  }
  EXPECT_EQ(names.size(), contents.tables.size());
  EXPECT_EQ(names.count("events_ops.csv"), 1u);
  EXPECT_EQ(text("tables/steps.csv"),
            "core,step,begin_cycle,end_cycle\n0,0,0,1000\n0,1,1000,2000\n1,0,0,1100\n"
            "1,1,1100,2200\n");
  const std::string enumerations = text("tables/enumerations.csv");
  for (const char* line : {"reason,0,issue", "reason,3,infeed_wait", "unit,0,scalar", "space,0,HBM",
                           "space,1,VMEM", "space,4,outfeed", "role,0,parameter"}) {
    EXPECT_NE(enumerations.find("\n" + std::string(line) + "\n"), std::string::npos)
        << line << " in\n"
        << enumerations;
  }
}

/// Four ops; "a" and "b" share a place one after the other, "c" half of it.
TEST(BufferLifetimes, ATemporaryLivesUntilAnotherTakesItsPlace) {
  RunRecord record;
  for (const char* name : {"a", "b", "c", "d"}) {
    record.ops.emplace_back();
    record.ops.back().name = name;
  }
  const auto add = [&](const char* name, isa::BufferRole role, std::uint64_t granule,
                       std::uint64_t bytes) {
    isa::Buffer buffer;
    buffer.name = name;
    buffer.role = role;
    buffer.granule = granule;
    buffer.bytes = bytes;
    record.buffers.push_back(buffer);
  };
  add("w", isa::BufferRole::kParameter, 1, 1024);
  add("d", isa::BufferRole::kOutput, 1, 1024);
  add("a{0}", isa::BufferRole::kTemporary, 10, 4096);
  add("b", isa::BufferRole::kTemporary, 10, 4096);
  add("c@{}", isa::BufferRole::kTemporary, 12, 1024);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> lifetimes;
  record.lifetimes = isa::overwritten_lifetimes(record.ops, record.buffers);
  for (const isa::Lifetime& life : record.lifetimes) {
    lifetimes.emplace_back(life.first_op, life.last_op);
  }
  EXPECT_EQ(lifetimes, (std::vector<std::pair<std::uint32_t, std::uint32_t>>{
                           {0, 3}, {3, 3}, {0, 0}, {1, 1}, {2, 3}}));
  EXPECT_EQ(hbm_in_use(record), (std::vector<std::uint64_t>{5120, 5120, 2048, 2048}));
  EXPECT_EQ(hbm_peak_bytes(record), 5120u);
  record.hbm_plan_bytes = 7;
  record.ops.clear();
  EXPECT_EQ(hbm_peak_bytes(record), 7u);
}

}  // namespace
}  // namespace tpu::traces::text_exports_test
