#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: elementwise operations, broadcasts and reductions are computed without dimensions of
/// extent 1, which would cost a tile of 8 or 128 each; reshapes stand where an array that has such
/// dimensions (a parameter, an operand of a dot or convolution, a result) meets one that has not.
/// Elementwise operations whose neighbours all have these dimensions keep them. Dots and transposes
/// are computed without them, too, but for a dimension that is the only free or contracted one of
/// its side.
///
/// Needs: a verified module without call and fusion in the entry; layouts not assigned yet.
/// Leaves: the same values; reductions over extents greater than 1 only, where the initial value is
/// neutral. Pass `simplify` removes the reshapes that meet.
void drop_unit_dimensions(hlo::Module& module);

}  // namespace tpu::compiler
