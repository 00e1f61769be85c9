#pragma once

#include <optional>
#include <string>

#include "workloads/compiler/kernels/lowering.h"
#include "workloads/compiler/kernels/refusal.h"

namespace tpu::compiler {

/// A kernel of a reshape between rows of lanes, of which eight fill VMEM, and their elements one
/// behind the other (a vector, or rows of 128 lanes), wherever a row begins in the tiles of those:
/// parts of one row, or of a tile of rows, at a time. Nothing for other arrays. `from` and
/// `to` are in row-major order; `chip` outlives the plan.
std::optional<KernelPlan> plan_long_rows(const std::string& name, const hlo::Shape& from,
                                         const hlo::Shape& to, const Target& chip);

}  // namespace tpu::compiler
