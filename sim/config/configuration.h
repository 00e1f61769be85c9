#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "models/params.h"

namespace tpu::config {

/// Where the value of a parameter was set and what stands behind it.
struct ParameterOrigin {
  std::string where;   ///< "chips/v3.toml:12:1" or "--set hbm.pin_mbps=2000"; "" = the default.
  std::string source;  ///< The comment behind the value.
};

/// A machine and, for each parameter by its dotted path, where its value comes from.
struct Configuration {
  MachineParams params;
  std::map<std::string, ParameterOrigin> origins;
  std::vector<std::string> files;  ///< That were read, with the bases; none for built-in names.
};

/// Names of the built-in machines: "v2-8", "v3-8", ...
std::vector<std::string> built_in_names();
/// Names of the built-in parts that a file may take as a base: "chips/v3", "hosts/kaggle", ...
std::vector<std::string> built_in_parts();

/// Reads a configuration: a built-in name, or a file whose name ends in ".toml". A file may name
/// one or several bases (`base = "v3-8"`, `base = ["v3-8", "hosts/kaggle"]`: built-in names, or
/// files relative to it), which are read first. Throws ConfigurationError.
Configuration load_configuration(const std::string& name_or_file);

/// The same for a text; `file` names it in errors and is where relative bases start.
Configuration parse_configuration(const std::string& text, const std::string& file);

/// What apply_setting() takes: paths of parameters, and quantities that set one (`hbm.gb_per_s`).
std::vector<std::string> setting_names();

/// Applies "hbm.pin_mbps=2000". Ranges are checked by check().
void apply_setting(Configuration& configuration, const std::string& assignment);

/// Checks ranges and what has to fit together.
void check(const Configuration& configuration);

/// The effective parameters as a configuration file, with unit, help and source behind each value;
/// in lines of the width where one is given, which reads back the same.
std::string to_toml(const Configuration& configuration, std::size_t width = 0);

}  // namespace tpu::config
