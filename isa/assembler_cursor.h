#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sim/base/token_cursor.h"

namespace tpu::isa {

/// Words, names and numbers of an assembler text.
class AssemblerCursor : public TokenCursor {
 public:
  AssemblerCursor(std::string_view text, std::string_view file) : TokenCursor(text, file) {}

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

 private:
  std::string quoted_name(const std::string& expected);
};

}  // namespace tpu::isa
