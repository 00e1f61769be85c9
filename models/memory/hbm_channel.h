#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

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

/// The pieces of a direction that wait, first come first: a ring that grows when it is full.
class HbmPieceQueue {
 public:
  bool empty() const { return size_ == 0; }
  HbmPiece& front() { return ring_[first_]; }
  const HbmPiece& front() const { return ring_[first_]; }
  void pop_front() {
    first_ = (first_ + 1) & (ring_.size() - 1);
    --size_;
  }
  void push_back(const HbmPiece& piece) {
    if (size_ == ring_.size()) grow();
    ring_[(first_ + size_++) & (ring_.size() - 1)] = piece;
  }

 private:
  void grow();

  std::vector<HbmPiece> ring_;  ///< A power of two, or none.
  std::size_t first_ = 0;
  std::size_t size_ = 0;
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
  /// Granules of a direction that are decided: on the bus or behind it.
  std::uint64_t passed(HbmDirection direction) const { return passed_[direction]; }
  /// A clock before which the data of so many granules of a direction, more than have passed, will
  /// not have passed: what follows from the pieces that wait.
  std::uint64_t earliest(HbmDirection direction, std::uint64_t granules) const;

 private:
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};

  void refresh(std::uint64_t clock);
  void skip_rounds(std::uint64_t barrier);
  /// When the first piece of a direction may begin.
  void set_ready(int direction) {
    ready_[direction] = queue_[direction].empty()
                            ? kNever
                            : queue_[direction].front().arrival + timing_.first_data[direction];
  }
  void set_next() {
    const std::uint64_t first = std::min(ready_[0], ready_[1]);
    next_ = first == kNever ? kNever : std::max(free_, first);
  }
  /// What the bus does in clock next_, before `limit`: the direction that it serves, or none.
  int step(std::uint64_t limit);
  bool takes_turns() const {
    return timing_.drain_granules == 1 && since_turn_ > 0 && next_ < next_refresh_ &&
           ready_[0] <= next_ && ready_[1] <= next_;
  }
  /// The same as step(), again and again while both directions wait and turn with each granule.
  template <class Visit>
  void take_turns(std::uint64_t barrier, const Visit& visit);
  template <class Visit>
  void end_piece(int direction, const Visit& visit) {
    const HbmPiece& piece = queue_[direction].front();
    if (served_[direction] < piece.granules) return;
    visit(piece.request, piece.granules, free_);
    queue_[direction].pop_front();
    served_[direction] = 0;
    set_ready(direction);
  }
  /// Puts granules of the first piece of a direction on the bus: as many as begin before
  /// `barrier`, at least one.
  void serve(int direction, bool both, std::uint64_t clock, std::uint64_t barrier);

  const HbmTiming& timing_;
  std::array<HbmPieceQueue, 2> queue_;
  /// When the first piece of a direction may begin: 0 when it has begun, kNever without a piece.
  std::array<std::uint64_t, 2> ready_{kNever, kNever};
  std::array<std::uint64_t, 2> all_ready_{};  ///< When the last piece may begin.
  std::array<std::uint64_t, 2> arrived_{};
  std::array<std::uint64_t, 2> passed_{};    ///< Granules, the one on the bus included.
  std::array<std::uint64_t, 2> served_{};    ///< Granules of the first piece that have passed.
  std::array<std::uint64_t, 2> data_end_{};  ///< Of the last data of a direction.
  std::uint64_t free_ = 0;                   ///< The bus is free from this clock on.
  std::uint64_t next_ = kNever;              ///< Nothing is decided before.
  std::uint64_t next_refresh_ = 0;
  HbmDirection last_ = kHbmRead;
  std::uint64_t since_turn_ = 0;  ///< Granules since the bus turned.
};

// ---- Inline: advance() takes the visitor of the controller.

template <class Visit>
void HbmChannel::take_turns(std::uint64_t barrier, const Visit& visit) {
  std::uint64_t clock = next_;
  if (clock == data_end_[last_]) skip_rounds(barrier);
  clock = std::max(clock, free_);
  while (clock < barrier && ready_[0] <= clock && ready_[1] <= clock) {
    const int way = 1 - last_;
    std::uint64_t start = std::max(clock, data_end_[last_] + timing_.turn[way]);
    if (served_[way] == 0 && queue_[way].front().row_miss) {
      start = std::max(start, data_end_[way] + timing_.row_miss[way]);
    }
    last_ = static_cast<HbmDirection>(way);
    since_turn_ = 1;
    ready_[way] = 0;
    ++served_[way];
    ++passed_[way];
    clock = free_ = data_end_[way] = start + timing_.granule;
    end_piece(way, visit);
  }
}

template <class Visit>
void HbmChannel::advance(std::uint64_t limit, const Visit& visit) {
  while (next_ < limit) {
    if (takes_turns()) {
      take_turns(std::min(limit, next_refresh_), visit);
    } else {
      const int direction = step(limit);
      if (direction >= 0) end_piece(direction, visit);
    }
    set_next();
  }
}

}  // namespace tpu
