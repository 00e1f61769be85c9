#pragma once

#include <cstdint>

#include "models/machine.h"

namespace tpu {

/// Bundles that a core issues one behind the other, each in the cycle behind the delay of the one
/// before.
struct IssuedBundles {
  std::uint32_t core = 0;
  std::uint32_t op = ~std::uint32_t{0};  ///< Of the program; or of none.
  std::uint32_t kernel = 0;
  std::uint32_t first = 0;
  std::uint32_t end = 0;
  std::uint64_t cycle = 0;  ///< In which the first one issues.
};

/// An observer that is told of bundles, too, of each core that is simulated (of a class of cores,
/// its representative). A core hands them on as it executes them: what it waited for before is told
/// before.
class BundleObserver : public Observer {
 public:
  virtual void on_bundles(const IssuedBundles& bundles) = 0;
};

}  // namespace tpu
