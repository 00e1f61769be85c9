#include "sim/app/what_if.h"

#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>
#include <utility>

#include "sim/app/child_process.h"
#include "sim/app/file_roles.h"
#include "sim/app/progress_bar.h"
#include "sim/app/workload_digest.h"
#include "sim/app/workload_source.h"
#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"
#include "sim/report/summary.h"
#include "workloads/compiler/kept_schedules.h"
#include "workloads/frontend/zoo.h"

namespace tpu::app {
namespace {

/// "Free" is the end of a parameter's range: a rate that nothing reaches, a latency of 0.
const std::vector<std::string> kHbmFree{"hbm.pin_mbps=1000000", "hbm.latency_cycles=0",
                                        "hbm.refresh_interval_ns=0"};
const std::vector<std::string> kInfeedFree{
    "host.examples_per_s=0", "host.pcie_gb_per_s=1000000", "host.pcie_latency_ns=0",
    "host.hand_over_us=0",   "host.hand_over_mb_per_s=0",  "slow_hosts="};
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

/// Whether our compiler made a program.
bool is_ours(const traces::RunRecord& record) {
  return record.compiler.compare(0, 6, "tpusim") == 0;
}

/// Layers as wide as their padding, or products of a module. Where nothing is padded there is
/// nothing to ask; of XLA's bundles nobody says what is.
void ask_for_no_padding(const Arguments& arguments, const traces::RunRecord& record,
                        std::vector<WhatIfQuestion>& questions) {
  const auto is_padded = [](const isa::OpInfo& op) {
    return op.padded_matmul_flops > op.matmul_flops;
  };
  WhatIfQuestion question;
  question.name = "no padding";
  question.compiles_anew = !is_ours(record);
  const bool padded =
      question.compiles_anew || std::any_of(record.ops.begin(), record.ops.end(), is_padded);
  if (!padded || arguments.workload.feature_multiple) return;
  if (is_hdf5(arguments.input)) {
    question.compiles_anew = false;
    question.problem = "the shapes of a compiled program are fixed";
  } else if (frontend::is_workload(arguments.input) &&
             !has_option(arguments.input, "feature_multiple")) {
    question.problem =
        "the shapes of this workload are fixed; its report has the padding of each operation";
  } else {
    question.feature_multiple = kLanes;
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
    question.compiles_anew = !is_ours(record);
  }
  questions.push_back(question);
}

/// A run again; nothing of what happens between steps.
struct Again {
  double step_ms = 0, examples_per_s = 0;
  std::uint64_t model_flops = 0;
  bool keeps_padding = false;
};

Again simulated_again(const Arguments& arguments, const std::string& config_name,
                      ProgramCache& programs) {
  const config::Configuration configuration = effective_configuration(arguments, config_name);
  const PreparedWorkload& workload = programs.prepare(arguments, configuration.params);
  const traces::RunRecord record =
      simulate(arguments, configuration, config_name, workload, true).record;
  const report::Summary summary = report::summarize(record);
  return {summary.step_mean_ms, summary.examples_per_s, record.model_flops, workload.keeps_padding};
}

/// The command line with what a question changes.
Arguments changed_by(const WhatIfQuestion& question, const Arguments& arguments) {
  Arguments changed = arguments;
  if (question.compiles_anew) changed.compiler = "tpusim";
  changed.settings = together(arguments.settings, question.settings);
  if (question.batch) changed.set_batch(*question.batch);
  if (question.feature_multiple) changed.workload.feature_multiple = question.feature_multiple;
  return changed;
}

/// What is changed, as flags; nothing is simulated yet.
traces::WhatIf unanswered(const WhatIfQuestion& question) {
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
  return result;
}

/// A question, and the run with it.
struct Variant {
  WhatIfQuestion question;
  traces::WhatIf result;
  std::string program;             ///< ProgramCache::key().
  std::uint64_t flops_of_run = 0;  ///< RunRecord::model_flops.
};

void simulate_variant(const Arguments& arguments, const std::string& config_name,
                      ProgramCache& programs, Variant& variant) {
  traces::WhatIf& result = variant.result;
  try {
    double flops = 1;  // Of the run, for one of the program compiled anew: both count differently.
    if (variant.question.compiles_anew) {
      Arguments as_it_is = arguments;
      as_it_is.compiler = "tpusim";
      const Again before = simulated_again(as_it_is, config_name, programs);
      result.as_it_is_ms = before.step_ms;
      if (before.model_flops > 0) {
        flops = static_cast<double>(variant.flops_of_run) / static_cast<double>(before.model_flops);
      }
    }
    const Again again =
        simulated_again(changed_by(variant.question, arguments), config_name, programs);
    if (again.keeps_padding) result.name = "less padding";
    result.model_flops = static_cast<std::uint64_t>(static_cast<double>(again.model_flops) * flops);
    result.step_ms = again.step_ms;
    result.examples_per_s = again.examples_per_s;
  } catch (const UserError& error) {  // It does not fit, or its program ends in a fault.
    const std::string text = error.what();
    result.problem = text.substr(0, text.find('\n'));
  }
}

/// What a process tells of a variant.
struct SharedAnswer {
  bool done = false, is_bug = false;
  double step_ms = 0, examples_per_s = 0, as_it_is_ms = 0;
  std::uint64_t model_flops = 0;
  char name[64] = "", problem[4096] = "";
};
constexpr std::size_t kMostVariants = 16;
using SharedAnswers = std::array<SharedAnswer, kMostVariants>;

void tell(const traces::WhatIf& result, SharedAnswer& answer) {
  answer.step_ms = result.step_ms;
  answer.examples_per_s = result.examples_per_s;
  answer.as_it_is_ms = result.as_it_is_ms;
  answer.model_flops = result.model_flops;
  result.name.copy(answer.name, sizeof(answer.name) - 1);
  result.problem.copy(answer.problem, sizeof(answer.problem) - 1);
  answer.done = true;
}

void hear(const SharedAnswer& answer, const std::string& end, traces::WhatIf& result) {
  if (answer.is_bug) throw SimulatorBug(answer.problem);
  result.step_ms = answer.step_ms;
  result.examples_per_s = answer.examples_per_s;
  result.as_it_is_ms = answer.as_it_is_ms;
  result.model_flops = answer.model_flops;
  if (answer.done) {
    result.name = answer.name;
    result.problem = answer.problem;
  } else {
    result.problem = "its process " + (end.empty() ? "ended without an answer" : end);
  }
}

using Group = std::vector<std::size_t>;  ///< Variants of one program.

/// Those that the program of the run is for come last: there is nothing to compile.
std::vector<Group> by_program(const std::vector<Variant>& variants, const std::string& of_run) {
  std::vector<Group> groups;
  Group as_it_is;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    if (!variants[i].result.problem.empty()) continue;
    if (variants[i].program == of_run) {
      as_it_is.push_back(i);
      continue;
    }
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const Group& group) {
      return variants[group[0]].program == variants[i].program;
    });
    if (same != groups.end()) {
      same->push_back(i);
    } else {
      groups.push_back({i});
    }
  }
  if (!as_it_is.empty()) groups.push_back(std::move(as_it_is));
  return groups;
}

