#pragma once

#include <cstdint>
#include <sstream>
#include <string>

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

/// What the first operand of vsyncadd.remote names: flag | 0x40000 | core << 20 | chip << 21, as
/// listings of libtpu 0.0.42.1 have it.
struct RemoteFlag {
  std::uint32_t chip = 0;
  std::uint32_t core = 0;  ///< Of the chip.
  std::uint32_t flag = 0;
};
inline RemoteFlag remote_flag(std::uint32_t address) {
  return {address >> 21, address >> 20 & 1, address & 0x3ffff};
}

}  // namespace tpu
