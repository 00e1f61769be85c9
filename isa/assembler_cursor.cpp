#include "isa/assembler_cursor.h"

#include <charconv>
#include <cstring>
#include <optional>

namespace tpu::isa {
namespace {

constexpr std::size_t kLongestNumber = 64;

bool is_word_character(char c) { return is_letter_or_digit(c) || c == '_' || c == '.'; }

std::optional<std::uint32_t> parse_integer(const std::string& text) {
  const bool negative = text[0] == '-';
  std::string_view digits = std::string_view(text).substr(negative ? 1 : 0);
  int base = 10;
  if (digits.size() > 2 && digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X')) {
    base = 16;
    digits.remove_prefix(2);
  }
  std::uint64_t value = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (parsed.ec != std::errc() || parsed.ptr != digits.data() + digits.size()) return {};
  if (value > (negative ? std::uint64_t{1} << 31 : 0xffffffffull)) return {};
  const auto bits = static_cast<std::uint32_t>(value);
  return negative ? 0u - bits : bits;
}

std::optional<std::uint32_t> parse_number(const std::string& text) {
  if (auto integer = parse_integer(text)) return integer;
  if (text.find_first_of(".eEnN") == std::string::npos) return {};
  float value = 0;
  const char* begin = text.data() + (text[0] == '+' ? 1 : 0);
  const auto parsed = std::from_chars(begin, text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return {};
  if (value != value) return text[0] == '-' ? 0xffc00000u : 0x7fc00000u;
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

}  // namespace

std::string_view AssemblerCursor::word() { return take_while(is_word_character); }

std::string_view AssemblerCursor::peek_word() {
  const char* const before = next();
  const std::string_view found = word();
  move_to(before);
  return found;
}

std::string_view AssemblerCursor::mnemonic() {
  return take_while([](char c) { return is_word_character(c) || c == '-'; });
}

std::string AssemblerCursor::name(const std::string& expected) {
  if (peek() == '"') return quoted_name(expected);
  const std::string_view name =
      take_while([](char c) { return is_word_character(c) || c == '-' || c == '<' || c == '>'; });
  if (name.empty()) fail(expected);
  return std::string(name);
}

std::string AssemblerCursor::quoted_name(const std::string& expected) {
  const char* const begin = next();
  const std::string_view raw = quoted(expected);
  if (raw.empty()) refuse_at(begin, "expected " + expected + ", found an empty one");
  if (raw.find('\n') != std::string_view::npos) {
    refuse_at(begin, "expected a closing quote on this line, found none");
  }
  std::string name;
  for (const char* c = raw.data(); c != raw.data() + raw.size(); ++c) {
    if (*c != '\\') {
      name += *c;
      continue;
    }
    ++c;  // A quoted text does not end with a backslash.
    if (*c == 'x') {
      const int high = hexadecimal_digit(*++c);
      if (high < 0) fail_at(c, "a hexadecimal digit");
      const int low = hexadecimal_digit(*++c);
      if (low < 0) fail_at(c, "a hexadecimal digit");
      name += static_cast<char>(high << 4 | low);
    } else if (*c == '"' || *c == '\\') {
      name += *c;
    } else {
      fail_at(c, "\\\", \\\\ or \\xHH");
    }
  }
  return name;
}

std::uint32_t AssemblerCursor::number(const std::string& expected, bool floats) {
  const char* const begin = next();
  const std::string_view rest = this->rest().substr(0, kLongestNumber);
  std::size_t length = 0;
  for (; length < rest.size(); ++length) {
    const char c = rest[length];
    const char last = length == 0 ? 'e' : rest[length - 1];
    const bool hexadecimal = length > 1 && (rest[1] == 'x' || rest[1] == 'X');
    const bool sign = (c == '-' || c == '+') && (last == 'e' || last == 'E') && !hexadecimal;
    if (!sign && !is_word_character(c)) break;
  }
  if (length == 0) fail(expected);
  const std::string text(rest.substr(0, length));
  move_to(begin + length);
  const auto value = floats ? parse_number(text) : parse_integer(text);
  if (!value) refuse_at(begin, "expected " + expected + ", found \"" + text + "\"");
  return *value;
}

}  // namespace tpu::isa
