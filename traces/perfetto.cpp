#include "traces/perfetto.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "sim/base/error.h"
#include "traces/core_events.h"
#include "traces/perfetto_counters.h"
#include "traces/perfetto_file.h"
#include "traces/timeline.h"

namespace tpu::traces {
namespace {

using TrackId = PerfettoWriter::TrackId;

/// Numbers of arrows from DMAs to the waits that they end, by event. A wait ends in the cycle in
/// which the flag is raised that it waits for; of several DMAs that end then, the one with the most
/// bytes is taken.
class WaitFlows {
 public:
  explicit WaitFlows(const RunRecord& record) {
    using Arrival = std::tuple<std::uint32_t, std::uint32_t, std::uint64_t>;  // Chip, core, end.
    std::map<Arrival, const DmaEvent*> arrivals;
    for (const DmaEvent& dma : record.events.dmas) {
      const bool to_host = dma.destination == isa::MemorySpace::kOutfeed;
      const DmaEvent*& known =
          arrivals[{to_host ? dma.source_chip : dma.destination_chip,
                    to_host ? dma.source_core : dma.destination_core, dma.end}];
      if (known == nullptr || dma.bytes > known->bytes) known = &dma;
    }
    std::map<std::uint32_t, const CoreResult*> cores;
    for (std::size_t i = 0; i < record.core_numbers.size(); ++i) {
      cores[record.core_numbers[i]] = &record.result.cores[i];
    }
    for (const WaitEvent& wait : record.events.waits) {
      const auto core = cores.find(wait.core);
      if (core == cores.end()) continue;
      const auto found = arrivals.find({core->second->chip, core->second->core, wait.end});
      if (found == arrivals.end()) continue;
      const std::uint64_t number = ++last_;
      out_[found->second].push_back(number);
      in_[&wait] = number;
    }
  }

  std::vector<std::uint64_t> out_of(const DmaEvent& dma) const {
    const auto found = out_.find(&dma);
    return found == out_.end() ? std::vector<std::uint64_t>() : found->second;
  }
  /// 0 where nothing that is recorded ended the wait.
  std::uint64_t into(const WaitEvent& wait) const {
    const auto found = in_.find(&wait);
    return found == in_.end() ? 0 : found->second;
  }

 private:
  std::uint64_t last_ = 0;
  std::map<const DmaEvent*, std::vector<std::uint64_t>> out_;
  std::map<const WaitEvent*, std::uint64_t> in_;
};

/// Writes the tracks of one core.
class CoreTimeline {
 public:
  CoreTimeline(PerfettoFile& file, const RunRecord& record, const WaitFlows& flows,
               std::size_t core)
      : file_(file),
        writer_(file.writer()),
        record_(record),
        flows_(flows),
        events_(core_events(record, core)),
        group_(file.core(events_.number)) {}

  void write() {
    write_steps();
    write_ops();
    write_sequencer();
    write_causes();
    write_units();
    write_dmas();
    write_core_counters(file_, record_, events_, rank_);
  }

 private:
  using Flows = PerfettoWriter::Flows;
  using Interned = PerfettoWriter::Interned;
  using Arguments = std::vector<PerfettoWriter::Argument>;

  std::uint64_t ns(std::uint64_t cycles) const { return file_.nanoseconds(cycles); }
  TrackId track(const std::string& name) { return writer_.add_track(name, group_, rank_++); }
  void slice(TrackId on, std::uint64_t begin, std::uint64_t end, std::string_view name,
             std::string_view category, const Arguments& arguments, const Flows& flows = {}) {
    writer_.begin_slice(on, ns(begin), name, category, arguments, flows);
    writer_.end_slice(on, ns(end));
  }

  void write_steps() {
    const TrackId on = track("Steps");
    std::uint64_t number = 0;
    for (const StepSpan& step : events_.result->steps) {
      slice(on, step.begin, step.end, "step " + std::to_string(number), "step",
            {{"step", number},
             {"begin_cycle", step.begin},
             {"cycles", step.end - step.begin},
             {"clock_mhz", std::uint64_t{record_.params.clock_mhz}}});
      ++number;
    }
  }

