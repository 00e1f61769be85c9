#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "traces/run_record.h"
#include "traces/xplane_writer.h"

namespace tpu::traces {

/// A step of a profile in picoseconds since its beginning.
struct XPlaneStep {
  std::uint64_t begin = 0, end = 0;
};

/// Adds the input pipeline of a host to its plane: a line for each stage (storage, threads, copies,
/// network, PCIe to each chip), in it for each step an event as long as the stage's share of busy
/// time. The shares are those of the run's accounts over the steps that count, so every step shows
/// the mean; of threads side by side that of all of them. Names are TensorFlow's, by which XProf's
/// input_pipeline_analyzer tells reading, preprocessing and enqueueing apart. Nothing without
/// infeed.
void write_host_stages(XPlane& plane, const RunRecord& record, std::uint32_t host,
                       const std::vector<XPlaneStep>& steps);

}  // namespace tpu::traces
