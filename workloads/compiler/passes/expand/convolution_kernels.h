#pragma once

#include <map>
#include <optional>
#include <string>

#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// What kernels answer about a convolution before layouts are assigned, for either side on which
/// its images may lie (`convolution_layouts.h`).
///
/// An answer takes a search over tilings. Networks repeat their convolutions, and the passes that
/// choose forms, sides and layouts ask about the same ones: equal convolutions are asked once in a
/// compilation.
class ConvolutionKernels {
 public:
  explicit ConvolutionKernels(const Target& target) : target_(target) {}

  /// Whether there is a kernel, with an expression behind it.
  bool has_kernel(const hlo::HloInstruction& convolution, const hlo::Shape& input,
                  const hlo::Shape& window, bool batch_in_lanes);
  /// What the product by itself is expected to take; absent where there is no kernel.
  std::optional<double> cycles(const hlo::HloInstruction& convolution, const hlo::Shape& input,
                               const hlo::Shape& window, bool batch_in_lanes);

  const Target& target() const { return target_; }

 private:
  const Target& target_;
  std::map<std::string, bool> has_kernel_;  ///< By everything but names and operands.
  std::map<std::string, std::optional<double>> cycles_;
};

}  // namespace tpu::compiler
