#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/params.h"

namespace tpu::config {

/// A quantity that users think in, which is no parameter but sets one.
struct DerivedSetting {
  std::string_view name;  ///< "hbm.gb_per_s".
  std::string_view path;  ///< The parameter that it sets: "hbm.pin_mbps".
  std::string_view help;
  /// The parameter's value on a machine.
  double (*value)(const MachineParams& params, double quantity);
};

const std::vector<DerivedSetting>& derived_settings();

/// The quantity of that name; nullptr where there is none.
const DerivedSetting* derived_setting(std::string_view name);

}  // namespace tpu::config
