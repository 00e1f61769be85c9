#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "workloads/compiler/passes/graph_editor.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// What elementwise operations make of arrays that are spread over a space: none of it stands in
/// memory.
struct SpreadValue {
  std::vector<hlo::InstructionId> operations;  ///< Operands first.
  std::vector<hlo::InstructionId> leaves;      ///< Broadcasts and iotas.
};

/// Operations that stand beside each other in one kernel, at most.
constexpr std::size_t kMostOperations = 320;
/// None where an array covers the space, or for more operations.
std::optional<SpreadValue> spread_value(const hlo::Computation& computation, hlo::InstructionId id);

/// The same of other leaves, over these extents.
hlo::InstructionId make_again(
    GraphEditor& edit, const hlo::Computation& computation, const SpreadValue& value,
    const GraphEditor::Extents& extents,
    const std::function<hlo::InstructionId(hlo::InstructionId leaf)>& make_leaf);

}  // namespace tpu::compiler
