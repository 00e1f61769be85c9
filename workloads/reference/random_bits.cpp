#include <algorithm>
#include <array>

#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"
#include "workloads/reference/operations.h"

namespace tpu::reference {

namespace {

std::uint32_t low_of(std::uint64_t x) { return static_cast<std::uint32_t>(x); }
std::uint32_t high_of(std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); }

/// Threefry-2x32 with 20 rounds.
std::array<std::uint32_t, 2> threefry(std::uint64_t key, std::uint64_t counter) {
  const std::uint32_t keys[3] = {low_of(key), high_of(key),
                                 low_of(key) ^ high_of(key) ^ 0x1BD11BDAU};
  const int rotations[8] = {13, 15, 26, 6, 17, 29, 16, 24};
  std::uint32_t x = low_of(counter) + keys[0], y = high_of(counter) + keys[1];
  for (std::uint32_t round = 0; round < 20; ++round) {
    const int r = rotations[round % 8];
    x += y;
    y = ((y << r) | (y >> (32 - r))) ^ x;
    if (round % 4 != 3) continue;
    const std::uint32_t group = round / 4 + 1;
    x += keys[group % 3];
    y += keys[(group + 1) % 3] + group;
  }
  return {x, y};
}

/// Philox-4x32 with 10 rounds.
std::array<std::uint32_t, 4> philox(std::uint64_t key, std::uint64_t low, std::uint64_t high) {
  std::array<std::uint32_t, 4> x{low_of(low), high_of(low), low_of(high), high_of(high)};
  std::uint32_t k0 = low_of(key), k1 = high_of(key);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * x[0], b = std::uint64_t{0xCD9E8D57} * x[2];
    x = {high_of(b) ^ x[1] ^ k0, low_of(b), high_of(a) ^ x[3] ^ k1, low_of(a)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return x;
}

}  // namespace

Value rng_bit_generator(const hlo::HloInstruction& instruction, const Value& state) {
  Value result = make_value(instruction.shape);
  for (const hlo::Shape& shape : instruction.shape.elements) {
    result.elements.push_back(make_value(shape));
  }
  Value& next = result.elements.at(0);
  Value& bits = result.elements.at(1);
  if (is_floating(bits.shape.type) || hlo::byte_size(bits.shape.type) > 4) {
    throw WorkloadError(instruction.name + ": expected random integers of at most 32 bits, found " +
                        to_string(bits.shape, false));
  }
  next.integers = state.integers;
  const auto word = [&](std::size_t i) { return static_cast<std::uint64_t>(state.integers.at(i)); };
  const auto set = [&](std::size_t i, std::uint32_t value) {
    bits.integers.at(i) = wrap_to(bits.shape.type, value);
  };
  const std::size_t count = bits.integers.size();
  if (instruction.raw_attributes->find("three_fry") == std::string::npos) {
    for (std::uint64_t block = 0; 4 * block < count; ++block) {
      const std::uint64_t low = word(1) + block,
                          above = state.integers.size() > 2 ? word(2) : word(0);
      const auto made = philox(word(0), low, above + (low < word(1) ? 1 : 0));
      for (std::size_t i = 4 * block; i < std::min<std::size_t>(4 * block + 4, count); ++i) {
        set(i, made[i % 4]);
      }
    }
    next.integers[1] = static_cast<std::int64_t>(word(1) + ceil_divide(count, 4));
    return result;
  }
  // Both words of a block stand next to each other along the first even dimension.
  std::vector<std::int64_t> extents = bits.shape.dimensions;
  if (extents.empty()) extents.push_back(1);
  auto split = std::find_if(extents.begin(), extents.end(), [](auto n) { return n % 2 == 0; });
  if (split == extents.end()) split = std::max_element(extents.begin(), extents.end());
  const auto d = static_cast<std::size_t>(split - extents.begin());
  std::vector<std::int64_t> halves = extents;
  halves[d] = ceil_divide(extents[d], 2);
  const std::vector<std::int64_t> strides = strides_of(halves);
  std::uint64_t blocks = 1;
  for (const std::int64_t extent : halves) blocks *= static_cast<std::uint64_t>(extent);
  Index index(extents);
  for (std::size_t i = 0; i < count; ++i, index.next()) {
    std::vector<std::int64_t> place = index.at();
    const bool second = place[d] % 2 != 0;
    place[d] /= 2;
    std::uint64_t block = word(1);
    for (std::size_t k = 0; k < place.size(); ++k) {
      block += static_cast<std::uint64_t>(place[k] * strides[k]);
    }
    set(i, threefry(word(0), block)[second ? 1 : 0]);
  }
  next.integers[1] = static_cast<std::int64_t>(word(1) + blocks);
  return result;
}

}  // namespace tpu::reference
