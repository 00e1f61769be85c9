#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "models/memory/bus_history.h"
#include "models/memory/hbm_queue.h"
#include "models/memory/hbm_timing.h"
#include "models/step_state.h"

namespace tpu {

/// Memory clocks of a channel's data bus by what it does, each counted where it passes.
struct HbmBusClocks {
  std::uint64_t data = 0;
  std::uint64_t turn = 0;      ///< To the other direction.
  std::uint64_t row_miss = 0;  ///< Two rows of a bank follow each other.
  std::uint64_t refresh = 0;
  std::uint64_t row_opens = 0;  ///< Idle: what was asked for last has its first row opened.
  std::uint64_t not_asked = 0;  ///< Idle: nothing is asked for.

  std::uint64_t total() const { return data + turn + row_miss + refresh + row_opens + not_asked; }
};

/// One pseudo channel of HBM2: the timeline of its data bus, in memory clocks, granule by granule,
/// in closed form where nothing changes from granule to granule.
///
/// Pieces of one direction are served in order of arrival. While both directions wait, the bus
/// turns after `drain_granules` of one and loses the gap of the turn. A piece that reaches an idle
/// channel opens its row first; rows of later granules are opened, and rows of earlier ones
/// closed, behind the data of their neighbours, unless two rows of one bank follow each other in
/// one direction (`HbmQueue::row_miss`): then the bus waits for the closing and opening. A refresh
/// of all banks begins when it is due and the granule on the bus has passed; it closes all rows.
/// Left out: limits on row openings (tRRD, tFAW: a granule takes longer), conflicts of a read's
/// and a write's row in one bank, refresh of single banks.
class HbmChannel {
 public:
  /// `queues`: what waits in each direction, in all channels; this one is `index`.
  HbmChannel(const HbmTiming& timing, const std::array<HbmQueue, 2>& queues, std::uint32_t index);

  /// Takes the bus to `limit`: what it begins before that is decided. Calls
  /// visit(request, granules, clock) for each piece whose last data passes in `clock`, which may be
  /// a little behind `limit`.
  template <class Visit>
  void advance(std::uint64_t limit, const Visit& visit);

  /// Granules of a direction that are decided: on the bus or behind it.
  std::uint64_t passed(HbmDirection direction) const { return way_[direction].passed; }
  /// About when so many granules of a direction will have passed, where `others` of the other one
  /// have arrived.
  std::uint64_t expected_end(HbmDirection direction, std::uint64_t granules,
                             std::uint64_t others) const {
    const std::uint64_t mine = granules - way_[direction].passed;
    return free_ + (mine + std::min(mine, others - way_[1 - direction].passed)) * timing_.granule;
  }
  /// The account begins in `clock`, to which the channel has been taken.
  void begin_account(std::uint64_t clock) {
    before_account_ = bus_clocks(clock);
    history_.restart(clock);
  }
  /// What of the past still separates data that is to come from it, where nothing waits, as of
  /// `clock`, to which the channel has been taken.
  void describe(std::uint64_t clock, StepState& state) const;
  /// What the bus did in the account before `clock`, to which the channel has been taken.
  HbmBusClocks account(std::uint64_t clock) const;
  void keep_history() { history_.keep(); }
  const BusHistory& history(std::uint64_t clock) {
    history_.cut(clock);
    return history_;
  }
  /// A clock before which the data of so many granules of a direction, more than have passed, will
  /// not have passed: what follows from the pieces that wait.
  std::uint64_t earliest(HbmDirection direction, std::uint64_t granules);

 private:
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};

  /// A direction: its first piece and what has passed. Found by a shift, not by a multiplication.
  struct alignas(64) Way {
    std::uint64_t layer = 0;       ///< Of the first piece; those before have passed.
    std::uint64_t ready = kNever;  ///< It may begin; 0 when it has, kNever: none was seen.
    std::uint64_t begin = 0;       ///< Granules of the direction before it.
    std::uint64_t end = 0;         ///< And with it.
    std::uint64_t passed = 0;      ///< Granules, the one on the bus included.
    std::uint64_t data_end = 0;    ///< Of the last data.
    bool row_miss = false;

