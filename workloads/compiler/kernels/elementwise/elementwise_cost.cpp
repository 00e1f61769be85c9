#include <algorithm>
#include <set>
#include <tuple>

#include "isa/instruction.h"
#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"
#include "workloads/compiler/cost.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/kernels/elementwise/elementwise_plan.h"

// What an elementwise kernel is expected to take, by its plan.

namespace tpu::compiler {

namespace {

/// Granules that come and go.
double moved_granules(const ElementwisePlan& plan) {
  double sum = 0;
  const double row_tiles = double(plan.row_tiles) * double(plan.parts);
  for (const ElementwisePlan::Input& input : plan.inputs) {
    if (input.is_stream()) {
      const auto all = plan.stream_granules(input.access.shape, plan.row_tiles);
      sum += double(plan.moved_granules(input.part, input.access.shape, all)) * double(plan.parts);
    } else if (input.stays()) {
      sum += double(granules(input.access.shape)) * double(input.sliced ? plan.parts : 1);
    }
  }
  for (const ElementwisePlan::Neighborhood& around : plan.neighborhoods) {
    sum += double(around.units * around.unit_granules());
  }
  for (const ElementwisePlan::Output& output : plan.outputs) {
    sum += output.kind == ElementwisePlan::OutputKind::kStream
               ? double(plan.stream_granules(output.shape, 1)) * row_tiles
               : double(granules(output.shape));
  }
  return sum;
}

/// Registers that are turned in their lanes, and loads, at each register of the space.
struct Moves {
  double turned = 0, loads = 0;
};

Moves moves_of(const ElementwisePlan& plan) {
  Moves moves;
  std::set<std::tuple<int, std::vector<std::int64_t>, std::int64_t>> known;
  for (const ElementwisePlan::Input& input : plan.inputs) {
    if (!input.is_in_neighborhood()) continue;
    std::vector<std::int64_t> others = input.access.shift;
    const std::int64_t lanes = others.back() & (isa::kLanes - 1);
    others.pop_back();
    // Both lane tiles of neighbours are made once.
    if (known.insert({input.neighborhood, others, 0}).second) {
      const std::int64_t step = input.access.step_along(static_cast<int>(others.size()) - 1);
      const std::int64_t above = others.back() & (isa::kSublanes - 1);
      moves.loads += double((above + (isa::kSublanes - 1) * step) / isa::kSublanes + 1);
    }
    if (lanes != 0 && known.insert({input.neighborhood, others, lanes}).second) ++moves.turned;
  }
  return moves;
}

/// Of a kernel: its operations, what moves in registers, and what blocks keep for each other.
double register_cycles(const ExpressionGraph& graph, const ElementwisePlan& plan) {
  double cycles = 0;
  for (const ExpressionNode& node : graph.nodes()) {
    if (graph.is_full(node)) cycles += vector_cost_of(node).cycles;
  }
  const Moves moves = moves_of(plan);
  cycles += moves.turned * kTurnedLanesCycles + moves.loads;
  const double registers = double(plan.row_tiles * plan.lane_tiles * plan.parts);
  double kept = 0;
  for (const ElementwisePlan::Neighborhood& around : plan.neighborhoods) {
    kept += double(around.halo() * around.tiles) * double(ceil_divide(plan.row_tiles, plan.block));
  }
  return cycles * registers + kept * kKeptCycles;
}

}  // namespace

std::optional<double> elementwise_cycles(const hlo::Module& module, const hlo::Computation& fused,
                                         std::size_t operands, const Target& target) {
  try {
    const ExpressionGraph graph(module, fused, fused.name);
    auto pieces = find_elementwise_pieces(graph, operands, target);
    if (!pieces) return std::nullopt;
    double cycles = kKernelCycles;
    for (const ElementwisePiece& piece : *pieces) {
      const double transfers = moved_granules(piece.plan) * isa::kHbmGranuleBytes /
                               (target.hbm_bytes_per_cycle * kMixedTrafficRate);
      cycles += std::max(transfers, register_cycles(piece.graph, piece.plan));
    }
    return cycles;
  } catch (const WorkloadError&) {
    return std::nullopt;  // It is no expression that a kernel makes.
  }
}

}  // namespace tpu::compiler
