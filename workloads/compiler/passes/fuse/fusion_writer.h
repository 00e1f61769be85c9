#pragma once

#include <vector>

#include "workloads/compiler/passes/fuse/fusion_draft.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Makes a fusion instruction in the module's entry of each draft that is one and not merged away,
/// with a computation of what it holds; removes what stands in them alone.
void write_fusions(hlo::Module& module, const std::vector<FusionDraft>& drafts);

}  // namespace tpu::compiler
