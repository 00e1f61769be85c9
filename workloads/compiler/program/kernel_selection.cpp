#include "workloads/compiler/program/kernel_selection.h"

#include <algorithm>
#include <string>

#include "sim/base/error.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/combining_operation.h"
#include "workloads/compiler/ir/elimination.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/ir/rotations.h"
#include "workloads/compiler/ir/scan_form.h"
#include "workloads/compiler/kernels/collective/bucket_all_reduce.h"
#include "workloads/compiler/kernels/collective/exchange.h"
#include "workloads/compiler/kernels/collective/replica_id.h"
#include "workloads/compiler/kernels/lowering.h"
#include "workloads/compiler/passes/expand/rings.h"
#include "workloads/compiler/passes/fuse/bucket_phases.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;

namespace {

/// Around what a fusion is made: dot or convolution, else the fusion itself.
HloOpcode heart_of(const hlo::Module& module, const HloInstruction& instruction) {
  const HloInstruction* product = product_in(module, instruction);
  return product != nullptr ? product->opcode : instruction.opcode;
}

[[noreturn]] void refuse(const Computation& entry, const HloInstruction& instruction) {
  std::string operands;
  for (hlo::InstructionId operand : instruction.operands) {
    operands += (operands.empty() ? "" : ", ") + to_string(entry.at(operand).shape);
  }
  throw WorkloadError(std::string(hlo::to_string(instruction.opcode)) + "(" + operands + ") -> " +
                      to_string(instruction.shape));
}

std::uint64_t operand_granules(const Computation& entry, const HloInstruction& instruction) {
  std::uint64_t sum = 0;
  for (hlo::InstructionId operand : instruction.operands) sum += granules(entry.at(operand).shape);
  return sum;
}

isa::Kernel ring_kernel(const hlo::Module& module, const HloInstruction& instruction,
                        const Target& target) {
  const Computation& entry = module.entry_computation();
  const Ring ring = ring_of(instruction);
  switch (instruction.opcode) {
    case HloOpcode::kAllGather: {
      const std::uint64_t block = granules(entry.at(instruction.operands.at(0)).shape);
      return all_reduce_kernel(ring_block_shape(RingKind::kAllGather, block, target), target, ring);
    }
    case HloOpcode::kReduceScatter:
      if (scatter_operation(module.computation(instruction.called.at(0))) ==
          HloOpcode::kParameter) {
        return own_block_kernel(granules(instruction.shape), target, ring);
      }
      return all_reduce_kernel(
          ring_block_shape(RingKind::kReduceScatter, granules(instruction.shape), target), target,
          ring);
    case HloOpcode::kAllToAll: {
      const std::uint32_t members = ring.members(target);
      return all_to_all_kernel(granules(instruction.shape) / members, target, ring);
    }
    case HloOpcode::kCollectivePermute:
      return permute_kernel(granules(instruction.shape),
                            sources_of_permute(instruction, target.cores), ring.number, target);
    default:
      return all_reduce_kernel(all_reduce_shape(granules(instruction.shape), target, ring), target,
                               ring);
  }
}

/// A phase of a bucket.
isa::Kernel phase_kernel(const Computation& entry, const HloInstruction& phase,
                         const Target& target) {
  const bool is_start = phase.opcode == HloOpcode::kAllReduceStart;
  // A start's result has the landing place, too.
  const std::uint64_t reduced = is_start ? operand_granules(entry, phase) : granules(phase.shape);
  const BucketPhase which = is_start                                  ? BucketPhase::kScatter
                            : phase.opcode == HloOpcode::kAsyncUpdate ? BucketPhase::kSum
                                                                      : BucketPhase::kGather;
  return bucket_kernel(which, bucket_shape(reduced, target), bucket_number(phase), target);
}

LoweredKernel alone(isa::Kernel kernel) {
  LoweredKernel lowered;
  lowered.vmem_bytes = kernel.vmem_bytes;
  lowered.kernel = std::move(kernel);
  return lowered;
}

}  // namespace

bool stands_apart(const hlo::Module& module, const HloInstruction& instruction) {
  if (is_kernel_sequence(instruction)) return false;
  if (is_bucket_phase(instruction)) return true;
  switch (heart_of(module, instruction)) {
    case HloOpcode::kAllReduce:
    case HloOpcode::kAllGather:
    case HloOpcode::kReduceScatter:
    case HloOpcode::kAllToAll:
    case HloOpcode::kCollectivePermute:
    case HloOpcode::kReplicaId:
      return true;
    default:
      return false;
  }
}

LoweredKernel make_kernel(const hlo::Module& module, const HloInstruction& instruction,
                          const Target& target, const SequenceLoop& loop) {
  const Computation& entry = module.entry_computation();
  TPU_CHECK(!target.place.caller_starts_loads || !stands_apart(module, instruction),
            instruction.name << " loads what it needs itself");
  if (is_kernel_sequence(instruction)) {
    return lower_sequence(module, instruction, target, loop);
  }
  const auto with = [&](auto lower) { return lower(module, entry, instruction, target); };
  if (is_bucket_phase(instruction)) return alone(phase_kernel(entry, instruction, target));
  if (joins_moves(module, instruction)) return with(lower_relayout);
  switch (heart_of(module, instruction)) {
    case HloOpcode::kDot:
      return with(lower_dot);
    case HloOpcode::kConvolution:
      return with(lower_convolution);
    case HloOpcode::kAllReduce:
    case HloOpcode::kAllGather:
    case HloOpcode::kReduceScatter:
    case HloOpcode::kAllToAll:
    case HloOpcode::kCollectivePermute:
      return alone(ring_kernel(module, instruction, target));
    case HloOpcode::kFusion:
    case HloOpcode::kReduce:
      return with(lower_elementwise);
    case HloOpcode::kReduceWindow:
    case HloOpcode::kSelectAndScatter:
      return with(scan_form(module, entry, instruction) ? lower_scan : lower_pooling);
    case HloOpcode::kCopy:
    case HloOpcode::kReshape:
    case HloOpcode::kTranspose:
    case HloOpcode::kSlice:
    case HloOpcode::kPad:
    case HloOpcode::kConcatenate:
    case HloOpcode::kReverse:
      return with(lower_relayout);
    case HloOpcode::kReplicaId:
      return alone(replica_id_kernel(target));
    case HloOpcode::kDynamicSlice:
    case HloOpcode::kDynamicUpdateSlice:
      return with(lower_dynamic_slice);
    case HloOpcode::kGather:
    case HloOpcode::kScatter:
      return with(lower_embedding);
    case HloOpcode::kSort:
      return with(lower_sort);
    case HloOpcode::kCustomCall:
      if (is_elimination(instruction)) return with(lower_elimination);
      if (is_pivoted_elimination(instruction)) return with(lower_pivoted_elimination);
      if (is_reflections(instruction)) return with(lower_reflections);
      if (is_rotations(instruction)) return with(lower_rotations);
      refuse(entry, instruction);
    default:
      refuse(entry, instruction);
  }
}

}  // namespace tpu::compiler
