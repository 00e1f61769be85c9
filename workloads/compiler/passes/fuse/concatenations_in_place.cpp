#include "workloads/compiler/passes/fuse/concatenations_in_place.h"

#include <algorithm>
#include <optional>
#include <set>

#include "workloads/compiler/ir/array_part.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/passes/edit.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;

namespace {

using Users = std::vector<std::vector<InstructionId>>;

/// The fusion that makes all operands, each a result of its own that is read nowhere else.
std::optional<InstructionId> maker_of_parts(const Computation& entry, const Users& users,
                                            const HloInstruction& concatenate) {
  std::set<std::int64_t> results;
  std::optional<InstructionId> maker;
  for (const InstructionId operand : concatenate.operands) {
    const HloInstruction& part = entry.at(operand);
    if (part.opcode != HloOpcode::kGetTupleElement) return std::nullopt;
    const bool is_private = users[static_cast<std::size_t>(operand)].size() == 1;
    if (!is_private || !results.insert(part.tuple_index).second) return std::nullopt;
    if (maker && *maker != part.operands[0]) return std::nullopt;
    maker = part.operands[0];
  }
  return maker;
}

/// Whether the fusion is a loop over the very extent of its results, and computes the operands.
bool makes_elements(const hlo::Module& module, const HloInstruction& fusion,
                    const HloInstruction& concatenate) {
  if (fusion.opcode != HloOpcode::kFusion || fusion.fusion_kind.get() != "kLoop") return false;
  if (joins_moves(module, fusion)) return false;
  const Computation& entry = module.entry_computation();
  const Computation& fused = module.computation(fusion.called[0]);
  const std::vector<InstructionId>& results = fused.at(fused.root).operands;
  const hlo::Shape& part = entry.at(concatenate.operands[0]).shape;
  const auto is_over_part = [&](InstructionId result) {
    const HloInstruction& made = fused.at(result);
    const bool is_written_in_place = made.opcode == HloOpcode::kConcatenate;
    return (is_written_in_place ? fused.at(made.operands[0]) : made).shape.dimensions ==
           part.dimensions;
  };
  const auto is_computed = [&](InstructionId operand) {
    const auto result = static_cast<std::size_t>(entry.at(operand).tuple_index);
    return is_computed_part(fused.at(results[result]));
  };
  return std::all_of(results.begin(), results.end(), is_over_part) &&
         std::all_of(concatenate.operands.begin(), concatenate.operands.end(), is_computed);
}

/// The concatenation comes behind the results that are left.
void write_parts(hlo::Module& module, InstructionId fusion_id, InstructionId concatenate_id) {
  Computation& entry = module.entry_computation();
  HloInstruction& fusion = entry.at(fusion_id);
  HloInstruction& concatenate = entry.at(concatenate_id);
  Computation& fused = module.computations[static_cast<std::size_t>(fusion.called[0])];
  const std::vector<InstructionId> results = fused.at(fused.root).operands;
  std::vector<std::int64_t> places(results.size(), 0);  // Of the results that are left.
  HloInstruction inner = concatenate;
  for (InstructionId& operand : inner.operands) {
    const auto result = static_cast<std::size_t>(entry.at(operand).tuple_index);
    operand = results[result];
    places[result] = -1;
  }
  inner.control_predecessors.reset();
  std::vector<InstructionId> left;
  std::vector<hlo::Shape> shapes;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (places[i] < 0) continue;
    places[i] = static_cast<std::int64_t>(left.size());
    left.push_back(results[i]);
    shapes.push_back(fusion.shape.elements[i]);
  }
  const auto place = static_cast<std::int64_t>(left.size());
  left.push_back(append(fused, std::move(inner)));
  shapes.push_back(concatenate.shape);
  if (left.size() == 1) {
    fused.root = left[0];
    fusion.shape = concatenate.shape;
  } else {
    fused.at(fused.root).operands = left;
    fused.at(fused.root).shape.elements = shapes;
    fusion.shape.elements = shapes;
  }
  tidy(fused);
  for (HloInstruction& element : entry.instructions) {
    if (element.opcode != HloOpcode::kGetTupleElement || element.operands[0] != fusion_id) continue;
    const std::int64_t now = places[static_cast<std::size_t>(element.tuple_index)];
    element.tuple_index = now < 0 ? place : now;  // Nobody reads a part any more.
  }
  if (left.size() == 1) {
    for (HloInstruction& user : entry.instructions) {
      std::replace(user.operands.begin(), user.operands.end(), concatenate_id, fusion_id);
    }
    if (entry.root == concatenate_id) entry.root = fusion_id;
    return;
  }
  concatenate.opcode = HloOpcode::kGetTupleElement;
  concatenate.operands = {fusion_id};
  concatenate.dimensions.clear();
  concatenate.tuple_index = place;
}

}  // namespace

void write_concatenations_in_place(hlo::Module& module) {
  Computation& entry = module.entry_computation();
  const Users users = users_of(entry);
  bool changed = false;
  for (const HloInstruction& instruction : entry.instructions) {
    if (instruction.opcode != HloOpcode::kConcatenate) continue;
    const std::optional<InstructionId> maker = maker_of_parts(entry, users, instruction);
    if (!maker || !makes_elements(module, entry.at(*maker), instruction)) continue;
    if (parts_of_concatenation(entry, instruction).empty()) continue;
    write_parts(module, *maker, instruction.id);
    changed = true;
  }
  if (changed) tidy(entry);
}

}  // namespace tpu::compiler
