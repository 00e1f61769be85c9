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
    std::vector<SortStep>& steps = passes_.back().steps;
    steps.insert(steps.end(), waiting_.begin(), waiting_.end());
    waiting_.clear();
    steps.push_back({SortStep::Kind::kCompare, bit, -1});
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
    return bit >= passes_.back().low && bit < passes_.back().low + passes_.back().count;
  }
  void begin(int bit, int lowest) {
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

}  // namespace

std::vector<SortPass> sort_passes(int bits, int register_bits, int most, int kept) {
  PassMaker maker(register_bits, most);
  for (int phase = 1; phase <= std::min(kept, bits); ++phase) {
    maker.complement(phase > 1 ? phase - 1 : -1, phase < bits ? phase : -1);
    for (int bit = phase; bit-- > 0;) maker.compare(bit);
  }
  for (int phase = kept + 1; phase <= bits; ++phase) {
    if (kept > 0) maker.complement(phase - 1, -1);
    maker.drop(kept, phase - 1);
    maker.compare(phase - 1, phase - 1);
    maker.drop(kept, phase);
    if (kept > 0) maker.complement(phase < bits ? phase : -1, -1);
    for (int bit = kept; bit-- > 0;) maker.compare(bit);
  }
  return maker.take();
}

}  // namespace tpu::compiler
