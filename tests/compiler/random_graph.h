#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/compiler/random_elementwise.h"
#include "tests/compiler/random_indexing.h"
#include "tests/compiler/random_material.h"
#include "tests/compiler/random_movement.h"
#include "tests/compiler/random_numbers.h"
#include "tests/compiler/random_products.h"
#include "tests/compiler/random_regions.h"

namespace tpu::test {

/// How often a random graph takes an operation of each kind.
struct GraphMix {
  const char* name = "";
  std::vector<std::pair<RandomMaterial::Kind, std::size_t>> weights;

  std::vector<RandomMaterial::Kind> kinds() const {
    std::vector<RandomMaterial::Kind> kinds;
    for (const auto& [kind, weight] : weights) kinds.insert(kinds.end(), weight, kind);
    return kinds;
  }
};

/// What nothing else reads, and some other values.
inline std::vector<Tensor> random_results(RandomMaterial& m) {
  const hlo::Computation& entry = m.graph.entry();
  std::vector<bool> is_read(entry.instructions.size(), false);
  for (const HloInstruction& instruction : entry.instructions) {
    for (hlo::InstructionId operand : instruction.operands) {
      is_read[static_cast<std::size_t>(operand)] = true;
    }
  }
  std::vector<Tensor> results;
  for (Tensor value : m.values) {
    const bool is_parameter = entry.at(value.id).opcode == HloOpcode::kParameter;
    const bool is_result = !is_read[static_cast<std::size_t>(value.id)] || m.one_in(12);
    if (!is_parameter && is_result) results.push_back(value);
  }
  std::sort(results.begin(), results.end(), [](Tensor a, Tensor b) { return a.id < b.id; });
  const auto same = [](Tensor a, Tensor b) { return a.id == b.id; };
  results.erase(std::unique(results.begin(), results.end(), same), results.end());
  if (results.empty()) {
    results.push_back(m.graph.unary(HloOpcode::kNegate, m.number(m.values[0])));
  }
  return results;
}

/// Results that take the memory of parameters of their shape.
inline void donate(hlo::Module& module, RandomMaterial& m) {
  const hlo::Computation& entry = module.entry_computation();
  const std::vector<hlo::Shape> results = entry.at(entry.root).shape.elements;
  std::vector<bool> is_taken(results.size(), false);
  for (hlo::InstructionId id : entry.parameters()) {
    const HloInstruction& parameter = entry.at(id);
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (is_taken[i] || !hlo::same_extent(results[i], parameter.shape) || !m.one_in(2)) continue;
      is_taken[i] = true;
      module.aliases.push_back({static_cast<std::int64_t>(i), parameter.parameter_number});
      break;
    }
  }
}

/// A module of about so many operations.
inline hlo::Module random_module(const GraphMix& mix, std::uint32_t seed, int operations) {
  const std::vector<RandomMaterial::Kind> kinds = mix.kinds();
  RandomMaterial m(std::string(mix.name) + "." + std::to_string(seed), seed, kinds);
  m.values.push_back(m.parameter(m.random_type(), m.random_extents()));
  for (int i = 0; i < operations; ++i) m.add_operation();
  hlo::Module module = m.graph.finish(m.graph.tuple(random_results(m)), m.parameters);
  if (m.one_in(3)) donate(module, m);
  return module;
}

}  // namespace tpu::test
