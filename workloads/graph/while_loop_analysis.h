#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "workloads/graph/graph.h"

namespace tpu::hlo {

/// The counter of `while (counter <op> limit) counter += step`: it is `first`, `first + step`, ...
struct LoopCounter {
  /// Which array of the loop's state, tuples of tuples counted array by array. For the body of a
  /// loop that has an array per parameter, the parameter's number.
  std::int64_t parameter_number = 0;
  std::int64_t first = 0, step = 0;
  std::uint64_t trips = 0;
};

/// The computations of a loop. Body and condition take the state in one parameter or in several,
/// and may stand in modules of their own.
struct LoopCode {
  const Module& body_module;
  const Computation& body;
  const Module& condition_module;
  const Computation& condition;
  /// The state when the loop begins, whole or array by array, as instructions of `parent`.
  const Module& parent_module;
  const Computation& parent;
  std::vector<InstructionId> initial;
};

/// The counter of a loop whose condition compares an integer of the state with a constant and whose
/// body adds a constant to it; constants may be state that no iteration changes. Tuples, copies,
/// calls and fusions on the way are seen through. Without a counter there is no trip count to know
/// before the loop runs, or it is above 2^24.
std::optional<LoopCounter> loop_counter(const LoopCode& code);

/// How often a while of this computation runs its body: as its backend_config states it
/// ("known_trip_count":{"n":"5"}), else by its counter; none where that depends on data.
std::optional<std::uint64_t> trip_count(const Module& module, const Computation& computation,
                                        const HloInstruction& loop);

/// Names of the whiles without a trip count and of the conditionals, wherever they stand: what a
/// step executes there depends on its data.
std::vector<std::string> data_dependent_control(const Module& module);

}  // namespace tpu::hlo