  Arguments op_arguments(const OpEvent& op, std::uint64_t step) const {
    const isa::OpInfo& info = record_.ops[op.op];
    Arguments arguments{{"step", step},
                        {"begin_cycle", op.begin},
                        {"cycles", op.end - op.begin},
                        {"flops", info.flops},
                        {"matmul_pushes", op.matmul_pushes},
                        {"vector_alu_ops", op.vector_alu_ops},
                        {"hbm_bytes", op.hbm_bytes}};
    if (!info.op_name.empty()) arguments.emplace_back("op_name", Interned{info.op_name});
    if (!info.source.empty()) arguments.emplace_back("source", Interned{info.source});
    if (!info.shape.empty()) arguments.emplace_back("shape", Interned{info.shape});
    return arguments;
  }

  void write_ops() {
    const auto lanes = op_lanes(events_);
    for (std::size_t lane = 0; lane < std::max<std::size_t>(1, lanes.size()); ++lane) {
      const TrackId on = track(lane == 0 ? "XLA Ops" : "XLA Ops #" + std::to_string(lane + 1));
      if (lane >= lanes.size()) break;
      const std::vector<StepSpan>& steps = events_.result->steps;
      std::size_t step = 0;
      for (const Span& span : lanes[lane]) {
        const OpEvent& op = *events_.ops[span.index];
        const isa::OpInfo& info = record_.ops[op.op];
        while (step + 1 < steps.size() && steps[step].end <= op.begin) ++step;
        slice(on, op.begin, op.end, info.name, info.category.empty() ? "op" : info.category,
              op_arguments(op, step));
      }
    }
  }

  /// A slice per op that uses the unit, with the share of its cycles.
  template <class Busy>
  void write_unit(const std::string& name, Busy&& busy) {
    const TrackId on = track(name);
    std::uint64_t end = 0;
    for (const OpEvent* op : events_.ops) {
      const double share = busy(*op);
      if (share <= 0 || op->begin < end) continue;
      slice(on, op->begin, op->end, record_.ops[op->op].name, "unit", {{"busy", share}});
      end = op->end;
    }
  }
  void write_units() {
    for (std::uint32_t mxu = 0; mxu < std::min(4U, record_.params.core.mxu.count); ++mxu) {
      write_unit("MXU" + std::to_string(mxu),
                 [&](const OpEvent& op) { return mxu_share(op, mxu); });
    }
    write_unit("VPU", [](const OpEvent& op) { return vector_alu_share(op); });
    for (const auto& [name, unit] : {std::pair{"XLU", Unit::kXlu}, std::pair{"EUP", Unit::kEup}}) {
      write_unit(name, [&, of = unit](const OpEvent& op) { return mean_share(events_, op, of); });
    }
  }

  /// Waits and, between them, the ops of which bundles issue. The DMA that ends a wait may begin
  /// behind the wait's begin, and arrows point forward: this one points to an empty slice at the
  /// wait's end, and from there to what goes on.
  void write_sequencer() {
    const TrackId on = track("Sequencer");
    if (events_.result->steps.empty()) return;
    std::uint64_t at = events_.result->steps.front().begin, flow = 0;
    for (const WaitEvent* wait : events_.waits) {
      const bool goes_on = wait->begin > at;
      if (goes_on) write_run(on, at, wait->begin, flow);
      writer_.begin_slice(on, ns(wait->begin), wait_name(wait->reason), "wait", {}, {});
      flow = flows_.into(*wait);
      if (flow > 0) {
        writer_.begin_slice(on, ns(wait->end), "flag raised", "wait", {}, {{flow}, {}});
        writer_.end_slice(on, ns(wait->end));
      }
      writer_.end_slice(on, ns(wait->end));
      at = wait->end;
    }
    const std::uint64_t end = events_.result->steps.back().end;
    if (end > at) write_run(on, at, end, flow);
  }

