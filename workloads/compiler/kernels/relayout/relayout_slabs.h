#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "workloads/compiler/kernels/lowering.h"
#include "workloads/compiler/kernels/refusal.h"
#include "workloads/compiler/kernels/relayout/relayout_mover.h"

namespace tpu::compiler {

/// An array that a relayout reads or writes.
struct SlabArray {
  int operand = 0;
  hlo::Shape shape;
  int dimension = -1;  ///< Physical dimension that is cut into slabs; -1: the array stays whole.
  /// Another one, cut into pieces of a tile each: slabs are worked on piece by piece. -1: none.
  int outer_dimension = -1;
  /// What an index of the cut dimension is of `extent`: arrays that a reshape joins have different
  /// numbers of rows for the same elements.
  std::int64_t of_index = 1;
  bool stays_packed = false;  ///< The body takes a packed array as it is.
  /// Where the first slab begins, along the cut dimension: whole tiles.
  std::int64_t begin = 0;
  /// Elements that a slab of this array has beside those of `extent`; less than zero: that it has
  /// not.
  std::int64_t more = 0;
  /// Elements from the begin of a slab to that of the next one, whole tiles; less than zero:
  /// backwards. Nothing: those of a slab of `extent`.
  std::optional<std::int64_t> advance = std::nullopt;
  /// A vector whose slabs begin anywhere in its tiles: each is the tiles that hold its elements,
  /// and a result's next one goes on with the tile that the last one began.
  bool is_line = false;
};

/// What happens to a slab of each source and of the result, in VMEM. Along the cut dimension they
/// have the slab's extent.
using SlabBody = std::function<void(ElementMover& mover, const std::vector<TileArray>& sources,
                                    const TileArray& target)>;

/// VMEM rows that the body takes beside such arrays.
using ScratchRows =
    std::function<std::int64_t(const std::vector<TileArray>& sources, const TileArray& target)>;

/// How a kernel cuts its arrays into slabs.
struct SlabPlan {
  KernelPlan kernel;
  /// Of the time that the memory takes, what the work waits for.
  double exposed = 0;
  double granules = 0;  ///< That pass between HBM and VMEM.

  /// What the memory takes, and what the work waits for, as granules.
  double waited() const { return granules * (1 + exposed); }
};

/// Of several plans the first of those that wait least.
class BestSlabs {
 public:
  void offer(std::optional<SlabPlan> plan) {
    if (plan && (!best_ || plan->waited() < best_->waited())) best_ = std::move(plan);
  }
  const std::optional<SlabPlan>& best() const { return best_; }

 private:
  std::optional<SlabPlan> best_;
};

/// A kernel that brings slabs of its sources into VMEM, works on them and writes the slab of the
/// result, the next slab's DMAs under way meanwhile. Packed arrays are 32 bits wide while they are
/// worked on, where they do not stay packed. `extent`: of the cut dimension in units, the same in
/// all arrays that have it; `outer_extent`: of the outer one; `scratch`: none where it is not
/// given. Nothing when no slab fits. `chip` outlives the plan.
std::optional<SlabPlan> plan_slabs(const std::string& name, const std::vector<SlabArray>& sources,
                                   const SlabArray& target, std::int64_t extent,
                                   const SlabBody& body, const Target& chip,
                                   std::int64_t outer_extent = 1, const ScratchRows& scratch = {});

/// Slabs of the result that are made alike: each array's slab follows that of the one before.
struct SlabStretch {
  std::vector<SlabArray> sources;
  SlabArray target;
  std::int64_t extent = 1;  ///< Of the cut dimension.
  std::int64_t slab = 1;    ///< Of each but the last.
  SlabBody body;
};

/// A kernel of several stretches, one behind the other. Nothing where the slabs of one do not fit.
std::optional<SlabPlan> plan_stretches(const std::string& name,
                                       const std::vector<SlabStretch>& stretches,
                                       const Target& chip);

/// Extents as tiles lie in memory: rank 0 and 1 as rows of 128 lanes.
std::vector<std::int64_t> tiled_extents(const hlo::Shape& shape);

}  // namespace tpu::compiler
