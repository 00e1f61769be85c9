#include "sim/app/validate.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <string_view>

#include "models/machine.h"
#include "sim/app/file_roles.h"
#include "sim/app/simulation.h"
#include "sim/app/validation_table.h"
#include "sim/app/workload_source.h"
#include "traces/run_record.h"

namespace tpu::app {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

json read_facts(const fs::path& path) {
  std::ifstream file(path);
  json facts = json::parse(file, nullptr, false);
  if (!facts.is_object() || !facts.contains("chip") || !facts["chip"].is_string()) {
    throw WorkloadError(path.string() + ": expected a JSON object with a \"chip\", found none");
  }
  return facts;
}

/// A number at a path of keys; 0 where there is none.
double number_at(const json& object, std::initializer_list<const char*> path) {
  const json* place = &object;
  for (const char* key : path) {
    if (!place->is_object() || !place->contains(key)) return 0;
    place = &(*place)[key];
  }
  return place->is_number() ? place->get<double>() : 0;
}

std::string text_at(const json& object, std::initializer_list<const char*> path) {
  const json* place = &object;
  for (const char* key : path) {
    if (!place->is_object() || !place->contains(key)) return {};
    place = &(*place)[key];
  }
  return place->is_string() ? place->get<std::string>() : std::string();
}

/// When the first refresh is due, so that the phases are spread evenly over its interval.
std::vector<std::uint32_t> first_refreshes(const HbmParams& hbm, std::uint32_t phases) {
  if (hbm.refresh_interval_ns == 0) return {hbm.first_refresh_ns};
  std::vector<std::uint32_t> result;
  for (std::uint64_t i = 0; i < phases; ++i) {
    const std::uint64_t due = hbm.first_refresh_ns + i * hbm.refresh_interval_ns / phases;
    result.push_back(static_cast<std::uint32_t>(due % hbm.refresh_interval_ns));
  }
  if (phases == 1) result = {hbm.first_refresh_ns};
  return result;
}

/// Adds the cycles of a run: of the whole program, or of its kernels alone.
void add_run(const traces::RunRecord& record, const RunResult& run, ValidatedProgram& program) {
  std::uint64_t of_kernels = 0;
  program.estimated_cycles = program.bundle_cycles = 0;
  for (std::size_t op = 0; op < run.cores[0].ops.size(); ++op) {
    const OpResult& result = run.cores[0].ops[op];
    program.estimated_cycles += record.ops[op].estimated_cycles * result.count;
    if (record.ops[op].category == "runtime" && program.kernel_alone) continue;
    of_kernels += result.cycles;
    program.bundle_cycles +=
        result.counters.core[CoreState::kIssue] + result.counters.core[CoreState::kDelay];
  }
  program.cycles.push_back(program.kernel_alone ? of_kernels : run.cycles);
}

/// Runs a captured folder in each phase and fills in what it took.
void simulate_program(const Arguments& arguments, const fs::path& folder,
                      ValidatedProgram& program) {
  Arguments run = arguments;
  run.command = "run";
  run.input = folder.string();
  const std::string machine_name = program.chip + "-8";
  try {
    config::Configuration configuration = effective_configuration(run, machine_name);
    MachineParams& params = configuration.params;
    const PreparedWorkload workload = prepare_workload(run, params);
    const traces::RunRecord record = traces::start_record(params, workload.program);
    RunOptions options;
    options.cores = workload.cores;
    for (const std::uint32_t due : first_refreshes(params.hbm, arguments.phases)) {
      params.hbm.first_refresh_ns = due;
      Machine machine(params, workload.program);
      add_run(record, machine.run(options), program);
    }
    program.short_run = is_short_for_refresh(params, program.most());
  } catch (const UserError& error) {
    program.problem = std::string(error.what()).substr(0, std::string(error.what()).find('\n'));
  }
}

ValidatedProgram measured_program(const fs::path& folder, const json& facts) {
  ValidatedProgram program;
  program.name = folder.filename().string();
  program.chip = facts["chip"].get<std::string>();
  program.silicon_cycles = number_at(facts, {"measured_cycles"});
  const double kernel_ns = number_at(facts, {"measured_default", "ns"});
  if (program.silicon_cycles == 0 && kernel_ns > 0) {
    program.kernel_alone = true;
    program.silicon_cycles = kernel_ns * number_at(facts, {"clock_hz"}) * 1e-9;
  }
  program.excluded =
      exclusion({program.name, text_at(facts, {"category"}), text_at(facts, {"measured", "metric"}),
                 text_at(facts, {"measured_default", "kernel_bounds"}),
                 text_at(facts, {"measured_default", "output_bounds"})});
  return program;
}

/// The folder of the program that silicon's default tile belongs to.
fs::path program_folder(const fs::path& folder) {
  for (const char* variant : {"default", "own"}) {
    if (fs::is_directory(folder / variant)) return folder / variant;
  }
  return folder;
}

std::vector<std::string> split_row(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream text(line);
  for (std::string cell; std::getline(text, cell, ',');) cells.push_back(cell);
  return cells;
}

using Row = std::function<void(const ValidatedProgram&)>;

ValidatedTilings validate_tilings(const Arguments& arguments, const fs::path& folder,
                                  const std::string& chip,
                                  const std::function<void(const ValidatedProgram&)>& row) {
  ValidatedTilings result;
  result.name = folder.parent_path().filename().string();
  std::ifstream file(folder / "tiles.csv");
  std::string line;
  std::getline(file, line);
  const std::vector<std::string> header = split_row(line);
  const auto column = [&](const char* name) {
    const auto found = std::find(header.begin(), header.end(), name);
    if (found == header.end()) {
      throw WorkloadError((folder / "tiles.csv").string() + ":1: expected a column " + name);
    }
    return static_cast<std::size_t>(found - header.begin());
  };
  const std::size_t run = column("run");
  const std::size_t cycles = column("measured_cycles_940MHz");
  const std::size_t bounds = column("kernel_bounds");
  const std::size_t output_bounds = column("output_bounds");
  while (std::getline(file, line)) {
    const std::vector<std::string> cells = split_row(line);
    if (cells.size() <= std::max({run, cycles, bounds, output_bounds})) continue;
    const fs::path tile = folder / ("run" + cells[run]);
    if (!fs::is_directory(tile)) continue;
    ValidatedProgram program;
    program.name = tile.filename().string();
    program.chip = chip;
    program.kernel_alone = true;
    program.silicon_cycles = std::atof(cells[cycles].c_str());
    program.excluded = exclusion({result.name, "kernel", "", cells[bounds], cells[output_bounds]});
    simulate_program(arguments, tile, program);
    row(program);
    result.tilings.push_back(program);
  }
  return result;
}

/// A bound of a tile by its place in the text of all, or 0.
int bound_at(const std::string& bounds, int place) {
  std::istringstream text(bounds);
  int bound = 0;
  for (int i = 0; i <= place; ++i) {
    if (!(text >> bound)) return 0;
  }
  return bound;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

ErrorSummary summarize(const std::vector<double>& errors) {
  ErrorSummary summary;
  summary.rows = errors.size();
  if (errors.empty()) return summary;
  summary.median = median(errors);
  summary.mean =
      std::accumulate(errors.begin(), errors.end(), 0.0) / static_cast<double>(errors.size());
  summary.worst = *std::max_element(errors.begin(), errors.end());
  return summary;
}

bool counts(const ValidatedProgram& program, Rows rows) {
  return program.problem.empty() && (rows == Rows::kAll || program.excluded.empty());
}

}  // namespace

std::uint64_t ValidatedProgram::least() const {
  return cycles.empty() ? 0 : *std::min_element(cycles.begin(), cycles.end());
}

std::uint64_t ValidatedProgram::most() const {
  return cycles.empty() ? 0 : *std::max_element(cycles.begin(), cycles.end());
}

double ValidatedProgram::mean() const {
  if (cycles.empty()) return 0;
  double sum = 0;
  for (const std::uint64_t phase : cycles) sum += static_cast<double>(phase);
  return sum / static_cast<double>(cycles.size());
}

std::string exclusion(const RowProperties& row) {
  if (row.category == "model_8core" && row.metric == "step_time") {
    return "silicon's step includes the host's infeed, which bounds it; the program has none";
  }
  if (row.name == "PTS3-0005") return "an outlier by its own publisher's cycles of like layers";
  if (row.category == "kernel" && row.kernel_bounds.empty() && row.output_bounds.empty()) {
    return "which tile silicon ran is not in the data";
  }
  if (row.name == "TG3-fusion.191") {
    // Bounds of the kernel: two of the window, input channels by 8. Of the output: two of the
    // image, batch by 8.
    if (bound_at(row.kernel_bounds, 2) == 24) {
      return "channel bound 24: today's compiler packs 192 channels into one pass";
    }
    if (bound_at(row.output_bounds, 2) == 2) {
      return "batch bound 2: today's compiler issues a DMA for each row and column";
    }
  }
  return {};
}

ErrorSummary summarize_errors(const std::vector<ValidatedProgram>& programs, Rows rows) {
  std::vector<double> errors;
  for (const ValidatedProgram& program : programs) {
    if (counts(program, rows)) errors.push_back(std::fabs(program.error()));
  }
  return summarize(errors);
}

ErrorSummary summarize_estimates(const std::vector<ValidatedProgram>& programs, Rows rows) {
  std::vector<double> errors;
  for (const ValidatedProgram& program : programs) {
    if (!counts(program, rows) || program.estimated_cycles == 0) continue;
    errors.push_back(
        std::fabs(static_cast<double>(program.estimated_cycles) / program.silicon_cycles - 1));
  }
  return summarize(errors);
}

double rank_correlation(const std::vector<ValidatedProgram>& programs) {
  const std::size_t count = programs.size();
  const auto ranks = [&](auto value) {
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return value(programs[a]) < value(programs[b]);
    });
    std::vector<double> rank(count);
    for (std::size_t begin = 0; begin < count;) {
      std::size_t end = begin;
      while (end < count && value(programs[order[end]]) == value(programs[order[begin]])) ++end;
      for (std::size_t i = begin; i < end; ++i) {
        rank[order[i]] = static_cast<double>(begin + end - 1) / 2;
      }
      begin = end;
    }
    return rank;
  };
  const std::vector<double> silicon = ranks([](const auto& p) { return p.silicon_cycles; });
  const std::vector<double> ours = ranks([](const auto& p) { return p.mean(); });
  const double mean = static_cast<double>(count - 1) / 2;
  double both = 0, silicon_alone = 0, ours_alone = 0;
  for (std::size_t i = 0; i < count; ++i) {
    both += (silicon[i] - mean) * (ours[i] - mean);
    silicon_alone += (silicon[i] - mean) * (silicon[i] - mean);
    ours_alone += (ours[i] - mean) * (ours[i] - mean);
  }
  const double scale = std::sqrt(silicon_alone * ours_alone);
  return scale == 0 ? 0 : both / scale;
}

