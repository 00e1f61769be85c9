#include "workloads/compiler/passes/expand/convolution_forms.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>

#include "sim/base/ceil_divide.h"
#include "workloads/compiler/cost.h"
#include "workloads/compiler/ir/dimension_order.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/expand/convolution_arrays.h"
#include "workloads/compiler/passes/expand/convolution_steps.h"
#include "workloads/compiler/passes/expand/convolution_strips.h"
#include "workloads/compiler/passes/expand/image_form_choice.h"
#include "workloads/compiler/passes/layout/convolution_layouts.h"
#include "workloads/compiler/passes/layout/convolution_sides.h"
#include "workloads/compiler/passes/layout/window_features.h"

namespace tpu::compiler {

using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::WindowDimension;

namespace {

using Id = GraphEditor::Id;

/// Of an image, unrolled in both dimensions at once.
constexpr std::int64_t kMostCopies = 25;
/// Of a row, in a part of an image: each part reads the pixels next to it again.
constexpr std::int64_t kFewestPositions = 16;
/// Of the gradient of a line's kernel: each by itself passes over the line twice (a slice, a dot),
/// all from an image of rows do so five times. Wavenet and a vocoder, with two results, take 1.08
/// and 1.24 of the time from rows; a codec, with seven, 0.90.
constexpr std::int64_t kFewestResults = 4;
/// Of a pixel: of fewer, windows that do not overlap become patches. 33 convolutions by 2x2 to
/// 16x16 in bf16: with 8 features or more a kernel took 0.04 to 0.95 of the time, with 3 of them
/// 0.2 to 4.6.
constexpr std::int64_t kFewFeatures = 8;
/// The spatial dimension of one pixel that makes an image of a line.
constexpr std::size_t kRow = 0, kColumn = 1;
/// Of rewriting all convolutions of a module.
constexpr int kMostRounds = 4;
/// Blocks of few rows of one pixel wait for each other: a column has to be so much better.
constexpr double kColumnGain = 0.9;

class ConvolutionForms {
 public:
  ConvolutionForms(hlo::Module& module, ConvolutionKernels& kernels)
      : module_(module), kernels_(kernels), edit_(module) {}

  /// Which side images take depends on the convolutions that are left, and what fits VMEM on the
  /// side: once more where there are new ones. Images get other forms when all that meet them have
  /// kernels.
  void run() {
    for (const HloInstruction& each : module_.entry_computation().instructions) {
      has_planes_ = has_planes_ || is_of_planes(each);
    }
    for (int round = 0; round < kMostRounds; ++round) {
      sides_.emplace(module_.entry_computation(), kernels_);
      lines_ = lines_of_few_features(module_, kFewFeatures);
      forms_ = {};
      if (round + 1 == kMostRounds || all_are_direct()) {
        forms_ = image_forms_that_take_less(
            module_, edit_, kernels_,
            [this](const HloInstruction& each) { return is_direct(each); });
      }
      const std::size_t count = module_.entry_computation().instructions.size();
      for (std::size_t i = 0; i < count; ++i) visit(static_cast<Id>(i));
      const bool same = module_.entry_computation().instructions.size() == count;
      tidy(module_.entry_computation());
      if (same) return;
    }
  }

 private:
  void visit(Id id) {
    const HloInstruction convolution = module_.entry_computation().at(id);
    if (convolution.opcode != HloOpcode::kConvolution || !is_general(convolution)) return;
    if (is_direct(convolution)) return put_in_form(id) ? void() : read_backwards(id);
    edit_.stand_for(id);
    edit_.finish(emit(convolution));
  }

  bool all_are_direct() {
    const std::vector<HloInstruction>& all = module_.entry_computation().instructions;
    return std::all_of(all.begin(), all.end(), [this](const HloInstruction& each) {
      return each.opcode != HloOpcode::kConvolution || !is_general(each) || is_direct(each);
    });
  }

  bool is_direct(const HloInstruction& convolution) {
    return is_general(convolution) && !is_patches(convolution) &&
           phases_to_join(convolution).empty() && !is_vector_product(convolution) &&
           has_kernel(convolution);
  }

