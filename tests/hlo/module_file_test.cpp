#include <gtest/gtest.h>
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
