#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "sim/base/error.h"
#include "tests/traces/synthetic_record.h"
#include "traces/run_file.h"

/// Results files that a disk, a network or an editor has damaged. TPUSIM_CORRUPTED says how many.

namespace tpu::traces::corrupted_files_test {
namespace {

namespace fs = std::filesystem;

std::size_t wanted_files() {
  const char* text = std::getenv("TPUSIM_CORRUPTED");
  return text == nullptr ? 300 : std::strtoul(text, nullptr, 10);
}

/// A copy of the bytes that differs from them: bits turned, bytes cut off, put in, overwritten or
/// put elsewhere.
std::string damaged(const std::string& bytes, std::mt19937& random) {
  for (;;) {
    std::string copy = bytes;
    // Half of the damage goes to the first kilobyte, where the description and HDF5's own stand.
    const std::size_t reach = random() % 2 == 0 ? 1024 : copy.size();
    const std::size_t at = random() % std::min(reach, copy.size());
    const std::size_t length = 1 + random() % std::min<std::size_t>(64, copy.size() - at);
    switch (random() % 6) {
      case 0:
        copy[at] = static_cast<char>(copy[at] ^ (1 << random() % 8));
        break;
      case 1:
        copy.resize(at);
        break;
      case 2:
        copy.insert(at, length, static_cast<char>(random()));
        break;
      case 3:
        copy.erase(at, length);
        break;
      case 4:
        for (std::size_t i = 0; i < length; ++i) copy[at + i] = static_cast<char>(random());
        break;
      default:
        copy.replace(at, length, bytes, random() % (bytes.size() - length), length);
    }
    if (copy != bytes) return copy;
  }
}

TEST(CorruptedFiles, AreRefusedByName) {
  std::string pattern = (fs::temp_directory_path() / "tpusim-corrupted-XXXXXX").string();
  const fs::path folder = ::mkdtemp(pattern.data());
  const std::string path = (folder / "run.h5").string();
  write_run_file(path, test::synthetic_record_with_events());
  std::ifstream in(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  std::mt19937 random(20261122);
  const std::size_t files = wanted_files();
  for (std::size_t i = 0; i < files; ++i) {
    const std::string copy = damaged(bytes, random);
    std::ofstream(path, std::ios::binary) << copy;
    try {
      read_run_file(path);
      ADD_FAILURE() << "file " << i << " of " << copy.size() << " bytes was read";
    } catch (const WorkloadError& error) {
      EXPECT_EQ(std::string(error.what()).find(path + ": expected "), 0u) << error.what();
    }
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace tpu::traces::corrupted_files_test
