#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "models/machine.h"

namespace tpu {

/// Decides which step is the first that counts, for all cores of a run alike: the one behind
/// RunOptions::warmup_steps, or, where more are allowed, the first one after that which repeats one
/// of those before it (steps may take turns: the refresh of the HBM has a period of its own). A
/// step is known to be that when it ends, so each counts until its end shows that it does not. The
/// first core that ends a step decides for the others, which have not ended theirs.
class WarmUp {
 public:
  WarmUp(const RunOptions& options, const MachineParams& params)
      : fixed_(options.warmup_steps),
        most_(std::max(options.warmup_steps, options.most_warmup_steps)),
        params_(params) {}

  /// Steps that surely do not count: the first one repeats none.
  std::size_t at_least() const { return fixed_ == 0 && most_ > 0 ? 1 : fixed_; }

  /// Whether a core's step that took `cycles` is still one of the warm-up, behind those `before`.
  bool has(const std::vector<StepSpan>& before, std::uint64_t cycles) {
    const std::size_t step = before.size();
    if (step < fixed_) return true;
    if (step == decided_.size() + fixed_) {
      decided_.push_back(step < most_ && repeated_step(params_, before, cycles) == 0);
    }
    return decided_[step - fixed_];
  }

 private:
  std::size_t fixed_;
  std::size_t most_;
  const MachineParams& params_;
  std::vector<bool> decided_;  ///< From step `fixed_` on.
};

}  // namespace tpu
