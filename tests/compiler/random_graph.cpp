#include "tests/compiler/random_graph.h"

#include <algorithm>

#include "sim/base/error.h"
#include "tests/compiler/random_elementwise.h"
#include "tests/compiler/random_indexing.h"
#include "tests/compiler/random_lanes.h"
#include "tests/compiler/random_material.h"
#include "tests/compiler/random_movement.h"
#include "tests/compiler/random_numbers.h"
#include "tests/compiler/random_products.h"
#include "tests/compiler/random_regions.h"

namespace tpu::test {

const std::vector<GraphMix>& graph_mixes() {
  static const std::vector<GraphMix> mixes = {
      {"expressions", {{add_elementwise, 8}, {add_reduction, 3}}},
      {"numbers",
       {{add_elementwise, 3}, {add_reduction, 1}, {add_function, 3}, {add_integer_function, 4}}},
      {"movement", {{add_elementwise, 4}, {add_reduction, 1}, {add_movement, 5}}},
      {"lanes", {{add_elementwise, 6}, {add_reduction, 2}, {add_lane_move, 5}}},
      {"dots", {{add_elementwise, 6}, {add_reduction, 2}, {add_movement, 1}, {add_dot, 4}}},
      {"images", {{add_elementwise, 5}, {add_reduction, 2}, {add_convolution, 3}, {add_window, 2}}},
      {"rows",
       {{add_elementwise, 5}, {add_reduction, 1}, {add_movement, 1}, {add_dot, 1}, {add_rows, 3}}},
      {"indexing",
       {{add_elementwise, 5},
        {add_reduction, 1},
        {add_dynamic_slice, 2},
        {add_gather, 2},
        {add_scatter, 2},
        {add_sort, 1},
        {add_greatest_place, 1},
        {add_running_sum, 1}}},
      {"regions",
       {{add_elementwise, 6},
        {add_reduction, 2},
        {add_dot, 1},
        {add_loop, 3},
        {add_conditional, 2}}},
  };
  return mixes;
}

const GraphMix& graph_mix(const std::string& name) {
  const std::vector<GraphMix>& mixes = graph_mixes();
  const auto found = std::find_if(mixes.begin(), mixes.end(),
                                  [&](const GraphMix& mix) { return mix.name == name; });
  TPU_CHECK(found != mixes.end(), "no mix " << name);
  return *found;
}

namespace {

/// What nothing else reads, and some other values.
std::vector<Tensor> random_results(RandomMaterial& m) {
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
void donate(hlo::Module& module, RandomMaterial& m) {
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

}  // namespace

hlo::Module random_module(const GraphMix& mix, std::uint32_t seed) {
  const std::uint32_t operations = 4 + seed % 9;
  std::vector<RandomMaterial::Kind> kinds;
  for (const auto& [kind, weight] : mix.weights) kinds.insert(kinds.end(), weight, kind);
  RandomMaterial m(std::string(mix.name) + "." + std::to_string(seed), seed, kinds);
  m.values.push_back(m.parameter(m.random_type(), m.random_extents()));
  for (std::uint32_t i = 0; i < operations; ++i) m.add_operation();
  hlo::Module module = m.graph.finish(m.graph.tuple(random_results(m)), m.parameters);
  if (m.one_in(3)) donate(module, m);
  return module;
}

}  // namespace tpu::test
