#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tpu::hlo {

/// A message in protobuf's wire format, field by field. Knows where it stands in the file and what
/// it is called, so that its errors name byte and field. Groups, which protobuf has given up, are
/// refused; fields that nobody asks for are passed over.
class ProtoCursor {
 public:
  /// A whole file.
  ProtoCursor(std::string_view file, std::string_view bytes, std::string_view name)
      : file_(file), whole_(bytes), bytes_(bytes), name_(name) {}

  /// Moves to the next field; false at the message's end.
  bool next();
  int field() const { return field_; }

  std::int64_t integer(std::string_view name);
  bool boolean(std::string_view name) { return integer(name) != 0; }
  float number(std::string_view name);
  std::string_view text(std::string_view name);
  /// The name of an instruction, computation or module, which HLO text has without quotes.
  std::string_view identifier(std::string_view name);
  ProtoCursor message(std::string_view name);
  /// Appends the value or values of a repeated field, packed or not.
  void integers(std::string_view name, std::vector<std::int64_t>& values);

  /// Passes over the rest.
  void skip() { bytes_ = {}; }
  [[noreturn]] void fail(const std::string& expected) const;
  /// The same place, with a message of its own.
  [[noreturn]] void refuse(const std::string& message) const;

 private:
  enum Wire { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };

  void need(Wire wire, std::string_view name, const char* what) const;
  std::uint64_t varint(std::string_view& bytes) const;
  std::size_t position() const;

  std::string_view file_, whole_;
  std::string_view bytes_;  ///< What is left of the message.
  std::string name_;        ///< "HloModuleProto.computations".
  int field_ = 0;
  int wire_ = 0;
  std::uint64_t scalar_ = 0;
  std::string_view payload_;
};

}  // namespace tpu::hlo
