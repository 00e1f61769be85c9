#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "isa/program.h"
#include "workloads/compiler/target.h"

namespace tpu::compiler {

/// How an all-reduce along all dimensions of a slice cuts its buckets: for the cores of a chip, for
/// each dimension.
struct MeshCut {
  std::uint32_t pair = 2;
  /// The dimensions of the slice in the order in which the first core of a chip goes along them:
  /// x and y or y and x, then z where there is one.
  std::vector<std::size_t> along;
  std::vector<std::uint32_t> sides;  ///< Of each of these.

  MeshCut(const Target& target, bool y_first)
      : pair(target.cores_per_chip), along{y_first ? 1U : 0U, y_first ? 0U : 1U} {
    if (target.slice.dimension(2).size > 1) along.push_back(2);
    for (const std::size_t dimension : along) {
      sides.push_back(target.slice.dimension(dimension).size);
    }
  }
  std::uint32_t parts() const {
    std::uint32_t parts = pair;
    for (const std::uint32_t side : sides) parts *= side;
    return parts;
  }
  /// The cores of a chip begin along different dimensions, the first two. Where these are as long
  /// the order is one of registers, else of code.
  std::uint32_t orders() const { return pair > 1 && sides[0] != sides[1] ? pair : 1; }
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
