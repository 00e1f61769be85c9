#pragma once

#include <string>

#include "tests/compiler/hlo_check.h"

namespace tpu::test {

/// A module of one gather of these shapes.
inline std::string gather(const std::string& array, const std::string& indices,
                          const std::string& result, const std::string& attributes) {
  return "HloModule g\nENTRY main {\n  x = " + array + " parameter(0)\n  i = " + indices +
         " parameter(1)\n  ROOT r = " + result + " gather(x, i), " + attributes + "\n}\n";
}

/// Its numbers lie between these.
inline HloCheck indices(double least, double most) {
  HloCheck check;
  check.least = least;
  check.most = most;
  return check;
}

}  // namespace tpu::test
