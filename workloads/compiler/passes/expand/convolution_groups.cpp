#include <algorithm>
#include <numeric>
#include <optional>

#include "sim/base/ceil_divide.h"
#include "workloads/compiler/cost.h"
#include "workloads/compiler/passes/expand/convolution_arrays.h"
#include "workloads/compiler/passes/expand/convolution_steps.h"

namespace tpu::compiler {

using hlo::ConvolutionDimensions;
using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;

namespace {

using Id = GraphEditor::Id;
using Extents = GraphEditor::Extents;

/// Features that fill the lanes.
constexpr std::int64_t kFullFeatures = 128;

/// How many groups go together: the most whose features fit the lanes.
std::int64_t groups_together(std::int64_t groups, std::int64_t features) {
  for (std::int64_t together = groups; together > 1; --together) {
    if (groups % together == 0 && together * features <= kFullFeatures) return together;
  }
  return 1;
}

/// Kernels of a part of the groups that go together: input and kernel are cut out, the kernel is
/// widened, the product made.
constexpr double kKernelsOfPart = 4;
/// Patches are copied, joined, put in another order, and read by the product; copies that fill no
/// whole lanes take as much again to be joined. Chosen with three programs in view (StyleGAN's
/// modulated convolutions, first-order meta-learning, gradients of each example).
constexpr double kPassesOfPatches = 4, kPassesOfNarrowPatches = 8;
/// What a product without a kernel of its own takes, in times of what the MXUs need for it.
constexpr double kPartWithoutKernel = 2;

/// A matrix of bf16 with either dimension in the lanes, whatever takes less.
double matrix_bytes(std::int64_t rows, std::int64_t columns) {
  const auto padded = [](std::int64_t sublanes, std::int64_t lanes) {
    return static_cast<double>(round_up(sublanes, 8) * round_up(lanes, 128)) * 2;
  };
  return std::min(padded(rows, columns), padded(columns, rows));
}

/// A group as a product of matrices: all patches by the kernel.
struct GroupMatrices {
  std::int64_t rows = 1, terms = 1, columns = 1;
  std::int64_t joined = 1;  ///< Extent of what copies are joined along: features or the batch.

