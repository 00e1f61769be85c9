#pragma once

#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: sorts become sorts of words, which a kernel does in VMEM (`ir/sort_form.h`).
///
/// - What the comparator orders by becomes s32 keys (`comparators.h`), computed once an element:
///   floating values in the order of their bits, descending ones complemented. Signs that keys do
///   not have, of zeros and NaNs, stand below the position.
/// - What is carried along and no key says becomes a word, too; then the position is the last key,
///   so that every sort is stable and elements differ. Results that nothing reads are left out.
/// - The sorted dimension stands along rows. Sequences have several columns each where they are
///   few or do not fit VMEM; those of more than 128 columns go on through HBM.
/// - topk: the first elements of a sort.
/// - A scatter to places that a sort has brought along, as in its gradient: a sort by the places.
///
/// What takes fewer cycles by comparing all with all becomes a sort of
/// rows of such words, for rewrite_reductions; other comparators stay as they are.
///
/// Needs: a simplified entry without calls; layouts not assigned yet; before rewrite_reductions.
void rewrite_sorts(hlo::Module& module, const Target& target);

}  // namespace tpu::compiler
