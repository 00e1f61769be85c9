#include "sim/app/export_run.h"

#include <filesystem>
#include <functional>
#include <iostream>

#include "sim/app/file_roles.h"
#include "sim/base/error.h"
#include "sim/report/summary.h"
#include "traces/chrome_trace.h"
#include "traces/csv.h"
#include "traces/perfetto.h"
#include "traces/run_file.h"
#include "traces/vcd.h"
#include "traces/xplane.h"

namespace tpu::app {
namespace {

void write_xplane(const traces::RunRecord& record, const Arguments& arguments) {
  const report::Utilization used = report::summarize(record).utilization;
  const traces::XPlaneFigures figures{100 * used.mxu, 100 * used.hbm};
  for (const std::string& note :
       traces::export_xplane(record, figures, arguments.max_events, arguments.output)) {
    std::cout << note << "\n";
  }
}

}  // namespace

const std::vector<std::string>& export_formats() {
  static const std::vector<std::string> kFormats{"perfetto", "xplane", "chrome",
                                                 "csv",      "vcd",    "konata"};
  return kFormats;
}

bool exports_folder(const Arguments& arguments) {
  const bool one_file = std::filesystem::path(arguments.output).extension() == ".pb";
  return arguments.format == "csv" || (arguments.format == "xplane" && !one_file);
}

ExitCode export_run(const Arguments& arguments) {
  if (arguments.format == "konata") {
    throw UsageError(
        "--format konata: a results file has no bundles; tpusim run WORKLOAD --format konata "
        "--window A:B -o FILE writes them");
  }
  check_files(arguments, {});
  const traces::RunRecord record = traces::read_run_file(arguments.input);
  const std::string& to = arguments.output;
  if (arguments.format == "perfetto") traces::export_perfetto(record, to);
  if (arguments.format == "xplane") write_xplane(record, arguments);
  if (arguments.format == "chrome") traces::export_chrome(record, to);
  if (arguments.format == "csv") traces::export_csv(traces::run_contents(record), to);
  if (arguments.format == "vcd") {
    traces::export_vcd(record, {arguments.window.first, arguments.window.second}, to);
  }
  return ExitCode::kDone;
}

}  // namespace tpu::app
