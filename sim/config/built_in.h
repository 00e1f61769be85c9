#pragma once

#include <string_view>
#include <vector>

namespace tpu::config {

/// A file of models/configs or workloads/scenarios that the build put into the program.
struct BuiltInFile {
  std::string_view name;  ///< "v3-8", "chips/v3": the path without ".toml".
  std::string_view text;
};

/// Configurations, sorted by name.
const std::vector<BuiltInFile>& built_in_files();
/// Scenarios, sorted by name.
const std::vector<BuiltInFile>& built_in_scenario_files();

}  // namespace tpu::config
