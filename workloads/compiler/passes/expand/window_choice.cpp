#include "workloads/compiler/passes/expand/window_choice.h"

#include <algorithm>
#include <array>
#include <limits>

#include "isa/instruction.h"
#include "sim/base/ceil_divide.h"
#include "workloads/compiler/cost.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/combining_operation.h"
#include "workloads/compiler/ir/dimension_order.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/passes/edit.h"

namespace tpu::compiler {

using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::WindowDimension;
using Extents = WindowChoice::Extents;

Extents dimensions_of(const std::vector<WindowDimension>& window) {
  Extents list;
  for (std::size_t d = 0; d < window.size(); ++d) {
    if (!is_trivial(window[d])) list.push_back(static_cast<std::int64_t>(d));
  }
  return list;
}

bool are_parts(const HloInstruction& pooling, std::size_t dimension, HloOpcode operation) {
  // Fewer are as many slices.
  constexpr std::int64_t kFewest = 4;
  const hlo::WindowDimension& w = pooling.window[dimension];
  return w.stride == w.size && w.window_dilation == 1 && w.base_dilation == 1 &&
         w.size >= kFewest && dimension + 1 < pooling.window.size() &&
         operation != HloOpcode::kMultiply;
}

Extents FourDimensions::merged(const Extents& extents) const {
  Extents four;
  std::int64_t d = 0;
  for (const std::int64_t end : ends) {
    std::int64_t all = 1;
    for (; d < end; ++d) all *= extents[static_cast<std::size_t>(d)];
    four.push_back(all);
  }
  return four;
}

std::optional<FourDimensions> four_dimensions(const std::vector<WindowDimension>& window,
                                              const Extents& extents) {
  const Extents dimensions = dimensions_of(window);
  const auto rank = static_cast<std::int64_t>(window.size());
  if (dimensions.empty() || dimensions.size() > 2) return std::nullopt;
  const std::int64_t first = dimensions.front(), last = dimensions.back();
  if (last > first + 1 || last + 1 == rank) return std::nullopt;
  std::int64_t before = 1;
  for (std::int64_t d = 0; d < first; ++d) before *= extents[static_cast<std::size_t>(d)];
  FourDimensions four;
  four.window.resize(kPoolingRank);
  // What stands in front becomes the batch; else what stands behind, but for the last dimension.
  const bool leads = before == 1 && last + 2 < rank;
  const std::size_t row = leads ? 0 : 1;
  if (first != last) four.window[row] = window[static_cast<std::size_t>(first)];
  four.window[row + 1] = window[static_cast<std::size_t>(last)];
  four.ends =
      leads ? Extents{last, last + 1, rank - 1, rank} : Extents{first, last, last + 1, rank};
  return four;
}

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// The least bytes of an array in tiles.
double densest_bytes(const Extents& extents, ElementType type) {
  return 1024.0 * static_cast<double>(fewest_registers(extents) * hlo::byte_size(type));
}

/// How an image lies where its windows are combined from parts of it: densely, and of nearly equal
/// orders with a dimension in the lanes, or two in the tiles, that no window extends over.
struct DenseOrder {
  double bytes;  ///< As f32.
  bool has_free_lanes, has_free_tiles;
};

DenseOrder dense_order(const Extents& extents, const std::vector<WindowDimension>& window) {
  constexpr double kNearly = 1.1;
  constexpr std::size_t kAny = 0, kLanesFree = 1, kTilesFree = 2;
  std::array<double, 3> least{kNever, kNever, kNever};
  double all = 1;
  for (const std::int64_t extent : extents) all *= static_cast<double>(extent);
  const auto padded = [&](std::size_t d, std::int64_t to) {
    return static_cast<double>(round_up(extents[d], to)) / static_cast<double>(extents[d]);
  };
  for (std::size_t lanes = 0; lanes < extents.size(); ++lanes) {
    for (std::size_t rows = 0; rows < extents.size(); ++rows) {
      if (rows == lanes) continue;
      const double elements = all * padded(lanes, isa::kLanes) * padded(rows, 8);
      least[kAny] = std::min(least[kAny], elements);
      if (!is_trivial(window[lanes])) continue;
      least[kLanesFree] = std::min(least[kLanesFree], elements);
      if (is_trivial(window[rows])) least[kTilesFree] = std::min(least[kTilesFree], elements);
    }
  }
  const auto is_near = [&](std::size_t kind) { return least[kind] <= kNearly * least[kAny]; };
  return {4 * least[kAny], is_near(kLanesFree), is_near(kTilesFree)};
}

/// Positions, strides and what else estimates count of a window.
struct WindowExtent {
  explicit WindowExtent(const std::vector<WindowDimension>& window) {
    for (const WindowDimension& w : window) {
      if (is_trivial(w)) continue;
      const auto size = static_cast<double>(w.size), stride = static_cast<double>(w.stride);
      positions *= size;
      strides *= stride;
      steps += w.stride > 1 ? 1 : 0;
      shifts += size / stride;
      // Some strided parts are slices by themselves.
      kernels += w.stride > 1 ? (size + 1) / 2 : 1;
      has_gaps = has_gaps || w.base_dilation > 1;
    }
  }

