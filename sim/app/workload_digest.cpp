#include "sim/app/workload_digest.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include "sim/app/program_cache.h"
#include "sim/base/sha256.h"
#include "workloads/frontend/zoo.h"
#include "workloads/xla/captured_folder.h"

namespace tpu::app {
namespace {

namespace fs = std::filesystem;

/// The files of a captured program, by name.
std::string digest_of_folder(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && xla::is_captured_file(entry.path().string())) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  Sha256 digest;
  for (const fs::path& file : files) {
    digest.add(fs::relative(file, folder).string() + "=" + digest_of_file(file.string()) + "\n");
  }
  return digest.hex();
}

}  // namespace

std::string digest_of_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  Sha256 digest;
  std::string piece(std::size_t{1} << 20, '\0');
  while (in.read(piece.data(), static_cast<std::streamsize>(piece.size())) || in.gcount() > 0) {
    digest.add({piece.data(), static_cast<std::size_t>(in.gcount())});
  }
  return digest.hex();
}

std::string digest_of_contents(const std::string& workload) {
  return frontend::is_workload(workload) ? sha256(workload)
         : fs::is_directory(workload)    ? digest_of_folder(workload)
                                         : digest_of_file(workload);
}

std::string workload_sha256(const Arguments& arguments) {
  // The name of a file says nothing of its contents.
  Arguments flags = arguments;
  flags.input.clear();
  return sha256(digest_of_contents(arguments.input) + workload_key(flags));
}

}  // namespace tpu::app
