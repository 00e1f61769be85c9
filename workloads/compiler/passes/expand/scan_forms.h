#pragma once

#include "workloads/compiler/passes/scheduled_module.h"
#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: reduce-windows and select-and-scatters that rewrite_windows leaves: those that reach far,
/// over integers, by any computation, of several arrays.
///
/// - A window that reaches from an element to the begin or end of its dimension (cumsum, cummax,
///   cumlogsumexp ...) is a scan. Sums, products and extremes have a kernel (`ir/scan_form.h`)
///   along the rows of matrices: other dimensions are turned, and fewer than 128 sequences along
///   the lanes have several columns each, which the totals of those before are combined with.
///   Others: in log2(n) steps each element is combined with the one that stands 1, 2, 4 ... before
///   it, or by selection over all pairs where that takes fewer cycles, as in short dimensions.
/// - Any other window is taken dimension by dimension: the elements of short ones are combined one
///   after the other, windows of long ones double.
/// - select-and-scatter finds the place of the greatest (least) element of each window, then adds
///   the source where each place is, spread by the stride.
///
/// Needs: a simplified entry without calls; layouts not assigned yet.
/// Leaves: windows that rewrite_windows or the pooling kernels take; refusals of others (initial
/// values that are no constants, selections other than by order).
void rewrite_scans(hlo::Module& module, Refusals& refusals, const Target& target);

}  // namespace tpu::compiler