  /// Few images leave most rows of tiles empty.
  bool put_in_form(Id id) {
    const HloInstruction convolution = module_.entry_computation().at(id);
    if (forms_.pixels_in_rows.count(id) != 0) {
      edit_.stand_for(id);
      edit_.finish(put_in_rows(convolution));
      return true;
    }
    const auto strips = forms_.strips.find(id);
    if (strips == forms_.strips.end()) return false;
    edit_.stand_for(id);
    edit_.finish(write_in_strips(edit_, convolution, strips->second, [this](HloInstruction form) {
      std::optional<HloInstruction> direct = backwards(form);
      return append(direct && has_kernel(*direct) ? *std::move(direct) : std::move(form));
    }));
    return true;
  }

  /// An image, or a line, with its pixels in the rows of tiles: with three spatial dimensions.
  Id put_in_rows(const HloInstruction& convolution) {
    const EmitConvolution emit = [this](HloInstruction form) {
      return has_pixels_in_rows(form) ? append(std::move(form)) : put_in_rows(form);
    };
    return add_spatial_dimension(edit_, backwards(convolution).value_or(convolution), 0, emit);
  }

  /// A window that a reverse writes backwards in space is read backwards instead, where a kernel
  /// does: gradients of images reverse their kernels.
  void read_backwards(Id id) {
    std::optional<HloInstruction> direct = backwards(module_.entry_computation().at(id));
    if (direct && has_kernel(*direct)) module_.entry_computation().at(id) = *std::move(direct);
  }

  /// The convolution without the reverse of its window, if there is one in space alone.
  std::optional<HloInstruction> backwards(HloInstruction convolution) const {
    const HloInstruction& window = module_.entry_computation().at(convolution.operands[1]);
    if (window.opcode != HloOpcode::kReverse) return std::nullopt;
    for (std::int64_t d : window.dimensions) {
      const std::vector<std::int64_t>& spatial = convolution.convolution->kernel_spatial;
      const auto found = std::find(spatial.begin(), spatial.end(), d);
      if (found == spatial.end()) return std::nullopt;
      bool& reversal =
          convolution.window[static_cast<std::size_t>(found - spatial.begin())].reversal;
      reversal = !reversal;
    }
    convolution.operands[1] = window.operands[0];
    return convolution;
  }

  bool is_general(const HloInstruction& convolution) const {
    for (const hlo::Shape& shape : {edit_.shape(convolution.operands[0]),
                                    edit_.shape(convolution.operands[1]), convolution.shape}) {
      if (shape.type != ElementType::kF32 && shape.type != ElementType::kBf16) return false;
      if (shape.element_count() == 0) return false;
    }
    return convolution.feature_group_count == 1 || convolution.batch_group_count == 1;
  }

  bool is_of_planes(const HloInstruction& each) const {
    return each.opcode == HloOpcode::kConvolution && each.window.size() > 2 &&
           is_depthwise(edit_, each);
  }

  static bool has_groups(const HloInstruction& convolution) {
    return convolution.feature_group_count > 1 || convolution.batch_group_count > 1;
  }

  /// Windows that do not overlap: after split_in_phases() each has one position, or (the gradient
  /// of such a kernel) one result. Pixels of a few features move to the windows they are of once;
  /// with more of them a kernel reads them where they are in less time, if there is one.
  bool is_patches(const HloInstruction& convolution) {
    const bool is_few =
        features_of_larger_image(edit_.shape(convolution.operands[0]),
                                 edit_.shape(convolution.operands[1]), convolution) < kFewFeatures;
    return parts_windows(convolution) && (is_few || !has_kernel(convolution));
  }

  static bool parts_windows(const HloInstruction& convolution) {
    bool splits = false;
    for (std::size_t i = 0; i < convolution.window.size(); ++i) {
      const WindowDimension& w = convolution.window[i];
      const std::int64_t results =
          extent_of(convolution.shape, convolution.convolution->output_spatial[i]);
      if (w.padding_low != 0 && w.base_dilation == 1) return false;
      if (!has_phases(w)) {
        if (w.size != 1 && results != 1) return false;
        if (w.stride > 1 || w.window_dilation > 1 || w.base_dilation > 1) return false;
        continue;
      }
      splits = true;
      const bool by_stride = w.stride > 1 && w.size == w.stride;
      const bool gradient = w.window_dilation > 1 && results == w.window_dilation;
      const bool backwards =
          w.base_dilation > 1 && w.size == w.base_dilation && w.padding_low == w.base_dilation - 1;
      if (!by_stride && !gradient && !backwards) return false;
    }
    return splits && !has_groups(convolution);
  }

