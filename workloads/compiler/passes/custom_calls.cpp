#include "workloads/compiler/passes/custom_calls.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

#include "sim/base/error.h"

namespace tpu::compiler {

using hlo::HloInstruction;
using hlo::HloOpcode;

namespace {

/// Targets whose result is their operand.
constexpr std::array<std::string_view, 9> kIdentities{"Sharding",
                                                      "SPMDFullToShardShape",
                                                      "SPMDShardToFullShape",
                                                      "xla.sdy.FuncResultSharding",
                                                      "xla.sdy.Sharding",
                                                      "AssumeGatherIndicesInBound",
                                                      "AnnotateDevicePlacement",
                                                      "MoveToDevice",
                                                      "MoveToHost"};

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

}  // namespace

void resolve_custom_calls(hlo::Module& module) {
  for (hlo::Computation& computation : module.computations) {
    for (HloInstruction& instruction : computation.instructions) {
      if (instruction.opcode != HloOpcode::kCustomCall) continue;
      const std::string& target = instruction.custom_call_target;
      if (std::find(kIdentities.begin(), kIdentities.end(), target) == kIdentities.end()) continue;
      if (instruction.operands.size() != 1 || instruction.shape.is_tuple()) continue;
      if (module.replicas > 1 && splits_arrays(instruction.raw_attributes)) {
        throw WorkloadError(instruction.name +
                            ": expected a module after SPMD partitioning, or one whose arrays " +
                            "are whole, found the annotation " + instruction.raw_attributes.get() +
                            "; give the module that XLA prints after the pass spmd-partitioning");
      }
      if (!same_extent(instruction.shape, computation.at(instruction.operands[0]).shape)) continue;
      instruction.opcode = HloOpcode::kCopy;
      instruction.custom_call_target.reset();
      instruction.raw_attributes.reset();
    }
  }
}

}  // namespace tpu::compiler
