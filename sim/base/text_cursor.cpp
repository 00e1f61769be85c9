#include "sim/base/text_cursor.h"

#include <algorithm>
#include <cstring>

namespace tpu {
namespace {

/// Of a place's line, of what stands there, and of a text that is no file.
constexpr std::size_t kShownOfLine = 160;
constexpr std::size_t kShownOfPlace = 40;
constexpr std::size_t kShownOfText = 120;

/// The text with whatever a terminal would act upon as \xHH.
std::string printable(std::string_view text) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string shown;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      shown += c;
    } else {
      shown += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return shown;
}

}  // namespace

std::string_view TextCursor::take_line() {
  const char* from = at_;
  const void* found = std::memchr(at_, '\n', left());
  if (found == nullptr) {
    at_ = end_;
    return since(from);
  }
  const char* line_end = static_cast<const char*>(found);
  at_ = line_end + 1;
  return {from, static_cast<std::size_t>(line_end - from)};
}

std::uint64_t TextCursor::any_decimal(std::string_view what, std::uint64_t limit) {
  constexpr std::ptrdiff_t kNeverTooLong = 19;
  const char* const from = at_;
  const char* c = from;
  std::uint64_t value = 0;
  for (; c != end_ && is_digit(*c); ++c) value = value * 10 + static_cast<std::uint64_t>(*c - '0');
  if (c == from) fail(std::string(what));
  const bool fits = c - from <= kNeverTooLong || std::from_chars(from, c, value).ec == std::errc();
  if (!fits || value > limit) fail_limit(from, what, limit);
  at_ = c;
  return value;
}

std::uint64_t TextCursor::hexadecimal(std::string_view what, std::uint64_t limit) {
  constexpr std::ptrdiff_t kNeverTooLong = 16;
  const char* const from = at_;
  if (!looking_at("0x")) fail(std::string(what) + " (0x...)");
  const char* const digits = from + 2;
  const char* c = digits;
  std::uint64_t value = 0;
  for (int digit = 0; c != end_ && (digit = hexadecimal_digit(*c)) >= 0; ++c) {
    value = value << 4 | static_cast<std::uint64_t>(digit);
  }
  if (c == digits) fail(std::string(what) + " (0x...)");
  const bool fits =
      c - digits <= kNeverTooLong || std::from_chars(digits, c, value, 16).ec == std::errc();
  if (!fits || value > limit) fail_limit(from, what, limit);
  at_ = c;
  return value;
}

void TextCursor::fail_limit(const char* place, std::string_view what, std::uint64_t limit) const {
  fail_at(place, std::string(what) + " of at most " + std::to_string(limit));
}

/// What stands at a place, for messages: in quotes, printable, short.
std::string TextCursor::excerpt(const char* place) const {
  std::string_view rest = text_.substr(static_cast<std::size_t>(place - text_.data()));
  if (rest.empty()) return "the end of the text";
  if (rest.front() == '\n') return "the end of the line";
  rest = rest.substr(0, rest.find('\n'));
  const char* const more = rest.size() > kShownOfPlace ? "..." : "";
  return "\"" + printable(rest.substr(0, kShownOfPlace)) + more + "\"";
}

std::string_view TextCursor::line_before(const char* place) const {
  const std::string_view before = text_.substr(0, static_cast<std::size_t>(place - text_.data()));
  const std::size_t feed = before.rfind('\n');
  return feed == std::string_view::npos ? before : before.substr(feed + 1);
}

SourceLocation TextCursor::location(const char* place) const {
  const auto feeds = std::count(text_.data(), place, '\n');
  return {std::string(name_), static_cast<int>(feeds) + 1,
          static_cast<int>(line_before(place).size()) + 1};
}

void TextCursor::fail_at(const char* place, const std::string& what) const {
  refuse_at(place, "expected " + what + ", found " + excerpt(place));
}

void TextCursor::fail_expected(std::string_view word) const {
  fail("\"" + std::string(word) + "\"");
}

void TextCursor::refuse_at(const char* place, const std::string& message) const {
  if (places_ == Places::kPartOfIt) {
    throw WorkloadError(std::string(name_) + " \"" + printable(text_.substr(0, kShownOfText)) +
                        "\", column " + std::to_string(place - text_.data() + 1) + ": " + message);
  }
  std::string whole = to_string(location(place)) + ": " + message;
  if (places_ == Places::kLines) {
    const std::size_t column = line_before(place).size();
    std::string_view line(place - column, static_cast<std::size_t>(text_.end() - place) + column);
    line = line.substr(0, line.find('\n'));
    if (column > kShownOfLine / 2) line.remove_prefix(column - kShownOfLine / 2);
    whole += "\n  ";
    whole += line.substr(0, kShownOfLine);
  }
  throw WorkloadError(whole);
}

}  // namespace tpu
