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
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test {

using frontend::Extents;
using frontend::Tensor;
using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;

/// Of an array.
constexpr std::int64_t kMostElements = 12000;

inline std::int64_t elements(const Extents& extents) {
  return std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>());
}

/// What random operations are made of: arrays of random extents and types (extents of 1, odd ones,
/// and those around the sizes of tiles), the values that there are, and new ones. Equal seeds give
/// equal graphs.
///
/// Operations move arguments of partial functions into their domain, so that every value is a
/// number of moderate size.
class RandomMaterial {
 public:
  using Kind = void (*)(RandomMaterial&);

  RandomMaterial(const std::string& name, std::uint32_t seed, const std::vector<Kind>& kinds)
      : engine(seed), graph(name), kinds_(kinds) {}
  /// Of a region of another graph, made of operations of the same kinds.
  RandomMaterial(RandomMaterial& outer, const std::string& name)
      : engine(static_cast<std::uint32_t>(outer.engine())),
        graph(name),
        depth(outer.depth + 1),
        kinds_(outer.kinds_) {}

  std::mt19937 engine;
  frontend::GraphBuilder graph;
  std::vector<Tensor> values, parameters;
  int depth = 0;    ///< Regions around this one.
  int regions = 0;  ///< Made so far in this one.

  /// An instruction of any opcode, its attributes to be set.
  HloInstruction make(HloOpcode opcode, const std::vector<Tensor>& operands) const {
    HloInstruction instruction;
    instruction.opcode = opcode;
    for (Tensor operand : operands) instruction.operands.push_back(operand.id);
    return instruction;
  }
  /// A computation given as the instructions of HLO text.
  hlo::ComputationId computation(const std::string& instructions) {
    const std::string name = "called." + std::to_string(computations_++);
    return graph.adopt(hlo::read_hlo_text(
        name, "HloModule " + name + "\nENTRY " + name + " {\n" + instructions + "}\n"));
  }
  Tensor element(Tensor tuple, std::size_t index) {
    HloInstruction instruction = make(HloOpcode::kGetTupleElement, {tuple});
    instruction.tuple_index = static_cast<std::int64_t>(index);
    return graph.instruction(std::move(instruction));
  }
  void add_operation() { kinds_[below(kinds_.size())](*this); }
  std::size_t below(std::size_t limit) { return engine() % limit; }
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(below(static_cast<std::size_t>(high - low + 1)));
  }
  bool one_in(std::size_t n) { return below(n) == 0; }

  std::int64_t random_extent() {
    static constexpr std::int64_t kExtents[] = {1,  1,  1,  2,   3,   4,   5,   7,   8,   9,  16,
                                                17, 23, 36, 100, 127, 128, 129, 200, 257, 260};
    return kExtents[below(std::size(kExtents))];
  }
  Extents random_extents() {
    Extents extents(one_in(12) ? 5 + below(2) : below(5));
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
    parameters.push_back(
        graph.parameter("x" + std::to_string(parameters.size()), hlo::array_shape(type, extents)));
    return parameters.back();
  }
  const Extents extents_of(Tensor x) const { return graph.shape(x).dimensions; }
  Tensor keep(Tensor x) {
    values.push_back(x);
    return x;
  }

  /// A value that there is, mostly one of the last ones.
  Tensor any() {
    if (one_in(3)) return values[below(values.size())];
    const std::size_t last = std::min<std::size_t>(4, values.size());
    return values[values.size() - 1 - below(last)];
  }
  /// As a number of type f32 or bf16 that is no whole number.
  Tensor number(Tensor x) {
    const ElementType type = graph.type(x);
    if (type == ElementType::kF32 || type == ElementType::kBf16) return x;
    if (type == ElementType::kU32) x = low_bits(x);
    return graph.offset(graph.scale(graph.convert(x, ElementType::kF32), 0.37), 0.113);
  }
  Tensor any_number() { return number(any()); }
  /// Integers from 0 to 63, as s32.
  Tensor low_bits(Tensor x) {
    x = graph.convert(x, ElementType::kS32);
    return graph.binary(HloOpcode::kAnd, x, graph.splat_like(x, 63));
  }
  Tensor converted(Tensor x, ElementType type) {
    const ElementType from = graph.type(x);
    if (from == type) return x;
    if (type == ElementType::kPred) {
      x = from == ElementType::kU32 ? low_bits(x) : x;
      return graph.compare(x, graph.splat_like(x, 0), hlo::ComparisonDirection::kGt);
    }
    if (type == ElementType::kU32) return graph.convert(converted(x, ElementType::kS32), type);
    const bool is_floating = from == ElementType::kF32 || from == ElementType::kBf16;
    if (type == ElementType::kS32 && is_floating) x = graph.offset(graph.scale(x, 3.3), 0.0137);
    if (type != ElementType::kS32 && from == ElementType::kU32) x = low_bits(x);
    return graph.convert(x, type);
  }
  /// Another value of the given extents and type: one that there is, a constant, a broadcast, an
  /// iota or a parameter.
  Tensor partner(const Extents& extents, ElementType type) {
    if (!one_in(3)) {
      for (int attempt = 0; attempt < 6; ++attempt) {
        const Tensor x = values[below(values.size())];
        if (extents_of(x) == extents) return converted(x, type);
      }
    }
    if (type == ElementType::kU32) return converted(partner(extents, ElementType::kS32), type);
    switch (below(6)) {
      case 0:
        return graph.splat(type, extents, type == ElementType::kS32 ? 3 : 0.75);
      case 1:
        if (!extents.empty()) {
          const auto dimension = static_cast<std::int64_t>(below(extents.size()));
          const Tensor steps = graph.iota(ElementType::kS32, extents, dimension);
          if (type == ElementType::kS32) return steps;
          const Tensor wave = graph.scale(graph.convert(steps, ElementType::kF32), 0.013);
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
    return graph.broadcast(parameter(type, kept), extents, dimensions);
  }

 private:
  const std::vector<Kind>& kinds_;
  int computations_ = 0;
};

}  // namespace tpu::test
