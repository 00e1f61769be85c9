#include "sim/app/commands.h"

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <set>
#include <sstream>

#include "isa/encoding.h"
#include "isa/program_text.h"
#include "sim/app/child_process.h"
#include "sim/app/completion.h"
#include "sim/app/export_run.h"
#include "sim/app/file_roles.h"
#include "sim/app/module_show.h"
#include "sim/app/output_check.h"
#include "sim/app/printable_stream.h"
#include "sim/app/saved_runs.h"
#include "sim/app/scaling.h"
#include "sim/app/simulation.h"
#include "sim/app/sweep.h"
#include "sim/app/terminal.h"
#include "sim/app/validate.h"
#include "sim/app/what_if.h"
#include "sim/app/workload_source.h"
#include "sim/base/output_file.h"
#include "sim/config/configuration.h"
#include "sim/config/nearest_name.h"
#include "sim/config/scenario.h"
#include "sim/report/comparison_table.h"
#include "sim/report/html_report.h"
#include "sim/report/run_diff.h"
#include "sim/report/text_report.h"
#include "traces/csv.h"
#include "traces/npz.h"
#include "traces/program_file.h"
#include "traces/run_file.h"
#include "workloads/compiler/kept_schedules.h"
#include "workloads/graph/shape.h"

namespace tpu::app {
namespace {

constexpr std::uint64_t kLargestSource = std::uint64_t{1} << 30;

/// A JSON report on its way to a file or to stdout; the file is opened before the simulation, so
/// that a bad name is known at once.
class JsonDestination {
 public:
  explicit JsonDestination(const std::string& name) : to_stdout_(name == "-") {
    if (!name.empty() && !to_stdout_) file_ = std::make_unique<OutputFile>(name);
  }
  bool to_stdout() const { return to_stdout_; }
  void write(const report::Json& json) {
    const std::string text =
        json.dump(2, ' ', false, report::Json::error_handler_t::replace) + "\n";
    if (to_stdout_) std::cout << text;
    if (file_ == nullptr) return;
    file_->write(text);
    file_->commit();
  }

 private:
  bool to_stdout_;
  std::unique_ptr<OutputFile> file_;
};

/// Writes several files. One that can't be written does not keep the others from being written.
class FileWriter {
 public:
  template <class Write>
  void operator()(const Write& write) {
    try {
      write();
    } catch (...) {
      if (first_failure_ == nullptr) first_failure_ = std::current_exception();
    }
  }
  /// Throws what kept the first file from being written.
  void check() const {
    if (first_failure_ != nullptr) std::rethrow_exception(first_failure_);
  }

