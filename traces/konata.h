#pragma once

#include <string>
#include <vector>

#include "isa/program.h"
#include "traces/bundle_recorder.h"

namespace tpu::traces {

/// Writes the bundles of a window of a run as a Kanata log (version 0004) for Konata: a line for
/// each bundle, the core as its thread; in lane 0 the wait before it, by its reason, issue (I) and
/// delay (D), in lane 1 the time until its last result (R). At its left the code, as its hint the
/// op, scope and source line. Cycles count from the first bundle, so two runs lie one over the
/// other. Throws WorkloadError where no bundle issued in the window.
void export_konata(const BundleLog& bundles, const std::vector<isa::OpInfo>& ops,
                   const std::string& path);

}  // namespace tpu::traces
