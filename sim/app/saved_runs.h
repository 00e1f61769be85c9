#pragma once

#include "sim/app/arguments.h"
#include "sim/base/error.h"

namespace tpu::app {

/// `tpusim report RUN.h5...`: a page for a browser.
ExitCode report_runs(const Arguments& arguments);
/// `tpusim profile RUN.h5`: the text of capture_tpu_profile.
ExitCode profile_run(const Arguments& arguments);
/// `tpusim metrics RUN.h5`: the text of PyTorch/XLA's metrics report.
ExitCode print_metrics(const Arguments& arguments);

}  // namespace tpu::app
