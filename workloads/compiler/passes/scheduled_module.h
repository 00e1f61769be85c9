#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "isa/program.h"
#include "workloads/compiler/ir/dimension_order.h"
#include "workloads/graph/graph.h"
#include "workloads/graph/while_loop_analysis.h"

namespace tpu::compiler {

/// Where every array of a computation lies in HBM.
struct HbmPlan {
  /// First granule of each array of each instruction (one for an array, one per element of a
  /// tuple); empty for constants that stand in no buffer.
  std::vector<std::vector<std::uint64_t>> granules_of;
  /// How far each of these places moves from one iteration of the body's loop to the next, in
  /// granules (`passes/simplify/loop_slices.h`).
  std::vector<std::vector<std::int64_t>> steps_of;
  /// Updates of slices that who makes the update has written in place: no kernels.
  std::set<hlo::InstructionId> written_in_place;
  std::vector<isa::Buffer> buffers;  ///< Those of loops and branches included.
  std::uint64_t peak_granules = 0;
  std::uint64_t infeed_granule = 0;   ///< Where the batch of a step goes: one range.
  std::uint64_t infeed_granules = 0;  ///< 0: the module takes no batch.
};

/// Why there is no kernel for an instruction, by its key: found by passes that rewrite operations,
/// reported with everything else that has none.
using Refusals = std::map<std::string, std::string>;
inline std::string refusal_key(const hlo::HloInstruction& instruction) {
  return std::string(hlo::to_string(instruction.opcode)) + " " + instruction.name;
}

/// Whether the instruction is a while or conditional whose computations have been taken out: its
/// tuple_index says which region of the module it runs.
inline bool runs_region(const hlo::HloInstruction& instruction) {
  return (instruction.opcode == hlo::HloOpcode::kWhile ||
          instruction.opcode == hlo::HloOpcode::kConditional) &&
         instruction.called.empty();
}

struct ScheduledModule;

/// Orders of dimensions in which whoever runs a module has its arrays, by number of the parameter
/// and by place in the result's tuple; empty: as the compiler likes.
struct GivenOrders {
  std::vector<DimensionOrder> parameters, results;
};

/// What a while or conditional runs.
///
/// Each body is a module whose parameters are arrays. Of a loop: parameters are the carried arrays,
/// in whose memory the next iteration's values appear (aliases), then what the body only reads.
/// Where `trips` is not known, a second module has the same parameters and one more, whose memory
/// takes the predicate. Of a conditional: a module per branch, whose parameters are what it reads,
/// then the places of the results.
struct ScheduledRegion {
  bool is_loop = false;
  bool by_predicate = false;  ///< A conditional's selector is a predicate: 0 is the second branch.
  std::optional<std::uint64_t> trips;
  std::vector<ScheduledModule> bodies;
};

/// A module that is ready for its kernels.
struct ScheduledModule {
  hlo::Module module;
  HbmPlan plan;
  std::vector<ScheduledRegion> regions;
  Refusals refusals;
  std::optional<hlo::LoopCounter> counter = std::nullopt;  ///< Of the body of a counted loop.
  bool counter_is_read = true;                             ///< Behind the loop.
  /// Of the whole program what its module states; of one that tests a loop's predicate, how the
  /// body has the arrays.
  GivenOrders given = {};
};

}  // namespace tpu::compiler