  double positions = 1, strides = 1;  ///< Over all dimensions.
  double steps = 0;                   ///< Dimensions with a stride.
  double shifts = 0;                  ///< Along one dimension after the other, for each result.
  double kernels = 1;
  bool has_gaps = false;
};

}  // namespace

WindowChoice::WindowChoice(const hlo::Module& module, const Target& target)
    : module_(module), target_(target) {
  for (const HloInstruction& each : entry().instructions) {
    if (each.opcode == HloOpcode::kSelectAndScatter) {
      gradients_.emplace(image_of(each), each);
    } else if (each.opcode == HloOpcode::kReduceWindow &&
               combining_operation(module_.computation(each.called.at(0))) == HloOpcode::kMaximum) {
      maxima_.emplace(image_of(each), each);
    } else if (each.opcode == HloOpcode::kConvolution) {
      Extents spatial = each.convolution->output_spatial;
      std::sort(spatial.begin(), spatial.end());
      images_.insert(std::move(spatial));
    }
  }
}

bool WindowChoice::has_kernel_window(const std::vector<WindowDimension>& window) const {
  const Extents dimensions = dimensions_of(window);
  const bool plain = std::all_of(window.begin(), window.end(), [](const WindowDimension& w) {
    return w.padding_low >= 0 && w.padding_high >= 0 && !w.reversal;
  });
  if (window.size() != kPoolingRank || dimensions.size() > 2 || !plain) return false;
  if (images_.empty() || dimensions.empty()) return true;
  return std::any_of(images_.begin(), images_.end(), [&](const Extents& spatial) {
    return std::includes(spatial.begin(), spatial.end(), dimensions.begin(), dimensions.end());
  });
}

std::optional<WindowChoice::KernelForm> WindowChoice::kernel_form(
    const HloInstruction& pooling) const {
  KernelForm form{pooling, {}, {}};
  for (std::size_t i = 0; i + 1 < pooling.operands.size(); ++i) {
    form.arrays.push_back(entry().at(pooling.operands[i]).shape);
  }
  if (!has_kernel_window(pooling.window)) {
    const auto four = four_dimensions(pooling.window, form.image().dimensions);
    if (!four || !has_kernel_window(four->window)) return std::nullopt;
    form.pooling.window = four->window;
    form.pooling.shape.dimensions = four->merged(pooling.shape.dimensions);
    for (hlo::Shape& array : form.arrays) {
      array = hlo::array_shape(array.type, four->merged(array.dimensions));
    }
  }
  form.order = order_of_windows(form.pooling, form.image(), form.windows(), target_.vmem_bytes);
  return form;
}

bool WindowChoice::rows_fit(const KernelForm& form) const {
  hlo::Computation alone;
  HloInstruction kernel = form.pooling;
  for (std::size_t i = 0; i < kernel.operands.size(); ++i) {
    HloInstruction operand = entry().at(kernel.operands[i]);
    if (i < form.arrays.size()) {
      operand.shape = form.arrays[i];
      operand.shape.layout =
          tiled_layout(operand.shape.type, {form.order.rbegin(), form.order.rend()});
    }
    append(alone, std::move(operand));
    kernel.operands[i] = static_cast<Id>(i);
  }
  kernel.shape.layout = alone.at(0).shape.layout;
  return has_pooling_kernel(module_, alone, kernel, target_);
}

