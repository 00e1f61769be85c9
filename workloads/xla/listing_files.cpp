#include "workloads/xla/listing_files.h"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <new>
#include <vector>

#include "isa/generation.h"
#include "sim/base/error.h"

namespace tpu::xla {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxFileBytes = std::uint64_t{1} << 30;
constexpr std::uint64_t kMaxTotalBytes = std::uint64_t{1} << 32;

/// libarchive says by an error number that it got no memory.
void require_memory(archive* reader) {
  if (archive_errno(reader) == ENOMEM) throw std::bad_alloc();
}

enum class Kind { kOther, kFinalBundles, kPacked, kDeduplication, kHlo };

/// A file name taken apart: "<fingerprint>-<kernel>-<number>-final_bundles.txt".
struct FileName {
  Kind kind = Kind::kOther;
  std::uint64_t fingerprint = 0;
  std::string kernel;
};

bool take_suffix(std::string& text, const std::string& suffix) {
  if (text.size() < suffix.size() ||
      text.compare(text.size() - suffix.size(), suffix.size(), suffix) != 0) {
    return false;
  }
  text.resize(text.size() - suffix.size());
  return true;
}

/// Removes "-<digits>" at the end.
bool take_number(std::string& text) {
  const std::size_t dash = text.rfind('-');
  if (dash == std::string::npos || dash + 1 == text.size()) return false;
  if (text.find_first_not_of("0123456789", dash + 1) != std::string::npos) return false;
  text.resize(dash);
  return true;
}

FileName parse_file_name(std::string name) {
  FileName parsed;
  const std::size_t digits = name.find_first_not_of("0123456789");
  if (digits == 0 || digits == std::string::npos || digits > 19 || name[digits] != '-') return {};
  parsed.fingerprint = std::stoull(name.substr(0, digits));
  name.erase(0, digits + 1);
  if (name == "TLP-hlo.txt") {
    parsed.kind = Kind::kHlo;
  } else if (take_suffix(name, "-deduplication-map.txt")) {
    parsed.kind = Kind::kDeduplication;
  } else if (take_suffix(name, "-final_bundles.txt") && take_number(name)) {
    parsed.kind = Kind::kFinalBundles;
  } else if (take_suffix(name, "-post-bundle-packing-post-ra.txt") && take_number(name)) {
    parsed.kind = Kind::kPacked;
  }
  parsed.kernel = name;
  return parsed;
}

/// Where the text of a file belongs; null when it is not needed.
TextFile* place_of(const FileName& name, ListingFiles& files) {
  switch (name.kind) {
    case Kind::kOther:
      return nullptr;
    case Kind::kDeduplication:
      return &files.deduplication;
    case Kind::kHlo:
      return &files.hlo;
    case Kind::kFinalBundles:
    case Kind::kPacked:
      break;
  }
  KernelFiles& kernel = files.kernels[name.kernel];
  if (name.fingerprint < kernel.fingerprint) return nullptr;
  if (name.fingerprint > kernel.fingerprint) {
    files.replaced |= name.kernel == "TLP" && kernel.fingerprint != 0;
    kernel = KernelFiles{};
    kernel.fingerprint = name.fingerprint;
  }
  TextFile& place = name.kind == Kind::kPacked ? kernel.packed : kernel.final_bundles;
  files.replaced |= !place.name.empty();
  return &place;
}

std::string file_size_error(const std::string& path, const std::string& name) {
  return path + ": expected listings of at most 1 GiB a file and 4 GiB together, found more at " +
         name;
}

struct CloseArchive {
  void operator()(archive* a) const { archive_read_free(a); }
};

/// Texts one after another in the same memory, so that it stays in the caches of the processor.
class EntryReader {
 public:
  EntryReader(archive* reader, const std::string& path) : reader_(reader), path_(path) {}

  /// The text of an entry, which stays until the next is read.
  std::string_view read(archive_entry* entry, const std::string& name) {
    make_room(entry);
    std::size_t size = 0;
    while (true) {
      if (size == text_.size()) text_.resize(size + std::max(kBlock, size / 2));
      const la_ssize_t count = archive_read_data(reader_, text_.data() + size, text_.size() - size);
      if (count < 0) {
        require_memory(reader_);
        throw WorkloadError(path_ + ": expected a whole archive, found an error in " + name + ": " +
                            archive_error_string(reader_));
      }
      if (count == 0) return {text_.data(), size};
      size += static_cast<std::size_t>(count);
      if (size > kMaxFileBytes) throw WorkloadError(file_size_error(path_, name));
    }
  }

 private:
  static constexpr std::size_t kBlock = std::size_t{1} << 18, kMostStated = std::size_t{1} << 26;

  /// The size that the entry states is a hint: a damaged one may state anything.
  void make_room(archive_entry* entry) {
    const la_int64_t stated = archive_entry_size_is_set(entry) != 0 ? archive_entry_size(entry) : 0;
    const auto bytes = static_cast<std::size_t>(std::max<la_int64_t>(stated, 0));
    if (bytes < text_.size() || bytes > kMostStated) return;
    text_ = {};
    text_.resize(bytes + bytes / 2 + kBlock);
  }

