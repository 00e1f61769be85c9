#include "workloads/xla/captured_folder.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "isa/generation.h"
#include "sim/base/error.h"
#include "workloads/hlo/hlo_reader.h"
#include "workloads/xla/kernel_listing.h"
#include "workloads/xla/linker.h"
#include "workloads/xla/listing_files.h"

namespace tpu::xla {
namespace {

namespace fs = std::filesystem;

/// The first of the files that exists; empty for none.
std::string first_existing(const std::string& folder, std::initializer_list<std::string> names) {
  std::error_code error;
  for (const std::string& name : names) {
    std::string path = folder + "/" + name;
    if (fs::is_regular_file(path, error)) return path;
  }
  return {};
}

std::string scheduled_hlo(const std::string& folder, const std::string& chip) {
  return first_existing(folder, {chip + ".scheduled.hlo.gz", chip + ".scheduled.hlo"});
}

std::string facts_of(const std::string& folder) { return folder + "/facts.json"; }

/// The number of examples of a step, which the capture notes in facts.json ("batch": 128); 0 where
/// it does not.
std::uint64_t batch_of(const std::string& folder) {
  std::ifstream stream(facts_of(folder), std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(stream)),
                         std::istreambuf_iterator<char>());
  const std::string key = "\"batch\":";
  const std::size_t at = text.find(key);
  if (at == std::string::npos) return 0;
  const std::size_t digits = text.find_first_not_of(" \n", at + key.size());
  std::uint64_t batch = 0;
  for (std::size_t k = digits; k < text.size() && k < digits + 15; ++k) {
    if (text[k] < '0' || text[k] > '9') break;
    batch = batch * 10 + static_cast<std::uint64_t>(text[k] - '0');
  }
  return batch;
}

/// Kernels are read while the listings are unpacked, where that can be.
ListingFiles read_listings(const std::string& path, const std::string& chip, isa::CodeNames names) {
  EarlyListings early(chip, names);
  ListingFiles files = read_listing_files(
      path, [&early](ListingFiles& so_far, const std::string& kernel, std::string_view bundles) {
        return early.take(so_far, kernel, bundles);
      });
  if (early.fit(files)) return files;
  return read_listing_files(path);
}

void drop_names(isa::Program& program) {
  for (isa::Kernel& kernel : program.kernels) {
    kernel.names = {};
    kernel.renamings = {};
    kernel.operand_names = {};
  }
  for (isa::CallSite& site : program.call_sites) site.operand_names = {};
}

}  // namespace

bool is_captured_file(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  if (fs::path(path).parent_path().extension() == ".bundles") return true;
  for (const char* known : {"before.hlo", "before.hlo.gz", "before.hlo.pb.gz", "values.npz",
                            "facts.json", "tiles.csv"}) {
    if (name == known) return true;
  }
  for (const isa::Generation& chip : isa::generations()) {
    for (const char* part : {".bundles.tar.xz", ".scheduled.hlo", ".scheduled.hlo.gz"}) {
      if (name == std::string(chip.name) + part) return true;
    }
  }
  return false;
}

bool is_captured_folder(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return false;
  for (const isa::Generation& chip : isa::generations()) {
    for (const char* part : {".bundles.tar.xz", ".bundles"}) {
      if (fs::exists(path + "/" + std::string(chip.name) + part, error)) return true;
    }
  }
  return false;
}

std::string hlo_before_optimisation(const std::string& folder) {
  return first_existing(folder, {"before.hlo.pb.gz", "before.hlo.gz", "before.hlo"});
}

std::vector<std::string> files_of_program(const std::string& folder, const std::string& chip) {
  std::vector<std::string> files;
  std::error_code error;
  const std::string listings = listings_path(folder, chip);
  if (fs::is_directory(listings, error)) {
    for (fs::directory_iterator entry(listings, error), end; !error && entry != end;
         entry.increment(error)) {
      if (entry->is_regular_file(error)) files.push_back(entry->path().string());
    }
    std::sort(files.begin(), files.end());
  } else {
    files.push_back(listings);
  }
  for (const std::string& file : {scheduled_hlo(folder, chip), facts_of(folder)}) {
    if (fs::is_regular_file(file, error)) files.push_back(file);
  }
  return files;
}

std::optional<hlo::Module> scheduled_module(const std::string& folder, const std::string& chip) {
  const std::string path = scheduled_hlo(folder, chip);
  if (path.empty()) return std::nullopt;
  return hlo::read_hlo_file(path);
}

isa::Program load_captured(const std::string& folder, const std::string& chip,
                           isa::CodeNames names) {
  const std::string listings = listings_path(folder, chip);
  const std::string scheduled = scheduled_hlo(folder, chip);
  ListingFiles files = read_listings(listings, chip, names);
  if (scheduled.empty() && files.hlo.name.empty()) {
    throw WorkloadError(folder + ": expected the scheduled HLO (" + chip +
                        ".scheduled.hlo.gz, or <number>-TLP-hlo.txt among the listings), found "
                        "neither");
  }
  hlo::Module module = scheduled.empty() ? hlo::read_hlo_text(files.hlo.name, files.hlo.text)
                                         : hlo::read_hlo_file(scheduled);
  isa::Program program = Linker(std::move(files), std::move(module), chip, names).link();
  if (program.examples_per_core == 0) program.examples_per_core = batch_of(folder) / program.cores;
  if (names == isa::CodeNames::kNone) drop_names(program);
  return program;
}

}  // namespace tpu::xla
