#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "workloads/frontend/graph_builder.h"

namespace tpu::test {

/// How often a random graph takes an operation of each kind.
struct GraphMix {
  const char* name = "";
  int elementwise = 0;
  int reductions = 0;
  int movement = 0;  ///< Reshape, transpose, slice, pad, concatenate, reverse.
  int dots = 0;
  int convolutions = 0;
  int windows = 0;  ///< Pooling and its gradient.
  int rows = 0;     ///< Gather and scatter of rows.
};

/// Makes modules of random operations on arrays of random extents and types: extents of 1, odd
/// ones, and those around the sizes of tiles. Equal seeds give equal modules.
///
/// Arguments of partial functions are moved into their domain, so that every value is a number of
/// moderate size.
class RandomGraph {
 public:
  using Tensor = frontend::Tensor;
  using Extents = frontend::Extents;
  using ElementType = hlo::ElementType;
  using HloOpcode = hlo::HloOpcode;

  RandomGraph(const GraphMix& mix, std::uint32_t seed)
      : engine_(seed), graph_(std::string(mix.name) + "." + std::to_string(seed)) {
    add_kind(mix.elementwise, &RandomGraph::add_elementwise);
    add_kind(mix.reductions, &RandomGraph::add_reduction);
    add_kind(mix.movement, &RandomGraph::add_movement);
    add_kind(mix.dots, &RandomGraph::add_dot);
    add_kind(mix.convolutions, &RandomGraph::add_convolution);
    add_kind(mix.windows, &RandomGraph::add_window);
    add_kind(mix.rows, &RandomGraph::add_rows);
  }

  /// A module of about so many operations; what nothing else reads are its results.
  hlo::Module make(int operations) {
    values_.push_back(parameter(random_type(), random_extents()));
    for (int i = 0; i < operations; ++i) {
      const auto kind = kinds_[below(kinds_.size())];
      (this->*kind)();
    }
    std::vector<Tensor> results;
    const hlo::Computation entry = graph_.entry();
    std::vector<bool> is_read(entry.instructions.size(), false);
    for (const hlo::HloInstruction& instruction : entry.instructions) {
      for (hlo::InstructionId operand : instruction.operands) {
        is_read[static_cast<std::size_t>(operand)] = true;
      }
    }
    for (Tensor value : values_) {
      const bool is_parameter = entry.at(value.id).opcode == HloOpcode::kParameter;
      const bool is_result = !is_read[static_cast<std::size_t>(value.id)] || one_in(12);
      if (!is_parameter && is_result) results.push_back(value);
    }
    std::sort(results.begin(), results.end(), [](Tensor a, Tensor b) { return a.id < b.id; });
    const auto same = [](Tensor a, Tensor b) { return a.id == b.id; };
    results.erase(std::unique(results.begin(), results.end(), same), results.end());
    if (results.empty()) results.push_back(graph_.unary(HloOpcode::kNegate, number(values_[0])));
    return graph_.finish(graph_.tuple(results), parameters_);
  }

 private:
  using Kind = void (RandomGraph::*)();

  void add_kind(int weight, Kind kind) { kinds_.insert(kinds_.end(), weight, kind); }
  std::size_t below(std::size_t limit) { return engine_() % limit; }
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(below(static_cast<std::size_t>(high - low + 1)));
  }
  bool one_in(std::size_t n) { return below(n) == 0; }

  // Shapes and leaves.

