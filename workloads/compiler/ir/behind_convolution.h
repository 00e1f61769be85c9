#pragma once

#include <cstdint>
#include <vector>

#include "workloads/compiler/ir/kernel_forms.h"

namespace tpu::compiler {

/// What an expression behind a convolution reads and makes beside its first result: arrays of the
/// convolution's extent, and what stays in VMEM, in its rows.
struct BehindConvolution {
  std::vector<hlo::ElementType> read, made;
  std::uint64_t resident_rows = 0;
};

/// Whether there is a kernel for a convolution whose arrays lie like this, and for such an
/// expression behind it that makes `result`.
bool has_convolution_kernel(const hlo::HloInstruction& convolution, const hlo::Shape& input,
                            const hlo::Shape& window, const hlo::Shape& result,
                            const BehindConvolution& behind, const Target& target);

}  // namespace tpu::compiler
