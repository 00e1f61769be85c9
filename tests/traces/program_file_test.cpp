#include "traces/program_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "isa/assembler.h"
#include "sim/base/error.h"
#include "traces/hdf5_file.h"

namespace tpu::traces::program_file_test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kText = R"(
kernel top
  { %s0 = smov 7 ;; %s1 = smov 9 }
  { inlined_call site = 0 }
  { vdelay 3 }
kernel add
  { %v2 = vld [vmem:%s3 + $0x10 ss:$-1 sm:$0xf] ;; %s4 = sadd.s32 (!%p3), %s3, 1 }
)";

isa::Program example() {
  isa::Program program;
  program.name = "example";
  program.chip = "v3";
  program.compiler = "by hand";
  program.kernels = isa::assemble(kText, "example");
  isa::CallSite site;
  site.kernel = 1;
  site.operand_names = {{0, 17}, {1, 4000000000}};
  program.call_sites = {site};
  isa::OpInfo op;
  op.name = "add.1";
  op.category = "loop fusion";
  op.flops = 12;
  program.ops = {op};
  isa::Buffer constant;
  constant.name = "c";
  constant.role = isa::BufferRole::kConstant;
  constant.granule = 3;
  constant.bytes = 1200;
  constant.data.assign(300, 0xffffffff);
  constant.data[299] = 2;
  isa::Buffer parameter;
  parameter.name = "p";
  parameter.role = isa::BufferRole::kParameter;
  parameter.granule = 9;
  parameter.bytes = 700;
  parameter.zeroed = true;
  program.buffers = {parameter, constant};
  // A loop that a branch taken goes on with, one that it leaves, and a conditional.
  program.control = {{"while.1", "scan", "m.py:4", 0, {{0, true, 0, 0}}},
                     {"while.2", "", "", 0, {{1, false, 0, 0}}},
                     {"conditional.3", "", "", 3, {{0, false, 0, 1}, {1, false, 1, 3}}}};
  program.lifetimes = {{0, 0}, {0, 0}};
  program.initial_smem = {{5, 6}, {7, 0xdeadbeef}};
  program.examples_per_core = 128;
  program.infeed_bytes = 4096;
  program.model_flops = std::uint64_t{1} << 50;
  program.compulsory_hbm_bytes = 77;
  program.cores = 8;
  program.hbm_peak_bytes = 99;
  return program;
}

class ProgramFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "tpusim-program-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    path_ = (folder_ / "program.h5").string();
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string error_of_reading() const {
    try {
      read_program_file(path_);
    } catch (const WorkloadError& error) {
      return error.what();
    }
    return "";
  }
  fs::path folder_;
  std::string path_;
};

TEST_F(ProgramFileTest, AProgramComesBack) {
  const isa::Program program = example();
  write_program_file(path_, program);
  const isa::Program back = read_program_file(path_);
  EXPECT_EQ(back.name, program.name);
  EXPECT_EQ(back.chip, program.chip);
  EXPECT_EQ(back.compiler, program.compiler);
  ASSERT_EQ(back.kernels.size(), 2u);
  for (std::size_t k = 0; k < 2; ++k) {
    EXPECT_EQ(back.kernels[k].name, program.kernels[k].name);
    EXPECT_TRUE(back.kernels[k].instructions == program.kernels[k].instructions);
    ASSERT_EQ(back.kernels[k].bundles.size(), program.kernels[k].bundles.size());
    for (std::size_t b = 0; b < back.kernels[k].bundles.size(); ++b) {
      EXPECT_EQ(back.kernels[k].bundles[b].delay, program.kernels[k].bundles[b].delay);
      EXPECT_EQ(back.kernels[k].bundles[b].instruction_count,
                program.kernels[k].bundles[b].instruction_count);
    }
  }
  ASSERT_EQ(back.call_sites.size(), 1u);
  EXPECT_EQ(back.call_sites[0].kernel, 1u);
  EXPECT_EQ(back.call_sites[0].operand_names, program.call_sites[0].operand_names);
  ASSERT_EQ(back.ops.size(), 1u);
  EXPECT_EQ(back.ops[0].name, "add.1");
  EXPECT_EQ(back.ops[0].flops, 12u);
  ASSERT_EQ(back.buffers.size(), 2u);
  EXPECT_TRUE(back.buffers[0].data.empty());
  EXPECT_EQ(back.buffers[1].data, program.buffers[1].data);
  for (std::size_t i = 0; i < 2; ++i) {
    const isa::Buffer &a = back.buffers[i], &b = program.buffers[i];
    EXPECT_EQ(std::tie(a.name, a.role, a.granule, a.bytes, a.zeroed),
              std::tie(b.name, b.role, b.granule, b.bytes, b.zeroed));
  }
  ASSERT_EQ(back.lifetimes.size(), 2u);
  ASSERT_EQ(back.control.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    const isa::ControlOp &a = back.control[i], &b = program.control[i];
    EXPECT_EQ(std::tie(a.name, a.op_name, a.source, a.branches),
              std::tie(b.name, b.op_name, b.source, b.branches));
    ASSERT_EQ(a.points.size(), b.points.size());
    for (std::size_t j = 0; j < a.points.size(); ++j) {
      EXPECT_EQ(a.points[j].bundle, b.points[j].bundle);
      EXPECT_EQ(a.points[j].trip_when_taken, b.points[j].trip_when_taken);
      EXPECT_EQ(a.points[j].first_branch, b.points[j].first_branch);
      EXPECT_EQ(a.points[j].end_branch, b.points[j].end_branch);
    }
  }
  EXPECT_EQ(back.initial_smem, program.initial_smem);
  EXPECT_EQ(back.examples_per_core, program.examples_per_core);
  EXPECT_EQ(back.infeed_bytes, program.infeed_bytes);
  EXPECT_EQ(back.model_flops, program.model_flops);
  EXPECT_EQ(back.compulsory_hbm_bytes, program.compulsory_hbm_bytes);
  EXPECT_EQ(back.cores, program.cores);
  EXPECT_EQ(back.hbm_peak_bytes, program.hbm_peak_bytes);
}

