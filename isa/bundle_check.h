#pragma once

#include <optional>
#include <string>

#include "isa/program.h"

namespace tpu::isa {

/// What is wrong with an instruction by itself: a register number outside its file, an operand that
/// the signature does not have, a field that the opcode does not use. Nothing: it can be printed,
/// encoded and executed, and comes back from text and bits as the same value.
std::optional<std::string> instruction_problem(const Instruction& instruction);

/// What keeps a bundle from fitting the slots of the core:
///
/// - two scalar slots: scalar arithmetic, predicates, sld, sst, branches, traps, DMA starts, waits
///   for DMAs; one of sld, sst, DMA start and DMA wait (the SMEM port), one branch or call;
/// - two vector ALU slots: arithmetic, comparisons, transcendental pushes, vpush, vsetiar;
/// - one vector load, one vector store, one push (MXU and XLU together), one pop;
/// - one misc slot: sync flag additions, other waits, trace marks, or one mask operation (vmand,
///   vmor, vmneg, vmmov), which otherwise takes a vector ALU slot.
///
/// Counted over 2.7 million bundles of XLA's listings for v2 and v3: none breaks a rule, and every
/// limit is reached. Also refused: two writes of one register without guards, since the order would
/// decide.
std::optional<std::string> bundle_problem(const Kernel& kernel, const Bundle& bundle);

/// Checks every instruction and bundle, and that branches stay inside the kernel. Throws
/// WorkloadError "kernel NAME, bundle 0x12: ...". Readers of program files call it once, so that
/// execution need not check registers and operands.
void check_kernel(const Kernel& kernel);

}  // namespace tpu::isa
