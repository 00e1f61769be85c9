#pragma once

#include <cstdint>

#include "isa/program.h"
#include "workloads/compiler/target.h"

namespace tpu::compiler {

/// How an all-reduce along both dimensions of a mesh cuts its buckets: for the cores of a chip, for
/// each dimension.
struct MeshCut {
  std::uint32_t pair = 2, first = 2, second = 2;
  bool y_first = false;

  MeshCut(const Target& target, bool along_y)
      : pair(target.cores_per_chip),
        first(target.slice.dimension(along_y ? 1 : 0).size),
        second(target.slice.dimension(along_y ? 0 : 1).size),
        y_first(along_y) {}
  std::uint32_t parts() const { return pair * first * second; }
  /// The cores of a chip begin along different dimensions. Where these are as long the order is one
  /// of registers, else of code.
  std::uint32_t orders() const { return pair > 1 && first != second ? pair : 1; }
};

/// Steps of a ring whose segments come to their owner from both sides: the farther side's, and the
/// nearer one's.
inline std::uint32_t steps_forward(std::uint32_t members) { return members / 2; }
inline std::uint32_t steps_backward(std::uint32_t members) { return members - 1 - members / 2; }

/// A segment that fills so many registers twice travels as two parts: one is on its links while the
/// other one's latency passes and its sum is made.
constexpr std::uint32_t kSmallestPartRegisters = 8;

constexpr std::uint32_t kMeshBuffers = 3;  ///< Being exchanged, summed and stored.
/// Granules that the vector unit adds at once.
constexpr std::uint32_t kRegisterGranules =
    isa::kSublanes * isa::kVmemRowBytes / isa::kHbmGranuleBytes;
/// The parts of a segment of so many granules on a ring of so many members.
inline std::uint32_t segment_parts(std::uint32_t granules, std::uint32_t members) {
  const std::uint32_t smallest = kSmallestPartRegisters * kRegisterGranules;
  return members > 2 && granules >= 2 * smallest && granules % (2 * kRegisterGranules) == 0 ? 2 : 1;
}
constexpr int kMeshFieldBits = 10;  ///< For a place on a side.

}  // namespace tpu::compiler