  /// Each pixel of a line along this dimension by itself, or sums over all of them.
  static bool is_product_along(const HloInstruction& convolution, std::size_t index) {
    const WindowDimension& w = convolution.window[index];
    const std::int64_t results =
        extent_of(convolution.shape, convolution.convolution->output_spatial[index]);
    return w.padding_low == 0 && w.padding_high == 0 && w.stride == 1 && w.base_dilation == 1 &&
           w.window_dilation == 1 && (w.size == 1 || results == 1);
  }

  /// A dot over all pixels, one side of it a vector or with nothing to sum: a layer that makes one
  /// number of each pixel, and its gradients. With the feature in the lanes a pixel would take 128
  /// of them; multiply_small_matrices makes sums of products of such dots.
  bool is_vector_product(const HloInstruction& convolution) const {
    if (has_groups(convolution)) return false;
    const hlo::ConvolutionDimensions& dims = convolution.convolution;
    const hlo::Shape& input = edit_.shape(convolution.operands[0]);
    std::int64_t contracted = extent_of(input, dims.input_feature);
    std::int64_t rows = extent_of(input, dims.input_batch);
    for (std::size_t i = 0; i < convolution.window.size(); ++i) {
      if (!is_product_along(convolution, i)) return false;
      contracted *= convolution.window[i].size;
      rows *= extent_of(convolution.shape, dims.output_spatial[i]);
    }
    return contracted == 1 || rows == 1 || extent_of(convolution.shape, dims.output_feature) == 1;
  }

  std::vector<std::size_t> phases_to_join(const HloInstruction& convolution) {
    if (convolution.window.size() != 2 || has_batch_in_lanes(convolution)) return {};
    const std::optional<RowsForm> form =
        form_in_rows(module_.entry_computation(), convolution, kernels_);
    return form ? form->joined : std::vector<std::size_t>{};
  }

  bool has_batch_in_lanes(const HloInstruction& convolution) const {
    return sides_->in_lanes(convolution);
  }

  /// On its side; what was made in the place of something else takes whichever has one, and is
  /// weighed in the next round.
  bool has_kernel(const HloInstruction& convolution) {
    if (convolution.window.size() < 2) return false;
    const auto on_side = [&](bool in_lanes) {
      return kernels_.has_kernel(convolution, edit_.shape(convolution.operands[0]),
                                 edit_.shape(convolution.operands[1]), in_lanes);
    };
    if (has_pixels_in_rows(convolution)) return on_side(false);
    const bool expected = has_batch_in_lanes(convolution);
    return on_side(expected) || (!sides_->weighed(convolution) && on_side(!expected));
  }

  /// The value of a convolution, in forms that have kernels.
  Id emit(HloInstruction convolution) {
    const EmitConvolution again = [this](HloInstruction next) { return emit(std::move(next)); };
    if (cuts_pixels(edit_, convolution)) return emit(cut_pixels(edit_, std::move(convolution)));
    if (has_groups(convolution)) return emit_groups(convolution, again);
    if (convolution.window.empty() || is_vector_product(convolution)) {
      return convolution_as_dot(edit_, convolution);
    }
    if (is_patches(convolution)) return emit_patches(std::move(convolution));
    if (const std::vector<std::size_t> phases = phases_to_join(convolution); !phases.empty()) {
      return join_phases(edit_, std::move(convolution), phases, again);
    }
    if (convolution.window.size() == 1) {
      return emit_line(convolution, [this, &convolution] { return emit_fallback(convolution); });
    }
    if (convolution.window.size() > 2) {
      const std::size_t cheapest = cheapest_dimension(convolution);
      if (has_planes_ && is_product_along(convolution, cheapest)) {
        return unroll_by_planes(edit_, convolution, cheapest, again);
      }
      return unroll_spatial_dimension(edit_, convolution, cheapest, again);
    }
    if (const std::optional<HloInstruction> direct = with_kernel(convolution))
      return append(*direct);
    return emit_fallback(convolution);
  }

