#pragma once

#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: reduce-windows and select-and-scatters that no pooling kernel takes, or that take less as
/// parts of the image (`window_choice.h`), are written in terms of others and of elementwise
/// operations.
///
/// A kernel takes windows over two dimensions of four, which the layout of images has outermost.
/// Windows over more dimensions, and their gradients, go in steps: along the last dimension first,
/// where slices along the outermost one would not take less; over few images, pixels become rows of
/// lanes. Other ranks become four by merging dimensions that no window extends over; a window over
/// another dimension (the features of a local response normalisation), one that starts from another
/// value than the neutral one or reaches into gaps of a base dilation is a combination of shifted
/// arrays, one per position, of phases of the image where it steps through the lanes
/// (`window_phases.h`). Where a window has all elements of a dimension it is a reduce, and where
/// each has its only element a broadcast; neutral elements of a pad are the window's padding. A
/// select-and-scatter of parts, over dimensions that no kernel takes, or of rows that do not fit
/// VMEM compares each position with the greatest.
///
/// Needs: rewrite_convolutions; layouts not assigned yet. Leaves: windows that kernels take; those
/// over integers, with reducers that are no single operation, or that would become more than 64
/// arrays as they are.
void rewrite_windows(hlo::Module& module, const Target& target);

}  // namespace tpu::compiler
