#pragma once

#include <cstdint>
#include <vector>

namespace tpu::compiler {

/// Bitonic sorting network over positions of `bits` bits: in phase k blocks of 2^k elements become
/// sorted, ascending where bit k of the position is 0. Elements of descending blocks have their
/// keys complemented, so that all comparisons are alike.
///
/// Where only the first 2^kept elements are wanted, the phases behind `kept` keep so many of each
/// block: the lesser ones of two sorted sequences that run against each other, sorted again.
struct SortStep {
  enum class Kind : std::uint8_t {
    kComplement,  ///< Keys whose position has one of the bits `bit` and `other` set, not both.
    kCompare      ///< The lesser of two that differ in `bit` goes where the bit is 0.
  };
  Kind kind = Kind::kCompare;
  int bit = -1, other = -1;  ///< -1: none.
};

/// Steps that are taken while registers hold the words: comparisons by bits of the number of the
/// register, `low` and the `count` above; or one comparison by a bit within registers.
struct SortPass {
  bool is_within = false;
  int low = 0, count = 0;
  /// Registers that have one of these bits of their number set hold nothing that is wanted.
  int dead_low = 0, dead_count = 0;
  std::vector<SortStep> steps;
};

/// The network for positions whose lowest `register_bits` bits are the number of the register, at
/// most 2^`most` of which stand in registers at once. `kept`: less than register_bits, or all bits.
std::vector<SortPass> sort_passes(int bits, int register_bits, int most, int kept);

}  // namespace tpu::compiler
