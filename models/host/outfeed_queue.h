#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>

#include "models/step_state.h"

namespace tpu {

/// The outfeed queue of a core: a DMA is done when its bytes are in it, and they leave it over
/// PCIe, in order and at a steady rate. Copying into it takes no time of its own.
class OutfeedQueue {
 public:
  /// `bytes`: that it holds.
  explicit OutfeedQueue(std::uint64_t bytes) : bytes_(bytes) {}

  /// A DMA brings bytes, `now`, which cross PCIe from `begin` to `end`: the cycle in which the last
  /// of them have room.
  std::uint64_t enter(std::uint64_t now, std::uint64_t bytes, std::uint64_t begin,
                      std::uint64_t end) {
    while (!leaving_.empty() && leaving_.front().end <= now) leaving_.pop_front();
    leaving_.push_back({begin, end, bytes});
    std::uint64_t held = 0;
    for (const Passage& passage : leaving_) held += passage.bytes;
    std::uint64_t done = now;
    for (const Passage& passage : leaving_) {
      if (held <= bytes_) break;
      // So many of its bytes have to leave.
      const std::uint64_t too_many = std::min(held - bytes_, passage.bytes);
      done = std::max(done,
                      passage.begin + scaled(passage.end - passage.begin, too_many, passage.bytes));
      held -= too_many;
    }
    return done;
  }
  /// What is under way.
  void describe(StepState& state) const {
    const auto is_over = [&](const Passage& passage) { return passage.end <= state.now(); };
    state.add(static_cast<std::uint64_t>(
        leaving_.end() - std::find_if_not(leaving_.begin(), leaving_.end(), is_over)));
    for (const Passage& passage : leaving_) {
      if (is_over(passage)) continue;
      state.add_past(passage.begin);
      state.add_time(passage.end);
      state.add(passage.bytes);
    }
  }

 private:
  struct Passage {
    std::uint64_t begin = 0, end = 0, bytes = 0;
  };
  /// `cycles * part / whole`, rounded up.
  static std::uint64_t scaled(std::uint64_t cycles, std::uint64_t part, std::uint64_t whole) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>((static_cast<Wide>(cycles) * part + whole - 1) / whole);
  }

  std::uint64_t bytes_;
  std::deque<Passage> leaving_;
};

}  // namespace tpu
