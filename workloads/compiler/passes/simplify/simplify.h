#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: calls, fusions and tuples inside the entry are dissolved: the bodies of `call` and
/// `fusion` stand in the entry computation.
///
/// Needs: a verified module.
/// Leaves: an entry without call and fusion; `while` and `conditional` keep their computations.
void flatten_calls(hlo::Module& module);
/// The same in the bodies of loops and branches, too.
void flatten_calls_everywhere(hlo::Module& module);

/// Pass: removes what needs no kernel: dead and repeated instructions, arithmetic on constants (and
/// on broadcasts of constants), conversions to a type and back, chains of reshapes, transposes and
/// broadcasts, all-reduces over one replica, transposes in front of a dot (they become other
/// contracting dimensions), behind it (its sides change places) and behind broadcasts (what they
/// repeat is turned), slices of what broadcasts repeat.
///
/// Needs: a verified module without call and fusion in the entry; layouts not assigned yet.
/// Leaves: the same values but for the rounding of folded constants; no instruction without users
/// but parameters and those with effects; at most one of equal instructions.
void simplify(hlo::Module& module);

/// Pass: reshapes, transposes, copies and slices that move no element in memory become `bitcast`.
///
/// Needs: layouts.
/// Leaves: every remaining reshape, transpose and copy needs a kernel; reshapes have row-major
/// order on both sides (copies before and behind them make it so).
void find_bitcasts(hlo::Module& module);

/// True when both arrays have the same elements in the same order and their words lie at the same
/// places (row-major order of the dimensions on both sides is what a reshape preserves).
bool same_bytes_after_reshape(const hlo::Shape& from, const hlo::Shape& to);

}  // namespace tpu::compiler
