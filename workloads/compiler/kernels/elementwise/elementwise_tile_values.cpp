#include "workloads/compiler/kernels/elementwise/elementwise_tile_values.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "workloads/compiler/cost.h"

namespace tpu::compiler {

namespace {

using hlo::HloOpcode;
using Nodes = std::set<int>;

class TileValues {
 public:
  TileValues(const ExpressionGraph& graph, const ElementwisePlan& plan)
      : graph_(graph), plan_(plan) {}

  std::vector<ElementwisePlan::TileValue> find() {
    for (int level = 1; level <= plan_.last_level; ++level) {
      for (int before = 0; before < level; ++before) keep_between(before, level);
    }
    return kept_;
  }

 private:
  std::vector<int> roots_of(int level) const;
  bool is_given(int node, int level) const;
  Nodes computed_at(int level) const;
  void keep_between(int before, int level);
  double cycles_of(int node, const Nodes& among) const;

  const ExpressionGraph& graph_;
  const ElementwisePlan& plan_;
  std::vector<ElementwisePlan::TileValue> kept_;
};

/// What the pass needs of each tile.
std::vector<int> TileValues::roots_of(int level) const {
  std::vector<int> roots;
  for (const ElementwisePlan::Reduction& each : plan_.reductions) {
    const bool is_used = each.along_lanes || each.along_rows;
    if (level == (is_used ? each.level : plan_.last_level)) {
      roots.push_back(graph_.node(each.node).operands.front());
    }
  }
  for (const ElementwisePlan::Output& output : plan_.outputs) {
    const bool is_stream = output.kind == ElementwisePlan::OutputKind::kStream;
    if (is_stream && level == plan_.last_level) roots.push_back(output.node);
  }
  return roots;
}

bool TileValues::is_given(int node, int level) const {
  if (plan_.reduction_of(node) >= 0) return true;
  const auto* row = plan_.row_value_of(node);
  const auto* column = plan_.column_value_of(node, false);
  return (row != nullptr && row->level < level) || (column != nullptr && column->level < level) ||
         std::any_of(kept_.begin(), kept_.end(), [&](const ElementwisePlan::TileValue& each) {
           return each.node == node && each.level < level;
         });
}

/// Values of whole tiles that the pass computes.
Nodes TileValues::computed_at(int level) const {
  Nodes computed;
  std::vector<int> work = roots_of(level);
  while (!work.empty()) {
    const int id = work.back();
    work.pop_back();
    const ExpressionNode& node = graph_.node(id);
    if (node.operands.empty() || is_given(id, level) || !graph_.is_full(node)) continue;
    if (!computed.insert(id).second || joins_lane_tiles(node)) continue;
    work.insert(work.end(), node.operands.begin(), node.operands.end());
  }
  return computed;
}

/// Of the value and of what it alone is made of.
double TileValues::cycles_of(int node, const Nodes& among) const {
  double cycles = 0;
  Nodes seen{node};
  std::vector<int> work{node};
  while (!work.empty()) {
    const int id = work.back();
    work.pop_back();
    cycles += vector_cost_of(graph_.node(id)).cycles;
    for (int operand : graph_.node(id).operands) {
      if (among.count(operand) != 0 && seen.insert(operand).second) work.push_back(operand);
    }
  }
  return cycles;
}

/// Those that both passes compute and that something else of the later one needs; of a mask what it
/// is made of, which has a register.
void TileValues::keep_between(int before, int level) {
  const Nodes now = computed_at(level), then = computed_at(before);
  Nodes both;
  std::set_intersection(now.begin(), now.end(), then.begin(), then.end(),
                        std::inserter(both, both.end()));
  Nodes wanted;
  for (int root : roots_of(level)) {
    if (both.count(root) != 0) wanted.insert(root);
  }
  for (int id : now) {
    if (both.count(id) != 0) continue;
    for (int operand : graph_.node(id).operands) {
      if (both.count(operand) != 0) wanted.insert(operand);
    }
  }
  std::vector<int> work(wanted.begin(), wanted.end());
  while (!work.empty()) {
    const int node = work.back();
    work.pop_back();
    if (cycles_of(node, both) < kLeastKeptCycles) continue;
    if (graph_.node(node).shape.type != hlo::ElementType::kPred) {
      kept_.push_back({node, before, {}});
      continue;
    }
    for (int operand : graph_.node(node).operands) {
      if (both.count(operand) != 0 && wanted.insert(operand).second) work.push_back(operand);
    }
  }
}

}  // namespace

const ElementwisePlan::TileValue* ElementwisePlan::tile_value_of(int node) const {
  const auto found = std::find_if(tile_values.begin(), tile_values.end(),
                                  [node](const TileValue& value) { return value.node == node; });
  return found != tile_values.end() ? &*found : nullptr;
}

std::vector<ElementwisePlan::TileValue> tile_values_of(const ExpressionGraph& graph,
                                                       const ElementwisePlan& plan) {
  return TileValues(graph, plan).find();
}

}  // namespace tpu::compiler
