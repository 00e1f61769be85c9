#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <vector>

#include "sim/base/error.h"
#include "workloads/hlo/hlo_reader.h"
#include "workloads/hlo/proto_reader.h"
#include "workloads/hlo/stablehlo_reader.h"

namespace tpu::hlo {

namespace {

struct CloseGzip {
  void operator()(gzFile_s* file) const { gzclose(file); }
};

/// The size of the contents, as far as the file tells without being read: that of the file, or the
/// one at the end of a gzip file.
std::size_t size_hint(const std::string& path) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) return 0;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             &std::fclose);
  unsigned char bytes[4] = {};
  if (!file || std::fread(bytes, 1, 2, file.get()) != 2 || bytes[0] != 0x1f || bytes[1] != 0x8b) {
    return static_cast<std::size_t>(size);
  }
  if (std::fseek(file.get(), -4, SEEK_END) != 0 || std::fread(bytes, 1, 4, file.get()) != 4)
    return 0;
  std::uint32_t unpacked = 0;
  std::memcpy(&unpacked, bytes, sizeof unpacked);
  // deflate packs at most about 1000 times.
  return static_cast<std::size_t>(std::min<std::uintmax_t>(unpacked, size * 1024));
}

/// The size of a file or, of a pipe, 0.
std::uint64_t packed_bytes(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    throw WorkloadError(path + ": expected a file with HLO: " + std::strerror(errno));
  }
  if (S_ISDIR(status.st_mode)) {
    throw WorkloadError(path + ": expected a file with HLO, found a directory");
  }
  if (S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode)) {
    throw WorkloadError(path + ": expected a file with HLO, found a device");
  }
  return S_ISREG(status.st_mode) ? static_cast<std::uint64_t>(status.st_size) : 0;
}

/// A file that zlib reads, packed or not, and that may hold so many bytes.
class PackedFile {
 public:
  PackedFile(const std::string& path, std::uint64_t most)
      : path_(path), most_(most), chunk_(std::size_t{1} << 18) {
    errno = 0;
    file_.reset(gzopen(path.c_str(), "rb"));
    if (!file_) throw WorkloadError(path + ": expected a file with HLO: " + std::strerror(errno));
  }

  /// Appends what comes to a text of at most `most` bytes; false: there is more.
  bool read(std::string& text, std::size_t most) {
    while (const std::size_t count = next()) {
      if (count > most - text.size()) return false;
      text.append(chunk_.data(), count);
    }
    return true;
  }
  /// The bytes of the whole file; it stands at its begin then.
  std::size_t count() {
    begin_again();
    while (next() > 0) {
    }
    const auto bytes = static_cast<std::size_t>(bytes_);
    begin_again();
    return bytes;
  }

 private:
  void begin_again() {
    if (gzrewind(file_.get()) != 0) throw WorkloadError(path_ + ": expected a file to read twice");
    bytes_ = 0;
  }
  /// The bytes of the next chunk, 0 at the end.
  std::size_t next() {
    const int count = gzread(file_.get(), chunk_.data(), static_cast<unsigned>(chunk_.size()));
    int status = Z_OK;
    const char* message = gzerror(file_.get(), &status);
    if (count < 0 || status == Z_BUF_ERROR || (status != Z_OK && status != Z_STREAM_END)) {
      throw WorkloadError(
          path_ + ": expected a whole file, found one that ends or breaks within: " + message);
    }
    bytes_ += static_cast<std::uint64_t>(count);
    if (bytes_ > most_) {
      throw WorkloadError(path_ + ": expected HLO of at most " + std::to_string(most_) +
                          " bytes, found more");
    }
    return static_cast<std::size_t>(count);
  }

  std::string path_;
  std::uint64_t most_;
  std::vector<char> chunk_;
  std::unique_ptr<gzFile_s, CloseGzip> file_;
  std::uint64_t bytes_ = 0;
};

/// The contents of a file, uncompressed where it is gzip. What may be too large is counted before
/// it is kept, and takes its own size in memory, no more.
std::string contents(const std::string& path, const UnpackLimit& limit) {
  const std::uint64_t packed = packed_bytes(path);
  const std::uint64_t most = limit.of_file(packed);
  PackedFile file(path, most);
  std::string text;
  if (packed == 0) {  // A pipe.
    file.read(text, most);
    return text;
  }
  const std::size_t hint = size_hint(path);
  if (hint <= most) {
    text.reserve(hint);
    if (file.read(text, hint)) return text;
    std::string().swap(text);
  }
  const std::size_t bytes = file.count();
  text.reserve(bytes);
  file.read(text, bytes);
  return text;
}

/// Past blanks and comments.
std::string_view first_word(std::string_view text) {
  while (!text.empty()) {
    if (std::string_view(" \t\r\n").find(text.front()) != std::string_view::npos) {
      text.remove_prefix(1);
    } else if (text.substr(0, 2) == "//") {
      text.remove_prefix(std::min(text.find('\n'), text.size()));
    } else if (text.substr(0, 2) == "/*") {
      text.remove_prefix(std::min(text.find("*/"), text.size() - 2) + 2);
    } else {
      break;
    }
  }
  return text;
}

/// A module or function of MLIR, or the names of locations in front of it.
bool is_mlir_text(std::string_view word) {
  const auto begins = [&](std::string_view text) { return word.substr(0, text.size()) == text; };
  return begins("module ") || begins("module{") || begins("builtin.module") ||
         begins("\"builtin.module\"") || begins("func.func") || begins("#loc") || begins("#map");
}

}  // namespace

Module read_hlo(std::string_view file, std::string_view contents) {
  const std::string_view word = first_word(contents);
  if (word.substr(0, 9) == "HloModule") return read_hlo_text(file, contents);
  if (contents.substr(0, 4) == "ML\xefR") {
    throw WorkloadError(std::string(file) +
                        ": expected HLO or StableHLO as text, or HloModuleProto, found bytecode of "
                        "MLIR; `python -m tpusim_capture FILE -o FOLDER` makes a folder of it that "
                        "runs here, lowered.as_text() in JAX prints text");
  }
  if (is_mlir_text(word)) return read_stablehlo_text(file, contents);
  // A serialised module begins with its name: field 1, a length, the name.
  const bool binary = std::any_of(
      contents.begin(),
      contents.begin() + std::min<std::ptrdiff_t>(64, static_cast<std::ptrdiff_t>(contents.size())),
      [](char c) {
        const auto code = static_cast<unsigned char>(c);
        return code < 0x20 && c != '\n' && c != '\r' && c != '\t';
      });
  if (!contents.empty() && (binary || contents.front() == '\n')) {
    return read_hlo_proto(file, contents);
  }
  return read_hlo_text(file, contents);
}

Module read_hlo_file(const std::string& path, const UnpackLimit& limit) {
  return read_hlo(path, contents(path, limit));
}

}  // namespace tpu::hlo
