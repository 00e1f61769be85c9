#include "isa/program_text.h"

#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "isa/generation.h"
#include "sim/base/error.h"

namespace tpu::isa::program_text_test {
namespace {

/// Knows one shape.
ArraySize size_of(const std::string& shape) {
  if (shape == "f32[3]") return {1024, 12};
  throw WorkloadError("no shape");
}

Program assembled(const std::string& text) { return assemble_program(text, "p.s", size_of); }

std::string printed(const Program& program) {
  std::ostringstream out;
  print_program(out, program);
  return out.str();
}

std::string error_of(const std::string& text) {
  try {
    assembled(text);
  } catch (const WorkloadError& error) {
    return error.what();
  }
  return "";
}

const std::string kKernels = "kernel top\n  { inlined_call site = 1 }\nkernel \"a b\"\n  {  }\n";

/// The code asks for parameters by their numbers, which other buffers have, too.
TEST(Program, OnlyParametersHaveAddressesThatTheCodeAsksFor) {
  Program program;
  for (const BufferRole role :
       {BufferRole::kConstant, BufferRole::kParameter, BufferRole::kOutput}) {
    Buffer buffer;
    buffer.role = role;
    buffer.index = 3;
    buffer.granule = 10 * (program.buffers.size() + 1);
    program.buffers.push_back(buffer);
  }
  EXPECT_EQ(program.parameter_addresses(), (std::map<std::uint32_t, std::uint32_t>{{3, 20}}));
}

TEST(ProgramText, HoldsWhatAProgramStartsWith) {
  const Program program = assembled(R"(
chip v4   // whose code it is
conventions xla
cores 8
examples 128
infeed_bytes 5000000000
infeed_host_bytes 7
smem 0x200 = -1
site 0 calls 0
site 1 calls "a b" as "mul 7"
parameter 0 x f32[3] at 4
parameter 1 "y z" f32[3] bytes 2048 at 5 zeroed
constant 0 table bytes 1024 at 7 = { 1, 0.5,
  0x7f800000 }
)" + kKernels);
  EXPECT_EQ(program.chip, "v4");
  EXPECT_EQ(program.conventions.granule_bytes, generation("v4").listings.granule_bytes);
  EXPECT_EQ(program.conventions.smem_bytes, 1024u * 1024u);
  EXPECT_EQ(program.cores, 8u);
  EXPECT_EQ(program.examples_per_core, 128u);
  EXPECT_EQ(program.infeed_bytes, 5000000000u);
  EXPECT_EQ(program.infeed_host_bytes, 7u);
  ASSERT_EQ(program.initial_smem.size(), 1u);
  EXPECT_EQ(program.initial_smem[0].first, 0x200u);
  EXPECT_EQ(program.initial_smem[0].second, ~0u);
  ASSERT_EQ(program.call_sites.size(), 2u);
  EXPECT_EQ(program.call_sites[0].kernel, 0u);
  EXPECT_EQ(program.call_sites[1].kernel, 1u);
  EXPECT_EQ(program.ops[program.call_sites[0].op].name, "top");
  EXPECT_EQ(program.ops[program.call_sites[1].op].name, "mul 7");
  ASSERT_EQ(program.buffers.size(), 3u);
  EXPECT_EQ(program.buffers[0].role, BufferRole::kParameter);
  EXPECT_EQ(program.buffers[0].granule, 4u);
  EXPECT_EQ(program.buffers[0].bytes, 1024u);
  EXPECT_EQ(program.buffers[0].unpadded_bytes, 12u);
  EXPECT_FALSE(program.buffers[0].zeroed);
  EXPECT_EQ(program.buffers[1].name, "y z");
  EXPECT_EQ(program.buffers[1].index, 1u);
  EXPECT_EQ(program.buffers[1].bytes, 2048u);
  EXPECT_TRUE(program.buffers[1].zeroed);
  EXPECT_EQ(program.buffers[2].role, BufferRole::kConstant);
  EXPECT_EQ(program.buffers[2].data, (std::vector<std::uint32_t>{1, 0x3f000000, 0x7f800000}));
  EXPECT_EQ(printed(program), R"(chip v4
conventions xla
cores 8
examples 128
infeed_bytes 5000000000
infeed_host_bytes 7
smem 512 = 4294967295
site 0 calls 0 as top
site 1 calls 1 as "mul 7"
parameter 0 x f32[3] bytes 1024 at 4
parameter 1 "y z" f32[3] bytes 2048 at 5 zeroed
constant 0 table bytes 1024 at 7 = {
    1, 1056964608, 2139095040
}
kernel top
     0 : { inlined_call site = 1 }
kernel "a b"
     0 : { }
)");
  EXPECT_EQ(printed(assembled(printed(program))), printed(program));
}

/// Conventions are printed where they are not ours; immediates of fp32 as numbers with a point.
TEST(ProgramText, PrintsConventionsOfXlaAndFloats) {
  const std::string kernel = "kernel k\n{ %s1 = sadd.f32 %s0, 0.5 ;; %s2 = sadd.s32 %s0, 7 }\n";
  for (const char* chip : {"v2", "v3", "v4"}) {
    const std::string first = "chip " + std::string(chip) + "\n";
    const std::string theirs = printed(assembled(first + "conventions xla\n" + kernel));
    const bool differ = chip == std::string("v4");
    EXPECT_EQ(theirs.find("conventions xla\n"), differ ? first.size() : std::string::npos);
    const std::string ours = printed(assembled(first + kernel));
    EXPECT_EQ(ours.substr(0, first.size() + 6), first + "cores ");
    EXPECT_NE(ours.find("%s1 = sadd.f32 %s0, 0.5"), std::string::npos) << ours;
    EXPECT_NE(ours.find("%s2 = sadd.s32 %s0, 7 "), std::string::npos) << ours;
  }
}

/// What is zero is not printed, a number of one is.
TEST(ProgramText, NumbersOfOneArePrinted) {
  for (const char* line : {"examples 1\n", "infeed_bytes 1\n", "infeed_host_bytes 1\n"}) {
    EXPECT_NE(printed(assembled("chip v3\n" + std::string(line) + kKernels)).find(line),
              std::string::npos);
    std::string zero(line);
    zero[zero.size() - 2] = '0';
    EXPECT_EQ(printed(assembled("chip v3\n" + zero + kKernels)),
              printed(assembled("chip v3\n" + kKernels)));
  }
}

TEST(ProgramText, WithoutCallSitesEachCallsTheKernelOfItsNumber) {
  const Program program = assembled(kKernels);
  ASSERT_EQ(program.call_sites.size(), 2u);
  EXPECT_EQ(program.call_sites[1].kernel, 1u);
  EXPECT_EQ(program.ops[1].name, "a b");
}

TEST(ProgramText, ACallMayOpenAnotherOne) {
  const std::string sites = "chip v3\nsite 0 calls 1 as mul\nsite 1 calls 0 opening 0\n";
  const Program program = assembled(sites + kKernels);
  ASSERT_EQ(program.call_sites.size(), 2u);
  EXPECT_FALSE(program.call_sites[0].is_opening());
  EXPECT_EQ(program.call_sites[1].opens, 0u);
  EXPECT_EQ(program.call_sites[1].op, program.call_sites[0].op);
  EXPECT_EQ(program.ops.size(), 1u);
  EXPECT_EQ(printed(assembled(printed(program))), printed(program));
}

TEST(ProgramText, ErrorsNameThePlace) {
  const auto expect = [](const std::string& text, const std::string& error) {
    EXPECT_EQ(error_of(text + "\n" + kKernels).substr(0, error.size()), error);
  };
  expect("chip v9", "p.s:1:6: expected v2, v3 or v4, found \"v9\"");
  expect("conventions xla", "p.s:1:13: expected a statement \"chip\" before the conventions");
  expect("chip v3\nconventions ours", "p.s:2:13: expected xla, found \"ours\"");
  expect("cores x", "p.s:1:7: expected a number of cores, found \"x\"");
  expect("examples -1", "p.s:1:10: expected a number of examples, a whole number, found \"-1");
  expect("smem 1 : 2", "p.s:1:8: expected \"=\", found \": 2");
  expect("site 1 calls 0", "p.s:1:6: expected call site 0, found 1");
  expect("site 0 calls 2", "p.s:1:14: expected a kernel of this text, found \"2\"");
  expect("site 0 calls 0 opening 0",
         "p.s:1:24: expected a call site before this one that opens no other, found 0");
  expect("site 0 calls b", "p.s:1:14: expected a kernel of this text, found \"b\"");
  expect("parameter 0 x f32[4] at 0", "p.s:1:15: expected a shape with its layout, such as");
  expect("output 0 x f32[3] 8", "p.s:1:19: expected \"at\", found \"8\"");
  expect("output 0 x f32[3] at 0\noutput 0 y f32[3] at 1",
         "p.s:2:8: expected another number, found that of \"x\"");
  expect("constant 0 c bytes 4 at 0 = { 1, 2 }", "p.s:1:34: expected at most 1 words, found \"2 }");
  expect("buffer 0 x", "p.s:1:1: expected \"kernel NAME\" before the first bundle");
}

}  // namespace
}  // namespace tpu::isa::program_text_test
