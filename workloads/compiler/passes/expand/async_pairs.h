#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: operations that are split into a start and a done (all-reduce, all-gather,
/// collective-permute, copy, and any other by async-start) become whole again, where they start:
/// a core runs one kernel after the other, so nothing happens between the two.
///
/// Needs: a verified module. Leaves: one without asynchronous operations; async-start becomes a
/// call of its computation.
void join_async_pairs(hlo::Module& module);

}  // namespace tpu::compiler
