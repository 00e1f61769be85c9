#pragma once

#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Values are copied to another order in the narrower of two types: what converts a copied value to
/// a narrower type converts it before the copy, in the kernel that makes it, and what sums it up to
/// a vector reads it there, too; a value that is widened only for its copy is widened behind it.
/// Only where the copy takes no longer so.
void copy_narrow_values(hlo::Computation& computation, const Target& target);

}  // namespace tpu::compiler
