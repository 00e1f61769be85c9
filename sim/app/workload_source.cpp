#include "sim/app/workload_source.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string_view>

#include "isa/generation.h"
#include "sim/app/buffer_lives.h"
#include "sim/app/captured_placement.h"
#include "sim/app/cpu_time.h"
#include "sim/app/largest_batch.h"
#include "sim/app/listing_cache.h"
#include "sim/base/error.h"
#include "sim/config/compiler_target.h"
#include "sim/config/nearest_name.h"
#include "traces/hdf5_file.h"
#include "traces/program_file.h"
#include "workloads/compiler/passes/pass_timer.h"
#include "workloads/compiler/sharding/update_sharding.h"
#include "workloads/graph/widening.h"
#include "workloads/hlo/annotations.h"
#include "workloads/hlo/hlo_reader.h"
#include "workloads/xla/captured_folder.h"

namespace tpu::app {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostFeatureMultiple = 1 << 16;

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

/// A workload of the zoo for the cores and the batch of the command line.
frontend::Workload zoo_workload(const Arguments& arguments, const CoreChoice& choice) {
  if (arguments.compiler == "xla") {
    throw UsageError("--compiler xla: " + arguments.input +
                     " is a workload of the zoo, which only tpusim compiles; capture it to run "
                     "XLA's program");
  }
  frontend::WorkloadOptions options = arguments.workload;
  options.replicas = choice.count;
  if (arguments.batch) {
    if (*arguments.batch % choice.count != 0) {
      throw UsageError("--batch: expected a multiple of the " + std::to_string(choice.count) +
                       " cores that share it, found " + std::to_string(*arguments.batch));
    }
    options.batch = *arguments.batch / choice.count;
  }
  if (arguments.core_batch) options.batch = *arguments.core_batch;
  return frontend::build_workload(arguments.input, options);
}

compiler::Target target_of(const Arguments& arguments, const MachineParams& params,
                           std::uint32_t cores) {
  compiler::Target target = config::target_of(params, cores);
  target.bucket_bytes = bucket_bytes_of(arguments);
  return target;
}

/// A program that somebody compiled has its all-reduces.
void check_collectives(const Arguments& arguments) {
  if (!arguments.bucket_mb && !arguments.shard_updates) return;
  throw UsageError(std::string(arguments.bucket_mb ? "--bucket-mb: " : "--shard-updates: ") +
                   arguments.input +
                   " is compiled already; --compiler tpusim compiles a captured program again");
}

/// Weight-update sharding, where it is asked for. Returns what the user should know of it.
std::string share_updates(const Arguments& arguments, compiler::PartitionedModule& program) {
  if (!arguments.shard_updates) return "";
  if (program.module.replicas <= 1) return "--shard-updates: one core has no others to share with";
  const compiler::UpdateShares shares = compiler::shard_updates(program);
  if (shares.shared == 0) {
    throw WorkloadError(
        "--shard-updates: expected sums of gradients over all cores that go into weights which "
        "the module's results replace (input_output_alias; jax.jit: donate_argnums), found none "
        "that can be cut over " +
        std::to_string(program.module.replicas) + " cores");
  }
  const auto mib = [](std::int64_t bytes) {
    return std::to_string((bytes + (1 << 19)) >> 20) + " MiB";
  };
  return "of " + std::to_string(shares.shared + shares.whole) +
         " gradients each core updates its " + "share of " + std::to_string(shares.shared) + " (" +
         mib(shares.shared_bytes) +
         "); state of the optimizer that is cut over the cores: " + mib(shares.state_bytes);
}

/// The module that each core runs, after weight-update sharding where it is asked for.
hlo::Module module_with_shares(const Arguments& arguments, compiler::PartitionedModule program,
                               const compiler::PassObserver& after_pass,
                               PreparedWorkload& prepared) {
  prepared.update_note = share_updates(arguments, program);
  if (after_pass && arguments.shard_updates) after_pass({"shard_updates", program.module});
  prepared.parameter_parts = std::move(program.parameters);
  prepared.result_parts = std::move(program.results);
  return std::move(program.module);
}

void compile_module(const hlo::Module& module, const compiler::Target& target,
                    const compiler::PassObserver& after_pass, PreparedWorkload& prepared) {
  BufferLives lives;
  prepared.program =
      compiler::compile(module, target, &prepared.compile_report, lives.observer(after_pass));
  prepared.program.lifetimes = lives.of(prepared.program);
  for (const std::string& note : {prepared.update_note, prepared.widening_note}) {
    if (!note.empty()) prepared.compile_report.notes.push_back(note);
  }
}

CoreChoice zoo_cores(const Arguments& arguments, const MachineParams& params) {
  return arguments.cores.value_or(CoreChoice{0, params.cores()});
}

/// The report of what does not fit, with the largest batch that does.
[[noreturn]] void report_out_of_memory(const compiler::OutOfMemoryError& error,
                                       const Arguments& arguments, const CoreChoice& choice,
                                       const compiler::Target& target, std::int64_t batch) {
  throw WorkloadError(error.what() + largest_batch_text(batch, choice.count, [&](auto smaller) {
                        Arguments fewer = arguments;
                        fewer.set_batch(smaller * choice.count);
                        compiler::PartitionedModule program;
                        program.module = zoo_workload(fewer, choice).module;
                        share_updates(arguments, program);
                        return compiler::fits(program.module, target);
                      }));
}

void prepare_zoo(const Arguments& arguments, const MachineParams& params,
                 const compiler::PassObserver& after_pass, PreparedWorkload& prepared) {
  const CoreChoice choice = zoo_cores(arguments, params);
  prepared.cores = core_numbers(choice, params);
  prepared.frontend = zoo_workload(arguments, choice);
  compiler::PartitionedModule program;
  program.module = prepared.frontend->module;
  const hlo::Module module =
      module_with_shares(arguments, std::move(program), after_pass, prepared);
  const compiler::Target target = target_of(arguments, params, choice.count);
  try {
    compile_module(module, target, after_pass, prepared);
  } catch (const compiler::OutOfMemoryError& error) {
    report_out_of_memory(error, arguments, choice, target, module.examples_per_step);
  }
}

/// A program whose batch and number of cores are fixed.
/// Of one that is a module only the padding of its products can be changed.
void check_fixed(const Arguments& arguments, const std::string& what, bool is_module = false) {
  if (arguments.batch || arguments.core_batch) {
    throw UsageError(std::string(arguments.batch ? "--batch: " : "--core-batch: ") +
                     arguments.input + " is " + what + " with a fixed batch; leave the option out");
  }
  for (const std::string& flag : arguments.workload_flags) {
    if (is_module && flag == "--feature-multiple") continue;
    throw UsageError(flag + ": " + arguments.input + " is " + what +
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

/// Whether the module is to be cut into programs of several devices. Whoever asks for one core
/// means a program of one device, for which XLA drops the annotations, too.
bool is_partitioned_here(const hlo::Module& module, const Arguments& arguments) {
  const bool one_device = arguments.cores && arguments.cores->count == 1 && module.partitions <= 1;
  return !one_device && !hlo::unpartitioned_annotation(module).empty();
}

/// The module that each core runs.
/// A module whose products fill the arrays, where that is asked for.
hlo::WidenedModule widened(const Arguments& arguments, hlo::Module module) {
  hlo::WidenedModule same;
  if (!arguments.workload.feature_multiple) {
    same.module = std::move(module);
    return same;
  }
  const std::int64_t multiple = *arguments.workload.feature_multiple;
  if (multiple < 1 || multiple > kMostFeatureMultiple) {
    throw UsageError("--feature-multiple: expected 1 to " + std::to_string(kMostFeatureMultiple) +
                     ", found " + std::to_string(multiple));
  }
  return hlo::widen_products(module, multiple, std::gcd(multiple, std::int64_t{isa::kSublanes}));
}

void note_widening(const hlo::WidenedModule& wider, PreparedWorkload& prepared) {
  prepared.keeps_padding = wider.kept > 0;
  prepared.widening_note =
      "--feature-multiple: " + std::to_string(wider.widened) + " extents of products have grown";
  if (wider.kept == 0) return;
  prepared.widening_note += "; " + std::to_string(wider.kept) +
                            " are padded as before, which slices, reshapes, windows, scatters or "
                            "constants of the program state in numbers";
}

hlo::Module module_of_a_core(const std::string& path, const Arguments& arguments,
                             const compiler::PassObserver& after_pass, ParsedModules* parsed,
                             PreparedWorkload& prepared) {
  hlo::Module module = parsed != nullptr ? parsed->module(path) : hlo::read_hlo_file(path);
  if (!is_partitioned_here(module, arguments)) {
    const bool one_device = arguments.cores && arguments.cores->count == 1;
    if (!one_device || hlo::unpartitioned_annotation(module).empty()) {
      module.replicas = hlo::stated_devices(module);
    }
    return module_with_shares(arguments, {std::move(module), {}, {}}, after_pass, prepared);
  }
  const compiler::PassTimer timer(&prepared.compile_report, "partition");
  const std::int64_t devices = std::max(module.replicas, compiler::annotated_devices(module));
  try {
    compiler::PartitionedModule parts = compiler::partition(std::move(module), devices);
    if (after_pass) after_pass({"partition", parts.module});
    return module_with_shares(arguments, std::move(parts), after_pass, prepared);
  } catch (const WorkloadError& error) {
    throw WorkloadError(path + ": " + error.what());
  }
}

std::uint32_t cores_of(const hlo::Module& module, const MachineParams& params) {
  return static_cast<std::uint32_t>(std::min<std::int64_t>(
      std::max<std::int64_t>(module.replicas, 1), std::int64_t{params.cores()} + 1));
}

/// Compiles a module for the cores that it is replicated on.
void compile_hlo(const std::string& path, const Arguments& arguments, const MachineParams& params,
                 const compiler::PassObserver& after_pass, ParsedModules* parsed,
                 PreparedWorkload& prepared) {
  const hlo::WidenedModule wider =
      widened(arguments, module_of_a_core(path, arguments, after_pass, parsed, prepared));
  const hlo::Module& module = wider.module;
  if (arguments.workload.feature_multiple) note_widening(wider, prepared);
  prepared.program.cores = cores_of(module, params);
  choose_fixed_cores(arguments, params, prepared);
  const compiler::Target target = target_of(arguments, params, prepared.program.cores);
  try {
    compile_module(module, target, after_pass, prepared);
  } catch (const compiler::OutOfMemoryError& error) {
    throw WorkloadError(path + ": " + error.what() + fixed_batch_text(module, error.use()));
  }
}

void prepare_hlo(const Arguments& arguments, const MachineParams& params,
                 const compiler::PassObserver& after_pass, ParsedModules* parsed,
                 PreparedWorkload& prepared) {
  check_fixed(arguments, "an HLO module", true);
  if (arguments.compiler == "xla") {
    throw UsageError("--compiler xla: " + arguments.input +
                     " is an HLO module, which only tpusim compiles; capture it to run XLA's "
                     "program");
  }
  compile_hlo(arguments.input, arguments, params, after_pass, parsed, prepared);
}

/// The file of a captured folder that our compiler compiles.
std::string captured_module(const std::string& folder) {
  std::string before = xla::hlo_before_optimisation(folder);
  if (before.empty()) {
    throw WorkloadError(folder +
                        ": --compiler tpusim compiles before.hlo.gz, which is not in this folder");
  }
  return before;
}

/// XLA's schedules fit the arrays that they were made for, and no others.
void check_arrays(const Arguments& arguments, const MachineParams& params) {
  const isa::Generation& made_for = isa::generation(params.chip);
  const MxuParams& mxu = params.core.mxu;
  const bool is_size = mxu.rows == made_for.mxu_rows && mxu.columns == made_for.mxu_columns;
  if (is_size && mxu.count >= made_for.mxus) return;
  const auto arrays = [](std::uint32_t count, std::uint32_t rows, std::uint32_t columns) {
    return std::to_string(count) + (count == 1 ? " MXU of " : " MXUs of ") + std::to_string(rows) +
           "x" + std::to_string(columns);
  };
  throw WorkloadError(arguments.input + ": XLA compiled these bundles for " +
                      arrays(made_for.mxus, made_for.mxu_rows, made_for.mxu_columns) +
                      " a core, found " + arrays(mxu.count, mxu.rows, mxu.columns) + " in " +
                      params.name + "; --compiler tpusim compiles the program for them");
}

void note_unused_arrays(const MachineParams& params, PreparedWorkload& prepared) {
  const std::uint32_t used = isa::generation(params.chip).mxus;
  if (params.core.mxu.count == used) return;
  prepared.compile_report.notes.push_back("XLA compiled these bundles for " + std::to_string(used) +
                                          " MXUs a core: the others of " +
                                          std::to_string(params.core.mxu.count) + " do nothing");
}

void prepare_captured(const Arguments& arguments, const MachineParams& params,
                      const compiler::PassObserver& after_pass, ParsedModules* parsed,
                      PreparedWorkload& prepared) {
  check_fixed(arguments, "a captured program", arguments.compiler == "tpusim");
  prepared.folder = arguments.input;
  if (arguments.compiler == "tpusim") {
    compile_hlo(captured_module(arguments.input), arguments, params, after_pass, parsed, prepared);
    return;
  }
  check_collectives(arguments);
  check_arrays(arguments, params);
  // `compile` writes the program for whatever will be done with it.
  const bool names = arguments.values || arguments.command == "compile";
  prepared.program =
      ListingCache(listing_cache_folder())
          .load(arguments.input, params.chip, names ? isa::CodeNames::kAll : isa::CodeNames::kNone);
  note_unused_arrays(params, prepared);
  prepared.is_from_xla = true;
  CapturedPlacement placement = captured_placement(arguments.input, prepared.program);
  prepared.parameter_parts = std::move(placement.parameters);
  prepared.result_parts = std::move(placement.results);
  choose_fixed_cores(arguments, params, prepared);
}

void prepare_program_file(const Arguments& arguments, const MachineParams& params,
                          PreparedWorkload& prepared) {
  check_fixed(arguments, "a compiled program");
  check_collectives(arguments);
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

enum class Source { kZoo, kCaptured, kProgram, kHlo };

/// What a workload's name stands for.
Source source_of(const std::string& name) {
  struct stat status {};
  if (frontend::is_workload(name)) return Source::kZoo;
  if (fs::path(name).extension() == ".toml") {
    throw WorkloadError(name + ": expected a workload, found a configuration; --config " + name +
                        " behind a workload chooses the machine");
  }
  if (::stat(name.c_str(), &status) != 0) {
    if (errno != ENOENT) {
      throw WorkloadError(name + ": expected a workload: " + std::strerror(errno));
    }
    throw WorkloadError("no workload \"" + name + "\"" + config::suggestion(name, zoo_names()) +
                        " and no such file or folder");
  }
  if (::access(name.c_str(), S_ISDIR(status.st_mode) ? R_OK | X_OK : R_OK) != 0) {
    throw WorkloadError(name + ": expected a workload: " + std::strerror(errno));
  }
  if (S_ISDIR(status.st_mode)) {
    if (!xla::is_captured_folder(name)) {
      std::string bundles;
      for (const isa::Generation& chip : isa::generations()) {
        bundles += (bundles.empty() ? "" : ", ") + std::string(chip.name) + ".bundles";
      }
      const std::string hlo = xla::hlo_before_optimisation(name);
      throw WorkloadError(
          name + ": expected a captured folder with one of " + bundles +
          " (a folder or .tar.xz), found none" +
          (hlo.empty() ? "" : "; " + hlo + " in it is what tpusim compiles itself"));
    }
    return Source::kCaptured;
  }
  const std::string kind = traces::kind_of_file(name);
  if (kind == "run") {
    throw WorkloadError(name +
                        ": expected a workload, found the results of a run; tpusim export "
                        "reads them");
  }
  if (kind.empty() && is_hdf5(name)) {
    throw WorkloadError(name + ": expected a compiled program of tpusim, found another HDF5 file");
  }
  return kind == "program" ? Source::kProgram : Source::kHlo;
}

}  // namespace

std::uint64_t bucket_bytes_of(const Arguments& arguments) {
  return arguments.bucket_mb ? *arguments.bucket_mb << 20 : compiler::kBucketsByCost;
}

bool is_hdf5(const std::string& name) {
  constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";
  if (!fs::is_regular_file(name)) return false;
  std::string begin(kSignature.size(), '\0');
  std::ifstream(name, std::ios::binary).read(begin.data(), static_cast<long>(begin.size()));
  return begin == kSignature;
}

const hlo::Module& ParsedModules::module(const std::string& path) {
  const auto found = modules_.find(path);
  if (found != modules_.end()) return found->second;
  return modules_.emplace(path, hlo::read_hlo_file(path)).first->second;
}

bool is_compiled_here(const Arguments& arguments) {
  const Source source = source_of(arguments.input);
  if (source == Source::kCaptured) return arguments.compiler == "tpusim";
  return source != Source::kProgram;
}

PreparedWorkload prepare_workload(const Arguments& arguments, const MachineParams& params,
                                  const compiler::PassObserver& after_pass, ParsedModules* parsed) {
  const double begin = cpu_seconds();
  PreparedWorkload prepared;
  switch (source_of(arguments.input)) {
    case Source::kZoo:
      prepare_zoo(arguments, params, after_pass, prepared);
      break;
    case Source::kCaptured:
      prepare_captured(arguments, params, after_pass, parsed, prepared);
      break;
    case Source::kProgram:
      prepare_program_file(arguments, params, prepared);
      break;
    case Source::kHlo:
      prepare_hlo(arguments, params, after_pass, parsed, prepared);
      break;
  }
  prepared.cpu_s = cpu_seconds() - begin;
  return prepared;
}

hlo::Module workload_module(const Arguments& arguments, const MachineParams& params) {
  const Source source = source_of(arguments.input);
  if (arguments.shard_updates && source != Source::kZoo) {
    throw UsageError(
        "--shard-updates: expected a workload of the zoo, whose program show makes; found " +
        arguments.input + "; compile --dump-after shard_updates prints what becomes of a module");
  }
  switch (source) {
    case Source::kZoo: {
      compiler::PartitionedModule program;
      program.module = zoo_workload(arguments, zoo_cores(arguments, params)).module;
      share_updates(arguments, program);
      return std::move(program.module);
    }
    case Source::kCaptured:
      check_fixed(arguments, "a captured program", true);
      return widened(arguments, hlo::read_hlo_file(captured_module(arguments.input))).module;
    case Source::kHlo:
      check_fixed(arguments, "an HLO module", true);
      return widened(arguments, hlo::read_hlo_file(arguments.input)).module;
    case Source::kProgram:
      break;
  }
  throw WorkloadError(arguments.input +
                      ": expected a module, found a compiled program; tpusim disasm prints it");
}

}  // namespace tpu::app
