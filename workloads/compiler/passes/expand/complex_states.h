#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// What loops carry of complex numbers becomes real and imaginary parts, an array each: what
/// iterations write of an array, or read of it, then is a part of each. A result of the entry with
/// numbers of 64 bits that is another operation's tuple becomes a tuple of its elements, which a
/// host has in another form.
/// Needs: complex numbers (before hold_in_words), no layouts.
/// Leaves: loops whose state is no tuple where it begins or an iteration ends, or is used whole.
void split_complex_states(hlo::Module& module);

}  // namespace tpu::compiler
