#pragma once

#include <cstddef>
#include <cstdint>

#include "workloads/graph/graph.h"

namespace tpu::hlo {

/// A module with wider products.
struct WidenedModule {
  Module module;
  std::size_t widened = 0;  ///< Extents of dots and convolutions that have grown.
  std::size_t kept = 0;     ///< Those that are padded as before.
};

/// The module with the extents of its dots and convolutions rounded up: what is contracted and the
/// columns to `multiple`, the rows to `rows`, a divisor of it. An extent grows wherever it goes,
/// through elementwise operations, transposes, reductions, loops and calls up to the parameters and
/// results. What the program says of it in numbers keeps it as it is: the values of a constant, a
/// slice or pad of a part, a reshape that joins or splits it, a window, a scatter. The result is a
/// step of the same operations without that padding; it computes other numbers.
WidenedModule widen_products(const Module& module, std::int64_t multiple, std::int64_t rows);

}  // namespace tpu::hlo
