#pragma once

#include <string_view>

#include "workloads/graph/graph.h"

namespace tpu::hlo {

/// Reads a module of StableHLO in MLIR text, as `jax.jit(f).lower(x).as_text()` prints it, in the
/// forms of its operations and in the generic one; functions of CHLO become HLO. With locations
/// (`debug_info=True`) operations keep their names and source lines.
///
/// Left out: modules cut over several devices, operations of tuples, shapes known at run time only.
/// Throws WorkloadError `file:line:column: expected ..., found ...`.
Module read_stablehlo_text(std::string_view file, std::string_view text);

}  // namespace tpu::hlo
