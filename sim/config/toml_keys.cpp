#include "sim/config/toml_keys.h"

#include <algorithm>

namespace tpu::config {
namespace {

/// The place behind a string that begins at `at`: to its closing quotes, of one line to the line's
/// end at most.
std::size_t behind_string(std::string_view text, std::size_t at) {
  const char quote = text[at];
  const std::string_view triple = quote == '"' ? "\"\"\"" : "'''";
  if (text.substr(at, 3) == triple) {
    const std::size_t end = text.find(triple, at + 3);
    return end == std::string_view::npos ? text.size() : end + 3;
  }
  for (++at; at < text.size() && text[at] != '\n'; ++at) {
    if (text[at] == quote) return at + 1;
    if (text[at] == '\\' && quote == '"') ++at;
  }
  return std::min(at, text.size());
}

}  // namespace

std::size_t longest_key(std::string_view text) {
  std::size_t longest = 0, parts = 1;
  for (std::size_t at = 0; at < text.size();) {
    const char letter = text[at];
    if (letter == '"' || letter == '\'') {
      at = behind_string(text, at);
      continue;
    }
    if (letter == '#') at = std::min(text.find('\n', at), text.size() - 1);
    if (letter == '.') longest = std::max(longest, ++parts);
    if (std::string_view("\n=,[]{}#").find(letter) != std::string_view::npos) parts = 1;
    ++at;
  }
  return longest;
}

}  // namespace tpu::config
