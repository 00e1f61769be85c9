#pragma once

#include "workloads/graph/shape.h"
#include "workloads/hlo/hlo_cursor.h"

namespace tpu::hlo {

/// Reads a type of MLIR text as the shape of an array: `tensor<4x8xf32>`, `tensor<ui8>`, or a
/// token. Refuses dimensions without an extent and types that HLO does not have.
Shape read_mlir_type(HloCursor& cursor);

}  // namespace tpu::hlo
