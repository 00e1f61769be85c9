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
namespace {

/// The table of what-ifs; where the run cannot be made again the page says why, unless the table
/// was asked for.
void ask(const std::string& path, const Arguments& arguments, traces::RunRecord& record) {
  const auto say = [&](const std::string& why) {
    if (!arguments.what_if) record.result.notes.push_back(why.substr(0, why.find('\n')));
    return !arguments.what_if;
  };
  try {
    ask_what_if(path, arguments, record);
  } catch (const WorkloadError& error) {
    if (!say(error.what())) throw;
  } catch (const ConfigurationError& error) {
    if (!say(error.what())) throw;
  }
}

}  // namespace

ExitCode report_runs(const Arguments& arguments) {
  check_files(arguments, {});
  std::vector<traces::RunRecord> records{traces::read_run_file(arguments.input)};
  for (const std::string& path : arguments.more_inputs) {
    records.push_back(traces::read_run_file(path));
  }
  for (std::size_t i = 0; i < records.size() && !arguments.no_what_if; ++i) {
    ask(i == 0 ? arguments.input : arguments.more_inputs[i - 1], arguments, records[i]);
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
