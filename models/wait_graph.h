#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "models/critical_path.h"
#include "models/params.h"

namespace tpu {

/// The record of what each wait of a run waited for: what cores and transfers (DMAs, additions to
/// flags of other cores) did, in the order in which it happened. Behind the warm-up steps it begins
/// anew. When it holds `most` events it is evaluated up to there and begins anew at the end of an
/// op: the path goes on in the core that ends the op, and transfers under way count from there.
class WaitGraph {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  using Ran = std::array<std::uint64_t, kCoreResources>;

  /// Where a core has got to.
  struct Position {
    std::uint32_t core = 0;
    std::uint32_t op = kNone;  ///< That it executed until now.
    std::uint64_t cycle = 0;
    Ran ran{};  ///< Since the begin of the run, by what the schedule needed.
  };
  static constexpr unsigned kCoreBits = 24;  ///< Of the number of a core.
  struct Event {
    /// kMet: the core needed a transfer that was done; kWait: it waited for one from its event
    /// before on.
    enum class Kind : std::uint8_t { kRan, kStart, kMet, kWait, kDone };
    std::uint64_t cycle;
    std::uint32_t op;
    std::uint32_t transfer;
    std::array<std::uint32_t, kCoreResources> ran;  ///< Of the core since its event before.
    std::uint32_t core : kCoreBits;
    Kind kind : 32 - kCoreBits;
  };
  static_assert(sizeof(Event) == 32, "a record holds 131,072 of them");
  /// From `issue` to `split` it is with `first`, then with `then`.
  struct Transfer {
    std::uint64_t start = 0;  ///< Number of its event.
    std::uint64_t issue = 0;
    std::uint64_t split = 0;
    std::uint64_t done = 0;  ///< 0: not yet.
    std::uint64_t bytes = 0;
    std::uint32_t core = 0;
    std::uint32_t behind = kNone;  ///< The one before it in `then`, of those that are done.
    Resource first = Resource::kHbm;
    Resource then = Resource::kHbm;
  };

  /// `cores`: how many take part; `warmup_steps`: that are not evaluated, at the least.
  WaitGraph(const MachineParams& params, std::size_t cores, std::size_t ops,
            std::size_t warmup_steps = 0, std::size_t most = kMostEvents);

  /// A core has reached a cycle; what it starts next, it starts there.
  void at(const Position& position);
  /// The same, and what follows belongs to another op.
  void pass(const Position& position);
  /// It needs a transfer that is done already; kNone: nothing is known of it.
  void met(const Position& position, std::uint32_t transfer);
  /// It has waited since at() for a transfer that is done now.
  void released(std::uint32_t core, std::uint64_t now, std::uint32_t transfer);
  /// A core starts a transfer; its number.
  std::uint32_t start(std::uint32_t core, std::uint64_t bytes, Resource first, Resource then);
  /// The first part of a transfer is over.
  void split(std::uint32_t transfer, std::uint64_t now);
  void done(std::uint32_t transfer, std::uint64_t now);
  /// The account of a core begins; when those of all have, the record does.
  void begin(std::uint32_t core, std::uint64_t cycle);
  /// The run has ended on `core`.
  CriticalPath finish(std::uint32_t core);

  // For its evaluation.
  const std::vector<Event>& events() const { return events_; }
  std::uint64_t first_event() const { return first_event_; }
  std::uint64_t begin_cycle() const { return begin_cycle_; }
  /// Nothing for one that was done before the record began.
  const Transfer* transfer(std::uint32_t number) const {
    return number == kNone || number < first_transfer_ ? nullptr
                                                       : &transfers_[number - first_transfer_];
  }
  std::uint32_t first_transfer() const { return first_transfer_; }
  std::size_t transfers() const { return transfers_.size(); }
  std::uint64_t hbm_latency() const { return hbm_latency_; }
  /// Cycles that a transfer takes in a resource when it is alone, at the least.
  std::uint64_t least_cycles(Resource resource, std::uint64_t bytes) const;
  /// The transfer could not move data before the one before it in `then` had moved its own.
  bool queued(const Transfer& transfer) const;

 private:
  static constexpr std::size_t kMostEvents = std::size_t{1} << 17;
  struct OfCore {
    Position reached;
    Ran recorded{};  ///< In its events.
    std::uint64_t account_event = 0;
    std::uint64_t account_begin = 0;
    std::uint32_t accounts = 0;
    std::array<std::uint32_t, kResources> last_done{};  ///< By Transfer::then.
    std::uint64_t last_batch = 0;                       ///< When the last one came out of the host.
    bool batch_was_late = false;                        ///< The core waited for it.
    std::uint64_t batch_before = 0;                     ///< Of the account: the last one before it.
  };

  Event& append(Event::Kind kind, const Position& position);
  Event& append(const Event& event);
  void forget(std::uint64_t event, std::uint64_t cycle);
  void evaluate(std::uint32_t core, bool is_the_end);
  std::uint64_t host_cycles() const;

  const double hbm_bytes_per_cycle_;
  const std::uint64_t hbm_latency_;
  const std::size_t count_;
  const std::size_t warmup_steps_;
  const std::size_t most_;
  std::vector<OfCore> cores_;
  std::vector<Event> events_;
  std::vector<Transfer> transfers_;
  std::uint64_t first_event_ = 0;
  std::uint32_t first_transfer_ = 0;
  std::uint64_t begin_cycle_ = 0;
  CriticalPath result_;
};

/// Adds the part of a run that a record holds, up to the last event of `core`, to a result.
void add_path(const WaitGraph& graph, std::uint32_t core, CriticalPath& result);
/// Up to its end, or up to where `core` is: of what others have done ahead of it the record that
/// begins there holds the rest.
void add_free_runs(const WaitGraph& graph, std::uint32_t core, CriticalPath& result);

}  // namespace tpu
