#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: arrays with a dimension of 0 hold nothing, so nothing computes them: they become constants
/// without a value. What other operations make of such operands is known: sums of nothing are the
/// initial value, products with nothing contracted are 0, pads their filling, updates by nothing
/// the old value. Indices without coordinates, as of an access to a whole array, are zeros.
///
/// Needs: a verified module without call and fusion in the entry.
/// Leaves: no operation but parameters, control flow, tuples and those with effects that has an
/// array without elements as result, or one among its operands.
void replace_empty_arrays(hlo::Module& module);

}  // namespace tpu::compiler
