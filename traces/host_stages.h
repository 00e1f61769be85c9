#pragma once

#include <string>
#include <vector>

#include "traces/hdf5_file.h"
#include "traces/run_record.h"

namespace tpu::traces {

/// A stage of a host's input pipeline in the steps that count.
struct HostStage {
  std::string name;
  double capacity = 0;        ///< Examples a second that it lets through at most.
  double examples_per_s = 0;  ///< That the chips of one host took.
  double utilization() const { return capacity > 0 ? examples_per_s / capacity : 0; }
};

/// The stages of one host, in order: those of the input pipeline where the configuration describes
/// it, the way to the chips last. Empty for a program without infeed.
std::vector<HostStage> host_stages(const RunRecord& record);

Table host_stages_table(const std::vector<HostStage>& stages);

}  // namespace tpu::traces
