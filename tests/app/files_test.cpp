#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/app/program_fixture.h"

/// What the commands do to the files that they read and write.

namespace tpu::app::files_test {
namespace {

const std::string kSource = "kernel top\n  { %s0 = smov 7 }\n";

class FilesTest : public ProgramTest {
 protected:
  /// Checks that the command is refused before it does anything: exit code 2, `file` as it was and
  /// no file more.
  void expect_refused(const std::string& words, const std::string& file, const std::string& text) {
    const std::string before = text_of(folder_ / file);
    const std::size_t count = files();
    expect_error(words, 2, text);
    EXPECT_TRUE(text_of(folder_ / file) == before) << words;
    EXPECT_EQ(files(), count) << words;
  }
  /// The exit code of a command of the shell, run in the folder; -1 when a signal ended it.
  int shell(const std::string& command) const {
    const int status = std::system(
        ("cd " + folder_.string() + " && { " + command + "; } 2>" + (streams_ / "err").string())
            .c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  void copy_mlp(const std::string& to) const {
    fs::copy(TPUSIM_SOURCE_DIR "/workloads/captured/mlp", folder_ / to);
  }
};

TEST_F(FilesTest, TheInputIsNotOverwritten) {
  write("a.s", kSource);
  expect_refused("asm a.s -o a.s", "a.s",
                 "-o a.s: expected a file of its own, found the input; choose");
  expect_refused("asm a.s -o ./a.s", "a.s", "found the input, a.s; choose");
  ASSERT_EQ(tpusim("asm a.s -o a.h5").exit_code, 0);
  ASSERT_EQ(tpusim("run a.h5 -o s.h5").exit_code, 0);
  expect_refused("run a.h5 -o a.h5", "a.h5", "the input");
  expect_refused("compare a.h5 --configs v3-8,v3-32 --json a.h5", "a.h5", "--json a.h5: expected");
  expect_refused("export s.h5 --format perfetto -o s.h5", "s.h5", "the input");
}

TEST_F(FilesTest, LinksToAnInputAreTheInput) {
  write("a.s", kSource);
  fs::create_symlink("a.s", folder_ / "symbolic.s");
  fs::create_hard_link(folder_ / "a.s", folder_ / "hard.s");
  for (const char* link : {"symbolic.s", "hard.s"}) {
    expect_refused("asm a.s -o " + std::string(link), "a.s", "the input, a.s");
    expect_refused("asm " + std::string(link) + " -o a.s", "a.s", "the input");
  }
}

TEST_F(FilesTest, ConfigurationsAndTheirBasesAreNotOverwritten) {
  write("base.toml", "base = \"v3-8\"\n");
  write("m.toml", "base = \"base.toml\"\nname = \"mine\"\n");
  const std::string run = "run matmul --shape 128x128x128 --cores 1 --config m.toml ";
  expect_refused(run + "-o m.toml", "m.toml",
                 "-o m.toml: expected a file of its own, found a file of the "
                 "configuration");
  expect_refused(run + "--json base.toml", "base.toml", "a file of the configuration");
  expect_refused("compare matmul --shape 128x128x128 --cores 1 --configs v2-8,m.toml --json m.toml",
                 "m.toml", "a file of the configuration");
}

TEST_F(FilesTest, FilesOfACapturedFolderAreNotOverwritten) {
  copy_mlp("captured");
  for (const char* name : {"values.npz", "facts.json", "v3.bundles.tar.xz"}) {
    const std::string file = "captured/" + std::string(name);
    expect_refused("run captured -o " + file, file, "found a file of the workload");
    expect_refused("run ./captured/ --json " + file, file, "a file of the workload");
    expect_refused("validate . --json " + file, file, "a file of the workload");
  }
}

TEST_F(FilesTest, InputsAndRecordedOutputsAreNotOverwritten) {
  const std::string run = "run mlp --cores 1 --batch 16 --values on ";
  ASSERT_EQ(tpusim(run + "--outputs o.npz").exit_code, 0);
  expect_refused(run + "--check o.npz --outputs o.npz", "o.npz", "the file that --check reads");
  expect_refused(run + "--inputs o.npz -o o.npz", "o.npz", "the file that --inputs reads");
}

TEST_F(FilesTest, EachOutputHasAFileOfItsOwn) {
  const std::string run = "run mlp --cores 1 --batch 16 --values on ";
  expect_refused(run + "-o z --json z", "z",
                 "--json z: expected a file of its own, found the file "
                 "that -o writes; choose another name");
  expect_refused(run + "-o z --outputs ./z", "z", "the file that -o writes, z");
  fs::create_symlink("z", folder_ / "link");
  expect_refused(run + "-o z --json link", "z", "found the file that -o writes, z");
  write("z", "old");
  expect_refused(run + "--json z --outputs link", "z", "the file that --outputs writes, link");
  EXPECT_EQ(tpusim(run + "-o /dev/null --json /dev/null").exit_code, 0);
}

TEST_F(FilesTest, StandardOutputIsAFileToo) {
  EXPECT_EQ(shell(TPUSIM_PROGRAM " run matmul --shape 128x128x128 --cores 1 --json z >z"), 2);
  EXPECT_NE(text_of(streams_ / "err").find("found standard output"), std::string::npos);
  EXPECT_EQ(text_of(folder_ / "z"), "");
}

TEST_F(FilesTest, NoFileIsNamedDash) {
  for (const char* words : {"run mlp --cores 1 --batch 16 -o -", "compile mlp --cores 1 -o -",
                            "run mlp --cores 1 --batch 16 --values on --outputs -"}) {
    expect_error(words, 2, "expected the name of a file, found \"-\"; ./- is a file of that name");
  }
  EXPECT_EQ(files(), 0u);
}

TEST_F(FilesTest, AWorkloadOfTheZooIsNoFile) {
  const std::string run = "run matmul --shape 128x128x128 --cores 1 -o matmul";
  EXPECT_EQ(tpusim(run).exit_code, 0);
  EXPECT_EQ(tpusim(run).exit_code, 0);
}

TEST_F(FilesTest, TheReportIsPrintedWhenAFileCanNotBeWritten) {
  const std::string run = "run mlp --cores 1 --batch 16 --values on ";
  const Outcome outcome = tpusim(run + "-o /dev/full --outputs o.npz --json /dev/full");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.out.find("Step time"), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.first_line(),
            "tpusim: /dev/full: can't write the output file: No space left on device");
  EXPECT_TRUE(fs::exists(folder_ / "o.npz"));
}

// As in `| head -1`: the reader is gone before anything is printed.
TEST_F(FilesTest, FilesAreWrittenThoughNobodyReadsTheReport) {
  for (const std::string words :
       {"run mlp --cores 1 --batch 16 --values on -o r.h5 --outputs o.npz --json r.json",
        "run mlp --cores 1 --batch 16 --values on -o r.h5 --outputs o.npz --json -",
        "compare mlp --configs v2-8,v3-8 --cores 1 --batch 16 -o c.csv --json c.json",
        "scaling mlp --configs v2-8,v3-8 --batch 128 --json s.json"}) {
    SCOPED_TRACE(words);
    shell("(sleep 0.1; " TPUSIM_PROGRAM " " + words + ") | true");
    for (const char* name : {"r.h5", "o.npz", "r.json", "c.csv", "c.json", "s.json"}) {
      const bool is_named = words.find(name) != std::string::npos;
      EXPECT_EQ(fs::exists(folder_ / name), is_named) << name;
      fs::remove(folder_ / name);
    }
  }
}

TEST_F(FilesTest, ALimitOfTheFileSizeIsNoSignal) {
  EXPECT_EQ(shell("ulimit -f 200 && " TPUSIM_PROGRAM " compile lenet --cores 1 -o f.h5"), 2);
  EXPECT_EQ(text_of(streams_ / "err"),
            "tpusim: f.h5: can't write the output file: File too large\n");
  EXPECT_EQ(files(), 0u);
}

TEST_F(FilesTest, NoRoomIsKnownBeforeTheSimulation) {
  // A full disk that needs no mount: the files of this shell have room for less than any result.
  const std::string run = "ulimit -f 100 && " TPUSIM_PROGRAM " run mlp --cores 1 --batch 16 ";
  EXPECT_EQ(shell(run + "-o f.h5 >" + (streams_ / "out").string()), 2);
  EXPECT_EQ(text_of(streams_ / "err"),
            "tpusim: f.h5: can't write the output file: File too large\n");
  EXPECT_EQ(text_of(streams_ / "out"), "");
}

// A matrix of 4 GiB, twice: refused by its size, not after all memory is full.
TEST_F(FilesTest, ValuesBeyondTheMemoryOfTheComputerAreRefusedBeforeTheyAreMade) {
  write("big.hlo",
        "HloModule m\nENTRY e {\n  c = f32[] constant(1)\n"
        "  b = f32[32768,32768]{1,0} broadcast(c), dimensions={}\n"
        "  ROOT t = f32[32768,32768]{1,0} transpose(b), dimensions={1,0}\n}\n");
  const std::string run = "ulimit -v 2097152 && " TPUSIM_PROGRAM " run big.hlo --cores 1 ";
  EXPECT_EQ(shell(run + "--values on"), 4);
  EXPECT_EQ(text_of(streams_ / "err")
                .find("tpusim: m: --values on: expected values that fit the 2.00G of memory"),
            0u)
      << text_of(streams_ / "err");
  EXPECT_EQ(shell(run + "--values off >" + (streams_ / "out").string()), 0);
}

TEST_F(FilesTest, WhatIsNoWorkloadIsNamed) {
  write("my.toml", "base = \"v3-8\"\n");
  expect_error("run my.toml", 4,
               "my.toml: expected a workload, found a configuration; --config my.toml behind a");
  write("foreign.h5", "\x89HDF\r\n\x1a\n and more");
  expect_error("run foreign.h5", 4,
               "foreign.h5: expected a compiled program of tpusim, found another HDF5 file");
  expect_error("run mlp --set hbm.pin_mbps", 2, "expected PARAMETER=VALUE");
  expect_error("run my.toml/mlp", 4, "my.toml/mlp: expected a workload: Not a directory");
}

}  // namespace
}  // namespace tpu::app::files_test