  /// The convolution in a form that a kernel takes as it stands: with its operands rounded where
  /// they fit VMEM only so. The MXUs round them in any case, the vector unit, which multiplies by
  /// groups, does not. An image with zeros between its pixels is better taken apart.
  std::optional<HloInstruction> with_kernel(HloInstruction convolution) {
    if (has_kernel(convolution)) return convolution;
    if (has_groups(convolution)) return std::nullopt;
    for (const WindowDimension& w : convolution.window) {
      if (w.base_dilation > 1) return std::nullopt;
    }
    for (Id& operand : convolution.operands) operand = rounded(edit_, convolution, operand);
    return has_kernel(convolution) ? std::optional(convolution) : std::nullopt;
  }

  Id append(HloInstruction convolution) {
    convolution.name += ".form." + std::to_string(module_.entry_computation().instructions.size());
    return edit_.append_instruction(std::move(convolution));
  }

  /// A line of pixels is an image of one row or of one column, whichever takes less: kernels take
  /// whole rows, and as many of them as fit. Gradients of kernels sum over a row at a time.
  template <typename Else>
  Id emit_line(HloInstruction convolution, const Else& otherwise) {
    if (const std::optional<HloInstruction> direct = backwards(convolution)) {
      if (const std::optional<Id> value = emit_line_as_image(*direct)) return *value;
    }
    if (const std::optional<Id> value = emit_line_as_image(convolution)) return *value;
    const bool is_gradient = is_gradient_of_line(convolution) && !has_groups(convolution) &&
                             !convolution.window[0].reversal &&
                             copies_of(convolution, 0) >= kFewestResults;
    const std::optional<Id> rows = is_gradient ? emit_line_in_rows(convolution) : std::nullopt;
    return rows ? *rows : otherwise();
  }

  std::optional<Id> emit_line_as_image(const HloInstruction& convolution) {
    std::optional<LineForm> best = cheapest_line(convolution, false);
    // Rounded operands fit VMEM where others do not. (The vector unit, which multiplies by groups,
    // rounds nothing.)
    if (!best && !has_groups(convolution)) best = cheapest_line(convolution, true);
    const std::optional<LineForm> strips = line_in_strips(convolution);
    if (strips && (!best || strips->cycles + strips->passes < best->cycles + best->passes)) {
      best = strips;
    }
    const bool has_dots = is_gradient_of_line(convolution) && !has_groups(convolution);
    const double as_dots =
        has_dots ? cycles_result_by_result(convolution) : std::numeric_limits<double>::infinity();
    const std::optional<LineForm> rows = line_with_pixels_in_rows(convolution);
    if (rows && rows->cycles <= as_dots &&
        (!best || rows->cycles + rows->passes < best->cycles + best->passes)) {
      return put_in_rows(convolution);
    }
    if (!best || as_dots < best->cycles) return std::nullopt;
    return best->value;
  }

  struct LineForm {
    Id value;
    double cycles;
    double passes;  ///< Of others over its images, once over each.
  };

  /// With its pixels in the rows of tiles, a line of few examples. (Its value is not written yet.
  /// Lines of eight and more take longer beside others, 1.45 and 2.4 times as long where they were
  /// let, though their estimates are less.)
  std::optional<LineForm> line_with_pixels_in_rows(const HloInstruction& line) {
    const hlo::Shape input = edit_.shape(line.operands[0]), window = edit_.shape(line.operands[1]);
    if (has_groups(line)) return std::nullopt;
    const auto rows = with_pixels_in_rows(line, input, window, kernels_);
    if (!rows) return std::nullopt;
    double bytes = 0;
    for (const hlo::Shape& image : rows->images) bytes += double(image.padded_bytes());
    return LineForm{-1, rows->cycles, bytes / kernels_.target().hbm_bytes_per_cycle};
  }

