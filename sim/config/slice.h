#pragma once

#include <string>

#include "sim/config/configuration.h"

namespace tpu::config {

/// Makes the machine a slice of so many chips: "4x8", "4x4x8". A dimension is a ring where it is as
/// long as a pod of the generation, as the real slices are wired. Throws UsageError.
void apply_topology(Configuration& configuration, const std::string& text);

}  // namespace tpu::config
