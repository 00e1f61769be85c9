#pragma once

#include <string_view>
#include <vector>

namespace tpu::config {

/// A configuration file of models/configs that the build put into the program.
struct BuiltInFile {
  std::string_view name;  ///< "v3-8", "chips/v3": the path without ".toml".
  std::string_view text;
};

/// Sorted by name.
const std::vector<BuiltInFile>& built_in_files();

}  // namespace tpu::config
