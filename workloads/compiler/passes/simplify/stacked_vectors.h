#pragma once

#include "workloads/compiler/passes/scheduled_module.h"
#include "workloads/compiler/target.h"

namespace tpu::compiler {

/// Pass: arrays of which a loop's iterations read or write a long vector each (what a scan over
/// vectors is given, and what it stacks) get tiles of their own for each vector, [T, N] becomes
/// [T, 8 R, 128]: a vector is one range of HBM then, as it is in an array of its own. As a row of
/// [T, N] it shares its tiles with seven others: an update reads and writes those, too, or all of
/// the array.
///
/// Takes: counted loops, 32-bit elements, vectors that fill half a tile or more (a whole one where
/// the arrays are small: a loop that is one kernel keeps them in VMEM), and bodies that do nothing
/// else with the array.
/// Needs: loops outlined, their bodies not through their passes yet. Leaves: pads, reshapes and
/// slices around the loop and around each slice and update.
void tile_stacked_vectors(ScheduledModule& scheduled, const Target& target);

}  // namespace tpu::compiler
