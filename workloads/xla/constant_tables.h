#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "isa/listing/listing_reader.h"
#include "workloads/graph/graph.h"
#include "workloads/xla/address_uses.h"

namespace tpu::xla {

/// The value of an allocation with the tag `constant literal`: the listing gives neither place nor
/// data.
struct ConstantLiteral {
  std::uint32_t allocation = 0;
  std::string name;  ///< HLO instruction.
  hlo::Shape shape;
  std::vector<std::uint32_t> words;  ///< In the layout of the shape.
};

/// Finds the HLO constant of each `constant literal` of a top-level program: the one of its shape,
/// or, where there are several, the one that the calls to which it goes name as their operand.
/// `hlo` is the module with all constants in full (TLP-hlo.txt). Throws WorkloadError where none
/// or more than one remains.
std::vector<ConstantLiteral> find_constants(const isa::Listing& top_level,
                                            const isa::PackedListing& packed,
                                            const AddressUses& uses, const hlo::Module& hlo);

}  // namespace tpu::xla
