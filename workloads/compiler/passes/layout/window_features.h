#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "workloads/compiler/passes/expand/convolution_kernels.h"
#include "workloads/compiler/passes/expand/convolution_steps.h"

namespace tpu::compiler {

/// A convolution with its batch in the rows of tiles, in the form that takes least.
struct RowsForm {
  std::vector<std::size_t> joined;  ///< Dimensions that join_phases() takes the steps of.
  double cycles = 0;  ///< With what moving the input takes more than making it as it is.
  double spared = 0;  ///< Of the latter, what is not made: counted in `cycles`.
};

/// Whether the phases of a stride should be features ("space to depth"). With the features in the
/// lanes each position of the window is a step of the matrix unit that uses as many of its rows as
/// there are features, 3 of 128 at the first layer of most image networks; with the pixels of a
/// stride of two in each direction among the features it is four times as many, about a quarter of
/// the positions, and an array that is hardly larger than what the features are in.
///
/// What the kernels' searches expect, of the forward convolution or of the gradient of a kernel;
/// the input's way from HBM and back where it is moved, less the array that need not be made where
/// nothing but moves would have made it. None where no form has a kernel.
std::optional<RowsForm> form_in_rows(const hlo::Computation& computation,
                                     const hlo::HloInstruction& convolution,
                                     ConvolutionKernels& kernels);

/// Makes features of the phases of these dimensions.
GraphEditor::Id join_phases(GraphEditor& edit, hlo::HloInstruction convolution,
                            const std::vector<std::size_t>& dimensions,
                            const EmitConvolution& emit);

}  // namespace tpu::compiler
