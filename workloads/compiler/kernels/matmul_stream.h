#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "workloads/compiler/codegen/kernel_builder.h"

namespace tpu::compiler {

/// A sequence of steps in each of which every MXU multiplies some pushes of eight rows by the
/// weights of the step, while the weights of the next step load. Results are popped a latency
/// later, so that the last ones of a step come out during the next one: a loop over steps keeps the
/// MXUs busy across its iterations.
class MatmulStream {
 public:
  /// What a step multiplies and what becomes of the results.
  struct Step {
    std::uint32_t pushes = 0;  ///< Per MXU; the same for all steps of a stream.
    bool transposed = false;   ///< Weights are pushed transposed.
    /// Eight rows for push i of an MXU.
    std::function<VReg(std::uint32_t mxu, std::uint32_t i)> rows;
    /// Push j of 16 of the next step's weights: rows 127 - 8 j down to 120 - 8 j of the tile.
    std::function<VReg(std::uint32_t mxu, std::uint32_t j)> next_weights;
    /// Takes result i of this step, or of the step before when `previous`.
    std::function<void(std::uint32_t mxu, std::uint32_t i, bool previous, VReg result)> consume;
  };

  MatmulStream(KernelBuilder& builder, std::uint32_t mxus, std::uint32_t pushes);

  /// Loads the weights of the first step. The results that the first step takes as those of the
  /// step before are zeros times the weights.
  void begin(const Step& step);
  /// Emits one step.
  void step(const Step& step);
  /// Takes the results of the last step that are still to come.
  void end(const Step& step);
  /// Empties the staging areas of the weights that the last step loaded for nobody. Once, at the
  /// end of the kernel.
  void close();

 private:
  static constexpr std::uint32_t kWeightPushes = 16;
  void push_weights(const Step& step, std::uint32_t j);

  KernelBuilder& builder_;
  std::uint32_t mxus_;
  std::uint32_t pushes_;
  std::uint32_t lag_;
};

}  // namespace tpu::compiler
