#include "workloads/compiler/passes/expand/convolution_strips.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "sim/base/ceil_divide.h"
#include "workloads/compiler/cost.h"
#include "workloads/compiler/passes/expand/convolution_arrays.h"
#include "workloads/compiler/passes/expand/convolution_steps.h"
#include "workloads/compiler/passes/layout/convolution_layouts.h"

namespace tpu::compiler {

using hlo::ConvolutionDimensions;
using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::WindowDimension;

namespace {

using Id = GraphEditor::Id;
using Extents = GraphEditor::Extents;

/// Examples that fill the rows of a tile.
constexpr std::int64_t kFullBatch = 8;
constexpr std::int64_t kFullLanes = 128;
/// How much longer it takes to move an image than its bytes.
constexpr double kMovedImageFactor = 2;

/// The batch of the input and its features, as the result has them or, in the gradient of a kernel,
/// as it contracts them.
std::pair<std::int64_t, std::int64_t> batch_and_features(const HloInstruction& convolution) {
  const ConvolutionDimensions& dims = convolution.convolution;
  return has_large_window(convolution) ? std::pair(dims.input_feature, dims.input_batch)
                                       : std::pair(dims.input_batch, dims.input_feature);
}

/// Whether elements that follow each other along the two dimensions do so in memory, in this order.
bool stands_behind(const Extents& extents, std::int64_t outer, std::int64_t inner) {
  return outer < inner && std::all_of(extents.begin() + outer + 1, extents.begin() + inner,
                                      [](std::int64_t extent) { return extent == 1; });
}

/// `count` strips of dimension `spatial` behind each example of dimension `batch`.
Id cut_into_batch(GraphEditor& edit, Id image, std::int64_t spatial, std::int64_t batch,
                  std::int64_t features, std::int64_t count) {
  Extents extents = edit.dimensions(image);
  extents[static_cast<std::size_t>(spatial)] /= count;
  if (stands_behind(extents, batch, spatial)) {
    extents[static_cast<std::size_t>(batch)] *= count;
    return edit.reshape(image, extents);
  }
  extents.insert(extents.begin() + spatial, count);
  const auto behind = [spatial](std::int64_t d) { return d < spatial ? d : d + 1; };
  return merge_dimension(edit, edit.reshape(image, extents), spatial, behind(batch), false,
                         behind(features));
}

/// Each example's neighbour `distance` strips on; zeros where an image ends.
Id neighbours(GraphEditor& edit, Id pixels, std::int64_t batch, std::int64_t count,
              std::int64_t distance) {
  const Extents extents = edit.dimensions(pixels);
  const std::int64_t images = extents[static_cast<std::size_t>(batch)] / count;
  if (images == 1) return edit.take(pixels, batch, distance, count, 1);
  Extents apart = extents;
  apart[static_cast<std::size_t>(batch)] = count;
  apart.insert(apart.begin() + batch, images);
  return edit.reshape(edit.take(edit.reshape(pixels, apart), batch + 1, distance, count, 1),
                      extents);
}

Id input_in_strips(GraphEditor& edit, const HloInstruction& convolution, const ImageStrips& form) {
  const auto [batch, features] = batch_and_features(convolution);
  const std::int64_t d = convolution.convolution->input_spatial[form.index];
  const Id image = rounded(edit, convolution, convolution.operands[0]);
  const Id own = cut_into_batch(edit, image, d, batch, features, form.count);
  const std::int64_t end = form.first + extent_of(form.input, d);
  std::vector<Id> parts;
  if (form.first < 0) {
    const Id last = edit.take(own, d, form.own + form.first, -form.first, 1);
    parts.push_back(neighbours(edit, last, batch, form.count, -1));
  }
  const std::int64_t begin = std::max<std::int64_t>(0, form.first);
  parts.push_back(edit.take(own, d, begin, std::min(end, form.own) - begin, 1));
  if (end > form.own) {
    const Id first = edit.take(own, d, 0, end - form.own, 1);
    parts.push_back(neighbours(edit, first, batch, form.count, 1));
  }
  return parts.size() == 1 ? parts.front() : edit.concatenate(parts, d);
}

void multiply_extent(hlo::Shape& shape, std::int64_t d, std::int64_t count) {
  shape.dimensions[static_cast<std::size_t>(d)] *= count;
}

}  // namespace

std::optional<ImageStrips> image_strips(const GraphEditor& edit, const HloInstruction& convolution,
                                        std::size_t index, std::int64_t count) {
  const ConvolutionDimensions& dims = convolution.convolution;
  const bool large = has_large_window(convolution);
  const WindowDimension& w = convolution.window[index];
  const std::int64_t positions = splittable_positions(convolution, index);
  if (count < 2 || positions % count != 0 || groups_of(convolution) > 1) return std::nullopt;
  if (large && (w.reversal || w.base_dilation > 1)) return std::nullopt;
  const std::int64_t step = positions / count * (large ? w.window_dilation : w.stride);
  ImageStrips form{convolution,
                   edit.shape(convolution.operands[0]),
                   edit.shape(convolution.operands[1]),
                   index,
                   count,
                   step / w.base_dilation,
                   0};
  const std::int64_t d = dims.input_spatial[index];
  if (step % w.base_dilation != 0 || extent_of(form.input, d) != form.own * count) {
    return std::nullopt;
  }
  WindowDimension& part = form.convolution.window[index];
  hlo::Shape& result = form.convolution.shape;
  if (large) {
    part.size = positions / count;
    form.window.dimensions[static_cast<std::size_t>(dims.kernel_spatial[index])] = part.size;
    multiply_extent(form.window, dims.kernel_input_feature, count);
    form.window.type = rounded_type(convolution, form.window.type);
  } else {
    result.dimensions[static_cast<std::size_t>(dims.output_spatial[index])] = positions / count;
    multiply_extent(result, dims.output_batch, count);
  }
  const std::int64_t results = extent_of(result, dims.output_spatial[index]);
  const std::int64_t reach = (results - 1) * w.stride + (part.size - 1) * w.window_dilation;
  form.first = ceil_divide(-w.padding_low, w.base_dilation);
  const std::int64_t last = -ceil_divide(w.padding_low - reach, w.base_dilation);
  const std::int64_t pixels = last - form.first + 1;
  const bool meets_neighbours = form.first > -form.own && last + 1 < 2 * form.own;
  if (pixels < 1 || form.first >= form.own || last < 0 || !meets_neighbours) return std::nullopt;
  part.padding_low = form.first * w.base_dilation + w.padding_low;
  part.padding_high = reach - (pixels - 1) * w.base_dilation - part.padding_low;
  form.input.dimensions[static_cast<std::size_t>(d)] = pixels;
  multiply_extent(form.input, batch_and_features(convolution).first, count);
  form.input.type = rounded_type(convolution, form.input.type);
  return form;
}

Id write_in_strips(GraphEditor& edit, const HloInstruction& convolution, const ImageStrips& form,
                   const EmitConvolution& emit) {
  const ConvolutionDimensions& dims = convolution.convolution;
  HloInstruction strips = form.convolution;
  strips.operands[0] = input_in_strips(edit, convolution, form);
  if (has_large_window(convolution)) {
    const Id image = rounded(edit, convolution, convolution.operands[1]);
    strips.operands[1] =
        cut_into_batch(edit, image, dims.kernel_spatial[form.index], dims.kernel_input_feature,
                       dims.kernel_output_feature, form.count);
    return emit(std::move(strips));
  }
  Extents extents = convolution.shape.dimensions;
  const std::int64_t o = dims.output_spatial[form.index];
  if (stands_behind(extents, dims.output_batch, o)) {
    return edit.reshape(emit(std::move(strips)), extents);
  }
  extents[static_cast<std::size_t>(o)] /= form.count;
  extents.insert(extents.begin() + o, form.count);
  const auto behind = [o](std::int64_t d) { return d < o ? d : d + 1; };
  const Id apart = split_dimension(edit, emit(std::move(strips)), extents, o,
                                   behind(dims.output_batch), false, behind(dims.output_feature));
  return edit.reshape(apart, convolution.shape.dimensions);
}

namespace {

/// Cycles of a convolution's kernel on the better side.
std::optional<double> least_cycles(ConvolutionKernels& kernels, const HloInstruction& convolution,
                                   const hlo::Shape& input, const hlo::Shape& window) {
  std::optional<double> least;
  for (const bool in_lanes : {false, true}) {
    const std::optional<double> cycles = kernels.cycles(convolution, input, window, in_lanes);
    if (cycles && (!least || *cycles < *least)) least = cycles;
  }
  return least;
}

/// As many strips as fill the rows of tiles, of the rows of images or else of their columns.
std::optional<ImageStrips> strips_that_fill_tiles(const GraphEditor& edit,
                                                  const HloInstruction& convolution) {
  if (groups_of(convolution) > 1) return std::nullopt;
  const std::int64_t batch =
      extent_of(edit.shape(convolution.operands[0]), batch_and_features(convolution).first);
  for (std::int64_t count = kFullBatch / batch; count > 1; --count) {
    for (const std::size_t index : {0, 1}) {
      std::optional<ImageStrips> form = image_strips(edit, convolution, index, count);
      if (form) return form;
    }
  }
  return std::nullopt;
}

/// Images that lie alike, each by one of them: joined by elementwise operations.
std::vector<std::size_t> images_alike(const hlo::Computation& computation) {
  std::vector<std::size_t> parents(computation.instructions.size());
  std::iota(parents.begin(), parents.end(), 0);
  const auto root = [&parents](std::size_t at) {
    while (parents[at] != at) at = parents[at] = parents[parents[at]];
    return at;
  };
  for (const HloInstruction& each : computation.instructions) {
    if (!hlo::is_elementwise(each.opcode) || each.shape.is_tuple()) continue;
    for (const Id operand : each.operands) {
      const hlo::Shape& shape = computation.at(operand).shape;
      const bool is_alike = !shape.is_tuple() && shape.dimensions == each.shape.dimensions;
      if (is_alike)
        parents[root(static_cast<std::size_t>(operand))] = root(static_cast<std::size_t>(each.id));
    }
  }
  for (std::size_t i = 0; i < parents.size(); ++i) parents[i] = root(i);
  return parents;
}

/// The convolutions of a computation and the images between them.
class StripSearch {
 public:
  StripSearch(const hlo::Module& module, const GraphEditor& edit, ConvolutionKernels& kernels,
              const IsDirect& is_direct)
      : computation_(module.entry_computation()),
        edit_(edit),
        kernels_(kernels),
        is_direct_(is_direct),
        alike_(images_alike(computation_)) {}

