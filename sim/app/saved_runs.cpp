#include "sim/app/saved_runs.h"

#include <iostream>
#include <vector>

#include "sim/app/file_roles.h"
#include "sim/app/what_if.h"
#include "sim/base/output_file.h"
#include "sim/report/html_report.h"
#include "sim/report/monitoring_text.h"
#include "traces/run_file.h"

namespace tpu::app {

ExitCode report_runs(const Arguments& arguments) {
  check_files(arguments, {});
  std::vector<traces::RunRecord> records{traces::read_run_file(arguments.input)};
  for (const std::string& path : arguments.more_inputs) {
    records.push_back(traces::read_run_file(path));
  }
  if (arguments.what_if) {
    for (std::size_t i = 0; i < records.size(); ++i) {
      ask_what_if(i == 0 ? arguments.input : arguments.more_inputs[i - 1], arguments, records[i]);
    }
  }
  std::vector<report::Summary> summaries;
  summaries.reserve(records.size());
  for (const traces::RunRecord& record : records) summaries.push_back(report::summarize(record));
  OutputFile file(arguments.output);
  file.write(report::html_report(records, summaries));
  file.commit();
  return ExitCode::kDone;
}

ExitCode profile_run(const Arguments& arguments) {
  const traces::RunRecord record = traces::read_run_file(arguments.input);
  std::cout << report::profile_text(record, report::summarize(record), arguments.level);
  return ExitCode::kDone;
}

ExitCode print_metrics(const Arguments& arguments) {
  std::cout << report::metrics_text(traces::read_run_file(arguments.input));
  return ExitCode::kDone;
}

}  // namespace tpu::app
