#include "sim/app/workload_source.h"

#include <sys/stat.h>

#include <algorithm>
#include <numeric>

#include "sim/app/cpu_time.h"
#include "sim/base/error.h"
#include "sim/config/compiler_target.h"
#include "sim/config/nearest_name.h"
#include "traces/hdf5_file.h"
#include "traces/program_file.h"
#include "workloads/hlo/hlo_reader.h"
#include "workloads/xla/captured_folder.h"

namespace tpu::app {
namespace {

std::vector<std::string> zoo_names() {
  std::vector<std::string> names;
  for (const frontend::WorkloadInfo& info : frontend::workload_list()) {
    names.emplace_back(info.name);
  }
  return names;
}

std::vector<std::uint32_t> core_numbers(const CoreChoice& choice, const MachineParams& params) {
  const std::uint64_t end = std::uint64_t{choice.first} + choice.count;
  if (end > params.cores()) {
    throw UsageError("--cores: " + params.name + " has " + std::to_string(params.cores()) +
                     " cores, 0 to " + std::to_string(params.cores() - 1) + "; found " +
                     (choice.first > 0 ? "core " + std::to_string(choice.first)
                                       : std::to_string(choice.count) + " cores"));
  }
  std::vector<std::uint32_t> cores(choice.count);
  std::iota(cores.begin(), cores.end(), choice.first);
  return cores;
}

void prepare_zoo(const Arguments& arguments, const MachineParams& params,
                 PreparedWorkload& prepared) {
  if (arguments.compiler == "xla") {
    throw UsageError("--compiler xla: " + arguments.input +
                     " is a workload of the zoo, which only tpusim compiles; capture it to run "
                     "XLA's program");
  }
  const CoreChoice choice = arguments.cores.value_or(CoreChoice{0, params.cores()});
  prepared.cores = core_numbers(choice, params);
  frontend::WorkloadOptions options = arguments.workload;
  options.replicas = choice.count;
  if (arguments.batch) {
    if (*arguments.batch % choice.count != 0) {
      throw UsageError("--batch: expected a multiple of the " + std::to_string(choice.count) +
                       " cores that share it, found " + std::to_string(*arguments.batch));
    }
    options.batch = *arguments.batch / choice.count;
  }
  prepared.frontend = frontend::build_workload(arguments.input, options);
  prepared.program = compiler::compile(
      prepared.frontend->module, config::target_of(params, choice.count), &prepared.compile_report);
}

/// A program whose batch and number of cores are fixed.
void check_fixed(const Arguments& arguments, const std::string& what) {
  if (arguments.batch) {
    throw UsageError("--batch: " + arguments.input + " is " + what +
                     " with a fixed batch; leave the option out");
  }
  if (!arguments.workload_flags.empty()) {
    throw UsageError(arguments.workload_flags[0] + ": " + arguments.input + " is " + what +
                     ", which is fixed; leave the option out");
  }
}

void choose_fixed_cores(const Arguments& arguments, const MachineParams& params,
                        PreparedWorkload& prepared) {
  const std::uint32_t span = prepared.program.cores;
  if (span == 0 || span > params.cores()) {
    throw WorkloadError(arguments.input + ": the program spans " + std::to_string(span) +
                        " cores, " + params.name + " has " + std::to_string(params.cores()));
  }
  const CoreChoice choice = arguments.cores.value_or(CoreChoice{0, span});
  if (choice.count != span) {
    throw UsageError("--cores: expected " + std::to_string(span) + ", the cores that " +
                     arguments.input + " was compiled for, found " + std::to_string(choice.count));
  }
  prepared.cores = core_numbers(choice, params);
}

/// Compiles a module in HLO text for the cores that it is replicated on.
void compile_hlo(const std::string& path, const Arguments& arguments, const MachineParams& params,
                 PreparedWorkload& prepared) {
  const hlo::Module module = hlo::read_hlo_file(path);
  const auto cores = static_cast<std::uint32_t>(std::min<std::int64_t>(
      std::max<std::int64_t>(module.replicas, 1), std::int64_t{params.cores()} + 1));
  prepared.program =
      compiler::compile(module, config::target_of(params, cores), &prepared.compile_report);
  choose_fixed_cores(arguments, params, prepared);
}

void prepare_hlo(const Arguments& arguments, const MachineParams& params,
                 PreparedWorkload& prepared) {
  check_fixed(arguments, "an HLO module");
  if (arguments.compiler == "xla") {
    throw UsageError("--compiler xla: " + arguments.input +
                     " is an HLO module, which only tpusim compiles; capture it to run XLA's "
                     "program");
  }
  compile_hlo(arguments.input, arguments, params, prepared);
}

void prepare_captured(const Arguments& arguments, const MachineParams& params,
                      PreparedWorkload& prepared) {
  check_fixed(arguments, "a captured program");
  prepared.folder = arguments.input;
  if (arguments.compiler == "tpusim") {
    const std::string before = xla::hlo_before_optimisation(arguments.input);
    if (before.empty()) {
      throw WorkloadError(
          arguments.input +
          ": --compiler tpusim compiles before.hlo.gz, which is not in this folder");
    }
    compile_hlo(before, arguments, params, prepared);
    return;
  }
  prepared.program = xla::load_captured(arguments.input, params.chip);
  choose_fixed_cores(arguments, params, prepared);
}

void prepare_program_file(const Arguments& arguments, const MachineParams& params,
                          PreparedWorkload& prepared) {
  check_fixed(arguments, "a compiled program");
  if (!arguments.compiler.empty()) {
    throw UsageError("--compiler: " + arguments.input +
                     " is a compiled program; leave the option out");
  }
  prepared.program = traces::read_program_file(arguments.input);
  if (prepared.program.chip != params.chip) {
    throw WorkloadError(arguments.input + ": expected a program for " + params.chip +
                        ", the chip of " + params.name + ", found one for " +
                        prepared.program.chip);
  }
  choose_fixed_cores(arguments, params, prepared);
}

}  // namespace

PreparedWorkload prepare_workload(const Arguments& arguments, const MachineParams& params) {
  const double begin = cpu_seconds();
  const std::string& name = arguments.input;
  PreparedWorkload prepared;
  struct stat status {};
  if (frontend::is_workload(name)) {
    prepare_zoo(arguments, params, prepared);
  } else if (::stat(name.c_str(), &status) != 0) {
    throw WorkloadError("no workload \"" + name + "\"" + config::suggestion(name, zoo_names()) +
                        " and no such file or folder");
  } else if (S_ISDIR(status.st_mode)) {
    if (!xla::is_captured_folder(name)) {
      throw WorkloadError(name + ": expected a captured folder with v2.bundles or v3.bundles (a " +
                          "folder or .tar.xz), found neither");
    }
    prepare_captured(arguments, params, prepared);
  } else {
    const std::string kind = traces::kind_of_file(name);
    if (kind == "run") {
      throw WorkloadError(name +
                          ": expected a workload, found the results of a run; tpusim export "
                          "reads them");
    }
    if (kind == "program") {
      prepare_program_file(arguments, params, prepared);
    } else {
      prepare_hlo(arguments, params, prepared);
    }
  }
  prepared.cpu_s = cpu_seconds() - begin;
  return prepared;
}

}  // namespace tpu::app