  std::map<Id, ImageStrips> run() {
    for (const HloInstruction& each : computation_.instructions) add(each);
    std::map<Id, ImageStrips> chosen;
    if (std::none_of(nodes_.begin(), nodes_.end(), [](const Node& n) { return n.form; })) return {};
    find_images();
    for (const auto& [component, nodes] : components()) {
      std::set<const Node*> strips;
      for (const Node* node : nodes) {
        if (node->form && node->then < node->now) strips.insert(node);
      }
      drop_dear(nodes, strips);
      if (cycles(nodes, strips) >= cycles(nodes, {})) continue;
      for (const Node* node : strips) chosen.emplace(node->id, *node->form);
    }
    return chosen;
  }

 private:
  struct Node {
    Id id;
    std::optional<ImageStrips> form;
    double now = 0, then = 0;
    std::array<ConvolutionImage, 2> images;
  };

  void add(const HloInstruction& convolution) {
    if (convolution.opcode != HloOpcode::kConvolution || convolution.window.size() != 2) return;
    Node node{convolution.id, std::nullopt, 0, 0, images_of(convolution)};
    if (is_direct_(convolution)) node.form = strips_that_fill_tiles(edit_, convolution);
    const hlo::Shape& input = computation_.at(convolution.operands[0]).shape;
    const hlo::Shape& window = computation_.at(convolution.operands[1]).shape;
    if (node.form) {
      const auto now = least_cycles(kernels_, convolution, input, window);
      const auto then =
          least_cycles(kernels_, node.form->convolution, node.form->input, node.form->window);
      if (!now || !then) node.form.reset();
      node.now = now.value_or(0);
      node.then = then.value_or(0) + kStripKernels * kKernelCycles;
    }
    nodes_.push_back(std::move(node));
  }

