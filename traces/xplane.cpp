#include "traces/xplane.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/output_file.h"
#include "traces/core_events.h"
#include "traces/run_hlo.h"
#include "traces/xplane_host.h"
#include "traces/xplane_writer.h"

namespace tpu::traces {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kCounterSamples = 500;
constexpr const char* kRunFolder = "tpusim";

/// Picoseconds of a cycle number: whole ones, rounded down.
std::uint64_t picoseconds(std::uint64_t cycles, std::uint64_t mhz) {
  return cycles / mhz * 1000000 + cycles % mhz * 1000000 / mhz;
}

/// XProf's MemoryAccessed: what is read from and written to HBM.
std::string access_breakdown(std::uint64_t read, std::uint64_t written) {
  constexpr std::uint64_t kRead = 1, kWrite = 2, kHbm = 1;
  ProtobufMessage message;
  const auto add = [&](std::uint64_t operation, std::uint64_t bytes) {
    message.message(1, ProtobufMessage().varint(1, operation).varint(2, kHbm).varint(3, bytes));
  };
  add(kRead, read);
  add(kWrite, written);
  return message.text();
}

std::uint32_t host_of(const RunRecord& record, std::size_t core) {
  return record.result.cores[core].chip / std::max(1U, record.params.host.chips);
}

/// As XProf knows it.
std::string host_label(std::uint32_t host) { return "host" + std::to_string(host); }

std::int64_t whole(std::uint64_t value) { return static_cast<std::int64_t>(value); }

/// Writes the plane of one core.
class CorePlane {
 public:
  CorePlane(const RunRecord& record, std::size_t core, const RunHlo& program,
            const std::string& host, std::uint64_t origin, std::size_t steps)
      : record_(record),
        events_(core_events(record, core)),
        program_(program),
        origin_(origin),
        steps_(std::min(steps, events_.result->steps.size())),
        plane_(events_.number + 2, "/device:TPU:" + std::to_string(events_.number)) {
    if (steps_ > 0) end_ = events_.result->steps[steps_ - 1].end;
    describe(host);
  }

  /// `room`: events that units, DMAs and waits may still have; less those that they took.
  const ProtobufMessage& write(std::size_t& room, std::size_t& left_out) {
    write_steps();
    write_ops();
    write_units(room, left_out);
    write_waits(room, left_out);
    write_dmas(room, left_out);
    write_counters();
    return plane_.finish();
  }

 private:
  using Stats = XPlane::Stats;

  void describe(const std::string& host) {
    const MachineParams& params = record_.params;
    ProtobufMessage details;
    details.bytes(1, host).varint(2, events_.number).varint(3, events_.result->core);
    details.varint(4, events_.result->chip % std::max(1U, params.host.chips));
    details.varint(5, events_.result->chip).varint(6, events_.number);
    plane_.add_stats({{"device_type_string", "TPU " + params.chip},
                      {"peak_teraflops_per_second", params.core_peak_flops() / 1e12},
                      {"peak_hbm_bw_gigabytes_per_second", params.core_hbm_bytes_per_s() / 1e9},
                      {"peak_sram_rd_bw_gigabytes_per_second", 0.0},
                      {"peak_sram_wr_bw_gigabytes_per_second", 0.0},
                      {"peak_cmem_rd_bw_gigabytes_per_second", 0.0},
                      {"peak_cmem_wr_bw_gigabytes_per_second", 0.0},
                      {"peak_vmem_rd_bw_gigabytes_per_second", 0.0},
                      {"peak_vmem_wr_bw_gigabytes_per_second", 0.0},
                      {"has_megacore", std::int64_t{0}},
                      {"has_merged_vmem", std::int64_t{0}},
                      {"core_details", XPlane::Bytes{details.text()}},
                      {"device_id", std::int64_t{events_.number}},
                      {"clock_rate", std::int64_t{params.clock_mhz} * 1000}});
  }

