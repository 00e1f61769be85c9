#include "isa/manual.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "isa/assembler.h"

namespace tpu::isa::manual_test {
namespace {

const std::string kBegin = "<!-- begin of the generated tables -->\n";
const std::string kEnd = "<!-- end of the generated tables -->\n";

TEST(Manual, TheReadmeHoldsTheTablesOfTheOpcodeTable) {
  const std::string path = std::string(TPUSIM_SOURCE_DIR) + "/isa/README.md";
  std::ifstream in(path);
  std::ostringstream content;
  content << in.rdbuf();
  const std::string readme = content.str();
  const std::size_t begin = readme.find(kBegin);
  const std::size_t end = readme.find(kEnd);
  ASSERT_NE(begin, std::string::npos) << path << " has no line " << kBegin;
  ASSERT_NE(end, std::string::npos) << path << " has no line " << kEnd;
  const std::string tables = readme.substr(begin + kBegin.size(), end - begin - kBegin.size());
  if (tables != manual_tables() && std::getenv("TPUSIM_UPDATE_MANUAL") != nullptr) {
    std::ofstream(path) << readme.substr(0, begin) << kBegin << manual_tables()
                        << readme.substr(end);
    GTEST_SKIP() << path << " updated";
  }
  EXPECT_EQ(tables, manual_tables())
      << "run this test with TPUSIM_UPDATE_MANUAL=1 to write the tables into " << path;
}

TEST(Manual, TheExampleOfTheReadmeAssembles) {
  std::ifstream in(std::string(TPUSIM_SOURCE_DIR) + "/isa/README.md");
  std::string example;
  for (std::string line; std::getline(in, line);) {
    const bool begins = line.find("    kernel scale") == 0;
    if (!begins && example.empty()) continue;
    if (line.find("    ") != 0) break;
    example += line + "\n";
  }
  const auto kernels = assemble(example, "isa/README.md");
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].bundles.size(), 6u);
}

}  // namespace
}  // namespace tpu::isa::manual_test