  std::size_t root_of(Id id) const { return alike_[static_cast<std::size_t>(id)]; }

  /// What others than elementwise operations and sums read or make, they have whole.
  void find_images() {
    for (const HloInstruction& each : computation_.instructions) {
      const bool is_either = hlo::is_elementwise(each.opcode) || each.shape.is_tuple() ||
                             each.operands.empty() || each.opcode == HloOpcode::kReduce ||
                             each.opcode == HloOpcode::kConvolution ||
                             each.opcode == HloOpcode::kBroadcast;
      if (is_either) continue;
      whole_.insert(root_of(each.id));
      for (const Id operand : each.operands) whole_.insert(root_of(operand));
    }
  }

  /// Convolutions that share images, one by one or by way of others.
  std::map<std::size_t, std::vector<const Node*>> components() {
    std::vector<std::size_t> images = alike_;
    const auto root_in = [&images](std::size_t at) {
      while (images[at] != at) at = images[at];
      return at;
    };
    for (const Node& node : nodes_) {
      images[root_in(root_of(node.images[0].id))] = root_in(root_of(node.images[1].id));
    }
    std::map<std::size_t, std::vector<const Node*>> found;
    for (const Node& node : nodes_) {
      found[root_in(root_of(node.images[0].id))].push_back(&node);
    }
    return found;
  }