ValidatedFolder validate_folder(const Arguments& arguments,
                                const std::function<void(const ValidatedProgram&)>& row) {
  fs::path root = fs::path(arguments.input).lexically_normal();
  if (!root.has_filename()) root = root.parent_path();
  if (!fs::is_directory(root)) {
    throw WorkloadError(root.string() +
                        ": expected a folder of measured programs (each with a facts.json)");
  }
  std::vector<fs::path> folders;
  if (fs::exists(root / "facts.json")) folders.push_back(root);
  for (const fs::directory_entry& entry : fs::directory_iterator(root)) {
    if (fs::exists(entry.path() / "facts.json")) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  if (folders.empty()) {
    throw WorkloadError(root.string() + ": expected sub-folders with a facts.json, found none");
  }
  ValidatedFolder result;
  for (const fs::path& folder : folders) {
    const json facts = read_facts(folder / "facts.json");
    ValidatedProgram program = measured_program(folder, facts);
    if (program.silicon_cycles > 0) {
      simulate_program(arguments, program_folder(folder), program);
      row(program);
      result.programs.push_back(program);
    }
    if (fs::exists(folder / "tiles" / "tiles.csv")) {
      result.tilings.push_back(validate_tilings(arguments, folder / "tiles", program.chip, row));
    }
  }
  return result;
}

ExitCode validate(const Arguments& arguments) {
  check_files(arguments, {});
  const ValidationTable table(arguments.json);
  table.print_header(arguments.phases);
  const ValidatedFolder folder = validate_folder(
      arguments, [&](const ValidatedProgram& program) { table.print_row(program); });
  table.print_summaries(folder);
  if (!arguments.json.empty()) write_validation_json(arguments.json, folder);
  return ExitCode::kDone;
}

}  // namespace tpu::app
