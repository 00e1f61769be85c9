#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace tpu::app {
namespace fs = std::filesystem;
using nlohmann::json;

struct Outcome {
  int exit_code = -1;
  std::string out, err;
  std::string first_line() const { return err.substr(0, err.find('\n')); }
};

inline std::string text_of(const fs::path& path) {
  // As one piece: the tests are not optimised, and files have megabytes.
  if (!fs::is_regular_file(path)) return "";
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) return "";
  std::string text(static_cast<std::size_t>(in.tellg()), '\0');
  in.seekg(0);
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  return text;
}

/// Runs the program itself in a folder of its own.
class ProgramTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "tpusim-app-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    streams_ = folder_.string() + ".streams";
    fs::create_directory(streams_);
  }
  void TearDown() override {
    fs::remove_all(folder_);
    fs::remove_all(streams_);
  }

  Outcome tpusim(const std::string& words) const {
    const std::string out = (streams_ / "out").string(), err = (streams_ / "err").string();
    const int status = std::system(("cd " + folder_.string() + " && " + TPUSIM_PROGRAM + " " +
                                    words + " >" + out + " 2>" + err)
                                       .c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of(out), text_of(err)};
  }
  /// The JSON report of a command that has to succeed.
  json report(const std::string& words) const {
    const Outcome outcome = tpusim(words + " --json -");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return json::parse(outcome.out, nullptr, false);
  }
  /// Checks the exit code and that stderr begins with one line that holds `text`, nothing else.
  void expect_error(const std::string& words, int exit_code, const std::string& text) const {
    const Outcome outcome = tpusim(words);
    EXPECT_EQ(outcome.exit_code, exit_code) << words << "\n" << outcome.err;
    EXPECT_NE(outcome.first_line().find(text), std::string::npos) << words << "\n" << outcome.err;
    EXPECT_EQ(outcome.err.find("tpusim: "), 0u) << outcome.err;
  }
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }

  fs::path folder_, streams_;
};

}  // namespace tpu::app
