#include "traces/npz.h"

#include <archive.h>
#include <archive_entry.h>
#include <sys/stat.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <optional>

#include "sim/base/error.h"
#include "sim/base/output_file.h"

namespace tpu::traces {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 20;
constexpr std::string_view kSuffix = ".npy";

struct ArchiveCloser {
  void operator()(archive* handle) const { archive_free(handle); }
};
using Archive = std::unique_ptr<archive, ArchiveCloser>;

/// The library says by an error number that it got no memory.
void require_memory(archive* handle) {
  if (handle == nullptr || archive_errno(handle) == ENOMEM) throw std::bad_alloc();
}

[[noreturn]] void fail(const std::string& path, archive* handle) {
  require_memory(handle);
  const char* text = archive_error_string(handle);
  throw WorkloadError(path + ": expected a .npz file (a zip of .npy arrays): " +
                      (text != nullptr ? text : "it can't be read"));
}

/// Reads a member and takes its bytes from `bytes_left`; nothing when there are more.
std::optional<std::vector<std::uint8_t>> read_member(archive* handle, const std::string& path,
                                                     std::uint64_t& bytes_left) {
  std::vector<std::uint8_t> image;
  for (;;) {
    const std::size_t begin = image.size();
    image.resize(begin + kChunk);
    const la_ssize_t count = archive_read_data(handle, image.data() + begin, kChunk);
    if (count < 0) fail(path, handle);
    image.resize(begin + static_cast<std::size_t>(count));
    if (count == 0) return image;
    if (static_cast<std::uint64_t>(count) > bytes_left) return std::nullopt;
    bytes_left -= static_cast<std::uint64_t>(count);
  }
}

la_ssize_t append_chunk(archive* handle, void* to, const void* data, std::size_t bytes) {
  const auto* begin = static_cast<const std::uint8_t*>(data);
  auto& all = *static_cast<std::vector<std::uint8_t>*>(to);
  try {
    all.insert(all.end(), begin, begin + bytes);
  } catch (const std::bad_alloc&) {  // Not through the frames of a C library.
    archive_set_error(handle, ENOMEM, "no memory for the archive");
    return ARCHIVE_FATAL;
  }
  return static_cast<la_ssize_t>(bytes);
}

void check(int code, archive* handle) {
  if (code != ARCHIVE_OK) require_memory(handle);
  TPU_CHECK(code == ARCHIVE_OK, "libarchive: " << archive_error_string(handle));
}

float half_to_float(std::uint16_t half) {
  const int sign = half >> 15;
  const int exponent = (half >> 10) & 31;
  const int fraction = half & 1023;
  double value = 0;
  if (exponent == 31) {
    value = fraction == 0 ? INFINITY : NAN;
  } else if (exponent == 0) {
    value = std::ldexp(fraction, -24);
  } else {
    value = std::ldexp(1024 + fraction, exponent - 25);
  }
  return static_cast<float>(sign != 0 ? -value : value);
}

template <class Type>
std::vector<double> convert(const NpzArray& array) {
  std::vector<double> result(array.bytes.size() / sizeof(Type));
  for (std::size_t i = 0; i < result.size(); ++i) {
    Type value;
    std::memcpy(&value, array.bytes.data() + i * sizeof(Type), sizeof(Type));
    result[i] = static_cast<double>(value);
  }
  return result;
}

}  // namespace

std::int64_t NpzArray::element_count() const {
  std::int64_t count = 1;
  for (const std::int64_t extent : dimensions) count *= extent;
  return count;
}

