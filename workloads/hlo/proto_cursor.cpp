#include "workloads/hlo/proto_cursor.h"

#include <cstring>

#include "sim/base/error.h"
#include "workloads/hlo/hlo_cursor.h"
#include "workloads/hlo/proto_values.h"

namespace tpu::hlo {

bool ProtoCursor::next() {
  if (bytes_.empty()) return false;
  const std::uint64_t tag = varint(bytes_);
  field_ = static_cast<int>(tag >> 3 & 0x1fffffff);
  wire_ = static_cast<int>(tag & 7);
  if (field_ == 0 || tag >> 32 != 0) fail("a field's number from 1 to 2^29 - 1");
  const auto fixed = [&](std::size_t size) {
    if (bytes_.size() < size) fail("the rest of field " + std::to_string(field_));
    scalar_ = 0;
    std::memcpy(&scalar_, bytes_.data(), size);
    bytes_.remove_prefix(size);
  };
  switch (wire_) {
    case kVarint:
      scalar_ = varint(bytes_);
      return true;
    case kFixed64:
      fixed(8);
      return true;
    case kFixed32:
      fixed(4);
      return true;
    case kLength: {
      const std::uint64_t length = varint(bytes_);
      if (length > bytes_.size()) {
        fail("field " + std::to_string(field_) + " to end within its message (it says " +
             std::to_string(length) + " bytes, there are " + std::to_string(bytes_.size()) + ")");
      }
      payload_ = bytes_.substr(0, static_cast<std::size_t>(length));
      bytes_.remove_prefix(static_cast<std::size_t>(length));
      return true;
    }
    default:
      fail("a varint, fixed or delimited field (wire type 0, 1, 2 or 5; found " +
           std::to_string(wire_) + ")");
  }
}

std::int64_t ProtoCursor::integer(std::string_view name) {
  need(kVarint, name, "a varint");
  return static_cast<std::int64_t>(scalar_);
}

float ProtoCursor::number(std::string_view name) {
  need(kFixed32, name, "a float");
  const auto bits = static_cast<std::uint32_t>(scalar_);
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

std::string_view ProtoCursor::text(std::string_view name) {
  need(kLength, name, "bytes");
  return payload_;
}

std::string_view ProtoCursor::identifier(std::string_view name) {
  const std::string_view value = text(name);
  if (!is_name(value)) {
    fail(std::string(name) + " of letters, digits, '_', '.' and '-', found \"" + escaped(value) +
         "\"");
  }
  return value;
}

ProtoCursor ProtoCursor::message(std::string_view name) {
  need(kLength, name, "a message");
  ProtoCursor inner(file_, whole_, name_ + "." + std::string(name));
  inner.bytes_ = payload_;
  return inner;
}

void ProtoCursor::integers(std::string_view name, std::vector<std::int64_t>& values) {
  if (wire_ == kVarint) {
    values.push_back(static_cast<std::int64_t>(scalar_));
    return;
  }
  need(kLength, name, "varints");
  for (std::string_view rest = payload_; !rest.empty();) {
    values.push_back(static_cast<std::int64_t>(varint(rest)));
  }
}

void ProtoCursor::need(Wire wire, std::string_view name, const char* what) const {
  if (wire_ != wire) {
    fail(std::string(what) + " as field " + std::to_string(field_) + ", " + std::string(name) +
         " (wire type " + std::to_string(wire) + ", found " + std::to_string(wire_) + ")");
  }
}

std::uint64_t ProtoCursor::varint(std::string_view& bytes) const {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    if (bytes.empty()) fail("the end of a varint");
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= shift < 64 ? std::uint64_t{byte & 0x7fu} << shift : 0;
    if ((byte & 0x80) == 0) return value;
  }
  fail("a varint of at most 10 bytes");
}

std::size_t ProtoCursor::position() const {
  return bytes_.data() == nullptr ? whole_.size()
                                  : static_cast<std::size_t>(bytes_.data() - whole_.data());
}

void ProtoCursor::fail(const std::string& expected) const { refuse("expected " + expected); }

void ProtoCursor::refuse(const std::string& message) const {
  throw WorkloadError(std::string(file_) + ": byte " + std::to_string(position()) + " (" + name_ +
                      "): " + message);
}

}  // namespace tpu::hlo
