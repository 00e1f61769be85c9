#include "sim/base/output_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "sim/base/error.h"

namespace tpu {
namespace {

namespace fs = std::filesystem;

class OutputFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "tpusim-output-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  static std::string text_of(const std::string& path) {
    std::ifstream in(path);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  }
  fs::path folder_;
};

TEST_F(OutputFileTest, AFileAppearsOnlyAtCommit) {
  OutputFile file(path("a"));
  file.write("abc");
  EXPECT_FALSE(fs::exists(path("a")));
  file.commit();
  EXPECT_EQ(text_of(path("a")), "abc");
  EXPECT_EQ(files(), 1u);
}

TEST_F(OutputFileTest, AnOldFileStaysWhenTheNewOneIsNotCommitted) {
  std::ofstream(path("a")) << "old";
  {
    OutputFile file(path("a"));
    file.write("new");
  }
  EXPECT_EQ(text_of(path("a")), "old");
  EXPECT_EQ(files(), 1u);
}

TEST_F(OutputFileTest, ASymbolicLinkStaysALink) {
  std::ofstream(path("target")) << "old";
  fs::create_symlink(path("target"), path("link"));
  OutputFile file(path("link"));
  file.write("new");
  file.commit();
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(text_of(path("target")), "new");
}

TEST_F(OutputFileTest, ADirectoryIsRefused) {
  try {
    OutputFile file(folder_.string());
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_EQ(std::string(error.what()),
              folder_.string() +
                  ": expected the name of an output file, found a directory; add a file name");
  }
  EXPECT_EQ(files(), 0u);
}

TEST_F(OutputFileTest, AMissingFolderIsNamed) {
  try {
    OutputFile file(path("no/such/a"));
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_EQ(std::string(error.what()),
              path("no/such/a") + ": can't create the output file: No such file or directory");
  }
}

TEST_F(OutputFileTest, AFullDeviceIsAnErrorAndStaysADevice) {
  try {
    OutputFile file("/dev/full");
    file.write("abc");
    file.commit();
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_EQ(std::string(error.what()),
              "/dev/full: can't write the output file: No space left on device");
  }
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST_F(OutputFileTest, ASignalHandlerCanRemoveWhatIsUnfinished) {
  OutputFile file(path("a"));
  file.write("abc");
  EXPECT_EQ(files(), 1u);
  remove_unfinished_output_files();
  EXPECT_EQ(files(), 0u);
}

}  // namespace
}  // namespace tpu
