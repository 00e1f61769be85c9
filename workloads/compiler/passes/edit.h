#pragma once

#include <string>
#include <vector>

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Instructions that use each instruction, each once, in order.
std::vector<std::vector<hlo::InstructionId>> users_of(const hlo::Computation& computation);

/// Adds an instruction at the end, with its id; tidy() moves it before its users.
hlo::InstructionId append(hlo::Computation& computation, hlo::HloInstruction instruction);

/// Removes what the root does not need (parameters and instructions with effects stay), puts
/// operands before their users in an otherwise unchanged order, and renumbers. The computation's
/// operands must not form a cycle.
void tidy(hlo::Computation& computation);

/// Removes computations that the entry does not reach and renumbers the rest.
void remove_unused_computations(hlo::Module& module);

/// Everything that an instruction computes, as bytes: equal keys mean equal values, given equal
/// operands (which are part of the key by their ids). Names and metadata are left out; called
/// computations count by the text of their instructions.
std::string value_key(const hlo::Module& module, const hlo::HloInstruction& instruction);
/// Of an instruction that calls no computation.
std::string value_key(const hlo::HloInstruction& instruction);

}  // namespace tpu::compiler