  std::int64_t random_extent() {
    static constexpr std::int64_t kExtents[] = {1,  1,  1,  2,  3,   4,   5,   7,   8,   9,
                                                16, 17, 23, 36, 100, 127, 128, 129, 200, 260};
    return kExtents[below(std::size(kExtents))];
  }
  static std::int64_t elements(const Extents& extents) {
    return std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>());
  }
  Extents random_extents() {
    Extents extents(below(5));
    for (std::int64_t& extent : extents) extent = random_extent();
    while (elements(extents) > kMostElements) {
      *std::max_element(extents.begin(), extents.end()) = between(1, 8);
    }
    return extents;
  }
  ElementType random_type() {
    static constexpr ElementType kTypes[] = {ElementType::kF32,  ElementType::kF32,
                                             ElementType::kF32,  ElementType::kBf16,
                                             ElementType::kBf16, ElementType::kS32};
    return kTypes[below(std::size(kTypes))];
  }
  ElementType floating_type() { return one_in(3) ? ElementType::kBf16 : ElementType::kF32; }
  Tensor parameter(ElementType type, const Extents& extents) {
    parameters_.push_back(graph_.parameter("x" + std::to_string(parameters_.size()),
                                           hlo::array_shape(type, extents)));
    return parameters_.back();
  }
  const Extents extents_of(Tensor x) const { return graph_.shape(x).dimensions; }
  Tensor keep(Tensor x) {
    values_.push_back(x);
    return x;
  }

  /// A value that there is, mostly one of the last ones.
  Tensor any() {
    if (one_in(3)) return values_[below(values_.size())];
    const std::size_t last = std::min<std::size_t>(4, values_.size());
    return values_[values_.size() - 1 - below(last)];
  }
  /// As a number of type f32 or bf16 that is no whole number.
  Tensor number(Tensor x) {
    const ElementType type = graph_.type(x);
    if (type == ElementType::kF32 || type == ElementType::kBf16) return x;
    return graph_.offset(graph_.scale(graph_.convert(x, ElementType::kF32), 0.37), 0.113);
  }
  Tensor any_number() { return number(any()); }
  Tensor converted(Tensor x, ElementType type) {
    const ElementType from = graph_.type(x);
    if (from == type) return x;
    const bool to_integer = type == ElementType::kS32 && from != ElementType::kPred;
    if (to_integer) x = graph_.scale(number(x), 3.3);
    if (type == ElementType::kPred) {
      const Tensor zero = graph_.splat_like(x, 0);
      return graph_.compare(x, zero, hlo::ComparisonDirection::kGt);
    }
    return graph_.convert(x, type);
  }
  /// Another value of the given extents and type: one that there is, a constant, a broadcast, an
  /// iota or a parameter.
  Tensor partner(const Extents& extents, ElementType type) {
    if (!one_in(3)) {
      for (int attempt = 0; attempt < 6; ++attempt) {
        const Tensor x = values_[below(values_.size())];
        if (extents_of(x) == extents) return converted(x, type);
      }
    }
    switch (below(6)) {
      case 0:
        return graph_.splat(type, extents, type == ElementType::kS32 ? 3 : 0.75);
      case 1:
        if (!extents.empty()) {
          const auto dimension = static_cast<std::int64_t>(below(extents.size()));
          const Tensor steps = graph_.iota(ElementType::kS32, extents, dimension);
          if (type == ElementType::kS32) return steps;
          const Tensor wave = graph_.scale(graph_.convert(steps, ElementType::kF32), 0.013);
          return converted(wave, type);
        }
        return parameter(type, extents);
      case 2:
      case 3:
        return broadcast_parameter(extents, type);
      default:
        return keep(parameter(type, extents));
    }
  }
  Tensor broadcast_parameter(const Extents& extents, ElementType type) {
    Extents kept, dimensions;
    for (std::size_t d = 0; d < extents.size(); ++d) {
      if (one_in(2)) continue;
      kept.push_back(extents[d]);
      dimensions.push_back(static_cast<std::int64_t>(d));
    }
    if (kept.size() == extents.size()) return parameter(type, extents);
    return graph_.broadcast(parameter(type, kept), extents, dimensions);
  }

  // Elementwise operations.

  void add_elementwise() {
    const Tensor x = any();
    switch (below(5)) {
      case 0:
      case 1:
        keep(graph_.type(x) == ElementType::kS32 ? integer_operation(x) : binary(number(x)));
        break;
      case 2:
        keep(unary(number(x)));
        break;
      case 3:
        keep(choice(graph_.type(x) == ElementType::kPred ? number(x) : x));
        break;
      default:
        keep(converted(x, random_type()));
    }
  }
  Tensor binary(Tensor x) {
    const Tensor y = partner(extents_of(x), graph_.type(x));
    switch (below(7)) {
      case 0:
        return graph_.subtract(x, y);
      case 1:
        return graph_.multiply(x, y);
      case 2:
        return graph_.divide(x, graph_.offset(graph_.unary(HloOpcode::kAbs, y), 0.5));
      case 3:
        return graph_.binary(HloOpcode::kMaximum, x, y);
      case 4:
        return graph_.binary(HloOpcode::kMinimum, x, y);
      case 5:
        return graph_.binary(HloOpcode::kPower,
                             graph_.offset(graph_.unary(HloOpcode::kAbs, limited(x)), 0.25),
                             graph_.unary(HloOpcode::kTanh, y));
      default:
        return graph_.add(x, y);
    }
  }
  /// Between -3 and 3.
  Tensor limited(Tensor x) { return graph_.scale(graph_.unary(HloOpcode::kTanh, x), 3); }
  Tensor positive(Tensor x) { return graph_.offset(graph_.unary(HloOpcode::kAbs, x), 0.25); }
  Tensor unary(Tensor x) {
    switch (below(12)) {
      case 0:
        return graph_.unary(HloOpcode::kExponential, limited(x));
      case 1:
        return graph_.unary(HloOpcode::kLog, positive(x));
      case 2:
        return graph_.unary(HloOpcode::kSqrt, positive(x));
      case 3:
        return graph_.unary(HloOpcode::kRsqrt, positive(x));
      case 4:
        return graph_.unary(HloOpcode::kTanh, x);
      case 5:
        return graph_.unary(HloOpcode::kLogistic, x);
      case 6:
        return graph_.unary(HloOpcode::kAbs, x);
      case 7:
        return graph_.unary(HloOpcode::kExponentialMinusOne, limited(x));
      case 8:
        return graph_.unary(HloOpcode::kLogPlusOne, positive(x));
      case 9:
        return graph_.unary(HloOpcode::kFloor, graph_.scale(x, 1.7));
      case 10:
        return graph_.unary(HloOpcode::kSign, x);
      default:
        return graph_.unary(HloOpcode::kNegate, x);
    }
  }
  Tensor integer_operation(Tensor x) {
    static constexpr HloOpcode kOpcodes[] = {
        HloOpcode::kAdd, HloOpcode::kSubtract, HloOpcode::kMaximum, HloOpcode::kMinimum,
        HloOpcode::kAnd, HloOpcode::kOr,       HloOpcode::kXor,     HloOpcode::kMultiply};
    const HloOpcode opcode = kOpcodes[below(std::size(kOpcodes))];
    Tensor y = partner(extents_of(x), ElementType::kS32);
    if (opcode == HloOpcode::kMultiply) {
      const Tensor mask = graph_.splat_like(x, 63);
      x = graph_.binary(HloOpcode::kAnd, x, mask);
      y = graph_.binary(HloOpcode::kAnd, y, mask);
    }
    return graph_.binary(opcode, x, y);
  }
  /// A select by a comparison, or the comparison.
  Tensor choice(Tensor x) {
    const ElementType type = graph_.type(x);
    // Whether two rounded numbers are equal is chance.
    const auto direction =
        static_cast<hlo::ComparisonDirection>(type == ElementType::kS32 ? below(6) : 2 + below(4));
    const Tensor condition = graph_.compare(x, partner(extents_of(x), type), direction);
    if (one_in(4)) return condition;
    return graph_.select(condition, x, partner(extents_of(x), type));
  }

  // Reductions.

  void add_reduction() {
    Tensor x = any();
    if (graph_.type(x) == ElementType::kPred) x = number(x);
    const Extents extents = extents_of(x);
    if (extents.empty()) return add_elementwise();
    Extents dimensions, kept, kept_dimensions;
    const std::size_t always = below(extents.size());
    for (std::size_t d = 0; d < extents.size(); ++d) {
      if (d == always || one_in(2)) {
        dimensions.push_back(static_cast<std::int64_t>(d));
      } else {
        kept.push_back(extents[d]);
        kept_dimensions.push_back(static_cast<std::int64_t>(d));
      }
    }
    const bool sums = graph_.type(x) != ElementType::kS32 && !one_in(3);
    if (graph_.type(x) == ElementType::kS32) x = number(x);
    const Tensor reduced =
        sums ? graph_.reduce_sum(x, dimensions) : graph_.reduce_max(x, dimensions);
    keep(reduced);
    // As in a softmax or a normalisation: back to the extent of the operand.
    if (one_in(2)) keep(graph_.subtract(x, graph_.broadcast(reduced, extents, kept_dimensions)));
  }

  // Operations that move elements.

  void add_movement() {
    const Tensor x = any();
    const Extents extents = extents_of(x);
    if (extents.empty() || graph_.type(x) == ElementType::kPred) return add_elementwise();
    switch (below(6)) {
      case 0:
        keep(graph_.reshape(x, refactored(elements(extents))));
        break;
      case 1:
        keep(transposed(x));
        break;
      case 2:
        keep(sliced(x));
        break;
      case 3:
        if (elements(extents) <= kMostElements / 4) keep(padded(x));
        break;
      case 4:
        keep(graph_.reverse(x, {static_cast<std::int64_t>(below(extents.size()))}));
        break;
      default:
        if (elements(extents) <= kMostElements / 2) keep(joined(x));
    }
  }
  Extents refactored(std::int64_t count) {
    Extents factors;
    for (std::int64_t prime : {2, 2, 2, 3, 5, 7, 2, 2, 3, 5, 2, 3, 2, 2, 2}) {
      if (count % prime != 0) continue;
      factors.push_back(prime);
      count /= prime;
    }
    factors.push_back(count);
    std::shuffle(factors.begin(), factors.end(), engine_);
    Extents extents(1 + below(4), 1);
    for (std::int64_t factor : factors) extents[below(extents.size())] *= factor;
    return extents;
  }
  Tensor transposed(Tensor x) {
    Extents order(extents_of(x).size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), engine_);
    return graph_.transpose(x, order);
  }
  Tensor sliced(Tensor x) {
    Extents starts, limits, strides;
    for (std::int64_t extent : extents_of(x)) {
      starts.push_back(one_in(2) ? 0 : between(0, extent - 1));
      limits.push_back(one_in(2) ? extent : between(starts.back() + 1, extent));
      strides.push_back(one_in(6) ? 2 : 1);
    }
    return graph_.slice(x, starts, limits, strides);
  }
  Tensor padded(Tensor x) {
    std::vector<hlo::PaddingDimension> padding;
    for (std::int64_t extent : extents_of(x)) {
      hlo::PaddingDimension each;
      if (one_in(2)) each.low = between(0, 3);
      if (one_in(2)) each.high = between(0, 3);
      if (one_in(8) && extent < 32) each.interior = 1;
      padding.push_back(each);
    }
    return graph_.pad(x, padding, 0);
  }
  Tensor joined(Tensor x) {
    const Extents extents = extents_of(x);
    const std::size_t dimension = below(extents.size());
    Extents other = extents;
    other[dimension] = between(1, 9);
    const Tensor y = one_in(2) ? x : partner(other, graph_.type(x));
    return graph_.concatenate({x, y}, static_cast<std::int64_t>(dimension));
  }

  // Products.

  void add_dot() {
    Tensor x = any_number();
    if (extents_of(x).size() < 2)
      x = parameter(floating_type(), {random_extent(), between(1, 140)});
    const Extents extents = extents_of(x);
    hlo::DotDimensions dimensions;
    Extents other, result;
    const std::size_t contracted = extents.size() - 1 - below(2);
    for (std::size_t d = 0; d + 2 < extents.size(); ++d) {
      dimensions.lhs_batch.push_back(static_cast<std::int64_t>(d));
      dimensions.rhs_batch.push_back(static_cast<std::int64_t>(d));
      other.push_back(extents[d]);
      result.push_back(extents[d]);
    }
    const std::int64_t batch = elements(other);
    const std::int64_t rows =
        extents[contracted == extents.size() - 1 ? extents.size() - 2 : extents.size() - 1];
    std::int64_t columns = random_extent();
    while (batch * columns * std::max(rows, extents[contracted]) > kMostElements) {
      columns = (columns + 1) / 2;
      if (columns == 1) break;
    }
    const bool transposes = one_in(2);
    dimensions.lhs_contracting = {static_cast<std::int64_t>(contracted)};
    dimensions.rhs_contracting = {static_cast<std::int64_t>(extents.size() - (transposes ? 1 : 2))};
    other.push_back(transposes ? columns : extents[contracted]);
    other.push_back(transposes ? extents[contracted] : columns);
    const Tensor y = partner(other, graph_.type(x));
    const bool swaps = one_in(3);
    if (swaps) {
      std::swap(dimensions.lhs_batch, dimensions.rhs_batch);
      std::swap(dimensions.lhs_contracting, dimensions.rhs_contracting);
    }
    const ElementType type = one_in(3) ? floating_type() : graph_.type(x);
    keep(graph_.dot(swaps ? y : x, swaps ? x : y, dimensions, type));
  }

  void add_convolution() {
    const std::int64_t groups = one_in(4) ? between(2, 4) : 1;
    const std::int64_t inputs = one_in(2) ? between(1, 9) : between(1, 3) * 40;
    const std::int64_t outputs = one_in(2) ? between(1, 9) : between(1, 3) * 50;
    const ElementType type = floating_type();
    const Extents image{between(1, 4), between(1, 12), between(1, 12), inputs * groups};
    const Extents kernel{between(1, 4), between(1, 4), inputs, outputs * groups};
    std::vector<hlo::WindowDimension> window(2);
    for (std::size_t i = 0; i < 2; ++i) {
      window[i].size = kernel[i];
      window[i].stride = one_in(3) ? 2 : 1;
      window[i].padding_low = between(0, kernel[i] - 1);
      window[i].padding_high = between(0, kernel[i]);
      if (one_in(6)) window[i].base_dilation = 2;
      if (one_in(8)) window[i].window_dilation = 2;
      if (one_in(8)) window[i].reversal = true;
      const std::int64_t reach = (kernel[i] - 1) * window[i].window_dilation + 1;
      const std::int64_t base = (image[i + 1] - 1) * window[i].base_dilation + 1;
      const std::int64_t missing = reach - (base + window[i].padding_low + window[i].padding_high);
      if (missing > 0) window[i].padding_high += missing;
    }
    const Tensor x = partner(image, type);
    keep(graph_.convolution(x, partner(kernel, type), frontend::nhwc_dimensions(), window, groups));
  }

  void add_window() {
    const Extents image{between(1, 3), between(2, 12), between(2, 12), between(1, 140)};
    const Tensor x = partner(image, floating_type());
    std::vector<hlo::WindowDimension> window(4);
    for (std::size_t i = 1; i < 3; ++i) {
      window[i].size = between(1, std::min<std::int64_t>(3, image[i]));
      window[i].stride = between(1, 2);
      window[i].padding_low = between(0, window[i].size - 1);
      window[i].padding_high = between(0, window[i].size - 1);
    }
    if (one_in(3)) {
      keep(graph_.reduce_window_sum(x, window));
      return;
    }
    const Tensor greatest = keep(graph_.reduce_window_max(x, window));
    if (one_in(2) || graph_.type(x) != ElementType::kF32) return;
    const Tensor source = partner(extents_of(greatest), ElementType::kF32);
    keep(graph_.select_and_scatter(x, source, window));
  }

  void add_rows() {
    const std::int64_t count = between(1, 40), width = random_extent(), picked = between(1, 30);
    const Tensor table = partner({count, width}, ElementType::kF32);
    const Tensor raw = parameter(ElementType::kS32, {picked});
    const Tensor lowest = graph_.splat(ElementType::kS32, {picked}, 0);
    const Tensor highest =
        graph_.splat(ElementType::kS32, {picked}, static_cast<double>(count - 1));
    const Tensor indices =
        graph_.reshape(graph_.binary(HloOpcode::kMaximum, lowest,
                                     graph_.binary(HloOpcode::kMinimum, highest, raw)),
                       {picked, 1});
    hlo::GatherDimensions dimensions;
    dimensions.offset_dims = {1};
    dimensions.collapsed_slice_dims = {0};
    dimensions.start_index_map = {0};
    dimensions.index_vector_dim = 1;
    if (one_in(2)) {
      keep(graph_.scatter_add(table, indices, partner({picked, width}, ElementType::kF32),
                              dimensions));
      return;
    }
    dimensions.slice_sizes = {1, width};
    keep(graph_.gather(table, indices, dimensions));
  }

  static constexpr std::int64_t kMostElements = 12000;

  std::mt19937 engine_;
  frontend::GraphBuilder graph_;
  std::vector<Kind> kinds_;
  std::vector<Tensor> values_, parameters_;
};

}  // namespace tpu::test
