#pragma once

#include <array>
#include <cstdint>

#include "isa/meaning.h"

namespace tpu::isa {

/// The random number generator of the vector unit: 64 generators of 128 bits of state, one for two
/// neighbouring lanes, each of which makes 64 bits a cycle, so that a vrng takes eight.
///
/// What is known, from XLA's kernels for `rng-bit-generator`: they fill the state of each pair of
/// lanes with four words, (sublane 0, even lane), (1, even), (0, odd), (1, odd), replace a state of
/// four zeros, keep eight cycles from set.rngseed or vrng to the next vrng, drop the first vrng
/// behind set.rngseed, and give back at their end the state that getrngseed read at their start.
/// What is unknown is the function itself. A generator of such a state that must not be 0 is
/// xorshift128+ (Vigna, 2017), which stands here for it: the same seed gives the same numbers, but
/// not the chip's.
class RandomGenerator {
 public:
  RandomGenerator();

  /// set.rngseed: sublanes 0 and 1 of each pair of lanes.
  void set_state(const VectorRegister& state);
  /// getrngseed: what set_state() takes, 0 in the other sublanes.
  void get_state(VectorRegister& state) const;
  /// vrng: sublane s of a pair of lanes is draw s of its generator, the low word in the even lane.
  void draw(VectorRegister& out);

 private:
  static constexpr int kPairs = kLanes / 2;
  struct Pair {
    std::uint64_t low = 0, high = 0;
  };
  std::array<Pair, kPairs> pairs_;
};

}  // namespace tpu::isa
