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

/// A table that the compiler makes for a collective operation and prints nowhere, as experiments
/// showed it to be. The `device` of a partition is chip * 2 + core.
///   all-gather: a row per partition: rank in its group, device of the next, of the previous, 0
///   all-to-all: a row per partition: number of its group, rank in it; and the devices of the
///   groups
/// `words` is the size of the table, which tells the two of an all-to-all apart. Empty for other
/// operations, group sizes or slices than those that were tried (eight cores).
std::vector<std::uint32_t> collective_table(const hlo::HloInstruction& collective,
                                            std::uint32_t partitions, std::size_t words);

/// Finds the HLO constant of each `constant literal` of a top-level program: the one of its shape,
/// or, where there are several, the one that the calls to which it goes name as their operand.
/// `hlo` is the module with all constants in full (TLP-hlo.txt). Throws WorkloadError where none
/// or more than one remains.
std::vector<ConstantLiteral> find_constants(const isa::Listing& top_level,
                                            const isa::PackedListing& packed,
                                            const AddressUses& uses, const hlo::Module& hlo);

}  // namespace tpu::xla
