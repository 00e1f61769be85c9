#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: elementwise operations on the transpose of a dot (einsums whose result is in another order
/// than a dot makes, as layers that mix tokens have) are done on the dot, and the transpose comes
/// behind them: so they become a part of its kernel. What is broadcast to the transposed extent is
/// broadcast to that of the dot; other arrays are transposed, which is a matter of their order.
///
/// Needs: a verified module without call and fusion in the entry, dots in the forms that have
/// kernels; layouts not assigned yet.
/// Leaves: the same values. Pass `simplify` removes what nobody reads.
void delay_transposes(hlo::Module& module);

}  // namespace tpu::compiler
