#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "workloads/compiler/passes/graph_editor.h"

namespace tpu::compiler {

/// Neighbouring elements of an array, as those of another array that stand `stride` apart there.
struct ElementRun {
  std::int64_t extent = 1;
  std::int64_t stride = 1;
};

/// An array as a rearrangement of another one, as reshapes and transposes make it: runs from major
/// to minor. Nothing but the order of elements is stated, not the extents of either array.
using ElementOrder = std::vector<ElementRun>;

/// The same elements in the same order.
ElementOrder same_order(std::int64_t elements);

bool is_same_order(const ElementOrder& order);

/// Runs of one element left out, runs that continue each other as one.
ElementOrder joined_runs(const ElementOrder& order);

/// Part of a run, inside of one dimension of each array.
struct ElementPiece {
  std::int64_t extent, stride;
  std::size_t dimension;  ///< Of the rearranged array.
  std::size_t source;     ///< Dimension of the other array.
};

/// An order as pieces, from major to minor; none where a dimension of either array cuts a run at
/// no whole element of it.
std::optional<std::vector<ElementPiece>> pieces_of(const ElementOrder& order,
                                                   const std::vector<std::int64_t>& extents,
                                                   const std::vector<std::int64_t>& from);

/// What a transpose makes of the array of these extents.
std::optional<ElementOrder> transposed(const ElementOrder& order,
                                       const std::vector<std::int64_t>& extents,
                                       const std::vector<std::int64_t>& permutation);

/// The other array, as a rearrangement of this one.
ElementOrder inverse(const ElementOrder& order);

/// `outer` of what `inner` makes; none where their runs do not fit each other.
std::optional<ElementOrder> composed(const ElementOrder& outer, const ElementOrder& inner);

/// The value rearranged: a reshape, a transpose and a reshape at most.
hlo::InstructionId rearrange(GraphEditor& editor, hlo::InstructionId value,
                             const ElementOrder& order, const std::vector<std::int64_t>& extents);

}  // namespace tpu::compiler
