#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "models/machine.h"

namespace tpu {

/// The sync flags of a core: counters of 32 bits, modulo 2^32, compared as signed numbers. A DMA
/// that completes adds to one in no time; the core waits for one at a time.
class SyncFlags {
 public:
  explicit SyncFlags(std::uint32_t count) : values_(count) {}

  std::uint32_t count() const { return static_cast<std::uint32_t>(values_.size()); }
  std::uint32_t value(std::uint32_t flag) const { return values_[flag]; }
  bool at_least(std::uint32_t flag, std::uint32_t wanted) const {
    return static_cast<std::int32_t>(values_[flag]) >= static_cast<std::int32_t>(wanted);
  }

  /// Adds; `reason` is what a wait for this addition counts as. True when the waiting core may go
  /// on because of it.
  bool add(std::uint32_t flag, std::uint32_t value, CoreState reason) {
    const bool was_satisfied = waiting_ && at_least(wait_.flag, wait_.wanted);
    values_[flag] += value;
    if (!waiting_ || was_satisfied || wait_.flag != flag || !at_least(flag, wait_.wanted)) {
      return false;
    }
    wait_.reason = reason;
    return true;
  }

  struct Wait {
    std::uint32_t flag = 0;
    std::uint32_t wanted = 0;
    std::uint64_t since = 0;
    CoreState reason = CoreState::kMemoryWait;  ///< Of the addition that ended it.
  };
  void begin_wait(std::uint32_t flag, std::uint32_t wanted, std::uint64_t now) {
    waiting_ = true;
    wait_ = {flag, wanted, now, CoreState::kMemoryWait};
  }
  bool waiting() const { return waiting_; }
  const Wait& wait() const { return wait_; }
  void end_wait() { waiting_ = false; }

 private:
  std::vector<std::uint32_t> values_;
  bool waiting_ = false;
  Wait wait_;
};

}  // namespace tpu
