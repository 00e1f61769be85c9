#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "sim/base/error.h"
#include "tests/fuzz/edits.h"
#include "tests/fuzz/one_input.h"
#include "workloads/xla/captured_folder.h"

namespace {

namespace fs = std::filesystem;
const char* const kCaptured = TPUSIM_SOURCE_DIR "/tests/captured/scalars/v3";

/// A captured folder with its archives unpacked, in memory.
class Folder {
 public:
  Folder() {
    const fs::path memory = fs::is_directory("/dev/shm") ? "/dev/shm" : fs::temp_directory_path();
    path_ = memory / ("tpusim-fuzz-" + std::to_string(::getpid()));
    fs::create_directories(path_);
    const std::string to = " '" + path_.string() + "'";
    const std::string unpack = "tar -xJf '" + std::string(kCaptured) + ".bundles.tar.xz' -C" + to +
                               " && gzip -dc '" + kCaptured + ".scheduled.hlo.gz' >" + to +
                               "/v3.scheduled.hlo";
    if (std::system(unpack.c_str()) != 0) std::abort();
    for (const auto& entry : fs::recursive_directory_iterator(path_)) {
      if (entry.is_regular_file()) names_.push_back(entry.path());
    }
    std::sort(names_.begin(), names_.end());
    for (const fs::path& name : names_) {
      std::ifstream in(name, std::ios::binary);
      texts_.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    }
  }
  ~Folder() { fs::remove_all(path_); }

  /// Links the folder as the edits change it; puts it in order again.
  void link(tpu::fuzz::Edits edits) {
    std::vector<std::string> texts = texts_;
    std::vector<bool> changed(texts.size());
    while (edits.more()) {
      const std::size_t file = edits.number(1) % texts.size();
      edits.change(texts[file]);
      changed[file] = true;
    }
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (changed[i]) write(i, texts[i]);
    }
    try {
      tpu::xla::load_captured(path_.string(), "v3");
    } catch (const tpu::WorkloadError&) {
    }
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (changed[i]) write(i, texts_[i]);
    }
  }

 private:
  void write(std::size_t file, const std::string& text) const {
    std::ofstream(names_[file], std::ios::binary) << text;
  }

  fs::path path_;
  std::vector<fs::path> names_;
  std::vector<std::string> texts_;
};

}  // namespace

/// A captured folder with some changes is linked or refused.
void tpu::fuzz::one_input(const std::uint8_t* data, std::size_t size) {
  static Folder folder;
  folder.link({data, size});
}