std::optional<WindowChoice::DensePixels> WindowChoice::dense_pixels(
    const HloInstruction& pooling) const {
  const hlo::Shape& image = entry().at(pooling.operands[0]).shape;
  const FourDimensions four = *four_dimensions(pooling.window, image.dimensions);
  const Extents dimensions = dimensions_of(pooling.window);
  DensePixels dense;
  for (std::int64_t d = 0; d < image.rank(); ++d) {
    const std::int64_t extent = image.dimensions[static_cast<std::size_t>(d)];
    if (d < dimensions.front()) dense.images *= extent;
    if (d > dimensions.back()) dense.features *= extent;
  }
  if (!images_.empty() || dense.features % isa::kLanes != 0) return std::nullopt;
  HloInstruction merged = pooling;
  merged.window = four.window;
  const hlo::Shape form = hlo::array_shape(image.type, four.merged(image.dimensions));
  merged.shape.dimensions = four.merged(pooling.shape.dimensions);
  const auto padded =
      in_order(form, order_of_windows(merged, form, merged.shape, target_.vmem_bytes))
          .padded_bytes();
  const std::int64_t rows = dense.images * dense.features / isa::kLanes;
  const std::int64_t others = image.element_count() / (rows * isa::kLanes);
  const std::int64_t bytes =
      others * round_up(rows, std::int64_t{8}) * isa::kLanes * hlo::byte_size(image.type);
  if (2 * bytes > static_cast<std::int64_t>(padded)) return std::nullopt;
  dense.bytes = static_cast<double>(bytes);
  return dense;
}

/// What windows are of, before its elements were put elsewhere or padded.
GraphEditor::Id WindowChoice::image_of(const HloInstruction& pooling) const {
  Id image = pooling.operands[0];
  for (;; image = entry().at(image).operands[0]) {
    const HloOpcode opcode = entry().at(image).opcode;
    if (opcode != HloOpcode::kReshape && opcode != HloOpcode::kTranspose &&
        opcode != HloOpcode::kPad) {
      return image;
    }
  }
}

double WindowChoice::padded_bytes(const HloInstruction& pooling, const KernelForm& form) const {
  if (pooling.window.size() != kPoolingRank) {
    if (const auto dense = dense_pixels(pooling)) return dense->bytes;
  }
  return static_cast<double>(in_order(form.image(), form.order).padded_bytes());
}

/// By the bytes that pass. The kernel has the window's dimensions outside of its tiles, which the
/// two others may leave nearly empty; rows of one pixel wait for each other. Parts of the array are
/// read where they stand if no window extends over the lanes, else shifted, and strides make phases
/// of the image; a gradient compares each position with the greatest, and adds what it gets. The
/// factors are what the windows of bench/programs/windows.py took, chosen with those in view: of 1
/// to 128 images of 32 to 512 pixels and lines of 800 to 4,096, with 3 to 200 features, windows of
/// 2 to 7 that step by 1 to 7. Gaps between pixels are padding that parts are cut from, and none of
/// the kernel's traffic. Where a gradient's rows do not fit, its parts lie as the windows of
/// the kernel do; other windows go in steps then, which lie as they like.
WindowChoice::FormCycles WindowChoice::form_cycles(const HloInstruction& pooling) const {
  constexpr double kRowWait = 150;
  const WindowExtent window(pooling.window);
  const double rate = target_.hbm_bytes_per_cycle;
  const bool scatters = pooling.opcode == HloOpcode::kSelectAndScatter;
  const hlo::Shape& image = entry().at(pooling.operands[0]).shape;
  Extents pixels = image.dimensions;
  for (std::size_t d = 0; d < pixels.size(); ++d) {
    pixels[d] = (pixels[d] - 1) * pooling.window[d].base_dilation + 1;
  }
  const DenseOrder dense = dense_order(pixels, pooling.window);
  double passes =
      (window.has_gaps ? 2 : 1) +
      (dense.has_free_lanes ? 1 / window.strides : 1.2 * window.shifts + 3 * window.steps);
  double kernels = window.kernels + (dense.has_free_lanes ? 0 : window.steps);
  if (scatters) {
    passes = (dense.has_free_lanes ? 4 : 6) * window.positions / window.strides +
             (dense.has_free_tiles ? 1 : 8) * window.steps;
    kernels = 2 * (window.positions + window.steps);
  }
  FormCycles cycles{0, kernels * kKernelCycles + passes * dense.bytes / rate};
  const auto form = kernel_form(pooling);
  if (!form) return cycles;
  const double padded = padded_bytes(pooling, *form) / rate;
  if (!rows_fit(*form)) {
    if (scatters) cycles.kernel = kernels * kKernelCycles + passes * padded;
    return cycles;
  }
  const double windows =
      window.has_gaps
          ? static_cast<double>(in_order(form->windows(), form->order).padded_bytes()) / rate
          : padded / window.strides;
  cycles.kernel =
      3 * kKernelCycles + (scatters ? 2.4 * (padded + 1.5 * windows) : 1.2 * (padded + windows));
  const auto rows = static_cast<std::size_t>(form->order[0]);
  const auto columns = static_cast<std::size_t>(form->order[1]);
  if (form->image().dimensions[columns] == 1) {
    cycles.kernel += kRowWait * static_cast<double>(form->windows().dimensions[rows]);
  }
  return cycles;
}