    /// Its next granule has to wait for its row.
    bool misses() const { return row_miss && passed == begin; }
  };

  /// Looks for the first piece of each direction where none was seen yet.
  void look() {
    if (sees_all(0) && sees_all(1)) return;
    for (int d = 0; d < 2; ++d) {
      if (!sees_all(d)) look(d);
    }
    set_next();
  }
  bool sees_all(int direction) const {
    return way_[direction].ready != kNever || way_[direction].layer >= queues_[direction].end();
  }
  void look(int direction) {
    const HbmQueue& queue = queues_[direction];
    Way& way = way_[direction];
    way.layer = queue.next_piece(std::max(way.layer, queue.begin()), index_, way.passed);
    if (way.layer < queue.end()) {
      see(direction, queue.count(way.layer, index_));
    } else {
      way.ready = kNever;
    }
  }
  /// The first piece of a direction, with which so many granules have arrived, is in way.layer.
  void see(int direction, std::uint64_t count) {
    const HbmQueue& queue = queues_[direction];
    Way& way = way_[direction];
    way.ready = queue.arrival(way.layer) + timing_.first_data[direction];
    way.begin = way.passed;
    way.end = count;
    way.row_miss = queue.row_miss(way.layer, index_);
  }
  void refresh(std::uint64_t clock);
  void describe_refresh(std::uint64_t clock, StepState& state) const;
  HbmBusClocks bus_clocks(std::uint64_t clock) const;
  /// Adds the clocks from free_ to `clock`, in which nothing passes, to those of their cause.
  void count_idle(std::uint64_t clock, HbmBusClocks& clocks) const;
  /// Rounds of drain_granules of each direction, for as long as both first pieces last, nothing is
  /// refreshed and the barrier is not reached. Returns the clocks with data, which are not in the
  /// history yet.
  std::uint64_t skip_rounds(std::uint64_t barrier) {
    return free_ + timing_.round > barrier ? 0 : pass_rounds(barrier);
  }
  std::uint64_t pass_rounds(std::uint64_t barrier);
  /// The same, noted in the history.
  void skip_and_note_rounds(std::uint64_t barrier) {
    const std::uint64_t begin = free_;
    const std::uint64_t data = skip_rounds(barrier);
    if (data > 0) history_.add(begin, free_, data);
  }
  /// More granules than so many are left of both pieces. Skipping is worth its divisions where it
  /// has some rounds to skip; it has one where more than a granule is left.
  bool has_more_than(std::uint64_t granules) const {
    return way_[0].end - way_[0].passed > granules && way_[1].end - way_[1].passed > granules;
  }
  void set_next() {
    const std::uint64_t first = std::min(way_[0].ready, way_[1].ready);
    next_ = first == kNever ? kNever : std::max(free_, first);
  }
  /// What the bus does in clock next_, before `barrier`, where both directions wait: the direction
  /// that it serves, or none.
  int step(std::uint64_t barrier);
  /// Both directions wait: they turn with each granule.
  bool takes_turns() const { return timing_.drain_granules == 1 && since_turn_ > 0; }
  /// Both directions turn with each granule, from `clock` on, in which the last data ends, for as
  /// long as both first pieces last and a granule begins before `barrier`. Neither begins with a
  /// row miss. Returns the end of what passes.
  std::uint64_t alternate(std::uint64_t clock, std::uint64_t barrier) {
    const int first = 1 - last_;
    Way& way = way_[first];
    Way& other = way_[last_];
    const std::uint64_t one = timing_.turn[first] + timing_.granule;
    const std::uint64_t mine = way.end - way.passed, others = other.end - other.passed;
    // The first direction may have the last granule, too.
    bool odd = mine <= others;
    std::uint64_t rounds = odd ? mine - 1 : others;
    const std::uint64_t last_begin =
        clock + (odd ? rounds * timing_.round : rounds * timing_.round - timing_.round + one);
    if (last_begin >= barrier) {
      const std::uint64_t left = barrier - clock - 1;
      rounds = left / timing_.round;
      odd = left - rounds * timing_.round < one;
      if (!odd) ++rounds;
    }
    way.ready = 0;
    last_miss_ = 0;
    clocks_.turn += rounds * (timing_.round - 2 * timing_.granule);
    std::uint64_t end = clock + rounds * timing_.round;
    other.data_end = end;
    if (rounds > 0) {
      other.ready = 0;
      other.passed += rounds;
      way.passed += rounds;
      way.data_end = end - timing_.turn[last_] - timing_.granule;
    }
    if (odd) {
      ++way.passed;
      clocks_.turn += timing_.turn[first];
      way.data_end = end += one;
      last_ = static_cast<HbmDirection>(first);
    }
    return end;
  }
  /// The same as step(), again and again while both directions wait and turn with each granule.
  template <class Visit>
  void take_turns(std::uint64_t barrier, const Visit& visit);
  template <class Visit>
  void end_piece(int direction, const Visit& visit) {
    Way& way = way_[direction];
    if (way.passed < way.end) return;
    visit(queues_[direction].request(way.layer), way.end - way.begin, free_);
    ++way.layer;
    look(direction);
  }
  /// Behind the end of a piece of a direction: those that follow without a gap, a row miss or an
  /// end behind `barrier`, and the first one that does not.
  template <class Visit>
  void pass_pieces(int direction, std::uint64_t barrier, const Visit& visit);
  /// Serves pieces of one direction while the other one waits for nothing, up to `barrier`.
  template <class Visit>
  void take_stream(int direction, std::uint64_t barrier, const Visit& visit);
  /// Puts granules of the first piece of a direction on the bus, at most `most` of them: as many as
  /// begin before `barrier`, at least one.
  void serve(int direction, std::uint64_t most, std::uint64_t clock, std::uint64_t barrier) {
    Way& way = way_[direction];
    std::uint64_t start = clock;
    if (clock > free_) count_idle(clock, clocks_);
    refreshed_ = false;
    last_miss_ = 0;
    if (direction != last_) {
      start = std::max(start, way_[last_].data_end + timing_.turn[direction]);
      clocks_.turn += start - clock;
      since_turn_ = 0;
      last_ = static_cast<HbmDirection>(direction);
    }
    if (way.misses()) {
      const std::uint64_t turned = start;
      start = std::max(start, way.data_end + timing_.row_miss[direction]);
      clocks_.row_miss += last_miss_ = start - turned;
    }
    std::uint64_t count = std::min(most, way.end - way.passed);
    if (start + (count - 1) * timing_.granule >= barrier) {
      count = start < barrier ? 1 + (barrier - start - 1) / timing_.granule : 1;
    }
    since_turn_ += count;
    way.ready = 0;
    way.passed += count;
    free_ = way.data_end = start + count * timing_.granule;
    history_.add(start, free_, free_ - start);
  }

