#pragma once

#include <cstdint>
#include <optional>

#include "workloads/graph/graph.h"

namespace tpu::hlo {

/// Output positions of a window over one dimension: 0 when the window is larger than the padded
/// extent.
std::int64_t window_output_extent(std::int64_t extent, const WindowDimension& window);

/// Checks operands and attributes of an instruction and returns the shape that they imply (without
/// layout), or nothing where HLO text states the shape and nothing implies it (parameters,
/// constants, iota, custom calls, communication with the host). Stated parts of an implied shape
/// are read from instruction.shape: the dimensions of broadcast and reshape, the element type of
/// convert, dot and convolution. Throws WorkloadError that says what was expected and what was
/// found, without naming the instruction.
std::optional<Shape> infer_shape(const Module& module, const Computation& computation,
                                 const HloInstruction& instruction);

}  // namespace tpu::hlo
