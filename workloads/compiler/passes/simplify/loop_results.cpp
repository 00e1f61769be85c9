#include "workloads/compiler/passes/simplify/loop_results.h"

#include <cstdlib>

#include "workloads/compiler/ir/iteration_place.h"
#include "workloads/compiler/passes/edit.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;
using hlo::Shape;

namespace {

/// Whether the slices of all iterations, which a placed update writes one after the other, are the
/// whole array: whole in all dimensions but one, which they go through in steps of their extent.
bool covers_array(const Computation& body, const HloInstruction& update, std::uint64_t trips) {
  const Shape& array = update.shape;
  const Shape& slice = body.at(update.operands[1]).shape;
  int cuts = 0;
  for (std::size_t d = 0; d < array.dimensions.size(); ++d) {
    const std::int64_t extent = slice.dimensions[d];
    if (extent == array.dimensions[d]) continue;
    ++cuts;
    if (std::abs(update.slice->strides[d]) != extent ||
        static_cast<std::int64_t>(trips) * extent != array.dimensions[d]) {
      return false;
    }
  }
  return cuts <= 1;
}

/// Whether all that the body does with this array of its state is to write it, whole over all
/// iterations.
bool is_written_whole(const ScheduledModule& body, std::size_t index, std::uint64_t trips) {
  const Computation& entry = body.module.entry_computation();
  const HloInstruction& root = entry.at(entry.root);
  const std::vector<InstructionId> parameters = entry.parameters();
  if (root.opcode != HloOpcode::kTuple || index >= root.operands.size()) return false;
  const HloInstruction& update = entry.at(root.operands[index]);
  if (!is_update_of_iteration(update) || update.operands[0] != parameters.at(index)) return false;
  if (!covers_array(entry, update, trips)) return false;
  int reads_of_array = 0, reads_of_result = 0;
  for (const HloInstruction& instruction : entry.instructions) {
    for (InstructionId operand : instruction.operands) {
      if (operand == parameters[index]) ++reads_of_array;
      if (operand == update.id) ++reads_of_result;
    }
  }
  return reads_of_array == 1 && reads_of_result == 1;
}

HloInstruction allocation_like(const HloInstruction& initial) {
  HloInstruction made;
  made.opcode = HloOpcode::kCustomCall;
  made.custom_call_target = std::string(hlo::kAllocateBuffer);
  made.name = initial.name + ".place";
  made.shape = initial.shape;
  made.metadata = initial.metadata;
  return made;
}

}  // namespace

void allocate_loop_results(ScheduledModule& scheduled) {
  Computation& entry = scheduled.module.entry_computation();
  const std::size_t count = entry.instructions.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (!runs_region(entry.instructions[i])) continue;
    const auto number = static_cast<std::size_t>(entry.instructions[i].tuple_index);
    const ScheduledRegion& region = scheduled.regions[number];
    if (!region.is_loop || !region.trips || region.bodies.size() != 1) continue;
    const std::size_t carried = entry.instructions[i].shape.elements.size();
    for (std::size_t k = 0; k < carried; ++k) {
      if (!is_written_whole(region.bodies[0], k, *region.trips)) continue;
      const HloInstruction& initial = entry.at(entry.instructions[i].operands[k]);
      const InstructionId made = append(entry, allocation_like(initial));
      entry.instructions[i].operands[k] = made;
    }
  }
  if (entry.instructions.size() > count) tidy(entry);
}

}  // namespace tpu::compiler
