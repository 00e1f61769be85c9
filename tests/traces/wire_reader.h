#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

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

/// The packets of a Perfetto trace in order, those of compressed packets in their place.
inline std::vector<std::string> perfetto_packets(const std::string& trace) {
  std::vector<std::string> packets;
  for (const auto& [field, packet] : parse(trace).texts) {
    EXPECT_EQ(field, 1u);
    const Fields fields = parse(packet);
    const auto packed = fields.texts.find(50);
    if (packed == fields.texts.end()) {
      packets.push_back(packet);
      continue;
    }
    std::string plain(std::size_t{2} << 20, '\0');
    uLongf size = plain.size();
    EXPECT_EQ(
        ::uncompress(reinterpret_cast<Bytef*>(plain.data()), &size,
                     reinterpret_cast<const Bytef*>(packed->second.data()), packed->second.size()),
        Z_OK);
    plain.resize(size);
    for (std::string& inner : perfetto_packets(plain)) packets.push_back(std::move(inner));
  }
  return packets;
}

}  // namespace tpu::test
