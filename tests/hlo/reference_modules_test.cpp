#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::hlo::reference_modules_test {
namespace {

namespace fs = std::filesystem;

const fs::path kShared = TPUSIM_SOURCE_DIR "/../shared";

std::vector<fs::path> files_below(const fs::path& folder, const std::string& ending) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.size() >= ending.size() &&
        name.compare(name.size() - ending.size(), ending.size(), ending) == 0) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// Modules of XLA's tests that its own parser refuses, too, or that are templates; and one that
/// ends in mid-air.
const std::set<std::string>& illegal() {
  static const std::set<std::string> kNames{
      "hlo_parser_test__088.hlo",  // opcode le, a colon behind the module's name
      "hlo_parser_test__091.hlo",
      "hlo_parser_test__092.hlo",
      "hlo_parser_test__133.hlo",
      "hlo_parser_test__093.hlo",  // an element of what is no tuple
      "hlo_parser_test__097.hlo",  // an axis that the mesh has not
      "hlo_parser_test__098.hlo",
      "hlo_parser_test__102.hlo",
      "hlo_parser_test__103.hlo",
      "hlo_parser_test__105.hlo",  // a conditional without branches
      "hlo_parser_test__107.hlo",
      "hlo_parser_test__109.hlo",
      "hlo_parser_test__112.hlo",  // numbers beyond their types
      "hlo_parser_test__115.hlo",
      "hlo_parser_test__125.hlo",
      "hlo_parser_test__130.hlo",  // three paddings of a window
      "hlo_parser_test__145.hlo",  // an operand of another shape than stated
      "hlo_parser_test__163.hlo",  // a dimension level that is none
      "hlo_parser_test__170.hlo",  // a tuple of other shapes than its operands
      "hlo_parser_test__190.hlo",  // a start without the operands' tuple
      "hlo_parser_test__195.hlo",
      "while_loop_unroller_test__000.hlo",
      "llama3_8b_tpu_scheduled_truncated.hlo.gz"};
  return kNames;
}

bool is_illegal(const fs::path& path) {
  const std::string name = path.filename().string();
  return std::any_of(illegal().begin(), illegal().end(), [&](const std::string& ending) {
    return name.size() >= ending.size() &&
           name.compare(name.size() - ending.size(), ending.size(), ending) == 0;
  });
}

void expect_same_after_printing(const fs::path& path) {
  std::string text;
  try {
    text = to_string(read_hlo_file(path.string()));
    EXPECT_TRUE(to_string(read_hlo_text("printed", text)) == text) << path;
  } catch (const WorkloadError& error) {
    ADD_FAILURE() << path << ": " << error.what();
  }
}

TEST(ReferenceModules, OfXlasOwnTestsReadPrintAndReadAsTheSame) {
  if (!fs::is_directory(kShared / "hlo")) GTEST_SKIP() << "no reference modules here";
  for (const fs::path& path : files_below(kShared / "hlo", ".hlo")) {
    if (!is_illegal(path)) expect_same_after_printing(path);
  }
}

TEST(ReferenceModules, ThatXlaRefusesAreRefused) {
  if (!fs::is_directory(kShared / "hlo")) GTEST_SKIP() << "no reference modules here";
  std::size_t refused = 0;
  for (const char* ending : {".hlo", "truncated.hlo.gz"}) {
    for (const fs::path& path : files_below(kShared / "hlo", ending)) {
      if (!is_illegal(path)) continue;
      ++refused;
      EXPECT_THROW(verify(read_hlo_file(path.string())), WorkloadError) << path;
    }
  }
  EXPECT_EQ(refused, illegal().size());
}

TEST(ReferenceModules, TrainingStepsPrintAndReadAsTheSame) {
  if (!fs::is_directory(kShared / "hlo")) GTEST_SKIP() << "no reference modules here";
  for (const fs::path& path : files_below(kShared / "hlo/train", ".hlo.gz")) {
    if (!is_illegal(path)) expect_same_after_printing(path);
  }
}

/// The parts of a line between commas outside all brackets, without blanks, comments and '%',
/// sorted.
std::vector<std::string> parts_of(const std::string& line) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"') {
      const std::size_t begin = i;
      for (++i; i < line.size() && line[i] != '"'; ++i) i += line[i] == '\\' ? 1 : 0;
      parts.back().append(line, begin, i + 1 - begin);
      continue;
    }
    if (line.compare(i, 2, "/*") == 0) {
      i = line.find("*/", i) + 1;
      continue;
    }
    if (c == '{' || c == '(' || c == '[') ++depth;
    if (c == '}' || c == ')' || c == ']') --depth;
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else if (c != ' ' && c != '%') {
      parts.back() += c;
    }
  }
  std::sort(parts.begin(), parts.end());
  return parts;
}

/// Lines of the text without indentation; those that begin a computation as its name alone.
std::vector<std::vector<std::string>> lines_of(const std::string& text) {
  std::vector<std::vector<std::string>> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.empty()) continue;
    if (line.back() == '{' && line.front() != ' ') {
      line = line.substr(0, line.find(' ', line.compare(0, 6, "ENTRY ") == 0 ? 6 : 0));
    }
    lines.push_back(parts_of(line));
  }
  return lines;
}

std::string contents(const fs::path& path) {
  std::string text;
  std::vector<char> chunk(1 << 16);
  gzFile file = gzopen(path.c_str(), "rb");
  for (int count = 0; (count = gzread(file, chunk.data(), 1 << 16)) > 0;) {
    text.append(chunk.data(), static_cast<std::size_t>(count));
  }
  gzclose(file);
  return text;
}

TEST(ReferenceModules, NothingThatXlaPrintsIsLost) {
  if (!fs::is_directory(kShared / "xla")) GTEST_SKIP() << "no reference modules here";
  for (const char* program : {"mlp_b128", "lenet_b128_dp8", "gpt_tiny_b8", "convnet_small_b4"}) {
    for (const char* name : {"before", "v2.scheduled", "v3.scheduled"}) {
      const fs::path path = kShared / "xla/programs" / program / (std::string(name) + ".hlo.gz");
      const auto before = lines_of(contents(path));
      const auto after = lines_of(to_string(read_hlo_file(path.string())));
      ASSERT_EQ(before.size(), after.size()) << path;
      for (std::size_t i = 0; i < before.size(); ++i) EXPECT_EQ(before[i], after[i]) << path;
    }
  }
}

TEST(ReferenceModules, ProtosAreTheModulesOfTheirTexts) {
  if (!fs::is_directory(kShared / "xla")) GTEST_SKIP() << "no reference modules here";
  const auto bare = [](Module module) {
    // The short form of the text has no metadata.
    module.stack_frames = {};
    for (Computation& computation : module.computations) {
      for (HloInstruction& made : computation.instructions) made.metadata = {};
    }
    return to_string(module);
  };
  std::size_t compared = 0;
  for (const fs::path& path : files_below(kShared / "xla/programs", "before.hlo.pb.gz")) {
    // Its text elides a constant.
    if (path.parent_path().filename() == "dlrm_small_b256") continue;
    const fs::path text = path.parent_path() / "before.hlo.gz";
    EXPECT_TRUE(bare(read_hlo_file(path.string())) == bare(read_hlo_file(text.string()))) << path;
    ++compared;
  }
  EXPECT_GT(compared, 10u);
}

}  // namespace
}  // namespace tpu::hlo::reference_modules_test
