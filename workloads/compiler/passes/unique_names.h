#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Of instructions of a computation that have the same name all but the first get a number behind
/// it: copies of a computation that is called twice, copies of one value. Reports and dumps know
/// instructions by their names.
void make_names_unique(hlo::Module& module);

}  // namespace tpu::compiler
