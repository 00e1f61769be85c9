#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "isa/listing/listing_reader.h"

namespace tpu::xla {

/// An operand of a call of the top-level program.
struct CallOperand {
  std::uint32_t call = 0;
  std::uint32_t operand = 0;
};

/// The calls to which the top-level program hands an address.
struct AddressUses {
  std::unordered_map<std::uint32_t, std::vector<CallOperand>> of_allocation;
  /// By number of the output: its address comes out of the runtime's table, which the program
  /// copies to its "tuple transfer buffer", or for a single output out of the runtime's output
  /// pointer.
  std::unordered_map<std::uint32_t, std::vector<CallOperand>> of_output;
};

/// Follows addresses through scalar moves, additions and spills, along the text (the top-level
/// program assigns each virtual name once).
AddressUses address_uses(const isa::Listing& top_level, const isa::PackedListing& packed);

}  // namespace tpu::xla
