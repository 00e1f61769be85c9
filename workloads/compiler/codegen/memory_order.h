#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "workloads/compiler/codegen/block.h"

namespace tpu::compiler {

/// When the memory accesses of a block have been placed, and so from when on later ones that touch
/// the same memory may follow. A load sees the stores of the bundles before its own; a store may
/// share the bundle of a load before it.
///
/// VMEM is known by region, pair of base registers and groups of eight rows: accesses of one region
/// with different bases are taken to overlap. SMEM words keep the order of the program.
class MemoryOrder {
 public:
  void begin_block();

  /// First cycle for a load, store, DMA or SMEM access, given what was placed.
  std::int32_t earliest(const Node& node) const;
  /// First cycle of VMEM accesses after the latest wait.
  std::int32_t floor() const { return floor_; }
  void place(const Node& node, std::int32_t cycle);
  /// Whether two VMEM accesses can touch the same row.
  static bool overlap(const Node& a, const Node& b);

 private:
  static constexpr std::int32_t kNever = -1;
  struct Access {
    std::int32_t last_load = kNever;
    std::int32_t last_store = kNever;
    void merge(const Access& other);
  };
  struct Base {
    std::array<std::uint32_t, 2> registers{};
    Access all;
    std::unordered_map<std::int32_t, Access> groups;
  };
  struct Region {
    Access all;
    std::vector<Base> bases;
  };
  Access earlier(const Node& node) const;

  std::unordered_map<std::uint32_t, Region> regions_;
  std::int32_t floor_ = 0;
  std::int32_t last_smem_store_ = kNever;
  std::int32_t last_smem_read_ = kNever;
  std::int32_t last_ordered_ = kNever;
};

}  // namespace tpu::compiler
