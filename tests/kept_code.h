#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <type_traits>

namespace tpu::test {

/// One short code of many numbers and texts: another one where any of them is another.
class Code {
 public:
  template <class Number, class = std::enable_if_t<std::is_arithmetic_v<Number>>>
  Code& operator<<(Number value) {
    if constexpr (std::is_floating_point_v<Number>) {
      char text[32];
      std::snprintf(text, sizeof text, "%.9g", static_cast<double>(value));
      return *this << std::string_view(text);
    } else {
      add(static_cast<std::uint64_t>(value));
      return *this;
    }
  }
  Code& operator<<(std::string_view text) {
    for (const char letter : text) add(static_cast<std::uint8_t>(letter));
    return *this << text.size();
  }
  std::string text() const {
    char text[9];
    std::snprintf(text, sizeof text, "%08x", static_cast<unsigned>(hash_ ^ hash_ >> 32));
    return text;
  }

 private:
  void add(std::uint64_t value) {
    hash_ = (hash_ ^ value) * 0x9e3779b97f4a7c15u;
    hash_ ^= hash_ >> 29;
  }
  std::uint64_t hash_ = 0xcbf29ce484222325u;
};

}  // namespace tpu::test
