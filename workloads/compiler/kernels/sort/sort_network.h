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
  /// Each 16 registers become their transpose; the steps, complements, come before. From one such
  /// pass to the next one the lane is the place in a column of registers: its lowest three bits
  /// have the numbers of the sublane's, the others those of the lowest bits of the register.
  bool turns = false;
  /// Loads and stores take the same sublane of eight neighbouring registers: in this pass the
  /// lowest three bits of the register and those of the sublane have each other's numbers.
  bool is_strided = false;
  int low = 0, count = 0;
  /// Registers that have one of these bits of their number set hold nothing that is wanted.
  int dead_low = 0, dead_count = 0;
  std::vector<SortStep> steps;
};

/// Passes over blocks that come to VMEM one after the other.
struct SortRound {
  /// 0: a block is a column of registers. Else it has some registers, 2^part_bits, of each of
  /// 2^tile_bits columns, and bits have other numbers: the lowest part_bits are those of the
  /// register in its column, the next ones those of the column.
  int tile_bits = 0, part_bits = 0;
  int register_bits = 0;  ///< From here on bits are none of a register's number,
  int outer_bits = 0;     ///< from here on they are those of the block's.
  std::vector<SortPass> passes;
};

/// Positions: their lowest bits are the number of the register in its column, the next three the
/// sublane, then come those of the lane, then those of the column.
struct SortNetwork {
  int register_bits = 0, lane_bits = 0, tile_bits = 0;
  int kept = 0;           ///< Less than register_bits, or all bits.
  int most = 1;           ///< 2^most registers of a word stand in registers at once.
  int part_bits = 0;      ///< Of rounds over several columns.
  bool may_turn = false;  ///< Columns have whole transposes.

  int column_bits() const { return register_bits + 3 + lane_bits; }
  int bits() const { return column_bits() + tile_bits; }
};

std::vector<SortRound> sort_rounds(const SortNetwork& network);

/// From how many bits of lanes on, compared one after the other, turning registers twice takes less
/// than turning lanes for each.
constexpr int kTurnedLaneBits = 2;

}  // namespace tpu::compiler
