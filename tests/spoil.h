#pragma once

#include <random>
#include <string>

namespace tpu::test {

/// Damages a text or message in one of the ways in which files come to us: flipped bits, characters
/// of the grammar in other places, a missing end, parts that are missing or stand twice, numbers
/// that are too large. An empty text stays empty.
inline std::string spoil(std::string text, std::mt19937& random) {
  if (text.empty()) return text;
  const auto place = [&] {
    return std::uniform_int_distribution<std::size_t>(0, text.size() - 1)(random);
  };
  switch (random() % 6) {
    case 0:
      text[place()] ^= static_cast<char>(1u << random() % 8);
      break;
    case 1:
      text[place()] = "{}[]()%/*;:,=$#_0x9 \n"[random() % 21];
      break;
    case 2:
      text.resize(place());
      break;
    case 3:
      text.erase(place(), random() % 200);
      break;
    case 4: {
      const std::string part = text.substr(place(), random() % 200);
      text.insert(place(), part);
      break;
    }
    default:
      text.insert(place(), "99999999999");
  }
  return text;
}

}  // namespace tpu::test