  archive* reader_;
  const std::string& path_;
  std::vector<char> text_;
};

/// Keeps a text that nobody takes.
void keep_or_take(const FileName& name, std::string_view text, TextFile& place, ListingFiles& files,
                  const TakeBundles& take) {
  const bool bundles = name.kind == Kind::kFinalBundles;
  if (!bundles || !take || !take(files, name.kernel, text)) place.text = std::string(text);
}

ListingFiles read_archive(const std::string& path, const TakeBundles& take) {
  const std::unique_ptr<archive, CloseArchive> reader(archive_read_new());
  if (reader == nullptr) throw std::bad_alloc();
  archive_read_support_filter_xz(reader.get());
  archive_read_support_filter_gzip(reader.get());
  archive_read_support_format_tar(reader.get());
  const auto failed = [&] {
    require_memory(reader.get());
    const char* reason = archive_error_string(reader.get());
    throw WorkloadError(path + ": expected a tar archive compressed with xz, found: " +
                        (reason == nullptr ? "an error" : reason));
  };
  if (archive_read_open_filename(reader.get(), path.c_str(), std::size_t{1} << 16) != ARCHIVE_OK) {
    failed();
  }
  ListingFiles files;
  EntryReader entries(reader.get(), path);
  std::uint64_t total = 0;
  while (true) {
    archive_entry* entry = nullptr;
    const int status = archive_read_next_header(reader.get(), &entry);
    if (status == ARCHIVE_EOF) break;
    if (status != ARCHIVE_OK && status != ARCHIVE_WARN) failed();
    const char* pathname = archive_entry_pathname(entry);
    if (pathname == nullptr || archive_entry_filetype(entry) != AE_IFREG) continue;
    const std::string name = fs::path(pathname).filename().string();
    const FileName parsed = parse_file_name(name);
    TextFile* place = place_of(parsed, files);
    if (place == nullptr) continue;
    const std::string_view text = entries.read(entry, name);
    total += text.size();
    if (total > kMaxTotalBytes) throw WorkloadError(file_size_error(path, name));
    place->name = path + "/" + name;
    keep_or_take(parsed, text, *place, files, take);
  }
  return files;
}

std::string read_file(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    throw WorkloadError(path + ": expected a file that can be read: " + std::strerror(errno));
  }
  std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  if (stream.bad()) throw WorkloadError(path + ": expected a file that can be read");
  return text;
}

ListingFiles read_folder(const std::string& path, const TakeBundles& take) {
  ListingFiles files;
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entry(path, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    std::error_code unknown;
    if (entry->is_regular_file(unknown)) names.push_back(entry->path().filename().string());
  }
  if (error) throw WorkloadError(path + ": expected a folder of listings: " + error.message());
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    const FileName parsed = parse_file_name(name);
    TextFile* place = place_of(parsed, files);
    if (place == nullptr) continue;
    place->name = path + "/" + name;
    keep_or_take(parsed, read_file(place->name), *place, files, take);
  }
  return files;
}

}  // namespace

std::string listings_path(const std::string& folder, const std::string& chip) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    const fs::path parent = fs::path(folder).parent_path();
    throw WorkloadError(folder + ": expected the folder of a captured program (with " + chip +
                        ".bundles.tar.xz), found " +
                        (fs::exists(folder, error) ? "a file; name the folder that holds it, " +
                                                         (parent.empty() ? "." : parent.string())
                                                   : "nothing of this name"));
  }
  std::string others;
  std::vector<std::string> names = {chip};
  for (const isa::Generation& other : isa::generations()) names.emplace_back(other.name);
  for (const std::string& name : names) {
    for (const char* suffix : {".bundles.tar.xz", ".bundles"}) {
      std::string path = folder + "/" + name + suffix;
      if (!fs::exists(path, error)) continue;
      if (name == chip) return path;
      others += (others.empty() ? " but " : ", ") + name + suffix;
    }
  }
  throw WorkloadError(folder + ": expected listings for " + chip + " (" + chip +
                      ".bundles.tar.xz or " + chip + ".bundles/), found none" + others);
}

ListingFiles read_listing_files(const std::string& path, const TakeBundles& take) {
  std::error_code error;
  ListingFiles files =
      fs::is_directory(path, error) ? read_folder(path, take) : read_archive(path, take);
  if (files.kernels.count("TLP") == 0) {
    throw WorkloadError(path +
                        ": expected the listing of a top-level program "
                        "(<number>-TLP-<number>-final_bundles.txt), found none");
  }
  return files;
}

std::map<std::string, std::string> read_deduplication(const TextFile& file) {
  std::map<std::string, std::string> same_as;
  std::string key;
  std::size_t at = 0;
  while (at < file.text.size()) {
    std::size_t end = file.text.find('\n', at);
    if (end == std::string::npos) end = file.text.size();
    const std::string line = file.text.substr(at, end - at);
    at = end + 1;
    if (line.compare(0, 4, "key:") == 0) {
      key = line.substr(4);
    } else if (line.size() > 2 && line[0] == ' ' && !key.empty()) {
      same_as[line.substr(line.find_first_not_of(' '))] = key;
    }
  }
  return same_as;
}

}  // namespace tpu::xla
