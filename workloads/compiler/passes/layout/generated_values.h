#pragma once

#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// What operations make of scalars and of numbers of places alone (random bits, masks of them) may
/// be made in any order. Where the order of what reads it is mostly padding (a mask of a few
/// examples and features, in the order of a convolution) it is made in the densest one and copied,
/// if that takes less. Needs layouts.
void generate_in_dense_orders(hlo::Computation& computation, const Target& target);

}  // namespace tpu::compiler
