#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: custom-calls that say something about a value without changing it become copies of it:
/// `Sharding` and Shardy's forms of it (in a module for one device, or where
/// the annotation leaves the array whole), annotations
/// and assertions of XLA's own passes.
///
/// Needs: a verified module.
/// Leaves: custom-calls that somebody's code stands behind; they have no kernel. Throws
/// WorkloadError with the annotation for a module that is still to be partitioned.
void resolve_custom_calls(hlo::Module& module);

/// Pass: such custom-calls of scalars, which are whole wherever they are, are gone: also those in
/// the computations of reductions, which JAX annotates.
void drop_scalar_annotations(hlo::Module& module);

}  // namespace tpu::compiler