  /// A line of few features, on one side of the convolution at least, whose strips fill the lanes.
  /// With its features in the lanes it takes a tile for a pixel, with a small batch in them nearly
  /// as many. (More features would be turned for it.)
  std::optional<LineForm> line_in_strips(const HloInstruction& convolution) {
    if (lines_.count(convolution.id) == 0) return std::nullopt;
    std::optional<LineForm> strips;
    const Id value =
        add_spatial_dimension(edit_, convolution, kRow, [&](const HloInstruction& image) {
          const std::optional<ImageStrips> form = strips_that_fill_lanes(edit_, image);
          if (!form) return append(image);
          const std::optional<double> cycles =
              kernels_.cycles(form->convolution, form->input, form->window, true);
          if (!cycles) return append(image);
          const double passes =
              passes_over_images(form->convolution, form->input, form->window, true);
          strips = LineForm{-1, *cycles + passes + kStripKernels * kKernelCycles, passes};
          return write_in_strips(edit_, image, *form,
                                 [this](HloInstruction strip) { return append(std::move(strip)); });
        });
    if (strips) strips->value = value;
    return strips;
  }

  double passes_over_images(const HloInstruction& convolution, const hlo::Shape& input,
                            const hlo::Shape& window, bool in_lanes) const {
    const auto images = images_of(convolution);
    const hlo::Shape& other = images[1].id == convolution.id ? convolution.shape : window;
    const auto bytes = [in_lanes](const hlo::Shape& shape, const ImageRoles& roles) {
      return in_lanes ? padded_bytes(shape, roles.batch, roles.features)
                      : padded_bytes(shape, roles.features, roles.batch);
    };
    return (bytes(input, images[0].roles) + bytes(other, images[1].roles)) /
           kernels_.target().hbm_bytes_per_cycle;
  }

  std::optional<LineForm> cheapest_line(const HloInstruction& convolution, bool is_rounded) {
    const std::optional<LineForm> row = line_as(convolution, kRow, is_rounded);
    if (has_large_window(convolution) && !has_groups(convolution)) return row;
    const std::optional<LineForm> column = line_as(convolution, kColumn, is_rounded);
    // A product of pixels takes the same either way, and long lines beside it are columns.
    const double gain = convolution.window[0].size == 1 ? 1.0 : kColumnGain;
    return column && (!row || column->cycles <= gain * row->cycles) ? column : row;
  }

  /// `side`: which spatial dimension of the image is the one of a single pixel.
  std::optional<LineForm> line_as(const HloInstruction& convolution, std::size_t side,
                                  bool is_rounded) {
    std::optional<LineForm> form;
    const Id value = add_spatial_dimension(edit_, convolution, side, [&](HloInstruction image) {
      for (Id& operand : image.operands) {
        if (is_rounded) operand = rounded(edit_, convolution, operand);
      }
      form = on_either_side(image);
      return append(image);
    });
    if (form) form->value = value;
    return form;
  }

  /// What a kernel takes, and rounding its operands before, with the batch in the rows of tiles or
  /// in the lanes: what the sides were weighed of had no such image.
  std::optional<LineForm> on_either_side(const HloInstruction& image) {
    const hlo::Shape &input = edit_.shape(image.operands[0]),
                     &window = edit_.shape(image.operands[1]);
    std::optional<LineForm> least;
    for (const bool in_lanes : {false, true}) {
      if (!kernels_.has_kernel(image, input, window, in_lanes)) continue;
      std::optional<double> cycles = kernels_.cycles(image, input, window, in_lanes);
      if (!cycles) continue;
      const ConvolutionOrders orders = convolution_orders(image, in_lanes);
      *cycles += rounding_cycles(image.operands[0], orders.input) +
                 rounding_cycles(image.operands[1], orders.window);
      if (least && least->cycles <= *cycles) continue;
      least = LineForm{-1, *cycles, passes_over_images(image, input, window, in_lanes)};
    }
    return least;
  }

  double rounding_cycles(Id operand, const DimensionOrder& order) const {
    const HloInstruction& rounded = module_.entry_computation().at(operand);
    if (rounded.opcode != HloOpcode::kConvert) return 0;
    const double written = double(in_order(rounded.shape, order).padded_bytes());
    const double read = written * double(hlo::byte_size(edit_.shape(rounded.operands[0]).type)) /
                        double(hlo::byte_size(rounded.shape.type));
    return (read + written) / kernels_.target().hbm_bytes_per_cycle;
  }

  /// Both lines are turned, to lie along the lanes; dots read both, one of them written as a slice
  /// for each but one. Each dot is a kernel.
  double cycles_result_by_result(const HloInstruction& gradient) const {
    const auto results = double(copies_of(gradient, 0));
    const auto input = double(edit_.shape(gradient.operands[0]).unpadded_bytes());
    const auto window = double(edit_.shape(gradient.operands[1]).unpadded_bytes());
    const double bytes =
        (results + 2) * (input + window) + 2 * (results - 1) * std::min(input, window);
    return bytes / kernels_.target().hbm_bytes_per_cycle + results * kKernelCycles;
  }

