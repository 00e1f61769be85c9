#include "workloads/compiler/passes/expand/convolution_stencils.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/expand/convolution_arrays.h"
#include "workloads/compiler/passes/expand/convolution_steps.h"
#include "workloads/compiler/passes/expand/operand_precision.h"
#include "workloads/compiler/passes/expand/stencil_choice.h"
#include "workloads/compiler/passes/graph_editor.h"
#include "workloads/compiler/passes/simplify/known_values.h"

namespace tpu::compiler {

using hlo::ConvolutionDimensions;
using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::WindowDimension;

namespace {

using Id = GraphEditor::Id;
using Extents = GraphEditor::Extents;

/// Dimensions without one of them, those behind it moved up.
Extents without_dimension(Extents dimensions, std::int64_t dimension) {
  dimensions.erase(dimensions.begin() + dimension);
  return dimensions;
}
std::int64_t place_without(std::int64_t d, std::int64_t dimension) {
  return d > dimension ? d - 1 : d;
}

/// Row-major.
std::int64_t linear(const Extents& extents, const Extents& index) {
  std::int64_t at = 0;
  for (std::size_t d = 0; d < extents.size(); ++d) at = at * extents[d] + index[d];
  return at;
}

/// Goes through the entry in its order: what is made of planes comes behind them.
class StencilWriter {
 public:
  StencilWriter(hlo::Module& module, ConvolutionKernels& kernels)
      : module_(module),
        edit_(module),
        known_(module),
        stencils_(stencils_that_take_less(module, edit_, kernels)) {}

  void run() {
    if (stencils_.empty()) return;
    const std::size_t count = entry().instructions.size();
    for (std::size_t i = 0; i < count; ++i) visit(static_cast<Id>(i));
    tidy(module_.entry_computation());
  }

 private:
  const hlo::Computation& entry() const { return module_.entry_computation(); }

  void visit(Id id);
  void write(const HloInstruction& convolution, const Stencil& stencil);
  Id gradient_of_kernel(const HloInstruction& convolution, const Stencil& stencil);
  Id image_of_gradient(const HloInstruction& convolution, std::size_t side, std::int64_t index);
  Id written_plane(const HloInstruction& convolution, const Stencil& stencil, std::int64_t output);
  Id image(const HloInstruction& convolution, std::int64_t feature, bool rounds);
  Id rounded(Id value, bool rounds);
  Id shifted(Id value, std::int64_t dimension, std::int64_t start, std::int64_t count);
  Id met_by(Id value, const HloInstruction& convolution, std::size_t spatial, std::int64_t tap);
  bool find_element(Id& array, Extents& index) const;
  std::optional<double> number(Id array, const Extents& index);
  Id product(Id value, const HloInstruction& convolution, const Extents& index, bool rounds);

  bool has_planes(Id value, std::int64_t dimension) const;
  Id plane(Id value, std::int64_t dimension, std::int64_t index);
  Id new_plane(Id value, std::int64_t dimension, std::int64_t index);
  Id plane_of_broadcast(const HloInstruction& broadcast, std::int64_t dimension,
                        std::int64_t index);
  void follow(const HloInstruction& elementwise);
  void follow_sum(const HloInstruction& reduction);
  void finish(const HloInstruction& made, std::int64_t dimension, const std::vector<Id>& planes);

