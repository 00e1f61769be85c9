#include "workloads/compiler/passes/window_features.h"

#include <algorithm>

#include "isa/instruction.h"
#include "sim/base/ceil_divide.h"
#include "workloads/compiler/cost.h"
#include "workloads/compiler/passes/convolution_arrays.h"
#include "workloads/compiler/passes/convolution_steps.h"

namespace tpu::compiler {

using hlo::HloInstruction;
using hlo::WindowDimension;

namespace {

/// What the copies have to be worth: their estimate leaves out that lanes move one by one.
constexpr double kWorthwhile = 2;

/// A convolution, or the gradient of a kernel, as steps of the matrix unit.
struct MatrixSteps {
  double positions = 1;  ///< Of the window, or of the gradient's result.
  double meetings = 1;   ///< Pixels that meet each of them.
  double pixels = 1;     ///< Of the input.
  std::int64_t batch = 0, features = 0, columns = 0;

  double cycles(const Target& target) const {
    return positions * meetings * double(ceil_divide<std::int64_t>(features, target.mxu_rows)) *
           double(round_up(batch, isa::kSublanes)) *
           double(ceil_divide<std::int64_t>(columns, target.mxu_columns)) / target.mxu_count;
  }
  double input_bytes(hlo::ElementType type) const {
    return pixels * double(round_up(batch, isa::kSublanes)) *
           double(round_up(features, isa::kLanes)) * double(hlo::byte_size(type));
  }
};

MatrixSteps steps_of(const GraphEditor& edit, const HloInstruction& convolution, bool gradient) {
  const hlo::ConvolutionDimensions& dims = convolution.convolution;
  const hlo::Shape& input = edit.shape(convolution.operands[0]);
  MatrixSteps steps;
  steps.batch = extent_of(input, gradient ? dims.input_feature : dims.input_batch);
  steps.features = extent_of(input, gradient ? dims.input_batch : dims.input_feature);
  steps.columns = extent_of(convolution.shape, dims.output_feature);
  for (std::size_t i = 0; i < convolution.window.size(); ++i) {
    const std::int64_t results = extent_of(convolution.shape, dims.output_spatial[i]);
    const std::int64_t window = convolution.window[i].size;
    steps.positions *= double(gradient ? results : window);
    steps.meetings *= double(gradient ? window : results);
    steps.pixels *= double(extent_of(input, dims.input_spatial[i]));
  }
  return steps;
}

}  // namespace

std::optional<std::size_t> phases_that_fill_rows(const GraphEditor& edit,
                                                 const HloInstruction& convolution,
                                                 const Target& target) {
  const bool gradient = has_large_window(convolution);
  const MatrixSteps now = steps_of(edit, convolution, gradient);
  const hlo::ElementType type = edit.shape(convolution.operands[0]).type;
  std::optional<std::size_t> best;
  double most = 0;
  for (std::size_t i = 0; i < convolution.window.size(); ++i) {
    const WindowDimension& w = convolution.window[i];
    const std::int64_t step = gradient ? w.window_dilation : w.stride;
    if (step == 1 || !has_phases(w)) continue;
    const std::int64_t positions =
        gradient ? extent_of(convolution.shape, convolution.convolution->output_spatial[i])
                 : w.size;
    MatrixSteps then = now;
    then.positions *= double(ceil_divide(positions, step)) / double(positions);
    then.pixels /= double(step);
    then.features *= step;
    const double bytes = now.input_bytes(type) + then.input_bytes(type);
    const double gain =
        now.cycles(target) - then.cycles(target) -
        kWorthwhile * bytes / std::min(target.hbm_bytes_per_cycle, kTurnedBytesPerCycle);
    if (gain > most) most = gain, best = i;
  }
  return best;
}

}  // namespace tpu::compiler
