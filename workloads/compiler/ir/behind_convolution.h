#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "workloads/compiler/ir/kernel_forms.h"

namespace tpu::compiler {

/// What an expression behind a convolution reads and makes beside its first result: arrays of the
/// convolution's extent, and what stays in VMEM, in its rows.
struct BehindConvolution {
  bool has_expression = true;
  std::vector<hlo::ElementType> read, made;
  std::uint64_t resident_rows = 0;
};

/// What the search for the kernel of a convolution whose arrays lie like this expects, with such an
/// expression behind it that makes `result`; absent where it finds none. Of the expression it
/// counts the arrays, not the vector unit's work.
std::optional<double> convolution_cycles(const hlo::HloInstruction& convolution,
                                         const hlo::Shape& input, const hlo::Shape& window,
                                         const hlo::Shape& result, const BehindConvolution& behind,
                                         const Target& target);

}  // namespace tpu::compiler
