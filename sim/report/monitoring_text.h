#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/report/summary.h"

namespace tpu::report {

/// What `capture_tpu_profile --monitoring_level=1` or 2 prints of a TPU, of a run. The time of day
/// is that of the chip: the run began at 00:00:00.
std::string profile_text(const traces::RunRecord& record, const Summary& summary, int level);

/// What PyTorch/XLA's metrics report prints, from the run's steps and DMAs: ExecuteTime (a sample
/// for each step and core), TransferToServerTime (infeed), TransferFromServerTime (outfeed). The
/// program is compiled once and found again for every other step.
std::string metrics_text(const traces::RunRecord& record);

/// A time as that report writes it: "06m09s401ms746.001us"; leading parts of zero are left out.
std::string metric_time(double nanoseconds);

/// Waits for the infeed over the step, of each core and step, in percent; from the events where
/// there are any, else each step has the run's share.
std::vector<double> infeed_percentages(const traces::RunRecord& record, const Summary& summary);

}  // namespace tpu::report
