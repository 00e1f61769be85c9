#include "workloads/compiler/kernels/sort/sort_network.h"

#include <algorithm>

namespace tpu::compiler {

namespace {

/// Puts the steps of a network into passes.
class PassMaker {
 public:
  PassMaker(int register_bits, int most) : register_bits_(register_bits), most_(most) {}

  void complement(int bit, int other) {
    if (bit >= 0 || other >= 0) waiting_.push_back({SortStep::Kind::kComplement, bit, other});
  }
  /// `lowest`: of the bits that are compared next to this one.
  void compare(int bit, int lowest = 0) {
    if (!takes(bit)) begin(bit, lowest);
    SortPass& pass = passes_.back();
    for (const SortStep& step : waiting_) {
      pass.steps.push_back({step.kind, number_in(pass, step.bit), number_in(pass, step.other)});
    }
    waiting_.clear();
    pass.steps.push_back({SortStep::Kind::kCompare, number_in(pass, bit), -1});
  }
  void turn() {
    SortPass pass;
    pass.turns = true;
    pass.steps = std::move(waiting_);
    waiting_.clear();
    passes_.push_back(std::move(pass));
    is_open_ = false;
  }
  /// Registers with a bit from `low` up to `end` hold nothing from now on.
  void drop(int low, int end) {
    dead_low_ = low;
    dead_count_ = std::max(0, std::min(end, register_bits_) - low);
    is_open_ = false;
  }

  std::vector<SortPass> take() { return std::move(passes_); }

 private:
  bool takes(int bit) const {
    if (!is_open_ || passes_.back().is_within) return false;
    const SortPass& pass = passes_.back();
    if (pass.is_strided != is_of_sublanes(bit)) return false;
    const int number = number_in(pass, bit);
    return number >= pass.low && number < pass.low + pass.count;
  }
  bool is_of_sublanes(int bit) const { return bit >= register_bits_ && bit < register_bits_ + 3; }
  /// What a pass calls a bit.
  int number_in(const SortPass& pass, int bit) const {
    if (!pass.is_strided || bit < 0) return bit;
    if (is_of_sublanes(bit)) return bit - register_bits_;
    return bit < 3 ? bit + register_bits_ : bit;
  }
  void begin_strided(int bit) {
    SortPass pass;
    pass.is_strided = true;
    pass.count = std::min(most_, 3);
    pass.low = std::max(0, bit - register_bits_ + 1 - pass.count);
    pass.dead_low = dead_low_;
    pass.dead_count = dead_count_;
    passes_.push_back(std::move(pass));
    is_open_ = true;
  }
  void begin(int bit, int lowest) {
    const bool has_eight = register_bits_ >= 3 && (dead_count_ == 0 || dead_low_ >= 3);
    if (is_of_sublanes(bit) && has_eight) return begin_strided(bit);
    SortPass pass;
    pass.is_within = bit >= register_bits_;
    pass.count = pass.is_within ? 1 : std::min({most_, register_bits_, bit + 1 - lowest});
    pass.low = bit + 1 - pass.count;
    // Phases that are short take the bits above with them.
    if (!pass.is_within && lowest == 0 && dead_count_ == 0) {
      pass.count = std::min(most_, register_bits_);
      pass.low = std::max(0, bit + 1 - pass.count);
    }
    pass.dead_low = dead_low_;
    pass.dead_count = dead_count_;
    passes_.push_back(std::move(pass));
    is_open_ = true;
  }

  int register_bits_, most_;
  int dead_low_ = 0, dead_count_ = 0;
  bool is_open_ = false;
  std::vector<SortPass> passes_;
  std::vector<SortStep> waiting_;
};

/// The comparisons of a phase within a column, from its highest bit on.
void compare_in_column(PassMaker& maker, const SortNetwork& network, int highest) {
  const int first_lane_bit = network.register_bits + 3;
  int bit = highest;
  if (network.may_turn && bit + 1 - first_lane_bit >= kTurnedLaneBits) {
    maker.turn();
    for (; bit >= first_lane_bit; --bit) {
      const int lane_bit = bit - first_lane_bit;
      maker.compare(lane_bit < 3 ? network.register_bits + lane_bit : lane_bit - 3);
    }
    maker.turn();
  }
  for (; bit >= 0; --bit) maker.compare(bit);
}

/// The first 2^kept elements alone from where blocks are that long.
void merge_kept(PassMaker& maker, const SortNetwork& network) {
  const int kept = network.kept, bits = network.bits();
  for (int phase = kept + 1; phase <= bits; ++phase) {
    if (kept > 0) maker.complement(phase - 1, -1);
    maker.drop(kept, phase - 1);
    maker.compare(phase - 1, phase - 1);
    maker.drop(kept, phase);
    if (kept > 0) maker.complement(phase < bits ? phase : -1, -1);
    for (int bit = kept; bit-- > 0;) maker.compare(bit);
  }
}

SortRound round_of_columns(const SortNetwork& network, PassMaker& maker) {
  SortRound round;
  round.register_bits = network.register_bits;
  round.outer_bits = network.column_bits();
  round.passes = maker.take();
  return round;
}

/// The comparisons of a phase that are between columns.
SortRound round_between_columns(const SortNetwork& network, int phase) {
  SortRound round;
  round.tile_bits = phase - network.column_bits();
  round.part_bits = network.part_bits;
  round.register_bits = round.outer_bits = round.part_bits + round.tile_bits;
  PassMaker maker(round.register_bits, network.most);
  const int top = round.register_bits;
  maker.complement(top - 1, phase < network.bits() ? top : -1);
  for (int bit = top; bit-- > round.part_bits;) maker.compare(bit, round.part_bits);
  round.passes = maker.take();
  return round;
}

}  // namespace

std::vector<SortRound> sort_rounds(const SortNetwork& network) {
  std::vector<SortRound> rounds;
  const int bits = network.bits();
  PassMaker first(network.register_bits, network.most);
  for (int phase = 1; phase <= std::min(network.kept, network.column_bits()); ++phase) {
    first.complement(phase > 1 ? phase - 1 : -1, phase < bits ? phase : -1);
    compare_in_column(first, network, phase - 1);
  }
  if (network.kept < bits) merge_kept(first, network);
  rounds.push_back(round_of_columns(network, first));
  for (int phase = network.column_bits() + 1; phase <= bits; ++phase) {
    rounds.push_back(round_between_columns(network, phase));
    PassMaker merge(network.register_bits, network.most);
    compare_in_column(merge, network, network.column_bits() - 1);
    rounds.push_back(round_of_columns(network, merge));
  }
  return rounds;
}

}  // namespace tpu::compiler
