#pragma once

#include <cstdint>
#include <sstream>
#include <string>

#include "isa/dma_descriptor.h"
#include "isa/program.h"
#include "models/origin.h"

namespace tpu {

/// A bundle of a program.
struct CodePlace {
  std::uint32_t kernel = 0;
  std::uint32_t bundle = 0;
};

inline std::string to_string(CodePlace place, const isa::Program& program) {
  std::ostringstream text;
  text << "kernel \"" << program.kernels[place.kernel].name << "\", bundle 0x" << std::hex
       << place.bundle;
  return text.str();
}

/// Addresses of a DMA that are unknown with values off: they do not change its time, but its bounds
/// cannot be checked and its data cannot be followed.
struct UnknownAddresses {
  Origin source;
  Origin destination;
  bool any() const { return !source.known() || !destination.known(); }
};

/// A word that goes from SMEM to SMEM, with an addition to a flag there.
inline bool is_word_for_other_core(const isa::DmaDescriptor& dma) {
  return dma.remote && dma.source.space == isa::MemorySpace::kSmem &&
         dma.destination.space == isa::MemorySpace::kSmem;
}

/// What the first operand of vsyncadd.remote names, as listings of libtpu 0.0.42.1 have it:
/// flag | 0x40000 | core << 20 | chip << 21, and in v4's code flag | core + 2 << 14 | chip << 18.
struct RemoteFlag {
  std::uint32_t chip = 0;
  std::uint32_t core = 0;  ///< Of the chip.
  std::uint32_t flag = 0;
  bool is_one = false;  ///< The word has what marks a flag of another core.
};
inline RemoteFlag remote_flag(std::uint32_t address, const isa::CodeConventions& conventions) {
  if (!conventions.third_core_is_first) {
    return {address >> 21, address >> 20 & 1, address & 0x3ffff, (address >> 18 & 1) != 0};
  }
  const std::uint32_t core = address >> 14 & 0xf;
  return {address >> 18, core - 2, address & 0x3fff, core >= 2};
}
/// How it is written, for an error.
inline const char* form_of_remote_flag(const isa::CodeConventions& conventions) {
  return conventions.third_core_is_first ? "flag | core + 2 << 14 | chip << 18"
                                         : "flag | 0x40000 | core << 20 | chip << 21";
}

}  // namespace tpu
