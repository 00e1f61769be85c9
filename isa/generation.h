#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "isa/topology.h"

namespace tpu::isa {

/// What code counts on beyond the meaning of its instructions. Defaults: v2 and v3, and all code of
/// our own compiler.
struct CodeConventions {
  std::uint32_t granule_bytes = 1024;  ///< What addresses in HBM and sizes of DMAs count.
  /// The first row of a push of weights is its lowest; else its last one.
  bool weights_in_order = false;
  /// A push or pop that comes too early waits; else it is a fault of the program.
  bool interlocked = false;
  /// vld.sshfl has a hexadecimal digit of its pattern for each sublane; else an octal one.
  bool hexadecimal_patterns = false;
  /// How vsyncadd.remote names a flag: flag | core + 2 << 14 | chip << 18; else flag | 0x40000 |
  /// core << 20 | chip << 21.
  bool third_core_is_first = false;
  std::uint8_t xlus = 1;             ///< That its instructions name.
  std::uint32_t smem_bytes = 16384;  ///< At whose end the runtime's words lie.
};

/// What one generation of the chip has that another has not, as far as programs and slices see it;
/// what is a number of the machine stands in its configuration.
struct Generation {
  std::string_view name;
  bool multiplies_32_bits;    ///< smul.u32; else smul.u24.
  bool swaps_with_push;       ///< The .dwg forms, in which a matmul swaps the weights of the next.
  std::uint8_t named_mxus;    ///< MXUs that instructions can name.
  bool cmem_and_packed_rows;  ///< The last part of opcodes.def.
  CodeConventions listings;   ///< Of XLA's code for it.
  /// What XLA compiles for: its listings run on machines with these arrays alone.
  std::uint32_t mxus, mxu_rows, mxu_columns;
  /// Chips of a whole pod along x, y, z.
  std::array<std::uint32_t, Topology::kDimensions> pod;
  /// Optical switches join cubes of so many chips a side: a slice of whole cubes wraps in all
  /// dimensions, another in none. 0: no switches, a slice wraps where it is as long as the pod.
  std::uint32_t cube;
  /// What its times are worth, for the report; empty where they were compared with silicon's.
  std::string_view not_validated;

  /// A slice of so many chips along x, y, z, wired as the real ones are.
  Topology slice(const std::array<std::uint32_t, Topology::kDimensions>& chips) const;
};

/// Oldest first.
const std::vector<Generation>& generations();
/// Null for a name that is none.
const Generation* find_generation(std::string_view name);
/// The same for the name of a chip that has been checked.
const Generation& generation(std::string_view name);
/// "v2, v3 or v4".
std::string generation_names();

}  // namespace tpu::isa
