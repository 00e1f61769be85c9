#include "traces/hdf5_object_header.h"

#include <cstring>
#include <string_view>
#include <vector>

#include "traces/hdf5_handle.h"

namespace tpu::traces {
namespace {

constexpr std::string_view kSignature{"\x89HDF\r\n\x1a\n", 8};
constexpr std::size_t kAddressBytes = 8;
/// Where a superblock of version 0 says where the header of the root is.
constexpr std::uint64_t kRootHeader = 64;
/// Messages of a header.
constexpr std::uint64_t kDatatype = 0x3, kLayout = 0x8, kContinuation = 0x10;
/// Of a layout.
constexpr std::uint64_t kLayoutVersion = 3, kChunked = 2;
constexpr std::size_t kMostBlocks = 64;

/// A stretch of the image.
class Bytes {
 public:
  Bytes(const std::uint8_t* image, std::size_t bytes) : data_(image), bytes_(bytes) {}
  std::size_t size() const { return bytes_; }
  Bytes part(std::uint64_t from, std::uint64_t count) const {
    if (from > bytes_ || count > bytes_ - from) throw Hdf5Failure{};
    return {data_ + from, static_cast<std::size_t>(count)};
  }
  /// A number, the least byte first.
  std::uint64_t number(std::uint64_t from, std::size_t count) const {
    const Bytes digits = part(from, count);
    std::uint64_t value = 0;
    for (std::size_t i = count; i-- > 0;) value = value << 8 | digits.data_[i];
    return value;
  }
  bool begins_with(std::string_view text) const {
    return bytes_ >= text.size() && std::memcmp(data_, text.data(), text.size()) == 0;
  }

 private:
  const std::uint8_t* data_;
  std::size_t bytes_;
};

/// Bytes of an element in a chunk; 0: the data stand in no chunks.
std::uint64_t check_layout(const Bytes& layout) {
  const std::uint64_t version = layout.number(0, 1);
  if (version >= kLayoutVersion && layout.number(1, 1) != kChunked) return 0;
  if (version != kLayoutVersion) throw Hdf5Failure{};
  // Of a dimension at least, and the size of an element.
  const std::uint64_t extents = layout.number(2, 1);
  if (extents < 2) throw Hdf5Failure{};
  std::uint64_t extent = 0;
  for (std::uint64_t i = 0; i < extents; ++i) {
    extent = layout.number(3 + kAddressBytes + 4 * i, 4);
    if (extent == 0) throw Hdf5Failure{};
  }
  return extent;
}

}  // namespace

void check_object_header(const std::uint8_t* image, std::size_t bytes, std::uint64_t address) {
  const Bytes file(image, bytes);
  if (file.number(address, 1) != 1) throw Hdf5Failure{};
  std::vector<Bytes> blocks{file.part(address + 16, file.number(address + 8, 4))};
  std::uint64_t in_chunks = 0, of_type = 0;
  for (std::size_t next = 0; next < blocks.size(); ++next) {
    if (next == kMostBlocks) throw Hdf5Failure{};
    const Bytes block = blocks[next];
    for (std::uint64_t at = 0; at + 8 <= block.size();) {
      const std::uint64_t type = block.number(at, 2);
      const Bytes message = block.part(at + 8, block.number(at + 2, 2));
      at += 8 + message.size();
      if (type == kLayout) in_chunks = check_layout(message);
      if (type == kDatatype) of_type = message.number(4, 4);
      if (type != kContinuation) continue;
      blocks.push_back(file.part(message.number(0, kAddressBytes),
                                 message.number(kAddressBytes, kAddressBytes)));
    }
  }
  if (in_chunks != 0 && in_chunks != of_type) throw Hdf5Failure{};
}

void check_root_header(const std::uint8_t* image, std::size_t bytes) {
  const Bytes file(image, bytes);
  const bool has_form = file.begins_with(kSignature) && file.number(8, 1) == 0 &&
                        file.number(13, 1) == kAddressBytes && file.number(14, 1) == kAddressBytes;
  if (!has_form) throw Hdf5Failure{};
  check_object_header(image, bytes, file.number(kRootHeader, kAddressBytes));
}

}  // namespace tpu::traces
