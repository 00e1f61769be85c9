#pragma once

#include <cstddef>
#include <vector>

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// A kernel as a computation of its own, with operands in the computation that has it.
struct MemberBody {
  hlo::Computation fused;
  std::vector<hlo::InstructionId> operands;
};

/// The instruction as a slice, where it is one or the name of a part of an array.
hlo::HloInstruction as_slice(hlo::HloInstruction instruction);

/// Of an instruction that only moves elements: scalar constants stand inside, every array is one
/// parameter.
MemberBody body_of_move(const hlo::Computation& computation, const hlo::HloInstruction& move);

/// The outer member with the inner one's instructions in place of a parameter.
MemberBody inlined(const MemberBody& outer, std::size_t parameter, const MemberBody& inner);

/// The member becomes a loop fusion of the body, the computation of the given number: which is
/// handed back, its names made unique.
hlo::Computation make_fusion(hlo::HloInstruction& member, MemberBody body, std::size_t number);

/// Whether all instructions work on arrays of one extent and layout, element by element, with sums
/// of them; the parameter is such an array.
bool may_read_elsewhere(const hlo::Computation& fused, std::size_t parameter,
                        const hlo::Shape& space);

}  // namespace tpu::compiler
