#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "workloads/compiler/passes/graph_editor.h"

namespace tpu::compiler {

using LoopCondition = std::function<GraphEditor::Id(GraphEditor& test, GraphEditor::Id first)>;
using LoopBody = std::function<std::vector<GraphEditor::Id>(
    GraphEditor& body, const std::vector<GraphEditor::Id>& values)>;

/// For passes that write an operation as a loop: a `while` over values that goes on as long as the
/// condition holds of the first one. `body` appends one iteration and gives the new values, of the
/// same shapes. What the iterations read of the outside has to be among the values. Returns the
/// values behind the first. The instructions carry the name and metadata of `replaced`, for which
/// the editor stands.
std::vector<GraphEditor::Id> loop_while(hlo::Module& module, GraphEditor& edit,
                                        const hlo::HloInstruction& replaced,
                                        const std::vector<GraphEditor::Id>& initial,
                                        const LoopCondition& goes_on, const LoopBody& body);

/// Such a loop that runs `trips` times; its counter is an s32 that begins at 0.
std::vector<GraphEditor::Id> counted_loop(
    hlo::Module& module, GraphEditor& edit, const hlo::HloInstruction& replaced, std::int64_t trips,
    const std::vector<GraphEditor::Id>& initial,
    const std::function<std::vector<GraphEditor::Id>(GraphEditor& body, GraphEditor::Id counter,
                                                     const std::vector<GraphEditor::Id>& values)>&
        body);

}  // namespace tpu::compiler
