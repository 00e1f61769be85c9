#pragma once

#include <vector>

#include "isa/program.h"
#include "workloads/graph/graph.h"

namespace tpu::xla {

/// From which op to which the buffers of XLA's program hold data, out of the scheduled module that
/// its compiler left: a temporary lives from the instruction in its name ("fusion.3@{1}": the
/// second result of fusion.3) to the last that reads it, looked through tuples and bitcasts; what a
/// loop carries, as long as the loop runs and its result is read. None lives longer than until
/// another is made in its place, which is what `until_overwritten` has, in the order of the
/// buffers; what the module does not name stays as it is there.
std::vector<isa::Lifetime> scheduled_lifetimes(const hlo::Module& scheduled,
                                               const std::vector<isa::OpInfo>& ops,
                                               const std::vector<isa::Buffer>& buffers,
                                               std::vector<isa::Lifetime> until_overwritten);

}  // namespace tpu::xla
