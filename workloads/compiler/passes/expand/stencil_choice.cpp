#include "workloads/compiler/passes/expand/stencil_choice.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "isa/instruction.h"
#include "sim/base/ceil_divide.h"
#include "workloads/compiler/cost.h"
#include "workloads/compiler/passes/expand/convolution_arrays.h"
#include "workloads/compiler/passes/expand/convolution_steps.h"

namespace tpu::compiler {

using hlo::ConvolutionDimensions;
using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::WindowDimension;

namespace {

using Id = GraphEditor::Id;

/// Terms of all planes: each is a few instructions of straight code.
constexpr std::int64_t kMostTerms = 1024;
/// Of a register of a plane: its way from and to HBM, a term of one feature, one of several, whose
/// kernels take longer the more they are. Chosen with 40 convolutions in view, of 1 to 32 images of
/// 1 to 16 features.
constexpr double kMovedCycles = 30, kTermCycles = 1.5, kTermOfSeveralCycles = 4,
                 kTermsOfKernel = 12;
/// More images are not cut into strips.
constexpr std::int64_t kMostImagesInStrips = 4;
constexpr double kRegisterBytes = double{isa::kSublanes} * isa::kLanes * sizeof(float);

/// Whether images that an operation reads lie as those that it makes.
bool keeps_order(HloOpcode opcode) {
  switch (opcode) {
    case HloOpcode::kPad:
    case HloOpcode::kSlice:
    case HloOpcode::kReverse:
    case HloOpcode::kConcatenate:
    case HloOpcode::kReshape:
    case HloOpcode::kTranspose:
    case HloOpcode::kReduceWindow:
    case HloOpcode::kSelectAndScatter:
      return true;
    default:
      return hlo::is_elementwise(opcode);
  }
}

/// An array that a convolution reads or makes, and what is in it.
struct Image {
  Id id;
  std::int64_t batch, features;
};

/// Convolutions that gain by themselves are given up one after the other where others touch their
/// images.
class StencilChoice {
 public:
  StencilChoice(const hlo::Module& module, const GraphEditor& edit, ConvolutionKernels& kernels)
      : entry_(module.entry_computation()), edit_(edit), kernels_(kernels) {}

  std::map<Id, Stencil> run();

 private:
  struct Candidate {
    Stencil stencil;
    double gain;  ///< Where no other convolution touches its images.
  };

  std::optional<Stencil> stencil_of(const HloInstruction& convolution) const;
  double stencil_cycles(const HloInstruction& convolution, const Stencil& stencil) const;
  double convolution_cycles(const HloInstruction& convolution, const Stencil& stencil);
  double depthwise_cycles(const HloInstruction& convolution, const Stencil& stencil) const;
  std::vector<Image> images_of(const HloInstruction& convolution) const;
  double planes_moved(const Image& image) const;
  Id group(Id id);
  void make_groups();

