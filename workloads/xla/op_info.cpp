#include "workloads/xla/op_info.h"

#include <algorithm>
#include <string_view>
#include <vector>

namespace tpu::xla {
namespace {

using hlo::Computation;
using hlo::ComputationId;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;

bool contains(const hlo::Module& module, const HloInstruction& instruction, HloOpcode wanted,
              int depth = 0) {
  if (instruction.opcode == wanted) return true;
  if (depth > 8) return false;
  for (const ComputationId called : instruction.called) {
    for (const HloInstruction& inner : module.computation(called).instructions) {
      if (contains(module, inner, wanted, depth + 1)) return true;
    }
  }
  return false;
}

std::string category(const hlo::Module& module, const HloInstruction& instruction) {
  if (instruction.opcode != HloOpcode::kFusion) return std::string(to_string(instruction.opcode));
  if (contains(module, instruction, HloOpcode::kConvolution) ||
      contains(module, instruction, HloOpcode::kDot)) {
    return "convolution fusion";
  }
  if (instruction.fusion_kind.get() == "kInput") return "input fusion";
  if (instruction.fusion_kind.get() == "kOutput") return "output fusion";
  if (instruction.fusion_kind.get() == "kCustom") return "custom fusion";
  return "loop fusion";
}

std::uint64_t matmul_flops(const hlo::Module& module, const Computation& computation,
                           const HloInstruction& instruction, int depth = 0) {
  if (instruction.opcode == HloOpcode::kConvolution || instruction.opcode == HloOpcode::kDot) {
    return static_cast<std::uint64_t>(flops(module, computation, instruction));
  }
  if (instruction.opcode != HloOpcode::kFusion || depth > 8) return 0;
  std::uint64_t sum = 0;
  for (const ComputationId called : instruction.called) {
    const Computation& inner = module.computation(called);
    for (const HloInstruction& part : inner.instructions) {
      sum += matmul_flops(module, inner, part, depth + 1);
    }
  }
  return sum;
}

bool reads_a_part(const HloInstruction& user, InstructionId operand) {
  const bool slices = user.opcode == HloOpcode::kSlice || user.opcode == HloOpcode::kDynamicSlice ||
                      user.opcode == HloOpcode::kGather;
  return slices && !user.operands.empty() && user.operands[0] == operand &&
         std::count(user.operands.begin(), user.operands.end(), operand) == 1;
}

/// Bytes of parameter `number` that a computation has to read.
std::uint64_t bytes_read(const Computation& computation, std::int64_t number) {
  for (const HloInstruction& parameter : computation.instructions) {
    if (parameter.opcode != HloOpcode::kParameter || parameter.parameter_number != number) continue;
    std::uint64_t parts = 0;
    bool whole = false;
    for (const HloInstruction& user : computation.instructions) {
      const auto uses = std::count(user.operands.begin(), user.operands.end(), parameter.id);
      if (uses == 0) continue;
      const bool updated = user.opcode == HloOpcode::kDynamicUpdateSlice &&
                           user.operands[0] == parameter.id && uses == 1;
      if (reads_a_part(user, parameter.id)) {
        parts += static_cast<std::uint64_t>(user.shape.unpadded_bytes());
      } else if (!updated) {
        whole = true;
      }
    }
    const auto all = static_cast<std::uint64_t>(parameter.shape.unpadded_bytes());
    return whole ? all : std::min(all, parts);
  }
  return 0;
}

/// Bytes that a computation has to write for the value `id`, part of its result.
std::uint64_t bytes_written(const Computation& computation, InstructionId id) {
  const HloInstruction& instruction = computation.at(id);
  if (instruction.opcode == HloOpcode::kTuple) {
    std::uint64_t sum = 0;
    for (const InstructionId operand : instruction.operands) {
      sum += bytes_written(computation, operand);
    }
    return sum;
  }
  if (instruction.opcode == HloOpcode::kDynamicUpdateSlice && instruction.operands.size() > 1) {
    return static_cast<std::uint64_t>(
        computation.at(instruction.operands[1]).shape.unpadded_bytes());
  }
  return static_cast<std::uint64_t>(instruction.shape.unpadded_bytes());
}

std::uint64_t compulsory_bytes(const hlo::Module& module, const Computation& computation,
                               const HloInstruction& instruction) {
  const bool fusion = instruction.opcode == HloOpcode::kFusion && instruction.called.size() == 1;
  std::uint64_t sum = 0;
  if (!fusion) {
    for (const InstructionId operand : instruction.operands) {
      sum += reads_a_part(instruction, operand)
                 ? static_cast<std::uint64_t>(instruction.shape.unpadded_bytes())
                 : static_cast<std::uint64_t>(computation.at(operand).shape.unpadded_bytes());
    }
    return sum + static_cast<std::uint64_t>(instruction.shape.unpadded_bytes());
  }
  const Computation& inner = module.computation(instruction.called[0]);
  std::vector<InstructionId> counted;
  for (std::size_t k = 0; k < instruction.operands.size(); ++k) {
    if (std::find(counted.begin(), counted.end(), instruction.operands[k]) != counted.end()) {
      continue;
    }
    counted.push_back(instruction.operands[k]);
    sum += bytes_read(inner, static_cast<std::int64_t>(k));
  }
  return sum + bytes_written(inner, inner.root);
}

}  // namespace

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

isa::OpInfo op_info(const InstructionIndex& index, const std::string& name,
                    const std::string& hlo_opcode) {
  isa::OpInfo op;
  op.name = name;
  op.category = hlo_opcode.empty() ? "runtime" : hlo_opcode;
  const InstructionIndex::Place place = index.find(name);
  if (place.instruction < 0) return op;
  const hlo::Module& module = index.module();
  const Computation& computation = module.computation(place.computation);
  const HloInstruction& instruction = computation.at(place.instruction);
  op.category = category(module, instruction);
  op.op_name = instruction.metadata.op_name;
  op.source = hlo::source_of(module, instruction.metadata);
  op.shape = to_string(instruction.shape);
  op.flops = static_cast<std::uint64_t>(flops(module, computation, instruction));
  op.matmul_flops = matmul_flops(module, computation, instruction);
  op.hbm_bytes = compulsory_bytes(module, computation, instruction);
  op.estimated_cycles = estimated_cycles(instruction);
  return op;
}

}  // namespace tpu::xla
