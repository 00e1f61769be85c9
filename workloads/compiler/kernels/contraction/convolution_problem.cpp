#include "workloads/compiler/kernels/contraction/convolution_problem.h"

#include <algorithm>
#include <functional>
#include <sstream>
#include <utility>

#include "isa/instruction.h"
#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/kernels/elementwise/expression_graph.h"

namespace tpu::compiler {

using hlo::ElementType;
using hlo::Shape;

namespace {

std::string describe(const hlo::HloInstruction& convolution, const Shape& input,
                     const Shape& window) {
  std::ostringstream text;
  text << "convolution " << convolution.name << " of " << hlo::to_string(input) << " and "
       << hlo::to_string(window) << ", window";
  for (const hlo::WindowDimension& w : convolution.window) {
    text << " {size " << w.size << ", stride " << w.stride << ", padding " << w.padding_low << "_"
         << w.padding_high << ", base dilation " << w.base_dilation << ", window dilation "
         << w.window_dilation << (w.reversal ? ", reversed" : "") << "}";
  }
  return text.str();
}

bool has_kernel_type(const Shape& shape, std::int64_t rank) {
  return shape.rank() == rank &&
         (shape.type == ElementType::kF32 || shape.type == ElementType::kBf16);
}

/// The spatial dimensions stand outermost, in order.
bool spatial_outermost(const Shape& shape, const std::vector<std::int64_t>& spatial) {
  const std::vector<std::int64_t> order = major_to_minor(shape);
  return std::equal(spatial.begin(), spatial.end(), order.begin());
}

/// The spatial dimensions stand between the batch and the features.
bool spatial_inside(const Shape& shape, std::int64_t batch,
                    const std::vector<std::int64_t>& spatial, std::int64_t features) {
  std::vector<std::int64_t> order{batch};
  order.insert(order.end(), spatial.begin(), spatial.end());
  order.push_back(features);
  return order == major_to_minor(shape);
}

std::int64_t extent_of(const Shape& shape, std::int64_t dimension) {
  return shape.dimensions[static_cast<std::size_t>(dimension)];
}

std::int64_t lane(const Shape& shape) { return major_to_minor(shape).back(); }

/// Which of the three products it is, by what lies in the lanes. With the contracted dimension in
/// the lanes of both operands it is an input gradient or a weight gradient with its batch there:
/// the latter slides the large window over few positions.
void find_order(ConvolutionProblem& problem, const hlo::HloInstruction& convolution,
                const Shape& input, const Shape& window, const Shape& out) {
  const hlo::ConvolutionDimensions& dims = convolution.convolution;
  problem.window_transposed = lane(window) == dims.kernel_input_feature;
  const bool input_batch_minor = lane(input) == dims.input_batch;
  if (lane(out) == dims.output_batch) {
    problem.batch_in_lanes = input_batch_minor;
    return;
  }
  problem.contracts_rows = input_batch_minor;
  if (input_batch_minor || !problem.window_transposed) return;
  if (dims.input_batch < dims.input_feature) return;  // Images with the batch in the rows.
  std::int64_t positions = 1, pixels = 1;
  for (std::size_t i = 0; i < 2; ++i) {
    positions *= extent_of(window, dims.kernel_spatial[i]);
    pixels *= extent_of(out, dims.output_spatial[i]);
    if (convolution.window[i].base_dilation > 1 || convolution.window[i].reversal) return;
  }
  if (positions <= pixels) return;
  problem.contracts_rows = problem.batch_in_lanes = true;
  problem.window_transposed = false;
}

/// Depthwise convolutions; false: other groups.
bool find_groups(ConvolutionProblem& problem, const hlo::HloInstruction& convolution,
                 const Shape& input, const Shape& window, const Shape& out) {
  const hlo::ConvolutionDimensions& dims = convolution.convolution;
  const std::int64_t features = extent_of(out, dims.output_feature);
  problem.is_depthwise = true;
  problem.contracts_rows = convolution.batch_group_count != 1;
  problem.columns = static_cast<std::uint32_t>(features);
  const std::int64_t batch = problem.contracts_rows ? dims.input_feature : dims.input_batch;
  const std::int64_t own = problem.contracts_rows ? dims.input_batch : dims.input_feature;
  problem.rows = static_cast<std::uint32_t>(extent_of(input, batch));
  problem.batch_in_lanes = lane(input) == batch;
  if (extent_of(input, own) != features) return false;
  if (problem.contracts_rows) {
    return convolution.batch_group_count == features && convolution.feature_group_count == 1 &&
           lane(out) == dims.output_feature &&
           (lane(window) == dims.kernel_input_feature) == problem.batch_in_lanes;
  }
  return convolution.feature_group_count == features && convolution.batch_group_count == 1 &&
         lane(window) == dims.kernel_output_feature &&
         (lane(out) == dims.output_batch) == problem.batch_in_lanes;
}

/// The spatial dimensions and the types; what was expected, where that is not so.
std::string find_spatial(ConvolutionProblem& problem, const hlo::HloInstruction& convolution,
                         const Shape& input, const Shape& window, const Shape& out) {
  const hlo::ConvolutionDimensions& dims = convolution.convolution;
  const std::size_t first = convolution.window.size() - 2;
  for (std::size_t i = 0; i < 2; ++i) {
    const hlo::WindowDimension& w = convolution.window[first + i];
    SpatialDimension& s = problem.spatial[i];
    s.input = extent_of(input, dims.input_spatial[first + i]);
    s.window = extent_of(window, dims.kernel_spatial[first + i]);
    s.output = extent_of(out, dims.output_spatial[first + i]);
    s.stride = w.stride;
    s.window_dilation = w.window_dilation;
    s.base_dilation = w.base_dilation;
    s.padding = w.padding_low;
    s.reversed = w.reversal;
    if (s.stride > 1 && s.base_dilation > 1) return "expected a stride or a base dilation";
    if (s.padding < 0) return "expected no pixels that are cut off before the first position";
    if (problem.contracts_rows && (s.base_dilation > 1 || s.reversed)) {
      return "expected a weight gradient without base dilation and reversal";
    }
  }
  problem.input_type = input.type;
  problem.window_type = window.type;
  problem.parts = operand_parts(convolution, input.type, window.type);
  problem.result_types = {out.type};
  return {};
}

}  // namespace

std::uint64_t ConvolutionProblem::further_packed() const {
  return static_cast<std::uint64_t>(
      std::count(result_types.begin() + 1, result_types.end(), hlo::ElementType::kBf16));
}

bool ConvolutionProblem::is_product() const {
  return std::all_of(spatial.begin(), spatial.end(), [this](const SpatialDimension& s) {
    const bool single = contracts_rows ? s.output == 1 : s.window == 1;
    return single && s.stride == 1 && s.base_dilation == 1 && s.window_dilation == 1 &&
           s.padding == 0 && (contracts_rows ? s.window == s.input : s.output == s.input);
  });
}

namespace {

/// A convolution of three spatial dimensions: what the kernels of two do not say; what was
/// expected, where there is no kernel.
std::string find_pixels_in_rows(ConvolutionProblem& problem, const hlo::HloInstruction& convolution,
                                const Shape& input, const Shape& window, const Shape& out) {
  const hlo::ConvolutionDimensions& dims = convolution.convolution;
  problem.pixels_in_rows = true;
  problem.contracts_rows = lane(input) == dims.input_batch;
  const bool gradient = problem.contracts_rows;
  const std::int64_t images = gradient ? dims.input_feature : dims.input_batch;
  const std::int64_t depth = extent_of(input, dims.input_spatial[0]);
  const bool lies_so =
      gradient
          ? spatial_inside(input, images, dims.input_spatial, dims.input_batch) &&
                spatial_inside(window, dims.kernel_input_feature, dims.kernel_spatial,
                               dims.kernel_output_feature) &&
                spatial_outermost(out, dims.output_spatial) && lane(out) == dims.output_feature
          : spatial_inside(input, images, dims.input_spatial, dims.input_feature) &&
                spatial_inside(out, dims.output_batch, dims.output_spatial, dims.output_feature) &&
                spatial_outermost(window, dims.kernel_spatial);
  if (!lies_so) return "expected the pixels of three spatial dimensions in the rows of tiles";
  if (!is_trivial(convolution.window[0]) || (gradient && depth != 1)) {
    return "expected a window of one position along the first of three dimensions";
  }
  if (convolution.window[1].base_dilation > 1 || convolution.window[2].base_dilation > 1) {
    return "expected no base dilation of pixels in rows";
  }
  problem.images = static_cast<std::uint32_t>(extent_of(input, images) * depth);
  problem.columns = static_cast<std::uint32_t>(extent_of(out, dims.output_feature));
  if (convolution.feature_group_count != 1 || convolution.batch_group_count != 1) {
    const bool is_depthwise = find_groups(problem, convolution, input, window, out);
    return is_depthwise ? std::string() : "expected no groups, or one feature in each";
  }
  if (gradient) {
    problem.rows = static_cast<std::uint32_t>(extent_of(out, dims.output_batch));
    problem.contracted = isa::kSublanes;
    return {};
  }
  problem.window_transposed = lane(window) == dims.kernel_input_feature;
  problem.rows = static_cast<std::uint32_t>(extent_of(out, dims.output_spatial[2]));
  problem.contracted = static_cast<std::uint32_t>(extent_of(input, dims.input_feature));
  return {};
}

}  // namespace

OrRefusal<ConvolutionProblem> convolution_problem(const hlo::HloInstruction& convolution,
                                                  const Shape& input, const Shape& window,
                                                  const Shape& out) {
  const auto refuse = [&](const std::string& why) {
    return Refusal{describe(convolution, input, window) + ": no kernel: " + why};
  };
  ConvolutionProblem problem;
  const auto with_spatial = [&]() -> OrRefusal<ConvolutionProblem> {
    const std::string expected = find_spatial(problem, convolution, input, window, out);
    if (!expected.empty()) return refuse(expected);
    return std::move(problem);
  };
  const std::size_t spatial = convolution.window.size();
  for (const Shape* shape : {&input, &window, &out}) {
    if (spatial < 2 || spatial > 3 ||
        !has_kernel_type(*shape, static_cast<std::int64_t>(spatial) + 2)) {
      return refuse("expected f32 or bf16 arrays with two or three spatial dimensions");
    }
  }
  const hlo::ConvolutionDimensions& dims = convolution.convolution;
  if (spatial == 3) {
    const std::string expected = find_pixels_in_rows(problem, convolution, input, window, out);
    if (!expected.empty()) return refuse(expected);
    problem.name = convolution.name;
    return with_spatial();
  }
  if (!spatial_outermost(input, dims.input_spatial) ||
      !spatial_outermost(window, dims.kernel_spatial) ||
      !spatial_outermost(out, dims.output_spatial)) {
    return refuse("expected layouts with the spatial dimensions outermost");
  }
  problem.name = convolution.name;
  if (convolution.feature_group_count != 1 || convolution.batch_group_count != 1) {
    if (!find_groups(problem, convolution, input, window, out)) {
      return refuse(
          "expected no groups, or one feature in each and the features of the kernel minor");
    }
    return with_spatial();
  }
  find_order(problem, convolution, input, window, out);
  const bool features_minor = lane(out) == dims.output_feature;
  if (!features_minor && !problem.batch_in_lanes) {
    return refuse("expected the result's features or its batch to be minor");
  }
  if (problem.contracts_rows && problem.window_transposed) {
    return refuse("expected a weight gradient's second operand with its features minor");
  }
  problem.rows = static_cast<std::uint32_t>(extent_of(out, dims.output_batch));
  problem.columns = static_cast<std::uint32_t>(extent_of(out, dims.output_feature));
  problem.contracted = static_cast<std::uint32_t>(extent_of(input, dims.input_feature));
  return with_spatial();
}

ConvolutionProblem with_flat_pixels(const ConvolutionProblem& problem) {
  if (!problem.is_product()) return problem;
  ConvolutionProblem flat = problem;
  const std::int64_t pixels = problem.spatial[0].input * problem.spatial[1].input;
  // Of the image that is pushed as weights.
  const std::uint32_t features = problem.contracts_rows ? problem.columns : problem.contracted;
  std::int64_t line = std::max<std::int64_t>(128 / round_up(features, 8), 1);
  while (pixels % line != 0) --line;
  flat.spatial = {};
  for (const auto& [dimension, extent] : {std::pair(0, pixels / line), std::pair(1, line)}) {
    SpatialDimension& s = flat.spatial[static_cast<std::size_t>(dimension)];
    s.input = extent;
    (problem.contracts_rows ? s.window : s.output) = extent;
  }
  return flat;
}

std::vector<Tap> taps_of(const ConvolutionProblem& problem) {
  const auto& [height, width] = problem.spatial;
  // Of one direction: phase and shift of each position of the window, where there is one.
  struct Place {
    bool meets = false;
    std::uint32_t phase = 0;
    std::int64_t shift = 0;
  };
  const auto places = [](const SpatialDimension& s) {
    std::vector<Place> all;
    for (std::int64_t k = 0; k < s.window; ++k) {
      const std::int64_t offset = k * s.window_dilation - s.padding;
      const std::int64_t phase = ((-offset) % s.base_dilation + s.base_dilation) % s.base_dilation;
      const std::int64_t shift = (offset + phase) / s.base_dilation;
      const std::int64_t pixels = (s.output - phase + s.base_dilation - 1) / s.base_dilation;
      const std::int64_t last = shift + (pixels - 1) * s.stride;
      all.push_back(
          {pixels > 0 && last >= 0 && shift < s.input, static_cast<std::uint32_t>(phase), shift});
    }
    return all;
  };
  const std::vector<Place> rows = places(height), columns = places(width);
  std::vector<Tap> taps;
  for (std::int64_t y = 0; y < height.window; ++y) {
    for (std::int64_t x = 0; x < width.window; ++x) {
      const Place& row = rows[static_cast<std::size_t>(y)];
      const Place& column = columns[static_cast<std::size_t>(x)];
      if (!row.meets || !column.meets) continue;
      Tap tap;
      const std::int64_t h = height.reversed ? height.window - 1 - y : y;
      const std::int64_t w = width.reversed ? width.window - 1 - x : x;
      tap.window = static_cast<std::uint32_t>(h * width.window + w);
      tap.phase = {row.phase, column.phase};
      tap.shift = {row.shift, column.shift};
      tap.starts = std::none_of(taps.begin(), taps.end(),
                                [&](const Tap& other) { return other.phase == tap.phase; });
      taps.push_back(tap);
    }
  }
  return taps;
}

}  // namespace tpu::compiler
