#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>

#include "models/memory/hbm_timing.h"

namespace tpu {

/// One pseudo channel of HBM2: the timeline of its data bus, in memory clocks, granule by granule,
/// in closed form where nothing changes from granule to granule.
///
/// Pieces of one direction are served in order of arrival. While both directions wait, the bus
/// turns after `drain_granules` of one and loses the gap of the turn. A piece that reaches an idle
/// channel opens its row first; rows of later granules are opened, and rows of earlier ones
/// closed, behind the data of their neighbours, unless two rows of one bank follow each other in
/// one direction (`HbmPiece::row_miss`): then the bus waits for the closing and opening. A refresh
/// of all banks begins when it is due and the granule on the bus has passed; it closes all rows.
/// Left out: limits on row openings (tRRD, tFAW: a granule takes longer), conflicts of a read's
/// and a write's row in one bank, refresh of single banks.
struct HbmPiece {
  std::uint32_t request = 0;   ///< Whose piece it is: a number of the controller.
  std::uint64_t granules = 0;  ///< At least 1, in rows of changing banks.
  bool row_miss = false;       ///< Its first row is another one of the bank of the last piece.
  std::uint64_t arrival = 0;   ///< Memory clock.
};

class HbmChannel {
 public:
  explicit HbmChannel(const HbmTiming& timing);

  /// A piece arrives; arrivals never decrease.
  void add(HbmDirection direction, const HbmPiece& piece);
  /// Takes the bus to `limit`: what it begins before that is decided. Calls
  /// visit(request, granules, clock) for each piece whose last data passes in `clock`, which may be
  /// a little behind `limit`.
  template <class Visit>
  void advance(std::uint64_t limit, const Visit& visit);

  bool idle() const { return queue_[0].empty() && queue_[1].empty(); }
  /// Granules of a direction that have arrived since the beginning.
  std::uint64_t arrived(HbmDirection direction) const { return arrived_[direction]; }
  /// A clock before which the data of so many granules of a direction will not have passed; 0 when
  /// they may have.
  std::uint64_t earliest(HbmDirection direction, std::uint64_t granules) const {
    const std::uint64_t passed = passed_[direction];
    return granules > passed ? free_ + (granules - passed) * timing_.granule : 0;
  }

 private:
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};

  void refresh(std::uint64_t clock);
  void skip_rounds(std::uint64_t barrier);
  std::uint64_t ready(int direction) const {
    if (queue_[direction].empty()) return kNever;
    return served_[direction] > 0
               ? 0
               : queue_[direction].front().arrival + timing_.first_data[direction];
  }
  /// Puts granules of the first piece of a direction on the bus: as many as begin before
  /// `barrier`, at least one.
  void serve(int direction, bool both, std::uint64_t clock, std::uint64_t barrier);

  const HbmTiming& timing_;
  std::array<std::deque<HbmPiece>, 2> queue_;
  std::array<std::uint64_t, 2> arrived_{};
  std::array<std::uint64_t, 2> passed_{};    ///< Granules, the one on the bus included.
  std::array<std::uint64_t, 2> served_{};    ///< Granules of the first piece that have passed.
  std::array<std::uint64_t, 2> data_end_{};  ///< Of the last data of a direction.
  std::uint64_t free_ = 0;                   ///< The bus is free from this clock on.
  std::uint64_t next_refresh_ = 0;
  HbmDirection last_ = kHbmRead;
  std::uint64_t since_turn_ = 0;  ///< Granules since the bus turned.
};

// ---- Inline: advance() takes the visitor of the controller.

template <class Visit>
void HbmChannel::advance(std::uint64_t limit, const Visit& visit) {
  while (true) {
    const std::uint64_t ready[2] = {this->ready(kHbmRead), this->ready(kHbmWrite)};
    const std::uint64_t first = std::min(ready[0], ready[1]);
    if (first == kNever) return;
    const std::uint64_t clock = std::max(free_, first);
    if (clock >= limit) return;
    if (clock >= next_refresh_) {
      refresh(clock);
      continue;
    }
    std::uint64_t barrier = std::min(limit, next_refresh_);
    const bool both = ready[0] <= clock && ready[1] <= clock;
    int direction = ready[0] <= clock ? kHbmRead : kHbmWrite;
    if (!both) {
      barrier = std::min(barrier, ready[1 - direction]);
    } else if (since_turn_ < timing_.drain_granules) {
      direction = last_;
    } else {
      direction = 1 - last_;
      if (clock == free_ && clock == data_end_[last_]) {
        skip_rounds(barrier);
        if (free_ >= barrier) continue;
      }
    }
    serve(direction, both, std::max(clock, free_), barrier);
    const HbmPiece& piece = queue_[direction].front();
    if (served_[direction] < piece.granules) continue;
    visit(piece.request, piece.granules, free_);
    queue_[direction].pop_front();
    served_[direction] = 0;
  }
}

}  // namespace tpu
