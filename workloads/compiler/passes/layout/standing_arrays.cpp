#include "workloads/compiler/passes/layout/standing_arrays.h"

#include <algorithm>

#include "sim/base/contains.h"

namespace tpu::compiler {

using hlo::HloOpcode;
using hlo::InstructionId;

bool stand_nowhere(const hlo::Computation& computation,
                   const std::vector<std::vector<InstructionId>>& users,
                   const std::vector<InstructionId>& arrays) {
  const auto is_made = [](HloOpcode opcode) {
    return opcode == HloOpcode::kBroadcast || opcode == HloOpcode::kIota ||
           hlo::is_elementwise(opcode);
  };
  return std::all_of(arrays.begin(), arrays.end(), [&](InstructionId id) {
    const std::vector<InstructionId>& readers = users[static_cast<std::size_t>(id)];
    return id != computation.root && is_made(computation.at(id).opcode) &&
           std::all_of(readers.begin(), readers.end(), [&](InstructionId user) {
             return computation.at(user).opcode == HloOpcode::kReduce || contains(arrays, user);
           });
  });
}

}  // namespace tpu::compiler
