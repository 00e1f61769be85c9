#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tpu {

/// Counts the cycles that a unit spends in each state of an enumeration that ends in kCount. Every
/// cycle belongs to exactly one state, so total() equals the cycles that have passed since the
/// account was opened.
template <class State>
class CycleAccount {
 public:
  static constexpr std::size_t kStates = static_cast<std::size_t>(State::kCount);

  void add(State state, std::uint64_t cycles) {
    cycles_[static_cast<std::size_t>(state)] += cycles;
  }
  std::uint64_t operator[](State state) const { return cycles_[static_cast<std::size_t>(state)]; }
  std::uint64_t total() const {
    std::uint64_t sum = 0;
    for (std::uint64_t cycles : cycles_) sum += cycles;
    return sum;
  }
  CycleAccount& operator+=(const CycleAccount& other) {
    for (std::size_t i = 0; i < kStates; ++i) cycles_[i] += other.cycles_[i];
    return *this;
  }
  friend CycleAccount operator-(CycleAccount later, const CycleAccount& earlier) {
    for (std::size_t i = 0; i < kStates; ++i) later.cycles_[i] -= earlier.cycles_[i];
    return later;
  }

 private:
  std::array<std::uint64_t, kStates> cycles_{};
};

}  // namespace tpu
