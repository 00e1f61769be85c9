#pragma once

#include <vector>

#include "isa/listing/listing_reader.h"
#include "workloads/xla/op_info.h"

namespace tpu::xla {

/// The loops and conditionals of a top-level program, in the order of its code. A loop has a branch
/// around it, where it may make no trip at all, and one back to its body. The branches of a
/// conditional stand one behind the other, in a tree of regions each of which a branch leaves out.
std::vector<isa::ControlOp> control_ops(const isa::Listing& top, const isa::PackedListing& packed,
                                        const InstructionIndex& index);

}  // namespace tpu::xla
