#include "workloads/hlo/mlir_attributes.h"

#include <charconv>

#include "workloads/hlo/mlir_type.h"

namespace tpu::hlo {

namespace {

/// The most numbers that a splat stands for.
constexpr std::int64_t kLargestSplat = 1 << 16;

/// What stands between `opening` at the beginning and the last '>' before the type.
std::string_view between(std::string_view text, std::string_view opening) {
  text.remove_prefix(opening.size());
  return text.substr(0, text.find('>'));
}

}  // namespace

std::string_view mlir_value(HloCursor& cursor, std::string_view ends) {
  const std::string_view text = cursor.rest();
  int depth = 0;
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (depth == 0 && at > 0 && ends.find(c) != std::string_view::npos) break;
    if (c == '"') {
      for (++at; at < text.size() && text[at] != '"'; ++at) at += text[at] == '\\' ? 1 : 0;
    } else if (c == '-' && text.substr(at, 2) == "->") {
      ++at;
    } else if (c == '(' || c == '[' || c == '{' || c == '<') {
      ++depth;
    } else if (c == ')' || c == ']' || c == '}' || c == '>') {
      if (--depth < 0) break;
    }
  }
  if (at >= text.size() || at == 0) cursor.fail("the value of an attribute");
  cursor.move_to(text.data() + at);
  std::string_view value = text.substr(0, at);
  while (!value.empty() && is_space(value.back())) value.remove_suffix(1);
  return value;
}

std::vector<std::int64_t> mlir_integers(const HloCursor& cursor, std::string_view text) {
  std::vector<std::int64_t> numbers;
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (is_space(c) || c == ',' || c == '[' || c == ']') {
      ++at;
      continue;
    }
    const std::string_view rest = text.substr(at);
    std::int64_t number = 0;
    const auto result = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    if (rest.substr(0, 4) == "true") {
      numbers.push_back(1);
      at += 4;
    } else if (rest.substr(0, 5) == "false") {
      numbers.push_back(0);
      at += 5;
    } else if (result.ec == std::errc()) {
      numbers.push_back(number);
      at += static_cast<std::size_t>(result.ptr - rest.data());
    } else {
      cursor.fail_in(rest, "a whole number");
    }
  }
  return numbers;
}

void MlirAttributes::read_dictionary(HloCursor& cursor, std::string_view closing) {
  cursor.list(closing.front(), [&] {
    const std::string_view name =
        cursor.peek() == '"' ? cursor.quoted("an attribute") : cursor.name("an attribute");
    set(name, cursor.take('=') ? mlir_value(cursor, ",") : std::string_view("true"));
  });
  cursor.expect(closing.substr(1));
}

std::string_view MlirAttributes::text(std::string_view name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) fail("an operation with the attribute " + std::string(name));
  return found->second;
}

std::string_view MlirAttributes::text_or(std::string_view name, std::string_view absent) const {
  const auto found = values_.find(name);
  return found == values_.end() ? absent : found->second;
}

bool MlirAttributes::flag(std::string_view name) const {
  return text_or(name, "false").substr(0, 4) == "true";
}

std::int64_t MlirAttributes::integer(std::string_view name) const {
  const std::vector<std::int64_t> numbers = integers(name);
  if (numbers.size() != 1) fail_in(name, "one whole number");
  return numbers[0];
}

std::vector<std::int64_t> MlirAttributes::integers(std::string_view name) const {
  if (!has(name)) return {};
  std::string_view value = text(name);
  if (value.substr(0, 6) == "array<") {
    const std::string_view inner = between(value, "array<");
    const std::size_t colon = inner.find(':');
    if (colon == std::string_view::npos) return {};
    return mlir_integers(*cursor_, inner.substr(colon + 1));
  }
  if (value.substr(0, 6) != "dense<") {
    return mlir_integers(*cursor_, value.substr(0, value.find(':')));
  }
  std::vector<std::int64_t> numbers = mlir_integers(*cursor_, between(value, "dense<"));
  const std::size_t type = value.find("tensor<");
  if (type == std::string_view::npos) fail_in(name, "the type of these numbers");
  HloCursor cursor = cursor_->within(value.substr(type));
  const std::int64_t count = read_mlir_type(cursor).element_count();
  if (count > kLargestSplat) fail_in(name, "fewer numbers");
  if (numbers.size() == 1) numbers.resize(static_cast<std::size_t>(count), numbers[0]);
  if (static_cast<std::int64_t>(numbers.size()) != count) {
    fail_in(name, std::to_string(count) + " numbers");
  }
  return numbers;
}

}  // namespace tpu::hlo
