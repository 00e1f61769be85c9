#include "workloads/compiler/passes/expand/matrices.h"

namespace tpu::compiler {

GraphEditor::Id turned(GraphEditor& edit, GraphEditor::Id matrix) {
  GraphEditor::Extents order;
  const auto rank = static_cast<std::int64_t>(edit.dimensions(matrix).size());
  for (std::int64_t d = 0; d < rank; ++d) order.push_back(d);
  std::swap(order[static_cast<std::size_t>(rank - 1)], order[static_cast<std::size_t>(rank - 2)]);
  return edit.transpose(matrix, order);
}

}  // namespace tpu::compiler
