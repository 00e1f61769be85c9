#include "models/memory/hbm_channel.h"

#include <algorithm>

namespace tpu {

HbmChannel::HbmChannel(const HbmTiming& timing)
    : timing_(timing),
      next_refresh_(timing.refresh_interval == 0 ? kNever : timing.first_refresh) {}

void HbmChannel::add(HbmDirection direction, const HbmPiece& piece) {
  arrived_[direction] += piece.granules;
  std::deque<HbmPiece>& queue = queue_[direction];
  if (!queue.empty() && queue.back().request == piece.request && !piece.row_miss &&
      queue.back().arrival == piece.arrival) {
    queue.back().granules += piece.granules;
    return;
  }
  queue.push_back(piece);
}

/// The next refresh, which is due at `clock`, and those after it that find the channel idle.
void HbmChannel::refresh(std::uint64_t clock) {
  if (free_ <= next_refresh_) {
    next_refresh_ += (clock - next_refresh_) / timing_.refresh_interval * timing_.refresh_interval;
  }
  free_ = std::max(free_, next_refresh_) + timing_.refresh;
  next_refresh_ += timing_.refresh_interval;
}

/// Rounds of drain_granules of each direction, for as long as both first pieces last, nothing is
/// refreshed and the barrier is not reached.
void HbmChannel::skip_rounds(std::uint64_t barrier) {
  if (free_ >= barrier) return;
  const std::uint64_t drain = timing_.drain_granules;
  const std::uint64_t half = drain * timing_.granule;
  const std::uint64_t round = 2 * half + timing_.turn[0] + timing_.turn[1];
  std::uint64_t rounds = (barrier - free_) / round;
  for (int d = 0; d < 2; ++d) {
    const HbmPiece& piece = queue_[d].front();
    if (piece.row_miss && served_[d] == 0) return;
    rounds = std::min(rounds, (piece.granules - served_[d] - 1) / drain);
  }
  if (rounds == 0) return;
  free_ += rounds * round;
  data_end_[last_] = free_;
  data_end_[1 - last_] = free_ - half - timing_.turn[last_];
  for (int d = 0; d < 2; ++d) {
    served_[d] += rounds * drain;
    passed_[d] += rounds * drain;
  }
  since_turn_ = drain;
}

void HbmChannel::serve(int direction, bool both, std::uint64_t clock, std::uint64_t barrier) {
  const HbmPiece& piece = queue_[direction].front();
  std::uint64_t start = clock;
  if (direction != last_) {
    start = std::max(start, data_end_[last_] + timing_.turn[direction]);
    since_turn_ = 0;
    last_ = static_cast<HbmDirection>(direction);
  }
  if (piece.row_miss && served_[direction] == 0) {
    start = std::max(start, data_end_[direction] + timing_.row_miss[direction]);
  }
  std::uint64_t count = 1;
  if (start + timing_.granule < barrier) {
    count +=
        std::min(piece.granules - served_[direction] - 1, (barrier - start - 1) / timing_.granule);
  }
  if (both) count = std::min(count, timing_.drain_granules - since_turn_);
  since_turn_ += count;
  served_[direction] += count;
  passed_[direction] += count;
  free_ = data_end_[direction] = start + count * timing_.granule;
}

}  // namespace tpu
