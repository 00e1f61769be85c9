#include "workloads/compiler/sharding/factor_rule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string_view>

#include "sim/base/contains.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::Shape;

namespace {

using Dimensions = std::vector<std::int64_t>;

bool is_plain(const hlo::WindowDimension& window) {
  return window.size == 1 && window.stride == 1 && window.padding_low == 0 &&
         window.padding_high == 0 && window.base_dilation == 1 && window.window_dilation == 1;
}

/// Adding it again and again changes nothing.
bool is_neutral(const HloInstruction& initial, HloOpcode opcode) {
  if (opcode != HloOpcode::kAdd && opcode != HloOpcode::kMultiply) return true;
  if (initial.opcode != HloOpcode::kConstant || initial.literal.empty()) return false;
  if (opcode == HloOpcode::kAdd) {
    const auto is_zero = [](std::uint8_t byte) { return byte == 0; };
    return std::all_of(initial.literal.begin(), initial.literal.end(), is_zero);
  }
  float one = 0;
  if (initial.shape.type != ElementType::kF32) return false;
  std::memcpy(&one, initial.literal.data(), sizeof one);
  return one == 1.0F;
}

bool can_combine(HloOpcode opcode) {
  return opcode == HloOpcode::kAdd || opcode == HloOpcode::kMultiply ||
         opcode == HloOpcode::kMaximum || opcode == HloOpcode::kMinimum ||
         opcode == HloOpcode::kAnd || opcode == HloOpcode::kOr;
}

/// Writes the rule of one instruction.
class Rules {
 public:
  Rules(const hlo::Module& module, const Computation& computation,
        const HloInstruction& instruction)
      : module_(module), computation_(computation), instruction_(instruction) {
    for (hlo::InstructionId operand : instruction.operands) {
      const Shape& shape = computation.at(operand).shape;
      rule_.operands.emplace_back(shape.is_tuple() ? 0 : shape.dimensions.size());
    }
    if (!instruction.shape.is_tuple()) {
      rule_.results.emplace_back(instruction.shape.dimensions.size());
    } else {
      for (const Shape& element : instruction.shape.elements) {
        rule_.results.emplace_back(element.dimensions.size());
      }
    }
  }

  FactorRule build();

 private:
  using Array = FactorRule::ArrayFactors;

  const Shape& operand(std::size_t i) const {
    return computation_.at(instruction_.operands[i]).shape;
  }
  std::int64_t extent(std::size_t i, std::int64_t d) const {
    return operand(i).dimensions[static_cast<std::size_t>(d)];
  }
  const Shape& result() const {
    return instruction_.shape.is_tuple() ? instruction_.shape.elements.at(0) : instruction_.shape;
  }
  int factor(std::int64_t size, bool is_reduced = false) {
    rule_.factors.push_back({size, is_reduced});
    return static_cast<int>(rule_.factors.size()) - 1;
  }
  static void put(Array& array, std::int64_t dimension, int factor) {
    array[static_cast<std::size_t>(dimension)].push_back(factor);
  }
  void put_operand(std::size_t i, std::int64_t d, int factor) { put(rule_.operands[i], d, factor); }
  void put_result(std::int64_t d, int factor) { put(rule_.results[0], d, factor); }
  void join(std::size_t i, std::int64_t from, std::int64_t to) {
    const int made = factor(extent(i, from));
    put_operand(i, from, made);
    put_result(to, made);
  }
  /// Dimension d of all arrays that have the result's rank.
  void join_all(std::int64_t d) {
    const int made = factor(result().dimensions[static_cast<std::size_t>(d)]);
    const auto rank = result().dimensions.size();
    for (Array& array : rule_.operands) {
      if (array.size() == rank) put(array, d, made);
    }
    for (Array& array : rule_.results) put(array, d, made);
  }
  template <class Predicate>
  void join_where(Predicate keeps) {
    for (std::int64_t d = 0; d < result().rank(); ++d) {
      if (keeps(d)) join_all(d);
    }
  }

