#include "workloads/frontend/autodiff.h"

#include <algorithm>
#include <cmath>

#include "sim/base/error.h"
#include "workloads/frontend/differentiator.h"

namespace tpu::frontend {

using hlo::ComparisonDirection;
using hlo::ElementType;
using hlo::HloOpcode;

namespace {

bool floating(ElementType type) {
  return type == ElementType::kF32 || type == ElementType::kBf16 || type == ElementType::kF16 ||
         type == ElementType::kF64;
}

/// "resnet50/stage1/conv/convolution" -> "transpose(resnet50)/stage1/conv".
std::string transposed_scope(const std::string& op_name) {
  const std::size_t last = op_name.rfind('/');
  std::string path = last == std::string::npos ? op_name : op_name.substr(0, last);
  if (path.rfind("transpose(", 0) == 0) return path;
  const std::size_t first = path.find('/');
  const std::string model = path.substr(0, first);
  return "transpose(" + model + ")" + (first == std::string::npos ? "" : path.substr(first));
}

}  // namespace

std::vector<Tensor> vector_jacobian_product(GraphBuilder& graph, Tensor y, Tensor seed,
                                            const std::vector<Tensor>& of) {
  return Differentiator(graph, of).run(y, seed);
}

std::vector<Tensor> gradients(GraphBuilder& graph, Tensor loss, const std::vector<Tensor>& of) {
  TPU_CHECK(graph.shape(loss).rank() == 0, hlo::to_string(graph.shape(loss)));
  return vector_jacobian_product(graph, loss, graph.constant(graph.type(loss), 1), of);
}

Differentiator::Differentiator(GraphBuilder& graph, const std::vector<Tensor>& of)
    : graph_(graph), of_(of) {}

void Differentiator::mark_needed(hlo::InstructionId last) {
  needed_.assign(static_cast<std::size_t>(last) + 1, false);
  for (Tensor x : of_) {
    if (x.id <= last) needed_[static_cast<std::size_t>(x.id)] = true;
  }
  for (hlo::InstructionId id = 0; id <= last; ++id) {
    const Node& node = graph_.entry().at(id);
    if (!floating(node.shape.type) || graph_.stops_gradient(Tensor{id})) continue;
    for (hlo::InstructionId operand : node.operands) {
      if (needs(operand)) needed_[static_cast<std::size_t>(id)] = true;
    }
  }
}

std::vector<Tensor> Differentiator::run(Tensor y, Tensor seed) {
  const std::string outer = graph_.scope();
  mark_needed(y.id);
  gradients_[y.id].whole.push_back(seed);
  std::map<hlo::InstructionId, Tensor> results;
  for (hlo::InstructionId id = y.id; id >= 0; --id) {
    if (!needs(id) || gradients_.count(id) == 0) continue;
    const Node node = graph_.entry().at(id);
    graph_.set_scope(transposed_scope(node.metadata.op_name));
    const Tensor g = total(id);
    gradients_.erase(id);
    TPU_CHECK(hlo::same_extent(graph_.shape(g), node.shape),
              node.metadata.op_name.get() << ": gradient " << hlo::to_string(graph_.shape(g))
                                          << " of " << hlo::to_string(node.shape));
    const bool wanted = std::any_of(of_.begin(), of_.end(), [&](Tensor x) { return x.id == id; });
    if (wanted) results[id] = g;
    visit(node, g);
  }
  graph_.set_scope(outer);
  std::vector<Tensor> list;
  for (Tensor x : of_) {
    const auto found = results.find(x.id);
    list.push_back(found == results.end() ? graph_.splat_like(x, 0) : found->second);
  }
  return list;
}

void Differentiator::contribute(const Node& node, std::size_t operand, Tensor gradient) {
  gradients_[node.operands[operand]].whole.push_back(gradient);
}

Tensor Differentiator::total(hlo::InstructionId id) {
  Accumulator& accumulator = gradients_.at(id);
  std::vector<Tensor> parts = accumulator.whole;
  if (!accumulator.pieces.empty()) parts.push_back(assemble(id, accumulator.pieces));
  Tensor sum = parts.front();
  for (std::size_t i = 1; i < parts.size(); ++i) sum = graph_.add(sum, parts[i]);
  return sum;
}

void Differentiator::visit(const Node& node, Tensor g) {
  switch (node.opcode) {
    case HloOpcode::kParameter:
    case HloOpcode::kConstant:
    case HloOpcode::kIota:
      return;
    case HloOpcode::kBroadcast:
      return broadcast(node, g);
    case HloOpcode::kReshape:
      return contribute(node, 0, graph_.reshape(g, graph_.shape(operand(node, 0)).dimensions));
    case HloOpcode::kTranspose: {
      Extents inverse(node.dimensions.size());
      for (std::size_t i = 0; i < inverse.size(); ++i) {
        inverse[static_cast<std::size_t>(node.dimensions[i])] = static_cast<std::int64_t>(i);
      }
      return contribute(node, 0, graph_.transpose(g, inverse));
    }
    case HloOpcode::kReverse:
      return contribute(node, 0, graph_.reverse(g, node.dimensions));
    case HloOpcode::kSlice:
      return slice(node, g);
    case HloOpcode::kConcatenate:
      return concatenate(node, g);
    case HloOpcode::kPad:
      return pad(node, g);
    case HloOpcode::kReduce:
      return reduce(node, g);
    case HloOpcode::kReduceWindow:
      return reduce_window(node, g);
    case HloOpcode::kGather:
      return gather(node, g);
    case HloOpcode::kDot:
      return dot(node, g);
    case HloOpcode::kConvolution:
      return convolution(node, g);
    default:
      return elementwise(node, g);
  }
}

void Differentiator::elementwise(const Node& node, Tensor g) {
  const Tensor x = operand(node, 0);
  const Tensor y{node.id};
  GraphBuilder& b = graph_;
  switch (node.opcode) {
    case HloOpcode::kAdd:
      if (needs_operand(node, 0)) contribute(node, 0, g);
      if (needs_operand(node, 1)) contribute(node, 1, g);
      return;
    case HloOpcode::kSubtract:
      if (needs_operand(node, 0)) contribute(node, 0, g);
      if (needs_operand(node, 1)) contribute(node, 1, b.unary(HloOpcode::kNegate, g));
      return;
    case HloOpcode::kMultiply:
      return product(node, g);
    case HloOpcode::kDivide:
      return quotient(node, g);
    case HloOpcode::kMaximum:
    case HloOpcode::kMinimum:
      return extremum(node, g);
    case HloOpcode::kPower:
      return power(node, g);
    case HloOpcode::kSelect: {
      const Tensor zero = b.splat_like(g, 0);
      if (needs_operand(node, 1)) contribute(node, 1, b.select(x, g, zero));
      if (needs_operand(node, 2)) contribute(node, 2, b.select(x, zero, g));
      return;
    }
    case HloOpcode::kConvert:
      return contribute(node, 0, b.convert(g, b.type(x)));
    case HloOpcode::kCopy:
      return contribute(node, 0, g);
    case HloOpcode::kNegate:
      return contribute(node, 0, b.unary(HloOpcode::kNegate, g));
    case HloOpcode::kAbs:
      return contribute(node, 0, b.multiply(g, b.unary(HloOpcode::kSign, x)));
    case HloOpcode::kExponential:
      return contribute(node, 0, b.multiply(g, y));
    case HloOpcode::kExponentialMinusOne:
      return contribute(node, 0, b.multiply(g, b.offset(y, 1)));
    case HloOpcode::kLog:
      return contribute(node, 0, b.divide(g, x));
    case HloOpcode::kLogPlusOne:
      return contribute(node, 0, b.divide(g, b.offset(x, 1)));
    case HloOpcode::kSqrt:
      return contribute(node, 0, b.divide(b.scale(g, 0.5), y));
    case HloOpcode::kRsqrt:
      return contribute(node, 0, b.multiply(b.scale(g, -0.5), b.multiply(y, b.multiply(y, y))));
    case HloOpcode::kTanh:
      return contribute(node, 0, b.multiply(g, b.subtract(b.splat_like(y, 1), b.multiply(y, y))));
    case HloOpcode::kLogistic:
      return contribute(node, 0, b.multiply(g, b.multiply(y, b.subtract(b.splat_like(y, 1), y))));
    case HloOpcode::kSine:
      return contribute(node, 0, b.multiply(g, b.unary(HloOpcode::kCosine, x)));
    case HloOpcode::kCosine:
      return contribute(node, 0,
                        b.unary(HloOpcode::kNegate, b.multiply(g, b.unary(HloOpcode::kSine, x))));
    case HloOpcode::kErf: {
      const Tensor bell =
          b.unary(HloOpcode::kExponential, b.unary(HloOpcode::kNegate, b.multiply(x, x)));
      return contribute(node, 0, b.multiply(g, b.scale(bell, 2 / std::sqrt(M_PI))));
    }
    case HloOpcode::kSign:
    case HloOpcode::kFloor:
    case HloOpcode::kCeil:
    case HloOpcode::kRoundNearestAfz:
    case HloOpcode::kRoundNearestEven:
      return;
    default:
      throw WorkloadError(node.metadata.op_name.get() +
                          ": expected an operation with a gradient, found " +
                          std::string(hlo::to_string(node.opcode)) +
                          "; express it with others or stop the gradient before it");
  }
}

void Differentiator::product(const Node& node, Tensor g) {
  const Tensor a = operand(node, 0), b = operand(node, 1);
  if (a.id == b.id) {
    return contribute(node, 0, graph_.multiply(graph_.scale(g, 2), a));
  }
  if (needs_operand(node, 0)) contribute(node, 0, graph_.multiply(g, b));
  if (needs_operand(node, 1)) contribute(node, 1, graph_.multiply(g, a));
}

void Differentiator::quotient(const Node& node, Tensor g) {
  const Tensor b = operand(node, 1);
  const Tensor part = graph_.divide(g, b);
  if (needs_operand(node, 0)) contribute(node, 0, part);
  if (needs_operand(node, 1)) {
    contribute(node, 1, graph_.unary(HloOpcode::kNegate, graph_.multiply(part, Tensor{node.id})));
  }
}

/// The gradient goes to the operand that gave the result. Where only one operand needs it, the
/// result is compared rather than that operand: relu's input is then not needed any more, only its
/// output, and at equality it gets nothing, as in JAX's relu.
void Differentiator::extremum(const Node& node, Tensor g) {
  const Tensor y{node.id};
  const Tensor zero = graph_.splat_like(g, 0);
  const ComparisonDirection strictly =
      node.opcode == HloOpcode::kMaximum ? ComparisonDirection::kGt : ComparisonDirection::kLt;
  for (std::size_t side : {std::size_t{0}, std::size_t{1}}) {
    if (!needs_operand(node, side)) continue;
    const bool both = needs_operand(node, 1 - side);
    const Tensor wins = both && side == 0
                            ? graph_.compare(y, operand(node, 0), ComparisonDirection::kEq)
                            : graph_.compare(y, operand(node, 1 - side), strictly);
    contribute(node, side, graph_.select(wins, g, zero));
  }
}

void Differentiator::power(const Node& node, Tensor g) {
  const Tensor a = operand(node, 0), b = operand(node, 1);
  if (needs_operand(node, 0)) {
    const Tensor less = graph_.binary(HloOpcode::kPower, a, graph_.offset(b, -1));
    contribute(node, 0, graph_.multiply(g, graph_.multiply(b, less)));
  }
  if (needs_operand(node, 1)) {
    contribute(
        node, 1,
        graph_.multiply(g, graph_.multiply(Tensor{node.id}, graph_.unary(HloOpcode::kLog, a))));
  }
}

}  // namespace tpu::frontend
