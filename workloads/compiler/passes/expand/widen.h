#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// How an array stands in HBM: its shape with the type that memory holds.
hlo::Shape stored_shape(hlo::Shape shape);

/// Pass: gives every value that stands in HBM a type that kernels can load: pred becomes bf16 (0 or
/// 1) of rank 2 and above, s32 below; bf16 of rank 0 or 1 becomes f32. Fusions convert at their
/// edges, and round what becomes a bf16 held in f32. Entry parameters and results change their
/// type, too: Program::buffers tells it, and whoever loads them converts.
///
/// Needs: fused entry with layouts.
/// Leaves: f32, s32, u32 and, of rank >= 2, bf16 between kernels. Throws WorkloadError for any
/// other type, naming the instruction.
void widen(hlo::Module& module);

}  // namespace tpu::compiler
