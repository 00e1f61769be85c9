#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Whether elementwise kernels can read the slice where it stands in its array.
bool may_read_in_place(const hlo::Computation& computation, hlo::InstructionId slice);

/// Pass: fusions without a product that read a slice of whole tiles over their own extent (gates of
/// an LSTM, queries, keys and values, halves of a rotation) read the array instead, with the slice
/// inside: their DMAs step over what is cut off, or not taken by a step outside of the tiles.
/// Between slice and fusion may be another name, with other dimensions of one outside of the tiles.
/// A slice that nothing else reads is no kernel.
/// Long vectors are read from inside of a row of lanes on as well.
///
/// Needs: fuse. Leaves: slices of parameters inside of fusions; the same values.
void read_slices_in_place(hlo::Module& module);

}  // namespace tpu::compiler
