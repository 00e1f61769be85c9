#pragma once

#include <cstddef>
#include <cstdint>

#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Granules of all arrays that stand in VMEM while a sequence runs, at most: a quarter of it.
std::uint64_t most_granules_in_vmem(const Target& target);

/// Granules that the kernel of a fusion keeps beside its arrays, as a member of a sequence; and
/// those that all members may keep.
std::uint64_t kept_granules(const hlo::Computation& fused);
inline std::uint64_t most_kept_granules(const Target& target) {
  return 2 * most_granules_in_vmem(target);
}

/// Granules of the arrays that a member brings, at most: more hides the latency by itself, block by
/// block.
constexpr std::uint64_t kMostMemberGranules = 2048;

/// Addresses of operands and results of a sequence that is no loop: many leave few registers until
/// they are in SMEM.
constexpr std::size_t kMostSequenceAddresses = 24;

/// Pass: dots, elementwise kernels, reductions and what moves elements, that follow each other and
/// whose arrays are small, become one kernel (`kernels/kernel_sequence.h`): a custom fusion whose
/// computation holds them in their order. What only its members read never leaves VMEM, and the
/// latency of HBM is waited for once.
///
/// `is_loop`: the module is the body of a counted loop, whose state stays in VMEM where one
/// sequence is all of it; so an only kernel becomes a sequence, too. Slices that it makes for the
/// arrays which the loop stacks are results of their own then.
///
/// Needs: the kernels in their final form; before insert_copies, since a sequence may write a
/// result over any operand. Leaves: the order of everything else.
///
/// A fusion that reads elements of its operands from elsewhere (read_shifts_in_place) is a sequence
/// by itself where it joins no other.
void join_small_kernels(hlo::Module& module, const Target& target, bool is_loop);

}  // namespace tpu::compiler
