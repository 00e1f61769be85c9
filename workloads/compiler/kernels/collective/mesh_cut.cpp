#include "workloads/compiler/kernels/collective/mesh_cut.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "sim/base/ceil_divide.h"
#include "sim/base/power_of_two.h"
#include "workloads/compiler/kernels/collective/mesh_all_reduce.h"

namespace tpu::compiler {
namespace {

constexpr std::uint32_t kLargestBucket = 4096;  ///< Granules.
constexpr double kStepCycles = 150;             ///< Of the code around a step, about.
/// Up to this much dearer than the ring the mesh is taken: all cores do the same in the same cycles
/// then, and the machine simulates one for all.
constexpr double kAlmost = 1.5;

std::uint64_t vmem_granules(const Target& target) {
  return target.vmem_bytes / isa::kHbmGranuleBytes;
}

/// A bucket of so many granules is in VMEM as often as there are buffers, and arrives once more;
/// the last sum is made in whole registers.
bool fits_vmem(const MeshCut& cut, std::uint64_t granules, const Target& target) {
  const std::uint64_t half = granules / cut.pair;
  const std::uint64_t segment = granules / cut.parts();
  const std::uint64_t arrivals = (cut.pair > 1 ? half : 0) + half - segment;
  const std::uint64_t beyond =
      (kRegisterGranules - segment % kRegisterGranules) % kRegisterGranules;
  return granules <= kLargestBucket &&
         kMeshBuffers * granules + arrivals + beyond <= vmem_granules(target);
}

/// Cycles from one bucket of so many granules to the next: what takes longest of the dimensions one
/// after the other, the exchange between the cores of a chip, and the HBM.
double bucket_cycles(const MeshCut& cut, std::uint32_t granules, const Target& target) {
  const double bytes = static_cast<double>(granules) * isa::kHbmGranuleBytes;
  const double half = bytes / cut.pair;
  const auto ring = [&](std::size_t dimension, double part) {
    const isa::Topology::Dimension& along = target.slice.dimension(dimension);
    if (along.size < 2) return 0.0;
    const double segment = part / along.size / target.link_bytes_per_cycle;
    const double steps = steps_forward(along.size);
    // Out over the even chips and back over the odd ones: two links a step, shared by both ways.
    const bool folds = !along.wraps && along.size > 2;
    const double passage = (folds ? along.size - 1 : steps) / steps * segment;
    const double latency = (folds ? 2 : 1) * target.hop_cycles + kStepCycles;
    // While a part is on the links, the latency of the other one passes.
    const auto granules = static_cast<std::uint32_t>(part / isa::kHbmGranuleBytes / along.size);
    return 2 * steps * std::max(passage, passage / segment_parts(granules, along.size) + latency);
  };
  const auto rings = [&](const std::vector<std::size_t>& along) {
    double cycles = 0, part = half;
    for (const std::size_t dimension : along) {
      cycles += ring(dimension, part);
      part /= target.slice.dimension(dimension).size;
    }
    return cycles;
  };
  double cycles = rings(cut.along);
  if (cut.orders() > 1) {
    std::vector<std::size_t> other = cut.along;
    std::swap(other[0], other[1]);
    cycles = std::max(cycles, rings(other));
  }
  if (cut.pair > 1) {
    const double passage = half / target.link_bytes_per_cycle;
    cycles = std::max(cycles, 2 * (target.local_hop_cycles + passage + kStepCycles));
  }
  return std::max(cycles, 2 * bytes / target.hbm_bytes_per_cycle);
}

double ring_cycles(const AllReduceShape& shape, const Target& target) {
  const double chunk = static_cast<double>(shape.chunk_granules) * isa::kHbmGranuleBytes;
  // From core to core of a chip, then to the next chip.
  const double hop = (target.hop_cycles + (target.cores_per_chip - 1) * target.local_hop_cycles) /
                     static_cast<double>(target.cores_per_chip);
  const auto streams = shape.streams / 2;  // Of a direction.
  const double step = hop + streams * chunk / target.link_bytes_per_cycle;
  const double bytes = static_cast<double>(shape.granules) * isa::kHbmGranuleBytes;
  return std::max(shape.rounds * (2.0 * target.cores - 2) * (step + kStepCycles),
                  2 * bytes / target.hbm_bytes_per_cycle);
}

/// Granules of a bucket when so many are to hold a range: every part has the same, in whole
/// registers where it has more than one.
std::uint32_t bucket_granules(const MeshCut& cut, std::uint64_t granules, std::uint64_t buckets) {
  const std::uint64_t unit = buckets * cut.parts();
  std::uint64_t part = ceil_divide(granules, unit);
  if (part > kRegisterGranules) {
    part = round_up(part, kRegisterGranules);
  }
  return static_cast<std::uint32_t>(part * cut.parts());
}

/// The cut of a range that takes least, and its cycles. Small buckets lose time at each step, large
/// ones when the first and the last go alone.
std::pair<MeshShape, double> cheapest_shape(bool y_first, std::uint64_t granules,
                                            const Target& target) {
  constexpr std::uint64_t kMostTried = 64;
  const MeshCut cut(target, y_first);
  std::pair<MeshShape, double> best{{}, std::numeric_limits<double>::infinity()};
  if (!fits_vmem(cut, cut.parts(), target)) return best;
  const std::uint64_t most =
      std::min<std::uint64_t>(kLargestBucket, vmem_granules(target) / kMeshBuffers);
  const std::uint64_t fewest = ceil_divide(granules, most);
  for (std::uint64_t buckets = fewest; buckets < fewest + kMostTried; ++buckets) {
    MeshShape shape;
    shape.y_first = y_first;
    shape.bucket_granules = bucket_granules(cut, granules, buckets);
    if (!fits_vmem(cut, shape.bucket_granules, target)) continue;
    shape.buckets =
        static_cast<std::uint32_t>((granules + shape.bucket_granules - 1) / shape.bucket_granules);
    const double cycles = (shape.buckets + 2) * bucket_cycles(cut, shape.bucket_granules, target);
    if (cycles < best.second) best = {shape, cycles};
    if (shape.bucket_granules == cut.parts()) break;
  }
  return best;
}

/// On a side that is longer, or that wraps, whole buckets may go faster than on the other.
std::pair<MeshShape, double> cheapest_shape(std::uint64_t granules, const Target& target) {
  const auto along_x = cheapest_shape(false, granules, target);
  const auto along_y = cheapest_shape(true, granules, target);
  return along_y.second < along_x.second ? along_y : along_x;
}

/// All cores of a slice whose sides are powers of two.
bool goes_along_the_mesh(const Target& target) {
  if (target.cores != target.slice.chips() * target.cores_per_chip || target.cores < 2 ||
      target.cores_per_chip > 2) {
    return false;
  }
  for (const std::size_t dimension : {0, 1, 2}) {
    const std::uint32_t side = target.slice.dimension(dimension).size;
    if (!is_power_of_two(side) || side >= 1U << kMeshFieldBits) return false;
  }
  return true;
}

}  // namespace

MeshShape cheapest_mesh_shape(std::uint64_t granules, const Target& target) {
  return goes_along_the_mesh(target) ? cheapest_shape(granules, target).first : MeshShape();
}

double all_reduce_cycles(const AllReduceShape& shape, const Target& target) {
  if (shape.mesh.buckets == 0) return ring_cycles(shape, target);
  const MeshCut cut(target, shape.mesh.y_first);
  return (shape.mesh.buckets + 2) * bucket_cycles(cut, shape.mesh.bucket_granules, target);
}

MeshShape mesh_shape(const AllReduceShape& ring_shape, const Target& target, const Ring& ring) {
  if (!ring.groups.empty() || !goes_along_the_mesh(target)) return {};
  const auto [shape, cycles] = cheapest_shape(ring_shape.used_granules, target);
  return cycles < kAlmost * ring_cycles(ring_shape, target) ? shape : MeshShape();
}

}  // namespace tpu::compiler
