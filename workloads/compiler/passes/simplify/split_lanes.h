#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: elementwise operations and reductions on arrays whose minor dimension was split in two by
/// a reshape (the groups of a group normalisation) are done with the dimension whole. A sum over
/// one of the two and over others is the sum over the others, a reshape of the small result and
/// the sum over the rest. Split arrays would fill few lanes of their tiles, and the reshape would
/// move every element.
///
/// A group of such operations keeps the split where anything else needs one of its arrays.
///
/// Needs: a verified module without call and fusion in the entry; layouts not assigned yet.
/// Leaves: the same values but for the order of sums. Pass `simplify` removes the reshapes.
void join_split_lanes(hlo::Module& module);

}  // namespace tpu::compiler
