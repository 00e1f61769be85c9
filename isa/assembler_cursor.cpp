#include "isa/assembler_cursor.h"

#include <cctype>
#include <charconv>
#include <cstring>
#include <optional>

#include "sim/base/error.h"

namespace tpu::isa {
namespace {

bool is_word_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.';
}

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

void AssemblerCursor::advance() {
  if (text_[at_.offset++] == '\n') {
    ++at_.line;
    at_.column = 1;
  } else {
    ++at_.column;
  }
}

void AssemblerCursor::skip_space() {
  while (!at_end()) {
    if (std::isspace(static_cast<unsigned char>(peek())) != 0) {
      advance();
    } else if (peek() == '/' && peek(1) == '/') {
      while (!at_end() && peek() != '\n') advance();
    } else if (peek() == '/' && peek(1) == '*') {
      skip_comment();
    } else {
      return;
    }
  }
}

bool AssemblerCursor::take(std::string_view literal) {
  skip_space();
  if (text_.substr(at_.offset, literal.size()) != literal) return false;
  for (std::size_t i = 0; i < literal.size(); ++i) advance();
  return true;
}

void AssemblerCursor::expect(std::string_view literal) {
  if (!take(literal)) fail("\"" + std::string(literal) + "\"");
}

std::string_view AssemblerCursor::word() {
  skip_space();
  const std::size_t begin = at_.offset;
  while (is_word_character(peek())) advance();
  return text_.substr(begin, at_.offset - begin);
}

std::string_view AssemblerCursor::peek_word() {
  const Mark before = (skip_space(), at_);
  const std::string_view found = word();
  at_ = before;
  return found;
}

std::string_view AssemblerCursor::mnemonic() {
  const std::size_t begin = (skip_space(), at_.offset);
  while (!word().empty() && peek() == '-' && is_word_character(peek(1))) advance();
  return text_.substr(begin, at_.offset - begin);
}

std::string AssemblerCursor::name(const std::string& expected) {
  skip_space();
  if (peek() == '"') return quoted_name(expected);
  std::string name;
  while (is_word_character(peek()) || peek() == '-' || peek() == '<' || peek() == '>') {
    name += peek();
    advance();
  }
  if (name.empty()) fail(expected);
  return name;
}

std::string AssemblerCursor::quoted_name(const std::string& expected) {
  const Mark begin = at_;
  advance();
  std::string name;
  while (peek() != '"') {
    if (at_end() || peek() == '\n') {
      fail_at(begin, "expected a closing quote on this line, found none");
    }
    char c = peek();
    if (c == '\\') {
      advance();
      c = peek();
      if (c == 'x') {
        advance();
        const int high = hex_digit();
        const int low = hex_digit();
        name += static_cast<char>(high << 4 | low);
        continue;
      }
      if (c != '"' && c != '\\') fail("\\\", \\\\ or \\xHH");
    }
    name += c;
    advance();
  }
  advance();
  if (name.empty()) fail_at(begin, "expected " + expected + ", found an empty one");
  return name;
}

int AssemblerCursor::hex_digit() {
  const char c = peek();
  if (std::isxdigit(static_cast<unsigned char>(c)) == 0) fail("a hexadecimal digit");
  advance();
  if (c <= '9') return c - '0';
  return (c | 0x20) - 'a' + 10;
}

std::uint32_t AssemblerCursor::number(const std::string& expected, bool floats) {
  skip_space();
  const Mark begin = mark();
  std::string text;
  char last = '\0';
  while (text.size() < 64) {
    const char c = peek();
    const bool sign = (c == '-' || c == '+') && (text.empty() || last == 'e' || last == 'E');
    if (!sign && !is_word_character(c)) break;
    const bool hexadecimal = text.size() > 1 && (text[1] == 'x' || text[1] == 'X');
    if (sign && hexadecimal) break;
    text += c;
    last = c;
    advance();
  }
  if (text.empty()) fail(expected);
  const auto value = floats ? parse_number(text) : parse_integer(text);
  if (!value) fail_at(begin, "expected " + expected + ", found \"" + text + "\"");
  return *value;
}

void AssemblerCursor::fail(const std::string& expected) {
  skip_space();
  fail_at(at_, "expected " + expected + ", found " + describe());
}

void AssemblerCursor::fail_at(const Mark& mark, const std::string& message) const {
  throw WorkloadError(to_string(SourceLocation{file_, mark.line, mark.column}) + ": " + message);
}

std::string AssemblerCursor::describe() const {
  if (at_end()) return "the end of the text";
  std::size_t length = 1;
  if (is_word_character(peek())) {
    while (length < 40 && is_word_character(peek(length))) ++length;
  }
  std::string shown = "\"";
  for (std::size_t i = 0; i < length; ++i) {
    const auto byte = static_cast<unsigned char>(peek(i));
    if (byte >= 0x20 && byte < 0x7f) {
      shown += static_cast<char>(byte);
    } else {
      const char digits[] = "0123456789abcdef";
      shown += "\\x";
      shown += digits[byte >> 4];
      shown += digits[byte & 15];
    }
  }
  return shown + "\"";
}

void AssemblerCursor::skip_comment() {
  const Mark begin = at_;
  advance();
  advance();
  while (!at_end() && !(peek() == '*' && peek(1) == '/')) advance();
  if (at_end()) fail_at(begin, "expected the end of this comment, found the end of the text");
  advance();
  advance();
}

}  // namespace tpu::isa
