#pragma once

#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: a copy to another order of dimensions of which no part fits VMEM (both minor dimensions
/// change places with outer ones, all of them long), or a transpose that is one, becomes two: first
/// all dimensions but the one in the lanes come into their places, then that one. A concatenation
/// of more arrays than a kernel has addresses for, or than fit VMEM together, becomes one of two
/// halves, each of which is one. A pad, slice or reverse that moves along all long dimensions, of
/// which no part stays in place, moves along the outermost one in a step of its own. A reshape of
/// any size, with the copies to other orders around it that nothing else reads, goes by way of the
/// arrays that take the fewest cycles by the kernels' estimates, where its own kernels take more
/// than twice what the bytes of both ends do, or do not exist.
///
/// Needs: layouts, find_bitcasts. Leaves: copies, concatenations, reshapes, pads, slices and
/// reverses that kernels take, where there are such.
void split_large_copies(hlo::Module& module, const Target& target);

}  // namespace tpu::compiler