  /// The core runs: of each op that it does meanwhile a slice.
  void write_run(TrackId on, std::uint64_t begin, std::uint64_t end, std::uint64_t flow) {
    const std::vector<const OpEvent*>& ops = events_.ops;
    while (begin < end) {
      while (next_run_ < ops.size() && ops[next_run_]->end <= begin) ++next_run_;
      const bool inside = next_run_ < ops.size() && ops[next_run_]->begin <= begin;
      std::uint64_t until = end;
      if (next_run_ < ops.size()) {
        until = std::min(end, inside ? ops[next_run_]->end : ops[next_run_]->begin);
      }
      slice(on, begin, until, inside ? record_.ops[ops[next_run_]->op].name : "between ops", "run",
            {}, flow > 0 ? Flows{{}, {flow}} : Flows{});
      flow = 0;
      begin = until;
    }
  }

  /// What the time of each op depends on: the resource with the greatest share of it gives the
  /// name.
  void write_causes() {
    const std::vector<CriticalPath::Op>& causes = record_.result.critical_path.ops;
    if (causes.empty()) return;
    const TrackId on = track("Causes");
    std::uint64_t end = 0;
    for (const OpEvent* op : events_.ops) {
      if (op->op >= causes.size() || op->begin < end) continue;
      const std::array<double, kResources>& cycles = causes[op->op].cycles;
      const double all = std::accumulate(cycles.begin(), cycles.end(), 0.0);
      if (all <= 0) continue;
      Arguments shares;
      for (std::size_t r = 0; r < kResources; ++r) {
        if (cycles[r] > 0)
          shares.emplace_back(to_string(static_cast<Resource>(r)), cycles[r] / all);
      }
      const auto most = std::max_element(cycles.begin(), cycles.end());
      slice(on, op->begin, op->end, to_string(static_cast<Resource>(most - cycles.begin())),
            "cause", shares);
      end = op->end;
    }
  }

  /// There are millions of them: bytes, and the core at the other end where that is another.
  Arguments dma_arguments(const DmaEvent& dma) const {
    Arguments arguments{{"bytes", dma.bytes}};
    const std::uint64_t to =
        std::uint64_t{dma.destination_chip} * record_.params.cores_per_chip + dma.destination_core;
    if (to != events_.number) arguments.emplace_back("destination_core", to);
    return arguments;
  }

  void write_dmas() {
    std::map<std::string, std::vector<Span>> paths;
    for (std::size_t i = 0; i < events_.dmas.size(); ++i) {
      const DmaEvent& dma = *events_.dmas[i];
      paths["DMA " + dma_path(dma)].push_back({dma.begin, dma.end, i});
    }
    for (const auto& [path, spans] : paths) {
      const auto lanes = disjoint_lanes(spans);
      const TrackId first = track(path);
      for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
        const TrackId on = lane == 0 ? first
                                     : writer_.add_track(path + " #" + std::to_string(lane + 1),
                                                         first, static_cast<std::uint32_t>(lane));
        for (const Span& span : lanes[lane]) {
          const DmaEvent& dma = *events_.dmas[span.index];
          slice(on, dma.begin, dma.end, path, "dma", dma_arguments(dma), {flows_.out_of(dma), {}});
        }
      }
    }
  }

  PerfettoFile& file_;
  PerfettoWriter& writer_;
  const RunRecord& record_;
  const WaitFlows& flows_;
  CoreEvents events_;
  TrackId group_;
  std::uint32_t rank_ = 0;
  std::size_t next_run_ = 0;  ///< The first op that has not ended yet.
};

}  // namespace

void write_perfetto(const RunRecord& record, PerfettoFile& file) {
  check_events(record);
  const WaitFlows flows(record);
  for (std::size_t core = 0; core < record.result.cores.size(); ++core) {
    CoreTimeline(file, record, flows, core).write();
  }
  write_hbm_channels(file, record);
  write_link_counters(file, record);
  write_host(file, record);
}

void export_perfetto(const RunRecord& record, const std::string& path) {
  check_events(record);
  PerfettoFile file(path, record.params);
  write_perfetto(record, file);
  file.commit();
}

}  // namespace tpu::traces
