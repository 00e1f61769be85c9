#include "workloads/compiler/passes/refusal_list.h"

#include "sim/base/error.h"
#include "workloads/compiler/ir/matrix_kernels.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/expand/lapack_calls.h"
#include "workloads/compiler/passes/memory/hbm_plan.h"
#include "workloads/compiler/passes/op_info.h"
#include "workloads/graph/op_info.h"

namespace tpu::compiler {

using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;

void RefusalList::add(const hlo::Module& module, const HloInstruction& instruction,
                      const std::string& why, const Target& target) {
  const hlo::Computation& entry = module.entry_computation();
  std::string text = std::string(hlo::to_string(instruction.opcode)) + "(";
  for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
    if (i > 0) text += ", ";
    text += to_string(entry.at(instruction.operands[i]).shape, false);
  }
  text += ") -> " + to_string(instruction.shape, false);
  Refusal& refusal = refusals_[text];
  if (refusal.count++ == 0) {
    refusal.why = hlo::with_origin(module, entry, instruction) + ": " + why;
  }
  const isa::OpInfo info = op_info(module, instruction, target);
  refusal.flops += info.flops;
  refusal.hbm_bytes += info.hbm_bytes;
}

void RefusalList::report(const std::string& module_name) const {
  constexpr std::size_t kListed = 20;
  if (refusals_.empty()) return;
  std::string text = module_name + ": " + std::to_string(refusals_.size()) +
                     (refusals_.size() == 1 ? " operation has" : " operations have") +
                     " no kernel; change the model or run it elsewhere:";
  std::size_t listed = 0;
  for (const auto& [operation, refusal] : refusals_) {
    if (listed++ == kListed) {
      text += "\n  and " + std::to_string(refusals_.size() - kListed) + " more";
      break;
    }
    text += "\n  " + operation +
            (refusal.count == 1 ? "" : ", " + std::to_string(refusal.count) + " times") + ", " +
            std::to_string(refusal.flops) + " FLOPs, " + memory_size_text(refusal.hbm_bytes) +
            " of HBM (" + refusal.why + ")";
  }
  throw WorkloadError(text);
}

namespace {

/// A core makes 1,024 elements a cycle; the machine takes a kernel of 2^28 cycles without a DMA for
/// one that never ends.
constexpr std::int64_t kMostElements = std::int64_t{1} << 38;

/// Why nothing in this compiler computes the operation; empty where something may.
std::string why_unknown(const HloInstruction& instruction) {
  const std::vector<hlo::Shape> alone{instruction.shape};
  for (const hlo::Shape& shape :
       instruction.shape.is_tuple() ? instruction.shape.elements : alone) {
    if (shape.element_count() > kMostElements) {
      return "expected arrays of at most 2^38 elements, found " +
             std::to_string(shape.element_count());
    }
    switch (shape.type) {
      case ElementType::kC128:
        return "the chip has no fp64: use complex numbers of 64 bits";
      case ElementType::kF32:
      case ElementType::kBf16:
      case ElementType::kS32:
      case ElementType::kU32:
      case ElementType::kPred:
      case ElementType::kTuple:
      case ElementType::kToken:
      case ElementType::kOpaque:
        break;
      default:
        return "the chip has no arithmetic on " + std::string(hlo::to_string(shape.type)) +
               ": convert it in the model";
    }
  }
  switch (instruction.opcode) {
    case HloOpcode::kCustomCall:
      if (hlo::is_allocation(instruction) || is_matrix_kernel(instruction)) return "";
      if (is_cpu_library_call(instruction)) {
        return "expected a program for the TPU, found a call of \"" +
               instruction.custom_call_target.get() +
               "\", a library of the CPU: lower it for the TPU, which needs none, "
               "jax.jit(f).trace(x).lower(lowering_platforms=(\"tpu\",)).as_text()";
      }
      return "expected an operation of HLO, found a call of \"" +
             instruction.custom_call_target.get() + "\", whose code is not in the module";
    case HloOpcode::kRng:
    case HloOpcode::kRngBitGenerator:
    case HloOpcode::kRngGetAndUpdateState:
    case HloOpcode::kFft:
    case HloOpcode::kCholesky:
    case HloOpcode::kTriangularSolve:
    case HloOpcode::kDynamicReshape:
    case HloOpcode::kSetDimensionSize:
    case HloOpcode::kGetDimensionSize:
    case HloOpcode::kBatchNormTraining:
    case HloOpcode::kBatchNormInference:
    case HloOpcode::kBatchNormGrad:
    case HloOpcode::kRaggedDot:
    case HloOpcode::kRaggedAllToAll:
    case HloOpcode::kScaledDot:
    case HloOpcode::kScan:
    case HloOpcode::kSend:
    case HloOpcode::kRecv:
    case HloOpcode::kInfeed:
    case HloOpcode::kOutfeed:
      return "there is no kernel for it";
    case HloOpcode::kReduceWindow:
      return instruction.shape.is_tuple() ? "there is no kernel for windows of several arrays" : "";
    default:
      return "";
  }
}

}  // namespace

void refuse(const std::string& why) { throw WorkloadError(why); }

void refuse_unknown_operations(const ScheduledModule& scheduled, const Target& target) {
  RefusalList list;
  for (const HloInstruction& instruction : scheduled.module.entry_computation().instructions) {
    const auto refused = scheduled.refusals.find(refusal_key(instruction));
    const std::string why =
        refused != scheduled.refusals.end() ? refused->second : why_unknown(instruction);
    if (!why.empty()) list.add(scheduled.module, instruction, why, target);
  }
  list.report(scheduled.module.name);
}

void rewrite_each(hlo::Module& module, Refusals& refusals,
                  const std::function<void(hlo::InstructionId)>& visit) {
  const std::size_t count = module.entry_computation().instructions.size();
  for (std::size_t i = 0; i < count; ++i) {
    const auto id = static_cast<hlo::InstructionId>(i);
    try {
      visit(id);
    } catch (const WorkloadError& error) {
      refusals[refusal_key(module.entry_computation().at(id))] = error.what();
    }
  }
  if (module.entry_computation().instructions.size() > count) tidy(module.entry_computation());
}

}  // namespace tpu::compiler
