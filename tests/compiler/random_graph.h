#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "workloads/graph/graph.h"

namespace tpu::test {

class RandomMaterial;

/// How often a random graph takes an operation of each kind.
struct GraphMix {
  const char* name = "";
  std::vector<std::pair<void (*)(RandomMaterial&), std::size_t>> weights;
};

const std::vector<GraphMix>& graph_mixes();

const GraphMix& graph_mix(const std::string& name);

/// A module of 4 to 12 operations or so.
hlo::Module random_module(const GraphMix& mix, std::uint32_t seed);

}  // namespace tpu::test
