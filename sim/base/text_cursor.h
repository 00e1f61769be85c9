#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>

#include "sim/base/error.h"

namespace tpu {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c);
}
constexpr bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
/// The value of a hexadecimal digit; -1 for any other letter.
constexpr int hexadecimal_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/// Of eight characters, the first in the low byte: how many are digits up to the first other one.
inline std::size_t leading_digits(std::uint64_t characters) {
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);
  // 0x30 to 0x39 keep their upper half when 6 is added; what else has this half does not.
  constexpr std::uint64_t kUpper = 0xf0f0f0f0f0f0f0f0, kZeros = 0x3030303030303030;
  constexpr std::uint64_t kSixes = 0x0606060606060606;
  const std::uint64_t others =
      ((characters & kUpper) ^ kZeros) | (((characters + kSixes) & kUpper) ^ kZeros);
  return others == 0 ? 8 : static_cast<std::size_t>(__builtin_ctzll(others)) / 8;
}
/// The number of the first one to eight of them.
inline std::uint64_t number_of_digits(std::uint64_t characters, std::size_t digits) {
  constexpr std::uint64_t kPairs = 0x000000ff000000ff;
  std::uint64_t value = (characters << (64 - 8 * digits)) & 0x0f0f0f0f0f0f0f0f;
  value = value * 10 + (value >> 8);
  return ((value & kPairs) * (100 + (std::uint64_t{1000000} << 32)) +
          (value >> 16 & kPairs) * (1 + (std::uint64_t{10000} << 32))) >>
         32;
}

/// A place in a text in memory, character by character, with the errors of a strict reader:
/// `file:line:column: expected ..., found "..."`. Lines and columns are counted only when an error
/// is reported. Text and name must outlive the cursor.
class TextCursor {
 public:
  /// How errors name a place.
  enum class Places {
    kFile,     ///< file:line:column
    kLines,    ///< the same, and the line itself below: of texts whose lines few have seen
    kPartOfIt  ///< of a text that is no file: its name, the text and the column
  };

  TextCursor(std::string_view text, std::string_view name, Places places = Places::kFile)
      : at_(text.data()),
        end_(text.data() + text.size()),
        text_(text),
        name_(name),
        places_(places) {}

  const char* at() const { return at_; }
  void move_to(const char* place) { at_ = place; }
  void advance(std::size_t count) { at_ += count; }
  bool at_end() const { return at_ == end_; }
  const char* end() const { return end_; }
  std::size_t left() const { return static_cast<std::size_t>(end_ - at_); }
  std::string_view rest() const { return {at_, left()}; }
  std::string_view rest_of_line() const { return rest().substr(0, rest().find('\n')); }
  /// Leads only within a part of the text; errors have their place in the whole.
  void narrow_to(std::string_view part) {
    at_ = part.data();
    end_ = at_ + part.size();
  }
  /// What stands between an earlier place and this one.
  std::string_view since(const char* place) const {
    return {place, static_cast<std::size_t>(at_ - place)};
  }

  /// The next character; 0 at the end of the text.
  char peek() const { return at_ == end_ ? '\0' : *at_; }
  char peek(std::size_t ahead) const { return ahead < left() ? at_[ahead] : '\0'; }
  [[gnu::always_inline]] bool looking_at(std::string_view word) const {
    return left() >= word.size() && std::memcmp(at_, word.data(), word.size()) == 0;
  }
  /// Steps over `word` when it stands here.
  [[gnu::always_inline]] bool take(std::string_view word) {
    if (!looking_at(word)) return false;
    at_ += word.size();
    return true;
  }
  bool take(char c) {
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }
  [[gnu::always_inline]] void expect(std::string_view word) {
    if (!take(word)) fail_expected(word);
  }
  void expect(char c) {
    if (!take(c)) fail_expected({&c, 1});
  }
  /// Steps over the characters of a kind.
  template <class IsOfKind>
  std::string_view take_while(IsOfKind is_of_kind) {
    const char* const begin = at_;
    const char* c = begin;
    while (c != end_ && is_of_kind(*c)) ++c;
    at_ = c;
    return since(begin);
  }
  /// Within a line.
  void skip_blanks() {
    take_while([](char c) { return c == ' ' || c == '\t' || c == '\r'; });
  }
  /// Moves behind the end of this line; its text without the line feed.
  std::string_view take_line();

  /// A number in digits; `what` names it in the error. Values above `limit` are refused.
  [[gnu::always_inline]] std::uint64_t decimal(std::string_view what,
                                               std::uint64_t limit = 0xffffffffu) {
    std::uint64_t value = 0;
    std::size_t digits = 0;
    if (left() >= sizeof value) {
      std::memcpy(&value, at_, sizeof value);
      digits = leading_digits(value);
    }
    if (digits == 0 || digits == sizeof value) return any_decimal(what, limit);
    value = number_of_digits(value, digits);
    if (value > limit) return any_decimal(what, limit);
    at_ += digits;
    return value;
  }
  /// "0x" and hexadecimal digits.
  std::uint64_t hexadecimal(std::string_view what, std::uint64_t limit = 0xffffffffu);
  /// "0x.." or a number in digits.
  std::uint64_t number(std::string_view what, std::uint64_t limit = 0xffffffffu) {
    return looking_at("0x") ? hexadecimal(what, limit) : decimal(what, limit);
  }
  /// Steps over a number as std::from_chars reads it, with a sign or a fraction where the type has
  /// one; says what is wrong with it, and stands where it was when there is none.
  template <class Number, class... Base>
  std::errc take_number(Number& value, Base... base) {
    const auto [stop, error] = std::from_chars(at_, end_, value, base...);
    at_ = stop;
    return error;
  }

  /// Throws WorkloadError: expected `what` here, found the text that stands here.
  [[noreturn]] void fail(const std::string& what) const { fail_at(at_, what); }
  [[noreturn]] void fail_at(const char* place, const std::string& what) const;
  /// Throws WorkloadError with a message of its own.
  [[noreturn]] void refuse_at(const char* place, const std::string& message) const;
  SourceLocation location(const char* place) const;

 private:
  [[gnu::cold, gnu::noinline]] std::uint64_t any_decimal(std::string_view what,
                                                         std::uint64_t limit);
  [[noreturn]] void fail_limit(const char* place, std::string_view what, std::uint64_t limit) const;
  std::string_view line_before(const char* place) const;
  std::string excerpt(const char* place) const;
  [[noreturn, gnu::cold, gnu::noinline]] void fail_expected(std::string_view word) const;

  const char* at_;
  const char* end_;
  std::string_view text_;
  std::string_view name_;
  Places places_;
};

}  // namespace tpu
