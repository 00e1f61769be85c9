#pragma once

#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: a copy to another order of dimensions of which no part fits VMEM (both minor dimensions
/// change places with outer ones, all of them long) becomes two: first all dimensions but the one
/// in the lanes come into their places, then that one. A concatenation of more arrays than a kernel
/// has addresses for, or than fit VMEM together, becomes one of two halves, each of which is one. A
/// reshape of which no part fits VMEM (a few long rows, which tiles hold together) makes a matrix
/// of each of the longer rows first or last, so that they come one by one. A pad along all long
/// dimensions, of which no part stays in place, leaves the outermost one to a second pad.
///
/// Needs: layouts, find_bitcasts. Leaves: copies, concatenations, reshapes and pads of large arrays
/// that kernels take, where there are such.
void split_large_copies(hlo::Module& module, const Target& target);

}  // namespace tpu::compiler
