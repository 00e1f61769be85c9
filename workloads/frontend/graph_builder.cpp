#include "workloads/frontend/graph_builder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "sim/base/error.h"
#include "workloads/graph/shape_inference.h"

namespace tpu::frontend {

namespace {

using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;

std::uint16_t bf16_bits(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  if (std::isnan(value)) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

template <class Value>
std::vector<std::uint8_t> bytes_of(Value value) {
  std::vector<std::uint8_t> bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

std::vector<std::uint8_t> scalar_literal(ElementType type, double value) {
  switch (type) {
    case ElementType::kF32:
      return bytes_of(static_cast<float>(value));
    case ElementType::kBf16:
      return bytes_of(bf16_bits(static_cast<float>(value)));
    case ElementType::kS32:
      return bytes_of(static_cast<std::int32_t>(value));
    case ElementType::kU32:
      return bytes_of(static_cast<std::uint32_t>(value));
    case ElementType::kPred:
      return bytes_of(static_cast<std::uint8_t>(value != 0));
    default:
      throw WorkloadError("a constant: expected f32, bf16, s32, u32 or pred, found " +
                          std::string(hlo::to_string(type)));
  }
}

/// A name that HLO text accepts.
std::string identifier(const std::string& name) {
  std::string text = name;
  for (char& c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_' && c != '.' && c != '-') {
      c = '.';
    }
  }
  return text;
}

}  // namespace

GraphBuilder::GraphBuilder(const std::string& module_name) : scope_(module_name) {
  module_.name = identifier(module_name);
  module_.computations.emplace_back();
  module_.computations[0].name = "main";
  module_.entry = 0;
}

GraphBuilder::Scope::Scope(GraphBuilder& graph, const std::string& name)
    : graph_(graph), outer_(graph.scope_) {
  graph_.scope_ += (outer_.empty() ? "" : "/") + name;
}
GraphBuilder::Scope::~Scope() { graph_.scope_ = outer_; }

HloInstruction GraphBuilder::make(HloOpcode opcode, const std::vector<Tensor>& operands) const {
  HloInstruction instruction;
  instruction.opcode = opcode;
  for (Tensor operand : operands) {
    TPU_CHECK(operand.id >= 0, scope_ << "/" << hlo::to_string(opcode) << ": an unset tensor");
    instruction.operands.push_back(operand.id);
  }
  return instruction;
}

hlo::Shape GraphBuilder::shape_of(const HloInstruction& instruction) const {
  try {
    std::optional<hlo::Shape> implied = hlo::infer_shape(module_, entry(), instruction);
    hlo::Shape shape = implied ? *implied : instruction.shape;
    (void)shape.unpadded_bytes();
    return shape;
  } catch (const WorkloadError& error) {
    throw WorkloadError(scope_ + "/" + std::string(hlo::to_string(instruction.opcode)) + ": " +
                        error.what());
  }
}

Tensor GraphBuilder::append(HloInstruction instruction) {
  hlo::Computation& computation = module_.entry_computation();
  instruction.id = static_cast<hlo::InstructionId>(computation.instructions.size());
  instruction.shape = shape_of(instruction);
  const std::string opcode(hlo::to_string(instruction.opcode));
  if (instruction.name.empty()) instruction.name = opcode + "." + std::to_string(instruction.id);
  if (instruction.metadata.op_name->empty()) {
    instruction.metadata.op_name = scope_.empty() ? opcode : scope_ + "/" + opcode;
  }
  computation.instructions.push_back(std::move(instruction));
  return Tensor{computation.instructions.back().id};
}

Tensor GraphBuilder::parameter(const std::string& name, const hlo::Shape& shape) {
  HloInstruction instruction = make(HloOpcode::kParameter, {});
  instruction.shape = shape;
  instruction.parameter_number = parameters_++;
  instruction.metadata.op_name = scope_.empty() ? name : scope_ + "/" + name;
  const std::size_t model = instruction.metadata.op_name->find('/');
  instruction.name = identifier(instruction.metadata.op_name->substr(model + 1));
  return append(std::move(instruction));
}

Tensor GraphBuilder::constant(ElementType type, double value) {
  const auto [found, added] = constants_.try_emplace({type, value});
  if (!added) return found->second;
  HloInstruction instruction = make(HloOpcode::kConstant, {});
  instruction.shape = hlo::array_shape(type, {});
  instruction.literal = scalar_literal(type, value);
  return found->second = append(std::move(instruction));
}

Tensor GraphBuilder::splat(ElementType type, const Extents& dimensions, double value) {
  const Tensor scalar = constant(type, value);
  return dimensions.empty() ? scalar : broadcast(scalar, dimensions, {});
}

Tensor GraphBuilder::iota(ElementType type, const Extents& dimensions, std::int64_t dimension) {
  HloInstruction instruction = make(HloOpcode::kIota, {});
  instruction.shape = hlo::array_shape(type, dimensions);
  instruction.dimensions = {dimension};
  return append(std::move(instruction));
}

Tensor GraphBuilder::unary(HloOpcode opcode, Tensor x) {
  const HloInstruction source = entry().at(x.id);
  if (source.opcode == HloOpcode::kBroadcast) {
    return broadcast(unary(opcode, Tensor{source.operands[0]}), source.shape.dimensions,
                     source.dimensions);
  }
  HloInstruction instruction = make(opcode, {x});
  instruction.shape.type = type(x);
  return append(std::move(instruction));
}

Tensor GraphBuilder::binary(HloOpcode opcode, Tensor a, Tensor b) {
  HloInstruction instruction = make(opcode, {a, b});
  instruction.shape.type = type(a);
  TPU_CHECK(type(a) == type(b), scope_ << "/" << hlo::to_string(opcode) << ": "
                                       << hlo::to_string(shape(a)) << " and "
                                       << hlo::to_string(shape(b)));
  return append(std::move(instruction));
}

Tensor GraphBuilder::scale(Tensor x, double factor) {
  if (factor == 1) return x;
  const HloInstruction source = entry().at(x.id);
  if (source.opcode == HloOpcode::kBroadcast) {
    return broadcast(scale(Tensor{source.operands[0]}, factor), source.shape.dimensions,
                     source.dimensions);
  }
  if (source.opcode == HloOpcode::kConstant && source.shape.type == ElementType::kF32) {
    float value = 0;
    std::memcpy(&value, source.literal.data(), sizeof value);
    return constant(ElementType::kF32, static_cast<double>(value) * factor);
  }
  return multiply(x, splat_like(x, factor));
}

Tensor GraphBuilder::compare(Tensor a, Tensor b, hlo::ComparisonDirection direction) {
  HloInstruction instruction = make(HloOpcode::kCompare, {a, b});
  instruction.direction = direction;
  return append(std::move(instruction));
}

Tensor GraphBuilder::select(Tensor condition, Tensor on_true, Tensor on_false) {
  return append(make(HloOpcode::kSelect, {condition, on_true, on_false}));
}

Tensor GraphBuilder::convert(Tensor x, ElementType to) {
  if (type(x) == to) return x;
  const HloInstruction& source = entry().at(x.id);
  if (source.opcode == HloOpcode::kConvert && to == ElementType::kBf16 &&
      type(x) == ElementType::kF32 && type(Tensor{source.operands[0]}) == to) {
    return Tensor{source.operands[0]};
  }
  const auto [found, added] = conversions_.try_emplace({x.id, to});
  if (!added) return found->second;
  HloInstruction instruction = make(HloOpcode::kConvert, {x});
  instruction.shape.type = to;
  return found->second = append(std::move(instruction));
}

Tensor GraphBuilder::broadcast(Tensor x, const Extents& result, const Extents& dimensions) {
  if (shape(x).dimensions == result) return x;
  const auto [found, added] = broadcasts_.try_emplace({x.id, result, dimensions});
  if (!added) return found->second;
  HloInstruction instruction = make(HloOpcode::kBroadcast, {x});
  instruction.shape.dimensions = result;
  instruction.dimensions = dimensions;
  return found->second = append(std::move(instruction));
}

Tensor GraphBuilder::reshape(Tensor x, const Extents& dimensions) {
  if (shape(x).dimensions == dimensions) return x;
  HloInstruction instruction = make(HloOpcode::kReshape, {x});
  instruction.shape.dimensions = dimensions;
  return append(std::move(instruction));
}

Tensor GraphBuilder::transpose(Tensor x, const Extents& permutation) {
  if (std::is_sorted(permutation.begin(), permutation.end())) return x;
  HloInstruction instruction = make(HloOpcode::kTranspose, {x});
  instruction.dimensions = permutation;
  return append(std::move(instruction));
}

Tensor GraphBuilder::slice(Tensor x, const Extents& starts, const Extents& limits,
                           const Extents& strides) {
  HloInstruction instruction = make(HloOpcode::kSlice, {x});
  instruction.slice =
      hlo::SliceBounds{starts, limits, strides.empty() ? Extents(starts.size(), 1) : strides};
  return append(std::move(instruction));
}

Tensor GraphBuilder::concatenate(const std::vector<Tensor>& parts, std::int64_t dimension) {
  if (parts.size() == 1) return parts.front();
  HloInstruction instruction = make(HloOpcode::kConcatenate, parts);
  instruction.dimensions = {dimension};
  return append(std::move(instruction));
}

Tensor GraphBuilder::pad(Tensor x, const std::vector<hlo::PaddingDimension>& padding,
                         double value) {
  HloInstruction instruction = make(HloOpcode::kPad, {x, constant(type(x), value)});
  instruction.padding = padding;
  return append(std::move(instruction));
}

Tensor GraphBuilder::reverse(Tensor x, const Extents& dimensions) {
  HloInstruction instruction = make(HloOpcode::kReverse, {x});
  instruction.dimensions = dimensions;
  return append(std::move(instruction));
}

hlo::ComputationId GraphBuilder::scalar_computation(HloOpcode opcode, ElementType type) {
  const auto [found, added] = scalar_computations_.try_emplace({opcode, type});
  if (!added) return found->second;
  hlo::Computation computation;
  const std::string name = opcode == HloOpcode::kCompare ? "ge" : std::string(to_string(opcode));
  computation.name = name + "_" + std::string(hlo::to_string(type));
  for (hlo::InstructionId i = 0; i < 3; ++i) {
    HloInstruction instruction;
    instruction.id = i;
    instruction.shape = hlo::array_shape(type, {});
    if (i < 2) {
      instruction.opcode = HloOpcode::kParameter;
      instruction.parameter_number = i;
      instruction.name = i == 0 ? "a" : "b";
    } else {
      instruction.opcode = opcode;
      instruction.name = name;
      instruction.operands = {0, 1};
      if (opcode == HloOpcode::kCompare) {
        instruction.direction = hlo::ComparisonDirection::kGe;
        instruction.shape.type = ElementType::kPred;
      }
    }
    computation.instructions.push_back(std::move(instruction));
  }
  computation.root = 2;
  found->second = static_cast<hlo::ComputationId>(module_.computations.size());
  module_.computations.push_back(std::move(computation));
  return found->second;
}

Tensor GraphBuilder::reduce(Tensor x, const Extents& dimensions, HloOpcode opcode, double initial) {
  HloInstruction instruction = make(HloOpcode::kReduce, {x, constant(type(x), initial)});
  instruction.dimensions = dimensions;
  instruction.called = {scalar_computation(opcode, type(x))};
  return append(std::move(instruction));
}

Tensor GraphBuilder::reduce_sum(Tensor x, const Extents& dimensions) {
  if (dimensions.empty()) return x;
  if (type(x) != ElementType::kBf16) return reduce(x, dimensions, HloOpcode::kAdd, 0);
  const Tensor sum = reduce(convert(x, ElementType::kF32), dimensions, HloOpcode::kAdd, 0);
  return convert(sum, ElementType::kBf16);
}

Tensor GraphBuilder::reduce_max(Tensor x, const Extents& dimensions) {
  return reduce(x, dimensions, HloOpcode::kMaximum, -std::numeric_limits<double>::infinity());
}

Tensor GraphBuilder::reduce_window(Tensor x, const std::vector<hlo::WindowDimension>& window,
                                   HloOpcode opcode, double initial) {
  HloInstruction instruction = make(HloOpcode::kReduceWindow, {x, constant(type(x), initial)});
  instruction.window = window;
  instruction.called = {scalar_computation(opcode, type(x))};
  return append(std::move(instruction));
}

Tensor GraphBuilder::reduce_window_sum(Tensor x, const std::vector<hlo::WindowDimension>& window) {
  if (type(x) != ElementType::kBf16) return reduce_window(x, window, HloOpcode::kAdd, 0);
  const Tensor sum = reduce_window(convert(x, ElementType::kF32), window, HloOpcode::kAdd, 0);
  return convert(sum, ElementType::kBf16);
}

Tensor GraphBuilder::reduce_window_max(Tensor x, const std::vector<hlo::WindowDimension>& window) {
  return reduce_window(x, window, HloOpcode::kMaximum, -std::numeric_limits<double>::infinity());
}

Tensor GraphBuilder::select_and_scatter(Tensor x, Tensor source,
                                        const std::vector<hlo::WindowDimension>& window) {
  HloInstruction instruction =
      make(HloOpcode::kSelectAndScatter, {x, source, constant(type(x), 0)});
  instruction.window = window;
  instruction.called = {scalar_computation(HloOpcode::kCompare, type(x)),
                        scalar_computation(HloOpcode::kAdd, type(x))};
  return append(std::move(instruction));
}

Tensor GraphBuilder::dot(Tensor a, Tensor b, const hlo::DotDimensions& dimensions,
                         ElementType type) {
  HloInstruction instruction = make(HloOpcode::kDot, {a, b});
  instruction.shape.type = type;
  instruction.dot = dimensions;
  return append(std::move(instruction));
}

Tensor GraphBuilder::convolution(Tensor input, Tensor kernel,
                                 const hlo::ConvolutionDimensions& dimensions,
                                 const std::vector<hlo::WindowDimension>& window,
                                 std::int64_t feature_groups, std::int64_t batch_groups) {
  HloInstruction instruction = make(HloOpcode::kConvolution, {input, kernel});
  instruction.shape.type = type(input);
  instruction.convolution = dimensions;
  instruction.window = window;
  instruction.feature_group_count = feature_groups;
  instruction.batch_group_count = batch_groups;
  return append(std::move(instruction));
}

Tensor GraphBuilder::gather(Tensor from, Tensor indices, const hlo::GatherDimensions& dimensions) {
  HloInstruction instruction = make(HloOpcode::kGather, {from, indices});
  instruction.gather = dimensions;
  return append(std::move(instruction));
}

Tensor GraphBuilder::scatter_add(Tensor into, Tensor indices, Tensor updates,
                                 const hlo::GatherDimensions& dimensions) {
  HloInstruction instruction = make(HloOpcode::kScatter, {into, indices, updates});
  instruction.gather = dimensions;
  instruction.called = {scalar_computation(HloOpcode::kAdd, type(into))};
  return append(std::move(instruction));
}

std::vector<Tensor> GraphBuilder::all_reduce_sum(const std::vector<Tensor>& values) {
  HloInstruction instruction = make(HloOpcode::kAllReduce, values);
  instruction.called = {scalar_computation(HloOpcode::kAdd, ElementType::kF32)};
  const Tensor sums = append(std::move(instruction));
  if (values.size() == 1) return {sums};
  std::vector<Tensor> elements;
  for (std::size_t i = 0; i < values.size(); ++i) {
    HloInstruction element = make(HloOpcode::kGetTupleElement, {sums});
    element.tuple_index = static_cast<std::int64_t>(i);
    elements.push_back(append(std::move(element)));
  }
  return elements;
}

Tensor GraphBuilder::tuple(const std::vector<Tensor>& elements) {
  return append(make(HloOpcode::kTuple, elements));
}

Tensor GraphBuilder::stop_gradient(Tensor x) {
  stopped_.push_back(x.id);
  return x;
}

bool GraphBuilder::stops_gradient(Tensor x) const {
  return std::find(stopped_.begin(), stopped_.end(), x.id) != stopped_.end();
}

hlo::ComputationId GraphBuilder::adopt(hlo::Module module) {
  const auto first = static_cast<hlo::ComputationId>(module_.computations.size());
  for (hlo::Computation& computation : module.computations) {
    computation.name = module.name + "." + computation.name;
    for (HloInstruction& instruction : computation.instructions) {
      for (hlo::ComputationId& called : instruction.called) called += first;
    }
    module_.computations.push_back(std::move(computation));
  }
  return first + module.entry;
}

void GraphBuilder::remove_unused(const std::vector<Tensor>& parameters) {
  hlo::Computation& computation = module_.entry_computation();
  std::vector<bool> used(computation.instructions.size(), false);
  used[static_cast<std::size_t>(computation.root)] = true;
  for (Tensor parameter : parameters) used[static_cast<std::size_t>(parameter.id)] = true;
  for (std::size_t i = used.size(); i-- > 0;) {
    const HloInstruction& instruction = computation.instructions[i];
    if (!used[i]) continue;
    for (hlo::InstructionId operand : instruction.operands) {
      used[static_cast<std::size_t>(operand)] = true;
    }
  }
  std::vector<hlo::InstructionId> renumbered(used.size(), -1);
  std::vector<HloInstruction> kept;
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (!used[i]) continue;
    renumbered[i] = static_cast<hlo::InstructionId>(kept.size());
    kept.push_back(std::move(computation.instructions[i]));
    TPU_CHECK(kept.back().opcode != HloOpcode::kParameter ||
                  kept.back().parameter_number < static_cast<std::int64_t>(parameters.size()),
              kept.back().name << " is used but not listed");
    kept.back().id = renumbered[i];
    for (hlo::InstructionId& operand : kept.back().operands) {
      operand = renumbered[static_cast<std::size_t>(operand)];
    }
  }
  computation.instructions = std::move(kept);
  computation.root = renumbered[static_cast<std::size_t>(computation.root)];
}

hlo::Module GraphBuilder::finish(Tensor root, const std::vector<Tensor>& parameters) {
  hlo::Computation& computation = module_.entry_computation();
  for (HloInstruction& instruction : computation.instructions) {
    if (instruction.opcode == HloOpcode::kParameter) instruction.parameter_number = parameters_;
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    computation.at(parameters[i].id).parameter_number = static_cast<std::int64_t>(i);
  }
  computation.root = root.id;
  remove_unused(parameters);
  return std::move(module_);
}

hlo::ConvolutionDimensions nhwc_dimensions() {
  hlo::ConvolutionDimensions dims;
  dims.input_batch = 0;
  dims.input_spatial = {1, 2};
  dims.input_feature = 3;
  dims.kernel_spatial = {0, 1};
  dims.kernel_input_feature = 2;
  dims.kernel_output_feature = 3;
  dims.output_batch = 0;
  dims.output_spatial = {1, 2};
  dims.output_feature = 3;
  return dims;
}

}  // namespace tpu::frontend
