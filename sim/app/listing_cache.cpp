#include "sim/app/listing_cache.h"

#include <elf.h>
#include <link.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <vector>

#include "sim/app/workload_digest.h"
#include "sim/base/error.h"
#include "sim/base/sha256.h"
#include "traces/program_file.h"
#include "workloads/xla/captured_folder.h"

namespace tpu::app {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kDigestDigits = 64;
constexpr const char* kEnding = ".h5";

/// The linker's digest of the program that runs; "" where it made none.
std::string build_id() {
  std::string id;
  const auto find = [](dl_phdr_info* object, std::size_t /*size*/, void* found) {
    for (int i = 0; i < object->dlpi_phnum; ++i) {
      const auto& segment = object->dlpi_phdr[i];
      if (segment.p_type != PT_NOTE) continue;
      // NOLINTNEXTLINE(performance-no-int-to-ptr): the loader gives addresses as numbers.
      const auto* at = reinterpret_cast<const char*>(object->dlpi_addr + segment.p_vaddr);
      const char* end = at + segment.p_memsz;
      while (at + sizeof(ElfW(Nhdr)) <= end) {
        ElfW(Nhdr) note;
        std::memcpy(&note, at, sizeof(note));
        const auto padded = [](std::size_t bytes) { return (bytes + 3) / 4 * 4; };
        const char* name = at + sizeof(note);
        const char* text = name + padded(note.n_namesz);
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
            std::memcmp(name, "GNU", 4) == 0) {
          static_cast<std::string*>(found)->assign(text, note.n_descsz);
        }
        at = text + padded(note.n_descsz);
      }
    }
    return 1;  // The program itself is the first object; others do not matter.
  };
  dl_iterate_phdr(find, &id);
  return id;
}

/// The name of a program in the cache; nothing where it is not worth one or can't have one.
std::optional<std::string> key_of(const std::string& captured, const std::string& chip,
                                  isa::CodeNames names, std::uint64_t smallest_listing) {
  const std::string build = build_id();
  if (build.empty()) return std::nullopt;
  std::uint64_t bytes = 0;
  Sha256 digest;
  digest.add(TPUSIM_VERSION "\n" + build + "\n" + chip + "\n");
  digest.add(names == isa::CodeNames::kAll ? "with names\n" : "without names\n");
  const std::vector<std::string> files = xla::files_of_program(captured, chip);
  for (const std::string& file : files) {
    std::error_code error;
    bytes += fs::file_size(file, error);
    if (error) return std::nullopt;
  }
  if (bytes < smallest_listing) return std::nullopt;
  for (const std::string& file : files) {
    digest.add(fs::path(file).filename().string() + "=" + digest_of_file(file) + "\n");
  }
  return digest.hex();
}

std::optional<isa::Program> read_kept(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return std::nullopt;
  try {
    isa::Program program = traces::read_program_file(path);
    fs::last_write_time(path, fs::file_time_type::clock::now(), error);  // It was used now.
    return program;
  } catch (const WorkloadError& problem) {
    spdlog::info("a program in the cache is read anew: {}", problem.what());
    return std::nullopt;
  }
}

/// Files that this class wrote, and nothing else that may lie in the folder.
bool is_kept_program(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.size() == kDigestDigits + std::strlen(kEnding) && path.extension() == kEnding &&
         name.find_first_not_of("0123456789abcdef") == kDigestDigits;
}

}  // namespace

isa::Program ListingCache::load(const std::string& captured, const std::string& chip,
                                isa::CodeNames names) const {
  std::optional<std::string> key;
  if (!folder_.empty()) key = key_of(captured, chip, names, limits_.smallest_listing);
  const std::string path = key ? folder_ + "/" + *key + kEnding : "";
  if (key) {
    if (std::optional<isa::Program> kept = read_kept(path)) return *std::move(kept);
  }
  isa::Program program = xla::load_captured(captured, chip, names);
  if (key) keep(path, program);
  return program;
}

void ListingCache::keep(const std::string& path, const isa::Program& program) const {
  std::error_code error;
  fs::create_directories(folder_, error);
  try {
    traces::write_program_file(path, program);
  } catch (const UsageError& problem) {
    spdlog::info("a program is not kept: {}", problem.what());
    return;
  }
  drop_oldest();
}

void ListingCache::drop_oldest() const {
  struct Kept {
    fs::file_time_type used;
    std::uint64_t bytes;
    fs::path path;
  };
  std::vector<Kept> kept;
  std::error_code error;
  std::uint64_t total = 0;
  for (fs::directory_iterator entry(folder_, error), end; !error && entry != end;
       entry.increment(error)) {
    if (!is_kept_program(entry->path())) continue;
    std::error_code gone;  // Another process may be clearing the folder, too.
    const Kept one{fs::last_write_time(entry->path(), gone), fs::file_size(entry->path(), gone),
                   entry->path()};
    if (gone) continue;
    total += one.bytes;
    kept.push_back(one);
  }
  std::sort(kept.begin(), kept.end(), [](const Kept& a, const Kept& b) { return a.used < b.used; });
  for (const Kept& one : kept) {
    if (total <= limits_.most_bytes) return;
    fs::remove(one.path, error);
    total -= one.bytes;
  }
}

std::string listing_cache_folder() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (const std::string own = variable("TPUSIM_CACHE"); !own.empty()) {
    return own == "off" ? "" : own;
  }
  // The specification of base directories has relative paths ignored.
  if (const std::string caches = variable("XDG_CACHE_HOME"); !caches.empty() && caches[0] == '/') {
    return caches + "/tpusim/listings";
  }
  const std::string home = variable("HOME");
  return home.empty() ? "" : home + "/.cache/tpusim/listings";
}

}  // namespace tpu::app
