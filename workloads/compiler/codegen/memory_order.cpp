#include "workloads/compiler/codegen/memory_order.h"

#include <algorithm>

#include "isa/opcode_table.h"

namespace tpu::compiler {

using isa::Opcode;

namespace {

/// Groups of eight rows that an access touches.
struct Groups {
  std::array<std::int32_t, isa::kSublanes> group{};
  std::size_t count = 0;
};

Groups groups_of(const Node& node) {
  Groups groups;
  for (std::int32_t sublane = 0; sublane < isa::kSublanes; ++sublane) {
    if (node.mask_register == 0 && (node.address.sublane_mask >> sublane & 1) == 0) continue;
    const std::int32_t row =
        node.opcode == Opcode::kVldSshfl
            ? static_cast<std::int32_t>(node.address.pattern >> (3 * sublane) & 7)
            : sublane * node.address.sublane_stride;
    const std::int32_t group = (node.address.offset + row) >> 3;
    if (groups.count == 0 || groups.group[groups.count - 1] != group) {
      groups.group[groups.count++] = group;
    }
  }
  return groups;
}

bool is_vmem_access(const Node& node) { return isa::info(node.opcode).address == 'A'; }
bool is_vmem_load(const Node& node) { return is_vmem_access(node) && node.dest != 0; }
/// DMAs, waits, flags and marks keep their order.
bool is_ordered(const Node& node) {
  const isa::UnitKind unit = isa::info(node.opcode).unit;
  return unit == isa::UnitKind::kDma || unit == isa::UnitKind::kSync ||
         unit == isa::UnitKind::kTrace;
}
bool is_dma(const Node& node) { return isa::info(node.opcode).unit == isa::UnitKind::kDma; }
bool dma_reads_vmem(const Node& node) {
  return node.opcode == Opcode::kDmaVmemToHbm || node.reads_vmem;
}

}  // namespace

void MemoryOrder::Access::merge(const Access& other) {
  last_load = std::max(last_load, other.last_load);
  last_store = std::max(last_store, other.last_store);
}

void MemoryOrder::begin_block() { *this = MemoryOrder(); }

bool MemoryOrder::overlap(const Node& a, const Node& b) {
  if (a.region != b.region) return false;
  if (!is_vmem_access(a) || !is_vmem_access(b) || a.base != b.base) return true;
  const Groups x = groups_of(a);
  const Groups y = groups_of(b);
  for (std::size_t i = 0; i < x.count; ++i) {
    for (std::size_t j = 0; j < y.count; ++j) {
      if (x.group[i] == y.group[j]) return true;
    }
  }
  return false;
}

/// Latest accesses that may touch what the node touches.
MemoryOrder::Access MemoryOrder::earlier(const Node& node) const {
  Access result;
  const auto found = regions_.find(node.region);
  if (found == regions_.end()) return result;
  if (!is_vmem_access(node)) return found->second.all;
  for (const Base& base : found->second.bases) {
    if (base.registers != node.base) {
      result.merge(base.all);
      continue;
    }
    const Groups groups = groups_of(node);
    for (std::size_t i = 0; i < groups.count; ++i) {
      const auto group = base.groups.find(groups.group[i]);
      if (group != base.groups.end()) result.merge(group->second);
    }
  }
  return result;
}

std::int32_t MemoryOrder::earliest(const Node& node) const {
  std::int32_t cycle = 0;
  if (is_vmem_access(node)) {
    const Access before = earlier(node);
    cycle = std::max(floor_, before.last_store + 1);
    if (!is_vmem_load(node)) cycle = std::max(cycle, before.last_load);
  } else if (is_dma(node) && node.region != 0) {
    const Access before = earlier(node);
    cycle = std::max(floor_, before.last_store + 1);
    if (!dma_reads_vmem(node)) cycle = std::max(cycle, before.last_load + 1);
  }
  if (is_ordered(node)) cycle = std::max(cycle, last_ordered_ + 1);
  if (node.opcode == Opcode::kDma || node.opcode == Opcode::kSld) {
    cycle = std::max(cycle, last_smem_store_ + 1);
  }
  if (node.opcode == Opcode::kSst) {
    cycle = std::max({cycle, last_smem_store_ + 1, last_smem_read_ + 1});
  }
  return cycle;
}

void MemoryOrder::place(const Node& node, std::int32_t cycle) {
  if (is_ordered(node)) last_ordered_ = std::max(last_ordered_, cycle);
  if (node.opcode == Opcode::kDmaDoneWait || node.opcode == Opcode::kVwaitGeTrace) {
    floor_ = std::max(floor_, cycle + 1);
  }
  if (node.opcode == Opcode::kSst) last_smem_store_ = std::max(last_smem_store_, cycle);
  if (node.opcode == Opcode::kSld || node.opcode == Opcode::kDma) {
    last_smem_read_ = std::max(last_smem_read_, cycle);
  }
  if (node.region == 0) return;
  Region& region = regions_[node.region];
  Access access;
  const bool loads = is_dma(node) ? dma_reads_vmem(node) : is_vmem_load(node);
  (loads ? access.last_load : access.last_store) = cycle;
  region.all.merge(access);
  if (!is_vmem_access(node)) return;
  auto base = std::find_if(region.bases.begin(), region.bases.end(),
                           [&](const Base& each) { return each.registers == node.base; });
  if (base == region.bases.end()) {
    region.bases.push_back({node.base, {}, {}});
    base = region.bases.end() - 1;
  }
  base->all.merge(access);
  const Groups groups = groups_of(node);
  for (std::size_t i = 0; i < groups.count; ++i) base->groups[groups.group[i]].merge(access);
}

}  // namespace tpu::compiler
