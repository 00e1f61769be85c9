#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: small copies that follow each other, as at the end of an iteration or a branch, become one
/// kernel (a sequence without members, `kernels/kernel_sequence.h`): all arrays come to VMEM, then
/// all leave, and the latency of HBM is waited for once.
///
/// `is_loop`: the module is the body of a counted loop; where its only kernels are copies they
/// stay.
///
/// Needs: the copies (after insert_copies). Leaves: the order of everything else.
void join_copies(hlo::Module& module, bool is_loop);

}  // namespace tpu::compiler
