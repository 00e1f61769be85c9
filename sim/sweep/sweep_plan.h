#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace tpu::sweep {

/// What a sweep may set, by kind.
struct SettingNames {
  std::vector<std::string> flags;       ///< Of `tpusim run`, without dashes: "batch", "shape".
  std::vector<std::string> parameters;  ///< Of configurations: "core.mxu.count".
};

/// One run of a sweep: settings by name, as text.
struct Point {
  std::vector<std::pair<std::string, std::string>> settings;  ///< In the order of Plan::names.

  /// The value of a setting; empty where the point has none.
  std::string value(const std::string& name) const;
  /// The command line that is this point: "run", WORKLOAD, "--batch", "256", "--set", ...
  std::vector<std::string> words(const SettingNames& known) const;
};

/// The points of a sweep, in the order in which tables show them.
struct Plan {
  std::string file;
  std::vector<std::string> names;  ///< All settings that occur, in the order of the file.
  std::vector<Point> points;
};

/// Reads a sweep: settings at the top level hold for every point, `[grid]` (or several `[[grid]]`)
/// makes every combination of its lists, the last one changing fastest, each `[[points]]` is a
/// point of its own. A name is a flag of `tpusim run`, "workload" or a parameter of configurations,
/// dotted as key or as tables. Throws ConfigurationError with file, line and column.
Plan read_plan(const std::string& file, const SettingNames& known);

/// The same for a text; `file` names it in errors.
Plan parse_plan(const std::string& text, const std::string& file, const SettingNames& known);

/// The points of a share of the work: every n-th, from the i-th on (both count from 1).
std::vector<std::size_t> shard(std::size_t points, std::size_t i, std::size_t n);

}  // namespace tpu::sweep
