#include "isa/listing/text_cursor.h"

#include <algorithm>
#include <cstring>

namespace tpu::isa {
namespace {

/// What stands at `place`, short enough for a message and without characters that a terminal would
/// act upon.
std::string excerpt(const char* place, const char* end) {
  constexpr std::ptrdiff_t kLength = 40;
  if (place >= end) return "the end of the file";
  if (*place == '\n') return "the end of the line";
  const char* stop = std::min(end, place + kLength);
  const char* line_end = std::find(place, stop, '\n');
  std::string text;
  for (const char* c = place; c != line_end; ++c) {
    const unsigned char byte = static_cast<unsigned char>(*c);
    text += byte >= 0x20 && byte < 0x7f ? *c : '?';
  }
  if (line_end == stop && stop != end) text += "...";
  return "\"" + text + "\"";
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

std::string_view TextCursor::take_line() {
  const char* from = at_;
  const void* found = std::memchr(at_, '\n', left());
  if (found == nullptr) {
    at_ = end_;
    return {from, static_cast<std::size_t>(end_ - from)};
  }
  const char* line_end = static_cast<const char*>(found);
  at_ = line_end + 1;
  return {from, static_cast<std::size_t>(line_end - from)};
}

std::uint64_t TextCursor::decimal(std::string_view what, std::uint64_t limit) {
  const char* from = at_;
  std::uint64_t value = 0;
  while (at_ != end_ && *at_ >= '0' && *at_ <= '9') {
    const std::uint64_t digit = static_cast<std::uint64_t>(*at_ - '0');
    if (value > (limit - digit) / 10) {
      fail_at(from, std::string(what) + " of at most " + std::to_string(limit));
    }
    value = value * 10 + digit;
    ++at_;
  }
  if (at_ == from) fail(std::string(what));
  return value;
}

std::uint64_t TextCursor::hexadecimal(std::string_view what, std::uint64_t limit) {
  const char* from = at_;
  if (!take("0x")) fail(std::string(what) + " (0x...)");
  const char* digits = at_;
  std::uint64_t value = 0;
  for (; at_ != end_ && hex_value(*at_) >= 0; ++at_) {
    const std::uint64_t digit = static_cast<std::uint64_t>(hex_value(*at_));
    if (value > (limit - digit) / 16) {
      fail_at(from, std::string(what) + " of at most " + std::to_string(limit));
    }
    value = value * 16 + digit;
  }
  if (at_ == digits) fail_at(from, std::string(what) + " (0x...)");
  return value;
}

SourceLocation TextCursor::location(const char* place) const {
  const auto line = 1 + std::count(begin_, place, '\n');
  const char* line_begin = place;
  while (line_begin != begin_ && line_begin[-1] != '\n') --line_begin;
  return {file_, static_cast<int>(line), static_cast<int>(place - line_begin) + 1};
}

void TextCursor::fail_at(const char* place, const std::string& what) const {
  throw WorkloadError(to_string(location(place)) + ": expected " + what + ", found " +
                      excerpt(place, end_));
}

void TextCursor::refuse_at(const char* place, const std::string& message) const {
  throw WorkloadError(to_string(location(place)) + ": " + message);
}

}  // namespace tpu::isa
