#include "sim/report/comparison_table.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "sim/base/error.h"
#include "sim/report/published_data.h"
#include "sim/report/text_layout.h"

namespace tpu::report {
namespace {

using Texts = std::vector<std::string>;

std::string number_text(double value) {
  std::array<char, 40> buffer{};
  return {buffer.data(), std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr};
}

/// Six digits of a number that has more, or all before the point; what is no number as it is.
std::string six_digits(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.size() <= 7) return text;
  const bool is_large = std::abs(value) >= 1e5;
  std::array<char, 400> buffer{};
  const auto written = std::to_chars(
      buffer.data(), buffer.data() + buffer.size(), value,
      is_large ? std::chars_format::fixed : std::chars_format::general, is_large ? 0 : 6);
  return written.ec == std::errc() ? std::string(buffer.data(), written.ptr) : text;
}

std::string markdown_cell(std::string text) {
  for (std::size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2)) {
    text.insert(at, "\\");
  }
  return text;
}

/// A GPU's bound for a figure; empty where a data sheet says nothing.
std::string bound_text(const GpuBound& gpu, const std::string& figure) {
  if (figure == "step_time_ms" || figure == "roofline_ms") return number_text(gpu.step_ms);
  if (figure == "examples_per_s") return number_text(gpu.examples_per_s);
  if (figure == "watts_per_chip") return number_text(gpu.watts);
  return "";
}

}  // namespace

std::vector<GpuBound> gpu_bounds(const traces::RunRecord& record, const Summary& summary) {
  const double cores = static_cast<double>(record.result.cores.size());
  const double flops = summary.model_flops * cores;
  const double bytes = static_cast<double>(record.compulsory_hbm_bytes) * cores;
  const double examples = static_cast<double>(record.examples_per_core) * cores;
  std::vector<GpuBound> bounds;
  if (flops <= 0 && bytes <= 0) return bounds;
  for (const Gpu& gpu : gpus()) {
    const double compute = flops / (gpu.tflops_16_bit * 1e12);
    const double memory = bytes / (gpu.gb_per_s * 1e9);
    const double seconds = std::max(compute, memory);
    bounds.push_back({gpu.name, 1e3 * seconds, examples / seconds, gpu.watts,
                      compute >= memory ? "FLOPs" : "bytes"});
  }
  return bounds;
}

std::string gpu_bounds_text(const std::vector<GpuBound>& bounds) {
  if (bounds.empty()) return "";
  std::vector<Texts> rows{{"", "step at least", "examples/s at most", "bound by", "board, W"}};
  for (const GpuBound& gpu : bounds) {
    rows.push_back({gpu.name, short_time(gpu.step_ms), short_number(gpu.examples_per_s),
                    gpu.bound_by, fixed(gpu.watts, 0)});
  }
  return "Bounds of GPUs: peaks of their data sheets, nothing is simulated\n" + columns(rows) +
         "\n";
}

traces::Table comparison_table(const std::vector<traces::RunRecord>& records,
                               const std::vector<Summary>& summaries) {
  const std::vector<ResultRow> results = result_rows(records, summaries);
  const std::vector<ParameterDifference> parameters = differing_parameters(records);
  Texts names, labels;
  for (const ResultRow& row : results) {
    names.push_back(row.name);
    labels.push_back(row.label);
  }
  for (const ParameterDifference& each : parameters) {
    names.push_back(each.path);
    labels.push_back(each.path + (each.unit.empty() ? "" : ", " + each.unit));
  }
  traces::Table table;
  table.add("figure", names).add("what", labels);
  for (std::size_t i = 0; i < records.size(); ++i) {
    Texts cells;
    for (const ResultRow& row : results) {
      cells.push_back(std::isnan(row.values[i]) ? row.missing : number_text(row.values[i]));
    }
    for (const ParameterDifference& each : parameters) cells.push_back(each.values[i]);
    table.add(records[i].config, cells);
  }
  if (records.empty()) return table;
  for (const GpuBound& gpu : gpu_bounds(records[0], summaries[0])) {
    Texts cells;
    for (const std::string& name : names) cells.push_back(bound_text(gpu, name));
    table.add(gpu.name + " (bound)", cells);
  }
  return table;
}

std::string markdown_text(const traces::Table& table) {
  std::string text = "|", line = "|";
  std::vector<const Texts*> columns;
  for (const traces::Table::NamedColumn& column : table.columns()) {
    const auto* cells = std::get_if<Texts>(&column.values);
    TPU_CHECK(cells != nullptr, "column " << column.name << " is no text");
    line += columns.size() < 2 ? "---|" : "--:|";
    columns.push_back(cells);
    text += " " + markdown_cell(column.name) + " |";
  }
  text += "\n" + line + "\n";
  for (std::size_t row = 0; row < table.rows(); ++row) {
    text += "|";
    for (const Texts* cells : columns)
      text += " " + markdown_cell(six_digits((*cells)[row])) + " |";
    text += "\n";
  }
  return text;
}

}  // namespace tpu::report
