#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "models/core/sync_flags.h"
#include "models/machine.h"

namespace tpu {

/// Who is to blame for the cycles in which cores wait for each other. A wait that another core ends
/// has two parts: until that core sent what ends it, the waiter waited for whatever kept the
/// sender, which is what the sender itself did in those cycles; from then on for the interconnect.
/// A sender that waited for a third core hands on what that wait was charged to, so the blame
/// travels along the chain of senders to the core that was late in the first place, and says
/// whether its host or its own work made it so. Exact, and nothing here takes time: it only names
/// cycles that pass.
///
/// Of a core's past only waits for the host and for other cores are kept (between them it ran, or
/// waited for its own memory), and only as far back as a core that waits now may still ask.
class WaitCauses {
 public:
  explicit WaitCauses(std::size_t cores);

  /// A stretch of a wait and what it counts as.
  struct Piece {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    CoreState reason = CoreState::kMemoryWait;
    std::uint32_t late_core = 0;  ///< With kPeerWait and kPeerHostWait: who kept the others.
  };

  void begin_wait(std::uint32_t core, std::uint64_t now) { since_[core] = now; }
  /// The wait of a core from `wait.since` to `now` in pieces, in order; they cover it.
  std::vector<Piece> end_wait(std::uint32_t core, const SyncFlags::Wait& wait, std::uint64_t now);

 private:
  void append_what_kept(std::uint32_t sender, std::uint64_t begin, std::uint64_t end,
                        std::vector<Piece>& pieces) const;
  void remember(std::uint32_t core, const std::vector<Piece>& pieces, std::uint64_t now);

  struct History {
    std::deque<Piece> pieces;  ///< In order, without gaps' own entries: a gap is the core's own.
    std::size_t most = 1024;   ///< Pieces before the old ones are looked through again.
  };
  std::vector<History> histories_;
  std::vector<std::uint64_t> since_;  ///< Per core the begin of its wait; kRuns: it does not wait.
};

}  // namespace tpu
