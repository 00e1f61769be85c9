#include "workloads/xla/captured_folder.h"

#include <filesystem>
#include <utility>

#include "sim/base/error.h"
#include "workloads/hlo/hlo_reader.h"
#include "workloads/xla/linker.h"
#include "workloads/xla/listing_files.h"

namespace tpu::xla {
namespace {

namespace fs = std::filesystem;

/// The first of the files that exists; empty for none.
std::string first_existing(const std::string& folder, std::initializer_list<std::string> names) {
  std::error_code error;
  for (const std::string& name : names) {
    const std::string path = folder + "/" + name;
    if (fs::is_regular_file(path, error)) return path;
  }
  return {};
}

}  // namespace

bool is_captured_folder(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return false;
  for (const char* name : {"v2.bundles.tar.xz", "v3.bundles.tar.xz", "v2.bundles", "v3.bundles"}) {
    if (fs::exists(path + "/" + name, error)) return true;
  }
  return false;
}

std::string hlo_before_optimisation(const std::string& folder) {
  return first_existing(folder, {"before.hlo.gz", "before.hlo", "before.hlo.pb.gz"});
}

isa::Program load_captured(const std::string& folder, const std::string& chip) {
  const std::string listings = listings_path(folder, chip);
  const std::string scheduled =
      first_existing(folder, {chip + ".scheduled.hlo.gz", chip + ".scheduled.hlo"});
  ListingFiles files = read_listing_files(listings);
  if (scheduled.empty() && files.hlo.name.empty()) {
    throw WorkloadError(folder + ": expected the scheduled HLO (" + chip +
                        ".scheduled.hlo.gz, or <number>-TLP-hlo.txt among the listings), found "
                        "neither");
  }
  hlo::Module module = scheduled.empty() ? hlo::read_hlo_text(files.hlo.name, files.hlo.text)
                                         : hlo::read_hlo_file(scheduled);
  return Linker(std::move(files), std::move(module), chip).link();
}

}  // namespace tpu::xla
