#include "traces/what_if_table.h"

#include "traces/program_tables.h"

namespace tpu::traces {

Table what_if_table(const std::vector<WhatIf>& rows) {
  Table table;
  table.add("name", column_of<std::string>(rows, [](auto& w) { return w.name; }))
      .add("settings", column_of<std::string>(rows, [](auto& w) { return w.settings; }))
      .add("step_time_ms", column_of<double>(rows, [](auto& w) { return w.step_ms; }))
      .add("examples_per_s", column_of<double>(rows, [](auto& w) { return w.examples_per_s; }))
      .add("problem", column_of<std::string>(rows, [](auto& w) { return w.problem; }))
      .add("model_flops", column_of<std::uint64_t>(rows, [](auto& w) { return w.model_flops; }))
      .add("as_it_is_ms", column_of<double>(rows, [](auto& w) { return w.as_it_is_ms; }));
  return table;
}

std::vector<WhatIf> what_if_of(const Table& table) {
  std::vector<WhatIf> rows(table.rows());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i] = {
        table.column<std::string>("name")[i],    table.column<std::string>("settings")[i],
        table.column<double>("step_time_ms")[i], table.column<double>("examples_per_s")[i],
        table.column<std::string>("problem")[i], table.column<std::uint64_t>("model_flops")[i],
        table.column<double>("as_it_is_ms")[i]};
  }
  return rows;
}

}  // namespace tpu::traces
