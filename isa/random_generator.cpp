#include "isa/random_generator.h"

namespace tpu::isa {
namespace {

std::uint64_t two_words(std::uint32_t low, std::uint32_t high) {
  return std::uint64_t{high} << 32 | low;
}

/// SplitMix64: states of generators that no program has seeded.
std::uint64_t next_initial(std::uint64_t& state) {
  state += 0x9e3779b97f4a7c15ull;
  std::uint64_t z = state;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ z >> 27) * 0x94d049bb133111ebull;
  return z ^ z >> 31;
}

}  // namespace

RandomGenerator::RandomGenerator() {
  std::uint64_t initial = 0;
  for (Pair& pair : pairs_) {
    pair.low = next_initial(initial);
    pair.high = next_initial(initial);
  }
}

void RandomGenerator::set_state(const VectorRegister& state) {
  for (int p = 0; p < kPairs; ++p) {
    const std::uint32_t* even = state.word.data() + 2 * p;
    pairs_[p] = {two_words(even[0], even[kLanes]), two_words(even[1], even[kLanes + 1])};
  }
}

void RandomGenerator::get_state(VectorRegister& state) const {
  state.word.fill(0);
  for (int p = 0; p < kPairs; ++p) {
    std::uint32_t* even = state.word.data() + 2 * p;
    even[0] = static_cast<std::uint32_t>(pairs_[p].low);
    even[kLanes] = static_cast<std::uint32_t>(pairs_[p].low >> 32);
    even[1] = static_cast<std::uint32_t>(pairs_[p].high);
    even[kLanes + 1] = static_cast<std::uint32_t>(pairs_[p].high >> 32);
  }
}

void RandomGenerator::draw(VectorRegister& out) {
  for (int sublane = 0; sublane < kSublanes; ++sublane) {
    for (int p = 0; p < kPairs; ++p) {
      Pair& pair = pairs_[p];
      std::uint64_t x = pair.low;
      const std::uint64_t y = pair.high;
      const std::uint64_t sum = x + y;
      x ^= x << 23;
      pair = {y, x ^ y ^ x >> 18 ^ y >> 5};
      std::uint32_t* even = out.word.data() + kLanes * sublane + 2 * p;
      even[0] = static_cast<std::uint32_t>(sum);
      even[1] = static_cast<std::uint32_t>(sum >> 32);
    }
  }
}

}  // namespace tpu::isa
