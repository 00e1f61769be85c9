#pragma once

#include "isa/meaning.h"
#include "models/core/decoded_kernel.h"
#include "models/core/scalar_unit.h"
#include "models/network/ici_message.h"
#include "models/params.h"

namespace tpu {

/// The members of a class start a DMA each where the representative starts one. They count as one
/// DMA when they differ only in what costs no time: addresses in VMEM, and the core that a remote
/// one goes to, of which the interconnect takes care. Throws MembersDiffer otherwise.
///
/// Returns where the members' remote DMAs go; nothing for a local one, and for a unit of one core.
MemberDestinations check_member_dmas(ScalarUnit& scalar, const isa::Instruction& instruction,
                                     const Interaction& interaction,
                                     const isa::DmaDescriptor& representative,
                                     const MachineParams& params);

/// Where the members' additions to remote flags go; `address` is the representative's.
MemberDestinations check_member_additions(const ScalarUnit& scalar, const ScalarOperand& address,
                                          const MachineParams& params,
                                          const isa::CodeConventions& conventions);

}  // namespace tpu
