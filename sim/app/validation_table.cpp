#include "sim/app/validation_table.h"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "sim/base/output_file.h"
#include "sim/report/json_report.h"

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

/// As printf.
template <class... Values>
std::string formatted(const char* format, Values... values) {
  std::string text(static_cast<std::size_t>(std::snprintf(nullptr, 0, format, values...)), ' ');
  std::snprintf(text.data(), text.size() + 1, format, values...);
  return text;
}

}  // namespace

void ValidationTable::print_header(std::uint32_t phases) const {
  out_ << "ours: least, mean and most over " << phases
       << " phases of the refresh; error of the mean\n"
       << formatted("%-14s %-4s %9s %9s %11s %9s %8s %8s\n", "program", "chip", "silicon", "least",
                    "mean", "most", "error %", "XLA's");
}

void ValidationTable::print_row(const ValidatedProgram& program) const {
  out_ << formatted("%-14s %-4s %9.0f", program.name.c_str(), program.chip.c_str(),
                    program.silicon_cycles);
  if (!program.problem.empty()) {
    out_ << "   " << program.problem << std::endl;
    return;
  }
  out_ << formatted(" %9llu %11.1f %9llu %+8.2f", static_cast<unsigned long long>(program.least()),
                    program.mean(), static_cast<unsigned long long>(program.most()),
                    100 * program.error());
  if (program.estimated_cycles > 0) out_ << formatted(" %+8.2f", 100 * estimate_error(program));
  if (program.short_run) out_ << "   ± a refresh";
  if (!program.excluded.empty()) out_ << "   not kept: " << program.excluded;
  out_ << std::endl;
}

void ValidationTable::print_errors(const std::string& name, const ErrorSummary& all,
                                   const ErrorSummary& kept) const {
  for (const ErrorSummary* summary : {&all, &kept}) {
    out_ << formatted("%-34s %6zu %9.2f %% %9.2f %% %9.2f %%\n",
                      (name + (summary == &all ? "" : ", kept")).c_str(), summary->rows,
                      100 * summary->median, 100 * summary->mean, 100 * summary->worst);
  }
}

void ValidationTable::print_tilings(const ValidatedTilings& tilings) const {
  std::vector<ValidatedProgram> all;
  std::copy_if(tilings.tilings.begin(), tilings.tilings.end(), std::back_inserter(all),
               [](const ValidatedProgram& program) { return program.problem.empty(); });
  if (all.empty()) return;
  std::vector<ValidatedProgram> kept;
  std::copy_if(all.begin(), all.end(), std::back_inserter(kept),
               [](const ValidatedProgram& program) { return program.excluded.empty(); });
  print_errors("tilings of " + tilings.name, summarize_errors(all, Rows::kAll),
               summarize_errors(all, Rows::kKept));
  out_ << formatted("  rank correlation with silicon: %.3f over all, %.3f over the kept\n",
                    rank_correlation(all), rank_correlation(kept));
}

void ValidationTable::print_summaries(const ValidatedFolder& folder) const {
  out_ << formatted("\n%-34s %6s %11s %11s %11s\n", "absolute errors", "rows", "median", "mean",
                    "worst");
  if (!folder.programs.empty()) {
    print_errors("programs, ours", summarize_errors(folder.programs, Rows::kAll),
                 summarize_errors(folder.programs, Rows::kKept));
    print_errors("programs, XLA's estimate", summarize_estimates(folder.programs, Rows::kAll),
                 summarize_estimates(folder.programs, Rows::kKept));
  }
  for (const ValidatedTilings& set : folder.tilings) print_tilings(set);
}

void write_validation_json(const std::string& path, const ValidatedFolder& folder) {
  json all = {{"schema_version", report::kJsonSchemaVersion}};
  all["programs"] = rows_of(folder.programs);
  all["errors"] = {{"all", to_json(summarize_errors(folder.programs, Rows::kAll))},
                   {"kept", to_json(summarize_errors(folder.programs, Rows::kKept))}};
  all["tilings"] = json::array();
  for (const ValidatedTilings& set : folder.tilings) {
    all["tilings"].push_back({{"name", set.name},
                              {"errors",
                               {{"all", to_json(summarize_errors(set.tilings, Rows::kAll))},
                                {"kept", to_json(summarize_errors(set.tilings, Rows::kKept))}}},
                              {"rows", rows_of(set.tilings)}});
  }
  const std::string text = all.dump(1) + "\n";
  if (path == "-") {
    std::cout << text;
    return;
  }
  OutputFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace tpu::app
