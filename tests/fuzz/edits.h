#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace tpu::fuzz {

/// A fuzzer's input as a list of changes to files that are right: so it stays small, and the files
/// need not be kept beside the fuzzer, where they would become old.
class Edits {
 public:
  Edits(const std::uint8_t* data, std::size_t size) : at_(data), end_(data + size) {}

  bool more() const { return at_ < end_; }
  std::uint64_t number(std::size_t bytes) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < bytes && at_ < end_; ++i) value |= std::uint64_t{*at_++} << 8 * i;
    return value;
  }

  /// Changes one place of a file: a number of 1 to 8 bytes, a piece that goes, doubles or comes in.
  void change(std::string& file) {
    const std::uint64_t what = number(1);
    if (file.empty()) return;
    const std::size_t place = number(3) % file.size();
    switch (what % 6) {
      case 0:
      case 1: {
        const std::size_t bytes = std::size_t{1} << what / 6 % 4;
        const std::uint64_t value = number(bytes);
        std::memcpy(file.data() + place, &value, std::min(bytes, file.size() - place));
        break;
      }
      case 2:
        file.erase(place, number(1) + 1);
        break;
      case 3:
        file.insert(place, file.substr(number(3) % file.size(), number(1) + 1));
        break;
      case 4: {
        std::string piece;
        for (std::uint64_t i = number(1) % 24; i > 0; --i) piece += static_cast<char>(number(1));
        file.replace(place, what / 6 % 2 == 0 ? 0 : piece.size(), piece);
        break;
      }
      default:
        if (what / 6 % 8 == 0) {
          file.resize(place);
        } else {
          // A whole line in another place.
          const std::size_t from = number(3) % file.size();
          const std::size_t begin = file.rfind('\n', from) + 1;
          const std::size_t line = std::min(file.find('\n', from), file.size() - 1);
          if (begin <= line)
            file.insert(file.rfind('\n', place) + 1, file.substr(begin, line + 1 - begin));
        }
    }
  }

 private:
  const std::uint8_t* at_;
  const std::uint8_t* end_;
};

}  // namespace tpu::fuzz