TEST_F(ProgramFileTest, WritingWhatWasReadGivesTheSameBytes) {
  write_program_file(path_, example());
  const std::string again = (folder_ / "again.h5").string();
  write_program_file(again, read_program_file(path_));
  std::ifstream a(path_, std::ios::binary), b(again, std::ios::binary);
  EXPECT_TRUE(std::equal(std::istreambuf_iterator<char>(a), {}, std::istreambuf_iterator<char>(b),
                         std::istreambuf_iterator<char>()));
}

TEST_F(ProgramFileTest, HalfAFileIsAnErrorThatSaysSo) {
  write_program_file(path_, example());
  fs::resize_file(path_, fs::file_size(path_) / 2);
  EXPECT_NE(error_of_reading().find("the file is not complete"), std::string::npos);
}

TEST_F(ProgramFileTest, ACallOfNoKernelIsRefused) {
  isa::Program program = example();
  program.call_sites[0].kernel = 2;
  write_program_file(path_, program);
  EXPECT_EQ(error_of_reading(),
            path_ + ": call site 0: expected one of 2 kernels and 1 ops, found kernel 2 and op 0");
}

TEST_F(ProgramFileTest, ACallThatOpensAnotherOneSaysWhich) {
  isa::Program program = example();
  program.call_sites.push_back(program.call_sites[0]);
  program.call_sites[1].opens = 0;
  write_program_file(path_, program);
  const isa::Program back = read_program_file(path_);
  EXPECT_FALSE(back.call_sites.at(0).is_opening());
  EXPECT_EQ(back.call_sites.at(1).opens, 0u);
  program.call_sites[1].opens = 2;
  write_program_file(path_, program);
  EXPECT_EQ(error_of_reading(), path_ + ": call site 1: expected to open one of 2 sites, found 2");
}

TEST_F(ProgramFileTest, ALifeBeyondTheOpsIsRefused) {
  isa::Program program = example();
  program.lifetimes[1].last_op = 1;
  write_program_file(path_, program);
  EXPECT_EQ(error_of_reading(),
            path_ + ": lifetimes: row 1: expected buffer 1 between two of 1 ops");
  program.lifetimes.pop_back();
  write_program_file(path_, program);
  EXPECT_EQ(error_of_reading(),
            path_ + ": lifetimes: expected a row for each of 2 buffers, found 1");
  program.lifetimes.clear();  // Nobody knows them.
  write_program_file(path_, program);
  EXPECT_EQ(error_of_reading(), "");
  EXPECT_TRUE(read_program_file(path_).lifetimes.empty());
}

TEST_F(ProgramFileTest, CodeThatDoesNotDecodeIsRefused) {
  write_program_file(path_, example());
  Hdf5Contents contents = read_hdf5(path_, {"program", 6});
  std::vector<std::uint8_t>& code = contents.bytes.at("code");
  code[code.size() - 1] ^= 0xff;
  write_hdf5(path_, {"program", 6}, contents);
  const std::string error = error_of_reading();
  EXPECT_EQ(error.substr(0, path_.size() + 2), path_ + ": ") << error;
  code.resize(code.size() - 4);
  write_hdf5(path_, {"program", 6}, contents);
  EXPECT_NE(error_of_reading().find(path_ + ": code: byte "), std::string::npos);
}

TEST_F(ProgramFileTest, AProgramWithoutKernelsIsRefused) {
  isa::Program program = example();
  program.kernels.clear();
  program.call_sites.clear();
  write_program_file(path_, program);
  EXPECT_EQ(error_of_reading(), path_ + ": expected at least one kernel");
}

}  // namespace
}  // namespace tpu::traces::program_file_test
