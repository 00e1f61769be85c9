#pragma once

#include <cstddef>
#include <optional>

#include "workloads/compiler/passes/graph_editor.h"
#include "workloads/compiler/target.h"

namespace tpu::compiler {

/// The spatial dimension of a convolution whose steps split_in_phases() takes out to fill the rows
/// of the matrix unit ("space to depth"). With the features in the lanes each position of the
/// window is a step of that unit that uses as many of its rows as there are features, 3 of 128 at
/// the first layer of most image networks; with the pixels of a stride of two among the features it
/// is four times as many, and about a quarter of the positions.
///
/// It is the dimension that saves the matrix unit most, where that is at least twice what the
/// rearranged input takes on its way from HBM and back; of a convolution without groups, with its
/// batch in the rows of tiles, forward or the gradient of a kernel.
std::optional<std::size_t> phases_that_fill_rows(const GraphEditor& edit,
                                                 const hlo::HloInstruction& convolution,
                                                 const Target& target);

}  // namespace tpu::compiler
