#pragma once

#include <cstdint>

#include "workloads/compiler/kernels/lowering.h"
#include "workloads/compiler/kernels/tiles/index.h"

namespace tpu::compiler {

/// Elements of a tile of a rank-1 array, and its granules.
constexpr std::int64_t kIndexTile = 1024, kIndexTileGranules = 4;

/// Two tiles of indices where SMEM has room for half of one beside them.
std::int64_t indices_at_once(const Target& target);

/// Runs the body `count` times; once without a loop.
void repeat(KernelBuilder& builder, std::int64_t count, const std::function<void(Index)>& body);

/// Brings a vector of indices into SMEM, chunk by chunk.
class IndexWords {
 public:
  IndexWords(KernelBuilder& builder, SReg hbm, std::int64_t count, std::int64_t chunk);

  void load(Index chunk);
  /// Loads each chunk and hands it on with the number of its indices.
  void for_each_chunk(const std::function<void(Index chunk, std::int64_t indices)>& body);
  /// Whether it is one of fewer indices, behind the whole ones.
  bool is_last(Index chunk) const { return chunk.is_constant() && chunk.offset == count_ / chunk_; }
  /// Index number `i` of those loaded.
  SReg get(Index i);
  /// The row of a table that index number `i` names: HLO clamps those of a gather.
  SReg clamped(Index i, std::int64_t table_rows);

 private:
  KernelBuilder& builder_;
  SReg hbm_;
  std::int64_t count_, chunk_;
  std::uint32_t words_, flag_;
};

}  // namespace tpu::compiler
