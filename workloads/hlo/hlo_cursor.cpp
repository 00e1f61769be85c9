#include "workloads/hlo/hlo_cursor.h"

#include <algorithm>
#include <array>
#include <limits>

namespace tpu::hlo {

namespace {

/// Brackets inside brackets beyond which a text is refused.
constexpr int kDeepestBrackets = 200;

constexpr std::array<bool, 256> make_name_characters() {
  std::array<bool, 256> name{};
  for (int c = 0; c < 128; ++c) {
    const char letter = static_cast<char>(c);
    name[static_cast<std::size_t>(c)] =
        is_letter_or_digit(letter) || letter == '_' || letter == '.' || letter == '-';
  }
  return name;
}
constexpr std::array<bool, 256> kNameCharacters = make_name_characters();

bool is_name_character(char c) { return kNameCharacters[static_cast<unsigned char>(c)]; }

}  // namespace

bool is_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_name_character);
}

bool HloCursor::take_word(std::string_view word) {
  const std::string_view rest = this->rest();
  if (rest.compare(0, word.size(), word) != 0) return false;
  if (rest.size() > word.size() && is_name_character(rest[word.size()])) return false;
  move_to(rest.data() + word.size());
  return true;
}

std::string_view HloCursor::name(std::string_view what) {
  std::string_view name = take_while([](char c) { return is_name_character(c); });
  if (name.empty()) fail(std::string(what));
  // "->" ends a name: a '-' before '>' is no part of it.
  if (name.back() == '-' && touches('>')) {
    name.remove_suffix(1);
    move_to(name.data() + name.size());
  }
  return name;
}

int HloCursor::number32(std::string_view what) {
  constexpr int kLast = std::numeric_limits<int>::max();
  return static_cast<int>(whole_number(what, kLast));
}

std::string_view HloCursor::balanced(std::string_view what) {
  const std::string_view rest = this->rest();
  const char* const end = rest.data() + rest.size();
  int depth = 0;
  for (const char* c = rest.data(); c != end; ++c) {
    if (*c == '"' || *c == '\'') {
      HloCursor inner = *this;
      inner.move_to(c);
      inner.quoted(what);
      c = inner.at() - 1;
    } else if (*c == '{' || *c == '(' || *c == '[') {
      if (++depth > kDeepestBrackets) {
        fail_at(c, "at most " + std::to_string(kDeepestBrackets) + " nested brackets");
      }
    } else if (*c == '}' || *c == ')' || *c == ']') {
      if (depth == 0) return balanced_until(c, what);
      --depth;
    } else if (depth == 0 && (*c == ',' || *c == '\n')) {
      return balanced_until(c, what);
    }
  }
  if (depth > 0) fail(std::string(what) + " with all brackets closed");
  return balanced_until(end, what);
}

std::string_view HloCursor::balanced_until(const char* end, std::string_view what) {
  const char* const begin = at();
  if (begin == end) fail(std::string(what));
  move_to(end);
  return since(begin);
}

void HloCursor::skip_list(char closing, std::string_view what) {
  while (!take(closing)) {
    balanced(what);
    take(',');
  }
}

}  // namespace tpu::hlo
