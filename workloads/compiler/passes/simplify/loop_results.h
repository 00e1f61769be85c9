#pragma once

#include "workloads/compiler/passes/scheduled_module.h"

namespace tpu::compiler {

/// Pass: arrays that the iterations of a loop write whole, a slice each, before anything reads them
/// (what a scan stacks) begin as memory that nothing has written: XLA's AllocateBuffer in place of
/// the zeros that the program fills them with.
///
/// Takes: counted loops whose body only updates the array, at places that its iterations say, once
/// each; every other initial value stays.
/// Needs: outlined loops whose bodies went through all their passes. Leaves: custom-calls
/// "AllocateBuffer" without operands, one for each array.
void allocate_loop_results(ScheduledModule& scheduled);

}  // namespace tpu::compiler
