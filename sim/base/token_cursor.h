#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/text_cursor.h"

namespace tpu {

/// A cursor over a text whose tokens space and comments separate: it passes over them before
/// whatever it reads.
class TokenCursor : private TextCursor {
 public:
  enum class Comments { kNone, kSlashes };  ///< None; `/* */` and `//` to the end of the line.

  TokenCursor(std::string_view text, std::string_view name, Places places = Places::kFile,
              Comments comments = Comments::kSlashes)
      : TextCursor(text, name, places), comments_(comments) {}

  using TextCursor::at;
  using TextCursor::fail_at;
  using TextCursor::move_to;
  using TextCursor::narrow_to;
  using TextCursor::Places;
  using TextCursor::refuse_at;
  using TextCursor::since;

  /// The place of the next token.
  const char* next() {
    skip_space();
    return at();
  }
  void skip_space() {
    if (TextCursor::at_end() || (*at() != '/' && !is_space(*at()))) return;
    pass_space();
  }

  bool at_end() {
    skip_space();
    return TextCursor::at_end();
  }
  std::string_view rest() {
    skip_space();
    return TextCursor::rest();
  }
  /// The next character; 0 at the end of the text.
  char peek() {
    skip_space();
    return TextCursor::peek();
  }
  bool looking_at(std::string_view word) {
    skip_space();
    return TextCursor::looking_at(word);
  }
  /// Whether nothing, not even space, parts this place and `c`.
  bool touches(char c) const { return TextCursor::peek() == c; }

  /// Steps over what is wanted when it stands here.
  bool take(char c) {
    skip_space();
    return TextCursor::take(c);
  }
  bool take(std::string_view word) {
    skip_space();
    return TextCursor::take(word);
  }
  void expect(char c) {
    skip_space();
    TextCursor::expect(c);
  }
  void expect(std::string_view word) {
    skip_space();
    TextCursor::expect(word);
  }
  template <class IsOfKind>
  std::string_view take_while(IsOfKind is_of_kind) {
    skip_space();
    return TextCursor::take_while(is_of_kind);
  }
  template <class Number, class... Base>
  std::errc take_number(Number& value, Base... base) {
    skip_space();
    return TextCursor::take_number(value, base...);
  }

  /// A number in digits; `what` names it in the error. Values above `limit` are refused.
  std::int64_t whole_number(std::string_view what,
                            std::int64_t limit = std::numeric_limits<std::int64_t>::max());
  /// The same, or a negative one.
  std::int64_t integer(std::string_view what);
  /// A string in double or single quotes, without them; escapes stay as they are.
  std::string_view quoted(std::string_view what);
  /// What `element` reads, with commas between, up to and with `closing`.
  template <class Element>
  void list(char closing, Element element) {
    while (!take(closing)) {
      element();
      if (!take(',') && peek() != closing) fail_list(closing);
    }
  }
  template <class Element>
  void list(char opening, char closing, Element element) {
    expect(opening);
    list(closing, element);
  }
  std::vector<std::int64_t> whole_numbers(char opening, char closing, std::string_view what);

  /// Throws WorkloadError: expected `what` as the next token, found the text that stands here.
  [[noreturn]] void fail(const std::string& what) { fail_at(next(), what); }

 private:
  void pass_space();
  [[noreturn]] void fail_list(char closing);

  Comments comments_;
};

}  // namespace tpu
