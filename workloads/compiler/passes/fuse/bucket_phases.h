#pragma once

#include <cstdint>

#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: an all-reduce that is to go on beside other kernels becomes three: its start (the parts of
/// the others arrive in a landing place of its own), an update (they are added, the sums sent) and
/// its end; kernels/collective/bucket_all_reduce.h has what they do. The start stands behind the
/// kernels that make or read its arrays, the update where its parts will have arrived by the
/// estimate of the kernels between, the end where the all-reduce stood. No loop or branch stands
/// between them, and at most kMostBucketsUnderWay are under way. Where nothing would run meanwhile
/// it stays one.
///
/// Needs: the order of the kernels, with copies inserted. Ends: no operation in two halves.
void split_into_phases(hlo::Module& module, const Target& target);

/// Marks an all-reduce as one that goes on beside other kernels.
void mark_beside_kernels(hlo::HloInstruction& all_reduce);

/// The phases of a bucket are an all-reduce's start, an update and its end.
bool is_bucket_phase(const hlo::HloInstruction& instruction);
/// Its number among those that have the same flags.
std::uint32_t bucket_number(const hlo::HloInstruction& phase);

}  // namespace tpu::compiler
