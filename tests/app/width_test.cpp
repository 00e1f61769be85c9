#include <algorithm>
#include <iostream>
#include <set>
#include <sstream>
#include <vector>

#include "sim/app/validation_table.h"
#include "tests/app/program_fixture.h"

namespace tpu::app::width_test {
namespace {

/// Columns of a text of UTF-8 without escape sequences.
std::size_t columns_of(const std::string& line) {
  std::size_t columns = 0;
  for (const char byte : line) columns += (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
  return columns;
}

void expect_width(const std::string& text, std::size_t width, const std::string& what) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(columns_of(line), width) << what << "\n" << line;
  }
}

class WidthTest : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    ASSERT_EQ(tpusim("run matmul --shape 256x256x256 --cores 1 -o a.h5").exit_code, 0);
    ASSERT_EQ(
        tpusim("run matmul --shape 256x256x256 --cores 1 --set hbm.gb_per_s=600 -o b.h5").exit_code,
        0);
    ASSERT_EQ(tpusim("compile mlp --cores 1 -o p.h5").exit_code, 0);
    const Outcome code = tpusim("disasm p.h5");
    write("code_of_the_whole_multilayer_perceptron.asm", code.out);
    write("s.toml", "workload = \"mlp\"\ncores = 1\n[grid]\nbatch = [8, 16]\n");
  }
  /// A report of the command at this width; stdout and stderr.
  std::string at_width(int width, const std::string& words) const {
    ::setenv("COLUMNS", std::to_string(width).c_str(), 1);
    ::setenv("LC_ALL", "C.UTF-8", 1);
    const Outcome outcome = tpusim(words);
    ::unsetenv("COLUMNS");
    ::unsetenv("LC_ALL");
    EXPECT_EQ(outcome.exit_code, 0) << words << "\n" << outcome.err;
    EXPECT_FALSE(outcome.out.empty() && outcome.err.empty() &&
                 words.find("-o") == std::string::npos)
        << words;
    return outcome.out + outcome.err;
  }
};

/// Commands whose text is data, or that say nothing.
bool has_no_report(const std::string& command) {
  return std::set<std::string>{"disasm", "export", "report", "validate", "completion"}.count(
             command) > 0;
}

const std::vector<std::string> kReports{
    "run mlp --what-if",
    "run lenet --cores 1 --values on",
    "run mlp --scenario pytorch-xla --dataset 60000 --epochs 2",
    "run mlp --cores 1 --set host.examples_per_s=100",
    "run " TPUSIM_SOURCE_DIR "/workloads/captured/mlp --check",
    "compare mlp --configs v2-8,v3-8,v3-32",
    "scaling mlp --configs v3-8,v3-32",
    "compile lenet --cores 1 -o x.h5 -v",
    "asm code_of_the_whole_multilayer_perceptron.asm -o y.h5 -v",
    "profile a.h5",
    "profile a.h5 --level 1",
    "metrics a.h5",
    "diff a.h5 b.h5",
    "sweep run s.toml -o t.csv",
    "sweep status s.toml",
    "list",
    "show v3-8",
    "show v2-8 --set chip[3].clock_mhz=470",
    "show " TPUSIM_SOURCE_DIR "/workloads/captured/mlp"};

std::vector<std::string> commands_of(const std::string& help) {
  std::vector<std::string> commands;
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string program, command;
    words >> program >> command;
    if (program == "tpusim" && line.rfind("  tpusim", 0) == 0) commands.push_back(command);
  }
  return commands;
}

TEST_F(WidthTest, ARowOfUnitsIsOneLine) {
  const std::string text = at_width(80, "run mlp --cores 1");
  for (const std::string unit : {"scalar", "vector_store", "mxu0", "eup"}) {
    const std::size_t begin = text.find("\n  " + unit + " ");
    ASSERT_NE(begin, std::string::npos) << unit;
    const std::string line = text.substr(begin + 1, text.find('\n', begin + 1) - begin - 1);
    EXPECT_EQ(std::count(line.begin(), line.end(), '%'), 6) << line;
  }
}

TEST_F(WidthTest, RowsOfCausesAndOfAComparisonAreOneLine) {
  const std::string compared = at_width(80, "compare mlp --configs v2-8,v3-8");
  EXPECT_NE(compared.find("  v3-8 / v2-8\n"), std::string::npos) << compared;
  const std::string causes = at_width(80, "run mlp --cores 1");
  EXPECT_NE(causes.find(" on the path if it is free\n"), std::string::npos) << causes;
}