 private:
  std::exception_ptr first_failure_;
};

void write_outputs(const std::string& path, const Simulation& simulation) {
  traces::NpzFile file;
  for (const auto& [number, array] : simulation.outputs) {
    file[array_name("out", number)] = to_npz_array(array);
  }
  traces::write_npz(path, file);
}

ExitCode run(const Arguments& arguments) {
  const config::Configuration configuration =
      effective_configuration(arguments, arguments.configs[0]);
  check_files(arguments, {configuration});
  JsonDestination json(arguments.json);
  traces::NpzFile references;
  if (!arguments.check.empty()) references = traces::read_npz(arguments.check);

  if (arguments.what_if)
    compiler::keep_schedules(true);  // Most kernels of a what-if are the run's.
  ProgramCache programs(arguments.what_if ? kWhatIfPrograms : 1);
  Simulation simulation = simulate(arguments, configuration, arguments.configs[0], programs);
  if (arguments.what_if) {
    simulation.record.what_if =
        what_if(arguments, arguments.configs[0], simulation.record, programs, processors());
  }
  const report::Summary summary = report::summarize(simulation.record);
  std::vector<report::CheckedOutput> checks;
  if (!arguments.check.empty()) {
    checks = check_outputs(simulation.outputs, references, arguments.tolerance, arguments.check,
                           simulation.draws_own_bits);
  }
  FileWriter files;
  if (!arguments.output.empty() && arguments.format.empty()) {
    files([&] { traces::write_run_file(arguments.output, simulation.record); });
  }
  if (!arguments.outputs.empty()) files([&] { write_outputs(arguments.outputs, simulation); });
  // What is printed comes behind the files: who reads it may leave in its middle (head).
  files([&] { json.write(report::to_json(simulation.record, summary, simulation.cost, checks)); });
  if (!json.to_stdout()) {
    std::cout << report::text_report(simulation.record, summary, simulation.cost,
                                     text_style(arguments.color));
    if (!checks.empty()) std::cout << "\n" << check_text(checks);
    std::cout.flush();
  }
  files.check();
  const auto failed = std::find_if(checks.begin(), checks.end(), [](auto& c) { return !c.passed; });
  if (failed == checks.end()) return ExitCode::kDone;
  if (json.to_stdout()) std::cerr << check_text(checks);
  return ExitCode::kSimulatedProgramFailed;
}

/// As the ending of the name says: a table, or a page.
void write_comparison(const std::string& path, const std::vector<traces::RunRecord>& records,
                      const std::vector<report::Summary>& summaries) {
  const std::string ending = std::filesystem::path(path).extension().string();
  const traces::Table table = report::comparison_table(records, summaries);
  OutputFile file(path);
  file.write(ending == ".csv"  ? traces::csv_text(table)
             : ending == ".md" ? report::markdown_text(table)
                               : report::html_report(records, summaries));
  file.commit();
}

ExitCode compare(const Arguments& arguments) {
  std::vector<config::Configuration> configurations;
  for (const std::string& name : arguments.configs) {
    configurations.push_back(effective_configuration(arguments, name));
  }
  check_files(arguments, configurations);
  JsonDestination json(arguments.json);
  std::vector<traces::RunRecord> records;
  std::vector<report::Summary> summaries;
  std::vector<report::SimulatorCost> costs;
  for (std::size_t i = 0; i < configurations.size(); ++i) {
    Simulation simulation = simulate(arguments, configurations[i], arguments.configs[i]);
    summaries.push_back(report::summarize(simulation.record));
    records.push_back(std::move(simulation.record));
    costs.push_back(simulation.cost);
  }
  FileWriter files;
  if (!arguments.output.empty()) {
    files([&] { write_comparison(arguments.output, records, summaries); });
  }
  files([&] { json.write(report::comparison_json(records, summaries, costs)); });
  if (!json.to_stdout()) {
    std::cout << report::comparison_report(records, summaries, costs, text_style(arguments.color));
    std::cout.flush();
  }
  files.check();
  return ExitCode::kDone;
}

ExitCode scaling(const Arguments& arguments) {
  JsonDestination json(arguments.json);
  const std::vector<report::ScalingPoint> points = scale(arguments);
  FileWriter files;
  files([&] { json.write(report::scaling_json(arguments.input, points)); });
  if (!json.to_stdout()) {
    std::cout << report::scaling_report(arguments.input, points, text_style(arguments.color));
    std::cout.flush();
  }
  files.check();
  return ExitCode::kDone;
}

std::string counted(std::uint64_t number, const std::string& what) {
  return report::grouped(number) + " " + what + (number == 1 ? "" : "s");
}

void print_program_line(const isa::Program& program) {
  std::size_t bundles = 0, instructions = 0;
  for (const isa::Kernel& kernel : program.kernels) {
    bundles += kernel.bundles.size();
    instructions += kernel.instructions.size();
  }
  std::cout << program.name << " for " << program.chip << ", " << program.cores
            << (program.cores == 1 ? " core: " : " cores: ")
            << counted(program.kernels.size(), "kernel") << ", "
            << counted(program.call_sites.size(), "call") << ", " << counted(bundles, "bundle")
            << ", " << counted(instructions, "instruction") << "\n";
}

/// Prints the module after the pass that --dump-after names, or after each.
class PassDump {
 public:
  explicit PassDump(std::string wanted) : wanted_(std::move(wanted)) {}

  compiler::PassObserver observer() {
    if (wanted_.empty()) return {};
    return [this](const compiler::PassResult& result) {
      const std::string& pass = result.pass();
      // Bodies of loops and branches have passes of their own, "body/pass".
      const std::string name = pass.substr(pass.rfind('/') + 1);
      passes_.insert(name);
      if (name != wanted_ && wanted_ != "all") return;
      std::cout << "// after " << pass << "\n" << hlo::to_string(result.module()) << "\n";
    };
  }

  /// Refuses a name that no pass had.
  void check() const {
    if (wanted_.empty() || wanted_ == "all" || passes_.count(wanted_) > 0) return;
    const std::vector<std::string> known(passes_.begin(), passes_.end());
    std::string list;
    for (const std::string& pass : known) list += (list.empty() ? "" : ", ") + pass;
    throw UsageError(
        "--dump-after: no pass \"" + wanted_ + "\"" + config::suggestion(wanted_, known) +
        (list.empty() ? "; this workload is compiled already" : "; there are all, " + list));
  }

