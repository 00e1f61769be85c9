#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "workloads/compiler/passes/graph_editor.h"

namespace tpu::compiler {

/// For passes that write an operation as a loop: a `while` that runs `trips` times over values.
/// `body` appends one iteration and gives the new values, of the same shapes; the counter is an s32
/// that begins at 0. What the iterations read of the outside has to be among the values. The
/// instructions carry the name and metadata of `replaced`, for which the editor stands.
std::vector<GraphEditor::Id> counted_loop(
    hlo::Module& module, GraphEditor& edit, const hlo::HloInstruction& replaced, std::int64_t trips,
    const std::vector<GraphEditor::Id>& initial,
    const std::function<std::vector<GraphEditor::Id>(GraphEditor& body, GraphEditor::Id counter,
                                                     const std::vector<GraphEditor::Id>& values)>&
        body);

}  // namespace tpu::compiler
