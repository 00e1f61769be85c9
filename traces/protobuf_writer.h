#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "traces/valid_utf8.h"

namespace tpu::traces {

/// Appends the fields of one protobuf message to a string: the wire format is varints, fixed 64-bit
/// words and length-delimited bytes. Nested messages are messages of their own, appended as bytes.
class ProtobufMessage {
 public:
  ProtobufMessage& varint(std::uint32_t field, std::uint64_t value) {
    append_varint(std::uint64_t{field} << 3);
    append_varint(value);
    return *this;
  }
  ProtobufMessage& number(std::uint32_t field, double value) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    return fixed(field, bits);
  }
  ProtobufMessage& fixed(std::uint32_t field, std::uint64_t bits) {
    append_varint(std::uint64_t{field} << 3 | 1);
    for (int shift = 0; shift < 64; shift += 8) {
      text_.push_back(static_cast<char>(bits >> shift & 0xff));
    }
    return *this;
  }
  ProtobufMessage& bytes(std::uint32_t field, std::string_view value) {
    append_varint(std::uint64_t{field} << 3 | 2);
    append_varint(value.size());
    text_.append(value);
    return *this;
  }
  /// Bytes that come in two parts.
  ProtobufMessage& bytes(std::uint32_t field, std::string_view first, std::string_view second) {
    append_varint(std::uint64_t{field} << 3 | 2);
    append_varint(first.size() + second.size());
    text_.append(first).append(second);
    return *this;
  }
  /// A string field: readers refuse files with text that is no UTF-8.
  ProtobufMessage& string(std::uint32_t field, std::string_view value) {
    return bytes(field, valid_utf8(value));
  }
  ProtobufMessage& message(std::uint32_t field, const ProtobufMessage& value) {
    return bytes(field, value.text_);
  }
  /// The fields of another message, in this one.
  ProtobufMessage& append(const ProtobufMessage& fields) {
    text_ += fields.text_;
    return *this;
  }
  /// Empties it; the memory stays.
  void clear() { text_.clear(); }
  bool empty() const { return text_.empty(); }
  const std::string& text() const { return text_; }

 private:
  void append_varint(std::uint64_t value) {
    while (value >= 128) {
      text_.push_back(static_cast<char>(value | 128));
      value >>= 7;
    }
    text_.push_back(static_cast<char>(value));
  }
  std::string text_;
};

}  // namespace tpu::traces
