#pragma once

#include <string>
#include <vector>

#include "models/params.h"
#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::app {

/// What a reader wants to know of a module before running it: parameters, FLOPs, bytes, arithmetic
/// intensity, instructions by opcode, the kernels that our compiler makes of it (what is fused into
/// what, what each will be bound by on every machine given), and what the compiler refuses, with
/// the instructions, FLOPs and bytes that this affects.
///
/// Bounds compare, per core, the MXU's time for the padded products, the vector unit's for one
/// operation per element, and the HBM's for operands and results with their padding; nothing is
/// simulated. `bucket_bytes`: as in Target.
std::string show_module(const hlo::Module& module, const std::vector<MachineParams>& machines,
                        std::uint64_t bucket_bytes = compiler::kBucketsByCost);

}  // namespace tpu::app
