#include "traces/xplane_host.h"

#include <algorithm>
#include <string>
#include <utility>

#include "models/host/loader.h"
#include "models/host/part_names.h"
#include "traces/host_stages.h"

namespace tpu::traces {
namespace {

/// What a stage is to XProf. It takes the ending for what is read and `Prefetch` for ahead of time.
constexpr const char* kBatch = "Iterator::Prefetch::BatchV2";
constexpr const char* kDecode = "Iterator::Prefetch::BatchV2::ParallelMapV2";
constexpr const char* kAugment = "Iterator::Prefetch::BatchV2::ParallelMapV2::ParallelMapV2";
constexpr const char* kRead = "Iterator::Prefetch::BatchV2::ParallelMapV2::ParallelMapV2::TFRecord";
constexpr const char* kStatedRate = "Iterator::Prefetch::Generator";
constexpr const char* kNetwork = "infeed/send:Send";
constexpr const char* kEnqueue = "infeed/enqueue:InfeedEnqueueTuple";

/// Events of a stage follow each other, each with its share of a step.
using Shares = std::vector<std::pair<const char*, double>>;

/// The share of its time in which a part was busy; 0 where the run has no account of it.
double busy_share(const RunRecord& record, const std::string& part) {
  const std::vector<PartAccount>& parts = record.result.parts;
  const auto found = std::find_if(parts.begin(), parts.end(),
                                  [&](const PartAccount& each) { return each.part == part; });
  if (found == parts.end()) return 0;
  std::uint64_t busy = 0, all = 0;
  for (const auto& [activity, cycles] : found->cycles) {
    all += cycles;
    if (activity == "busy") busy += cycles;
  }
  return all > 0 ? static_cast<double>(busy) / static_cast<double>(all) : 0;
}

/// Decoding (or loading) and augmenting take the same threads, each as long as it costs.
Shares thread_shares(const RunRecord& record, double busy) {
  if (record.examples_per_core == 0) return {};
  const std::uint64_t bytes =
      record.infeed_host_bytes > 0 ? record.infeed_host_bytes : record.infeed_bytes;
  const ThreadWork work = thread_work(record.params, bytes / record.examples_per_core);
  if (work.seconds() <= 0) return {};
  const double augment = work.augment / work.seconds();
  return {{kDecode, busy * (1 - augment)}, {kAugment, busy * augment}};
}

void write_stage(XPlane& plane, const std::string& line, const Shares& shares,
                 const std::vector<XPlaneStep>& steps) {
  plane.begin_line(line);
  for (std::size_t step = 0; step < steps.size(); ++step) {
    const auto length = static_cast<double>(steps[step].end - steps[step].begin);
    std::uint64_t begin = steps[step].begin;
    for (const auto& [name, share] : shares) {
      if (share <= 0) continue;
      const auto duration = static_cast<std::uint64_t>(length * std::min(1.0, share));
      plane.add_event(
          plane.kind(name), begin, duration,
          {{"group_id", static_cast<std::int64_t>(step)}, {"busy_percent", 100 * share}});
      begin += duration;
    }
  }
}

}  // namespace

void write_host_stages(XPlane& plane, const RunRecord& record, std::uint32_t host,
                       const std::vector<XPlaneStep>& steps) {
  if (record.infeed_bytes == 0) return;
  const std::string name = host_name(host);
  const auto busy = [&](const std::string& part) { return busy_share(record, part); };
  write_stage(plane, storage_name(name), {{kRead, busy(storage_name(name))}}, steps);
  write_stage(plane, threads_name(name), thread_shares(record, busy(threads_name(name))), steps);
  write_stage(plane, copies_name(name), {{kBatch, busy(copies_name(name))}}, steps);
  if (record.params.host.examples_per_s > 0) {
    const std::vector<HostStage> stages = host_stages(record);
    if (!stages.empty()) {
      write_stage(plane, stages[0].name, {{kStatedRate, stages[0].utilization()}}, steps);
    }
  }
  write_stage(plane, network_name(name), {{kNetwork, busy(network_name(name))}}, steps);
  for (std::size_t chip = 0; chip < record.params.host.chips; ++chip) {
    const std::string down = pcie_down_name(name, chip);
    write_stage(plane, down, {{kEnqueue, busy(down)}}, steps);
  }
}

}  // namespace tpu::traces
