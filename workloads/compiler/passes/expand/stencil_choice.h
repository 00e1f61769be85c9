#pragma once

#include <map>

#include "workloads/compiler/passes/expand/convolution_kernels.h"
#include "workloads/compiler/passes/graph_editor.h"

namespace tpu::compiler {

/// A convolution as numbers: what each plane of the result is made of.
struct Stencil {
  std::int64_t inputs = 1;   ///< Features that a plane of the result reads.
  std::int64_t outputs = 1;  ///< Planes of the result.
  std::int64_t groups = 1;
  /// Positions of the window along each spatial dimension; of the result of a gradient of a
  /// kernel, which is a sum of products of images for each.
  GraphEditor::Extents taps;
  bool is_gradient = false;

  std::int64_t taps_together() const {
    std::int64_t all = 1;
    for (const std::int64_t count : taps) all *= count;
    return all;
  }
  std::int64_t terms() const { return outputs * inputs * taps_together(); }
};

/// Which convolutions of the entry take less as stencils (`convolution_stencils.h`), by what their
/// registers are expected to take and what the searches of kernels expect. Images that a
/// convolution which stays reads or makes, by way of elementwise operations and moves, lie with
/// their features or their batch in the lanes: to take planes out of them, or to put such in,
/// counts for the stencil.
std::map<hlo::InstructionId, Stencil> stencils_that_take_less(const hlo::Module& module,
                                                              const GraphEditor& edit,
                                                              ConvolutionKernels& kernels);

}  // namespace tpu::compiler
