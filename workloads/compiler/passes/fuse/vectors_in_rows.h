#pragma once

#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: elementwise fusions over vectors read those that are rows of an array's tiles (columns of
/// points, quaternions, small matrices, whose many indices lie along the lanes) where they stand,
/// and write vectors that become the rows of a row tile to their places. Slices, reshapes and the
/// concatenation are no kernels then.
///
/// Needs: join_small_kernels (what stands in VMEM stays there).
/// Leaves: reshapes of parameters, slices and vectors inside of fusions (`ir/tile_row.h`); the same
/// values.
void place_vectors_in_rows(hlo::Module& module, const Target& target);

/// Pass: elementwise fusions read scalars that are elements of arrays (factors of a small matrix)
/// where they stand: the tile comes, and its element is spread.
///
/// Needs: fuse. Leaves: slices of parameters of one element, reshaped, inside of fusions.
void read_elements_in_place(hlo::Module& module);

}  // namespace tpu::compiler