  const hlo::Computation& entry_;
  const GraphEditor& edit_;
  ConvolutionKernels& kernels_;
  std::vector<Id> group_of_;  ///< A forest over arrays that lie alike.
};

std::optional<Stencil> StencilChoice::stencil_of(const HloInstruction& convolution) const {
  const hlo::Shape &input = entry_.at(convolution.operands[0]).shape,
                   &window = entry_.at(convolution.operands[1]).shape;
  for (const hlo::Shape* shape : {&input, &window, &convolution.shape}) {
    if (shape->type != ElementType::kF32 && shape->type != ElementType::kBf16) return std::nullopt;
    if (shape->element_count() == 0) return std::nullopt;
  }
  if (convolution.batch_group_count != 1 || convolution.window.empty()) return std::nullopt;
  const ConvolutionDimensions& dims = convolution.convolution;
  Stencil stencil;
  stencil.is_gradient = has_large_window(convolution);
  stencil.inputs = extent_of(window, dims.kernel_input_feature);
  stencil.outputs = extent_of(convolution.shape, dims.output_feature);
  stencil.groups = convolution.feature_group_count;
  if (stencil.is_gradient) {
    if (stencil.groups > 1) return std::nullopt;
    stencil.inputs = extent_of(input, dims.input_batch);
  }
  for (std::size_t i = 0; i < convolution.window.size(); ++i) {
    const WindowDimension& w = convolution.window[i];
    if (w.stride != 1 || w.base_dilation != 1) return std::nullopt;
    if (stencil.is_gradient && (w.window_dilation != 1 || w.reversal)) return std::nullopt;
    stencil.taps.push_back(
        stencil.is_gradient ? extent_of(convolution.shape, dims.output_spatial[i]) : w.size);
    if (stencil.terms() > kMostTerms) return std::nullopt;
  }
  if (stencil.taps_together() == 1) return std::nullopt;
  return stencil;
}

/// A plane is a kernel, or several that add up a part of many terms each; so are sums of products.
/// Rows of few pixels leave lanes empty, where the batch does not fill them.
double StencilChoice::stencil_cycles(const HloInstruction& convolution,
                                     const Stencil& stencil) const {
  const ConvolutionDimensions& dims = convolution.convolution;
  const Id images = convolution.operands[stencil.is_gradient ? 1 : 0];
  const hlo::Shape shape = stencil.is_gradient ? edit_.shape(images) : convolution.shape;
  const std::int64_t batch =
      extent_of(shape, stencil.is_gradient ? dims.kernel_input_feature : dims.output_batch);
  const std::int64_t row = extent_of(
      shape, stencil.is_gradient ? dims.kernel_spatial.back() : dims.output_spatial.back());
  const std::int64_t pixels = shape.element_count() / stencil.outputs;
  const auto in_lanes = [&](std::int64_t lanes) {
    return ceil_divide(pixels / lanes, std::int64_t{isa::kSublanes}) *
           ceil_divide(lanes, std::int64_t{isa::kLanes});
  };
  const auto registers = static_cast<double>(std::min(in_lanes(row), in_lanes(batch)));
  const auto kernels = static_cast<double>(stencil.is_gradient ? 1 : stencil.outputs);
  const double terms = static_cast<double>(stencil.terms()) / kernels;
  const double turned = static_cast<double>(stencil.taps.back() - 1) * kTurnedLanesCycles;
  const bool is_of_one = stencil.inputs == 1 && (!stencil.is_gradient || stencil.outputs == 1);
  const double of_terms = is_of_one ? kTermCycles * terms + turned
                                    : terms * (kTermOfSeveralCycles + terms / kTermsOfKernel);
  const double results = stencil.is_gradient ? terms : 0;
  return kernels * (registers * (kMovedCycles + of_terms) + kKernelCycles) +
         results * kKernelCycles;
}

/// On the vector unit, with the features or the batch in the lanes, whatever fills them better.
double StencilChoice::depthwise_cycles(const HloInstruction& convolution,
                                       const Stencil& stencil) const {
  const ConvolutionDimensions& dims = convolution.convolution;
  const std::int64_t batch = extent_of(convolution.shape, dims.output_batch);
  const std::int64_t features = stencil.outputs;
  const std::int64_t pixels = convolution.shape.element_count() / (batch * features);
  const auto tiles = [](std::int64_t rows, std::int64_t lanes) {
    return ceil_divide(rows, std::int64_t{isa::kSublanes}) *
           ceil_divide(lanes, std::int64_t{isa::kLanes});
  };
  const std::int64_t registers =
      std::min({batch * tiles(pixels, features), pixels * tiles(features, batch),
                pixels * tiles(batch, features)});
  const double moved = 2 * kRegisterBytes / kernels_.target().hbm_bytes_per_cycle;
  return static_cast<double>(registers) *
         std::max(static_cast<double>(stencil.taps_together()), moved);
}

/// Of the matrix unit. Without a kernel: a row of it for each eight pixels. A few images may be cut
/// into strips, as many more images.
double StencilChoice::convolution_cycles(const HloInstruction& convolution,
                                         const Stencil& stencil) {
  const hlo::Shape input = edit_.shape(convolution.operands[0]),
                   window = edit_.shape(convolution.operands[1]);
  const ConvolutionDimensions& dims = convolution.convolution;
  const std::int64_t batch =
      extent_of(input, stencil.is_gradient ? dims.input_feature : dims.input_batch);
  const hlo::Shape& images = stencil.is_gradient ? window : convolution.shape;
  double least =
      static_cast<double>(images.element_count() / stencil.outputs) / kernels_.target().mxu_count;
  bool has_kernel = false;
  for (const bool in_lanes : {false, true}) {
    if (convolution.window.size() != 2) break;
    const std::optional<double> cycles = kernels_.cycles(convolution, input, window, in_lanes);
    if (cycles) least = has_kernel ? std::min(least, *cycles) : *cycles;
    has_kernel |= cycles.has_value();
  }
  if (!has_kernel || batch > kMostImagesInStrips) return least;
  return least * static_cast<double>(batch) / kMostImagesInStrips;
}

/// Its images: of a gradient of a kernel both operands.
std::vector<Image> StencilChoice::images_of(const HloInstruction& convolution) const {
  const ConvolutionDimensions& dims = convolution.convolution;
  const auto image = [&](Id id, std::int64_t batch, std::int64_t feature) {
    const hlo::Shape& shape = entry_.at(id).shape;
    return Image{id, extent_of(shape, batch), extent_of(shape, feature)};
  };
  const Id input = convolution.operands[0];
  if (has_large_window(convolution)) {
    return {image(input, dims.input_feature, dims.input_batch),
            image(convolution.operands[1], dims.kernel_input_feature, dims.kernel_output_feature)};
  }
  return {image(input, dims.input_batch, dims.input_feature),
          image(convolution.id, dims.output_batch, dims.output_feature)};
}

/// Of features that are taken one by one out of an image with its features in the lanes, or its
/// batch and a feature in the rows, to be written and read.
double StencilChoice::planes_moved(const Image& image) const {
  const std::int64_t pixels =
      entry_.at(image.id).shape.element_count() / (image.batch * image.features);
  const std::int64_t plane =
      std::min(pixels * image.batch * isa::kLanes,
               pixels * isa::kSublanes * round_up(image.batch, std::int64_t{isa::kLanes}));
  return 2 * static_cast<double>(image.features * plane) * sizeof(float) /
         (kernels_.target().hbm_bytes_per_cycle * kMixedTrafficRate);
}

Id StencilChoice::group(Id id) {
  while (group_of_[static_cast<std::size_t>(id)] != id) {
    id = group_of_[static_cast<std::size_t>(id)];
  }
  return id;
}

void StencilChoice::make_groups() {
  group_of_.resize(entry_.instructions.size());
  std::iota(group_of_.begin(), group_of_.end(), 0);
  for (const HloInstruction& each : entry_.instructions) {
    if (each.shape.is_tuple() || !keeps_order(each.opcode)) continue;
    for (const Id operand : each.operands) {
      if (entry_.at(operand).shape.is_tuple() || entry_.at(operand).shape.rank() == 0) continue;
      if (entry_.at(operand).opcode == HloOpcode::kBroadcast) continue;
      group_of_[static_cast<std::size_t>(group(operand))] = group(each.id);
    }
  }
}

std::map<Id, Stencil> StencilChoice::run() {
  std::map<Id, Candidate> candidates;
  std::vector<Id> convolutions;
  for (const HloInstruction& each : entry_.instructions) {
    if (each.opcode != HloOpcode::kConvolution) continue;
    convolutions.push_back(each.id);
    const std::optional<Stencil> stencil = stencil_of(each);
    if (!stencil) continue;
    const double before = is_depthwise(edit_, each) ? depthwise_cycles(each, *stencil)
                                                    : convolution_cycles(each, *stencil);
    const double gain = before - stencil_cycles(each, *stencil);
    if (gain > 0) candidates[each.id] = {*stencil, gain};
  }
  if (candidates.empty()) return {};
  make_groups();
  for (bool is_stable = false; !is_stable;) {
    is_stable = true;
    std::set<Id> others;  // Groups that convolutions touch which stay.
    for (const Id id : convolutions) {
      if (candidates.count(id) != 0) continue;
      for (const Image& image : images_of(entry_.at(id))) others.insert(group(image.id));
    }
    for (auto each = candidates.begin(); each != candidates.end();) {
      double moved = 0;
      for (const Image& image : images_of(entry_.at(each->first))) {
        if (others.count(group(image.id)) != 0) moved += planes_moved(image);
      }
      const bool pays = each->second.gain > moved;
      each = pays ? std::next(each) : candidates.erase(each);
      is_stable &= pays;
    }
  }
  std::map<Id, Stencil> chosen;
  for (auto& [id, candidate] : candidates) chosen[id] = std::move(candidate.stencil);
  return chosen;
}

}  // namespace

std::map<hlo::InstructionId, Stencil> stencils_that_take_less(const hlo::Module& module,
                                                              const GraphEditor& edit,
                                                              ConvolutionKernels& kernels) {
  return StencilChoice(module, edit, kernels).run();
}

}  // namespace tpu::compiler
