#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <string>

namespace tpu::test {

/// Reads the wire format of one protobuf message: field number to values, nested ones as bytes.
struct Fields {
  std::multimap<std::uint32_t, std::uint64_t> numbers;
  std::multimap<std::uint32_t, std::string> texts;
};
inline Fields parse(const std::string& text) {
  Fields fields;
  std::size_t at = 0;
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      EXPECT_LT(at, text.size());
      const auto byte = static_cast<unsigned char>(text.at(at++));
      value |= std::uint64_t{byte & 127U} << shift;
      if (byte < 128) return value;
    }
  };
  while (at < text.size()) {
    const std::uint64_t key = varint();
    const auto field = static_cast<std::uint32_t>(key >> 3);
    if ((key & 7) == 0) {
      fields.numbers.emplace(field, varint());
    } else if ((key & 7) == 1) {
      std::uint64_t bits = 0;
      std::memcpy(&bits, text.data() + at, 8);
      fields.numbers.emplace(field, bits);
      at += 8;
    } else {
      EXPECT_EQ(key & 7, 2u);
      const std::size_t length = varint();
      fields.texts.emplace(field, text.substr(at, length));
      at += length;
    }
  }
  return fields;
}

}  // namespace tpu::test
