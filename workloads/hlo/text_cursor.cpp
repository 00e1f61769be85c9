#include "workloads/hlo/text_cursor.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

namespace tpu::hlo {

namespace {

/// Brackets inside brackets beyond which a text is refused.
constexpr int kDeepestBrackets = 200;
/// Characters of the offending line that an error shows.
constexpr std::size_t kShownCharacters = 160;

struct CharacterTable {
  std::array<bool, 256> name{}, blank{};
};

constexpr CharacterTable make_table() {
  CharacterTable table;
  for (int c = 'a'; c <= 'z'; ++c) table.name[static_cast<std::size_t>(c)] = true;
  for (int c = 'A'; c <= 'Z'; ++c) table.name[static_cast<std::size_t>(c)] = true;
  for (int c = '0'; c <= '9'; ++c) table.name[static_cast<std::size_t>(c)] = true;
  for (unsigned char c : {'_', '.', '-'}) table.name[c] = true;
  for (unsigned char c : {' ', '\t', '\n', '\v', '\f', '\r'}) table.blank[c] = true;
  return table;
}
constexpr CharacterTable kCharacters = make_table();

bool is_name_character(char c) { return kCharacters.name[static_cast<unsigned char>(c)]; }
bool is_blank(char c) { return kCharacters.blank[static_cast<unsigned char>(c)]; }

/// The place of the quote that closes the one at `position`.
std::size_t end_of_quoted(std::string_view text, std::size_t position) {
  const char quote = text[position];
  for (++position; position < text.size() && text[position] != quote; ++position) {
    if (text[position] == '\\') ++position;
  }
  return position;
}

}  // namespace

bool is_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_name_character);
}

void TextCursor::skip_blanks() {
  for (;;) {
    while (position_ < text_.size() && is_blank(text_[position_])) ++position_;
    if (position_ == text_.size() || text_[position_] != '/') return;
    if (text_.compare(position_, 2, "/*") == 0) {
      const std::size_t end = text_.find("*/", position_ + 2);
      if (end == std::string_view::npos) fail("the end of this comment, */");
      position_ = end + 2;
    } else if (text_.compare(position_, 2, "//") == 0) {
      position_ = std::min(text_.find('\n', position_), text_.size());
    } else {
      return;
    }
  }
}

bool TextCursor::at_end() {
  skip_blanks();
  return position_ >= text_.size();
}

char TextCursor::peek() { return at_end() ? '\0' : text_[position_]; }

bool TextCursor::take(char expected) {
  if (peek() != expected) return false;
  ++position_;
  return true;
}

bool TextCursor::take_word(std::string_view word) {
  skip_blanks();
  if (text_.compare(position_, word.size(), word) != 0) return false;
  const std::size_t end = position_ + word.size();
  if (end < text_.size() && is_name_character(text_[end])) return false;
  position_ = end;
  return true;
}

void TextCursor::expect(char expected) {
  if (!take(expected)) fail(std::string("'") + expected + "'");
}

void TextCursor::expect(std::string_view text) {
  skip_blanks();
  if (text_.compare(position_, text.size(), text) != 0) fail("'" + std::string(text) + "'");
  position_ += text.size();
}

std::string_view TextCursor::name(std::string_view what) {
  skip_blanks();
  const std::size_t begin = position_;
  while (position_ < text_.size() && is_name_character(text_[position_])) ++position_;
  if (position_ == begin) fail(std::string(what));
  // "->" ends a name: a '-' before '>' is no part of it.
  if (text_[position_ - 1] == '-' && position_ < text_.size() && text_[position_] == '>') {
    --position_;
  }
  return text_.substr(begin, position_ - begin);
}

std::int64_t TextCursor::integer(std::string_view what) {
  skip_blanks();
  std::int64_t value = 0;
  const char* begin = text_.data() + position_;
  const auto result = std::from_chars(begin, text_.data() + text_.size(), value);
  if (result.ec != std::errc()) fail(std::string(what) + ", an integer");
  position_ += static_cast<std::size_t>(result.ptr - begin);
  return value;
}

int TextCursor::number32(std::string_view what) {
  skip_blanks();
  const std::size_t at = position_;
  const std::int64_t value = integer(what);
  if (value < 0 || value > std::numeric_limits<int>::max()) {
    fail_at(at, std::string(what) + " from 0 to 2^31 - 1");
  }
  return static_cast<int>(value);
}

std::string_view TextCursor::quoted(std::string_view what) {
  if (peek() != '"' && peek() != '\'') fail(std::string(what) + ", a string in double quotes");
  const std::size_t begin = position_ + 1;
  const std::size_t end = end_of_quoted(text_, position_);
  if (end >= text_.size()) fail("the closing quote of this string");
  position_ = end + 1;
  return text_.substr(begin, end - begin);
}

std::string_view TextCursor::balanced(std::string_view what) {
  skip_blanks();
  const std::size_t begin = position_;
  int depth = 0;
  for (std::size_t i = begin; i < text_.size(); ++i) {
    const char c = text_[i];
    if (c == '"' || c == '\'') {
      const std::size_t opening = i;
      i = end_of_quoted(text_, opening);
      if (i >= text_.size()) fail_at(opening, std::string(what) + " with all quotes closed");
    } else if (c == '{' || c == '(' || c == '[') {
      if (++depth > kDeepestBrackets) {
        fail_at(i, "at most " + std::to_string(kDeepestBrackets) + " nested brackets");
      }
    } else if (c == '}' || c == ')' || c == ']') {
      if (depth == 0) return balanced_until(begin, i, what);
      --depth;
    } else if (depth == 0 && (c == ',' || c == '\n')) {
      return balanced_until(begin, i, what);
    }
  }
  if (depth > 0) fail(std::string(what) + " with all brackets closed");
  return balanced_until(begin, text_.size(), what);
}

std::string_view TextCursor::balanced_until(std::size_t begin, std::size_t end,
                                            std::string_view what) {
  if (begin == end) fail(std::string(what));
  position_ = end;
  return text_.substr(begin, end - begin);
}

void TextCursor::skip_list(char closing, std::string_view what) {
  while (!take(closing)) {
    balanced(what);
    take(',');
  }
}

void TextCursor::fail_at(std::size_t position, const std::string& expected) const {
  position = std::min(position, text_.size());
  const std::size_t before =
      position == 0 ? std::string_view::npos : text_.rfind('\n', position - 1);
  const std::size_t line_begin = before == std::string_view::npos ? 0 : before + 1;
  const std::size_t line_end = std::min(text_.find('\n', position), text_.size());
  const auto line_number =
      1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(line_begin), '\n');
  const std::size_t column = position - line_begin;
  std::string found = "the end of the file";
  if (position < text_.size()) {
    found = "'" +
            std::string(text_.substr(position, std::min<std::size_t>(24, line_end - position))) +
            "'";
    if (position == line_end) found = "the end of the line";
  }
  const std::size_t shown = column > kShownCharacters / 2 ? column - kShownCharacters / 2 : 0;
  const std::string_view line = text_.substr(line_begin, line_end - line_begin);
  throw WorkloadError(std::string(file_) + ":" + std::to_string(line_number) + ":" +
                      std::to_string(column + 1) + ": expected " + expected + ", found " + found +
                      "\n  " +
                      std::string(line.substr(std::min(shown, line.size()), kShownCharacters)));
}

void TextCursor::fail_in(std::string_view part, const std::string& expected) const {
  fail_at(static_cast<std::size_t>(part.data() - text_.data()), expected);
}

}  // namespace tpu::hlo
