#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: elementwise operations on rearranged elements (reshapes and transposes) are done on the
/// elements as they stood before, or as they stand behind, where fewer bytes are rearranged then:
/// a transpose meets its inverse behind the operations and both vanish, and sums over all elements
/// do not ask for their order. Sums over some dimensions become such over dimensions of the other
/// array, of which the results are rearranged.
///
/// Needs: a verified module without call and fusion in the entry; layouts not assigned yet.
/// Leaves: the same values, but for the order in which sums round. Pass `simplify` removes what
/// nobody reads.
void move_rearrangements(hlo::Module& module);

}  // namespace tpu::compiler