/// Columns that have no room stand below, with their rows' names again: no row goes on in the next
/// line.
TEST_F(WidthTest, RowsOfManyMachinesAreOneLineOfEachTable) {
  const std::string compared = at_width(80, "compare mlp --configs v2-8,v3-8,v3-32,v2-32");
  std::size_t steps = 0;
  std::istringstream lines(compared);
  for (std::string line; std::getline(lines, line) && line != "Bounds of GPUs";) {
    steps += line.rfind("  step time, ms ", 0) == 0;
  }
  EXPECT_GE(steps, 2u) << compared;
  for (const char* ratio : {"v3-8 / v2-8", "v3-32 / v2-8", "v2-32 / v2-8"}) {
    EXPECT_NE(compared.find(ratio), std::string::npos) << ratio;
  }
}

TEST_F(WidthTest, NoReportIsWiderThanTheTerminal) {
  for (const int width : {60, 80, 120}) {
    for (const std::string& words : kReports) {
      expect_width(at_width(width, words), static_cast<std::size_t>(width), words);
    }
  }
}

TEST_F(WidthTest, NoHelpIsWiderThanTheTerminalAndEachCommandIsAmongTheReports) {
  const std::vector<std::string> commands = commands_of(at_width(80, "--help"));
  EXPECT_GE(commands.size(), 15u);
  for (const int width : {60, 80, 120}) {
    expect_width(at_width(width, "--help"), static_cast<std::size_t>(width), "--help");
    for (const std::string& command : commands) {
      expect_width(at_width(width, command + " --help"), static_cast<std::size_t>(width), command);
    }
  }
  for (const std::string& command : commands) {
    const bool found = std::any_of(kReports.begin(), kReports.end(), [&](const std::string& words) {
      return words.substr(0, words.find(' ')) == command;
    });
    EXPECT_TRUE(found || has_no_report(command)) << command;
  }
}

TEST_F(WidthTest, WhatProgramsReadAndPipesAreNotBroken) {
  ::setenv("COLUMNS", "60", 1);
  const std::string code = tpusim("disasm p.h5").out, json = tpusim("diff a.h5 b.h5 --json -").out,
                    toml = tpusim("show v3-8").out;
  ::unsetenv("COLUMNS");
  EXPECT_EQ(code, tpusim("disasm p.h5").out);
  EXPECT_EQ(json, tpusim("diff a.h5 b.h5 --json -").out);
  write("narrow.toml", toml);  // Comments go on in the lines below.
  EXPECT_EQ(tpusim("show narrow.toml").out, tpusim("show v3-8").out);
  EXPECT_NE(tpusim("metrics a.h5").out.find("; 99%="), std::string::npos);
}

TEST_F(WidthTest, ColourOnlyWhereItIsAskedFor) {
  const std::string escape = "\033[";
  EXPECT_EQ(tpusim("run matmul --cores 1").out.find(escape), std::string::npos);
  EXPECT_NE(tpusim("run matmul --cores 1 --color always").out.find(escape), std::string::npos);
  EXPECT_EQ(tpusim("run matmul --cores 1 --color never").out.find(escape), std::string::npos);
  EXPECT_NE(tpusim("diff a.h5 b.h5 --color always").out.find(escape), std::string::npos);
}

TEST(Width, TheTableOfValidateFits) {
  std::ostringstream text;
  std::streambuf* const before = std::cout.rdbuf(text.rdbuf());
  ValidatedProgram program;
  program.name = "PTS3-0013";
  program.chip = "v3";
  program.silicon_cycles = 123456789;
  program.cycles = {123456789, 123456795};
  program.estimated_cycles = 234567890;
  ValidatedFolder folder;
  folder.programs = {program};
  const ValidationTable table("");
  table.print_header(8);
  table.print_row(program);
  table.print_summaries(folder);
  std::cout.rdbuf(before);
  EXPECT_NE(text.str().find("PTS3-0013"), std::string::npos);
  EXPECT_NE(text.str().find("programs, XLA's estimate, kept"), std::string::npos);
  expect_width(text.str(), 80, "validate");
}

}  // namespace
}  // namespace tpu::app::width_test
