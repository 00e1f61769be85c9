#include "traces/perfetto.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "sim/base/error.h"
#include "traces/core_events.h"
#include "traces/perfetto_writer.h"
#include "traces/timeline.h"

namespace tpu::traces {
namespace {

using TrackId = PerfettoWriter::TrackId;
constexpr std::size_t kCounterBins = 2000;

/// Writes the tracks of one core.
class CoreTimeline {
 public:
  CoreTimeline(PerfettoWriter& writer, const RunRecord& record, std::size_t core, TrackId parent)
      : writer_(writer),
        record_(record),
        result_(record.result.cores[core]),
        number_(record.core_numbers[core]),
        group_(writer.add_track("core " + std::to_string(number_), parent, result_.core)) {
    for (const OpEvent& op : record.events.ops) {
      if (op.core == number_) ops_.push_back(&op);
    }
    for (const DmaEvent& dma : record.events.dmas) {
      if (belongs(dma)) dmas_.push_back(&dma);
    }
  }

  void write() {
    write_steps();
    write_ops();
    write_units();
    write_waits();
    write_dmas();
    write_counters();
  }

 private:
  bool belongs(const DmaEvent& dma) const {
    const bool from_host = dma.source == isa::MemorySpace::kInfeed;
    return (from_host ? dma.destination_chip : dma.source_chip) == result_.chip &&
           (from_host ? dma.destination_core : dma.source_core) == result_.core;
  }
  std::uint64_t ns(std::uint64_t cycles) const {
    const std::uint64_t mhz = record_.params.clock_mhz;
    return cycles / mhz * 1000 + cycles % mhz * 1000 / mhz;
  }
  TrackId track(const std::string& name) { return writer_.add_track(name, group_, rank_++); }
  void slice(TrackId on, std::uint64_t begin, std::uint64_t end, std::string_view name,
             std::string_view category, std::vector<PerfettoWriter::Argument> arguments) {
    arguments.insert(arguments.begin(), {{"begin_cycle", begin}, {"cycles", end - begin}});
    writer_.begin_slice(on, ns(begin), name, category, arguments);
    writer_.end_slice(on, ns(end));
  }

  void write_steps() {
    const TrackId on = track("Steps");
    std::uint64_t number = 0;
    for (const StepSpan& step : result_.steps) {
      slice(on, step.begin, step.end, "step", "step", {{"step", number++}});
    }
  }

  std::vector<PerfettoWriter::Argument> op_arguments(const OpEvent& op) const {
    const isa::OpInfo& info = record_.ops[op.op];
    std::vector<PerfettoWriter::Argument> arguments{{"flops", info.flops},
                                                    {"matmul_pushes", op.matmul_pushes},
                                                    {"vector_alu_ops", op.vector_alu_ops},
                                                    {"hbm_bytes", op.hbm_bytes}};
    if (!info.op_name.empty()) arguments.emplace_back("op_name", std::string_view(info.op_name));
    if (!info.source.empty()) arguments.emplace_back("source", std::string_view(info.source));
    if (!info.shape.empty()) arguments.emplace_back("shape", std::string_view(info.shape));
    return arguments;
  }

  void write_ops() {
    std::vector<Span> spans;
    for (std::size_t i = 0; i < ops_.size(); ++i)
      spans.push_back({ops_[i]->begin, ops_[i]->end, i});
    const auto lanes = disjoint_lanes(spans);
    for (std::size_t lane = 0; lane < std::max<std::size_t>(1, lanes.size()); ++lane) {
      const TrackId on = track(lane == 0 ? "XLA Ops" : "XLA Ops #" + std::to_string(lane + 1));
      if (lane >= lanes.size()) break;
      for (const Span& span : lanes[lane]) {
        const OpEvent& op = *ops_[span.index];
        const isa::OpInfo& info = record_.ops[op.op];
        slice(on, op.begin, op.end, info.name, info.category.empty() ? "op" : info.category,
              op_arguments(op));
      }
    }
  }

  /// A slice per op that uses the unit, with the share of its cycles.
  template <class Busy>
  void write_unit(const std::string& name, Busy&& busy) {
    const TrackId on = track(name);
    std::uint64_t end = 0;
    for (const OpEvent* op : ops_) {
      const double share = busy(*op);
      if (share <= 0 || op->begin < end) continue;
      slice(on, op->begin, op->end, record_.ops[op->op].name, "unit", {{"busy", share}});
      end = op->end;
    }
  }
  void write_units() {
    const auto share = [](double part, const OpEvent& op) {
      return op.end > op.begin ? part / static_cast<double>(op.end - op.begin) : 0;
    };
    for (std::uint32_t mxu = 0; mxu < std::min(4U, record_.params.core.mxu.count); ++mxu) {
      write_unit("MXU" + std::to_string(mxu), [&](const OpEvent& op) {
        return share(static_cast<double>(op.mxu_busy[mxu]), op);
      });
    }
    write_unit("VPU", [&](const OpEvent& op) {
      return share(static_cast<double>(op.vector_alu_ops) / 2, op);
    });
  }

