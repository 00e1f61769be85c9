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
/// A sender whose batch came later works when the waiter has worked already: since both last met,
/// or began a step, it has waited longer for hosts than the waiter has. As many cycles of the wait
/// are the host's, its work in them, too. What the sender worked more than the waiter is its own.
///
/// Of a core's past only waits for the host and for other cores are kept (between them it ran, or
/// waited for its own memory), as far back as a core that waits now may still ask, and the last
/// ones, for the comparison.
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

  void begin_step(std::uint32_t core, std::uint64_t now) { met_[core] = now; }
  void begin_wait(std::uint32_t core, std::uint64_t now) { since_[core] = now; }
  /// The wait of a core from `wait.since` to `now` in pieces, in order; they cover it.
  std::vector<Piece> end_wait(std::uint32_t core, const SyncFlags::Wait& wait, std::uint64_t now);

 private:
  void append_what_kept(std::uint32_t sender, std::uint64_t begin, std::uint64_t end,
                        std::vector<Piece>& pieces) const;
  void blame_hosts(std::uint32_t core, std::uint32_t sender, std::uint64_t begin,
                   std::uint64_t sent, std::vector<Piece>& pieces) const;
  /// What a core waited for hosts, its own or those of others, and for which core last.
  struct HostWait {
    std::uint64_t cycles = 0;
    std::uint32_t late_core = 0;
  };
  HostWait host_wait(std::uint32_t core, std::uint64_t begin, std::uint64_t end) const;
  void remember(std::uint32_t core, const std::vector<Piece>& pieces, std::uint64_t now);

  struct History {
    std::deque<Piece> pieces;  ///< In order, without gaps' own entries: a gap is the core's own.
    std::size_t most = 1024;   ///< Pieces before the old ones are looked through again.
  };
  std::vector<History> histories_;
  std::vector<std::uint64_t> since_;  ///< Per core the begin of its wait; kRuns: it does not wait.
  /// Per core when it last waited for another one, or began a step.
  std::vector<std::uint64_t> met_;
};

}  // namespace tpu
