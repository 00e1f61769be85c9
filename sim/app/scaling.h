#pragma once

#include <vector>

#include "sim/app/arguments.h"
#include "sim/report/scaling_report.h"

namespace tpu::app {

/// A workload on one machine after the other, on all of its cores: with the batch of a core of the
/// first machine, and with its whole batch. The batch of the first machine is --batch, or that of
/// the workload.
std::vector<report::ScalingPoint> scale(const Arguments& arguments);

}  // namespace tpu::app
