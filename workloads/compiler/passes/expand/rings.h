#pragma once

#include <cstdint>
#include <vector>

#include "workloads/compiler/ir/ring.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: groups of replicas that are all replicas in order become no groups; every other grouping,
/// and every permutation, gets a number, in the attribute ring= of its collectives, from 1 on. In
/// branches of conditionals, which replicas may take differently, each channel has its own: those
/// that meet in another order wait for each other, and do not exchange what does not belong
/// together.
///
/// Needs: Module::replicas as it will run; loops not outlined yet, since all kernels of a program
/// have to agree. Leaves: collectives whose ring_of() is theirs alone.
void number_rings(hlo::Module& module);

/// The ring of a collective that has a number.
Ring ring_of(const hlo::HloInstruction& instruction);

/// For each replica the one that it receives from in a collective-permute; -1: none. Throws
/// WorkloadError for replicas that there are not.
std::vector<std::int64_t> sources_of_permute(const hlo::HloInstruction& permute,
                                             std::int64_t replicas);

/// What is wrong with the groups of a collective for so many replicas: each has to be in one of
/// equal size. Empty: nothing.
std::string fault_of_groups(const hlo::HloInstruction& instruction, std::int64_t replicas);

}  // namespace tpu::compiler