  /// The gradient of a long line's kernel, rounded.
  std::optional<Id> emit_line_in_rows(HloInstruction convolution) {
    for (Id& operand : convolution.operands) operand = rounded(edit_, convolution, operand);
    bool fits = true;
    const Id value =
        add_spatial_dimension(edit_, convolution, kRow, [&](const HloInstruction& image) {
          const std::optional<HloInstruction> direct = in_rows(image);
          fits = direct.has_value();
          return append(direct.value_or(image));
        });
    return fits ? std::optional(value) : std::nullopt;
  }

  /// The gradient of a kernel of one position, where a kernel sums over the pixels as they lie: a
  /// dot contracts the batch and the pixels, and both of its sides would be turned for it. (With
  /// the batch in the lanes it takes no turns.)
  std::optional<Id> gradient_of_column(const HloInstruction& convolution) {
    bool is_less = false;
    const Id value =
        add_spatial_dimension(edit_, convolution, kColumn, [&](const HloInstruction& image) {
          const std::optional<HloInstruction> direct = with_kernel(image);
          if (!direct) return append(image);
          const hlo::ConvolutionDimensions& dims = direct->convolution;
          // As narrow_dot_operands will have them.
          hlo::Shape input = edit_.shape(direct->operands[0]);
          hlo::Shape window = edit_.shape(direct->operands[1]);
          input.type = rounded_type(*direct, input.type);
          window.type = rounded_type(*direct, window.type);
          const std::optional<double> cycles = kernels_.cycles(*direct, input, window, false);
          is_less = cycles && *cycles < turn_cycles(input, dims.input_spatial[0]) +
                                            turn_cycles(window, dims.kernel_spatial[0]);
          return append(*direct);
        });
    return is_less ? std::optional(value) : std::nullopt;
  }

  /// Of a column of pixels from the order of convolutions to one with the pixels in the lanes.
  double turn_cycles(const hlo::Shape& column, std::int64_t pixels) const {
    DimensionOrder units, others;
    for (std::int64_t d = 0; d < column.rank(); ++d) {
      if (d != pixels) (extent_of(column, d) == 1 ? units : others).push_back(d);
    }
    DimensionOrder from = units, to = units;
    from.push_back(pixels);
    from.insert(from.end(), others.begin(), others.end());
    to.insert(to.end(), others.begin(), others.end());
    to.push_back(pixels);
    return move_cycles(in_order(column, from), in_order(column, to), kernels_.target());
  }

  /// The gradient of a kernel over a line, an image of one row, in the fewest rows that a kernel
  /// takes; twice as many if they are equal then.
  std::optional<HloInstruction> in_rows(const HloInstruction& image) {
    const std::int64_t length = image.window[1].size;
    std::optional<LineInRows> best;
    for (std::int64_t rows = 2, most = length / kFewestPositions; rows <= most; ++rows) {
      if (best && length % rows != 0) continue;
      const LineInRows form = line_in_rows(edit_, image, rows);
      const bool in_lanes = has_batch_in_lanes(form.convolution);
      if (!kernels_.has_kernel(form.convolution, form.input, form.window, in_lanes)) continue;
      if (!best) most = std::min(most, 2 * rows);
      best = form;
      if (length % rows == 0) break;
    }
    return best ? std::optional(write_in_rows(edit_, image, *best)) : std::nullopt;
  }

  Id emit_groups(const HloInstruction& convolution, const EmitConvolution& again) {
    if (!is_depthwise(edit_, convolution)) {
      return is_less_as_dot(edit_, convolution, kernels_)
                 ? convolution_as_dot(edit_, convolution)
                 : separate_groups(edit_, convolution, again);
    }
    const auto products = [this, &convolution, &again] {
      const std::int64_t count = positions_that_fit(convolution);
      return count > 0 ? split_positions(edit_, convolution, 1, count, again)
                       : depthwise_as_products(edit_, convolution);
    };
    if (convolution.window.size() == 1) return emit_line(convolution, products);
    if (convolution.window.size() > 2) {
      return unroll_by_planes(edit_, convolution, cheapest_dimension(convolution), again);
    }
    return has_kernel(convolution) ? append(convolution) : products();
  }