bool WindowChoice::is_faster_in_parts(const HloInstruction& pooling) const {
  constexpr double kSurely = 1.25;
  if (!images_.empty() || pooling.window.size() < 2) return false;
  FormCycles both = form_cycles(pooling);
  const bool scatters = pooling.opcode == HloOpcode::kSelectAndScatter;
  const std::map<Id, HloInstruction>& others = scatters ? maxima_ : gradients_;
  const auto other = others.find(image_of(pooling));
  if (other != others.end()) {
    const FormCycles beside = form_cycles(other->second);
    both.kernel += beside.kernel;
    both.parts += beside.parts;
  }
  return kSurely * both.parts < both.kernel;
}

bool WindowChoice::is_faster_shifted(const HloInstruction& pooling, HloOpcode operation) const {
  if (!images_.empty() || pooling.window.size() < 2) return false;
  const Extents dimensions = dimensions_of(pooling.window);
  return (dimensions.size() == 1 &&
          are_parts(pooling, static_cast<std::size_t>(dimensions[0]), operation)) ||
         is_faster_in_parts(pooling);
}

/// A slice is read and written, then read once more. Where kernels take the last dimension first,
/// the image is copied to its order and its result to another one, and both are dense.
bool WindowChoice::is_faster_from_outside(const HloInstruction& pooling) const {
  if (gradients_.count(image_of(pooling)) > 0) return false;
  const hlo::Shape& image = entry().at(pooling.operands[0]).shape;
  const Extents dimensions = dimensions_of(pooling.window);
  const WindowDimension& first = pooling.window[static_cast<std::size_t>(dimensions.front())];
  const WindowDimension& last = pooling.window[static_cast<std::size_t>(dimensions.back())];
  const double slices =
      (3 * static_cast<double>(first.size) + 1) / static_cast<double>(first.stride);
  const double kernels = 3 + 3 / static_cast<double>(last.stride);
  const auto bytes = static_cast<double>(image.element_count() * hlo::byte_size(image.type));
  return slices * densest_bytes(image.dimensions, image.type) < kernels * bytes;
}

bool WindowChoice::shares_phases(const HloInstruction& pooling) const {
  return gradients_.count(image_of(pooling)) > 0 && dimensions_of(pooling.window).size() <= 2 &&
         is_faster_in_parts(pooling);
}

bool WindowChoice::steps_through_dense_lanes(const HloInstruction& pooling) const {
  std::vector<WindowDimension> steps = pooling.window;
  for (WindowDimension& w : steps) {
    if (w.stride == 1) w = {};
  }
  return !dense_order(entry().at(pooling.operands[0]).shape.dimensions, steps).has_free_lanes;
}

}  // namespace tpu::compiler