  void broadcast();
  void reshape();
  void transpose();
  void reduce();
  void windowed();
  void dot();
  void convolution();
  void gather();
  void scatter();
  void dynamic_slice();
  void dynamic_update_slice();
  void custom_call();

  const hlo::Module& module_;
  const Computation& computation_;
  const HloInstruction& instruction_;
  FactorRule rule_;
};

/// Of broadcast and iota, which has no operand.
void Rules::broadcast() {
  for (std::int64_t d = 0; d < result().rank(); ++d) {
    const int made = factor(result().dimensions[static_cast<std::size_t>(d)]);
    put_result(d, made);
    for (std::size_t i = 0; !rule_.operands.empty() && i < rule_.operands[0].size(); ++i) {
      if (instruction_.dimensions[i] == d) put_operand(0, static_cast<std::int64_t>(i), made);
    }
  }
}

/// Factors are what is left between the cuts of both sides; behind extents that do not divide each
/// other everything up to the next common cut stays whole.
void Rules::reshape() {
  const Dimensions& from = operand(0).dimensions;
  const Dimensions& to = result().dimensions;
  std::size_t i = 0, j = 0;
  std::int64_t left = 1, right = 1;
  while (true) {
    while (left == 1 && i < from.size()) left = from[i++];
    while (right == 1 && j < to.size()) right = to[j++];
    if (left <= 1 || right <= 1) return;
    if (left % right != 0 && right % left != 0) {
      std::int64_t a = left, b = right;
      while (a != b) {
        if (a < b) {
          if (i >= from.size()) return;
          a *= from[i++];
        } else {
          if (j >= to.size()) return;
          b *= to[j++];
        }
      }
      left = right = 1;
      continue;
    }
    const std::int64_t size = std::min(left, right);
    const int made = factor(size);
    put_operand(0, static_cast<std::int64_t>(i) - 1, made);
    put_result(static_cast<std::int64_t>(j) - 1, made);
    left /= size;
    right /= size;
  }
}

void Rules::transpose() {
  for (std::int64_t d = 0; d < result().rank(); ++d) {
    join(0, instruction_.dimensions[static_cast<std::size_t>(d)], d);
  }
}

void Rules::reduce() {
  const std::size_t arrays = instruction_.operands.size() / 2;
  rule_.combination = combination_of(module_, instruction_.called.at(0));
  const bool may_cut = arrays == 1 && can_combine(rule_.combination) &&
                       is_neutral(computation_.at(instruction_.operands[1]), rule_.combination);
  std::int64_t kept = 0;
  for (std::int64_t d = 0; d < operand(0).rank(); ++d) {
    const bool is_reduced = contains(instruction_.dimensions, d);
    if (is_reduced && !may_cut) continue;
    const int made = factor(extent(0, d), is_reduced);
    for (std::size_t i = 0; i < arrays; ++i) put_operand(i, d, made);
    if (is_reduced) continue;
    for (Array& array : rule_.results) put(array, kept, made);
    ++kept;
  }
}

/// reduce-window and select-and-scatter.
void Rules::windowed() {
  join_where([this](std::int64_t d) {
    return is_plain(instruction_.window.at(static_cast<std::size_t>(d)));
  });
}

void Rules::dot() {
  const hlo::DotDimensions& dot = instruction_.dot;
  std::int64_t to = 0;
  for (std::size_t i = 0; i < dot.lhs_batch.size(); ++i) {
    join(0, dot.lhs_batch[i], to++);
    put_operand(1, dot.rhs_batch[i], static_cast<int>(rule_.factors.size()) - 1);
  }
  for (std::int64_t d = 0; d < operand(0).rank(); ++d) {
    if (!contains(dot.lhs_batch, d) && !contains(dot.lhs_contracting, d)) join(0, d, to++);
  }
  for (std::int64_t d = 0; d < operand(1).rank(); ++d) {
    if (!contains(dot.rhs_batch, d) && !contains(dot.rhs_contracting, d)) join(1, d, to++);
  }
  for (std::size_t i = 0; i < dot.lhs_contracting.size(); ++i) {
    const int made = factor(extent(0, dot.lhs_contracting[i]), true);
    put_operand(0, dot.lhs_contracting[i], made);
    put_operand(1, dot.rhs_contracting[i], made);
  }
}

void Rules::convolution() {
  const hlo::ConvolutionDimensions& d = instruction_.convolution;
  const bool is_grouped =
      instruction_.feature_group_count > 1 || instruction_.batch_group_count > 1;
  if (instruction_.batch_group_count == 1) join(0, d.input_batch, d.output_batch);
  if (!is_grouped) {
    join(1, d.kernel_output_feature, d.output_feature);
  }
  if (instruction_.feature_group_count == 1) {
    const int made = factor(extent(0, d.input_feature), true);
    put_operand(0, d.input_feature, made);
    put_operand(1, d.kernel_input_feature, made);
  }
  for (std::size_t i = 0; i < instruction_.window.size(); ++i) {
    if (is_plain(instruction_.window[i])) join(0, d.input_spatial[i], d.output_spatial[i]);
  }
}

void Rules::gather() {
  const hlo::GatherDimensions& g = instruction_.gather;
  std::vector<std::int64_t> batch_places;
  for (std::int64_t d = 0; d < result().rank(); ++d) {
    if (!contains(g.offset_dims, d)) batch_places.push_back(d);
  }
  std::size_t batch = 0;
  for (std::int64_t d = 0; d < operand(1).rank(); ++d) {
    if (d == g.index_vector_dim) continue;
    join(1, d, batch_places.at(batch++));
    for (std::size_t i = 0; i < g.start_indices_batching_dims.size(); ++i) {
      if (g.start_indices_batching_dims[i] != d) continue;
      put_operand(0, g.operand_batching_dims[i], static_cast<int>(rule_.factors.size()) - 1);
    }
  }
  std::size_t offset = 0;
  for (std::int64_t d = 0; d < operand(0).rank(); ++d) {
    if (contains(g.collapsed_slice_dims, d) || contains(g.operand_batching_dims, d)) continue;
    const std::int64_t to = g.offset_dims.at(offset++);
    if (g.slice_sizes[static_cast<std::size_t>(d)] == extent(0, d)) join(0, d, to);
  }
}

void Rules::scatter() {
  const hlo::GatherDimensions& g = instruction_.gather;
  if (instruction_.operands.size() != 3) return;
  rule_.combination = combination_of(module_, instruction_.called.at(0));
  const bool may_cut = can_combine(rule_.combination) && rule_.combination != HloOpcode::kMultiply;
  std::size_t window = 0;
  for (std::int64_t d = 0; d < operand(0).rank(); ++d) {
    if (contains(g.collapsed_slice_dims, d) || contains(g.operand_batching_dims, d)) continue;
    const std::int64_t from = g.offset_dims.at(window++);
    if (extent(2, from) != extent(0, d)) continue;
    join(0, d, d);
    put_operand(2, from, static_cast<int>(rule_.factors.size()) - 1);
  }
  std::int64_t index = 0;
  for (std::int64_t d = 0; d < operand(2).rank(); ++d) {
    if (contains(g.offset_dims, d)) continue;
    if (index == g.index_vector_dim) ++index;
    const auto found = std::find(g.start_indices_batching_dims.begin(),
                                 g.start_indices_batching_dims.end(), index);
    const bool is_batch = found != g.start_indices_batching_dims.end();
    if (is_batch || may_cut) {
      const int made = factor(extent(2, d), !is_batch);
      put_operand(2, d, made);
      put_operand(1, index, made);
      if (is_batch) {
        const std::int64_t place = g.operand_batching_dims[static_cast<std::size_t>(
            found - g.start_indices_batching_dims.begin())];
        put_operand(0, place, made);
        put_result(place, made);
      }
    }
    ++index;
  }
  if (rule_.combination == HloOpcode::kAdd) rule_.operand_counted_once = 0;
}

void Rules::dynamic_slice() {
  for (std::int64_t d = 0; d < result().rank(); ++d) {
    if (result().dimensions[static_cast<std::size_t>(d)] == extent(0, d)) join(0, d, d);
  }
}

void Rules::dynamic_update_slice() {
  for (std::int64_t d = 0; d < result().rank(); ++d) {
    if (extent(1, d) != extent(0, d)) continue;
    join(0, d, d);
    put_operand(1, d, static_cast<int>(rule_.factors.size()) - 1);
  }
}

void Rules::custom_call() {
  constexpr std::array<std::string_view, 6> kSame{"Sharding",         "xla.sdy.FuncResultSharding",
                                                  "xla.sdy.Sharding", "MoveToDevice",
                                                  "MoveToHost",       "AnnotateDevicePlacement"};
  const std::string& target = instruction_.custom_call_target;
  if (std::find(kSame.begin(), kSame.end(), target) != kSame.end() &&
      instruction_.operands.size() == 1 && !instruction_.shape.is_tuple()) {
    join_where([](std::int64_t) { return true; });
  }
  if (target == "TopK" && instruction_.shape.is_tuple()) {
    join_where([this](std::int64_t d) { return d + 1 < operand(0).rank(); });
  }
}

FactorRule Rules::build() {
  const auto all = [](std::int64_t) { return true; };
  switch (instruction_.opcode) {
    case HloOpcode::kIota:
    case HloOpcode::kBroadcast:
      broadcast();
      break;
    case HloOpcode::kReshape:
    case HloOpcode::kBitcast:
      reshape();
      break;
    case HloOpcode::kTranspose:
      transpose();
      break;
    case HloOpcode::kCopy:
    case HloOpcode::kOptimizationBarrier:
    case HloOpcode::kMap:
    case HloOpcode::kAllReduce:
      if (!result().is_tuple() && !instruction_.shape.is_tuple()) join_where(all);
      break;
    case HloOpcode::kBitcastConvert:
      if (operand(0).rank() == result().rank()) join_where(all);
      break;
    case HloOpcode::kSlice:
      join_where([this](std::int64_t d) {
        const auto i = static_cast<std::size_t>(d);
        return extent(0, d) == result().dimensions[i] && instruction_.slice->strides[i] == 1;
      });
      break;
    case HloOpcode::kPad:
      join_where([this](std::int64_t d) {
        const hlo::PaddingDimension& p = instruction_.padding[static_cast<std::size_t>(d)];
        return p.low == 0 && p.high == 0 && p.interior == 0;
      });
      break;
    case HloOpcode::kConcatenate:
    case HloOpcode::kReverse:
    case HloOpcode::kSort:
      join_where([this](std::int64_t d) { return !contains(instruction_.dimensions, d); });
      break;
    case HloOpcode::kReduce:
      reduce();
      break;
    case HloOpcode::kReduceWindow:
    case HloOpcode::kSelectAndScatter:
      windowed();
      break;
    case HloOpcode::kDot:
      dot();
      break;
    case HloOpcode::kConvolution:
      convolution();
      break;
    case HloOpcode::kGather:
      gather();
      break;
    case HloOpcode::kScatter:
      scatter();
      break;
    case HloOpcode::kDynamicSlice:
      dynamic_slice();
      break;
    case HloOpcode::kDynamicUpdateSlice:
      dynamic_update_slice();
      break;
    case HloOpcode::kCustomCall:
      custom_call();
      break;
    default:
      if (is_elementwise(instruction_.opcode)) join_where(all);
      break;
  }
  return std::move(rule_);
}

}  // namespace

FactorRule factor_rule(const hlo::Module& module, const Computation& computation,
                       const HloInstruction& instruction) {
  return Rules(module, computation, instruction).build();
}

HloOpcode combination_of(const hlo::Module& module, hlo::ComputationId computation) {
  const Computation& body = module.computation(computation);
  const HloInstruction& root = body.at(body.root);
  if (body.instructions.size() != 3 || root.operands.size() != 2) return HloOpcode::kCount;
  for (hlo::InstructionId operand : root.operands) {
    if (body.at(operand).opcode != HloOpcode::kParameter) return HloOpcode::kCount;
  }
  return root.operands[0] == root.operands[1] ? HloOpcode::kCount : root.opcode;
}

}  // namespace tpu::compiler