  const HbmTiming& timing_;
  const std::array<HbmQueue, 2>& queues_;
  std::uint32_t index_ = 0;
  std::array<Way, 2> way_;
  std::uint64_t free_ = 0;       ///< The bus is free from this clock on.
  std::uint64_t next_ = kNever;  ///< Nothing is decided before.
  std::uint64_t next_refresh_ = 0;
  HbmDirection last_ = kHbmRead;
  std::uint64_t since_turn_ = 0;  ///< Granules since the bus turned.
  HbmBusClocks clocks_;           ///< Up to free_; data: that of way_.
  bool refreshed_ = false;        ///< What the bus did last.
  std::uint64_t last_miss_ = 0;   ///< Row miss before its last granule.
  HbmBusClocks before_account_;
  BusHistory history_;
};

// ---- Inline: what takes the visitor of the controller.

template <class Visit>
void HbmChannel::take_turns(std::uint64_t barrier, const Visit& visit) {
  std::uint64_t clock = next_;
  if (history_.is_kept() && has_more_than(1) && clock == way_[last_].data_end) {
    skip_and_note_rounds(barrier);
  }
  if (clock > free_) count_idle(clock, clocks_);
  clock = std::max(clock, free_);
  refreshed_ = false;
  const std::uint64_t begin = clock;
  const std::uint64_t passed = way_[0].passed + way_[1].passed;
  while (clock < barrier && way_[0].ready <= clock && way_[1].ready <= clock) {
    const int first = 1 - last_;
    Way& way = way_[first];
    const Way& other = way_[last_];
    if (!way.misses() && !other.misses() && clock == other.data_end) {
      clock = free_ = alternate(clock, barrier);
      end_piece(last_, visit);
      continue;
    }
    std::uint64_t start = std::max(clock, other.data_end + timing_.turn[first]);
    clocks_.turn += start - clock;
    last_miss_ = 0;
    if (way.misses()) {
      const std::uint64_t turned = start;
      start = std::max(start, way.data_end + timing_.row_miss[first]);
      clocks_.row_miss += last_miss_ = start - turned;
    }
    last_ = static_cast<HbmDirection>(first);
    way.ready = 0;
    ++way.passed;
    clock = free_ = way.data_end = start + timing_.granule;
    end_piece(first, visit);
  }
  since_turn_ = 1;
  if (!history_.is_kept()) return;
  history_.add(begin, free_, (way_[0].passed + way_[1].passed - passed) * timing_.granule);
}

