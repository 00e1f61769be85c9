#pragma once

#include <optional>
#include <string>

#include "models/params.h"

namespace tpu::config {

/// A setting of one part of the slice: `chip[3].clock_mhz=470`, `host[3].vcpus=4`,
/// `link[0-1].gb_per_s=10` (0: it is broken). The parameter that holds it, and its text with this
/// setting in it.
struct PartSetting {
  std::string path;
  std::string text;
};

/// Nothing when `name` is no name of a part. Throws ConfigurationError that begins with `flag`.
std::optional<PartSetting> part_setting(const MachineParams& params, const std::string& name,
                                        const std::string& value, const std::string& flag);

}  // namespace tpu::config
