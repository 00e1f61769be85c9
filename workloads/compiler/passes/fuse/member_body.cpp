#include "workloads/compiler/passes/fuse/member_body.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "workloads/compiler/ir/array_part.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/graph/op_info.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;

HloInstruction as_slice(HloInstruction instruction) {
  if (is_named_part(instruction)) instruction.opcode = HloOpcode::kSlice;
  return instruction;
}

MemberBody body_of_move(const Computation& computation, const HloInstruction& member) {
  MemberBody body;
  HloInstruction copy = member;
  std::vector<HloInstruction> constants;
  for (std::size_t i = 0; i < member.operands.size(); ++i) {
    const HloInstruction& operand = computation.at(member.operands[i]);
    HloInstruction made;
    made.shape = operand.shape;
    made.name = operand.name;
    if (operand.opcode == HloOpcode::kConstant && operand.shape.rank() == 0) {
      made.opcode = HloOpcode::kConstant;
      made.literal = operand.literal;
    } else {
      made.opcode = HloOpcode::kParameter;
      made.parameter_number = static_cast<std::int64_t>(body.operands.size());
      body.operands.push_back(operand.id);
    }
    copy.operands[i] = append(body.fused, std::move(made));
  }
  copy.control_predecessors.reset();
  body.fused.root = append(body.fused, std::move(copy));
  return body;
}

MemberBody inlined(const MemberBody& outer, std::size_t parameter, const MemberBody& inner) {
  MemberBody made;
  std::map<InstructionId, InstructionId> place_of;  // Of operands: parameters of the result.
  const auto take = [&](const MemberBody& from,
                        const std::map<InstructionId, InstructionId>& known) {
    std::map<InstructionId, InstructionId> renamed = known;
    for (const HloInstruction& instruction : from.fused.instructions) {
      if (renamed.count(instruction.id) != 0) continue;
      HloInstruction copy = instruction;
      if (copy.opcode == HloOpcode::kParameter) {
        const InstructionId operand =
            from.operands.at(static_cast<std::size_t>(copy.parameter_number));
        const auto found = place_of.find(operand);
        if (found != place_of.end() &&
            made.fused.at(found->second).shape.dimensions == instruction.shape.dimensions) {
          renamed[instruction.id] = found->second;
          continue;
        }
        copy.parameter_number = static_cast<std::int64_t>(made.operands.size());
        made.operands.push_back(operand);
      }
      for (InstructionId& operand : copy.operands) operand = renamed.at(operand);
      const bool is_parameter = copy.opcode == HloOpcode::kParameter;
      const InstructionId id = append(made.fused, std::move(copy));
      renamed[instruction.id] = id;
      if (is_parameter) place_of[made.operands.back()] = id;
    }
    return renamed;
  };
  const auto of_inner = take(inner, {});
  const InstructionId replaced = outer.fused.parameters().at(parameter);
  const auto of_outer = take(outer, {{replaced, of_inner.at(inner.fused.root)}});
  made.fused.root = of_outer.at(outer.fused.root);
  return made;
}

Computation make_fusion(HloInstruction& member, MemberBody body, std::size_t number) {
  std::set<std::string> names;
  for (HloInstruction& each : body.fused.instructions) {
    while (!names.insert(each.name).second) each.name += ".moved";
  }
  body.fused.name = "moved." + member.name + "." + std::to_string(number);
  if (member.opcode != HloOpcode::kFusion) {
    HloInstruction fusion;
    fusion.id = member.id;
    fusion.opcode = HloOpcode::kFusion;
    fusion.fusion_kind = std::string("kLoop");
    fusion.name = member.name;
    fusion.shape = member.shape;
    fusion.metadata = member.metadata;
    member = std::move(fusion);
  }
  member.operands = std::move(body.operands);
  member.called = {static_cast<hlo::ComputationId>(number)};
  return std::move(body.fused);
}

bool may_read_elsewhere(const Computation& fused, std::size_t parameter, const hlo::Shape& space) {
  const InstructionId replaced = fused.parameters().at(parameter);
  for (const HloInstruction& inner : fused.instructions) {
    if (inner.shape.is_tuple()) continue;
    const bool is_space = inner.shape.dimensions == space.dimensions;
    if (!is_space && inner.shape.element_count() >= space.element_count()) return false;
    const bool is_other_layout =
        !inner.shape.layout.minor_to_major.empty() && !(inner.shape.layout == space.layout);
    if (is_space && is_other_layout) return false;
    switch (inner.opcode) {
      case HloOpcode::kParameter:
      case HloOpcode::kConstant:
      case HloOpcode::kIota:
      case HloOpcode::kReduce:
        break;
      case HloOpcode::kBroadcast:
        if (inner.operands[0] == replaced) return false;
        if (!std::is_sorted(inner.dimensions.begin(), inner.dimensions.end())) return false;
        break;
      default:
        if (!hlo::is_elementwise(inner.opcode)) return false;
    }
  }
  return true;
}

}  // namespace tpu::compiler