template <class Visit>
void HbmChannel::pass_pieces(int direction, std::uint64_t barrier, const Visit& visit) {
  const HbmQueue& queue = queues_[direction];
  const HbmQueue::OfChannel mine = queue.of_channel(index_);
  Way& way = way_[direction];
  const std::uint64_t granule = timing_.granule, first_data = timing_.first_data[direction];
  const std::uint64_t begin = free_, behind = queue.end();
  std::uint64_t clock = begin, passed = way.passed;
  std::uint64_t layer = std::max(way.layer, queue.begin());
  std::uint64_t count = 0;
  for (; layer < behind; ++layer) {
    const std::size_t slot = mine.slot(layer);
    count = mine.count(slot);
    if (count == passed) continue;
    const std::uint64_t end = clock + (count - passed) * granule;
    if (end - granule >= barrier || mine.arrival(slot) + first_data > clock ||
        mine.row_miss(slot)) {
      break;
    }
    visit(mine.request(slot), count - passed, end);
    passed = count;
    clock = end;
  }
  way.layer = layer;
  if (clock != begin) {
    last_miss_ = 0;
    since_turn_ += passed - way.passed;
    way.passed = passed;
    free_ = way.data_end = clock;
    history_.add(begin, clock, clock - begin);
  }
  if (layer < queue.end()) {
    see(direction, count);
  } else {
    way.ready = kNever;
  }
}

template <class Visit>
void HbmChannel::take_stream(int direction, std::uint64_t barrier, const Visit& visit) {
  Way& way = way_[direction];
  std::uint64_t clock = next_;
  while (clock < barrier) {
    serve(direction, kNever, clock, barrier);
    if (way.passed < way.end) return;
    visit(queues_[direction].request(way.layer), way.end - way.begin, free_);
    ++way.layer;
    pass_pieces(direction, barrier, visit);
    clock = std::max(free_, way.ready);
  }
}

template <class Visit>
void HbmChannel::advance(std::uint64_t limit, const Visit& visit) {
  look();
  while (next_ < limit) {
    const std::uint64_t barrier = std::min(limit, next_refresh_);
    const bool reads = way_[kHbmRead].ready <= next_, writes = way_[kHbmWrite].ready <= next_;
    if (next_ >= next_refresh_) {
      refresh(next_);
    } else if (reads != writes) {
      take_stream(reads ? kHbmRead : kHbmWrite, std::min(barrier, way_[reads ? 1 : 0].ready),
                  visit);
    } else if (takes_turns()) {
      take_turns(barrier, visit);
    } else {
      const int direction = step(barrier);
      if (direction >= 0) end_piece(direction, visit);
    }
    set_next();
  }
}

}  // namespace tpu