  GroupMatrices(const HloInstruction& convolution, const hlo::Shape& window)
      : columns(extent_of(convolution.shape, convolution.convolution->output_feature) /
                groups_of(convolution)),
        joined(has_large_window(convolution)
                   ? extent_of(convolution.shape, convolution.convolution->output_batch)
                   : extent_of(window, convolution.convolution->kernel_input_feature)) {
    const std::int64_t all = columns * groups_of(convolution);
    rows = convolution.shape.element_count() / all;
    terms = window.element_count() / all;
  }
  /// Of the MXUs, with `together` groups beside each other.
  double mxu_cycles(std::int64_t together, const Target& target) const {
    const std::int64_t tiles = ceil_divide(terms * together, std::int64_t{target.mxu_rows}) *
                               ceil_divide(columns * together, std::int64_t{target.mxu_columns});
    return static_cast<double>(tiles * (rows + target.mxu_rows)) / target.mxu_count;
  }
  /// Of patches, kernel and result that pass, in bf16.
  double bytes() const {
    const double passes = joined % 128 == 0 ? kPassesOfPatches : kPassesOfNarrowPatches;
    return passes * matrix_bytes(rows, terms) + matrix_bytes(terms, columns) +
           2 * matrix_bytes(rows, columns);
  }
};

/// The `number`th of equal parts along a dimension.
Id part(GraphEditor& edit, Id value, std::int64_t dimension, std::int64_t number,
        std::int64_t extent) {
  return edit.take(value, dimension, number * extent, extent, 1);
}

/// 1 where the group along dimension `rows` (each index a group) is that along `columns`
/// (`in_group` neighbours a group), else 0, in f32.
Id same_group(GraphEditor& edit, const Extents& extents, std::int64_t rows, std::int64_t columns,
              std::int64_t in_group) {
  const Id group = edit.iota(ElementType::kF32, extents, rows);
  // Halves keep the quotients away from whole numbers.
  const Id column = edit.binary(HloOpcode::kAdd, edit.iota(ElementType::kF32, extents, columns),
                                edit.splat(ElementType::kF32, extents, 0.5));
  const double share = 1.0 / static_cast<double>(in_group);
  const Id quotient = edit.unary(
      HloOpcode::kFloor,
      edit.binary(HloOpcode::kMultiply, column, edit.splat(ElementType::kF32, extents, share)));
  return edit.compare(group, quotient, hlo::ComparisonDirection::kEq);
}

/// The value with 0 outside the group, in its type.
Id masked(GraphEditor& edit, Id value, Id mask) {
  return edit.select(mask, value, edit.splat(edit.shape(value).type, edit.dimensions(value), 0));
}

/// Features of the input by groups: the kernel gets those of all groups, 0 for other groups.
Id join_feature_groups(GraphEditor& edit, HloInstruction convolution, const EmitConvolution& emit) {
  const ConvolutionDimensions& dims = convolution.convolution;
  const std::int64_t groups = convolution.feature_group_count;
  const Id window = convolution.operands[1];
  const std::int64_t rows = dims.kernel_input_feature;
  Extents extents = edit.dimensions(window), places(extents.size());
  const std::int64_t columns = extent_of(edit.shape(window), dims.kernel_output_feature);
  std::iota(places.begin(), places.end(), 0);
  for (std::int64_t& place : places) place += place >= rows ? 1 : 0;
  Extents merged = extents;
  merged[static_cast<std::size_t>(rows)] *= groups;
  extents.insert(extents.begin() + rows, groups);
  const Id all = edit.broadcast(window, extents, places);
  const std::int64_t column = places[static_cast<std::size_t>(dims.kernel_output_feature)];
  const Id mask = same_group(edit, extents, rows, column, columns / groups);
  convolution.operands[1] = edit.reshape(masked(edit, all, mask), merged);
  convolution.feature_group_count = 1;
  return emit(std::move(convolution));
}

/// The batch by groups (a gradient of a kernel): all groups meet all, what is not of one group
/// goes.
Id join_batch_groups(GraphEditor& edit, HloInstruction convolution, const EmitConvolution& emit) {
  const ConvolutionDimensions dims = convolution.convolution;
  const std::int64_t groups = convolution.batch_group_count;
  const hlo::Shape wanted = convolution.shape;
  const std::int64_t rows = dims.output_batch;
  Extents extents = wanted.dimensions;
  extents[static_cast<std::size_t>(rows)] *= groups;
  convolution.shape = hlo::array_shape(ElementType::kF32, extents);
  convolution.batch_group_count = 1;
  const Id all = emit(std::move(convolution));
  extents = wanted.dimensions;
  extents.insert(extents.begin() + rows, groups);
  const std::int64_t column = dims.output_feature + (dims.output_feature > rows ? 1 : 0);
  const std::int64_t columns = extent_of(wanted, dims.output_feature);
  const Id mask = same_group(edit, extents, rows, column, columns / groups);
  const Id own = masked(edit, edit.reshape(all, extents), mask);
  return edit.convert(edit.reduce(own, HloOpcode::kAdd, {rows}, 0), wanted.type);
}

}  // namespace

bool is_less_as_dot(const GraphEditor& edit, const HloInstruction& convolution,
                    ConvolutionKernels& kernels) {
  const ConvolutionDimensions& dims = convolution.convolution;
  const Target& target = kernels.target();
  const bool of_batch = convolution.batch_group_count > 1;
  const std::int64_t grouped = of_batch ? dims.input_batch : dims.input_feature;
  const std::int64_t groups = groups_of(convolution);
  hlo::Shape input = edit.shape(convolution.operands[0]);
  hlo::Shape window = edit.shape(convolution.operands[1]);
  const GroupMatrices matrices(convolution, window);
  const double rate = target.hbm_bytes_per_cycle * kMixedTrafficRate;
  const auto count = static_cast<double>(groups);
  const double as_dot = count * (matrices.mxu_cycles(1, target) + matrices.bytes() / rate);

  const std::int64_t inputs = extent_of(input, grouped) / groups;
  const std::int64_t together = groups_together(groups, std::max(inputs, matrices.columns));
  const auto widen = [](hlo::Shape& shape, std::int64_t dimension, std::int64_t times,
                        std::int64_t parts) {
    std::int64_t& extent = shape.dimensions[static_cast<std::size_t>(dimension)];
    extent = extent * times / parts;
  };
  HloInstruction part = convolution;
  part.feature_group_count = part.batch_group_count = 1;
  widen(input, grouped, together, groups);
  widen(window, dims.kernel_output_feature, together, groups);
  widen(part.shape, dims.output_feature, together, groups);
  if (of_batch) {
    widen(part.shape, dims.output_batch, together, 1);
  } else {
    widen(window, dims.kernel_input_feature, together, 1);
  }
  std::optional<double> product;
  for (const bool batch_in_lanes : {false, true}) {
    if (convolution.window.size() != 2) break;
    const std::optional<double> found = kernels.cycles(part, input, window, batch_in_lanes);
    if (found) product = std::min(*found, product.value_or(*found));
  }
  const double part_cycles =
      kKernelsOfPart * kKernelCycles +
      product.value_or(kPartWithoutKernel * matrices.mxu_cycles(together, target));
  return as_dot < count / static_cast<double>(together) * part_cycles;
}

std::int64_t groups_of(const HloInstruction& convolution) {
  return std::max(convolution.feature_group_count, convolution.batch_group_count);
}

Id separate_groups(GraphEditor& edit, HloInstruction convolution, const EmitConvolution& emit) {
  const ConvolutionDimensions dims = convolution.convolution;
  const std::int64_t groups = groups_of(convolution);
  const bool of_batch = convolution.batch_group_count > 1;
  const std::int64_t grouped = of_batch ? dims.input_batch : dims.input_feature;
  const std::int64_t inputs = extent_of(edit.shape(convolution.operands[0]), grouped) / groups;
  const std::int64_t columns = extent_of(convolution.shape, dims.output_feature) / groups;
  const std::int64_t together = groups_together(groups, std::max(inputs, columns));
  std::vector<Id> parts;
  for (std::int64_t i = 0; i < groups / together; ++i) {
    HloInstruction one = convolution;
    one.operands = {
        part(edit, convolution.operands[0], grouped, i, together * inputs),
        part(edit, convolution.operands[1], dims.kernel_output_feature, i, together * columns)};
    one.shape.dimensions[static_cast<std::size_t>(dims.output_feature)] = together * columns;
    (of_batch ? one.batch_group_count : one.feature_group_count) = together;
    parts.push_back(together == 1 ? emit(std::move(one))
                    : of_batch    ? join_batch_groups(edit, std::move(one), emit)
                                  : join_feature_groups(edit, std::move(one), emit));
  }
  return edit.concatenate(parts, dims.output_feature);
}

bool is_depthwise(const GraphEditor& edit, const HloInstruction& convolution) {
  return is_depthwise(edit.shape(convolution.operands[0]), convolution);
}

bool is_depthwise(const hlo::Shape& input, const HloInstruction& convolution) {
  const ConvolutionDimensions& dims = convolution.convolution;
  const std::int64_t groups = groups_of(convolution);
  const bool of_batch = convolution.batch_group_count > 1;
  const std::int64_t own = of_batch ? dims.input_batch : dims.input_feature;
  return groups > 1 && extent_of(input, own) == groups &&
         extent_of(convolution.shape, dims.output_feature) == groups &&
         std::min(convolution.feature_group_count, convolution.batch_group_count) == 1;
}

namespace {

/// Positions of an array's spatial dimensions, one after the other.
class Positions {
 public:
  explicit Positions(Extents extents) : extents_(std::move(extents)), at_(extents_.size(), 0) {}
  const Extents& at() const { return at_; }
  bool next() {
    for (std::size_t i = extents_.size(); i-- > 0;) {
      if (++at_[i] < extents_[i]) return true;
      at_[i] = 0;
    }
    return false;
  }

