#pragma once

#include <cstdint>

#include "isa/core_state.h"
#include "isa/name_check.h"
#include "isa/program.h"

namespace tpu::isa {

/// Executes one bundle with values: all instructions read the state before the bundle, then all
/// write. Control (branches, calls, waits) is the sequencer's: ask control_of() before this. DMA
/// starts and sync flag additions go to `surroundings`.
///
/// `names`, when given and active, checks and updates the names of registers (XLA's code).
///
/// Throws ProgramFault, with the instruction's text in front, for what the machine cannot do: VMEM
/// or SMEM out of range, a pop from an empty queue, words that are no DMA, a unit that the core
/// does not have, shalt.err.
///
/// Loads of rows that nothing wrote give kUnwrittenWord. A row counts as written when any part of
/// it was stored or a DMA delivered it.
void execute_bundle(const Kernel& kernel, std::uint32_t bundle, CoreState& state,
                    Surroundings& surroundings, const NameCheck* names = nullptr);

/// The VMEM or CMEM row of each sublane that an instruction with such an address touches; throws
/// ProgramFault when one of those that `sublanes` (bit i: sublane i) selects lies outside.
std::array<std::uint32_t, kSublanes> vmem_rows(const Instruction& instruction,
                                               const CoreState& state, std::uint32_t sublanes);

/// The sublanes that the address itself selects (sm).
std::uint32_t sublane_mask(const Address& address, const ScalarState& state);

}  // namespace tpu::isa
