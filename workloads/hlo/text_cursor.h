#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/base/error.h"

namespace tpu::hlo {

/// True for what HLO text takes for a name: letters, digits, '_', '.' and '-'.
bool is_name(std::string_view text);

/// A place in HLO text from which the reader takes tokens. It skips blanks and comments, knows line
/// and column, and its errors show the line itself and what was expected there.
class TextCursor {
 public:
  /// `file` names the text in errors. Both views must outlive the cursor.
  TextCursor(std::string_view file, std::string_view text) : file_(file), text_(text) {}

  bool at_end();
  /// The text from the next character that is no blank.
  std::string_view rest() { return at_end() ? std::string_view() : text_.substr(position_); }
  /// The next character that is no blank; '\0' at the end.
  char peek();
  bool take(char expected);
  /// Takes `word` when it stands here as a whole word.
  bool take_word(std::string_view word);
  void expect(char expected);
  void expect(std::string_view text);
  /// Letters, digits, '_', '.', '-': names, opcodes, attribute names. Throws when there is none.
  std::string_view name(std::string_view what);
  std::int64_t integer(std::string_view what);
  /// An integer from 0 to 2^31 - 1.
  int number32(std::string_view what);
  /// A string in double or single quotes, without them; escapes stay as they are.
  std::string_view quoted(std::string_view what);
  /// Text up to a comma or closing bracket outside all brackets and quotes, at least a character.
  std::string_view balanced(std::string_view what);
  /// Passes over elements with commas between them up to and including `closing`.
  void skip_list(char closing, std::string_view what);

  std::size_t position() const { return position_; }
  void move_to(std::size_t position) { position_ = position; }
  /// A cursor in front of a part of this text.
  TextCursor at(std::string_view part) const {
    TextCursor there = *this;
    there.move_to(static_cast<std::size_t>(part.data() - text_.data()));
    return there;
  }
  std::string_view text() const { return text_; }

  [[noreturn]] void fail(const std::string& expected) { fail_at(position_, expected); }
  [[noreturn]] void fail_at(std::size_t position, const std::string& expected) const;
  /// For values that are read apart, from a part of the text: fails at the part's own place.
  [[noreturn]] void fail_in(std::string_view part, const std::string& expected) const;

 private:
  void skip_blanks();
  std::string_view balanced_until(std::size_t begin, std::size_t end, std::string_view what);

  std::string_view file_;
  std::string_view text_;
  std::size_t position_ = 0;
};

}  // namespace tpu::hlo