 private:
  Extents extents_, at_;
};

class DepthwiseProducts {
 public:
  DepthwiseProducts(GraphEditor& edit, const HloInstruction& convolution)
      : edit_(edit), convolution_(convolution), dims_(convolution.convolution) {
    input_ = convolution.operands[0];
    window_ = convolution.operands[1];
    std::vector<hlo::PaddingDimension> padding(edit.dimensions(input_).size());
    for (std::size_t i = 0; i < convolution.window.size(); ++i) {
      padding[static_cast<std::size_t>(dims_.input_spatial[i])].interior =
          convolution.window[i].base_dilation - 1;
      if (convolution.window[i].reversal) {
        window_ = edit.reverse(window_, dims_.kernel_spatial[i]);
      }
    }
    input_ = edit.pad(input_, padding);
  }

  Id run() { return convolution_.batch_group_count > 1 ? gradient_of_kernel() : forward(); }

 private:
  /// The inputs that meet a position of the window, or of the result of a gradient of a kernel.
  Id shifted(const Extents& at, bool gradient) {
    Id value = input_;
    for (std::size_t i = 0; i < at.size(); ++i) {
      const hlo::WindowDimension& w = convolution_.window[i];
      const std::int64_t count =
          gradient ? w.size : extent_of(convolution_.shape, dims_.output_spatial[i]);
      value = edit_.take(value, dims_.input_spatial[i],
                         at[i] * (gradient ? w.stride : w.window_dilation) - w.padding_low, count,
                         gradient ? w.window_dilation : w.stride);
    }
    return edit_.convert(value, ElementType::kF32);
  }