  std::uint64_t at(std::uint64_t cycle) const {
    return picoseconds(cycle - std::min(cycle, origin_), record_.params.clock_mhz);
  }
  void add(std::uint64_t kind, std::uint64_t begin, std::uint64_t end, const Stats& stats = {}) {
    plane_.add_event(kind, at(begin), at(end) - at(begin), stats);
  }
  bool is_shown(std::uint64_t begin) const { return begin < end_; }

  /// The step that a cycle belongs to; the number of steps where it is in none.
  std::size_t step_of(std::uint64_t cycle) const {
    const std::vector<StepSpan>& steps = events_.result->steps;
    for (std::size_t step = 0; step < steps.size(); ++step) {
      if (cycle >= steps[step].begin && cycle < steps[step].end) return step;
    }
    return steps.size();
  }
  /// XProf groups by this statistic: what has none belongs to no step.
  void add_group(std::uint64_t cycle, Stats& stats) const {
    const std::size_t step = step_of(cycle);
    if (step < steps_) stats.push_back({"group_id", whole(step)});
  }

  void write_steps() {
    plane_.begin_line("Steps");
    for (std::size_t step = 0; step < steps_; ++step) {
      const StepSpan& span = events_.result->steps[step];
      const std::string name = std::to_string(step);
      add(plane_.kind(name), span.begin, span.end,
          {{"group_id", whole(step)}, {"step_name", XPlane::Interned{name}}});
    }
    plane_.begin_line("XLA Modules");
    const std::string module = program_.module + "(" + std::to_string(program_.program_id) + ")";
    for (std::size_t step = 0; step < steps_; ++step) {
      const StepSpan& span = events_.result->steps[step];
      add(plane_.kind(module), span.begin, span.end,
          {{"group_id", whole(step)},
           {"run_id", whole(step + 1)},
           {"program_id", whole(program_.program_id)}});
    }
  }

  /// The kind of an op's events: everything that XProf knows of the op, an execution's mean.
  std::uint64_t op_kind(std::uint32_t index) {
    const auto found = op_kinds_.find(index);
    if (found != op_kinds_.end()) return found->second;
    const isa::OpInfo& op = record_.ops[index];
    const OpResult& result = events_.result->ops[index];
    const std::uint64_t count = std::max<std::uint64_t>(1, result.count);
    const std::uint64_t read = result.counters.hbm_read_bytes / count;
    const std::uint64_t written = result.counters.hbm_write_bytes / count;
    const std::string category = op.category.empty() ? "op" : op.category;
    Stats stats{{"program_id", whole(program_.program_id)},
                {"symbol_id", whole(program_.op_ids[index])},
                {"hlo_category", XPlane::Interned{category}},
                {"flops", whole(op.flops)},
                {"model_flops", whole(op.flops)},
                {"bytes_accessed", whole(read + written)},
                {"raw_bytes_accessed", whole(read + written)},
                {"memory_access_breakdown", XPlane::Bytes{access_breakdown(read, written)}},
                {"deduplicated_name", std::string()}};
    const std::string framework_op =
        op.op_name + ":" + op.op_name.substr(op.op_name.rfind('/') + 1);
    if (!op.op_name.empty()) stats.push_back({"tf_op", XPlane::Interned{framework_op}});
    if (!op.source.empty()) stats.push_back({"source", XPlane::Interned{op.source}});
    if (!op.shape.empty()) stats.push_back({"shape_with_layout", XPlane::Interned{op.shape}});
    const std::string text = "%" + op.name + " = " + op.shape + " " + op.category;
    return op_kinds_[index] = plane_.add_kind(text, op.name, stats);
  }

  void write_ops() {
    const auto lanes = op_lanes(events_);
    std::map<std::uint32_t, std::int64_t> executions;
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      // XProf counts what is on the first line as busy: its events must not overlap.
      plane_.begin_line(lane == 0   ? "XLA Ops"
                        : lane == 1 ? "Async XLA Ops"
                                    : "Async XLA Ops #" + std::to_string(lane));
      for (const Span& span : lanes[lane]) {
        if (!is_shown(span.begin)) continue;
        const OpEvent& op = *events_.ops[span.index];
        Stats stats;
        add_group(op.begin, stats);
        if (record_.ops[op.op].category.find("all-reduce") != std::string::npos) {
          const std::int64_t unique = (executions[op.op]++ << 20) + op.op;
          stats.push_back({"all_reduce_unique_id", unique});
        }
        add(op_kind(op.op), op.begin, op.end, stats);
      }
    }
  }

