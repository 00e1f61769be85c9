#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "workloads/compiler/passes/simplify/element_orders.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// An array that another one is a rearrangement of, or that it is computed of element by element,
/// and of which one dimension was split: `size` elements, which are a dimension of the other array,
/// stand `inner` apart, and that `parts` times.
struct WholeArray {
  hlo::InstructionId source = -1;
  bool is_computed = false;             ///< The other array is computed of it, not just rearranged.
  std::vector<std::int64_t> extents;    ///< The source's.
  ElementOrder order;                   ///< The other array in terms of it.
  std::size_t dimension = 0;            ///< That was split.
  std::int64_t before = 1, behind = 1;  ///< Elements of the dimensions around it.
  std::int64_t parts = 1, size = 1, inner = 1;

  /// The other array's dimensions, from major to minor, in pieces of those of `split(size)`: each
  /// with its stride inside of that one.
  std::vector<ElementPiece> pieces;

  bool is_last() const { return dimension + 1 == extents.size(); }
  /// With a dimension of `count` in place of the split one's part.
  std::array<std::int64_t, 5> split(std::int64_t count) const {
    return {before, parts, count, inner, behind};
  }
};

/// The nearest such array for a dimension of a value.
std::optional<WholeArray> whole_array_of(const hlo::Computation& computation,
                                         hlo::InstructionId value, std::int64_t dimension);

}  // namespace tpu::compiler