  /// The permutation that brings an array with these roles into the order batch, spatial, features.
  static Extents order(std::int64_t batch, const Extents& spatial, std::int64_t features) {
    Extents all{batch};
    all.insert(all.end(), spatial.begin(), spatial.end());
    all.push_back(features);
    return all;
  }

  Id forward() {
    const Extents space =
        extents_at(convolution_.shape.dimensions,
                   order(dims_.output_batch, dims_.output_spatial, dims_.output_feature));
    const auto features = static_cast<std::int64_t>(space.size()) - 1;
    const Id kernel = edit_.convert(
        edit_.transpose(window_, order(dims_.kernel_input_feature, dims_.kernel_spatial,
                                       dims_.kernel_output_feature)),
        ElementType::kF32);
    Positions positions(extents_at(edit_.dimensions(window_), dims_.kernel_spatial));
    Id sum = -1;
    do {
      Id value = kernel;
      for (std::size_t i = 0; i < positions.at().size(); ++i) {
        value = edit_.take(value, static_cast<std::int64_t>(i) + 1, positions.at()[i], 1, 1);
      }
      const Id factor = edit_.broadcast(edit_.reshape(value, {space.back()}), space, {features});
      const Id input =
          edit_.transpose(shifted(positions.at(), false),
                          order(dims_.input_batch, dims_.input_spatial, dims_.input_feature));
      const Id product = edit_.binary(HloOpcode::kMultiply, input, factor);
      sum = sum < 0 ? product : edit_.binary(HloOpcode::kAdd, sum, product);
    } while (positions.next());
    return in_place(sum);
  }

  Id gradient_of_kernel() {
    const Extents window_order =
        order(dims_.kernel_input_feature, dims_.kernel_spatial, dims_.kernel_output_feature);
    const Id gradient = edit_.convert(edit_.transpose(window_, window_order), ElementType::kF32);
    const auto rank = static_cast<std::int64_t>(window_order.size());
    Extents reduced(static_cast<std::size_t>(rank - 1));
    std::iota(reduced.begin(), reduced.end(), 0);
    Extents results = extents_at(convolution_.shape.dimensions, dims_.output_spatial);
    Positions positions(results);
    std::vector<Id> parts;
    const std::int64_t features = groups_of(convolution_);
    do {
      const Id input =
          edit_.transpose(shifted(positions.at(), true),
                          order(dims_.input_feature, dims_.input_spatial, dims_.input_batch));
      const Id product = edit_.binary(HloOpcode::kMultiply, input, gradient);
      const Id sums = edit_.reduce(product, HloOpcode::kAdd, reduced, 0);
      parts.push_back(edit_.reshape(sums, {1, features}));
    } while (positions.next());
    results.insert(results.begin(), 1);
    results.push_back(features);
    return in_place(edit_.reshape(edit_.concatenate(parts, 0), results));
  }

  /// From the order batch, spatial, features into the result's own, in its type.
  Id in_place(Id value) {
    return edit_.convert(
        edit_.transpose(
            value, inverse(order(dims_.output_batch, dims_.output_spatial, dims_.output_feature))),
        convolution_.shape.type);
  }

  GraphEditor& edit_;
  const HloInstruction& convolution_;
  const ConvolutionDimensions& dims_;
  Id input_ = -1, window_ = -1;
};

}  // namespace

Id depthwise_as_products(GraphEditor& edit, const HloInstruction& convolution) {
  return DepthwiseProducts(edit, convolution).run();
}

}  // namespace tpu::compiler