  /// A slice for each op that uses the unit, with the share of its cycles.
  template <class Share>
  void write_unit(const std::string& name, std::size_t& room, std::size_t& left_out,
                  Share&& share) {
    plane_.begin_line(name);
    for (const OpEvent* op : events_.ops) {
      const double busy = share(*op);
      if (busy <= 0 || !is_shown(op->begin)) continue;
      if (room == 0) {
        ++left_out;
        continue;
      }
      --room;
      add(plane_.kind(record_.ops[op->op].name), op->begin, op->end,
          {{"busy_percent", 100 * busy}});
    }
  }
  /// Under the names of lines that XProf's `inspect_capture` knows.
  void write_units(std::size_t& room, std::size_t& left_out) {
    for (std::size_t mxu = 0; mxu < std::min(4U, record_.params.core.mxu.count); ++mxu) {
      write_unit("MXU" + std::to_string(mxu), room, left_out,
                 [&](const OpEvent& op) { return mxu_share(op, mxu); });
    }
    write_unit("VALU Instructions", room, left_out,
               [](const OpEvent& op) { return vector_alu_share(op); });
    const std::pair<const char*, Unit> units[] = {{"XLU Instructions", Unit::kXlu},
                                                  {"EUP Instructions", Unit::kEup},
                                                  {"SALU Instructions", Unit::kScalar},
                                                  {"VLD Instructions", Unit::kVectorLoad},
                                                  {"VST Instructions", Unit::kVectorStore}};
    for (const auto& [name, unit] : units) {
      write_unit(name, room, left_out,
                 [&, of = unit](const OpEvent& op) { return mean_share(events_, op, of); });
    }
  }

  void write_waits(std::size_t& room, std::size_t& left_out) {
    plane_.begin_line("Waits");
    for (const WaitEvent* wait : events_.waits) {
      if (!is_shown(wait->begin)) continue;
      if (room == 0) {
        ++left_out;
        continue;
      }
      --room;
      add(plane_.kind(wait_name(wait->reason)), wait->begin, wait->end);
    }
  }

  void write_dmas(std::size_t& room, std::size_t& left_out) {
    std::map<std::string, std::vector<Span>> paths;
    for (std::size_t i = 0; i < events_.dmas.size(); ++i) {
      const DmaEvent& dma = *events_.dmas[i];
      if (!is_shown(dma.begin)) continue;
      if (room == 0) {
        ++left_out;
        continue;
      }
      --room;
      paths["DMA " + dma_path(dma)].push_back({dma.begin, dma.end, i});
    }
    for (const auto& [path, spans] : paths) {
      const auto lanes = disjoint_lanes(spans);
      for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
        plane_.begin_line(lane == 0 ? path : path + " #" + std::to_string(lane + 1));
        for (const Span& span : lanes[lane]) {
          const DmaEvent& dma = *events_.dmas[span.index];
          add(plane_.kind(path), dma.begin, dma.end, {{"bytes", whole(dma.bytes)}});
        }
      }
    }
  }

  void add_counter(std::string_view name, std::uint64_t cycle, std::uint64_t value) {
    plane_.add_event(plane_.kind(name), at(cycle), 0,
                     {{"counter_value", XPlane::Unsigned{value}},
                      {"performance_counter_description", XPlane::Interned{name}}});
  }
  void write_counters() {
    plane_.begin_line("_counters_");
    const Counters& total = events_.result->total;
    const std::pair<std::string_view, std::uint64_t> totals[] = {
        {"cycles", total.core.total()},
        {"count_scalar_instruction", total.scalar_ops},
        {"count_vector_alu_instruction", total.vector_alu_ops},
        {"count_vector_load", total.vector_loads},
        {"count_vector_store", total.vector_stores},
        {"count_matmul", total.matmul_pushes},
        {"hbm_read_bytes", total.hbm_read_bytes},
        {"hbm_write_bytes", total.hbm_write_bytes}};
    for (const auto& [name, value] : totals) add_counter(name, origin_, value);
    const std::uint64_t cycles = record_.result.cycles;
    const std::size_t bins = std::min<std::uint64_t>(kCounterSamples, cycles);
    const std::vector<double> bytes = hbm_bytes(record_, events_, bins);
    std::uint64_t last = ~std::uint64_t{0};
    for (std::size_t bin = 0; bin < bins; ++bin) {
      const std::uint64_t begin = cycles * bin / bins;
      const double seconds = static_cast<double>(cycles) / static_cast<double>(bins) /
                             (record_.params.clock_mhz * 1e6);
      const auto rate = static_cast<std::uint64_t>(bytes[bin] / seconds / 1e6);
      if (rate == last || begin < origin_ || !is_shown(begin)) continue;
      add_counter("HBM MB/s", begin, rate);
      last = rate;
    }
  }

  const RunRecord& record_;
  CoreEvents events_;
  const RunHlo& program_;
  std::uint64_t origin_, end_ = 0;
  std::size_t steps_;
  XPlane plane_;
  std::map<std::uint32_t, std::uint64_t> op_kinds_;
};

