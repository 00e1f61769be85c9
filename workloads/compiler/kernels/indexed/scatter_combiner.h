#pragma once

#include "workloads/compiler/codegen/kernel_builder.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// What becomes of a value and its update: an operation on both, kParameter for the update alone.
struct ScatterCombiner {
  hlo::HloOpcode opcode = hlo::HloOpcode::kCount;
  hlo::ElementType type = hlo::ElementType::kF32;

  bool replaces() const { return opcode == hlo::HloOpcode::kParameter; }
};

VReg combined_update(KernelBuilder& builder, const ScatterCombiner& combiner, VReg value,
                     VReg update);

}  // namespace tpu::compiler
