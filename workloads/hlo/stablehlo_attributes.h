#pragma once

#include "workloads/graph/graph.h"
#include "workloads/hlo/stablehlo_operation.h"

namespace tpu::hlo {

/// Gives an instruction the opcode of HLO that the operation is, and what its attributes say:
/// dimensions, windows, precision. Its operands, result and regions are those of whoever calls.
/// Fails for operations that HLO does not have.
void set_attributes(const HloCursor& cursor, const StablehloOperation& operation,
                    HloInstruction& instruction);

}  // namespace tpu::hlo
