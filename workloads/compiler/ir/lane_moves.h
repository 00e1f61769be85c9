#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Whether two arrays lie in the same tiles: the lanes of a single one are all that they differ in,
/// or nothing. Element by element they are one walk through the tiles; what the narrower one has
/// in the lanes behind its own is anything.
bool lie_in_same_tiles(const hlo::Shape& a, const hlo::Shape& b);

/// Whether it is a slice, pad or concatenation along the lanes of a single tile: a kernel that goes
/// through the tiles turns registers in their lanes, and selects.
bool moves_lanes(const hlo::Computation& computation, const hlo::HloInstruction& instruction);

}  // namespace tpu::compiler
