#pragma once

#include <vector>

#include "workloads/compiler/ir/dimension_order.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Operations through which orders are chosen; what others read or make is row-major, or as
/// convolutions and windows ask.
bool chooses_order(const hlo::HloInstruction& instruction);

/// Operands that lie in the same order as the result: those of the result's rank whose elements are
/// neither permuted nor mixed.
std::vector<hlo::InstructionId> operands_in_step(const hlo::Computation& computation,
                                                 const hlo::HloInstruction& instruction);

/// The order of an array that has some of the dimensions of a larger one, so that a kernel can go
/// through both: `kept` are the larger one's dimensions, in the order of the smaller one's.
DimensionOrder order_of_part(const DimensionOrder& whole, const std::vector<std::int64_t>& kept);

/// Gathers and scatters of rows: their tables, rows and results are row-major, or there are copies
/// that are.
bool moves_rows(const hlo::HloInstruction& instruction);

}  // namespace tpu::compiler
