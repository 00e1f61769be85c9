#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace tpu::fuzz {

/// Changes a text by its tokens and lines, so that most of what comes out still has the form of the
/// grammar: tokens take each other's places, numbers become those at the ends of their ranges,
/// lines move, double and vanish. Every other time the fuzzer's own mutations of bytes.
class TextMutator {
 public:
  TextMutator(std::string text, unsigned seed) : text_(std::move(text)), random_(seed) {}

  std::string mutated() {
    for (std::size_t rounds = 1 + random_() % 3; rounds > 0; --rounds) {
      if (random_() % 2 == 0) {
        change_token();
      } else {
        change_line();
      }
    }
    return std::move(text_);
  }

 private:
  using Part = std::pair<std::size_t, std::size_t>;  ///< Begin and length.

  std::vector<Part> tokens() const {
    std::vector<Part> parts;
    const auto is_word = [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
             c == '_' || c == '.' || c == '-';
    };
    for (std::size_t i = 0; i < text_.size();) {
      std::size_t end = i + 1;
      if (is_word(text_[i])) {
        while (end < text_.size() && is_word(text_[end])) ++end;
      }
      if (text_[i] != ' ' && text_[i] != '\n') parts.emplace_back(i, end - i);
      i = end;
    }
    return parts;
  }
  std::vector<Part> lines() const {
    std::vector<Part> parts;
    for (std::size_t i = 0; i < text_.size();) {
      const std::size_t end = text_.find('\n', i);
      const std::size_t length = end == std::string::npos ? text_.size() - i : end - i + 1;
      parts.emplace_back(i, length);
      i += length;
    }
    return parts;
  }
  const Part& any(const std::vector<Part>& parts) { return parts[random_() % parts.size()]; }

  void change_token() {
    static const char* const kNumbers[] = {"0",
                                           "1",
                                           "-1",
                                           "2",
                                           "127",
                                           "128",
                                           "255",
                                           "65536",
                                           "2147483647",
                                           "2147483648",
                                           "-2147483648",
                                           "4294967295",
                                           "1e38",
                                           "nan",
                                           "-inf",
                                           "9223372036854775807",
                                           "18446744073709551616"};
    const std::vector<Part> parts = tokens();
    if (parts.empty()) return;
    const auto [begin, length] = any(parts);
    const auto [from, count] = any(parts);
    const std::string other = text_.substr(from, count);
    switch (random_() % 4) {
      case 0:
        text_.replace(begin, length, other);
        break;
      case 1:
        text_.insert(begin, other + " ");
        break;
      case 2:
        text_.erase(begin, length);
        break;
      default: {
        // A number near the place, for words are rarely numbers.
        std::size_t digit = text_.find_first_of("0123456789", begin);
        if (digit == std::string::npos) return;
        std::size_t end = text_.find_first_not_of("0123456789", digit);
        if (end == std::string::npos) end = text_.size();
        text_.replace(digit, end - digit,
                      kNumbers[random_() % (sizeof(kNumbers) / sizeof(*kNumbers))]);
      }
    }
  }

  void change_line() {
    const std::vector<Part> parts = lines();
    if (parts.empty()) return;
    const auto [begin, length] = any(parts);
    const auto [from, count] = any(parts);
    const std::string other = text_.substr(from, count);
    switch (random_() % 3) {
      case 0:
        text_.replace(begin, length, other);
        break;
      case 1:
        text_.insert(begin, other);
        break;
      default:
        text_.erase(begin, length);
    }
  }

  std::string text_;
  std::minstd_rand random_;
};

/// The body of LLVMFuzzerCustomMutator for texts.
inline std::size_t mutate_text(std::uint8_t* data, std::size_t size, std::size_t most,
                               unsigned seed) {
  if (seed % 2 == 0) return LLVMFuzzerMutate(data, size, most);
  const std::string text =
      TextMutator(std::string(reinterpret_cast<char*>(data), size), seed / 2).mutated();
  const std::size_t length = text.size() < most ? text.size() : most;
  std::memcpy(data, text.data(), length);
  return length;
}

}  // namespace tpu::fuzz

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  return tpu::fuzz::mutate_text(data, size, most, seed);
}
