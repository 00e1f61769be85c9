#include "sim/base/token_cursor.h"

#include <algorithm>

namespace tpu {

void TokenCursor::pass_space() {
  for (;;) {
    TextCursor::take_while(is_space);
    const char* const begin = at();
    if (comments_ == Comments::kNone || TextCursor::peek() != '/') return;
    if (TextCursor::take("/*")) {
      const std::size_t end = TextCursor::rest().find("*/");
      if (end == std::string_view::npos) {
        refuse_at(begin, "expected the end of this comment, */, found the end of the text");
      }
      advance(end + 2);
    } else if (TextCursor::take("//")) {
      const std::string_view rest = TextCursor::rest();
      advance(std::min(rest.find('\n'), rest.size()));
    } else {
      return;
    }
  }
}

std::int64_t TokenCursor::whole_number(std::string_view what, std::int64_t limit) {
  if (!is_digit(peek())) fail(std::string(what) + ", a whole number");
  return static_cast<std::int64_t>(decimal(what, static_cast<std::uint64_t>(limit)));
}

std::int64_t TokenCursor::integer(std::string_view what) {
  std::int64_t value = 0;
  if (take_number(value) != std::errc()) fail(std::string(what) + ", an integer");
  return value;
}

std::string_view TokenCursor::quoted(std::string_view what) {
  const char quote = peek();
  if (quote != '"' && quote != '\'') fail(std::string(what) + " in quotes");
  const char* const opening = at();
  for (advance(1); !TextCursor::at_end() && *at() != quote; advance(1)) {
    if (*at() == '\\' && left() > 1) advance(1);
  }
  if (TextCursor::at_end()) {
    refuse_at(opening, "expected the closing quote of this string, found the end of the text");
  }
  advance(1);
  const std::string_view whole = since(opening);
  return whole.substr(1, whole.size() - 2);
}

std::vector<std::int64_t> TokenCursor::whole_numbers(char opening, char closing,
                                                     std::string_view what) {
  std::vector<std::int64_t> numbers;
  list(opening, closing, [&] { numbers.push_back(whole_number(what)); });
  return numbers;
}

void TokenCursor::fail_list(char closing) { fail(std::string("\",\" or \"") + closing + "\""); }

}  // namespace tpu
