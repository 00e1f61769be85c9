#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "isa/program.h"
#include "models/machine.h"
#include "models/step_state.h"

namespace tpu {

/// The loops and conditionals of the user's model on their way through a core: which path each
/// took, and which it has to take where the user has stated one. No part of the hardware.
class ControlPaths {
 public:
  ControlPaths(const isa::Program& program, const RunOptions& options);

  /// Whether the branch in this bundle of the top-level program is taken; `known`: what the code
  /// computed, if it is known. Where it is neither known nor stated, nothing; with `assume` a loop
  /// makes one trip and a conditional runs its first branch.
  std::optional<bool> decide(std::uint32_t bundle, std::optional<bool> known, bool assume);
  bool any() const { return !points_.empty(); }
  const std::vector<PathTaken>& taken() const { return taken_; }
  /// The loop that has made more trips than RunOptions::max_trips, if any.
  const isa::ControlOp* endless() const { return endless_; }
  void describe(StepState& state) const;

 private:
  struct Place {
    std::uint32_t op = 0;
    std::uint32_t point = 0;
  };
  struct Now {
    std::uint64_t trips = 0;  ///< Of the loop that runs.
    std::vector<bool> open;   ///< Branches that may still run.
    bool counted = false;     ///< The branch that runs is known.
  };
  std::optional<bool> wanted(const Place& place) const;
  std::optional<bool> wanted_by(const isa::ControlPoint& point, const Place& place,
                                std::uint64_t number) const;
  void note_loop(const Place& place, bool trip);
  void note_branch(const Place& place, bool taken);
  void begin_execution(std::uint32_t op);

  const isa::Program& program_;
  const RunOptions& options_;
  std::unordered_map<std::uint32_t, Place> points_;  ///< By bundle.
  std::vector<Now> now_;                             ///< By op.
  std::vector<PathTaken> taken_;
  const isa::ControlOp* endless_ = nullptr;
};

}  // namespace tpu