 private:
  std::string wanted_;
  std::set<std::string> passes_;
};

ExitCode compile(const Arguments& arguments) {
  const config::Configuration configuration =
      effective_configuration(arguments, arguments.configs[0]);
  check_files(arguments, {configuration});
  PassDump dump(arguments.dump_after);
  const PreparedWorkload workload =
      prepare_workload(arguments, configuration.params, dump.observer());
  dump.check();
  if (!arguments.output.empty()) {
    traces::write_program_file(arguments.output, workload.program);
  }
  if (!arguments.dump_after.empty()) return ExitCode::kDone;
  print_program_line(workload.program);
  for (const std::string& note : workload.compile_report.notes) std::cout << note << '\n';
  if (!arguments.verbose) return ExitCode::kDone;
  for (const compiler::CompileReport::Pass& pass : workload.compile_report.passes) {
    std::cout << "  " << pass.name << ": " << report::short_number(pass.cpu_s * 1e3) << " ms\n";
  }
  return ExitCode::kDone;
}

ExitCode disassemble(const Arguments& arguments) {
  const isa::Program program = traces::read_program_file(arguments.input);
  isa::print_program(std::cout, program);
  return ExitCode::kDone;
}

std::string read_text_file(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    throw WorkloadError(path + ": expected an assembler file: " + std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) {
    throw WorkloadError(path + ": expected an assembler file, found " +
                        (S_ISDIR(status.st_mode) ? "a directory" : "no regular file"));
  }
  if (static_cast<std::uint64_t>(status.st_size) > kLargestSource) {
    throw WorkloadError(path + ": expected an assembler file of at most 1 GiB, found " +
                        std::to_string(status.st_size) + " bytes");
  }
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) throw WorkloadError(path + ": the assembler file can't be read");
  return text.str();
}

isa::ArraySize size_of_shape(const std::string& text) {
  const hlo::Shape shape = hlo::parse_shape(text);
  return {static_cast<std::uint64_t>(shape.padded_bytes()),
          static_cast<std::uint64_t>(shape.unpadded_bytes())};
}

/// The first kernel is the top-level program.
ExitCode assemble(const Arguments& arguments) {
  const config::Configuration configuration =
      effective_configuration(arguments, arguments.configs[0]);
  check_files(arguments, {configuration});
  isa::Program program =
      isa::assemble_program(read_text_file(arguments.input), arguments.input, size_of_shape);
  const std::string& chip = configuration.params.chip;
  if (!program.chip.empty() && program.chip != chip) {
    throw WorkloadError(arguments.input + ": expected code for " + chip + ", found \"chip " +
                        program.chip + "\"; name a machine of that chip with --config");
  }
  program.name = arguments.input;
  program.chip = chip;
  program.compiler = std::string("tpusim ") + TPUSIM_VERSION + " asm";
  if (program.kernels.empty()) {
    throw WorkloadError(arguments.input + ": expected at least one kernel, found none");
  }
  if (!arguments.output.empty()) traces::write_program_file(arguments.output, program);
  print_program_line(program);
  if (!arguments.verbose) return ExitCode::kDone;
  for (const isa::Kernel& kernel : program.kernels) {
    std::cout << "  " << kernel.name << ": " << kernel.bundles.size() << " bundles, "
              << report::grouped(isa::encode_bundles(kernel).size() * 4) << " bytes\n";
  }
  return ExitCode::kDone;
}

ExitCode diff(const Arguments& arguments) {
  check_files(arguments, {});
  const traces::RunRecord first = traces::read_run_file(arguments.input);
  JsonDestination json(arguments.json);
  report::Json all = {{"schema_version", report::kJsonSchemaVersion},
                      {"diffs", report::Json::array()}};
  for (const std::string& path : arguments.more_inputs) {
    const traces::RunRecord other = traces::read_run_file(path);
    const std::vector<std::string> names{arguments.input, path};
    if (!json.to_stdout()) {
      std::cout << (all["diffs"].empty() ? "" : "\n")
                << report::diff_text(first, other, names, text_style(arguments.color));
      std::cout.flush();
    }
    all["diffs"].push_back(report::diff_json(first, other, names));
  }
  json.write(all["diffs"].size() == 1 ? all["diffs"][0] : all);
  return ExitCode::kDone;
}

ExitCode list() {
  std::cout << "Workloads\n";
  for (const frontend::WorkloadInfo& info : frontend::workload_list()) {
    std::cout << "  " << info.name << ": " << info.description << "\n     ";
    for (const std::string_view option : info.options) {
      if (option == "replicas") continue;
      std::string flag(option);
      std::replace(flag.begin(), flag.end(), '_', '-');
      std::cout << " --" << flag;
    }
    std::cout << "\n";
  }
  std::cout << "\nConfigurations\n";
  for (const std::string& name : config::built_in_names()) {
    const MachineParams params = config::load_configuration(name).params;
    std::cout << "  " << name << ": " << params.chips() << " chips, " << params.cores()
              << " cores, " << params.clock_mhz << " MHz\n";
  }
  std::cout << "\nParts of configurations, for `base = [...]` in a .toml file\n";
  for (const std::string& name : config::built_in_parts()) std::cout << "  " << name << "\n";
  std::cout << "\nScenarios, for --scenario\n";
  for (const std::string& name : config::built_in_scenarios()) std::cout << "  " << name << "\n";
  return ExitCode::kDone;
}

/// True for a name or file of a machine.
bool is_configuration(const std::string& name) {
  const std::vector<std::string> known = config::built_in_names();
  const std::string_view ending = ".toml";
  return std::find(known.begin(), known.end(), name) != known.end() ||
         (name.size() > ending.size() &&
          name.compare(name.size() - ending.size(), ending.size(), ending) == 0);
}

/// A workload's module as both machines of one host would run it.
ExitCode show_workload(const Arguments& arguments) {
  if (!arguments.settings.empty()) {
    throw UsageError("--set: expected a configuration beside it, found the workload \"" +
                     arguments.input + "\"");
  }
  std::vector<MachineParams> machines;
  for (const char* name : {"v2-8", "v3-8"}) {
    machines.push_back(config::load_configuration(name).params);
  }
  std::cout << report::fit_to_width(show_module(workload_module(arguments, machines.back()),
                                                machines, bucket_bytes_of(arguments)),
                                    text_style(arguments.color));
  return ExitCode::kDone;
}

ExitCode show(const Arguments& arguments) {
  const bool file = std::filesystem::exists(arguments.input);
  if (!is_configuration(arguments.input) && (file || frontend::is_workload(arguments.input))) {
    return show_workload(arguments);
  }
  if (!arguments.workload_flags.empty() || arguments.batch || arguments.core_batch ||
      arguments.cores) {
    throw UsageError("tpusim show " + arguments.input +
                     ": expected a workload with these options, found a configuration");
  }
  std::cout << config::to_toml(effective_configuration(arguments, arguments.input),
                               static_cast<std::size_t>(stated_width()));
  return ExitCode::kDone;
}

void start_log(const std::string& level) {
  auto logger = spdlog::get("tpusim");
  if (logger == nullptr) {
    logger = std::make_shared<spdlog::logger>(
        "tpusim", std::make_shared<spdlog::sinks::ostream_sink_st>(std::cerr, true));
    spdlog::register_logger(logger);
  }
  logger->set_pattern("%l: %v");
  logger->set_level(spdlog::level::from_str(level));
  spdlog::set_default_logger(logger);
}

int report_error(const std::string& message, ExitCode code) {
  std::cerr << "tpusim: " << message << std::endl;
  return static_cast<int>(code);
}

}  // namespace

