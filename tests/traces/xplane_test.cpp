#include "traces/xplane.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "sim/base/error.h"
#include "tests/traces/synthetic_record.h"
#include "tests/traces/wire_reader.h"

namespace tpu::traces::xplane_test {
namespace {

namespace fs = std::filesystem;
using test::Fields;
using test::parse;

constexpr XPlaneFigures kFigures{35, 20};
constexpr std::size_t kMany = 1000000;

/// One event or kind of events: its statistics by name; numbers as they stand in the file.
struct Item {
  std::string name;
  std::uint64_t begin = 0, duration = 0;
  std::map<std::string, std::uint64_t> numbers;
  std::map<std::string, std::string> texts;
};
struct Plane {
  std::map<std::string, std::vector<Item>> lines;
  std::map<std::uint64_t, Item> kinds;
  Item stats;
};

std::uint64_t number(const Fields& fields, std::uint32_t field) {
  const auto found = fields.numbers.find(field);
  return found == fields.numbers.end() ? 0 : found->second;
}
std::string text(const Fields& fields, std::uint32_t field) {
  const auto found = fields.texts.find(field);
  return found == fields.texts.end() ? "" : found->second;
}

void add_stat(const Fields& stat, const std::map<std::uint64_t, std::string>& names, Item& item) {
  const std::string name = names.at(number(stat, 1));
  for (const std::uint32_t field : {2, 3, 4}) {
    if (stat.numbers.count(field) > 0) item.numbers[name] = number(stat, field);
  }
  for (const std::uint32_t field : {5, 6}) {
    if (stat.texts.count(field) > 0) item.texts[name] = text(stat, field);
  }
  if (stat.numbers.count(7) > 0) item.texts[name] = names.at(number(stat, 7));
}

Plane plane_of(const Fields& message) {
  Plane plane;
  std::map<std::uint64_t, std::string> names;
  const auto each = [](const Fields& fields, std::uint32_t field, auto&& use) {
    const auto [begin, end] = fields.texts.equal_range(field);
    for (auto at = begin; at != end; ++at) use(parse(at->second));
  };
  each(message, 5,
       [&](const Fields& entry) { names[number(entry, 1)] = text(parse(text(entry, 2)), 2); });
  each(message, 6, [&](const Fields& stat) { add_stat(stat, names, plane.stats); });
  each(message, 4, [&](const Fields& entry) {
    const Fields kind = parse(text(entry, 2));
    Item& item = plane.kinds[number(entry, 1)];
    item.name = text(kind, 4).empty() ? text(kind, 2) : text(kind, 4);
    each(kind, 5, [&](const Fields& stat) { add_stat(stat, names, item); });
  });
  each(message, 3, [&](const Fields& line) {
    std::vector<Item>& events = plane.lines[text(line, 2)];
    each(line, 4, [&](const Fields& event) {
      Item item;
      item.name = plane.kinds.at(number(event, 1)).name;
      item.begin = number(event, 2);
      item.duration = number(event, 3);
      each(event, 4, [&](const Fields& stat) { add_stat(stat, names, item); });
      events.push_back(item);
    });
  });
  return plane;
}

double real(std::uint64_t bits) {
  double value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

class XPlaneTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "tpusim-xplane-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::map<std::string, Plane> read(const std::string& path) const {
    std::ifstream in(path, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    std::map<std::string, Plane> planes;
    const Fields space = parse(bytes);
    const auto [begin, end] = space.texts.equal_range(1);
    for (auto at = begin; at != end; ++at) {
      const Fields message = parse(at->second);
      planes[text(message, 2)] = plane_of(message);
    }
    return planes;
  }
  std::map<std::string, Plane> exported(const RunRecord& record, std::size_t most = kMany) {
    const std::string path = (folder_ / "x.xplane.pb").string();
    notes_ = export_xplane(record, kFigures, most, path);
    return read(path);
  }
  fs::path folder_;
  std::vector<std::string> notes_;
};

TEST_F(XPlaneTest, APlaneForEachCoreWithThePeaksOfACore) {
  auto planes = exported(test::synthetic_record_with_events());
  ASSERT_EQ(planes.size(), 5u);
  EXPECT_EQ(planes.count("/device:TPU:1"), 1u);
  const Plane& core = planes["/device:TPU:0"];
  EXPECT_EQ(core.stats.texts.at("device_type_string"), "TPU v3");
  // 2 MXUs x 128 x 128 x 2 x 940 MHz; 32 channels x 128 bit x 1.8 Gb/s / 2 cores.
  EXPECT_DOUBLE_EQ(real(core.stats.numbers.at("peak_teraflops_per_second")), 61.60384);
  EXPECT_DOUBLE_EQ(real(core.stats.numbers.at("peak_hbm_bw_gigabytes_per_second")), 460.8);
  const Item& host = planes["/host:CPU"].stats;
  EXPECT_DOUBLE_EQ(real(host.numbers.at("matrix_unit_utilization_percent")), 35);
  EXPECT_DOUBLE_EQ(real(host.numbers.at("hbm_utilization_percent")), 20);
}

TEST_F(XPlaneTest, StepsAndOpsHaveTheirTimesAndTheirStep) {
  auto planes = exported(test::synthetic_record_with_events());
  const auto& lines = planes["/device:TPU:1"].lines;
  ASSERT_EQ(lines.at("Steps").size(), 2u);
  EXPECT_EQ(lines.at("Steps")[1].begin, 1100u * 1000000 / 940);
  EXPECT_EQ(lines.at("Steps")[1].numbers.at("group_id"), 1u);
  EXPECT_EQ(lines.at("Steps")[1].texts.at("step_name"), "1");
  EXPECT_EQ(lines.at("XLA Modules")[0].name, "made_up(1)");
  ASSERT_EQ(lines.at("XLA Ops").size(), 6u);
  const Item& op = lines.at("XLA Ops")[4];
  EXPECT_EQ(op.name, "copy.2");
  EXPECT_EQ(op.begin, 1700u * 1000000 / 940);
  EXPECT_EQ(op.begin + op.duration, 2000u * 1000000 / 940);
  EXPECT_EQ(op.numbers.at("group_id"), 1u);
  for (const auto& [name, events] : lines) EXPECT_FALSE(events.empty()) << name;
}

TEST_F(XPlaneTest, OpsSayWhatXProfDerivesItsRatesFrom) {
  auto planes = exported(test::synthetic_record_with_events());
  std::map<std::string, Item> ops;
  for (const auto& [id, kind] : planes["/device:TPU:0"].kinds) {
    if (kind.numbers.count("symbol_id") > 0) ops[kind.name] = kind;
  }
  ASSERT_EQ(ops.size(), 3u);
  EXPECT_EQ(ops["fusion.1"].numbers.at("flops"), 1000u);
  EXPECT_EQ(ops["fusion.1"].numbers.at("program_id"), 1u);
  EXPECT_EQ(ops["fusion.1"].texts.at("hlo_category"), "convolution fusion");
  EXPECT_EQ(ops["fusion.1"].texts.at("tf_op"), "jit(step)/dot_general:dot_general");
  EXPECT_EQ(ops["fusion.1"].texts.at("source"), "model.py:12");
  // 300 cycles x 400 bytes an execution, three quarters of them read.
  EXPECT_EQ(ops["copy.2"].numbers.at("bytes_accessed"), 120000u);
  const Fields breakdown = parse(ops["copy.2"].texts.at("memory_access_breakdown"));
  const auto [first, last] = breakdown.texts.equal_range(1);
  ASSERT_EQ(std::distance(first, last), 2);
  EXPECT_EQ(number(parse(first->second), 3), 90000u);
  EXPECT_EQ(number(parse(std::next(first)->second), 3), 30000u);
}

TEST_F(XPlaneTest, TheProgramHasTheOpsAndTheBuffers) {
  auto planes = exported(test::synthetic_record_with_events());
  const Item& program = planes["/host:metadata"].kinds.at(1);
  EXPECT_EQ(program.name, "made_up(1)");
  const Fields proto = parse(program.texts.at("Hlo Proto"));
  const Fields module = parse(text(proto, 1));
  const Fields entry = parse(text(module, 3));
  // The parameter, three ops, the result; XProf finds an op by its id.
  EXPECT_EQ(entry.texts.count(2), 5u);
  std::map<std::uint64_t, std::string> names;
  const auto [first, last] = entry.texts.equal_range(2);
  for (auto at = first; at != last; ++at) {
    const Fields instruction = parse(at->second);
    names[number(instruction, 35)] = text(instruction, 1);
  }
  for (const auto& [id, kind] : planes["/device:TPU:0"].kinds) {
    if (kind.numbers.count("symbol_id") == 0) continue;
    EXPECT_EQ(names.at(kind.numbers.at("symbol_id")), kind.name);
  }
  const Fields assignment = parse(text(proto, 3));
  EXPECT_EQ(assignment.texts.count(1), 3u);  // Logical buffers.
  // The weights, which the output takes over, and the temporaries.
  ASSERT_EQ(assignment.texts.count(3), 2u);
  std::uint64_t bytes = 0;
  const auto [begin, end] = assignment.texts.equal_range(3);
  for (auto at = begin; at != end; ++at) bytes += number(parse(at->second), 2);
  EXPECT_EQ(bytes, 8192u + 100 * 1024);
}

/// XLA's ShapeProto: type, dimensions, and the layout of an array from the minor dimension on; what
/// has none is an empty tuple.
TEST_F(XPlaneTest, InstructionsHaveTheirShapesAndOperands) {
  RunRecord record = test::synthetic_record_with_events();
  record.ops[1].shape = "f32[8,128]{1,0:T(8,128)S(1)}";
  auto planes = exported(record);
  const Fields proto = parse(planes["/host:metadata"].kinds.at(1).texts.at("Hlo Proto"));
  const Fields entry = parse(text(parse(text(proto, 1)), 3));
  const auto unpacked = [](const Fields& fields, std::uint32_t field) {
    std::vector<std::uint64_t> values;
    const auto [begin, end] = fields.numbers.equal_range(field);
    for (auto at = begin; at != end; ++at) values.push_back(at->second);
    if (fields.texts.count(field) > 0) {
      for (const char byte : text(fields, field)) {
        values.push_back(static_cast<unsigned char>(byte));
      }
    }
    return values;
  };
  using Numbers = std::vector<std::uint64_t>;
  constexpr std::uint64_t kF32 = 11, kTuple = 13;
  std::map<std::string, Fields> instructions;
  const auto [first, last] = entry.texts.equal_range(2);
  for (auto at = first; at != last; ++at) {
    const Fields instruction = parse(at->second);
    instructions.emplace(text(instruction, 1), instruction);
  }
  const auto shape = [&](const char* name) { return parse(text(instructions.at(name), 3)); };
  const Fields copied = shape("copy.2");
  EXPECT_EQ(number(copied, 2), kF32);
  EXPECT_EQ(unpacked(copied, 3), (Numbers{8, 128}));
  ASSERT_EQ(copied.texts.count(5), 1u);
  const Fields layout = parse(text(copied, 5));
  EXPECT_EQ(unpacked(layout, 1), (Numbers{1, 0}));
  EXPECT_EQ(unpacked(parse(text(layout, 6)), 1), (Numbers{8, 128}));  // Its tile.
  EXPECT_EQ(number(layout, 8), 1u);                                   // Its memory space.
  EXPECT_EQ(number(parse(text(shape("fusion.1"), 5)), 8), 0u);
  EXPECT_EQ(number(shape("infeed.3"), 2), kTuple);
  EXPECT_EQ(shape("infeed.3").texts.count(5), 0u);
  // fusion.1 reads the parameter, copy.2 reads fusion.1 and the parameter.
  const std::uint64_t fusion = number(instructions.at("fusion.1"), 35);
  const std::uint64_t weights = number(instructions.at("w"), 35);
  EXPECT_EQ(unpacked(instructions.at("fusion.1"), 36), Numbers{weights});
  EXPECT_EQ(unpacked(instructions.at("copy.2"), 36), (Numbers{fusion, weights}));
  EXPECT_TRUE(unpacked(instructions.at("infeed.3"), 36).empty());
}

/// XLA's HloInstructionProto: metadata are field 7, a parameter's number field 9; of a logical
/// buffer field 3 says by name (2) and id (4) which instruction makes it.
TEST_F(XPlaneTest, ParametersHaveTheirNumbersAndBuffersTheirMakers) {
  RunRecord record = test::synthetic_record_with_events();
  isa::Buffer second = record.buffers[0];
  second.name = "v";
  second.index = 1;
  second.granule += 1000;
  record.buffers.insert(record.buffers.begin() + 1, second);
  record.lifetimes.insert(record.lifetimes.begin(), {0, 2});
  auto planes = exported(record);
  const Fields proto = parse(planes["/host:metadata"].kinds.at(1).texts.at("Hlo Proto"));
  const Fields module = parse(text(proto, 1));
  std::map<std::string, std::uint64_t> ids;
  std::map<std::string, std::pair<std::uint64_t, std::string>> parameters;
  const Fields entry = parse(text(module, 3));
  const auto [first, last] = entry.texts.equal_range(2);
  for (auto at = first; at != last; ++at) {
    const Fields instruction = parse(at->second);
    ids[text(instruction, 1)] = number(instruction, 35);
    if (text(instruction, 2) != "parameter") continue;
    parameters[text(instruction, 1)] = {number(instruction, 9),
                                        text(parse(text(instruction, 7)), 2)};
  }
  using NumberAndName = std::pair<std::uint64_t, std::string>;
  EXPECT_EQ(parameters, (std::map<std::string, NumberAndName>{{"w", {0, "w"}}, {"v", {1, "v"}}}));
  const Fields program = parse(text(module, 4));  // ProgramShapeProto: parameters and their names.
  EXPECT_EQ(program.texts.count(1), 2u);
  EXPECT_EQ(program.texts.count(3), 2u);
  std::vector<std::string> makers;
  const Fields assignment = parse(text(proto, 3));
  const auto [begin, end] = assignment.texts.equal_range(1);
  for (auto at = begin; at != end; ++at) {
    const Fields place = parse(text(parse(at->second), 3));
    makers.push_back(text(place, 2));
    EXPECT_EQ(number(place, 4), ids.at(makers.back()));
  }
  ASSERT_EQ(makers.size(), 4u);
  EXPECT_EQ(makers[0], "w");
  EXPECT_EQ(makers[1], "v");
}

/// A temporary in the very first granule has an allocation as any other.
TEST_F(XPlaneTest, TemporariesMayBeginAtTheFirstGranule) {
  RunRecord record = test::synthetic_record_with_events();
  record.buffers = {record.buffers[2]};
  record.lifetimes = {{0, 2}};
  record.buffers[0].granule = 0;
  record.buffers[0].bytes = 1024;
  record.operands.clear();
  auto planes = exported(record);
  const Fields proto = parse(planes["/host:metadata"].kinds.at(1).texts.at("Hlo Proto"));
  const Fields assignment = parse(text(proto, 3));
  ASSERT_EQ(assignment.texts.count(3), 1u);
  EXPECT_EQ(number(parse(text(assignment, 3)), 2), 1024u);
}

/// XLA's BufferAssignmentProto: which allocation is a parameter, which the result; the same ids in
/// the list of buffers, in the places that they have, and in the trace of the heap.
TEST_F(XPlaneTest, AllocationsSayWhatTheyAreAndBuffersKeepTheirIds) {
  auto planes = exported(test::synthetic_record_with_events());
  const Item& program = planes["/host:metadata"].kinds.at(1);
  const Fields assignment = parse(text(parse(program.texts.at("Hlo Proto")), 3));
  std::map<std::uint64_t, std::uint64_t> buffers;
  const auto [first, last] = assignment.texts.equal_range(1);
  for (auto at = first; at != last; ++at) {
    const Fields buffer = parse(at->second);
    buffers[number(buffer, 1)] = number(buffer, 2);
  }
  EXPECT_EQ(buffers, (std::map<std::uint64_t, std::uint64_t>{{1, 8192}, {2, 8192}, {3, 102400}}));
  std::multiset<std::uint64_t> placed;
  std::map<std::uint64_t, bool> is_parameter;  // By bytes.
  const auto [begin, end] = assignment.texts.equal_range(3);
  for (auto at = begin; at != end; ++at) {
    const Fields allocation = parse(at->second);
    is_parameter[number(allocation, 2)] = number(allocation, 5) == 1;
    const auto [from, to] = allocation.texts.equal_range(9);
    for (auto each = from; each != to; ++each) placed.insert(number(parse(each->second), 1));
  }
  EXPECT_EQ(is_parameter, (std::map<std::uint64_t, bool>{{8192, true}, {102400, false}}));
  for (const std::uint64_t id : placed) EXPECT_EQ(buffers.count(id), 1u) << id;
  EXPECT_EQ(placed.count(1) + placed.count(3), 2u);
  // The temporary comes and goes.
  const Fields heap = parse(text(assignment, 4));
  std::vector<std::pair<std::uint64_t, std::uint64_t>> events;
  const auto [a, b] = heap.texts.equal_range(1);
  for (auto at = a; at != b; ++at) {
    events.emplace_back(number(parse(at->second), 1), number(parse(at->second), 2));
  }
  EXPECT_EQ(events, (std::vector<std::pair<std::uint64_t, std::uint64_t>>{{0, 3}, {1, 3}}));
}

/// Field 12 of an allocation of XLA's hlo.proto: it is a constant.
TEST_F(XPlaneTest, AConstantIsAnAllocationThatSaysSo) {
  RunRecord record = test::synthetic_record_with_events();
  isa::Buffer table = record.buffers[0];
  table.name = "table";
  table.role = isa::BufferRole::kConstant;
  table.granule = 512;
  table.bytes = 4096;
  record.buffers.push_back(table);
  record.lifetimes.push_back({0, 2});
  auto planes = exported(record);
  const Item& program = planes["/host:metadata"].kinds.at(1);
  const Fields assignment = parse(text(parse(program.texts.at("Hlo Proto")), 3));
  std::map<std::uint64_t, bool> is_constant;  // By bytes.
  const auto [begin, end] = assignment.texts.equal_range(3);
  for (auto at = begin; at != end; ++at) {
    const Fields allocation = parse(at->second);
    is_constant[number(allocation, 2)] = number(allocation, 12) == 1;
  }
  EXPECT_EQ(is_constant,
            (std::map<std::uint64_t, bool>{{4096, true}, {8192, false}, {102400, false}}));
}

/// XSpace tells planes apart by their ids, and a plane keeps its last line.
TEST_F(XPlaneTest, PlanesHaveIdsOfTheirOwnAndAllTheirLines) {
  exported(test::synthetic_record_with_events());
  std::ifstream in((folder_ / "x.xplane.pb").string(), std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  const Fields space = parse(bytes);
  std::map<std::uint64_t, std::string> ids;
  std::map<std::string, std::set<std::uint64_t>> lines;
  std::map<std::string, std::string> last;
  const auto [begin, end] = space.texts.equal_range(1);
  for (auto at = begin; at != end; ++at) {
    const Fields plane = parse(at->second);
    EXPECT_TRUE(ids.emplace(number(plane, 1), text(plane, 2)).second) << text(plane, 2);
    const auto [from, to] = plane.texts.equal_range(3);
    for (auto each = from; each != to; ++each) {
      lines[text(plane, 2)].insert(number(parse(each->second), 1));
      last[text(plane, 2)] = text(parse(each->second), 2);
    }
  }
  EXPECT_EQ(last["/device:TPU:0"], "_counters_");
  for (const auto& [plane, numbers] : lines) {
    EXPECT_EQ(*numbers.rbegin(), numbers.size()) << plane << ": lines 1, 2, ... without a gap";
  }
}

TEST_F(XPlaneTest, EventsStayBelowTheLimitInWholeSteps) {
  const RunRecord record = test::synthetic_record_with_events();
  exported(record);
  EXPECT_TRUE(notes_.empty());
  auto planes = exported(record, 7);
  EXPECT_EQ(planes["/device:TPU:0"].lines["XLA Ops"].size(), 3u);
  EXPECT_EQ(planes["/device:TPU:0"].lines.count("Waits"), 0u);
  ASSERT_EQ(notes_.size(), 2u);
  EXPECT_EQ(notes_[0], "the first 1 of 2 steps, so that events stay below --max-events");
}

TEST_F(XPlaneTest, ALogFolderHasAFileForEachHostAndNothingOfEarlierOnes) {
  RunRecord record = test::synthetic_record_with_events();
  record.result.cores[1].chip = 4;
  const fs::path profile = folder_ / "log" / "plugins" / "profile" / "tpusim";
  fs::create_directories(profile);
  for (const char* name : {"made_up(1).hlo_proto.pb", "ALL_HOSTS.x.SSTABLE", "mine.txt"}) {
    std::ofstream(profile / name) << "x";
  }
  export_xplane(record, kFigures, kMany, (folder_ / "log").string());
  std::set<std::string> names;
  for (const auto& file : fs::directory_iterator(profile)) names.insert(file.path().filename());
  EXPECT_EQ(names, (std::set<std::string>{"host0.xplane.pb", "host1.xplane.pb", "mine.txt"}));
  EXPECT_EQ(read((profile / "host1.xplane.pb").string()).count("/device:TPU:0"), 0u);
}

TEST_F(XPlaneTest, TextThatIsNoUtf8DoesNotSpoilTheFile) {
  RunRecord record = test::synthetic_record_with_events();
  record.ops[0].op_name = "scope\xff\xc3\x28";
  auto planes = exported(record);
  std::set<std::string> scopes;
  for (const auto& [id, kind] : planes["/device:TPU:0"].kinds) {
    if (kind.texts.count("tf_op") > 0) scopes.insert(kind.texts.at("tf_op"));
  }
  EXPECT_EQ(scopes.count("scope\xef\xbf\xbd\xef\xbf\xbd(:scope\xef\xbf\xbd\xef\xbf\xbd("), 1u);
}

/// Shares of busy time of the synthetic run's 2200 cycles, in its steps of 1000 and 1100: a step is
/// from where the first core begins it to where the last ends it.
TEST_F(XPlaneTest, TheHostHasALineForEachStageAndAnEventForEachStep) {
  RunRecord record = test::synthetic_record_with_events();
  record.params.input.images = 1000;
  record.params.input.pixels = 100;
  record.params.input.decode_ns_per_pixel = 30;  // 3 us, and 1 us:
  record.params.input.augment_us = 1;
  record.result.parts = {
      {"PCIe of host 0, chip 0, down", {{"busy", 220}, {"idle: no room", 1980}}},
      {"PCIe of host 0, chip 1, down", {{"busy", 0}, {"idle: no room", 2200}}},
      {"storage of host 0", {{"busy", 1100}, {"idle: not asked", 1000}, {"idle: latency", 100}}},
      {"copies of host 0", {{"busy", 550}, {"idle: not asked", 1650}}},
      {"threads of host 0", {{"busy", 3520}, {"idle: not asked", 880}}},
      {"storage of host 1", {{"busy", 2200}}}};
  auto planes = exported(record);
  const auto& lines = planes["/host:CPU"].lines;
  std::set<std::string> names;
  for (const auto& [name, events] : lines) names.insert(name);
  EXPECT_EQ(names, (std::set<std::string>{"PCIe of host 0, chip 0, down", "copies of host 0",
                                          "storage of host 0", "threads of host 0"}));
  const auto us = [](double cycles) { return cycles * 1e6 / 940; };  // Picoseconds.
  const std::vector<Item>& storage = lines.at("storage of host 0");
  ASSERT_EQ(storage.size(), 2u);
  EXPECT_EQ(storage[1].numbers.at("group_id"), 1u);
  EXPECT_NEAR(storage[0].duration, us(1100 * 0.5), 1000);
  EXPECT_NEAR(storage[1].begin, us(1000), 1000);
  EXPECT_NEAR(storage[1].duration, us(1200 * 0.5), 1000);
  EXPECT_NEAR(lines.at("PCIe of host 0, chip 0, down")[0].duration, us(110), 1000);
  EXPECT_NEAR(lines.at("copies of host 0")[0].duration, us(275), 1000);
  // Threads are busy for four fifths of their time, three quarters of it they decode.
  const std::vector<Item>& threads = lines.at("threads of host 0");
  ASSERT_EQ(threads.size(), 4u);
  EXPECT_NEAR(threads[0].duration, us(1100 * 0.6), 1000);
  EXPECT_NEAR(threads[1].begin, us(1100 * 0.6), 1000);
  EXPECT_NEAR(threads[1].duration, us(1100 * 0.2), 1000);
  EXPECT_NEAR(real(storage[0].numbers.at("busy_percent")), 50, 1e-9);
  EXPECT_NEAR(real(threads[0].numbers.at("busy_percent")), 60, 1e-9);
  EXPECT_NEAR(real(threads[1].numbers.at("busy_percent")), 20, 1e-9);
}

TEST_F(XPlaneTest, ARunWithoutInfeedHasNoStagesOfAHost) {
  RunRecord record = test::synthetic_record_with_events();
  record.infeed_bytes = 0;
  record.result.parts = {{"storage of host 0", {{"busy", 2200}}}};
  EXPECT_TRUE(exported(record)["/host:CPU"].lines.empty());
}

TEST_F(XPlaneTest, UnitsHaveTheLinesThatXProfKnows) {
  RunRecord record = test::synthetic_record_with_events();
  auto& busy = record.result.cores[0].ops[0].counters.busy_cycles;  // Of 1200 cycles.
  busy[static_cast<std::size_t>(Unit::kXlu)] = 300;
  busy[static_cast<std::size_t>(Unit::kEup)] = 600;
  auto planes = exported(record);
  const auto& lines = planes["/device:TPU:0"].lines;
  EXPECT_DOUBLE_EQ(real(lines.at("MXU1")[0].numbers.at("busy_percent")), 80);
  EXPECT_DOUBLE_EQ(real(lines.at("VALU Instructions")[0].numbers.at("busy_percent")), 25);
  EXPECT_DOUBLE_EQ(real(lines.at("XLU Instructions")[0].numbers.at("busy_percent")), 25);
  ASSERT_EQ(lines.at("EUP Instructions").size(), 2u);
  EXPECT_DOUBLE_EQ(real(lines.at("EUP Instructions")[1].numbers.at("busy_percent")), 50);
  EXPECT_EQ(lines.count("VST Instructions"), 0u);  // Never busy: no empty line.
}

/// Of the HBM what passed in a sample over its time: 490.2 bytes a cycle of 940 MHz at the most.
TEST_F(XPlaneTest, TheRateOfTheHbmIsInMegabytesASecond) {
  auto planes = exported(test::synthetic_record_with_events());
  std::vector<std::uint64_t> rates;
  for (const Item& event : planes["/device:TPU:0"].lines.at("_counters_")) {
    if (event.name == "HBM MB/s") rates.push_back(event.numbers.at("counter_value"));
  }
  ASSERT_FALSE(rates.empty());
  EXPECT_NEAR(static_cast<double>(*std::max_element(rates.begin(), rates.end())), 460800, 1);
  // A sample that is like the one before is not written.
  EXPECT_EQ(std::adjacent_find(rates.begin(), rates.end()), rates.end());
}

/// The fourth execution of an all-reduce on a core is the fourth on every other.
TEST_F(XPlaneTest, AllReducesAreNumberedByTheirExecution) {
  RunRecord record = test::synthetic_record_with_events();
  record.ops[1].category = "all-reduce";
  auto planes = exported(record);
  for (const char* plane : {"/device:TPU:0", "/device:TPU:1"}) {
    std::vector<std::uint64_t> numbers;
    for (const Item& event : planes[plane].lines.at("XLA Ops")) {
      if (event.numbers.count("all_reduce_unique_id") > 0) {
        numbers.push_back(event.numbers.at("all_reduce_unique_id"));
      }
    }
    EXPECT_EQ(numbers, (std::vector<std::uint64_t>{1, (1U << 20) + 1})) << plane;
  }
}

TEST_F(XPlaneTest, ARunWithoutEventsIsRefused) {
  EXPECT_THROW(exported(test::synthetic_record()), WorkloadError);
  EXPECT_TRUE(fs::is_empty(folder_));
}

}  // namespace
}  // namespace tpu::traces::xplane_test
