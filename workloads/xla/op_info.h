#pragma once

#include <string>
#include <unordered_map>
#include <utility>

#include "isa/program.h"
#include "workloads/graph/hlo_cost_analysis.h"

namespace tpu::xla {

/// The instructions of a module by name: what the calls of a top-level program refer to.
class InstructionIndex {
 public:
  explicit InstructionIndex(const hlo::Module& module);

  struct Place {
    hlo::ComputationId computation = -1;
    hlo::InstructionId instruction = -1;
  };
  /// The instruction of this name; nothing (-1) where there is none.
  Place find(const std::string& name) const;
  const hlo::Module& module() const { return module_; }

 private:
  const hlo::Module& module_;
  std::unordered_map<std::string, Place> places_;
};

/// What the scheduled HLO tells about a call (hlo::op_info), and XLA's own estimate of its cycles
/// (shown, never used).
isa::OpInfo op_info(hlo::HloCostAnalysis& analysis, const InstructionIndex& index,
                    const std::string& name, const std::string& hlo_opcode);

/// The number after "estimated_cycles" in the backend_config of an instruction; 0 for none.
std::uint64_t estimated_cycles(const hlo::HloInstruction& instruction);

}  // namespace tpu::xla