ExitCode execute(const Arguments& arguments) {
  if (arguments.command == "run") return run(arguments);
  if (arguments.command == "compare") return compare(arguments);
  if (arguments.command == "scaling") return scaling(arguments);
  if (arguments.command == "compile") return compile(arguments);
  if (arguments.command == "disasm") return disassemble(arguments);
  if (arguments.command == "asm") return assemble(arguments);
  if (arguments.command == "export") return export_run(arguments);
  if (arguments.command == "diff") return diff(arguments);
  if (arguments.command == "validate") return validate(arguments);
  if (arguments.command == "sweep") return sweep(arguments);
  if (arguments.command == "report") return report_runs(arguments);
  if (arguments.command == "profile") return profile_run(arguments);
  if (arguments.command == "metrics") return print_metrics(arguments);
  if (arguments.command == "list") return list();
  if (arguments.command == "show") return show(arguments);
  if (arguments.command == "completion") {
    std::cout << completion_script();
    return ExitCode::kDone;
  }
  TPU_CHECK(false, "no command " << arguments.command);
}

/// Whether stdout gets what programs read: JSON, code, configurations, lists of points.
bool writes_data(const Arguments& arguments) {
  return arguments.json == "-" || arguments.command == "disasm" ||
         arguments.command == "completion" || !arguments.dump_after.empty() ||
         (arguments.command == "sweep" && arguments.sweep.action == "plan") ||
         (arguments.command == "show" && is_configuration(arguments.input));
}

int run_program(const std::vector<std::string>& words) {
  PrintableStream out(std::cout), err(std::cerr);
  try {
    ExitCode code = ExitCode::kDone;
    out.fit_lines_to(stated_width());
    if (const std::optional<Arguments> arguments = parse_arguments(words)) {
      start_log(arguments->log);
      out.let_colours_through(text_style(arguments->color).color);
      if (writes_data(*arguments)) out.fit_lines_to(0);
      code = execute(*arguments);
    }
    std::cout.flush();
    if (out.memory_ran_out()) throw std::bad_alloc();
    if (!std::cout) throw UsageError("stdout can't be written: is the disk full?");
    return static_cast<int>(code);
  } catch (const UserError& error) {
    return report_error(error.what(), error.exit_code());
  } catch (const SimulatorBug& error) {
    return report_error(std::string("a bug of tpusim, please report it: ") + error.what(),
                        ExitCode::kSimulatorBug);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    return report_error(std::string("a bug of tpusim, please report it: ") + error.what(),
                        ExitCode::kSimulatorBug);
  }
}

}  // namespace tpu::app