NpzFile read_npz(const std::string& path, const UnpackLimit& limit) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    throw WorkloadError(path + ": expected a .npz file: " + std::strerror(errno));
  }
  if (!S_ISREG(status.st_mode)) {
    throw WorkloadError(path + ": expected a .npz file, found " +
                        (S_ISDIR(status.st_mode) ? "a directory" : "no regular file"));
  }
  const Archive handle(archive_read_new());
  if (handle == nullptr) throw std::bad_alloc();
  archive_read_support_format_zip_seekable(handle.get());
  if (archive_read_open_filename(handle.get(), path.c_str(), kChunk) != ARCHIVE_OK) {
    fail(path, handle.get());
  }
  NpzFile result;
  const std::uint64_t most = limit.of_file(static_cast<std::uint64_t>(status.st_size));
  std::uint64_t bytes_left = most;
  archive_entry* entry = nullptr;
  for (;;) {
    const int code = archive_read_next_header(handle.get(), &entry);
    if (code == ARCHIVE_EOF) break;
    if (code != ARCHIVE_OK) fail(path, handle.get());
    const char* raw_name = archive_entry_pathname(entry);
    std::string name = raw_name != nullptr ? raw_name : "";
    if (name.size() <= kSuffix.size() ||
        name.compare(name.size() - kSuffix.size(), kSuffix.size(), kSuffix) != 0) {
      throw WorkloadError(path + ": expected members named *.npy, found \"" + name + "\"");
    }
    name.resize(name.size() - kSuffix.size());
    const std::string where = path + ": " + name;
    const auto image = read_member(handle.get(), where, bytes_left);
    if (!image) {
      throw WorkloadError(where + ": expected arrays of at most " + std::to_string(most) +
                          " bytes together, found more");
    }
    NpzArray array = parse_npy(*image, where);
    if (!result.emplace(name, std::move(array)).second) {
      throw WorkloadError(path + ": two arrays are named \"" + name + "\"");
    }
  }
  return result;
}

std::vector<double> to_doubles(const NpzArray& array) {
  using hlo::ElementType;
  switch (array.type) {
    case ElementType::kPred:
    case ElementType::kU8:
      return convert<std::uint8_t>(array);
    case ElementType::kS8:
      return convert<std::int8_t>(array);
    case ElementType::kS16:
      return convert<std::int16_t>(array);
    case ElementType::kU16:
      return convert<std::uint16_t>(array);
    case ElementType::kS32:
      return convert<std::int32_t>(array);
    case ElementType::kU32:
      return convert<std::uint32_t>(array);
    case ElementType::kS64:
      return convert<std::int64_t>(array);
    case ElementType::kU64:
      return convert<std::uint64_t>(array);
    case ElementType::kF32:
    case ElementType::kC64:
      return convert<float>(array);
    case ElementType::kF64:
      return convert<double>(array);
    case ElementType::kF16:
    case ElementType::kBf16: {
      std::vector<double> result(array.bytes.size() / 2);
      for (std::size_t i = 0; i < result.size(); ++i) {
        std::uint16_t bits = 0;
        std::memcpy(&bits, array.bytes.data() + 2 * i, 2);
        if (array.type == ElementType::kF16) {
          result[i] = static_cast<double>(half_to_float(bits));
        } else {
          const std::uint32_t wide = std::uint32_t{bits} << 16;
          float value = 0;
          std::memcpy(&value, &wide, 4);
          result[i] = static_cast<double>(value);
        }
      }
      return result;
    }
    default:
      break;
  }
  TPU_CHECK(false, "an array of type " << hlo::to_string(array.type));
}

void write_npz(const std::string& path, const NpzFile& arrays) {
  OutputFile file(path);
  std::vector<std::uint8_t> zip;
  {
    const Archive owner(archive_write_new());
    archive* handle = owner.get();
    if (handle == nullptr) throw std::bad_alloc();
    check(archive_write_set_format_zip(handle), handle);
    check(archive_write_zip_set_compression_store(handle), handle);
    check(archive_write_set_bytes_in_last_block(handle, 1), handle);
    check(archive_write_open(handle, &zip, nullptr, append_chunk, nullptr), handle);
    for (const auto& [name, array] : arrays) {
      const std::vector<std::uint8_t> image = npy_image(array);
      archive_entry* entry = archive_entry_new();
      if (entry == nullptr) throw std::bad_alloc();
      archive_entry_set_pathname(entry, (name + std::string(kSuffix)).c_str());
      archive_entry_set_filetype(entry, AE_IFREG);
      archive_entry_set_perm(entry, 0644);
      archive_entry_set_size(entry, static_cast<la_int64_t>(image.size()));
      const int header_code = archive_write_header(handle, entry);
      archive_entry_free(entry);
      check(header_code, handle);
      const la_ssize_t written = archive_write_data(handle, image.data(), image.size());
      if (written < 0) require_memory(handle);
      TPU_CHECK(written == static_cast<la_ssize_t>(image.size()), archive_error_string(handle));
    }
    check(archive_write_close(handle), handle);
  }
  file.write(zip.data(), zip.size());
  file.commit();
}

}  // namespace tpu::traces
