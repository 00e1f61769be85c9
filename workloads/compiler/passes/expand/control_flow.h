#pragma once

#include <vector>

#include "workloads/compiler/ir/dimension_order.h"
#include "workloads/compiler/passes/scheduled_module.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: conditionals with a constant selector become calls of the branch that is taken; true when
/// there was one. What stands in that branch is to be flattened and simplified then.
bool take_known_branches(hlo::Module& module);

/// Pass: loops of a few iterations of nothing but elementwise arithmetic become calls of the body,
/// one behind the other, and those of one iteration of anything one call; true when there was one.
/// Their arrays would go to HBM and back in each iteration: Threefry's five groups of rounds, as
/// JAX writes them for a CPU; a scan over one layer.
bool unroll_short_loops(hlo::Module& module);

/// Pass: takes the computations of every while and conditional out of the entry, as modules of
/// their own that go through the same passes.
///
/// - A while gets one operand per array of its state: those that iterations change, then those that
///   they only read. State that nobody needs is dropped; state that never changes is read from
///   where it stands, a constant or a broadcast is computed again inside; what iterations would
///   compute of such state alone is computed before, where it has no more bytes. Its result is the
///   tuple of what changes.
/// - The trip count is that of its counter (hlo::loop_counter); a loop that never runs is its
///   initial state.
/// - A conditional gets its selector and the arrays that each branch reads, branch after branch.
///
/// Needs: a simplified entry without calls and without branches that are known.
/// Leaves: tuple_index as index into the result on those instructions, and no called computations
/// (runs_region); bodies without calls, simplified.
std::vector<ScheduledRegion> outline_control_flow(hlo::Module& module);

/// Layouts of the parameters of a body, in order.
std::vector<hlo::Layout> parameter_layouts(const ScheduledModule& body);

/// True when the entry has a while or conditional.
bool has_control_flow(const hlo::Module& module);

/// Pass: the arrays of a while or conditional lie as its bodies want them.
///
/// Needs: bodies with layouts. Before assign_layouts; adopt_region_layouts says what the results
/// are, orders_of_regions in which orders bodies have what goes in and out (of each instruction of
/// the entry; empty: none asks), then copy_region_operands copies operands that lie otherwise.
void adopt_region_layouts(ScheduledModule& scheduled);
std::vector<DimensionOrder> orders_of_regions(const ScheduledModule& scheduled);
void copy_region_operands(ScheduledModule& scheduled);

/// Whether the instruction writes its result over this operand: an all-reduce, the carried state of
/// a loop, the array that a dynamic-update-slice or scatter changes, but for one that the scatter
/// makes itself.
bool works_in_place(const hlo::Computation& computation, const hlo::HloInstruction& instruction,
                    std::size_t operand);

}  // namespace tpu::compiler
