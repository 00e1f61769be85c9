#include "traces/host_stages.h"

#include <algorithm>
#include <map>

#include "models/host/loader.h"
#include "models/slow_parts.h"
#include "traces/program_tables.h"

namespace tpu::traces {
namespace {

/// Examples a second that the chips of the host with the most cores took.
double taken_per_s(const RunRecord& record) {
  std::map<std::uint32_t, std::uint64_t> cores_of_host;
  std::uint64_t cycles = 0;
  std::size_t steps = 0, most = 0;
  for (const CoreResult& core : record.result.cores) {
    most = std::max<std::size_t>(most, ++cores_of_host[core.chip / record.params.host.chips]);
    cycles = std::max(cycles, core.total.core.total());
    steps = std::max(steps, core.steps.size());
  }
  const double seconds = record.params.seconds(cycles);
  const double examples = static_cast<double>(record.examples_per_core * most * steps);
  return seconds > 0 ? examples / seconds : 0;
}

}  // namespace

std::vector<HostStage> host_stages(const RunRecord& record) {
  if (record.infeed_bytes == 0 || record.examples_per_core == 0 || record.params.host.chips == 0) {
    return {};
  }
  const std::uint64_t on_host =
      record.infeed_host_bytes > 0 ? record.infeed_host_bytes : record.infeed_bytes;
  const double bytes = static_cast<double>(on_host) / static_cast<double>(record.examples_per_core);
  const double taken = taken_per_s(record);
  const std::size_t a_host = std::size_t{record.params.host.chips} * record.params.cores_per_chip;
  const std::uint64_t examples =
      record.examples_per_core * std::min(a_host, record.core_numbers.size());
  const std::uint64_t example_bytes = on_host / record.examples_per_core;
  // Of hosts that differ the slowest: all chips wait for it.
  const MachineParams params =
      as_host(record.params, slowest_host(record.params, example_bytes, examples));
  const HostParams& host = params.host;
  std::vector<HostStage> stages;
  if (host.examples_per_s > 0) {
    stages.push_back({"stated rate", host.examples_per_s, taken});
  } else {
    for (const LoaderStage& stage : loader_stages(params, example_bytes, examples)) {
      stages.push_back({stage.name, stage.examples_per_s, taken});
    }
  }
  if (stages.empty() || host.examples_per_s > 0) {
    stages.push_back({"PCIe", host.chips * host.pcie_gb_per_s * 1e9 / bytes, taken});
  }
  return stages;
}

Table host_stages_table(const std::vector<HostStage>& stages) {
  Table table;
  table.add("stage", column_of<std::string>(stages, [](auto& s) { return s.name; }))
      .add("capacity_examples_per_s", column_of<double>(stages, [](auto& s) { return s.capacity; }))
      .add("examples_per_s", column_of<double>(stages, [](auto& s) { return s.examples_per_s; }))
      .add("utilization", column_of<double>(stages, [](auto& s) { return s.utilization(); }));
  return table;
}

}  // namespace tpu::traces
