#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "traces/run_record.h"

namespace tpu::traces {

/// Shares of a run that XProf shows as it is told, in percent.
struct XPlaneFigures {
  double matrix_unit_percent = 0;
  double hbm_percent = 0;
};

/// Writes a run as XSpaces for XProf and TensorBoard: a plane for each core, the program, and the
/// figures of the host. A name that ends in .pb is one file; another is a log folder, in which each
/// host has its file, `plugins/profile/tpusim/HOST.xplane.pb`, and what XProf has derived from an
/// earlier one goes.
///
/// At most `most_events` events of ops, in whole steps; DMAs and waits take what these leave. The
/// result says what was left out.
std::vector<std::string> export_xplane(const RunRecord& record, const XPlaneFigures& figures,
                                       std::size_t most_events, const std::string& path);

}  // namespace tpu::traces