  void write_waits() {
    const TrackId on = track("Waits");
    for (const WaitEvent& wait : record_.events.waits) {
      if (wait.core != number_) continue;
      slice(on, wait.begin, wait.end, wait_name(wait.reason), "wait", {});
    }
  }

  void write_dmas() {
    std::map<std::string, std::vector<Span>> paths;
    for (std::size_t i = 0; i < dmas_.size(); ++i) {
      const DmaEvent& dma = *dmas_[i];
      const bool remote =
          dma.source_chip != dma.destination_chip || dma.source_core != dma.destination_core;
      std::string path = "DMA " + std::string(space_name(dma.source)) + "->";
      if (remote && dma.source != isa::MemorySpace::kInfeed) path += "ICI->";
      path += space_name(dma.destination);
      paths[path].push_back({dma.begin, dma.end, i});
    }
    for (const auto& [path, spans] : paths) {
      const auto lanes = disjoint_lanes(spans);
      const TrackId first = track(path);
      for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
        const TrackId on = lane == 0 ? first
                                     : writer_.add_track(path + " #" + std::to_string(lane + 1),
                                                         first, static_cast<std::uint32_t>(lane));
        for (const Span& span : lanes[lane]) {
          const DmaEvent& dma = *dmas_[span.index];
          slice(on, dma.begin, dma.end, path, "dma",
                {{"bytes", dma.bytes},
                 {"destination_core",
                  std::uint64_t{dma.destination_chip} * record_.params.cores_per_chip +
                      dma.destination_core}});
        }
      }
    }
  }

  void write_counter(const std::string& name, const std::string& unit,
                     const std::vector<Quantity>& quantities, double scale) {
    const TrackId on = writer_.add_counter(name, group_, rank_++, unit);
    const std::uint64_t total = record_.result.cycles;
    const std::size_t bins = static_cast<std::size_t>(std::min<std::uint64_t>(kCounterBins, total));
    const std::vector<double> sums = binned(quantities, total, bins);
    double last = -1;
    for (std::size_t bin = 0; bin < sums.size(); ++bin) {
      const double cycles = static_cast<double>(total) / static_cast<double>(bins);
      const double value = sums[bin] / cycles * scale;
      if (value == last) continue;
      writer_.set_counter(on, ns(total * bin / bins), value);
      last = value;
    }
    writer_.set_counter(on, ns(total), 0);
  }
  void write_counters() {
    std::vector<Quantity> hbm, mxu;
    for (const DmaEvent* dma : dmas_) {
      const bool touches =
          dma->source == isa::MemorySpace::kHbm || dma->destination == isa::MemorySpace::kHbm;
      if (touches) hbm.push_back({dma->begin, dma->end, static_cast<double>(dma->bytes)});
    }
    const MxuParams& params = record_.params.core.mxu;
    for (const OpEvent* op : ops_) {
      mxu.push_back(
          {op->begin, op->end,
           static_cast<double>(op->matmul_pushes) * params.push_interval_cycles / params.blocks()});
    }
    write_counter("HBM GB/s of core " + std::to_string(number_), "GB/s", hbm,
                  record_.params.clock_mhz * 1e6 / 1e9);
    write_counter("MXU % of core " + std::to_string(number_), "%", mxu, 100);
  }

  PerfettoWriter& writer_;
  const RunRecord& record_;
  const CoreResult& result_;
  std::uint32_t number_;
  TrackId group_;
  std::uint32_t rank_ = 0;
  std::vector<const OpEvent*> ops_;
  std::vector<const DmaEvent*> dmas_;
};

}  // namespace

void export_perfetto(const RunRecord& record, const std::string& path) {
  check_events(record);
  OutputFile file(path);
  PerfettoWriter writer(file);
  std::map<std::uint32_t, TrackId> chips;
  for (std::size_t core = 0; core < record.result.cores.size(); ++core) {
    const std::uint32_t chip = record.result.cores[core].chip;
    if (chips.count(chip) == 0) {
      const std::string name = "TPU " + record.params.chip + " chip " + std::to_string(chip);
      chips[chip] = writer.add_process(name, chip + 1);
    }
    CoreTimeline(writer, record, core, chips[chip]).write();
  }
  writer.flush();
  file.commit();
}

}  // namespace tpu::traces
