#include "workloads/compiler/passes/expand/custom_calls.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "sim/base/error.h"
#include "workloads/compiler/passes/edit.h"

namespace tpu::compiler {

using hlo::HloInstruction;
using hlo::HloOpcode;

namespace {

/// Targets whose result is their operand.
constexpr std::array<std::string_view, 15> kIdentities{"Sharding",
                                                       "SPMDFullToShardShape",
                                                       "SPMDShardToFullShape",
                                                       "xla.sdy.FuncResultSharding",
                                                       "xla.sdy.Sharding",
                                                       "AssumeGatherIndicesInBound",
                                                       "AnnotateDevicePlacement",
                                                       "MoveToDevice",
                                                       "MoveToHost",
                                                       "PinToDevice",
                                                       "PinToDeviceSram",
                                                       "PinToHost",
                                                       "Pin",
                                                       "Unpin",
                                                       "annotate_device_placement"};

/// The tiles of `devices=[8,1,1]<=[8]`: true when one is more than 1; those that only replicate
/// (last_tile_dim_replicate) count, too, since the module then says what each of several devices
/// does.
bool splits_arrays(const std::string& annotation) {
  const std::size_t begin = annotation.find("devices=[");
  if (begin == std::string::npos) return false;
  for (std::size_t at = begin + 9; at < annotation.size() && annotation[at] != ']';) {
    if (std::isdigit(static_cast<unsigned char>(annotation[at])) == 0) {
      ++at;
      continue;
    }
    const std::size_t end = annotation.find_first_not_of("0123456789", at);
    if (annotation.substr(at, end - at) != "1") return true;
    at = end;
  }
  return false;
}

bool is_identity(const hlo::Computation& computation, const HloInstruction& instruction) {
  if (instruction.opcode != HloOpcode::kCustomCall) return false;
  const std::string& target = instruction.custom_call_target;
  return std::find(kIdentities.begin(), kIdentities.end(), target) != kIdentities.end() &&
         instruction.operands.size() == 1 && !instruction.shape.is_tuple() &&
         same_extent(instruction.shape, computation.at(instruction.operands[0]).shape);
}

}  // namespace

void drop_scalar_annotations(hlo::Module& module) {
  for (hlo::Computation& computation : module.computations) {
    std::vector<hlo::InstructionId> stands_for;
    bool found = false;
    for (HloInstruction& instruction : computation.instructions) {
      for (hlo::InstructionId& operand : instruction.operands) {
        operand = stands_for[static_cast<std::size_t>(operand)];
      }
      const bool drops = instruction.shape.rank() == 0 && is_identity(computation, instruction);
      stands_for.push_back(drops ? instruction.operands[0] : instruction.id);
      found = found || drops;
    }
    if (!found) continue;
    computation.root = stands_for[static_cast<std::size_t>(computation.root)];
    tidy(computation);
  }
}

void resolve_custom_calls(hlo::Module& module) {
  drop_scalar_annotations(module);
  for (hlo::Computation& computation : module.computations) {
    for (HloInstruction& instruction : computation.instructions) {
      if (!is_identity(computation, instruction)) continue;
      if (module.replicas > 1 && splits_arrays(instruction.raw_attributes)) {
        throw WorkloadError(instruction.name +
                            ": expected a module after SPMD partitioning, or one whose arrays " +
                            "are whole, found the annotation " + instruction.raw_attributes.get() +
                            "; give the module that XLA prints after the pass spmd-partitioning");
      }
      instruction.opcode = HloOpcode::kCopy;
      instruction.custom_call_target.reset();
      instruction.raw_attributes.reset();
    }
  }
}

}  // namespace tpu::compiler
