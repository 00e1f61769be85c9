#include "sim/base/output_file.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "sim/base/error.h"

namespace tpu::output_file_test {
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

TEST_F(OutputFileTest, ALinkToAFileThatDoesNotExistYetStaysALink) {
  fs::create_symlink("target", path("inner"));
  fs::create_symlink(path("inner"), path("link"));
  OutputFile file(path("link"));
  file.write("new");
  file.commit();
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_TRUE(fs::is_symlink(path("inner")));
  EXPECT_FALSE(fs::is_symlink(path("target")));
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

TEST_F(OutputFileTest, UnfinishedBytesHaveNoName) {
  OutputFile file(path("a"));
  file.write("abc");
  EXPECT_EQ(files(), 0u);
  file.commit();
  EXPECT_EQ(files(), 1u);
}

TEST_F(OutputFileTest, ATemporaryNameServesWhereFilesNeedOne) {
  std::ofstream(path("a")) << "old";
  OutputFile file(path("a"), OutputFile::Temporary::kNamed);
  file.write("new");
  EXPECT_EQ(files(), 2u);
  EXPECT_EQ(text_of(path("a")), "old");
  file.commit();
  EXPECT_EQ(text_of(path("a")), "new");
  EXPECT_EQ(files(), 1u);
}

TEST_F(OutputFileTest, TheLongestNameCanBeWritten) {
  for (const char* text : {"new", "newer"}) {  // A new file, and one that is replaced.
    OutputFile file(path(std::string(255, 'a')));
    file.write(text);
    file.commit();
    EXPECT_EQ(text_of(path(std::string(255, 'a'))), text);
  }
  EXPECT_EQ(files(), 1u);
}

TEST_F(OutputFileTest, WhatAKilledProcessLeftIsRemovedAndWhatALivingOneHoldsIsNot) {
  const OutputFile living(path("b"), OutputFile::Temporary::kNamed);
  const pid_t child = ::fork();
  if (child == 0) {
    const OutputFile file(path("a"), OutputFile::Temporary::kNamed);
    ::raise(SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(files(), 2u);
  const OutputFile next(path("c"));
  EXPECT_EQ(files(), 1u);
}

TEST_F(OutputFileTest, TwoWritersOfOneFileLeaveOneWholeFile) {
  OutputFile first(path("a")), second(path("a"));
  first.write("first");
  second.write("second");
  second.commit();
  first.commit();
  EXPECT_EQ(text_of(path("a")), "first");
  EXPECT_EQ(files(), 1u);
}

/// Runs `body` in a process of its own with a limit on the size of files; true when it ends with 0.
template <class Body>
bool succeeds_with_file_limit(rlim_t bytes, const Body& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, bytes};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::_exit(body() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST_F(OutputFileTest, ALimitOfTheFileSizeIsAnErrorAndLeavesNothing) {
  const auto message_of = [&](const auto& use) -> std::string {
    try {
      OutputFile file(path("a"));
      use(file);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  const std::string expected = path("a") + ": can't write the output file: File too large";
  EXPECT_TRUE(succeeds_with_file_limit(100, [&] {
    return message_of([](OutputFile& file) { file.write(std::string(101, 'a')); }) == expected &&
           message_of([](OutputFile& file) { file.reserve(101); }) == expected &&
           message_of([](OutputFile& file) { file.reserve(100); }).empty();
  }));
  EXPECT_EQ(files(), 0u);
}

TEST_F(OutputFileTest, WhatIsReservedDoesNotLengthenTheFile) {
  OutputFile file(path("a"));
  file.reserve(100000);
  file.write("abc");
  file.commit();
  EXPECT_EQ(text_of(path("a")), "abc");
}

TEST_F(OutputFileTest, ASignalHandlerCanRemoveWhatIsUnfinished) {
  OutputFile file(path("a"), OutputFile::Temporary::kNamed);
  file.write("abc");
  EXPECT_EQ(files(), 1u);
  remove_unfinished_output_files();
  EXPECT_EQ(files(), 0u);
}

}  // namespace
}  // namespace tpu::output_file_test
