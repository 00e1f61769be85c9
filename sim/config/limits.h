#pragma once

#include <string_view>

namespace tpu::config {

/// The range of a numeric parameter, both ends included.
struct Limits {
  std::string_view path;
  double minimum;
  double maximum;
  std::string_view reason;  ///< Why not beyond it; may be empty.
};

/// The limits of a parameter; nullptr where there are none.
const Limits* limits_of(std::string_view path);

}  // namespace tpu::config
