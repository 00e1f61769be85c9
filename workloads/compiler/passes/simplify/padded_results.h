#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: elementwise operations on slices of arrays, whose result is padded to the extent that the
/// arrays have (the gradient of a loss over all words but the last), are done on the whole arrays;
/// a selection by position puts the padding in. So the result is written once, where it belongs.
///
/// Needs: a verified module without call and fusion in the entry; layouts not assigned yet.
/// Leaves: the same values. Pass `simplify` removes what nobody reads.
void pad_operands(hlo::Module& module);

}  // namespace tpu::compiler