/// How many steps have at most so many events of ops, at least one.
std::size_t steps_within(const RunRecord& record, std::size_t most_events) {
  std::vector<std::uint64_t> ends;  ///< Of each step, on the slowest core.
  for (const CoreResult& core : record.result.cores) {
    ends.resize(std::max(ends.size(), core.steps.size()));
    for (std::size_t i = 0; i < core.steps.size(); ++i) {
      ends[i] = std::max(ends[i], core.steps[i].end);
    }
  }
  std::size_t steps = 0;
  for (; steps < ends.size(); ++steps) {
    const auto count = std::count_if(record.events.ops.begin(), record.events.ops.end(),
                                     [&](const OpEvent& op) { return op.begin < ends[steps]; });
    if (static_cast<std::size_t>(count) > most_events) break;
  }
  return std::max<std::size_t>(steps, std::min<std::size_t>(1, ends.size()));
}

std::uint64_t first_cycle(const RunRecord& record) {
  std::uint64_t first = record.result.cycles;
  for (const CoreResult& core : record.result.cores) {
    if (!core.steps.empty()) first = std::min(first, core.steps[0].begin);
  }
  return first;
}

std::string metadata_plane(const RunHlo& program) {
  XPlane plane(1, "/host:metadata");
  plane.add_kind(program.module + "(" + std::to_string(program.program_id) + ")", "",
                 {{"Hlo Proto", XPlane::Bytes{program.proto}}}, program.program_id);
  return plane.finish().text();
}

/// What XProf has derived from an earlier file of the run: it would show that instead.
void remove_derived(const fs::path& folder) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    const auto ends_with = [&](std::string_view ending) {
      return name.size() >= ending.size() &&
             name.compare(name.size() - ending.size(), ending.size(), ending) == 0;
    };
    if (ends_with(".hlo_proto.pb") || ends_with(".SSTABLE") || name == ".cached_tools.json") {
      fs::remove(entry.path(), error);
    }
  }
}

/// The files of one export, a group of cores each.
class Exporter {
 public:
  Exporter(const RunRecord& record, const XPlaneFigures& figures, std::size_t most_events)
      : record_(record),
        figures_(figures),
        program_(run_hlo(record)),
        steps_(steps_within(record, most_events)),
        origin_(first_cycle(record)),
        room_(most_events - std::min(most_events, record.events.ops.size())) {}

