#pragma once

#include <functional>
#include <map>
#include <string>

#include "workloads/compiler/passes/scheduled_module.h"
#include "workloads/compiler/target.h"

namespace tpu::compiler {

/// Operations without a kernel, by opcode and shapes: how many, what FLOPs and bytes are in them,
/// and why the first one is refused.
class RefusalList {
 public:
  void add(const hlo::Module& module, const hlo::HloInstruction& instruction,
           const std::string& why, const Target& target);
  /// Throws WorkloadError with the list unless it is empty.
  void report(const std::string& module_name) const;

 private:
  struct Refusal {
    std::string why;  ///< Of the first instruction of its kind.
    std::size_t count = 0;
    std::uint64_t flops = 0, hbm_bytes = 0;  ///< Of all of its kind, loops counted once.
  };
  std::map<std::string, Refusal> refusals_;
};

/// Throws WorkloadError: what a pass that rewrites single operations has no form for.
[[noreturn]] void refuse(const std::string& why);

/// Pass: refuses operations that no kernel could ever serve (custom-calls with code of their own,
/// random bits, FFTs, 64-bit types ...) together with what the rewriting passes have refused,
/// before the passes that take long.
///
/// Needs: operations rewritten. Leaves: a module whose operations may have kernels; else throws
/// WorkloadError with the list.
void refuse_unknown_operations(const ScheduledModule& scheduled, const Target& target);

/// What a pass that rewrites single operations does: `visit` for every instruction that the entry
/// has before, in order. What it throws as WorkloadError is a refusal of the instruction; what it
/// has appended is put in order at the end.
void rewrite_each(hlo::Module& module, Refusals& refusals,
                  const std::function<void(hlo::InstructionId)>& visit);

}  // namespace tpu::compiler
