#pragma once

#include <string_view>

#include "sim/base/token_cursor.h"

namespace tpu::hlo {

/// True for what HLO text takes for a name: letters, digits, '_', '.' and '-'.
bool is_name(std::string_view text);

/// Names of HLO and MLIR text, and values that are passed over; errors show the line itself.
class HloCursor : public TokenCursor {
 public:
  /// `file` names the text in errors.
  HloCursor(std::string_view file, std::string_view text)
      : TokenCursor(text, file, Places::kLines) {}

  /// Takes `word` when it stands here as a whole word.
  bool take_word(std::string_view word);
  /// Letters, digits, '_', '.', '-': names, opcodes, attribute names. Throws when there is none.
  std::string_view name(std::string_view what);
  /// An integer from 0 to 2^31 - 1.
  int number32(std::string_view what);
  /// Text up to a comma or closing bracket outside all brackets and quotes, at least a character.
  std::string_view balanced(std::string_view what);
  /// Passes over elements with commas between them up to and including `closing`.
  void skip_list(char closing, std::string_view what);

  /// A cursor for a part of this text.
  HloCursor within(std::string_view part) const {
    HloCursor inner = *this;
    inner.narrow_to(part);
    return inner;
  }
  /// For values that are read apart, from a part of the text: fails at the part's own place.
  [[noreturn]] void fail_in(std::string_view part, const std::string& expected) const {
    fail_at(part.data(), expected);
  }

 private:
  std::string_view balanced_until(const char* end, std::string_view what);
};

}  // namespace tpu::hlo
