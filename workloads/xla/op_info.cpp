#include "workloads/xla/op_info.h"

#include <string_view>

#include "workloads/graph/op_info.h"

namespace tpu::xla {

using hlo::ComputationId;
using hlo::HloInstruction;

InstructionIndex::InstructionIndex(const hlo::Module& module) : module_(module) {
  for (std::size_t c = 0; c < module.computations.size(); ++c) {
    for (const HloInstruction& instruction : module.computations[c].instructions) {
      places_.emplace(instruction.name, Place{static_cast<ComputationId>(c), instruction.id});
    }
  }
}

InstructionIndex::Place InstructionIndex::find(const std::string& name) const {
  const auto found = places_.find(name);
  return found == places_.end() ? Place{} : found->second;
}

std::uint64_t estimated_cycles(const HloInstruction& instruction) {
  constexpr std::string_view kKey = "\"estimated_cycles\":\"";
  const std::size_t key = instruction.raw_attributes->find(kKey);
  if (key == std::string::npos) return 0;
  std::uint64_t cycles = 0;
  for (std::size_t k = key + kKey.size(); k < instruction.raw_attributes->size(); ++k) {
    const char c = instruction.raw_attributes.get()[k];
    if (c < '0' || c > '9' || cycles > (std::uint64_t{1} << 59)) break;
    cycles = cycles * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return cycles;
}

isa::OpInfo op_info(hlo::HloCostAnalysis& analysis, const InstructionIndex& index,
                    const std::string& name, const std::string& hlo_opcode) {
  const InstructionIndex::Place place = index.find(name);
  if (place.instruction < 0) {
    isa::OpInfo op;
    op.name = name;
    op.category = hlo_opcode.empty() ? "runtime" : hlo_opcode;
    return op;
  }
  const hlo::Computation& computation = index.module().computation(place.computation);
  const HloInstruction& instruction = computation.at(place.instruction);
  isa::OpInfo op = hlo::op_info(analysis, computation, instruction);
  op.estimated_cycles = estimated_cycles(instruction);
  return op;
}

}  // namespace tpu::xla
