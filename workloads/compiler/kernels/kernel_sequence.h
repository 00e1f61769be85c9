#pragma once

#include <cstdint>
#include <vector>

#include "workloads/compiler/kernels/lowering.h"

namespace tpu::compiler {

/// A counted loop around a sequence, in terms of its operands, then its results.
struct SequenceLoop {
  std::uint64_t trips = 1;
  /// How far each address moves from one iteration to the next, in granules.
  std::vector<std::int64_t> steps;
  /// For each operand the result that is its value in the next iteration; -1: none.
  std::vector<int> next;
  /// No iteration reads at an address that moves what an earlier one has written at such an
  /// address: the loads of the next iteration and the stores of the one before may be under way in
  /// each.
  bool is_pipelined = false;
};

/// Lowers a sequence as one kernel, once or in a loop; one without members, whose results are its
/// operands, copies them.
///
/// All arrays stand in VMEM, whole, while the kernel runs; members are elementwise kernels and
/// dots (`sequence_member.h`). What comes from HBM is requested before
/// the first member begins, and each member waits for its own operands; what leaves is written
/// behind the member that makes it, but after all operands have come: a result may take the memory
/// of any operand. Between members nothing moves.
///
/// In a loop operands whose addresses stay are loaded before it and results with such addresses
/// written behind it; state goes from result to operand inside of VMEM. Operands and results whose
/// addresses move have places of their own, too: the next iteration's operands come and the results
/// of the one before leave while an iteration runs, which begins and ends with copies inside of
/// VMEM. Nothing hangs on that: slices are placed by the iteration in arrays that the loop only
/// reads (`passes/simplify/loop_slices.h`), so none has what an earlier iteration wrote.
LoweredKernel lower_sequence(const hlo::Module& module, const hlo::HloInstruction& instruction,
                             const Target& target, const SequenceLoop& loop = {});

}  // namespace tpu::compiler
