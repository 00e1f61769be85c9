#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include "models/machine.h"

namespace tpu {

/// Decides which step is the first that counts, for all cores of a run alike: the one behind
/// RunOptions::warmup_steps, or, where more are allowed, the first one after that which repeats one
/// of those before it (steps may take turns: the refresh of the HBM has a period of its own). A
/// step is known to be that when it ends, so each counts until its end shows that it does not. The
/// core whose step ends first decides for all, of several in that cycle the one with the least
/// number: every core that ends a step that is not decided says so when the machine has reached
/// that cycle, and goes on when all that happens in it has happened.
class WarmUp {
 public:
  WarmUp(const RunOptions& options, const MachineParams& params)
      : fixed_(options.warmup_steps),
        most_(std::max(options.warmup_steps, options.most_warmup_steps)),
        params_(params) {}

  /// Steps that surely do not count: the first one repeats none.
  std::size_t at_least() const { return fixed_ == 0 && most_ > 0 ? 1 : fixed_; }

  /// Whether the end of a step decides anything.
  bool asks(std::size_t step) const { return step >= fixed_ && step < most_; }

  /// A core's step ended in this cycle and took `cycles`, behind those `before`.
  void end_step(std::uint64_t cycle, std::uint32_t core, const std::vector<StepSpan>& before,
                std::uint64_t cycles) {
    const std::size_t asked = before.size() - fixed_;
    if (asked >= decisions_.size()) decisions_.resize(asked + 1);
    Decision& decision = decisions_[asked];
    if (std::tie(cycle, core) > std::tie(decision.cycle, decision.core)) return;
    decision = {cycle, core, repeated_step(params_, before, cycles) == 0};
  }

  /// Whether a step that has ended is one of the warm-up.
  bool has(std::size_t step) const {
    return asks(step) ? decisions_.at(step - fixed_).warm : step < fixed_;
  }

 private:
  struct Decision {
    std::uint64_t cycle = ~std::uint64_t{0};
    std::uint32_t core = 0;  ///< Which decided.
    bool warm = false;
  };

  std::size_t fixed_;
  std::size_t most_;
  const MachineParams& params_;
  std::vector<Decision> decisions_;  ///< From step `fixed_` on.
};

}  // namespace tpu
