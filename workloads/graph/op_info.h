#pragma once

#include <functional>
#include <string>

#include "isa/program.h"
#include "workloads/graph/hlo_cost_analysis.h"

namespace tpu::hlo {

/// What reports and traces say of an instruction, whichever compiler made its kernel: names,
/// category, shape, cost.
///
/// Framework scope and source line are the instruction's own; where it has none, those of the
/// dot, convolution or else the instruction with the largest result among the ones that it fuses,
/// then of what its first operand comes from (a copy of a parameter: the parameter's), then of its
/// first user (the zeros that a loop begins with: the loop's). Empty where the module names
/// nothing.
isa::OpInfo op_info(HloCostAnalysis& analysis, const Computation& computation,
                    const HloInstruction& instruction);

/// Its name, and where it comes from: `dot.3, from jit(step)/dot_general (model.py:12)`.
std::string with_origin(const Module& module, const Computation& computation,
                        const HloInstruction& instruction);

/// Which instructions.
using OperationKind = std::function<bool(const HloInstruction& instruction)>;
/// The first one of a kind as with_origin() says it, and how many more the module has; empty where
/// it has none.
std::string where_found(const Module& module, const OperationKind& kind);

/// The instruction whose metadata stand for this one; null where none has any.
const Metadata* origin_of(const Module& module, const Computation& computation,
                          const HloInstruction& instruction);

}  // namespace tpu::hlo
