#include "sim/app/validation_table.h"

#include <algorithm>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "sim/app/printable_stream.h"
#include "sim/base/output_file.h"

namespace tpu::app {
namespace {

using nlohmann::json;

double estimate_error(const ValidatedProgram& program) {
  return static_cast<double>(program.estimated_cycles) / program.silicon_cycles - 1;
}

json to_json(const ErrorSummary& summary) {
  return {{"rows", summary.rows},
          {"median", summary.median},
          {"mean", summary.mean},
          {"worst", summary.worst}};
}

json to_json(const ValidatedProgram& program) {
  json row = {{"name", program.name},
              {"chip", program.chip},
              {"kernel_alone", program.kernel_alone},
              {"silicon_cycles", program.silicon_cycles}};
  if (!program.excluded.empty()) row["excluded"] = program.excluded;
  if (!program.problem.empty()) {
    row["problem"] = program.problem;
    return row;
  }
  row["cycles"] = {{"least", program.least()},
                   {"mean", program.mean()},
                   {"most", program.most()},
                   {"phases", program.cycles}};
  row["bundle_cycles"] = program.bundle_cycles;
  row["error"] = program.error();
  row["plus_minus_a_refresh"] = program.short_run;
  row["xla_estimated_cycles"] = program.estimated_cycles;
  return row;
}

json rows_of(const std::vector<ValidatedProgram>& programs) {
  json rows = json::array();
  for (const ValidatedProgram& program : programs) rows.push_back(to_json(program));
  return rows;
}

}  // namespace

void ValidationTable::print_header(std::uint32_t phases) const {
  std::fprintf(out_,
               "ours: least, mean and most over %u phases of the refresh; error of the mean\n",
               phases);
  std::fprintf(out_, "%-15s %-4s %11s %11s %13s %11s %10s %10s\n", "program", "chip", "silicon",
               "least", "mean", "most", "error", "XLA's");
}

void ValidationTable::print_row(const ValidatedProgram& program) const {
  std::fprintf(out_, "%-15s %-4s %11.0f", printable(program.name).c_str(), program.chip.c_str(),
               program.silicon_cycles);
  if (!program.problem.empty()) {
    std::fprintf(out_, "  %s\n", printable(program.problem).c_str());
    return;
  }
  std::fprintf(out_, " %11llu %13.1f %11llu %+8.2f %%",
               static_cast<unsigned long long>(program.least()), program.mean(),
               static_cast<unsigned long long>(program.most()), 100 * program.error());
  if (program.estimated_cycles > 0) {
    std::fprintf(out_, " %+8.2f %%", 100 * estimate_error(program));
  } else {
    std::fprintf(out_, " %10s", "");
  }
  std::fprintf(out_, "%s%s%s\n", program.short_run ? "  ± a refresh" : "",
               program.excluded.empty() ? "" : "  not kept: ", program.excluded.c_str());
  std::fflush(out_);
}

void ValidationTable::print_errors(const char* name, const ErrorSummary& all,
                                   const ErrorSummary& kept) const {
  std::fprintf(out_, "%-26s", name);
  for (const ErrorSummary& summary : {all, kept}) {
    std::fprintf(out_, " %6zu %7.2f %% %7.2f %% %7.2f %%", summary.rows, 100 * summary.median,
                 100 * summary.mean, 100 * summary.worst);
  }
  std::fprintf(out_, "\n");
}

void ValidationTable::print_tilings(const ValidatedTilings& tilings) const {
  std::vector<ValidatedProgram> all;
  std::copy_if(tilings.tilings.begin(), tilings.tilings.end(), std::back_inserter(all),
               [](const ValidatedProgram& program) { return program.problem.empty(); });
  if (all.empty()) return;
  std::vector<ValidatedProgram> kept;
  std::copy_if(all.begin(), all.end(), std::back_inserter(kept),
               [](const ValidatedProgram& program) { return program.excluded.empty(); });
  print_errors(("tilings of " + tilings.name).c_str(), summarize_errors(all, Rows::kAll),
               summarize_errors(all, Rows::kKept));
  std::fprintf(out_, "  rank correlation with silicon: %.3f over all, %.3f over the kept\n",
               rank_correlation(all), rank_correlation(kept));
}

void ValidationTable::print_summaries(const ValidatedFolder& folder) const {
  std::fprintf(out_, "\n%-26s %38s %39s\n", "absolute errors", "all rows", "kept rows");
  std::fprintf(out_, "%-26s", "");
  for (int side = 0; side < 2; ++side) {
    std::fprintf(out_, " %6s %9s %9s %9s", "rows", "median", "mean", "worst");
  }
  std::fprintf(out_, "\n");
  if (!folder.programs.empty()) {
    print_errors("programs, ours", summarize_errors(folder.programs, Rows::kAll),
                 summarize_errors(folder.programs, Rows::kKept));
    print_errors("programs, XLA's estimate", summarize_estimates(folder.programs, Rows::kAll),
                 summarize_estimates(folder.programs, Rows::kKept));
  }
  for (const ValidatedTilings& set : folder.tilings) print_tilings(set);
}

void write_validation_json(const std::string& path, const ValidatedFolder& folder) {
  json report;
  report["programs"] = rows_of(folder.programs);
  report["errors"] = {{"all", to_json(summarize_errors(folder.programs, Rows::kAll))},
                      {"kept", to_json(summarize_errors(folder.programs, Rows::kKept))}};
  report["tilings"] = json::array();
  for (const ValidatedTilings& set : folder.tilings) {
    report["tilings"].push_back({{"name", set.name},
                                 {"errors",
                                  {{"all", to_json(summarize_errors(set.tilings, Rows::kAll))},
                                   {"kept", to_json(summarize_errors(set.tilings, Rows::kKept))}}},
                                 {"rows", rows_of(set.tilings)}});
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

}  // namespace tpu::app