  /// With these in strips: the kernels, and each image that is read or made in both forms.
  double cycles(const std::vector<const Node*>& nodes, const std::set<const Node*>& strips) {
    std::set<std::size_t> whole = whole_;
    double sum = 0;
    for (const Node* node : nodes) {
      const bool in_strips = strips.count(node) != 0;
      sum += in_strips ? node->then : node->now;
      if (in_strips) continue;
      for (const ConvolutionImage& image : node->images) whole.insert(root_of(image.id));
    }
    std::set<Id> moved;
    for (const Node* node : strips) {
      for (const ConvolutionImage& image : node->images) {
        if (!moved.insert(image.id).second) continue;
        const bool is_mixed = whole.count(root_of(image.id)) != 0;
        const double bytes = padded_bytes(
            hlo::array_shape(ElementType::kF32, computation_.at(image.id).shape.dimensions),
            image.roles.features, image.roles.batch);
        const auto count = static_cast<double>(node->form->count);
        const double moves = (is_mixed ? bytes : 0) + bytes / count;
        sum += kMovedImageFactor * moves / kernels_.target().hbm_bytes_per_cycle;
      }
    }
    return sum;
  }

  /// Leaves out what takes more with its moves than as it is, the dearest first.
  void drop_dear(const std::vector<const Node*>& nodes, std::set<const Node*>& strips) {
    double least = cycles(nodes, strips);
    for (;;) {
      const Node* dearest = nullptr;
      for (const Node* node : strips) {
        std::set<const Node*> fewer = strips;
        fewer.erase(node);
        const double without = cycles(nodes, fewer);
        if (without >= least) continue;
        least = without;
        dearest = node;
      }
      if (dearest == nullptr) return;
      strips.erase(dearest);
    }
  }

  const hlo::Computation& computation_;
  const GraphEditor& edit_;
  ConvolutionKernels& kernels_;
  const IsDirect& is_direct_;
  std::vector<std::size_t> alike_;  ///< The image of each array.
  std::vector<Node> nodes_;
  std::set<std::size_t> whole_;  ///< Images that others than convolutions have so, by root.
};

}  // namespace

namespace {

std::int64_t features_of(const hlo::Computation& computation, const ConvolutionImage& image) {
  return extent_of(computation.at(image.id).shape, image.roles.features);
}

/// Whether an operation reads and makes images as they lie. (Parameters lie as they are wanted.)
bool leaves_images(const HloInstruction& each) {
  return hlo::is_elementwise(each.opcode) || each.opcode == HloOpcode::kReduce ||
         each.opcode == HloOpcode::kBroadcast || each.opcode == HloOpcode::kConstant ||
         each.opcode == HloOpcode::kParameter;
}

}  // namespace

std::set<hlo::InstructionId> lines_of_few_features(const hlo::Module& module, std::int64_t few) {
  const hlo::Computation& computation = module.entry_computation();
  const std::vector<std::size_t> alike = images_alike(computation);
  const auto image_of = [&alike](Id id) { return alike[static_cast<std::size_t>(id)]; };
  std::set<std::size_t> wanted;     // As they are.
  std::map<Id, std::size_t> lines;  // The image of more features of each.
  for (const HloInstruction& each : computation.instructions) {
    if (each.opcode == HloOpcode::kConvolution && each.window.size() == 1) {
      std::array<ConvolutionImage, 2> images = images_of(each);
      if (features_of(computation, images[0]) > features_of(computation, images[1])) {
        std::swap(images[0], images[1]);
      }
      const bool is_few = groups_of(each) == 1 && features_of(computation, images[0]) < few;
      if (is_few) lines.emplace(each.id, image_of(images[1].id));
      if (is_few) continue;
    }
    if (leaves_images(each)) continue;
    wanted.insert(image_of(each.id));
    for (const Id operand : each.operands) wanted.insert(image_of(operand));
  }
  std::set<hlo::InstructionId> found;
  for (const auto& [line, image] : lines) {
    if (wanted.count(image) == 0) found.insert(line);
  }
  return found;
}

std::optional<ImageStrips> strips_that_fill_lanes(const GraphEditor& edit,
                                                  const HloInstruction& convolution) {
  const std::int64_t batch =
      extent_of(edit.shape(convolution.operands[0]), batch_and_features(convolution).first);
  for (std::int64_t count = kFullLanes / batch; count > 1 && 2 * count * batch >= kFullLanes;
       --count) {
    std::optional<ImageStrips> form =
        image_strips(edit, convolution, convolution.window.size() - 1, count);
    if (form) return form;
  }
  return std::nullopt;
}

std::map<hlo::InstructionId, ImageStrips> strips_that_take_less(const hlo::Module& module,
                                                                const GraphEditor& edit,
                                                                ConvolutionKernels& kernels,
                                                                const IsDirect& is_direct) {
  return StripSearch(module, edit, kernels, is_direct).run();
}

}  // namespace tpu::compiler