  void write(std::uint32_t number, const std::vector<std::size_t>& cores, const std::string& path) {
    constexpr std::uint32_t kPlane = 1, kHostName = 4;
    const std::string host = host_label(number);
    ProtobufMessage space;
    for (const std::size_t core : cores) {
      CorePlane plane(record_, core, program_, host, origin_, steps_);
      space.message(kPlane, plane.write(room_, left_out_));
    }
    space.bytes(kPlane, metadata_plane(program_));
    XPlane cpu(0, "/host:CPU");
    cpu.add_stats({{"matrix_unit_utilization_percent", figures_.matrix_unit_percent},
                   {"hbm_utilization_percent", figures_.hbm_percent}});
    for (const std::uint32_t each : hosts_of(cores)) {
      write_host_stages(cpu, record_, each, steps_of(cores));
    }
    space.message(kPlane, cpu.finish());
    XPlane environment(99, "Task Environment");
    const std::uint64_t end =
        picoseconds(record_.result.cycles - origin_, record_.params.clock_mhz) / 1000;
    environment.add_stats({{"profile_start_time", XPlane::Unsigned{0}},
                           {"profile_stop_time", XPlane::Unsigned{end}}});
    space.message(kPlane, environment.finish()).bytes(kHostName, host);
    OutputFile file(path);
    file.write(space.text());
    file.commit();
  }

  std::vector<std::string> notes() const {
    std::vector<std::string> notes;
    std::size_t all = 0;
    for (const CoreResult& core : record_.result.cores) all = std::max(all, core.steps.size());
    if (steps_ < all) {
      notes.push_back("the first " + std::to_string(steps_) + " of " + std::to_string(all) +
                      " steps, so that events stay below --max-events");
    }
    if (left_out_ > 0) {
      notes.push_back(
          std::to_string(left_out_) +
          " slices of units, DMAs and waits left out, so that events stay below --max-events");
    }
    return notes;
  }

 private:
  std::set<std::uint32_t> hosts_of(const std::vector<std::size_t>& cores) const {
    std::set<std::uint32_t> hosts;
    for (const std::size_t core : cores) hosts.insert(host_of(record_, core));
    return hosts;
  }
  /// From where the first of these cores begins one to where the last ends it.
  std::vector<XPlaneStep> steps_of(const std::vector<std::size_t>& cores) const {
    const auto at = [&](std::uint64_t cycle) {
      return picoseconds(cycle - std::min(cycle, origin_), record_.params.clock_mhz);
    };
    std::vector<XPlaneStep> steps;
    for (const std::size_t core : cores) {
      const std::vector<StepSpan>& spans = record_.result.cores[core].steps;
      const std::size_t count = std::min(steps_, spans.size());
      for (std::size_t step = 0; step < count; ++step) {
        if (step == steps.size()) steps.push_back({~std::uint64_t{0}, 0});
        steps[step].begin = std::min(steps[step].begin, at(spans[step].begin));
        steps[step].end = std::max(steps[step].end, at(spans[step].end));
      }
    }
    return steps;
  }

  const RunRecord& record_;
  const XPlaneFigures& figures_;
  RunHlo program_;
  std::size_t steps_;
  std::uint64_t origin_;
  std::size_t room_, left_out_ = 0;
};

}  // namespace

std::vector<std::string> export_xplane(const RunRecord& record, const XPlaneFigures& figures,
                                       std::size_t most_events, const std::string& path) {
  check_events(record);
  std::map<std::uint32_t, std::vector<std::size_t>> hosts;
  const bool one_file = fs::path(path).extension() == ".pb";
  for (std::size_t core = 0; core < record.result.cores.size(); ++core) {
    hosts[one_file ? 0 : host_of(record, core)].push_back(core);
  }
  Exporter exporter(record, figures, most_events);
  const fs::path folder = fs::path(path) / "plugins" / "profile" / kRunFolder;
  if (!one_file) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) throw UsageError("-o " + path + ": expected a log folder: " + error.message());
    remove_derived(folder);
  }
  for (const auto& [number, cores] : hosts) {
    const std::string host = host_label(number);
    exporter.write(number, cores, one_file ? path : (folder / (host + ".xplane.pb")).string());
  }
  return exporter.notes();
}

}  // namespace tpu::traces
