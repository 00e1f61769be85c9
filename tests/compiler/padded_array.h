#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "workloads/compiler/ir/array_layout.h"
#include "workloads/graph/shape.h"

namespace tpu::test {

/// An array as it lies in HBM, its padding filled with NaNs, and its values in row-major order.
struct PaddedArray {
  hlo::Shape shape;
  std::vector<float> values;
  std::vector<std::uint32_t> words;
};

inline float rounded_to_bf16(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000U;
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

inline hlo::Shape array_in_memory(hlo::ElementType type, const std::vector<std::int64_t>& extents) {
  hlo::Shape shape = hlo::array_shape(type, extents);
  shape.layout = compiler::row_major_layout(type, shape.rank());
  return shape;
}

inline std::vector<std::uint8_t> bytes_of(hlo::ElementType type, const std::vector<float>& values) {
  const std::size_t size = static_cast<std::size_t>(hlo::byte_size(type));
  std::vector<std::uint8_t> bytes(values.size() * size);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint32_t bits = 0;
    const float value = size == 2 ? rounded_to_bf16(values[i]) : values[i];
    std::memcpy(&bits, &value, sizeof bits);
    if (size == 2) bits >>= 16;
    std::memcpy(bytes.data() + i * size, &bits, size);
  }
  return bytes;
}

inline PaddedArray padded_array(const hlo::Shape& shape, std::vector<float> values) {
  PaddedArray array{shape, std::move(values), {}};
  array.words = hlo::pack(shape, bytes_of(shape.type, array.values));
  const std::vector<std::uint32_t> used = hlo::pack(
      shape, std::vector<std::uint8_t>(static_cast<std::size_t>(shape.unpadded_bytes()), 0xff));
  for (std::size_t i = 0; i < used.size(); ++i) {
    array.words[i] = (array.words[i] & used[i]) | (0x7fc07fc0U & ~used[i]);
  }
  return array;
}

inline PaddedArray random_array(const hlo::Shape& shape, std::uint32_t seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  std::vector<float> values(static_cast<std::size_t>(shape.element_count()));
  for (float& value : values) {
    value = uniform(engine);
    if (hlo::byte_size(shape.type) == 2) value = rounded_to_bf16(value);
  }
  return padded_array(shape, std::move(values));
}

/// The values of an array read from HBM, in row-major order.
inline std::vector<float> values_of(const hlo::Shape& shape,
                                    const std::vector<std::uint32_t>& words) {
  const std::vector<std::uint8_t> bytes = hlo::unpack(shape, words);
  const std::size_t size = static_cast<std::size_t>(hlo::byte_size(shape.type));
  std::vector<float> values(bytes.size() / size);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, bytes.data() + i * size, size);
    if (size == 2) bits <<= 16;
    std::memcpy(&values[i], &bits, sizeof bits);
  }
  return values;
}

}  // namespace tpu::test
