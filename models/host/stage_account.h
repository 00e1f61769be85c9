#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "models/network/link_account.h"
#include "sim/base/error.h"

namespace tpu {

/// What a stage of a host did (a wire, or threads side by side), in cycles: a stretch begins and
/// ends in the cycle in which it does, so that parts of cycles do not add up to an error. Other
/// than a link of the chips it works ahead of the time: what it will do is known before the account
/// begins or the run ends in the middle of it. So each stretch waits here until its time is over.
class StageAccount {
 public:
  static std::uint64_t instant(std::uint64_t cycle, std::uint64_t, std::uint64_t) { return cycle; }
  void pass(std::uint64_t from, std::uint64_t to) { add(kBusy, from, to); }
  void idle(std::size_t cause, std::uint64_t from, std::uint64_t to) { add(1 + cause, from, to); }

  /// The account begins; where that of several cores does, with the last of them.
  void begin(std::uint64_t cycle, std::uint64_t /*free*/) {
    if (cycle < begin_) return;
    TPU_CHECK(cycle >= settled_,
              "a host's account begins in cycle " << cycle << ", " << settled_ << " are counted");
    begin_ = cycle;
    settle_all(cycle);
    counted_ = {};
  }
  /// Counts what is over, in a cycle before which no run ends.
  void settle(std::uint64_t cycle) {
    if (ahead_.size() >= most_ahead_) settle_all(cycle);
  }
  /// Up to the end of the run.
  ExactAccount end(const std::string& part, const LinkAccount::End& at, std::uint64_t,
                   const LinkAccount::Causes& causes) const {
    return end(part, at.run, std::vector<std::uint64_t>{at.free}, causes);
  }
  /// The same of several places side by side, which are free from these cycles on.
  ExactAccount end(const std::string& part, std::uint64_t cycle,
                   const std::vector<std::uint64_t>& free,
                   const LinkAccount::Causes& causes) const {
    Counts counts = counted_;
    for (const Stretch& stretch : ahead_) counts[stretch.what] += counted(stretch, cycle);
    for (const std::uint64_t since : free) counts[1] += counted({since, cycle, 1}, cycle);
    std::uint64_t all = 0;
    for (const std::uint64_t cycles : counts) all += cycles;
    TPU_CHECK(all == (cycle - begin_) * free.size(),
              part << ": of " << cycle - begin_ << " cycles of " << free.size() << ", "
                   << counts[kBusy] << " busy and " << all - counts[kBusy] << " idle");
    return LinkAccount::in_cycles(part, counts[kBusy], {counts[1], counts[2], counts[3]}, 1,
                                  causes);
  }

 private:
  static constexpr std::size_t kBusy = 0;
  static constexpr std::size_t kFewAhead = 64;
  using Counts = std::array<std::uint64_t, 1 + LinkAccount::kCauses>;
  struct Stretch {
    std::uint64_t from = 0, to = 0;
    std::size_t what = kBusy;
  };

  void add(std::size_t what, std::uint64_t from, std::uint64_t to) {
    if (to <= from) return;
    if (!ahead_.empty() && ahead_.back().what == what && ahead_.back().to == from) {
      ahead_.back().to = to;
    } else {
      ahead_.push_back({from, to, what});
    }
  }
  /// Of a stretch what lies in the account up to a cycle.
  std::uint64_t counted(const Stretch& stretch, std::uint64_t cycle) const {
    const std::uint64_t from = std::max(stretch.from, begin_);
    const std::uint64_t to = std::min(stretch.to, cycle);
    return to > from ? to - from : 0;
  }
  void settle_all(std::uint64_t cycle) {
    settled_ = std::max(settled_, cycle);
    const auto is_over = [&](const Stretch& stretch) {
      if (stretch.to > cycle) return false;
      counted_[stretch.what] += counted(stretch, cycle);
      return true;
    };
    ahead_.erase(std::remove_if(ahead_.begin(), ahead_.end(), is_over), ahead_.end());
    most_ahead_ = std::max(kFewAhead, 2 * ahead_.size());
  }

  std::uint64_t begin_ = 0;
  std::uint64_t settled_ = 0;  ///< Up to where what is over may have been counted.
  Counts counted_{};           ///< Of what is over.
  std::vector<Stretch> ahead_;
  std::size_t most_ahead_ = kFewAhead;  ///< More are worth a look at which of them are over.
};

}  // namespace tpu
