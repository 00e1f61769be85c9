#pragma once

#include <cstdint>
#include <vector>

namespace tpu {

/// What a machine is like in a cycle, as far as what is still to come depends on it: numbers, and
/// cycles relative to that one. Two that are equal have the same future, cycle for cycle. Clocks
/// of their own and the refresh of the HBM are in it as phases.
class StepState {
 public:
  explicit StepState(std::uint64_t now) : now_(now) {}

  std::uint64_t now() const { return now_; }
  void add(std::uint64_t word) { words_.push_back(word); }
  /// Numbers of which there may be more or less.
  void add_list(const std::vector<std::uint64_t>& words) {
    add(words.size());
    words_.insert(words_.end(), words.begin(), words.end());
  }
  /// A cycle to come; of one that has passed only that it has.
  void add_time(std::uint64_t cycle) { add(cycle > now_ ? cycle - now_ : 0); }
  /// A cycle of which it matters how long ago it was.
  void add_past(std::uint64_t cycle) { add(cycle - now_); }
  /// Something is under way that is not written down: the state is equal to no other.
  void leave_open() { is_complete_ = false; }

  bool is_complete() const { return is_complete_; }
  const std::vector<std::uint64_t>& words() const { return words_; }

 private:
  std::uint64_t now_;
  bool is_complete_ = true;
  std::vector<std::uint64_t> words_;
};

}  // namespace tpu
