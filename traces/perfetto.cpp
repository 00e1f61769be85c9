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

/// Perfetto counts whole nanoseconds: those of a cycle number, rounded down.
std::uint64_t nanoseconds(const RunRecord& record, std::uint64_t cycles) {
  const std::uint64_t mhz = record.params.clock_mhz;
  return cycles / mhz * 1000 + cycles % mhz * 1000 / mhz;
}

std::size_t counter_bins(const RunRecord& record) {
  return std::min<std::uint64_t>(kCounterBins, record.result.cycles);
}

/// Amounts in equal parts of the run as a rate: amount a cycle times `scale`.
void write_counter(PerfettoWriter& writer, const RunRecord& record, TrackId on,
                   const std::vector<double>& sums, double scale) {
  const std::uint64_t total = record.result.cycles;
  double last = -1;
  for (std::size_t bin = 0; bin < sums.size(); ++bin) {
    const double cycles = static_cast<double>(total) / static_cast<double>(sums.size());
    const double value = sums[bin] / cycles * scale;
    if (value == last) continue;
    writer.set_counter(on, nanoseconds(record, total * bin / sums.size()), value);
    last = value;
  }
  writer.set_counter(on, nanoseconds(record, total), 0);
}

/// Gigabytes a second of a byte a cycle.
double gigabytes_per_s(const RunRecord& record) { return record.params.clock_mhz * 1e6 / 1e9; }

/// Writes the tracks of one core.
class CoreTimeline {
 public:
  CoreTimeline(PerfettoWriter& writer, const RunRecord& record, const WaitFlows& flows,
               std::size_t core, TrackId parent)
      : writer_(writer),
        record_(record),
        flows_(flows),
        events_(core_events(record, core)),
        group_(writer.add_track("core " + std::to_string(events_.number), parent,
                                events_.result->core)) {}

  void write() {
    write_steps();
    write_ops();
    write_waits();
    write_units();
    write_dmas();
    write_counters();
  }

 private:
  using Flows = PerfettoWriter::Flows;
  using Arguments = std::vector<PerfettoWriter::Argument>;

  std::uint64_t ns(std::uint64_t cycles) const { return nanoseconds(record_, cycles); }
  TrackId track(const std::string& name) { return writer_.add_track(name, group_, rank_++); }
  void slice(TrackId on, std::uint64_t begin, std::uint64_t end, std::string_view name,
             std::string_view category, Arguments arguments, const Flows& flows = {}) {
    arguments.insert(arguments.begin(), {{"begin_cycle", begin}, {"cycles", end - begin}});
    writer_.begin_slice(on, ns(begin), name, category, arguments, flows);
    writer_.end_slice(on, ns(end));
  }

  void write_steps() {
    const TrackId on = track("Steps");
    std::uint64_t number = 0;
    for (const StepSpan& step : events_.result->steps) {
      slice(on, step.begin, step.end, "step " + std::to_string(number), "step", {{"step", number}});
      ++number;
    }
  }

  Arguments op_arguments(const OpEvent& op) const {
    const isa::OpInfo& info = record_.ops[op.op];
    Arguments arguments{{"flops", info.flops},
                        {"matmul_pushes", op.matmul_pushes},
                        {"vector_alu_ops", op.vector_alu_ops},
                        {"hbm_bytes", op.hbm_bytes}};
    if (!info.op_name.empty()) arguments.emplace_back("op_name", std::string_view(info.op_name));
    if (!info.source.empty()) arguments.emplace_back("source", std::string_view(info.source));
    if (!info.shape.empty()) arguments.emplace_back("shape", std::string_view(info.shape));
    return arguments;
  }

  void write_ops() {
    const auto lanes = op_lanes(events_);
    for (std::size_t lane = 0; lane < std::max<std::size_t>(1, lanes.size()); ++lane) {
      const TrackId on = track(lane == 0 ? "XLA Ops" : "XLA Ops #" + std::to_string(lane + 1));
      if (lane >= lanes.size()) break;
      for (const Span& span : lanes[lane]) {
        const OpEvent& op = *events_.ops[span.index];
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
  }

  /// The DMA that ends a wait may begin behind the wait's begin, and arrows point forward: this one
  /// points to an empty slice at the wait's end.
  void write_waits() {
    const TrackId on = track("Waits");
    for (const WaitEvent* wait : events_.waits) {
      writer_.begin_slice(on, ns(wait->begin), wait_name(wait->reason), "wait",
                          {{"begin_cycle", wait->begin}, {"cycles", wait->end - wait->begin}}, {});
      if (const std::uint64_t flow = flows_.into(*wait); flow > 0) {
        writer_.begin_slice(on, ns(wait->end), "flag raised", "wait", {}, {{}, {flow}});
        writer_.end_slice(on, ns(wait->end));
      }
      writer_.end_slice(on, ns(wait->end));
    }
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
          slice(on, dma.begin, dma.end, path, "dma",
                {{"bytes", dma.bytes},
                 {"destination_core",
                  std::uint64_t{dma.destination_chip} * record_.params.cores_per_chip +
                      dma.destination_core}},
                {flows_.out_of(dma), {}});
        }
      }
    }
  }

  void write_counters() {
    const std::string of_core = " of core " + std::to_string(events_.number);
    const std::size_t bins = counter_bins(record_);
    const TrackId hbm = writer_.add_counter("HBM GB/s" + of_core, group_, rank_++, "GB/s");
    write_counter(writer_, record_, hbm, hbm_bytes(record_, events_, bins),
                  gigabytes_per_s(record_));
    std::vector<Quantity> pushes;
    const MxuParams& params = record_.params.core.mxu;
    for (const OpEvent* op : events_.ops) {
      pushes.push_back(
          {op->begin, op->end,
           static_cast<double>(op->matmul_pushes) * params.push_interval_cycles / params.blocks()});
    }
    const TrackId mxu = writer_.add_counter("MXU %" + of_core, group_, rank_++, "%");
    write_counter(writer_, record_, mxu, binned(pushes, record_.result.cycles, bins), 100);
  }

  PerfettoWriter& writer_;
  const RunRecord& record_;
  const WaitFlows& flows_;
  CoreEvents events_;
  TrackId group_;
  std::uint32_t rank_ = 0;
};

}  // namespace

void export_perfetto(const RunRecord& record, const std::string& path) {
  check_events(record);
  OutputFile file(path);
  PerfettoWriter writer(file);
  const WaitFlows flows(record);
  std::map<std::uint32_t, TrackId> chips;
  for (std::size_t core = 0; core < record.result.cores.size(); ++core) {
    const std::uint32_t chip = record.result.cores[core].chip;
    if (chips.count(chip) == 0) {
      chips[chip] =
          writer.add_group("TPU " + record.params.chip + " chip " + std::to_string(chip), chip);
    }
    CoreTimeline(writer, record, flows, core, chips[chip]).write();
  }
  for (const auto& [chip, group] : chips) {
    const std::vector<double> sent = ici_bytes(record, chip, counter_bins(record));
    if (*std::max_element(sent.begin(), sent.end()) <= 0) continue;
    const TrackId ici = writer.add_counter("ICI GB/s sent by chip " + std::to_string(chip), group,
                                           record.params.cores_per_chip, "GB/s");
    write_counter(writer, record, ici, sent, gigabytes_per_s(record));
  }
  writer.flush();
  file.commit();
}

}  // namespace tpu::traces
