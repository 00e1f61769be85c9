#pragma once

#include <string>

namespace tpu::isa {

/// The tables of isa/README.md, from opcodes.def: one per unit, a row per instruction.
std::string manual_tables();

}  // namespace tpu::isa
