#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tpu::isa {

/// Walks over an assembler text and says what it finds where. What does not fit is a WorkloadError
/// "FILE:LINE:COLUMN: expected ..., found ...". Space and comments (`/* */`, `//`) separate.
class AssemblerCursor {
 public:
  /// A place in the text.
  struct Mark {
    std::size_t offset = 0;
    int line = 1;
    int column = 1;
  };

  AssemblerCursor(std::string_view text, std::string file) : text_(text), file_(std::move(file)) {}

  const Mark& mark() const { return at_; }
  bool at_end() const { return at_.offset >= text_.size(); }
  char peek(std::size_t ahead = 0) const {
    return at_.offset + ahead < text_.size() ? text_[at_.offset + ahead] : '\0';
  }
  void advance();
  void skip_space();

  /// Takes `literal` when it stands here, behind space.
  bool take(std::string_view literal);
  void expect(std::string_view literal);

  /// Letters, digits, dots and underscores; empty when there are none.
  std::string_view word();
  std::string_view peek_word();
  /// A word whose parts hyphens may join: vclamp-gez-f32.
  std::string_view mnemonic();
  /// Letters, digits and `._-<>`, or in quotes whatever it is; never empty.
  std::string name(const std::string& expected);

  /// Bits of an integer: decimal, hexadecimal, negative.
  std::uint32_t integer(const std::string& expected) { return number(expected, false); }
  /// Or, where allowed, of an fp32 number.
  std::uint32_t number(const std::string& expected, bool floats);

  [[noreturn]] void fail(const std::string& expected);
  [[noreturn]] void fail_at(const Mark& mark, const std::string& message) const;
  /// What stands here, for messages: printable, short.
  std::string describe() const;

 private:
  void skip_comment();
  std::string quoted_name(const std::string& expected);
  int hex_digit();

  std::string_view text_;
  std::string file_;
  Mark at_;
};

}  // namespace tpu::isa
