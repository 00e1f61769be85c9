#include "workloads/compiler/codegen/dead_values.h"

#include <algorithm>

#include "isa/opcode_table.h"

namespace tpu::compiler {

namespace {

/// Calls `visit` with each value that a node reads.
template <class Visit>
void for_each_read(const Node& node, Visit&& visit) {
  if (node.guard.is_value()) visit(node.guard.payload);
  for (const Source& source : node.sources) {
    if (source.is_value()) visit(source.payload);
  }
  for (const std::uint32_t base : node.base) {
    if (base != 0) visit(base);
  }
  if (node.mask_register != 0) visit(node.mask_register);
}

/// Its result is all that it does.
bool only_computes(const Node& node) {
  const isa::OpcodeInfo& row = isa::info(node.opcode);
  return node.dest != 0 && row.unit == isa::UnitKind::kScalar && row.queue == isa::Queue::kNone &&
         node.opcode != isa::Opcode::kSpop;
}

}  // namespace

void remove_dead_scalars(KernelDraft& draft) {
  std::vector<std::uint32_t> reads(draft.values.size());
  for (const Block& block : draft.blocks) {
    for (const Node& node : block.nodes) {
      for_each_read(node, [&](std::uint32_t value) { ++reads[value]; });
    }
    for (const auto& [variable, value] : block.assigned) ++reads[value];
    if (block.condition.is_value()) ++reads[block.condition.payload];
  }
  // Behind what a node reads it stands: from the last one on each is looked at once.
  for (std::size_t b = draft.blocks.size(); b-- > 0;) {
    std::vector<Node>& nodes = draft.blocks[b].nodes;
    std::vector<bool> is_dead(nodes.size());
    for (std::size_t i = nodes.size(); i-- > 0;) {
      is_dead[i] = only_computes(nodes[i]) && reads[nodes[i].dest] == 0;
      if (is_dead[i]) for_each_read(nodes[i], [&](std::uint32_t value) { --reads[value]; });
    }
    std::size_t next = 0;
    const auto dead = [&](const Node&) { return static_cast<bool>(is_dead[next++]); };
    nodes.erase(std::remove_if(nodes.begin(), nodes.end(), dead), nodes.end());
  }
}

}  // namespace tpu::compiler
