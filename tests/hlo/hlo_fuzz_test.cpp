#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "sim/base/error.h"
#include "tests/spoil.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::hlo::hlo_fuzz_test {
namespace {

namespace fs = std::filesystem;

/// How many spoilt modules of each file are read: TPUSIM_FUZZ_ROUNDS, or what a default run has
/// time for.
int rounds() {
  const char* const stated = std::getenv("TPUSIM_FUZZ_ROUNDS");
  return stated == nullptr ? 6 : std::max(1, std::atoi(stated));
}

std::string bytes_of(const fs::path& path) {
  std::string bytes;
  gzFile file = gzopen(path.c_str(), "rb");
  char buffer[1 << 16];
  for (int count = 0; (count = gzread(file, buffer, sizeof(buffer))) > 0;) {
    bytes.append(buffer, static_cast<std::size_t>(count));
  }
  gzclose(file);
  return bytes;
}

/// Our own module, and of the reference data what is short enough to be read thousands of times.
std::vector<fs::path> modules() {
  std::vector<fs::path> found{TPUSIM_SOURCE_DIR "/workloads/captured/mlp/before.hlo.gz",
                              TPUSIM_SOURCE_DIR "/workloads/captured/mlp/v3.scheduled.hlo.gz"};
  constexpr std::uintmax_t kShort = 20000;
  for (const char* folder : {"/../shared/hlo", "/../shared/xla/programs"}) {
    if (!fs::exists(TPUSIM_SOURCE_DIR + std::string(folder))) continue;
    for (const auto& entry :
         fs::recursive_directory_iterator(TPUSIM_SOURCE_DIR + std::string(folder))) {
      const std::string name = entry.path().filename().string();
      const bool is_module = name.find(".hlo") != std::string::npos;
      if (is_module && entry.is_regular_file() && entry.file_size() < kShort) {
        found.push_back(entry.path());
      }
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// Reads what may be spoilt: it is a module that prints as a text that reads to the same text, or
/// it is refused in a message with the file's name that a terminal shows.
bool is_read_or_refused(const std::string& contents) {
  try {
    const Module module = read_hlo("f.hlo", contents);
    verify(module);
    const std::string text = to_string(module);
    EXPECT_EQ(to_string(read_hlo_text("f.hlo", text)), text);
    return true;
  } catch (const WorkloadError& error) {
    const std::string what = error.what();
    EXPECT_FALSE(what.empty());
    EXPECT_LT(what.size(), 2000u) << what;
    return false;
  }
}

TEST(HloFuzz, SpoiltModulesAreReadOrRefused) {
  std::mt19937 random(20261121);
  int refused = 0;
  int runs = 0;
  for (const fs::path& path : modules()) {
    const std::string whole = bytes_of(path);
    for (int round = 0; round < rounds(); ++round) {
      SCOPED_TRACE(path.filename().string() + ", round " + std::to_string(round));
      std::string text = test::spoil(whole, random);
      for (unsigned more = random() % 3; more > 0; --more) text = test::spoil(text, random);
      refused += is_read_or_refused(text) ? 0 : 1;
      ++runs;
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(refused, runs / 4);
}

TEST(HloFuzz, ByteSoupIsRefused) {
  std::mt19937 random(42);
  for (int round = 0; round < 500; ++round) {
    std::string soup(random() % 4096, '\0');
    for (char& c : soup) c = static_cast<char>(random());
    EXPECT_FALSE(is_read_or_refused(soup));
    EXPECT_FALSE(is_read_or_refused("HloModule m\nENTRY e {\n" + soup));
  }
}

}  // namespace
}  // namespace tpu::hlo::hlo_fuzz_test
