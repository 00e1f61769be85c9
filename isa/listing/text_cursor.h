#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "sim/base/error.h"

namespace tpu::isa {

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// A place in a text in memory, with the errors of a strict reader: `file:line:column: expected
/// ..., found ...`. Lines and columns are counted only when an error is reported.
class TextCursor {
 public:
  TextCursor(std::string_view text, std::string file)
      : begin_(text.data()),
        end_(text.data() + text.size()),
        at_(text.data()),
        file_(std::move(file)) {}

  const char* at() const { return at_; }
  void move_to(const char* place) { at_ = place; }
  void advance(std::size_t count) { at_ += count; }
  bool at_end() const { return at_ == end_; }
  const char* end() const { return end_; }
  std::size_t left() const { return static_cast<std::size_t>(end_ - at_); }
  std::string_view rest() const { return {at_, left()}; }

  /// The next character; 0 at the end of the text.
  char peek() const { return at_ == end_ ? '\0' : *at_; }
  char peek(std::size_t ahead) const { return ahead < left() ? at_[ahead] : '\0'; }
  bool looking_at(std::string_view word) const {
    return left() >= word.size() && std::string_view(at_, word.size()) == word;
  }
  /// Steps over `word` when it stands here.
  bool take(std::string_view word) {
    if (!looking_at(word)) return false;
    at_ += word.size();
    return true;
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(std::string_view word) {
    if (!take(word)) fail("\"" + std::string(word) + "\"");
  }
  void skip_blanks() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\r')) ++at_;
  }
  /// Moves behind the end of this line; its text without the line feed.
  std::string_view take_line();

  /// A number in digits; `what` names it in the error. Values above `limit` are refused.
  std::uint64_t decimal(std::string_view what, std::uint64_t limit = 0xffffffffu);
  /// "0x" and hexadecimal digits.
  std::uint64_t hexadecimal(std::string_view what, std::uint64_t limit = 0xffffffffu);
  /// "0x.." or a number in digits.
  std::uint64_t number(std::string_view what, std::uint64_t limit = 0xffffffffu) {
    return looking_at("0x") ? hexadecimal(what, limit) : decimal(what, limit);
  }

  /// Throws WorkloadError: expected `what` here, found the text that stands here.
  [[noreturn]] void fail(const std::string& what) const { fail_at(at_, what); }
  [[noreturn]] void fail_at(const char* place, const std::string& what) const;
  /// Throws WorkloadError with a message of its own.
  [[noreturn]] void refuse_at(const char* place, const std::string& message) const;
  /// The line and column of a place in the text.
  SourceLocation location(const char* place) const;

 private:
  const char* begin_;
  const char* end_;
  const char* at_;
  std::string file_;
};

}  // namespace tpu::isa
