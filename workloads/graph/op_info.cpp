#include "workloads/graph/op_info.h"

#include <algorithm>

namespace tpu::hlo {

namespace {

/// Operands that are followed to find where data that is only moved comes from.
constexpr int kMostSteps = 32;

bool says_origin(const Metadata& metadata) { return !metadata.op_name->empty(); }

/// Of what a fusion holds, dots and convolutions before others.
const HloInstruction* largest_named(const Module& module, const HloInstruction& fusion) {
  const HloInstruction* best = nullptr;
  const auto rank = [](const HloInstruction& instruction) {
    const bool is_product =
        instruction.opcode == HloOpcode::kDot || instruction.opcode == HloOpcode::kConvolution;
    return std::make_pair(is_product, instruction.shape.unpadded_bytes());
  };
  for (const ComputationId called : fusion.called) {
    for (const HloInstruction& inner : module.computation(called).instructions) {
      if (!says_origin(inner.metadata)) continue;
      if (best == nullptr || rank(inner) > rank(*best)) best = &inner;
    }
  }
  return best;
}

/// Of the instruction itself, of what it fuses, or of what its first operand comes from.
const Metadata* made_from(const Module& module, const Computation& computation,
                          const HloInstruction& instruction) {
  const HloInstruction* at = &instruction;
  for (int steps = 0; steps < kMostSteps; ++steps) {
    if (says_origin(at->metadata)) return &at->metadata;
    if (at->opcode == HloOpcode::kFusion) {
      if (const HloInstruction* named = largest_named(module, *at)) return &named->metadata;
    }
    // A tuple holds many values: none of them is the origin.
    if (at->operands.empty() || at->opcode == HloOpcode::kTuple) return nullptr;
    at = &computation.at(at->operands[0]);
  }
  return nullptr;
}

/// Of the first instruction that needs the value, or the tuple that it goes into.
const Metadata* made_for(const Computation& computation, InstructionId value) {
  for (int steps = 0; steps < kMostSteps; ++steps) {
    // Users stand behind what they use: in most computations the first is near.
    const auto user = std::find_if(computation.instructions.begin() + value + 1,
                                   computation.instructions.end(), [&](const HloInstruction& each) {
                                     return std::find(each.operands.begin(), each.operands.end(),
                                                      value) != each.operands.end();
                                   });
    if (user == computation.instructions.end()) return nullptr;
    if (says_origin(user->metadata)) return &user->metadata;
    value = user->id;
  }
  return nullptr;
}

}  // namespace

const Metadata* origin_of(const Module& module, const Computation& computation,
                          const HloInstruction& instruction) {
  const Metadata* origin = made_from(module, computation, instruction);
  return origin != nullptr ? origin : made_for(computation, instruction.id);
}

std::string with_origin(const Module& module, const Computation& computation,
                        const HloInstruction& instruction) {
  const Metadata* origin = origin_of(module, computation, instruction);
  if (origin == nullptr) return instruction.name;
  const std::string op_name = origin->op_name, source = source_of(module, *origin);
  return instruction.name + (op_name.empty() ? "" : ", from " + op_name) +
         (source.empty() ? "" : " (" + source + ")");
}

std::string where_found(const Module& module, const OperationKind& kind) {
  std::string first;
  std::size_t count = 0;
  for (const Computation& computation : module.computations) {
    for (const HloInstruction& instruction : computation.instructions) {
      if (!kind(instruction)) continue;
      if (count++ == 0) first = with_origin(module, computation, instruction);
    }
  }
  return count < 2 ? first : first + ", and " + std::to_string(count - 1) + " more";
}

isa::OpInfo op_info(HloCostAnalysis& analysis, const Computation& computation,
                    const HloInstruction& instruction) {
  const Module& module = analysis.module();
  const HloCost cost = analysis.of(computation, instruction);
  isa::OpInfo info;
  info.name = instruction.name;
  info.category = category(module, instruction);
  if (const Metadata* origin = origin_of(module, computation, instruction)) {
    info.op_name = origin->op_name;
    info.source = source_of(module, *origin);
  }
  info.shape = to_string(instruction.shape);
  info.flops = static_cast<std::uint64_t>(cost.flops);
  info.matmul_flops = static_cast<std::uint64_t>(cost.matmul_flops);
  info.hbm_bytes = static_cast<std::uint64_t>(cost.hbm_bytes);
  return info;
}

}  // namespace tpu::hlo
