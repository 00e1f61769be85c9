#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: writes operations in the one form that their kernels take.
///
/// - Dots: a contracted and a free dimension at least on each side; neighbouring ones are one where
///   they would leave lanes or rows of the MXUs empty; reshapes around the dot make it so.
/// - Gathers and scatters of whole rows of a table: by a vector of indices.
/// - Reductions: of pred by and / or as minimum / maximum in f32; of bf16 in f32.
/// - Reshapes of bf16 between rank < 2 and more: in f32 (vectors stand in memory as f32).
///
/// Needs: a verified module without call and fusion in the entry; layouts not assigned yet.
/// Leaves: the same values, sums of bf16 rounded once.
void use_canonical_forms(hlo::Module& module);

}  // namespace tpu::compiler
