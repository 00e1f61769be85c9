#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tpu {

/// The SHA-256 of bytes that come in pieces (FIPS 180-4): what names contents in files of results.
class Sha256 {
 public:
  Sha256& add(std::string_view bytes);
  /// The digest of all that was added, 64 hexadecimal digits; nothing can be added behind it.
  std::string hex();

 private:
  static constexpr std::size_t kBlock = 64;
  void compress(const unsigned char* data, std::size_t blocks);

  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, kBlock> pending_{};
  std::uint64_t bytes_ = 0;
};

/// The digest of a text.
inline std::string sha256(std::string_view bytes) { return Sha256().add(bytes).hex(); }

}  // namespace tpu
