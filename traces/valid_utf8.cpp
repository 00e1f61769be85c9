#include "traces/valid_utf8.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace tpu::traces {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

/// Length of the character at the beginning of the text; 0 where there is none: a wrong first or
/// following byte, a longer form than needed, a surrogate, or a number beyond the last character.
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const std::size_t length = first < 0x80                    ? 1
                             : first >= 0xc2 && first < 0xe0 ? 2
                             : first >= 0xe0 && first < 0xf0 ? 3
                             : first >= 0xf0 && first < 0xf5 ? 4
                                                             : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  if (length == 3 && first == 0xe0 && byte(1) < 0xa0) return 0;
  if (length == 3 && first == 0xed && byte(1) >= 0xa0) return 0;
  if (length == 4 && first == 0xf0 && byte(1) < 0x90) return 0;
  if (length == 4 && first == 0xf4 && byte(1) >= 0x90) return 0;
  return length;
}

}  // namespace

std::string valid_utf8(std::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    valid += length > 0 ? text.substr(0, length) : kReplacement;
    text.remove_prefix(std::max<std::size_t>(1, length));
  }
  return valid;
}

}  // namespace tpu::traces
