#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "isa/assembler.h"
#include "sim/base/error.h"
#include "tests/traces/synthetic_record.h"
#include "traces/program_file.h"
#include "traces/run_file.h"

/// Results and program files that a disk, a network or an editor has damaged. TPUSIM_CORRUPTED says
/// how many.

namespace tpu::traces::corrupted_files_test {
namespace {

namespace fs = std::filesystem;

std::size_t wanted_files() {
  const char* text = std::getenv("TPUSIM_CORRUPTED");
  return text == nullptr ? 300 : std::strtoul(text, nullptr, 10);
}

/// A copy of the bytes that differs from them: bits turned, bytes cut off, put in, overwritten or
/// put elsewhere.
std::string damaged(const std::string& bytes, std::mt19937& random) {
  for (;;) {
    std::string copy = bytes;
    // Half of the damage goes to the first kilobyte, where the description and HDF5's own stand.
    const std::size_t reach = random() % 2 == 0 ? 1024 : copy.size();
    const std::size_t at = random() % std::min(reach, copy.size());
    const std::size_t length = 1 + random() % std::min<std::size_t>(64, copy.size() - at);
    switch (random() % 6) {
      case 0:
        copy[at] = static_cast<char>(copy[at] ^ (1 << random() % 8));
        break;
      case 1:
        copy.resize(at);
        break;
      case 2:
        copy.insert(at, length, static_cast<char>(random()));
        break;
      case 3:
        copy.erase(at, length);
        break;
      case 4:
        for (std::size_t i = 0; i < length; ++i) copy[at + i] = static_cast<char>(random());
        break;
      default:
        copy.replace(at, length, bytes, random() % (bytes.size() - length), length);
    }
    if (copy != bytes) return copy;
  }
}

/// A folder for a file that is damaged again and again.
class CorruptedFiles : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "tpusim-corrupted-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    path_ = (folder_ / "file.h5").string();
  }
  void TearDown() override { fs::remove_all(folder_); }

  /// The file reads as it is, and damaged it is refused by its name, in one line.
  template <class Read>
  void expect_refused(Read&& read) const {
    std::ifstream in(path_, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    in.close();
    ASSERT_NO_THROW(read(path_));
    std::mt19937 random(20261122);
    const std::size_t files = wanted_files();
    for (std::size_t i = 0; i < files; ++i) {
      const std::string copy = damaged(bytes, random);
      std::ofstream(path_, std::ios::binary) << copy;
      try {
        read(path_);
        ADD_FAILURE() << "file " << i << " of " << copy.size() << " bytes was read";
      } catch (const WorkloadError& error) {
        const std::string text = error.what();
        EXPECT_EQ(text.find(path_ + ": expected "), 0u) << text;
        EXPECT_EQ(text.find('\n'), std::string::npos) << text;
      }
    }
  }

  fs::path folder_;
  std::string path_;
};

TEST_F(CorruptedFiles, AreRefusedByName) {
  write_run_file(path_, test::synthetic_record_with_events());
  expect_refused([](const std::string& path) { read_run_file(path); });
}

TEST_F(CorruptedFiles, OfProgramsAreRefusedByName) {
  isa::Program program;
  program.name = "example";
  program.chip = "v3";
  program.kernels = isa::assemble(
      "kernel top\n  { %s0 = smov 7 ;; %s1 = smov 9 }\n  { inlined_call site = 0 }\n"
      "  { vdelay 3 }\nkernel add\n  { %s4 = sadd.s32 %s3, 1 }\n",
      "example");
  isa::CallSite site;
  site.kernel = 1;
  program.call_sites = {site};
  isa::OpInfo op;
  op.name = "add.1";
  program.ops = {op};
  isa::Buffer constant;
  constant.name = "c";
  constant.role = isa::BufferRole::kConstant;
  constant.bytes = 1200;
  constant.data.assign(300, 0xffffffff);
  program.buffers = {constant};
  write_program_file(path_, program);
  expect_refused([](const std::string& path) { read_program_file(path); });
}

}  // namespace
}  // namespace tpu::traces::corrupted_files_test
