#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

#include "sim/report/energy.h"
#include "sim/report/json_report.h"
#include "sim/report/published_data.h"
#include "tests/traces/synthetic_record.h"

/// Every figure of the JSON report, worked out once more from a record in which each counter is a
/// number of its own: a figure that is taken from another counter, or another core's, differs.

namespace tpu::report::every_figure_test {
namespace {

constexpr double kClock = 940e6;             // Of the v3 that the record is of.
constexpr double kPins = 900e9 / 2 * 1.024;  // Bytes a second of a core: 16 x 128 bits, 1.8 Gb/s.
constexpr double kPeak = 2 * 2 * 128 * 128 * kClock;

std::uint64_t* fields(Counters& c, std::size_t i) {
  std::uint64_t* const all[] = {
      &c.bundles,       &c.scalar_ops, &c.vector_alu_ops, &c.vector_loads, &c.vector_stores,
      &c.matmul_pushes, &c.dmas,       &c.hbm_read_bytes, &c.ici_bytes,    &c.hbm_write_bytes};
  return i < std::size(all) ? all[i] : nullptr;
}

/// Three cores of two chips; the second operation runs on two of them.
traces::RunRecord numbered_record() {
  traces::RunRecord record = test::synthetic_record();
  std::mt19937 random(15);
  const auto any = [&](std::uint64_t least) { return least + random() % least; };
  const auto fill = [&](Counters& c, std::uint64_t least) {
    c = {};
    for (std::size_t i = 0; fields(c, i) != nullptr; ++i) *fields(c, i) = any(least);
    for (std::uint64_t& busy : c.busy_cycles) busy = any(least);
    for (std::uint64_t& cause : c.schedule) cause = any(least);
    for (std::size_t state = 0; state < static_cast<std::size_t>(CoreState::kCount); ++state) {
      c.core.add(static_cast<CoreState>(state), any(least));
      for (auto& idle : c.idle) idle.add(static_cast<CoreState>(state), any(least));
    }
  };
  record.result.cores.push_back(record.result.cores[0]);
  record.core_numbers = {4, 5, 7};
  record.examples_per_core = 96;
  for (std::size_t number = 0; number < 3; ++number) {
    CoreResult& core = record.result.cores[number];
    core.chip = number == 2 ? 3 : 2;
    core.core = number % 2;
    core.waited_for = {{4, any(50)}, {5, any(50)}, {7, any(50)}};
    fill(core.total, 20000);
    core.end_cycle = any(7000);
    for (auto* spans : {&core.steps, &core.warmup}) {
      const std::uint64_t least = spans == &core.steps ? 1000 : 100000;  // So that none repeats.
      const std::uint64_t begin = any(100), middle = begin + any(least);
      *spans = {{begin, middle}, {middle, middle + any(least)}};
    }
    for (std::size_t op = 0; op < 3; ++op) {
      fill(core.ops[op].counters, 300);
      core.ops[op].count = any(2);
      core.ops[op].cycles = any(4000);
    }
  }
  record.result.cores[2].ops[1] = {};
  CriticalPath::Op& last = record.result.critical_path.ops[2];
  constexpr auto kIci = static_cast<std::size_t>(Resource::kIci);
  last.cycles[kIci] = 1;
  last.path[kIci] = 1;
  last.gain[kIci] = 1;
  return record;
}

Json json_of(const traces::RunRecord& record, const SimulatorCost& cost = {}) {
  return to_json(record, summarize(record), cost, {{"out", 0.25, 0.5, false, 0.125, "why"}});
}

void expect(const Json& value, double expected, const std::string& what) {
  ASSERT_TRUE(value.is_number()) << what << ": " << value;
  EXPECT_NEAR(value.get<double>(), expected, 1e-9 * std::abs(expected)) << what;
}

std::uint64_t busy(const Counters& c, Unit unit) {
  return c.busy_cycles[static_cast<std::size_t>(unit)];
}

/// Of all cores that ran an operation, or of all cores.
struct Sums {
  double cores = 0, count = 0, cycles = 0, cycles_max = 0;
  Counters counters;
};

Sums sums_of(const traces::RunRecord& record, std::size_t op) {
  Sums sums;
  for (const CoreResult& core : record.result.cores) {
    const OpResult& result = core.ops[op];
    if (result.count == 0) continue;
    sums.cores += 1;
    sums.count += static_cast<double>(result.count);
    sums.cycles += static_cast<double>(result.cycles);
    sums.cycles_max = std::max(sums.cycles_max, static_cast<double>(result.cycles));
    sums.counters += result.counters;
  }
  return sums;
}

void expect_busy(const Json& json, const Sums& sums) {
  const Counters& c = sums.counters;
  const auto share = [&](const char* key, double cycles) {
    expect(json[key], cycles / sums.cycles, key);
  };
  const auto wait = [&](CoreState state) { return static_cast<double>(c.core[state]); };
  share("mxu", static_cast<double>(std::max(busy(c, Unit::kMxu0), busy(c, Unit::kMxu1))));
  share("vector_alu", static_cast<double>(c.vector_alu_ops) / 2);
  share("vector_load", static_cast<double>(c.vector_loads));
  share("vector_store", static_cast<double>(c.vector_stores));
  share("xlu", static_cast<double>(busy(c, Unit::kXlu)));
  share("eup", static_cast<double>(busy(c, Unit::kEup)));
  share("hbm", static_cast<double>(c.hbm_read_bytes + c.hbm_write_bytes) * kClock / kPins);
  share("ici", wait(CoreState::kIciWait));
  share("peer", wait(CoreState::kPeerWait));
  share("infeed", wait(CoreState::kInfeedWait) + wait(CoreState::kOutfeedWait) +
                      wait(CoreState::kPeerHostWait));
  share("memory_wait", wait(CoreState::kMemoryWait));
  share("schedule", wait(CoreState::kIssue) + wait(CoreState::kDelay));
}

TEST(EveryFigure, OfAnOperationIsTheMeanOfTheCoresThatRanIt) {
  const traces::RunRecord record = numbered_record();
  const Json json = json_of(record);
  ASSERT_EQ(json["ops"].size(), 3u);
  double all = 0;
  for (std::size_t op = 0; op < 3; ++op)
    all += sums_of(record, op).cycles / sums_of(record, op).cores;
  for (std::size_t i = 0; i < 3; ++i) {
    const Json& row = json["ops"][i];
    if (i > 0) {
      EXPECT_GE(json["ops"][i - 1]["cycles"].get<double>(), row["cycles"].get<double>());
    }
    std::size_t op = 0;
    while (record.ops[op].name != row["name"]) ++op;
    SCOPED_TRACE(record.ops[op].name);
    const isa::OpInfo& info = record.ops[op];
    const Sums sums = sums_of(record, op);
    const double n = sums.cores, count = sums.count / n;
    const auto of = [&](std::uint64_t counter) { return static_cast<double>(counter) / n; };
    expect(row["count"], count, "count");
    expect(row["cycles"], sums.cycles / n, "cycles");
    expect(row["cycles_max"], sums.cycles_max, "cycles_max");
    expect(row["fraction"], sums.cycles / n / all, "fraction");
    expect(row["time_ms"], sums.cycles / n / kClock * 1e3, "time_ms");
    expect(row["flops"], static_cast<double>(info.flops) * count, "flops");
    expect(row["matmul_flops"], static_cast<double>(info.matmul_flops) * count, "matmul_flops");
    expect(row["padded_matmul_flops"], static_cast<double>(info.padded_matmul_flops) * count,
           "padded");
    // Eight rows through 128x128 cells, each a multiplication and an addition.
    expect(row["pushed_matmul_flops"], of(sums.counters.matmul_pushes) * 8 * 128 * 128 * 2,
           "pushed");
    expect(row["hbm_bytes"], of(sums.counters.hbm_read_bytes) + of(sums.counters.hbm_write_bytes),
           "hbm_bytes");
    expect(row["compulsory_hbm_bytes"], static_cast<double>(info.hbm_bytes) * count, "compulsory");
    expect(row["dmas"], of(sums.counters.dmas), "dmas");
    expect(row["ici_bytes"], of(sums.counters.ici_bytes), "ici_bytes");
    expect_busy(row["busy"], sums);
    EXPECT_EQ(row["category"], info.category);
    EXPECT_EQ(row["op_name"], info.op_name);
    EXPECT_EQ(row["source"], info.source);
    EXPECT_EQ(row["shape"], info.shape);
    const CriticalPath::Op& path = record.result.critical_path.ops[op];
    const double whole = std::accumulate(path.cycles.begin(), path.cycles.end(), 0.0);
    double causes = 0, ms = 0, gain_ms = 0;
    for (std::size_t r = 0; r < kResources; ++r) {
      const char* name = to_string(static_cast<Resource>(r));
      EXPECT_EQ(row["causes"].contains(name), path.cycles[r] != 0) << name;
      EXPECT_EQ(row["path_ms"].contains(name), path.path[r] != 0) << name;
      EXPECT_EQ(row["gain_ms"].contains(name), path.gain[r] != 0) << name;
      if (path.cycles[r] == 0) continue;
      expect(row["causes"][name], path.cycles[r] / whole, name);
      expect(row["path_ms"][name], static_cast<double>(path.path[r]) / kClock * 1e3, name);
      expect(row["gain_ms"][name], static_cast<double>(path.gain[r]) / kClock * 1e3, name);
      causes += row["causes"][name].get<double>();
      ms += row["path_ms"][name].get<double>();
      gain_ms += row["gain_ms"][name].get<double>();
    }
    EXPECT_NEAR(causes, 1, 1e-12);
    EXPECT_GT(ms * gain_ms, 0);
  }
}

TEST(EveryFigure, OfTheCoresStandsAtItsNumber) {
  const traces::RunRecord record = numbered_record();
  const Json json = json_of(record);
  ASSERT_EQ(json["cores"].size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    const CoreResult& core = record.result.cores[i];
    const Json& row = json["cores"][i];
    EXPECT_EQ(row["core"], record.core_numbers[i]);
    EXPECT_EQ(row["chip"], core.chip);
    EXPECT_EQ(row["core_of_chip"], core.core);
    EXPECT_EQ(row["end_cycle"], core.end_cycle);
    EXPECT_EQ(row["bundles"], core.total.bundles);
    EXPECT_EQ(row["waited_for"].size(), 3u);
    for (const auto& [late, cycles] : core.waited_for) {
      EXPECT_EQ(row["waited_for"][std::to_string(late)], cycles);
    }
    for (std::size_t s = 0; s < 2; ++s) {
      EXPECT_EQ(row["step_cycles"][s], core.steps[s].end - core.steps[s].begin);
    }
  }
  for (std::size_t s = 0; s < 2; ++s) {
    std::uint64_t step = 0, warm = 0;
    for (const CoreResult& core : record.result.cores) {
      step = std::max(step, core.steps[s].end - core.steps[s].begin);
      warm = std::max(warm, core.warmup[s].end - core.warmup[s].begin);
    }
    EXPECT_EQ(json["steps"][s]["cycles"], step);
    expect(json["steps"][s]["time_ms"], static_cast<double>(step) / kClock * 1e3, "step");
    EXPECT_EQ(json["warm_up"]["steps"][s]["cycles"], warm);
    expect(json["warm_up"]["steps"][s]["time_ms"], static_cast<double>(warm) / kClock * 1e3,
           "warm");
  }
  const double first = json["steps"][0]["time_ms"], second = json["steps"][1]["time_ms"];
  expect(json["step_time_ms"]["mean"], (first + second) / 2, "mean");
  expect(json["step_time_ms"]["min"], std::min(first, second), "min");
  expect(json["step_time_ms"]["max"], std::max(first, second), "max");
  expect(json["first_step_ms"], json["warm_up"]["steps"][0]["time_ms"], "first");
  EXPECT_EQ(json["warm_up"]["counted_from"], 3);
  EXPECT_EQ(json["warm_up"]["repeats"], 0);
  expect(json["examples_per_s"], 3 * 96 / (first + second) * 2 * 1e3, "examples_per_s");
}

TEST(EveryFigure, OfTheMachineIsOfAllCoresTogether) {
  const traces::RunRecord record = numbered_record();
  const Json json = json_of(record);
  Counters c;
  for (const CoreResult& core : record.result.cores) c += core.total;
  const auto cycles = static_cast<double>(c.core.total());
  const auto bytes = static_cast<double>(c.hbm_read_bytes + c.hbm_write_bytes);
  const Json& used = json["utilization"];
  expect(used["mxu"], static_cast<double>(c.matmul_pushes) * 8 / (2 * cycles), "mxu");
  expect(used["mxu_flops"],
         3 * 2 * static_cast<double>(record.model_flops) / (cycles / kClock * kPeak), "mxu_flops");
  expect(used["vpu"], static_cast<double>(c.vector_alu_ops) / (2 * cycles), "vpu");
  expect(used["hbm"], bytes / (cycles / kClock * kPins), "hbm");
  // Two chips, each with two links of 656 Gb/s, for a third of the cycles of three cores.
  expect(used["ici"], static_cast<double>(c.ici_bytes) / (cycles / 3 / kClock * 2 * 2 * 82e9),
         "ici");
  expect(json["hbm_bytes_per_step"], bytes / 6, "hbm_bytes_per_step");
  const auto part = [&](CoreState state) { return static_cast<double>(c.core[state]) / cycles; };
  const Json& parts = json["breakdown"];
  expect(parts["compute"], part(CoreState::kIssue) + part(CoreState::kDelay), "compute");
  const std::pair<const char*, CoreState> waits[] = {
      {"memory_wait", CoreState::kMemoryWait},     {"infeed_wait", CoreState::kInfeedWait},
      {"outfeed_wait", CoreState::kOutfeedWait},   {"ici_wait", CoreState::kIciWait},
      {"peer_wait", CoreState::kPeerWait},         {"finished", CoreState::kFinished},
      {"peer_host_wait", CoreState::kPeerHostWait}};
  for (const auto& [key, state] : waits) expect(parts[key], part(state), key);
  expect(json["idle_fraction"],
         part(CoreState::kInfeedWait) + part(CoreState::kOutfeedWait) +
             part(CoreState::kPeerHostWait) + part(CoreState::kFinished),
         "idle");
  // The v3 has two MXUs: eight of the ten units are its own.
  EXPECT_EQ(json["units"].size(), kUnits - 2);
  for (std::size_t u = 0; u < kUnits; ++u) {
    const char* name = to_string(static_cast<Unit>(u));
    if (!json["units"].contains(name)) continue;
    const Json& unit = json["units"][name];
    const double all = static_cast<double>(c.busy_cycles[u] + c.idle[u].total());
    const auto idle = [&](CoreState state) { return static_cast<double>(c.idle[u][state]) / all; };
    expect(unit["busy"], static_cast<double>(c.busy_cycles[u]) / all, name);
    expect(unit["nothing_to_do"], idle(CoreState::kIssue) + idle(CoreState::kDelay), name);
    for (const auto& [key, state] : waits) expect(unit[key], idle(state), key);
  }
  double sequencer = 0;
  for (const auto& share : json["sequencer"]) sequencer += share.get<double>();
  EXPECT_NEAR(sequencer, 1, 1e-12);
  const auto issued = std::accumulate(c.schedule.begin(), c.schedule.end(), 0.0);
  const double all =
      issued + cycles - static_cast<double>(c.core[CoreState::kIssue] + c.core[CoreState::kDelay]);
  for (std::size_t cause = 0; cause < kScheduleCauses; ++cause) {
    const char* name = to_string(static_cast<ScheduleCause>(cause));
    expect(json["sequencer"][name], static_cast<double>(c.schedule[cause]) / all, name);
  }
}

TEST(EveryFigure, OfBoundsAndCostIsAFormula) {
  traces::RunRecord record = numbered_record();
  SimulatorCost cost;
  cost.cpu_s = 4;
  cost.wall_s = 5;
  cost.compile_cpu_s = 1;
  cost.run_cpu_s = 2;
  cost.peak_rss_bytes = 77;
  const Json json = json_of(record, cost);
  const Json& roof = json["roofline"];
  const double compute = static_cast<double>(record.model_flops) / kPeak * 1e3;
  const double memory = static_cast<double>(record.compulsory_hbm_bytes) / kPins * 1e3;
  expect(roof["compute_ms"], compute, "compute_ms");
  expect(roof["memory_ms"], memory, "memory_ms");
  expect(roof["bound_ms"], std::max(compute, memory), "bound_ms");
  expect(roof["moved_memory_ms"], json["hbm_bytes_per_step"].get<double>() / kPins * 1e3, "moved");
  expect(roof["reached"], std::max(compute, memory) / json["step_time_ms"]["mean"].get<double>(),
         "reached");
  double useful = 0, padded = 0, pushed = 0;
  for (const Json& op : json["ops"]) {
    useful += op["matmul_flops"].get<double>();
    padded += op["padded_matmul_flops"].get<double>();
    pushed += op["pushed_matmul_flops"].get<double>();
  }
  EXPECT_EQ(json["flops"]["model"], record.model_flops);
  EXPECT_EQ(json["flops"]["model_from"], "graph");
  expect(json["flops"]["useful_matmul"], useful, "useful");
  expect(json["flops"]["padded_matmul"], padded, "padded");
  expect(json["flops"]["pushed_matmul"], pushed, "pushed");
  const Json& simulator = json["simulator"];
  expect(simulator["core_cycles_per_cpu_s"], simulator["core_cycles"].get<double>() / 4, "rate");
  expect(simulator["wall_s"], 5, "wall_s");
  expect(simulator["compile_cpu_s"], 1, "compile_cpu_s");
  expect(simulator["run_cpu_s"], 2, "run_cpu_s");
  expect(simulator["peak_rss_bytes"], 77, "peak_rss_bytes");
  EXPECT_EQ(json_of(record)["simulator"]["core_cycles_per_cpu_s"], 0);
  const Json& check = json["checks"][0];
  expect(check["relative_error"], 0.25, "relative_error");
  expect(check["max_error"], 0.5, "max_error");
  expect(check["tolerance"], 0.125, "tolerance");
  EXPECT_EQ(check["passed"], false);
  EXPECT_EQ(check["reason"], "why");
  // Where data decides what runs, useful FLOPs are those that ran, of a step.
  record.data_dependent_control = 2;
  const Json decided = json_of(record);
  expect(decided["flops"]["model"], useful / 2, "model");
  EXPECT_EQ(decided["flops"]["model_from"], "executed");
  EXPECT_EQ(decided["flops"]["data_dependent_control"], 2);
}

/// The energies of single operations by what was counted; all but the static part have one factor.
TEST(EveryFigure, OfTheEnergyIsACountTimesItsEnergy) {
  const traces::RunRecord record = numbered_record();
  Counters c;
  for (const CoreResult& core : record.result.cores) c += core.total;
  const auto number = [](std::uint64_t count) { return static_cast<double>(count); };
  const ChipPower& power = published_power().chips.at("v3");
  const OperationEnergy& pj = power.operations;
  const double hbm = number(c.hbm_read_bytes + c.hbm_write_bytes), ici = number(c.ici_bytes);
  // A push is 8 rows of 128x128 cells; a vector register has 1,024 words of four bytes.
  const double expected[] = {
      number(c.matmul_pushes) * 8 * 128 * 128 * (pj.bf16_multiply + pj.fp32_add),
      number(c.vector_alu_ops) * 1024 * (pj.fp32_add + pj.fp32_multiply) / 2,
      (number(c.vector_loads + c.vector_stores) * 4096 + hbm + 2 * ici) / 8 * pj.vmem_64_bit,
      hbm / 8 * pj.hbm_64_bit, ici * 8 * pj.ici_bit};
  const Energy energy = energy_of(record);
  const double factor = energy.joules[static_cast<std::size_t>(EnergyPart::kHbm)] / expected[3];
  for (std::size_t part = 0; part < std::size(expected); ++part) {
    EXPECT_NEAR(energy.joules[part], factor * expected[part], 1e-9 * energy.joules[part]) << part;
  }
  std::uint64_t cycles = 0;
  for (const CoreResult& core : record.result.cores)
    cycles = std::max(cycles, core.total.core.total());
  const double seconds = static_cast<double>(cycles) / 2 / kClock, chips = 1.5;
  const double at_rest = power.idle.value * chips * seconds;
  EXPECT_NEAR(energy.joules[static_cast<std::size_t>(EnergyPart::kStatic)], at_rest,
              1e-9 * at_rest);
  EXPECT_NEAR(energy.watts_per_chip, energy.total() / seconds / chips,
              1e-9 * energy.watts_per_chip);
  EXPECT_NEAR(energy.examples_per_joule, 3 * 96 / energy.total(), 1e-6 * energy.examples_per_joule);
}

TEST(EveryFigure, ADieIsKnownOfTheChipsAsMade) {
  const traces::RunRecord record = numbered_record();
  const auto is_known = [&](auto&& change) {
    traces::RunRecord other = record;
    change(other.params);
    return json_of(other)["energy"].contains("die_mm2_below");
  };
  EXPECT_TRUE(is_known([](MachineParams&) {}));
  EXPECT_FALSE(is_known([](MachineParams& p) { p.core.mxu.rows = 256; }));
  EXPECT_FALSE(is_known([](MachineParams& p) { p.core.mxu.columns = 256; }));
  EXPECT_FALSE(is_known([](MachineParams& p) { p.core.mxu.count = 1; }));
  EXPECT_FALSE(is_known([](MachineParams& p) { p.core.vmem_mib = 32; }));
  EXPECT_FALSE(is_known([](MachineParams& p) { p.cores_per_chip = 1; }));
  EXPECT_FALSE(is_known([](MachineParams& p) { p.chip = "v2"; }));
  EXPECT_TRUE(is_known([](MachineParams& p) {
    p.chip = "v2";
    p.core.mxu.count = 1;
  }));
}

TEST(EveryFigure, OfPathsAndOfTheTrainingIsThere) {
  traces::RunRecord record = numbered_record();
  record.control.resize(2);
  record.control[0].name = "while";
  record.control[1].name = "cond";
  record.control[1].branches = 2;
  record.result.paths = {{0, 3, 2, 9, {}, true, false}, {1, 5, 0, 0, {2, 3}, false, true}};
  const Json json = json_of(record);
  ASSERT_EQ(json["paths"].size(), 2u);
  EXPECT_EQ(json["paths"][0]["name"], "while");
  EXPECT_EQ(json["paths"][0]["executions"], 3);
  EXPECT_EQ(json["paths"][0]["least_trips"], 2);
  EXPECT_EQ(json["paths"][0]["most_trips"], 9);
  EXPECT_EQ(json["paths"][0]["stated"], true);
  EXPECT_EQ(json["paths"][1]["branch_counts"], Json({2, 3}));
  EXPECT_EQ(json["paths"][1]["assumed"], true);
  EXPECT_FALSE(json["paths"][1].contains("least_trips"));
  const Json& training = json["training"];
  const TrainingTime& time = record.training->time;
  expect(training["seconds"], static_cast<double>(time.cycles) / kClock, "seconds");
  EXPECT_EQ(training["cycles"], time.cycles);
  EXPECT_EQ(training["steps"], 4);
  EXPECT_EQ(training["compilations"], 1);
  expect(training["step_to_step_ms"]["mean"], 2400 / kClock * 1e3, "mean");
  expect(training["step_to_step_ms"]["min"], 1100 / kClock * 1e3, "min");
  expect(training["step_to_step_ms"]["max"], 6300 / kClock * 1e3, "max");
  expect(training["step_to_step_ms"]["p50"], 1100 / kClock * 1e3, "p50");
  expect(training["step_to_step_ms"]["p99"], 6300 / kClock * 1e3, "p99");
  std::size_t causes = 0;
  for (std::size_t i = 0; i < kTrainingCauses; ++i) {
    const char* name = to_string(static_cast<TrainingCause>(i));
    EXPECT_EQ(training["causes"].contains(name), time.causes[i] > 0) << name;
    if (time.causes[i] == 0) continue;
    ++causes;
    expect(training["causes"][name],
           static_cast<double>(time.causes[i]) / static_cast<double>(time.cycles), name);
  }
  EXPECT_EQ(causes, 3u);
  const Json& shape = training["shapes"][0];
  EXPECT_EQ(shape["batch"], 256);
  expect(shape["time_ms"], 1100 / kClock * 1e3, "time_ms");
  expect(shape["input_ms"], 900 / kClock * 1e3, "input_ms");
  expect(shape["compile_s"], 5000 / kClock, "compile_s");
}

TEST(EveryFigure, AWholeSliceHasAPriceAndAnEpochOne) {
  traces::RunRecord record = numbered_record();
  EXPECT_FALSE(json_of(record).contains("cost"));
  while (record.result.cores.size() < record.params.cores()) {
    record.result.cores.push_back(record.result.cores[0]);
    record.core_numbers.push_back(static_cast<std::uint32_t>(record.core_numbers.size()));
  }
  record.params.input.images = 5000;
  const Json json = json_of(record);
  const double rate = json["examples_per_s"], dollars = json["cost"]["dollars_per_hour"];
  EXPECT_GT(dollars, 0);
  expect(json["cost"]["examples_per_dollar"], rate * 3600 / dollars, "examples_per_dollar");
  const Json& epoch = json["cost"]["epoch"];
  EXPECT_EQ(epoch["examples"], 5000);
  expect(epoch["hours"], 5000 / rate / 3600, "hours");
  expect(epoch["dollars"], 5000 / rate / 3600 * dollars, "dollars");
}

TEST(EveryFigure, MemoryNamesTheFiveLargestBuffers) {
  traces::RunRecord record = numbered_record();
  record.buffers.clear();
  for (std::uint64_t i = 0; i < 7; ++i) {
    isa::Buffer buffer;
    buffer.name = "b" + std::to_string(i);
    buffer.role = static_cast<isa::BufferRole>(i % 5);
    buffer.granule = 1000 * (i + 1);
    buffer.bytes = 1024 * (i * 5 % 7 + 1);
    buffer.unpadded_bytes = buffer.bytes - 10 * i;
    record.buffers.push_back(buffer);
  }
  record.lifetimes.assign(7, {0, 0});
  const Json json = json_of(record)["memory"];
  EXPECT_EQ(json["padded_bytes"], 1024 * 28);
  EXPECT_EQ(json["unpadded_bytes"], 1024 * 28 - 210);
  ASSERT_EQ(json["largest"].size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) {
    // i * 5 modulo 7 is 6 for 4, 5 for 1, 4 for 5, 3 for 2, 2 for 6.
    const std::size_t place = std::array<std::size_t, 5>{4, 1, 5, 2, 6}[i];
    EXPECT_EQ(json["largest"][i]["name"], record.buffers[place].name);
    EXPECT_EQ(json["largest"][i]["bytes"], 1024 * (7 - i));
    EXPECT_EQ(json["largest"][i]["unpadded_bytes"], record.buffers[place].unpadded_bytes);
    EXPECT_EQ(json["largest"][i]["role"], role_name(record.buffers[place].role));
  }
  for (std::size_t role = 0; role < 5; ++role) {
    std::uint64_t bytes = 0;
    for (std::size_t i = role; i < 7; i += 5) bytes += record.buffers[i].bytes;
    EXPECT_EQ(json["roles"][role_name(static_cast<isa::BufferRole>(role))], bytes);
  }
  EXPECT_EQ(json["roles"].size(), 5u);
}

}  // namespace
}  // namespace tpu::report::every_figure_test
