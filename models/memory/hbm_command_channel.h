#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "models/memory/bus_history.h"
#include "models/memory/hbm_command_timing.h"

namespace tpu {

/// A command of a pseudo channel, for whoever watches.
struct HbmCommand {
  enum class Kind : std::uint8_t { kActivate, kRead, kWrite, kPrecharge, kRefresh };
  Kind kind = Kind::kActivate;
  std::uint64_t clock = 0;
  std::uint32_t bank = 0;  ///< Of a refresh of all banks: their number.
  std::uint64_t row = 0;
};

/// Clocks of the data bus of such a channel, each counted where it passes.
struct HbmCommandClocks {
  std::uint64_t data = 0;
  std::uint64_t turn = 0;       ///< To the other direction.
  std::uint64_t rows = 0;       ///< Rows are closed and opened, or column commands keep a distance.
  std::uint64_t refresh = 0;    ///< And what is closed and opened around it.
  std::uint64_t not_asked = 0;  ///< Nothing has arrived.

  std::uint64_t total() const { return data + turn + rows + refresh + not_asked; }
};

/// One pseudo channel of HBM2, command by command: ACT, RD, WR, PRE and REF (of all banks, or of
/// one after the other) with the distances of HbmCommandTiming, between banks, in bank groups, in
/// the channel and on its data bus. Row and column commands have buses of their own.
///
/// The scheduler is FR-FCFS over the first `queue_granules` granules of each direction: of the
/// column commands that can issue first, the one of the oldest granule; rows are opened and, where
/// no older granule still reads or writes them, closed ahead of their use. Rows stay open. While
/// both directions wait, the bus turns after `drain_bursts`. Refresh is on time: when it is due,
/// nothing more begins, and rows are closed as soon as they may be.
///
/// Granules of the channel, in the order of addresses, fill pairs of rows in banks of two
/// neighbouring groups, burst by burst in turn, so that a stream keeps to tCCDS; the next pair lies
/// in the next two groups. Assumed, as is all of a controller that is not published. Left out: the
/// two pseudo channels of a channel share the command buses.
class HbmCommandChannel {
 public:
  explicit HbmCommandChannel(const HbmCommandTiming& timing);

  /// A granule arrives: the number `index` of the channel's granules.
  void add(bool write, std::uint64_t index, std::uint32_t request, std::uint64_t arrival) {
    waiting_[write ? 1 : 0].push_back({index, arrival, request});
  }
  /// Issues the commands before `limit`. Calls done(request, clock of the last data) for each
  /// burst.
  template <class Done>
  void advance(std::uint64_t limit, const Done& done);
  void watch(std::function<void(const HbmCommand&)> watcher) { watcher_ = std::move(watcher); }

  /// The account begins in `clock`, to which the channel has been taken.
  void begin_account(std::uint64_t clock);
  /// What the data bus did in the account up to `clock`, to which the channel has been taken.
  HbmCommandClocks account(std::uint64_t clock);
  void keep_history() { history_.keep(); }
  const BusHistory& history(std::uint64_t clock) {
    history_.cut(clock);
    return history_;
  }

 private:
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};

  struct Waiting {
    std::uint64_t index = 0;
    std::uint64_t arrival = 0;
    std::uint32_t request = 0;
  };
  /// What a granule has in one bank.
  struct Part {
    std::uint32_t bank = 0;
    std::uint64_t row = 0;
    std::uint32_t bursts = 0;  ///< That are left.
  };
  /// A granule among which the scheduler chooses.
  struct Entry {
    std::uint64_t arrival = 0;
    std::uint32_t request = 0;
    std::array<Part, 2> parts;
    std::uint32_t left() const { return parts[0].bursts + parts[1].bursts; }
  };
  struct Bank {
    bool open = false;
    std::uint64_t row = 0;
    std::uint64_t opened = 0;     ///< Last ACT.
    std::uint64_t may_close = 0;  ///< PRE not before.
    std::uint64_t may_open = 0;   ///< ACT not before.
  };
  struct Group {
    std::uint64_t next_row = 0;     ///< ACT not before (tRRDL).
    std::uint64_t next_column = 0;  ///< tCCDL.
    std::uint64_t next_read = 0;    ///< tWTRL.
  };
  /// The next command that would be issued for a part of an entry, and when.
  struct Choice {
    std::uint64_t clock = kNever;
    int direction = 0;
    std::size_t entry = 0;
    std::size_t part = 0;
  };

  void fill_window();
  Entry expanded(const Waiting& granule) const;
  std::uint32_t group_of(std::uint32_t bank) const { return bank % timing_.groups; }
  bool waits(int direction, std::uint64_t clock) const {
    return !window_[direction].empty() && window_[direction].front().arrival <= clock;
  }
  int served_direction() const;
  bool wants(int direction, std::size_t entries, std::uint32_t bank, std::uint64_t row) const;
  std::uint64_t column_clock(int direction, const Entry& entry, const Part& part) const;
  std::uint64_t row_clock(int direction, std::size_t entry, const Part& part, int served) const;
  Choice next_column(int served) const;
  Choice next_row(int served) const;
  void issue_row(const Choice& choice);
  /// Returns the clock of the last data.
  std::uint64_t issue_column(const Choice& choice);
  void refresh();
  void count_idle(std::uint64_t until, bool turns);
  void note(HbmCommand::Kind kind, std::uint64_t clock, std::uint32_t bank,
            std::uint64_t row) const {
    if (watcher_) watcher_({kind, clock, bank, row});
  }

  const HbmCommandTiming& timing_;
  std::array<std::deque<Waiting>, 2> waiting_;
  std::array<std::vector<Entry>, 2> window_;
  std::vector<Bank> banks_;
  std::vector<Group> groups_;
  std::array<std::uint64_t, 4> last_rows_{};  ///< Clocks from which on a fifth ACT may follow.
  std::size_t oldest_row_ = 0;
  std::uint64_t clock_ = 0;                     ///< Of the last command.
  std::uint64_t next_row_ = 0;                  ///< ACT or PRE not before.
  std::uint64_t next_open_ = 0;                 ///< ACT not before (tRRDS).
  std::array<std::uint64_t, 2> next_column_{};  ///< RD, WR not before, of the data bus and tWTRS.
  std::uint64_t next_refresh_ = kNever;
  std::uint32_t refreshed_bank_ = 0;
  int direction_ = 0;
  std::uint32_t since_turn_ = 0;
  std::function<void(const HbmCommand&)> watcher_;
  HbmCommandClocks clocks_;
  std::uint64_t counted_ = 0;  ///< Clocks of the data bus up to this one are in an account.
  std::uint64_t last_refresh_ = kNever;  ///< Due, and not yet made up for.
  BusHistory history_;
};

// ---- Inline: what takes the visitor of the controller.

template <class Done>
void HbmCommandChannel::advance(std::uint64_t limit, const Done& done) {
  while (true) {
    fill_window();
    const int served = served_direction();
    const Choice column = next_column(served);
    const Choice row = next_row(served);
    const std::uint64_t next = std::min(column.clock, row.clock);
    if (next_refresh_ <= next && next_refresh_ < limit) {
      refresh();
      continue;
    }
    if (next >= limit) return;
    clock_ = next;
    if (row.clock <= column.clock) {
      issue_row(row);
      continue;
    }
    const std::uint32_t request = window_[column.direction][column.entry].request;
    done(request, issue_column(column));
  }
}

}  // namespace tpu
