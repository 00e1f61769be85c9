#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "sim/base/error.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::hlo::module_file_test {
namespace {

namespace fs = std::filesystem;

const std::string kModule = "HloModule m\nENTRY e {\n ROOT a = f32[] parameter(0)\n}\n";

class ModuleFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "tpusim-module-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  static std::string error_of(const std::string& path, const UnpackLimit& limit = {}) {
    try {
      read_hlo_file(path, limit);
    } catch (const WorkloadError& error) {
      return error.what();
    }
    return "";
  }
  fs::path folder_;
};

TEST_F(ModuleFile, MoreThanTheLimitIsRefused) {
  const std::string zeros = path("zeros.hlo.gz");
  gzFile file = gzopen(zeros.c_str(), "wb9");
  const std::string text(std::size_t{1} << 20, '\0');
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  EXPECT_EQ(error_of(zeros, {1000, 64}), zeros + ": expected HLO of at most " +
                                             std::to_string(64 * fs::file_size(zeros)) +
                                             " bytes, found more");
  std::ofstream(path("small.hlo")) << kModule;
  EXPECT_EQ(error_of(path("small.hlo"), {0, 1}), "");
}

/// The size at the end of a gzip file says nothing where several stand one behind the other.
TEST_F(ModuleFile, MembersOfAGzipFileAreOneText) {
  const std::string name = path("members.hlo.gz");
  const std::string blanks(std::size_t{1} << 20, ' ');
  for (const std::string* part : {&kModule, &blanks, &blanks}) {
    gzFile file = gzopen(name.c_str(), "ab");
    gzwrite(file, part->data(), static_cast<unsigned>(part->size()));
    gzclose(file);
  }
  EXPECT_EQ(error_of(name), "");
  const std::uint64_t most = 2 * blanks.size() + kModule.size();
  EXPECT_EQ(error_of(name, {most, 0}), "");
  EXPECT_EQ(error_of(name, {most - 1, 0}),
            name + ": expected HLO of at most " + std::to_string(most - 1) + " bytes, found more");
}

/// Peak of this process while it refuses 256 MiB: what stood in memory before, and little more.
TEST_F(ModuleFile, WhatIsTooLargeIsNotKept) {
  const std::string zeros = path("zeros.gz");
  gzFile file = gzopen(zeros.c_str(), "wb1");
  const std::string text(std::size_t{1} << 20, ' ');
  for (int i = 0; i < 256; ++i) gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  const auto peak = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;  // KiB.
  };
  const long before = peak();
  const std::uint64_t most = std::uint64_t{200} << 20;
  EXPECT_NE(error_of(zeros, {most, 0}).find("found more"), std::string::npos);
  EXPECT_LT(peak() - before, 50 << 10);
}

TEST_F(ModuleFile, ADeviceIsRefused) {
  EXPECT_EQ(error_of("/dev/zero"), "/dev/zero: expected a file with HLO, found a device");
}

TEST_F(ModuleFile, APipeIsRead) {
  const std::string pipe = path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(pipe) << kModule; });
  EXPECT_EQ(error_of(pipe), "");
  writer.join();
}

}  // namespace
}  // namespace tpu::hlo::module_file_test
