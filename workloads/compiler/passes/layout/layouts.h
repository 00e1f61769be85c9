#pragma once

#include <vector>

#include "workloads/compiler/ir/dimension_order.h"
#include "workloads/compiler/passes/expand/convolution_kernels.h"
#include "workloads/compiler/passes/scheduled_module.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: gives every array of every computation a layout by the convention of `ir/array_layout.h`.
///
/// Needs: a verified module. Layouts that are there already are replaced.
/// Leaves: operands and results of elementwise operations, reductions' inputs, windows, slices,
/// pads, concatenations and broadcasts in the same order wherever both sides have the same rank;
/// transposes and reshapes in between stay (pass `simplify` turns those that move nothing into
/// bitcasts).
///
/// `asked`: orders in which the entry's loops and branches have its arrays, by instruction; empty:
/// any. Values in step with them take them, too.
/// `given`: orders of the entry's parameters and results. They are kept; what the entry computes
/// with lies so, too, or is a copy, whichever is better. A result that shares its buffer with a
/// parameter lies as the parameter does.
void assign_layouts(hlo::Module& module, ConvolutionKernels& kernels,
                    const std::vector<DimensionOrder>& asked = {}, const GivenOrders& given = {});
/// The same by itself: no earlier pass has asked its kernels.
void assign_layouts(hlo::Module& module, const Target& target = {});

}  // namespace tpu::compiler
