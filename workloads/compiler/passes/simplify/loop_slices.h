#pragma once

#include <cstdint>

#include "workloads/compiler/passes/scheduled_module.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: dynamic slices and updates in the body of a counted loop whose places follow from its
/// counter take no index. A step per iteration, in granules, says where they are: the top-level
/// program adds it to the addresses that it hands to kernels.
///
/// - Such a slice of an array that the body only reads is no kernel: who reads it is told its
///   place. For an inner loop or a branch, which would change it, it is copied from there.
/// - Such an update is a copy to a place that is known when it is called; where nothing else reads
///   the array, the kernel that makes the update writes it there (`plan_hbm`).
///
/// A counter that is then left for the next count alone, and that nobody reads behind the loop, is
/// counted no more.
///
/// Takes: major dimensions, slices that are one range of HBM, places inside the
/// array that grow by the same amount each iteration. All others keep their index.
/// Needs: layouts; before fuse. Leaves: dynamic-slice with one operand, dynamic-update-slice with
/// two, slice->starts as the first iteration's place and slice->strides as the step, in elements.
void place_slices_by_iteration(ScheduledModule& scheduled);

}  // namespace tpu::compiler
