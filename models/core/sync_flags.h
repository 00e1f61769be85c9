#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "models/machine.h"
#include "models/step_state.h"

namespace tpu {

/// Who adds to a sync flag, for the account of the wait that the addition ends.
struct FlagRaiser {
  CoreState reason = CoreState::kMemoryWait;
  bool is_peer = false;    ///< Another core: what follows says which, and since when it was sent.
  std::uint32_t core = 0;  ///< Its number in the slice.
  std::uint64_t sent = 0;
  std::uint32_t transfer = ~std::uint32_t{0};  ///< Its number in WaitGraph, or none.

  /// What `core` sent in cycle `sent`.
  static FlagRaiser peer(std::uint32_t core, std::uint64_t sent) {
    return {CoreState::kIciWait, true, core, sent};
  }
};

/// The sync flags of a core: counters of 32 bits, modulo 2^32, compared as signed numbers. A DMA
/// that completes adds to one in no time; the core waits for one at a time.
class SyncFlags {
 public:
  explicit SyncFlags(std::uint32_t count) : values_(count), recent_(count) {}

  std::uint32_t count() const { return static_cast<std::uint32_t>(values_.size()); }
  std::uint32_t value(std::uint32_t flag) const { return values_[flag]; }
  bool at_least(std::uint32_t flag, std::uint32_t wanted) const {
    return static_cast<std::int32_t>(values_[flag]) >= static_cast<std::int32_t>(wanted);
  }

  /// Adds. True when the waiting core may go on because of it.
  bool add(std::uint32_t flag, std::uint32_t value, const FlagRaiser& raiser) {
    const bool was_satisfied = waiting_ && at_least(wait_.flag, wait_.wanted);
    values_[flag] += value;
    recent_[flag].add(value, values_[flag], raiser.transfer);
    if (!waiting_ || was_satisfied || wait_.flag != flag || !at_least(flag, wait_.wanted)) {
      return false;
    }
    wait_.raiser = raiser;
    return true;
  }

  /// The transfer with whose addition the flag first was at least `wanted`, of the last few.
  std::uint32_t reached_by(std::uint32_t flag, std::uint32_t wanted) const {
    return recent_[flag].reached_by(static_cast<std::int32_t>(wanted));
  }

  void describe(StepState& state) const {
    if (waiting_) state.leave_open();
    std::vector<std::uint64_t> set;
    for (std::uint32_t flag = 0; flag < count(); ++flag) {
      if (values_[flag] != 0) set.push_back(std::uint64_t{flag} << 32 | values_[flag]);
    }
    state.add_list(set);
  }

  struct Wait {
    std::uint32_t flag = 0;
    std::uint32_t wanted = 0;
    std::uint64_t since = 0;
    FlagRaiser raiser;  ///< Of the addition that ended it.
  };
  void begin_wait(std::uint32_t flag, std::uint32_t wanted, std::uint64_t now) {
    waiting_ = true;
    wait_ = {flag, wanted, now, {}};
  }
  bool waiting() const { return waiting_; }
  const Wait& wait() const { return wait_; }
  void end_wait() { waiting_ = false; }

 private:
  /// The last additions to a flag: its value behind each, less what was taken away since.
  class Recent {
   public:
    void add(std::uint32_t value, std::uint32_t after, std::uint32_t transfer) {
      if (static_cast<std::int32_t>(value) <= 0) {
        for (std::uint32_t& each : after_) each += value;
        return;
      }
      transfers_[next_] = transfer;
      after_[next_] = after;
      next_ = (next_ + 1) % kKept;
    }
    std::uint32_t reached_by(std::int32_t wanted) const {
      for (std::uint32_t i = 0; i < kKept; ++i) {
        const std::uint32_t place = (next_ + i) % kKept;
        if (static_cast<std::int32_t>(after_[place]) >= wanted) return transfers_[place];
      }
      return kNone;
    }

   private:
    static constexpr std::uint32_t kKept = 4, kNone = ~std::uint32_t{0};
    std::array<std::uint32_t, kKept> after_{};
    std::array<std::uint32_t, kKept> transfers_{kNone, kNone, kNone, kNone};
    std::uint32_t next_ = 0;
  };

  std::vector<std::uint32_t> values_;
  std::vector<Recent> recent_;
  bool waiting_ = false;
  Wait wait_;
};

}  // namespace tpu
