#pragma once

#include <vector>

#include "workloads/compiler/ir/dimension_order.h"
#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Expressions over images of so few features and examples that the orders of convolutions fill
/// their tiles with padding (the loss of a detector, a mask of one feature) are parted from the
/// convolutions that make or read them by reshapes to the same extents, so that the search for
/// orders may give them one of their own, where what that spares is more than copies take. Where
/// what lies alike has an order that is `asked` for, or one that an operation needs, it is left.
/// Returns the reshapes, which are appended.
std::vector<hlo::InstructionId> part_padded_images(hlo::Computation& computation,
                                                   const std::vector<DimensionOrder>& asked,
                                                   const Target& target);

/// Each of the reshapes with a layout becomes a copy, or nothing where both sides lie alike.
void join_parted_images(hlo::Computation& computation,
                        const std::vector<hlo::InstructionId>& reshapes);

}  // namespace tpu::compiler
