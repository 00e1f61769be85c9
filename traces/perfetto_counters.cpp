#include "traces/perfetto_counters.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "traces/buffer_lifetimes.h"
#include "traces/host_stages.h"
#include "traces/link_loads.h"
#include "traces/timeline.h"

namespace tpu::traces {
namespace {

using TrackId = PerfettoWriter::TrackId;
constexpr std::uint32_t kLastRank = 1000;  ///< Behind all other tracks of a core.

std::size_t counter_bins(const RunRecord& record) {
  return std::min<std::uint64_t>(kCounterBins, record.result.cycles);
}

/// Amounts in equal parts of the run as a rate: amount a cycle times `scale`.
void write_rate(PerfettoFile& file, const RunRecord& record, TrackId on,
                const std::vector<double>& sums, double scale) {
  const std::uint64_t total = record.result.cycles;
  double last = -1;
  for (std::size_t bin = 0; bin < sums.size(); ++bin) {
    const double cycles = static_cast<double>(total) / static_cast<double>(sums.size());
    const double value = sums[bin] / cycles * scale;
    if (value == last) continue;
    file.writer().set_counter(on, file.nanoseconds(total * bin / sums.size()), value);
    last = value;
  }
  file.writer().set_counter(on, file.nanoseconds(total), 0);
}

/// Gigabytes a second of a byte a cycle.
double gigabytes_per_s(const RunRecord& record) { return record.params.clock_mhz * 1e6 / 1e9; }

/// From the begin of each op, what the HBM holds while it runs.
void write_hbm_in_use(PerfettoFile& file, const RunRecord& record, const CoreEvents& events,
                      TrackId on) {
  const std::vector<std::uint64_t> in_use = hbm_in_use(record);
  std::uint64_t last = ~std::uint64_t{0};
  for (const OpEvent* op : events.ops) {
    if (in_use[op->op] == last) continue;
    last = in_use[op->op];
    file.writer().set_counter(on, file.nanoseconds(op->begin), static_cast<double>(last));
  }
}

/// From the begin of each op, the VMEM that its compiler gave it.
void write_vmem_in_use(PerfettoFile& file, const RunRecord& record, const CoreEvents& events,
                       std::uint32_t rank) {
  const auto is_known = [](const isa::OpInfo& op) { return op.vmem_bytes > 0; };
  if (std::none_of(record.ops.begin(), record.ops.end(), is_known)) return;
  const TrackId on =
      file.writer().add_counter("VMEM in use of core " + std::to_string(events.number),
                                file.core(events.number), rank, "bytes");
  std::uint64_t last = ~std::uint64_t{0};
  const auto set = [&](std::uint64_t cycle, std::uint64_t bytes) {
    if (bytes == last) return;
    file.writer().set_counter(on, file.nanoseconds(cycle), static_cast<double>(bytes));
    last = bytes;
  };
  std::uint64_t end = 0;
  for (const OpEvent* op : events.ops) {
    if (op->begin < end) continue;
    if (op->begin > end) set(end, 0);
    set(op->begin, record.ops[op->op].vmem_bytes);
    end = op->end;
  }
  set(end, 0);
}

/// A slice for each stage, as long as the steps that count.
void write_stages(PerfettoFile& file, const RunRecord& record, TrackId group) {
  std::uint64_t begin = record.result.cycles, end = 0;
  for (const CoreResult& core : record.result.cores) {
    if (core.steps.empty()) continue;
    begin = std::min(begin, core.steps.front().begin);
    end = std::max(end, core.steps.back().end);
  }
  if (end <= begin) return;
  std::uint32_t rank = 1;
  for (const HostStage& stage : host_stages(record)) {
    const TrackId on = file.writer().add_track("host: " + stage.name, group, rank++);
    file.writer().begin_slice(on, file.nanoseconds(begin), stage.name, "host",
                              {{"busy", stage.utilization()},
                               {"capacity_examples_per_s", stage.capacity},
                               {"examples_per_s", stage.examples_per_s}},
                              {});
    file.writer().end_slice(on, file.nanoseconds(end));
  }
}

}  // namespace

void write_core_counters(PerfettoFile& file, const RunRecord& record, const CoreEvents& events,
                         std::uint32_t rank) {
  const std::string of_core = " of core " + std::to_string(events.number);
  const TrackId group = file.core(events.number);
  const std::size_t bins = counter_bins(record);
  const TrackId hbm = file.writer().add_counter("HBM GB/s" + of_core, group, rank, "GB/s");
  write_rate(file, record, hbm, hbm_bytes(record, events, bins), gigabytes_per_s(record));
  std::vector<Quantity> pushes;
  const MxuParams& params = record.params.core.mxu;
  for (const OpEvent* op : events.ops) {
    pushes.push_back(
        {op->begin, op->end,
         static_cast<double>(op->matmul_pushes) * params.push_interval_cycles / params.blocks()});
  }
  const TrackId mxu = file.writer().add_counter("MXU %" + of_core, group, rank + 1, "%");
  write_rate(file, record, mxu, binned(pushes, record.result.cycles, bins), 100);
  write_vmem_in_use(file, record, events, rank + 3);
  if (record.buffers.empty()) return;
  const TrackId in_use =
      file.writer().add_counter("HBM in use" + of_core, group, rank + 2, "bytes");
  write_hbm_in_use(file, record, events, in_use);
}

void write_hbm_channels(PerfettoFile& file, const RunRecord& record) {
  std::map<std::uint32_t, TrackId> groups;
  for (const PartAccount& part : record.result.parts) {
    if (part.moved.empty()) continue;
    TrackId& group = groups[part.core];
    if (group == 0) {
      group = file.writer().add_track("HBM channels", file.core(part.core), kLastRank);
    }
    const TrackId on = file.writer().add_counter(
        "HBM channel " + std::to_string(part.channel) + " of core " + std::to_string(part.core),
        group, part.channel, "GB/s");
    double last = -1;
    const auto set = [&](std::uint64_t cycle, double value) {
      if (value == last) return;
      file.writer().set_counter(on, file.nanoseconds(cycle), value);
      last = value;
    };
    for (std::size_t i = 0; i < part.moved.size(); ++i) {
      const auto& [begin, bytes] = part.moved[i];
      const bool is_last = i + 1 == part.moved.size();
      const std::uint64_t end = is_last ? record.result.cycles : part.moved[i + 1].begin_cycle;
      if (end <= begin) continue;
      set(begin,
          static_cast<double>(bytes) / static_cast<double>(end - begin) * gigabytes_per_s(record));
    }
    set(record.result.cycles, 0);
  }
}

void write_link_counters(PerfettoFile& file, const RunRecord& record) {
  TrackId group = 0;
  std::uint32_t rank = 0;
  for (const LinkLoad& link : link_loads(record)) {
    if (link.bytes == 0) continue;
    if (group == 0) group = file.writer().add_group("ICI links", record.params.topology().chips());
    const TrackId on = file.writer().add_counter(
        "ICI GB/s from chip " + std::to_string(link.from_chip) + " " +
            direction_name(link.direction) + " to chip " + std::to_string(link.to_chip),
        group, rank++, "GB/s");
    write_rate(file, record, on, link_bytes(record, link, counter_bins(record)),
               gigabytes_per_s(record));
  }
}

void write_host(PerfettoFile& file, const RunRecord& record) {
  std::vector<Quantity> moved;
  for (const DmaEvent& dma : record.events.dmas) {
    if (is_of_host(dma)) moved.push_back({dma.begin, dma.end, static_cast<double>(dma.bytes)});
  }
  if (moved.empty()) return;
  const TrackId group = file.writer().add_group("host", record.params.topology().chips() + 1);
  const TrackId rate =
      file.writer().add_counter("infeed and outfeed GB/s of all cores", group, 0, "GB/s");
  write_rate(file, record, rate, binned(moved, record.result.cycles, counter_bins(record)),
             gigabytes_per_s(record));
  write_stages(file, record, group);
}

}  // namespace tpu::traces
