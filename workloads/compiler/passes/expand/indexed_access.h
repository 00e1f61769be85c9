#pragma once

#include "workloads/compiler/passes/scheduled_module.h"
#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: writes gathers, scatters, dynamic-slices and dynamic-update-slices in the forms that have
/// kernels.
///
/// - A gather or scatter by any mixture of batching, indexed and window dimensions becomes one of
///   whole rows of a table (a DMA per row), or, where that moves more, a selection: the gathered
///   dimension is compared with the indices element by element and reduced. The cheaper one is
///   chosen by estimates of both in cycles. Where all of two or more dimensions is taken or
///   updated, it may be a gather or scatter of blocks of whole tiles (a gather also of blocks that
///   lie together behind dimensions of their own, of which each has numbers).
///   Single elements that are taken by DMA stand 128 in a row. Of updates that replace, the last
///   one of each place is found, then gathered.
/// - A dynamic-slice or dynamic-update-slice along major dimensions stays as it is (whole tiles by
///   DMA). Other dynamic-slices are gathers with one start; other updates select between the array
///   and the update, which costs a pass over the array.
///
/// Indices are clamped (gather, slices) or what lies outside is dropped (scatter), as HLO says.
///
/// Needs: a simplified entry without calls; layouts not assigned yet.
/// Leaves: gathers and scatters of rows or blocks by a vector of indices. Integers may leave
/// integer reductions. A refusal of a scatter whose combiner the scatter kernel does not have, or
/// of several arrays at once.
void rewrite_indexed_access(hlo::Module& module, const Target& target, Refusals& refusals);

}  // namespace tpu::compiler
