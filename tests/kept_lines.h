#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

namespace tpu::test {

/// A small file of the repository with one line "KEY: VALUE" for each thing that a test compares
/// with what it was. With TPUSIM_UPDATE_KEPT set the test writes what it finds instead, at its end;
/// the change of the file then shows in the commit what changed. `name`: its path below tests/.
class KeptLines {
 public:
  explicit KeptLines(const std::string& name)
      : path_(std::string(TPUSIM_SOURCE_DIR "/tests/") + name) {
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line);) {
      const std::size_t colon = line.find(": ");
      if (colon != std::string::npos) lines_[line.substr(0, colon)] = line.substr(colon + 2);
    }
  }
  ~KeptLines() {
    if (!updating()) return;
    std::ofstream file(path_);
    for (const auto& [key, value] : lines_) file << key << ": " << value << "\n";
  }
  KeptLines(const KeptLines&) = delete;
  KeptLines& operator=(const KeptLines&) = delete;

  static bool updating() { return std::getenv("TPUSIM_UPDATE_KEPT") != nullptr; }
  /// Empty where there is no such line.
  std::string at(const std::string& key) const {
    const auto found = lines_.find(key);
    return found == lines_.end() ? std::string() : found->second;
  }
  void set(const std::string& key, const std::string& value) { lines_[key] = value; }
  /// `shown`: what the reader sees of it where it is another.
  void expect(const std::string& key, const std::string& now, const std::string& shown = "") {
    if (updating()) return set(key, now);
    EXPECT_EQ(now, at(key)) << key << shown
                            << "\nmeant so? TPUSIM_UPDATE_KEPT=1 writes the file anew";
  }

 private:
  std::string path_;
  std::map<std::string, std::string> lines_;
};

}  // namespace tpu::test
