#include "sim/app/what_if.h"

#include <algorithm>
#include <utility>

#include "sim/app/file_roles.h"
#include "sim/app/workload_digest.h"
#include "sim/app/workload_source.h"
#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"
#include "sim/report/summary.h"
#include "workloads/frontend/zoo.h"

namespace tpu::app {
namespace {

/// "Free" is the end of a parameter's range: a rate that nothing reaches, a latency of 0.
const std::vector<std::string> kHbmFree{"hbm.pin_mbps=1000000", "hbm.latency_cycles=0",
                                        "hbm.refresh_interval_ns=0"};
const std::vector<std::string> kInfeedFree{"host.examples_per_s=0", "host.pcie_gb_per_s=1000000",
                                           "host.pcie_latency_ns=0", "host.hand_over_us=0",
                                           "host.hand_over_mb_per_s=0"};
const std::vector<std::string> kIciFree{"ici.link_mbps=1000000000", "ici.hop_latency_ns=0",
                                        "ici.local_latency_ns=0", "ici.slow_links="};
constexpr std::uint32_t kMostMxus = 4;  // The instruction set names mxu0 to mxu3.
constexpr std::uint64_t kLanes = 128;   // Of a vector register and of an MXU's rows.

std::vector<std::string> together(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Whether a workload of the zoo has an option.
bool has_option(const std::string& workload, std::string_view option) {
  for (const frontend::WorkloadInfo& info : frontend::workload_list()) {
    if (info.name != workload) continue;
    return std::find(info.options.begin(), info.options.end(), option) != info.options.end();
  }
  return false;
}

/// The batch that fills the lanes: where the examples of a core lie along them, padding costs as
/// much as examples do.
void ask_for_full_lanes(const Arguments& arguments, const traces::RunRecord& record,
                        std::vector<WhatIfQuestion>& questions) {
  const std::uint64_t a_core = record.examples_per_core;
  if (!has_option(arguments.input, "batch") || a_core == 0 || a_core % kLanes == 0) return;
  const std::uint64_t full = round_up(a_core, kLanes);
  questions.push_back({"batch " + std::to_string(full) + " a core",
                       {},
                       static_cast<std::int64_t>(full * record.core_numbers.size())});
}

/// Layers as wide as their padding. Where nothing is padded there is nothing to ask.
void ask_for_no_padding(const Arguments& arguments, const traces::RunRecord& record,
                        std::vector<WhatIfQuestion>& questions) {
  const auto is_padded = [](const isa::OpInfo& op) {
    return op.padded_matmul_flops > op.matmul_flops;
  };
  const bool padded = std::any_of(record.ops.begin(), record.ops.end(), is_padded);
  WhatIfQuestion question;
  question.name = "no padding";
  if (has_option(arguments.input, "feature_multiple")) {
    if (!padded || arguments.workload.feature_multiple) return;
    question.feature_multiple = kLanes;
  } else {
    question.problem =
        "the shapes of this program are fixed; its report has the padding of each "
        "operation";
  }
  questions.push_back(question);
}

/// Twice the MXUs of a program with a module, which our compiler can compile for them.
void ask_for_more_mxus(const Arguments& arguments, const traces::RunRecord& record,
                       std::vector<WhatIfQuestion>& questions) {
  const std::uint32_t mxus = 2 * record.params.core.mxu.count;
  WhatIfQuestion question;
  question.name = "twice the MXUs";
  if (is_hdf5(arguments.input)) {
    question.problem =
        "the bundles of this program say which MXU does what; compiled anew they would be others";
  } else if (mxus > kMostMxus) {
    return;
  } else {
    question.settings = {"core.mxu.count=" + std::to_string(mxus)};
    question.compiles_anew = record.compiler.compare(0, 6, "tpusim") != 0;
  }
  questions.push_back(question);
}

/// A run and its mean step; nothing of what happens between steps.
std::pair<traces::RunRecord, report::Summary> simulated_again(const Arguments& arguments,
                                                              const std::string& config_name,
                                                              ProgramCache& programs) {
  const config::Configuration configuration = effective_configuration(arguments, config_name);
  const PreparedWorkload& workload = programs.prepare(arguments, configuration.params);
  traces::RunRecord record = simulate(arguments, configuration, config_name, workload).record;
  report::Summary summary = report::summarize(record);
  return {std::move(record), std::move(summary)};
}

traces::WhatIf answer(const Arguments& arguments, const std::string& config_name,
                      const WhatIfQuestion& question, ProgramCache& programs) {
  Arguments changed = arguments;
  if (question.compiles_anew) changed.compiler = "tpusim";
  const Arguments as_it_is = changed;
  changed.settings = together(arguments.settings, question.settings);
  if (question.batch) changed.batch = question.batch;
  if (question.feature_multiple) changed.workload.feature_multiple = question.feature_multiple;
  traces::WhatIf result;
  result.name = question.name;
  result.problem = question.problem;
  if (!result.problem.empty()) return result;
  for (const std::string& setting : question.settings) {
    result.settings += (result.settings.empty() ? "--set " : " --set ") + setting;
  }
  if (question.batch) result.settings = "--batch " + std::to_string(*question.batch);
  if (question.feature_multiple) {
    result.settings = "--feature-multiple " + std::to_string(*question.feature_multiple);
  }
  if (question.compiles_anew) result.settings = "--compiler tpusim " + result.settings;
  try {
    if (question.compiles_anew) {
      result.as_it_is_ms = simulated_again(as_it_is, config_name, programs).second.step_mean_ms;
    }
    const auto [record, summary] = simulated_again(changed, config_name, programs);
    result.model_flops = record.model_flops;
    result.step_ms = summary.step_mean_ms;
    result.examples_per_s = summary.examples_per_s;
  } catch (const UserError& error) {  // It does not fit, or its program ends in a fault.
    const std::string text = error.what();
    result.problem = text.substr(0, text.find('\n'));
  }
  return result;
}

/// The arguments that made a run, for its time alone.
Arguments arguments_of(const std::string& path, const traces::RunRecord& record) {
  std::optional<Arguments> again;
  if (!record.command.empty() && record.command[0] == "run") {
    try {
      again = parse_arguments(record.command);
    } catch (const UsageError& error) {
      throw WorkloadError(path + ": --what-if: its command line: " + error.what());
    }
  }
  if (!again) {
    throw WorkloadError(path + ": --what-if: expected the command line of a run, found none");
  }
  again->values = false;
  again->check.clear();
  again->outputs.clear();
  return *again;
}

}  // namespace

std::vector<WhatIfQuestion> what_if_questions(const Arguments& arguments,
                                              const traces::RunRecord& record) {
  std::vector<WhatIfQuestion> questions{{"HBM free", kHbmFree, {}}};
  if (record.infeed_bytes > 0) {
    questions.push_back({"infeed free", kInfeedFree, {}});
    questions.push_back({"HBM and infeed free", together(kHbmFree, kInfeedFree), {}});
  }
  if (record.core_numbers.size() > 1) questions.push_back({"ICI free", kIciFree, {}});
  ask_for_more_mxus(arguments, record, questions);
  ask_for_no_padding(arguments, record, questions);
  ask_for_full_lanes(arguments, record, questions);
  return questions;
}

std::vector<traces::WhatIf> what_if(const Arguments& arguments, const std::string& config_name,
                                    const traces::RunRecord& record, ProgramCache& programs) {
  std::vector<traces::WhatIf> results;
  Arguments times_alone = arguments;
  times_alone.output.clear();
  for (const WhatIfQuestion& question : what_if_questions(arguments, record)) {
    results.push_back(answer(times_alone, config_name, question, programs));
  }
  return results;
}

void ask_what_if(const std::string& path, const Arguments& arguments, traces::RunRecord& record) {
  if (!record.what_if.empty()) return;
  Arguments again = arguments_of(path, record);
  const std::string& config_name = again.configs[0];
  const config::Configuration configuration = effective_configuration(again, config_name);
  again.output = arguments.output;
  check_files(again, {configuration});
  again.output.clear();
  const auto expect = [&](bool same, const std::string& what) {
    if (same) return;
    throw WorkloadError(path + ": --what-if: expected the run of " + record.workload + " on " +
                        record.config + " as it was made, found another " + what +
                        "; make the file again");
  };
  expect(traces::configuration_sha256(configuration.params) ==
             traces::configuration_sha256(record.params),
         "configuration");
  expect(workload_sha256(again) == record.workload_sha256, "workload");
  ProgramCache programs(kWhatIfPrograms);
  const report::Summary repeated = simulated_again(again, config_name, programs).second;
  expect(repeated.step_mean_ms == report::summarize(record).step_mean_ms,
         "time of the step: another build of tpusim made it");
  record.what_if = what_if(again, config_name, record, programs);
}

}  // namespace tpu::app
