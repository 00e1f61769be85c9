#include "workloads/compiler/passes/expand/image_form_choice.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "isa/instruction.h"
#include "workloads/compiler/cost.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/dimension_order.h"
#include "workloads/compiler/passes/expand/convolution_steps.h"
#include "workloads/compiler/passes/layout/convolution_layouts.h"

namespace tpu::compiler {

using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;

namespace {

using Id = GraphEditor::Id;

constexpr int kRegisterElements = isa::kSublanes * isa::kLanes;
/// How much longer it takes to move an image than to read and write its bytes: chosen with four
/// programs in view (1.3 to 1.45).
constexpr double kMovedImageFactor = 1.4;
/// Estimates of moves are worse than those of kernels: another form has to be so much better.
constexpr double kFormGain = 0.95;
/// Of strips that meet their neighbours: two slices, two pads, a concatenation. Those of small
/// images are one kernel.
constexpr double kNeighbourKernels = 2;

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

bool lies_like_operands(HloOpcode opcode) {
  return hlo::is_elementwise(opcode) || opcode == HloOpcode::kReshape;
}

/// Images that lie alike, each by one of them: joined by elementwise operations (and by reshapes of
/// nothing, which forms of convolutions leave).
std::vector<std::size_t> images_alike(const hlo::Computation& computation) {
  std::vector<std::size_t> parents(computation.instructions.size());
  std::iota(parents.begin(), parents.end(), 0);
  const auto root = [&parents](std::size_t at) {
    while (parents[at] != at) at = parents[at] = parents[parents[at]];
    return at;
  };
  for (const HloInstruction& each : computation.instructions) {
    if (!lies_like_operands(each.opcode) || each.shape.is_tuple()) continue;
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
class ImageFormChoice {
 public:
  ImageFormChoice(const hlo::Module& module, const GraphEditor& edit, ConvolutionKernels& kernels,
                  const IsDirect& is_direct)
      : computation_(module.entry_computation()),
        edit_(edit),
        kernels_(kernels),
        is_direct_(is_direct),
        alike_(images_alike(computation_)) {
    for (const HloInstruction& each : computation_.instructions) {
      if (!hlo::is_elementwise(each.opcode) || each.shape.is_tuple()) continue;
      elementwise_[root_of(each.id)] += vector_cycles(each.opcode);
    }
  }

  ImageForms run() {
    for (const HloInstruction& each : computation_.instructions) add(each);
    ImageForms chosen;
    const auto has_form = [](const Node& node) { return node.forms[0] || node.forms[1]; };
    if (std::none_of(nodes_.begin(), nodes_.end(), has_form)) return chosen;
    find_images();
    for (const auto& [component, nodes] : components()) {
      std::set<const Node*> best;
      std::size_t kind = 0;
      double least = kFormGain * cycles(nodes, {}, kStrips);
      for (const std::size_t form : {kStrips, kRows}) {
        const std::set<const Node*> in_form = those_that_gain(nodes, form);
        const double found = cycles(nodes, in_form, form);
        if (found >= least) continue;
        least = found;
        kind = form;
        best = in_form;
      }
      for (const Node* node : best) {
        if (kind == kRows) {
          chosen.pixels_in_rows.insert(node->id);
        } else {
          chosen.strips.emplace(node->id, *node->strips);
        }
      }
    }
    return chosen;
  }

 private:
  enum Kind : std::size_t { kStrips, kRows };

  /// Another form of a convolution.
  struct Form {
    double cycles = 0;
    /// Registers of its images, in which nothing is padding but at the ends.
    std::array<double, 2> registers{};
    /// Of images that strips make with the pixels of their neighbours: what these are moved as.
    std::optional<ElementType> cut_type;
  };

  struct Node {
    Id id;
    std::array<ConvolutionImage, 2> images;
    double now = 0;
    std::array<double, 2> registers{};  ///< Of the images, as they lie now.
    std::optional<ImageStrips> strips;
    std::array<std::optional<Form>, 2> forms;  ///< By kind.
  };

  void add(const HloInstruction& convolution) {
    if (convolution.opcode != HloOpcode::kConvolution || convolution.window.size() != 2) return;
    Node node;
    node.id = convolution.id;
    node.images = images_of(convolution);
    const hlo::Shape& input = computation_.at(convolution.operands[0]).shape;
    const hlo::Shape& window = computation_.at(convolution.operands[1]).shape;
    for (std::size_t i = 0; i < 2; ++i) node.registers[i] = padded_registers(node.images[i]);
    if (is_direct_(convolution)) {
      add_strips(node, convolution);
      add_rows(node, convolution, input, window);
    }
    if (node.forms[kStrips] || node.forms[kRows]) {
      const std::optional<double> now = least_cycles(kernels_, convolution, input, window);
      if (!now) node.forms = {};
      node.now = now.value_or(0);
    }
    nodes_.push_back(std::move(node));
  }

  void add_strips(Node& node, const HloInstruction& convolution) {
    node.strips = strips_that_fill_tiles(edit_, convolution);
    if (!node.strips) return;
    const ImageStrips& strips = *node.strips;
    const auto cycles = least_cycles(kernels_, strips.convolution, strips.input, strips.window);
    if (!cycles) return;
    Form form;
    form.cycles = *cycles;
    for (std::size_t i = 0; i < 2; ++i) {
      form.registers[i] = node.registers[i] / static_cast<double>(strips.count);
    }
    const std::int64_t d = strips.convolution.convolution->input_spatial[strips.index];
    if (extent_of(strips.input, d) > strips.own) form.cut_type = strips.input.type;
    node.forms[kStrips] = form;
  }

  void add_rows(Node& node, const HloInstruction& convolution, const hlo::Shape& input,
                const hlo::Shape& window) {
    const auto rows = with_pixels_in_rows(convolution, input, window, kernels_);
    if (!rows) return;
    Form form;
    form.cycles = rows->cycles;
    form.registers = {registers_of(rows->images[0]), registers_of(rows->images[1])};
    node.forms[kRows] = form;
  }

  static hlo::Shape words(const hlo::Shape& shape) {
    return hlo::array_shape(ElementType::kF32, shape.dimensions);
  }

  std::size_t root_of(Id id) const { return alike_[static_cast<std::size_t>(id)]; }

  /// What others than elementwise operations and sums read or make, they have whole, and so has the
  /// entry its parameters and results.
  void find_images() {
    const HloInstruction& root = computation_.at(computation_.root);
    whole_.insert(root_of(root.id));
    if (root.opcode == HloOpcode::kTuple) {
      for (const Id operand : root.operands) whole_.insert(root_of(operand));
    }
    for (const HloInstruction& each : computation_.instructions) {
      if (each.opcode == HloOpcode::kParameter) whole_.insert(root_of(each.id));
      const bool keeps = hlo::is_elementwise(each.opcode) || each.shape.is_tuple() ||
                         each.opcode == HloOpcode::kReduce ||
                         each.opcode == HloOpcode::kConvolution ||
                         each.opcode == HloOpcode::kBroadcast;
      if (keeps) continue;
      for (const Id operand : each.operands) {
        if (root_of(operand) == root_of(each.id)) continue;
        whole_.insert({root_of(operand), root_of(each.id)});
      }
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

  /// Registers of an image where it lies as convolutions have it, its batch in the rows.
  double padded_registers(const ConvolutionImage& image) const {
    const hlo::Shape& shape = computation_.at(image.id).shape;
    return padded_bytes(words(shape), image.roles.features, image.roles.batch) /
           (4.0 * kRegisterElements);
  }

  double move_cycles(ElementType type, double registers) const {
    const auto bytes = static_cast<double>(hlo::byte_size(type) * kRegisterElements);
    return kMovedImageFactor * bytes * registers / kernels_.target().hbm_bytes_per_cycle;
  }

  /// With these in a form: the kernels, each image that is cut, or that others have in another one,
  /// and the elementwise operations over images, which are as long as these are padded. Others than
  /// convolutions have images with their pixels in rows as they are.
  double cycles(const std::vector<const Node*>& nodes, const std::set<const Node*>& in_form,
                std::size_t kind) {
    std::set<std::size_t> padded;  // Those of convolutions that stay as they are.
    double sum = 0;
    for (const Node* node : nodes) {
      const bool stays = in_form.count(node) == 0;
      sum += stays ? node->now : node->forms[kind]->cycles;
      if (!stays) continue;
      for (const ConvolutionImage& image : node->images) padded.insert(root_of(image.id));
    }
    std::set<Id> turned;
    std::map<std::size_t, double> worked;
    for (const Node* node : nodes) {
      const Form* form = in_form.count(node) != 0 ? &*node->forms[kind] : nullptr;
      for (std::size_t i = 0; i < 2; ++i) {
        const ConvolutionImage& image = node->images[i];
        const std::size_t root = root_of(image.id);
        const bool is_padded = padded.count(root) != 0;
        const double dense = form != nullptr ? form->registers[i] : node->registers[i];
        const double whole = is_padded ? node->registers[i] : dense;
        worked[root] = whole;
        if (form == nullptr) continue;
        if (i == 0 && form->cut_type) {
          sum += kNeighbourKernels * kKernelCycles + move_cycles(*form->cut_type, 2 * dense);
        }
        const bool has_others = is_padded || (kind == kStrips && whole_.count(root) != 0);
        if (has_others && turned.insert(image.id).second) {
          sum += kKernelCycles + move_cycles(computation_.at(image.id).shape.type, dense + whole);
        }
      }
    }
    for (const auto& [root, count] : worked) sum += count * elementwise_[root];
    return sum;
  }

  /// Without those that take more with their moves than as they are, the dearest left out first.
  std::set<const Node*> those_that_gain(const std::vector<const Node*>& nodes, std::size_t kind) {
    std::set<const Node*> found;
    for (const Node* node : nodes) {
      if (node->forms[kind] && node->forms[kind]->cycles < node->now) found.insert(node);
    }
    double least = cycles(nodes, found, kind);
    for (;;) {
      const Node* dearest = nullptr;
      for (const Node* node : found) {
        std::set<const Node*> fewer = found;
        fewer.erase(node);
        const double without = cycles(nodes, fewer, kind);
        if (without >= least) continue;
        least = without;
        dearest = node;
      }
      if (dearest == nullptr) return found;
      found.erase(dearest);
    }
  }

  const hlo::Computation& computation_;
  const GraphEditor& edit_;
  ConvolutionKernels& kernels_;
  const IsDirect& is_direct_;
  std::vector<std::size_t> alike_;  ///< The image of each array.
  /// Of a register of an image, what all operations on it take.
  std::map<std::size_t, double> elementwise_;
  std::vector<Node> nodes_;
  std::set<std::size_t> whole_;  ///< Images that others than convolutions have so, by root.
};

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

std::optional<PixelsInRows> with_pixels_in_rows(const HloInstruction& convolution,
                                                const hlo::Shape& input, const hlo::Shape& window,
                                                ConvolutionKernels& kernels) {
  if (extent_of(input, images_of(convolution)[0].roles.batch) >= isa::kSublanes) {
    return std::nullopt;
  }
  SpatialForm form{convolution, input, window};
  while (!has_pixels_in_rows(form.convolution)) {
    form = with_spatial_dimension(form.convolution, form.input, form.window, 0);
  }
  const auto cycles = kernels.cycles(form.convolution, form.input, form.window, false);
  if (!cycles) return std::nullopt;
  const ConvolutionOrders orders = convolution_orders(form.convolution, false);
  const bool gradient = has_large_window(form.convolution);
  return PixelsInRows{*cycles,
                      {in_order(form.input, orders.input),
                       gradient ? in_order(form.window, orders.window)
                                : in_order(form.convolution.shape, orders.output)}};
}

ImageForms image_forms_that_take_less(const hlo::Module& module, const GraphEditor& edit,
                                      ConvolutionKernels& kernels, const IsDirect& is_direct) {
  return ImageFormChoice(module, edit, kernels, is_direct).run();
}

}  // namespace tpu::compiler
