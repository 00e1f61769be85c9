#include "sim/base/error.h"
#include "workloads/compiler/kernels/lowering.h"

namespace tpu::compiler {

LoweredKernel lower_relayout(const hlo::Module&, const hlo::Computation&,
                             const hlo::HloInstruction& instruction, const Target&) {
  throw WorkloadError("no kernel for " + std::string(hlo::to_string(instruction.opcode)) + " " +
                      hlo::to_string(instruction.shape) + " \"" + instruction.name + "\"");
}

}  // namespace tpu::compiler
