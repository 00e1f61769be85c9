#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: gathers along one dimension, and scatters that add there, whose indices the program states
/// itself (a constant, or computed from iotas) are written as slices, repetitions and reversals
/// where the indices are regular: images resized to their nearest neighbours, reflected borders,
/// every other row. The kernels for indices that only the data know move a row per index.
/// Likewise one window whose place the program states (x[:, :8], x.at[:, :8].set(y) in JAX): a
/// slice, or what replaces a part of an array, but for whole rows, whose kernel works in place.
///
/// Indices are worked out when compiling, up to 131072 of them, rounded as the program would.
/// Regular are up to 16 pieces of evenly spaced indices, each of which may be repeated, and frames
/// of equal length at equal distances (a signal's spectrogram): parts as long as the distance, each
/// frame up to 16 of them.
///
/// Needs: no calls; layouts not assigned yet. Before rewrite_indexed_access.
/// Leaves: gathers, scatters, slices and updates whose indices are not known, lie outside or have
/// no such order.
void rewrite_regular_gathers(hlo::Module& module);

}  // namespace tpu::compiler
