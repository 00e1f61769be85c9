#include "sim/sweep/sweep_table.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>

#include "sim/base/error.h"
#include "sim/base/output_file.h"
#include "sim/sweep/sweep_page.h"
#include "traces/csv.h"

namespace tpu::sweep {
namespace {

using Results = std::vector<std::optional<PointResult>>;

template <class Number>
bool parse_all(const std::vector<std::string>& texts, std::vector<Number>& numbers) {
  for (const std::string& text : texts) {
    Number number{};
    const char* end = text.data() + text.size();
    const auto result = std::from_chars(text.data(), end, number);
    if (result.ec != std::errc() || result.ptr != end) return false;
    numbers.push_back(number);
  }
  return true;
}

void add_setting(const Plan& plan, const std::string& name, traces::Table& table) {
  std::vector<std::string> texts;
  for (const Point& point : plan.points) texts.push_back(point.value(name));
  std::vector<std::uint64_t> whole;
  std::vector<double> real;
  if (parse_all(texts, whole)) {
    table.add(name, std::move(whole));
  } else if (parse_all(texts, real)) {
    table.add(name, std::move(real));
  } else {
    table.add(name, std::move(texts));
  }
}

/// The figures of all results, in the order of the first that has them.
std::vector<std::string> figure_names(const Results& results) {
  std::vector<std::string> names;
  for (const std::optional<PointResult>& result : results) {
    if (!result) continue;
    for (const auto& [name, value] : result->figures) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

double figure(const std::optional<PointResult>& result, const std::string& name) {
  if (result) {
    for (const auto& [known, value] : result->figures) {
      if (known == name) return value;
    }
  }
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

traces::Table sweep_table(const Plan& plan, const Results& results) {
  traces::Table table;
  std::vector<std::uint64_t> number;
  std::vector<std::string> state, error;
  for (const std::optional<PointResult>& result : results) {
    number.push_back(number.size() + 1);
    state.emplace_back(!result ? "missing" : result->error.empty() ? "done" : "failed");
    error.push_back(result ? result->error : "");
  }
  table.add("point", std::move(number));
  for (const std::string& name : plan.names) add_setting(plan, name, table);
  table.add("state", std::move(state)).add("error", std::move(error));
  for (const std::string& name : figure_names(results)) {
    std::vector<double> values;
    for (const auto& result : results) values.push_back(figure(result, name));
    table.add(name, std::move(values));
  }
  return table;
}

void check_table_name(const std::string& path) {
  const std::string ending = std::filesystem::path(path).extension().string();
  if (ending == ".csv" || ending == ".h5" || ending == ".html") return;
  throw UsageError("-o " + path + ": expected a name that ends in .csv, .h5 or .html");
}

void write_sweep_table(const std::string& path, const Plan& plan, const traces::Table& table) {
  check_table_name(path);
  if (std::filesystem::path(path).extension() == ".h5") {
    traces::Hdf5Contents contents;
    contents.tables["points"] = table;
    traces::write_hdf5(path, {"sweep", 1}, contents);
    return;
  }
  const bool is_page = std::filesystem::path(path).extension() == ".html";
  OutputFile file(path);
  file.write(is_page ? sweep_html(plan, table) : traces::csv_text(table));
  file.commit();
}

}  // namespace tpu::sweep