  Id emit_patches(HloInstruction convolution) {
    for (std::size_t i = convolution.window.size(); i-- > 0;) {
      if (!has_phases(convolution.window[i])) continue;
      return split_in_phases(edit_, std::move(convolution), i,
                             [this](HloInstruction next) { return emit_patches(std::move(next)); });
    }
    return convolution_as_dot(edit_, convolution);
  }

  /// What no kernel takes as it is. Ends: each step takes away what the next one may take.
  Id emit_fallback(const HloInstruction& convolution) {
    const EmitConvolution again = [this](HloInstruction next) { return emit(std::move(next)); };
    const auto& window = convolution.window;
    const bool has_base_dilation = std::any_of(
        window.begin(), window.end(), [](const WindowDimension& w) { return w.base_dilation > 1; });
    if (has_base_dilation && has_large_window(convolution) && can_exchange_operands(convolution)) {
      return exchange_operands(edit_, convolution, again);
    }
    if (is_gradient_of_line(convolution)) {
      if (copies_of(convolution, 0) == 1 && !has_groups(convolution)) {
        if (const std::optional<Id> column = gradient_of_column(convolution)) return *column;
      }
      return result_by_result(edit_, convolution, 0, [this](const HloInstruction& part) {
        return convolution_as_dot(edit_, part);
      });
    }
    for (std::size_t i = window.size(); i-- > 0;) {
      if (has_phases(window[i])) return split_in_phases(edit_, convolution, i, again);
    }
    if (const std::int64_t count = positions_that_fit(convolution)) {
      return split_positions(edit_, convolution, 1, count, again);
    }
    if (window.size() == 2 && copies_of(convolution, 0) * copies_of(convolution, 1) > kMostCopies) {
      return unroll_spatial_dimension(edit_, convolution, 1, again);
    }
    return convolution_as_dot(edit_, convolution);
  }

  /// The gradient of a short kernel over a line of pixels: dots of parts of both lines, which stand
  /// one behind the other where the positions are outermost.
  static bool is_gradient_of_line(const HloInstruction& convolution) {
    return convolution.window.size() == 1 && has_large_window(convolution) &&
           convolution.window[0].base_dilation == 1 && convolution.window[0].window_dilation == 1 &&
           copies_of(convolution, 0) <= kMostCopies;
  }

  /// How many neighbours in a row a kernel takes, where it takes no whole rows; 0: too few.
  std::int64_t positions_that_fit(const HloInstruction& convolution) {
    if (convolution.window.size() != 2) return 0;
    const std::int64_t positions = splittable_positions(convolution, 1);
    for (std::int64_t parts = 2; positions / parts >= kFewestPositions; ++parts) {
      const std::int64_t step = convolution.window[1].base_dilation;
      const std::int64_t count = round_up(ceil_divide(positions, parts), step);
      if (has_kernel(part_of_positions(edit_, convolution, 1, 0, count))) return count;
    }
    return 0;
  }

  static std::size_t cheapest_dimension(const HloInstruction& convolution) {
    std::size_t best = 0;
    std::int64_t fewest = 0;
    for (std::size_t i = 0; i < convolution.window.size(); ++i) {
      const std::int64_t copies = copies_of(convolution, i);
      if (i == 0 || copies < fewest) best = i, fewest = copies;
    }
    return best;
  }

  hlo::Module& module_;
  ConvolutionKernels& kernels_;
  GraphEditor edit_;
  std::optional<ConvolutionSides> sides_;
  /// Depthwise convolutions have the images of a plane one behind the other, and so have those that
  /// are products of pixels then.
  bool has_planes_ = false;
  std::set<Id> lines_;  ///< Few features on one side, and an image that no other wants whole.
  ImageForms forms_;
};

}  // namespace

void rewrite_convolutions(hlo::Module& module, ConvolutionKernels& kernels) {
  ConvolutionForms(module, kernels).run();
}

void rewrite_convolutions(hlo::Module& module, const Target& target) {
  ConvolutionKernels kernels(target);
  rewrite_convolutions(module, kernels);
}

}  // namespace tpu::compiler
