#include "sim/app/validate.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>
#include <string_view>

#include "sim/app/file_roles.h"
#include "sim/app/printable_stream.h"
#include "sim/app/simulation.h"
#include "sim/base/output_file.h"

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

/// Runs a captured folder and fills in what it took.
void simulate_program(const Arguments& arguments, const fs::path& folder,
                      ValidatedProgram& program) {
  Arguments run = arguments;
  run.command = "run";
  run.input = folder.string();
  const std::string machine = program.chip + "-8";
  try {
    const Simulation simulation = simulate(run, effective_configuration(run, machine), machine);
    const traces::RunRecord& record = simulation.record;
    program.cycles = record.result.cycles;
    std::uint64_t of_kernels = 0;
    for (std::size_t op = 0; op < record.result.cores[0].ops.size(); ++op) {
      const OpResult& result = record.result.cores[0].ops[op];
      program.estimated_cycles += record.ops[op].estimated_cycles * result.count;
      if (record.ops[op].category == "runtime" && program.kernel_alone) continue;
      of_kernels += result.cycles;
      program.bundle_cycles +=
          result.counters.core[CoreState::kIssue] + result.counters.core[CoreState::kDelay];
    }
    if (program.kernel_alone) program.cycles = of_kernels;
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
                                  const std::string& chip, const Row& row) {
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
  while (std::getline(file, line)) {
    const std::vector<std::string> cells = split_row(line);
    if (cells.size() <= std::max({run, cycles, bounds})) continue;
    const fs::path tile = folder / ("run" + cells[run]);
    if (!fs::is_directory(tile)) continue;
    ValidatedProgram program;
    program.name = tile.filename().string();
    program.chip = chip;
    program.kernel_alone = true;
    program.silicon_cycles = std::atof(cells[cycles].c_str());
    simulate_program(arguments, tile, program);
    program.gap = version_gap(program, result.name, cells[bounds]);
    row(program);
    result.tilings.push_back(program);
  }
  return result;
}

/// A program that today's compiler makes differently, as the comparison of its output with what the
/// measurement says shows. `kernel_bounds`: of tilings, the first three bounds of the tile.
struct KnownGap {
  std::string_view name;
  std::string_view kernel_bounds;
  std::string_view reason;
};
constexpr KnownGap kKnownGaps[] = {
    {"PTS3-0010", "", "silicon's program moved the array twice more"},
    {"SBK2-0005", "", "another layout of the result"},
    {"TG3-reshape.37", "", "which of three tiles silicon ran is not in the data"},
    {"TG3-fusion.191", "", "today's program packs 192 channels into one pass"},
    {"TG3-fusion.191", " 24 ", "today's program packs 192 channels into one pass"},
};

std::vector<double> absolute_errors(const std::vector<ValidatedProgram>& programs, bool with_gaps) {
  std::vector<double> errors;
  for (const ValidatedProgram& program : programs) {
    if (!program.problem.empty() || (!with_gaps && !program.gap.empty())) continue;
    errors.push_back(std::fabs(program.error()));
  }
  return errors;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

void print_row(std::FILE* table, const ValidatedProgram& program) {
  if (!program.problem.empty()) {
    std::fprintf(table, "%-18s %-4s %13.0f  %s\n", printable(program.name).c_str(),
                 program.chip.c_str(), program.silicon_cycles, printable(program.problem).c_str());
    return;
  }
  std::fprintf(table, "%-18s %-4s %13.0f %13llu %+8.2f %%", printable(program.name).c_str(),
               program.chip.c_str(), program.silicon_cycles,
               static_cast<unsigned long long>(program.cycles), 100 * program.error());
  if (program.estimated_cycles > 0) {
    std::fprintf(
        table, " %13llu %+8.2f %%", static_cast<unsigned long long>(program.estimated_cycles),
        100 * (static_cast<double>(program.estimated_cycles) / program.silicon_cycles - 1));
  } else {
    std::fprintf(table, " %13s %10s", "", "");
  }
  std::fprintf(table, "%s%s\n", program.gap.empty() ? "" : "  gap: ", program.gap.c_str());
}

void print_medians(std::FILE* table, const std::vector<ValidatedProgram>& programs) {
  std::vector<double> estimates;
  for (const ValidatedProgram& program : programs) {
    if (!program.problem.empty() || program.estimated_cycles == 0) continue;
    estimates.push_back(
        std::fabs(static_cast<double>(program.estimated_cycles) / program.silicon_cycles - 1));
  }
  std::fprintf(table,
               "median absolute error: %.2f %% over %zu programs, %.2f %% over the %zu without "
               "version gap; XLA's estimate %.2f %% over %zu\n",
               100 * median_error(programs, true), absolute_errors(programs, true).size(),
               100 * median_error(programs, false), absolute_errors(programs, false).size(),
               100 * median(estimates), estimates.size());
}

void print_tilings(std::FILE* table, const ValidatedTilings& tilings) {
  const std::vector<ValidatedProgram>& rows = tilings.tilings;
  std::vector<ValidatedProgram> ran;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(ran),
               [](const ValidatedProgram& program) { return program.problem.empty(); });
  if (ran.empty()) return;
  std::fprintf(table,
               "%s: %zu tilings, rank correlation %.3f, mean absolute error %.2f %%; %zu without "
               "version gap: %.2f %%\n",
               tilings.name.c_str(), ran.size(), rank_correlation(ran), 100 * mean_error(ran, true),
               absolute_errors(ran, false).size(), 100 * mean_error(ran, false));
}

json to_json(const ValidatedProgram& program) {
  json row = {{"name", program.name},
              {"chip", program.chip},
              {"kernel_alone", program.kernel_alone},
              {"silicon_cycles", program.silicon_cycles}};
  if (!program.problem.empty()) {
    row["problem"] = program.problem;
  } else {
    row["cycles"] = program.cycles;
    row["bundle_cycles"] = program.bundle_cycles;
    if (!program.gap.empty()) row["version_gap"] = program.gap;
    row["error"] = program.error();
    row["xla_estimated_cycles"] = program.estimated_cycles;
  }
  return row;
}

void write_json(const std::string& path, const ValidatedFolder& folder) {
  json report = {{"programs", json::array()}, {"tilings", json::array()}};
  for (const ValidatedProgram& program : folder.programs) {
    report["programs"].push_back(to_json(program));
  }
  for (const ValidatedTilings& set : folder.tilings) {
    json rows = json::array();
    for (const ValidatedProgram& tiling : set.tilings) rows.push_back(to_json(tiling));
    report["tilings"].push_back({{"name", set.name}, {"rows", rows}});
  }
  const std::string text = report.dump(1) + "\n";
  if (path == "-") {
    std::cout << text;
    return;
  }
  OutputFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace

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
  const std::vector<double> ours =
      ranks([](const auto& p) { return static_cast<double>(p.cycles); });
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

std::string version_gap(const ValidatedProgram& program, const std::string& kernel,
                        const std::string& kernel_bounds) {
  for (const KnownGap& gap : kKnownGaps) {
    if (gap.name != kernel || gap.kernel_bounds.empty() != kernel_bounds.empty()) continue;
    if (kernel_bounds.find(gap.kernel_bounds) != std::string::npos) return std::string(gap.reason);
  }
  constexpr double kTolerance = 1.02;
  if (static_cast<double>(program.bundle_cycles) > kTolerance * program.silicon_cycles) {
    return "its bundles alone take longer";
  }
  return {};
}

double median_error(const std::vector<ValidatedProgram>& programs, bool with_gaps) {
  return median(absolute_errors(programs, with_gaps));
}

double mean_error(const std::vector<ValidatedProgram>& programs, bool with_gaps) {
  const std::vector<double> errors = absolute_errors(programs, with_gaps);
  if (errors.empty()) return 0;
  return std::accumulate(errors.begin(), errors.end(), 0.0) / static_cast<double>(errors.size());
}

ValidatedFolder validate_folder(const Arguments& arguments, const Row& row) {
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
      program.gap = version_gap(program, program.name, "");
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
  std::FILE* table = arguments.json == "-" ? stderr : stdout;  // JSON may take stdout
  std::fprintf(table, "%-18s %-4s %13s %13s %10s %13s %10s\n", "program", "chip", "silicon", "ours",
               "error", "XLA's", "error");
  const ValidatedFolder folder = validate_folder(arguments, [&](const ValidatedProgram& program) {
    print_row(table, program);
    std::fflush(table);
  });
  print_medians(table, folder.programs);
  for (const ValidatedTilings& set : folder.tilings) print_tilings(table, set);
  if (!arguments.json.empty()) write_json(arguments.json, folder);
  return ExitCode::kDone;
}

}  // namespace tpu::app
