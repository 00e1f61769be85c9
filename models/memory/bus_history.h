#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tpu {

/// When a bus moved data: its clocks with data in stretches of equal length, at most kStretches of
/// them. When the time outgrows them they become twice as long, so memory does not grow with it.
/// Kept where somebody asks for it before the run: it takes as long as the rest of a channel.
class BusHistory {
 public:
  static constexpr std::size_t kStretches = 1024;

  void keep() { is_kept_ = true; }
  bool is_kept() const { return is_kept_; }

  /// Data in `clocks` of the clocks from `begin` to `end`, evenly; not before what was added last.
  void add(std::uint64_t begin, std::uint64_t end, std::uint64_t clocks) {
    if (!is_kept_) return;
    last_ = {begin, end, clocks};
    count(begin, end, clocks);
  }
  /// Forgets what passed before a clock, to which the bus has been taken; what it has begun may go
  /// on behind.
  void restart(std::uint64_t clock) {
    stretches_.clear();
    shift_ = 0;
    begin_ = clock;
    if (last_.end <= clock) return;
    const std::uint64_t from = std::max(clock, last_.begin);
    count(from, last_.end, last_.clocks - share(last_, from));
  }

  /// The end of the run: what the bus has begun and goes on behind it does not count.
  void cut(std::uint64_t clock) {
    if (last_.end <= clock) return;
    std::uint64_t behind = last_.clocks - share(last_, std::max(clock, last_.begin));
    for (auto at = stretches_.rbegin(); at != stretches_.rend() && behind > 0; ++at) {
      const std::uint64_t taken = std::min(*at, behind);
      *at -= taken;
      behind -= taken;
    }
  }

  std::uint64_t begin() const { return begin_; }
  std::uint64_t stretch() const { return std::uint64_t{1} << shift_; }
  const std::vector<std::uint64_t>& clocks() const { return stretches_; }

 private:
  struct Piece {
    std::uint64_t begin = 0, end = 0, clocks = 0;
  };
  /// Of a piece's clocks with data those before a clock in it.
  static std::uint64_t share(const Piece& piece, std::uint64_t clock) {
    const std::uint64_t length = piece.end - piece.begin;
    if (piece.clocks == length) return clock - piece.begin;
    const double part = static_cast<double>(clock - piece.begin) / static_cast<double>(length);
    return static_cast<std::uint64_t>(part * static_cast<double>(piece.clocks));
  }
  void count(std::uint64_t begin, std::uint64_t end, std::uint64_t clocks) {
    if (end <= begin) return;
    while ((end - 1 - begin_) >> shift_ >= kStretches) double_stretches();
    const std::size_t last = (end - 1 - begin_) >> shift_;
    if (stretches_.size() <= last) stretches_.resize(last + 1);
    std::size_t at = (begin - begin_) >> shift_;
    const Piece piece{begin, end, clocks};
    std::uint64_t counted = 0;
    for (; at < last; ++at) {
      const std::uint64_t before = share(piece, begin_ + ((at + 1) << shift_));
      stretches_[at] += before - counted;
      counted = before;
    }
    stretches_[last] += clocks - counted;
  }
  void double_stretches() {
    for (std::size_t i = 0; i < stretches_.size(); ++i) {
      if (i % 2 == 0) {
        stretches_[i / 2] = stretches_[i];
      } else {
        stretches_[i / 2] += stretches_[i];
      }
    }
    stretches_.resize((stretches_.size() + 1) / 2);
    ++shift_;
  }

  bool is_kept_ = false;
  std::uint64_t begin_ = 0;
  unsigned shift_ = 0;
  std::vector<std::uint64_t> stretches_;
  Piece last_;
};

}  // namespace tpu