  hlo::Module& module_;
  GraphEditor edit_;
  KnownValues known_;
  std::map<Id, Stencil> stencils_;
  std::map<Id, std::int64_t> dimensions_;  ///< Of values made of planes: the one of these.
  std::map<std::tuple<Id, std::int64_t, std::int64_t>, Id> planes_;
  std::map<std::tuple<Id, std::int64_t, std::int64_t, std::int64_t>, Id> shifted_;
  std::map<std::pair<Id, bool>, Id> rounded_;
};

void StencilWriter::visit(Id id) {
  const HloInstruction instruction = entry().at(id);
  if (instruction.opcode == HloOpcode::kConvolution) {
    const auto stencil = stencils_.find(id);
    if (stencil != stencils_.end()) write(instruction, stencil->second);
  } else if (hlo::is_elementwise(instruction.opcode)) {
    follow(instruction);
  } else if (instruction.opcode == HloOpcode::kReduce && instruction.operands.size() == 2) {
    follow_sum(instruction);
  }
}

void StencilWriter::write(const HloInstruction& convolution, const Stencil& stencil) {
  edit_.stand_for(convolution.id);
  if (stencil.is_gradient) return edit_.finish(gradient_of_kernel(convolution, stencil));
  std::vector<Id> planes;
  for (std::int64_t output = 0; output < stencil.outputs; ++output) {
    planes.push_back(written_plane(convolution, stencil, output));
  }
  finish(convolution, convolution.convolution->output_feature, planes);
}

/// The value whose planes along a dimension these are.
void StencilWriter::finish(const HloInstruction& made, std::int64_t dimension,
                           const std::vector<Id>& planes) {
  std::vector<Id> parts;
  Extents extents = made.shape.dimensions;
  extents[static_cast<std::size_t>(dimension)] = 1;
  for (std::size_t i = 0; i < planes.size(); ++i) {
    planes_[{made.id, dimension, static_cast<std::int64_t>(i)}] = planes[i];
    parts.push_back(edit_.reshape(planes[i], extents));
  }
  dimensions_[made.id] = dimension;
  edit_.finish(parts.size() == 1 ? parts.front() : edit_.concatenate(parts, dimension));
}

Id StencilWriter::written_plane(const HloInstruction& convolution, const Stencil& stencil,
                                std::int64_t output) {
  const ConvolutionDimensions& dims = convolution.convolution;
  const bool rounds = !asks_for_precision(convolution) && !is_depthwise(edit_, convolution);
  const std::int64_t first = output / (stencil.outputs / stencil.groups) * stencil.inputs;
  const std::size_t last = stencil.taps.size() - 1;
  const auto add = [&](Id sum, Id term) {
    if (sum < 0 || term < 0) return std::max(sum, term);
    return edit_.binary(HloOpcode::kAdd, sum, term);
  };
  Id result = -1;
  for (std::int64_t turned = 0; turned < stencil.taps[last]; ++turned) {
    Id sum = -1;
    Extents at(stencil.taps.size(), 0);
    at[last] = turned;
    for (bool has_next = true; has_next;) {
      for (std::int64_t feature = 0; feature < stencil.inputs; ++feature) {
        Extents index(stencil.taps.size() + 2, 0);
        index[static_cast<std::size_t>(dims.kernel_input_feature)] = feature;
        index[static_cast<std::size_t>(dims.kernel_output_feature)] = output;
        Id value = image(convolution, first + feature, rounds);
        for (std::size_t d = 0; d < stencil.taps.size(); ++d) {
          index[static_cast<std::size_t>(dims.kernel_spatial[d])] =
              convolution.window[d].reversal ? stencil.taps[d] - 1 - at[d] : at[d];
          if (d != last) value = met_by(value, convolution, d, at[d]);
        }
        sum = add(sum, product(value, convolution, index, rounds));
      }
      has_next = false;
      for (std::size_t d = last; d-- > 0 && !has_next;) {
        has_next = ++at[d] < stencil.taps[d];
        if (!has_next) at[d] = 0;
      }
    }
    if (sum >= 0) result = add(result, met_by(sum, convolution, last, turned));
  }
  const Extents extents = without_dimension(convolution.shape.dimensions, dims.output_feature);
  if (result < 0) result = edit_.splat(ElementType::kF32, extents, 0);
  return edit_.convert(result, convolution.shape.type);
}

/// In f32, as an operand of the matrix unit where it rounds.
Id StencilWriter::rounded(Id value, bool rounds) {
  const auto [known, is_new] = rounded_.try_emplace({value, rounds}, -1);
  if (is_new) {
    const Id narrow = rounds ? edit_.convert(value, ElementType::kBf16) : value;
    known->second = edit_.convert(narrow, ElementType::kF32);
  }
  return known->second;
}

/// A feature of the input, its dimensions in the order of the result's.
Id StencilWriter::image(const HloInstruction& convolution, std::int64_t feature, bool rounds) {
  const ConvolutionDimensions& dims = convolution.convolution;
  const Id value = plane(convolution.operands[0], dims.input_feature, feature);
  const Id made = rounded(value, rounds);
  Extents order(dims.input_spatial.size() + 1);
  const auto place = [&](std::int64_t of_result, std::int64_t of_input) {
    order[static_cast<std::size_t>(place_without(of_result, dims.output_feature))] =
        place_without(of_input, dims.input_feature);
  };
  place(dims.output_batch, dims.input_batch);
  for (std::size_t d = 0; d < dims.input_spatial.size(); ++d) {
    place(dims.output_spatial[d], dims.input_spatial[d]);
  }
  if (std::is_sorted(order.begin(), order.end())) return made;
  return edit_.transpose(made, order);
}

/// `count` elements along a dimension from `start` on; zeros outside of the array.
Id StencilWriter::shifted(Id value, std::int64_t dimension, std::int64_t start,
                          std::int64_t count) {
  const auto [known, is_new] = shifted_.try_emplace({value, dimension, start, count}, -1);
  if (!is_new) return known->second;
  std::vector<hlo::PaddingDimension> padding(edit_.dimensions(value).size());
  hlo::PaddingDimension& along = padding[static_cast<std::size_t>(dimension)];
  along = {-start, start + count - edit_.dimensions(value)[static_cast<std::size_t>(dimension)], 0};
  const bool is_slice = along.low <= 0 && along.high <= 0;
  known->second =
      is_slice ? edit_.take(value, dimension, start, count, 1) : edit_.pad(value, padding);
  return known->second;
}

/// What a position of the window meets along a spatial dimension.
Id StencilWriter::met_by(Id value, const HloInstruction& convolution, std::size_t spatial,
                         std::int64_t tap) {
  const ConvolutionDimensions& dims = convolution.convolution;
  const WindowDimension& w = convolution.window[spatial];
  return shifted(value, place_without(dims.output_spatial[spatial], dims.output_feature),
                 tap * w.window_dilation - w.padding_low,
                 extent_of(convolution.shape, dims.output_spatial[spatial]));
}

/// Batch and spatial dimensions of a feature of the images, or of their gradient, rounded.
Id StencilWriter::image_of_gradient(const HloInstruction& convolution, std::size_t side,
                                    std::int64_t index) {
  const ConvolutionDimensions& dims = convolution.convolution;
  const std::int64_t feature = side == 0 ? dims.input_batch : dims.kernel_output_feature;
  Extents order{place_without(side == 0 ? dims.input_feature : dims.kernel_input_feature, feature)};
  for (const std::int64_t d : side == 0 ? dims.input_spatial : dims.kernel_spatial) {
    order.push_back(place_without(d, feature));
  }
  const Id made =
      rounded(plane(convolution.operands[side], feature, index), !asks_for_precision(convolution));
  return std::is_sorted(order.begin(), order.end()) ? made : edit_.transpose(made, order);
}

/// A sum over all pixels for each of its elements. Along the last dimension the gradient of the
/// result is turned, along the others the image moves.
Id StencilWriter::gradient_of_kernel(const HloInstruction& convolution, const Stencil& stencil) {
  const ConvolutionDimensions& dims = convolution.convolution;
  const Extents extents = convolution.shape.dimensions;
  const std::size_t last = stencil.taps.size() - 1;
  Extents all(stencil.taps.size() + 1);
  std::iota(all.begin(), all.end(), 0);
  std::vector<Id> elements;
  Extents at(extents.size(), 0);
  const auto along = [&](std::int64_t d) { return at[static_cast<std::size_t>(d)]; };
  for (bool has_next = true; has_next;) {
    Id input = image_of_gradient(convolution, 0, along(dims.output_batch));
    Id gradient = image_of_gradient(convolution, 1, along(dims.output_feature));
    const auto turned = static_cast<std::int64_t>(last) + 1;
    const std::int64_t width = edit_.dimensions(input)[last + 1];
    for (std::size_t d = 0; d < last; ++d) {
      input = shifted(input, static_cast<std::int64_t>(d) + 1,
                      along(dims.output_spatial[d]) - convolution.window[d].padding_low,
                      convolution.window[d].size);
    }
    gradient =
        shifted(gradient, turned,
                convolution.window[last].padding_low - along(dims.output_spatial[last]), width);
    const Id products = edit_.binary(HloOpcode::kMultiply, input, gradient);
    elements.push_back(edit_.reshape(edit_.reduce(products, HloOpcode::kAdd, all, 0), {1}));
    has_next = false;
    for (std::size_t d = extents.size(); d-- > 0 && !has_next;) {
      has_next = ++at[d] < extents[d];
      if (!has_next) at[d] = 0;
    }
  }
  return edit_.convert(edit_.reshape(edit_.concatenate(elements, 0), extents),
                       convolution.shape.type);
}

/// Where an element of an array that is moved comes from; false: it is made there.
bool StencilWriter::find_element(Id& array, Extents& index) const {
  const HloInstruction& made = entry().at(array);
  const Extents there = index;
  Id from = made.operands.empty() ? -1 : made.operands[0];
  const auto at = [](const Extents& all, std::int64_t d) {
    return all[static_cast<std::size_t>(d)];
  };
  switch (made.opcode) {
    case HloOpcode::kReverse:
      for (const std::int64_t d : made.dimensions) {
        index[static_cast<std::size_t>(d)] = extent_of(made.shape, d) - 1 - at(there, d);
      }
      break;
    case HloOpcode::kTranspose:
      for (std::size_t d = 0; d < there.size(); ++d) {
        index[static_cast<std::size_t>(made.dimensions[d])] = there[d];
      }
      break;
    case HloOpcode::kBroadcast:
      index.clear();
      for (const std::int64_t d : made.dimensions) index.push_back(at(there, d));
      break;
    case HloOpcode::kSlice:
      for (std::size_t d = 0; d < there.size(); ++d) {
        index[d] = made.slice->starts[d] + there[d] * made.slice->strides[d];
      }
      break;
    case HloOpcode::kReshape: {
      std::int64_t number = linear(made.shape.dimensions, there);
      const Extents& extents = entry().at(from).shape.dimensions;
      index.assign(extents.size(), 0);
      for (std::size_t d = extents.size(); d-- > 0; number /= extents[d]) {
        index[d] = number % extents[d];
      }
      break;
    }
    case HloOpcode::kConcatenate: {
      std::int64_t& along = index[static_cast<std::size_t>(made.dimensions[0])];
      for (const Id part : made.operands) {
        from = part;
        const std::int64_t count = extent_of(entry().at(part).shape, made.dimensions[0]);
        if (along < count) break;
        along -= count;
      }
      break;
    }
    default:
      return false;
  }
  array = from;
  return true;
}

/// An element that no parameter changes.
std::optional<double> StencilWriter::number(Id array, const Extents& index) {
  const KnownValues::Numbers& values = known_.of(array);
  if (!values) return std::nullopt;
  return (*values)[static_cast<std::size_t>(linear(entry().at(array).shape.dimensions, index))];
}

/// The value times the weight at an index of the window; -1: it is 0.
Id StencilWriter::product(Id value, const HloInstruction& convolution, const Extents& given,
                          bool rounds) {
  Id array = convolution.operands[1];
  Extents index = given;
  while (find_element(array, index)) {
  }
  const Extents extents = edit_.dimensions(value);
  if (const std::optional<double> weight = number(array, index)) {
    if (*weight == 0) return -1;
    if (*weight == 1) return value;
    const Id scalar = rounded(edit_.scalar(ElementType::kF32, *weight), rounds);
    return edit_.binary(HloOpcode::kMultiply, value, edit_.broadcast(scalar, extents, {}));
  }
  Extents limits = index;
  for (std::int64_t& limit : limits) ++limit;
  const Id scalar = edit_.reshape(edit_.slice(rounded(array, rounds), index, limits), {});
  return edit_.binary(HloOpcode::kMultiply, value, edit_.broadcast(scalar, extents, {}));
}

/// Whether planes of a stencil make the value, which has some along this dimension.
bool StencilWriter::has_planes(Id value, std::int64_t dimension) const {
  if (const auto found = dimensions_.find(value); found != dimensions_.end()) {
    return found->second == dimension;
  }
  const HloInstruction& made = entry().at(value);
  if (made.opcode == HloOpcode::kConcatenate) {
    return made.dimensions[0] == dimension &&
           std::any_of(made.operands.begin(), made.operands.end(),
                       [&](Id part) { return has_planes(part, dimension); });
  }
  if (made.opcode != HloOpcode::kSlice) return false;
  for (std::size_t d = 0; d < made.shape.dimensions.size(); ++d) {
    const bool is_whole =
        made.shape.dimensions[d] == entry().at(made.operands[0]).shape.dimensions[d];
    if (static_cast<std::int64_t>(d) != dimension && !is_whole) return false;
  }
  return made.slice->strides[static_cast<std::size_t>(dimension)] == 1 &&
         has_planes(made.operands[0], dimension);
}

/// The elements at an index of a dimension, which goes.
Id StencilWriter::plane(Id value, std::int64_t dimension, std::int64_t index) {
  const auto key = std::make_tuple(value, dimension, index);
  const auto found = planes_.find(key);
  if (found != planes_.end()) return found->second;
  return planes_[key] = new_plane(value, dimension, index);
}

Id StencilWriter::new_plane(Id value, std::int64_t dimension, std::int64_t index) {
  const HloInstruction made = entry().at(value);
  const auto d = static_cast<std::size_t>(dimension);
  if (made.opcode == HloOpcode::kBroadcast) return plane_of_broadcast(made, dimension, index);
  if (has_planes(value, dimension) && made.opcode == HloOpcode::kSlice) {
    return plane(made.operands[0], dimension, index + made.slice->starts[d]);
  }
  if (has_planes(value, dimension) && made.opcode == HloOpcode::kConcatenate) {
    for (const Id part : made.operands) {
      const std::int64_t count = edit_.dimensions(part)[d];
      if (index < count) return plane(part, dimension, index);
      index -= count;
    }
  }
  Extents starts(made.shape.dimensions.size(), 0), limits = made.shape.dimensions;
  starts[d] = index;
  limits[d] = index + 1;
  return edit_.reshape(edit_.slice(value, starts, limits),
                       without_dimension(made.shape.dimensions, dimension));
}

Id StencilWriter::plane_of_broadcast(const HloInstruction& broadcast, std::int64_t dimension,
                                     std::int64_t index) {
  const Extents extents = without_dimension(broadcast.shape.dimensions, dimension);
  Id operand = broadcast.operands[0];
  Extents places;
  for (std::size_t d = 0; d < broadcast.dimensions.size(); ++d) {
    if (broadcast.dimensions[d] != dimension) {
      places.push_back(place_without(broadcast.dimensions[d], dimension));
      continue;
    }
    Extents starts(broadcast.dimensions.size(), 0), limits = edit_.dimensions(operand);
    starts[d] = index;
    limits[d] = index + 1;
    operand =
        edit_.reshape(edit_.slice(operand, starts, limits),
                      without_dimension(edit_.dimensions(operand), static_cast<std::int64_t>(d)));
  }
  return edit_.broadcast(operand, extents, places);
}

/// Elementwise operations on planes make planes.
void StencilWriter::follow(const HloInstruction& elementwise) {
  for (const Id operand : elementwise.operands) {
    if (edit_.dimensions(operand) != elementwise.shape.dimensions) return;
  }
  for (std::size_t d = 0; d < elementwise.shape.dimensions.size(); ++d) {
    const auto dimension = static_cast<std::int64_t>(d);
    const std::int64_t count = elementwise.shape.dimensions[d];
    const auto has = [&](Id operand) { return has_planes(operand, dimension); };
    if (std::none_of(elementwise.operands.begin(), elementwise.operands.end(), has)) continue;
    if (count == 1) return;
    edit_.stand_for(elementwise.id);
    std::vector<Id> planes;
    for (std::int64_t i = 0; i < count; ++i) {
      std::vector<Id> operands;
      for (const Id operand : elementwise.operands) {
        operands.push_back(plane(operand, dimension, i));
      }
      planes.push_back(edit_.apply_again(
          elementwise, operands, without_dimension(elementwise.shape.dimensions, dimension)));
    }
    return finish(elementwise, dimension, planes);
  }
}

/// So do sums over planes, and those of their elements begin with them.
void StencilWriter::follow_sum(const HloInstruction& reduction) {
  const Id value = reduction.operands[0];
  for (const std::int64_t dimension : reduction.dimensions) {
    const std::int64_t count = edit_.dimensions(value)[static_cast<std::size_t>(dimension)];
    if (count == 1 || !has_planes(value, dimension)) continue;
    edit_.stand_for(reduction.id);
    Extents others;
    for (const std::int64_t d : reduction.dimensions) {
      if (d != dimension) others.push_back(place_without(d, dimension));
    }
    const auto combined = [&](Id a, Id b) {
      return edit_.apply(reduction.called[0], {a, b}).front();
    };
    Id all = plane(value, dimension, 0);
    for (std::int64_t i = 1; i < count; ++i) all = combined(all, plane(value, dimension, i));
    if (!others.empty()) return edit_.finish(edit_.reduce_again(reduction, all, others));
    const Id initial = edit_.broadcast(reduction.operands[1], edit_.dimensions(all), {});
    return edit_.finish(combined(initial, all));
  }
}

}  // namespace

void write_stencils(hlo::Module& module, ConvolutionKernels& kernels) {
  StencilWriter(module, kernels).run();
}

}  // namespace tpu::compiler