/// Variants of different programs beside each other, each group in a process of its own that begins
/// with the programs of this one.
void simulate_beside(const Arguments& arguments, const std::string& config_name,
                     ProgramCache& programs, const std::vector<Group>& groups, std::uint32_t jobs,
                     std::vector<Variant>& variants) {
  const SharedMemory<SharedAnswers> memory;
  ProgressBar progress("what if");
  const auto work = [&](const Group& group) {
    for (const std::size_t i : group) {
      SharedAnswer& answer = (*memory)[i];
      try {
        simulate_variant(arguments, config_name, programs, variants[i]);
      } catch (const SimulatorBug& bug) {
        variants[i].result.problem = bug.what();
        answer.is_bug = true;
      }
      tell(variants[i].result, answer);
    }
  };
  std::vector<std::string> ends(groups.size());
  std::map<pid_t, std::size_t> at;  // The group that each process is at.
  const auto wait_for_one = [&] {
    int status = 0;
    const auto ended = at.find(::waitpid(-1, &status, 0));
    if (ended == at.end()) {
      if (errno == ECHILD) at.clear();  // Their ends go to nobody where SIGCHLD is ignored.
      return;
    }
    ends[ended->second] = end_text(status);
    at.erase(ended);
  };
  for (std::size_t i = 0; i < groups.size(); ++i) {
    while (at.size() >= jobs) wait_for_one();
    progress.update(static_cast<double>(i) / static_cast<double>(groups.size()));
    const pid_t child = start_process([&] { work(groups[i]); });
    if (child < 0) {
      work(groups[i]);
    } else {
      at[child] = i;
    }
  }
  while (!at.empty()) wait_for_one();
  for (std::size_t i = 0; i < groups.size(); ++i) {
    for (const std::size_t variant : groups[i]) {
      hear((*memory)[variant], ends[i], variants[variant].result);
    }
  }
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
                                    const traces::RunRecord& record, ProgramCache& programs,
                                    std::uint32_t jobs) {
  Arguments times_alone = arguments;
  times_alone.output.clear();
  const auto program = [&](const Arguments& run) {
    return ProgramCache::key(run, effective_configuration(run, config_name).params);
  };
  std::vector<Variant> variants;
  for (const WhatIfQuestion& question : what_if_questions(arguments, record)) {
    Variant variant{question, unanswered(question), "", record.model_flops};
    try {
      if (variant.result.problem.empty()) {
        variant.program = program(changed_by(question, times_alone));
      }
    } catch (const UserError& error) {
      variant.result.problem = error.what();
    }
    variants.push_back(std::move(variant));
  }
  TPU_CHECK(variants.size() <= kMostVariants, variants.size() << " what-ifs");
  const std::vector<Group> groups = by_program(variants, program(times_alone));
  if (jobs > 1 && groups.size() > 1) {
    simulate_beside(times_alone, config_name, programs, groups, jobs, variants);
  } else {
    for (const Group& group : groups) {
      for (const std::size_t i : group) {
        simulate_variant(times_alone, config_name, programs, variants[i]);
      }
    }
  }
  std::vector<traces::WhatIf> results;
  results.reserve(variants.size());
  for (Variant& variant : variants) results.push_back(std::move(variant.result));
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
  compiler::keep_schedules(true);
  ProgramCache programs(kWhatIfPrograms);
  expect(simulated_again(again, config_name, programs).step_ms ==
             report::summarize(record).step_mean_ms,
         "time of the step: another build of tpusim made it");
  record.what_if = what_if(again, config_name, record, programs, processors());
}

}  // namespace tpu::app
