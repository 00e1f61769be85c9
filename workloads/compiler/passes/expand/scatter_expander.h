#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Scatters that no kernel knows (of several arrays, by a computation of their own, that combine
/// u64 or complex numbers) as scatters that only replace: rows are gathered, the computation is
/// applied to them and their updates, the results are put back. Updates of one place are applied
/// one after the other, in their order, by a loop over those that meet different places. Several
/// arrays whose results do not depend on each other are scatters of one array each.
/// Needs: scalars of any type (before hold_in_words), no layouts.
void expand_scatters(hlo::Module& module);

}  // namespace tpu::compiler
