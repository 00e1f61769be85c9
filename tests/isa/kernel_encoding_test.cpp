#include "isa/kernel_encoding.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <sstream>

#include "isa/assembler.h"
#include "isa/disassembler.h"
#include "isa/encoding.h"
#include "sim/base/error.h"
#include "tests/isa/random_program.h"

namespace tpu::isa::kernel_encoding_test {
namespace {

using test::RandomProgram;
using Bytes = std::vector<std::uint8_t>;

std::string text_of(const std::vector<Kernel>& kernels) {
  std::ostringstream text;
  for (const Kernel& kernel : kernels) print_kernel(text, kernel);
  return text.str();
}

/// A kernel with everything that only code of XLA has.
Kernel named_kernel() {
  Kernel kernel = RandomProgram(9).kernel(8);
  kernel.name = "fusion.12";
  for (std::uint32_t i = 0; i < kernel.instructions.size(); ++i) {
    kernel.names.push_back({i, i << 20, {i, 2, 0, 4}, {5, ~0u}, 7});
  }
  kernel.renamings = {{1, false, 's', 31, 10}, {1, true, 'm', 15, 11}};
  kernel.operand_names = {{0, 77}, {1, 78}};
  return kernel;
}

TEST(KernelEncoding, TextToBytesToTextIsTheIdentity) {
  for (std::uint32_t seed = 100; seed < 120; ++seed) {
    std::vector<Kernel> kernels;
    for (std::uint32_t k = 0; k < seed % 4; ++k)
      kernels.push_back(RandomProgram(seed + k).kernel(60));
    const std::string text = text_of(kernels);
    const Bytes bytes = encode_kernels(assemble(text, "t"));
    const std::vector<Kernel> again = decode_kernels(bytes, "bytes");
    EXPECT_EQ(text_of(again), text);
    EXPECT_EQ(encode_kernels(again), bytes);
  }
}

TEST(KernelEncoding, AnInstructionThatReturnsStandsThereOnce) {
  const Kernel once = RandomProgram(4).kernel(200);
  const std::size_t bytes = encode_kernels({once}).size();
  const std::size_t twice = encode_kernels({once, once}).size();
  EXPECT_LT(twice - bytes, 5 * once.instructions.size() + 3 * once.bundles.size() + 100);
  EXPECT_EQ(text_of(decode_kernels(encode_kernels({once, once}), "bytes")), text_of({once, once}));
}

/// The varint behind mark, version and fingerprint.
std::size_t count_of_instructions(const Bytes& bytes) {
  std::size_t count = 0;
  for (std::size_t at = 12, shift = 0;; ++at, shift += 7) {
    count |= std::size_t{bytes.at(at) & 0x7fU} << shift;
    if (bytes[at] < 0x80) return count;
  }
}

TEST(KernelEncoding, ManyInstructionsStandThereOnceEach) {
  const Kernel large = RandomProgram(5).kernel(6000);
  std::set<std::vector<std::uint32_t>> distinct;
  for (const Instruction& in : large.instructions) distinct.insert(encode_instructions({in}));
  EXPECT_GT(distinct.size(), 10000U);
  EXPECT_EQ(count_of_instructions(encode_kernels({large})), distinct.size());
  EXPECT_EQ(count_of_instructions(encode_kernels({large, large})), distinct.size());
}

TEST(KernelEncoding, KernelsKeepTheirNames) {
  const Kernel kernel = named_kernel();
  const Bytes bytes = encode_kernels({RandomProgram(1).kernel(3), kernel});
  const std::vector<Kernel> kernels = decode_kernels(bytes, "bytes");
  const Kernel& again = kernels.at(1);
  EXPECT_EQ(again.name, "fusion.12");
  EXPECT_EQ(again.instructions, kernel.instructions);
  EXPECT_EQ(encode_kernels(kernels), bytes);
  for (std::size_t i = 0; i < kernel.names.size(); ++i) {
    EXPECT_EQ(again.names.at(i).dest, kernel.names[i].dest);
    EXPECT_EQ(again.names[i].guard, kernel.names[i].guard);
    EXPECT_EQ(again.names[i].operands, kernel.names[i].operands);
    EXPECT_EQ(again.names[i].base, kernel.names[i].base);
    EXPECT_EQ(again.names[i].mask_register, kernel.names[i].mask_register);
  }
  for (std::size_t i = 0; i < kernel.renamings.size(); ++i) {
    EXPECT_EQ(again.renamings.at(i).bundle, kernel.renamings[i].bundle);
    EXPECT_EQ(again.renamings[i].after, kernel.renamings[i].after);
    EXPECT_EQ(again.renamings[i].file, kernel.renamings[i].file);
    EXPECT_EQ(again.renamings[i].reg, kernel.renamings[i].reg);
    EXPECT_EQ(again.renamings[i].name, kernel.renamings[i].name);
  }
  EXPECT_EQ(again.operand_names, kernel.operand_names);
}

TEST(KernelEncoding, CutBytesAreRefused) {
  const Bytes bytes = encode_kernels({named_kernel()});
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THROW(decode_kernels({bytes.begin(), bytes.begin() + static_cast<long>(size)}, "cut"),
                 WorkloadError)
        << size;
  }
  Bytes longer = bytes;
  longer.push_back(0);
  EXPECT_THROW(decode_kernels(longer, "longer"), WorkloadError);
}

/// Changed bytes are refused, or are other kernels that have these bytes again; but for a table in
/// which the change made two instructions one, nothing has two forms.
TEST(KernelEncoding, ChangedBytesAreRefusedOrMeanOtherKernels) {
  std::mt19937 engine(6);
  const Bytes bytes = encode_kernels({named_kernel(), RandomProgram(2).kernel(5)});
  int decoded = 0, refused = 0;
  for (int i = 0; i < 5000; ++i) {
    Bytes changed = bytes;
    changed[engine() % changed.size()] = static_cast<std::uint8_t>(engine());
    try {
      const std::vector<Kernel> kernels = decode_kernels(changed, "bytes");
      const Bytes again = encode_kernels(kernels);
      EXPECT_TRUE(again == changed || again.size() < changed.size());
      EXPECT_EQ(encode_kernels(decode_kernels(again, "again")), again);
      ++decoded;
    } catch (const WorkloadError&) {
      ++refused;
    }
  }
  EXPECT_GT(decoded, 500);
  EXPECT_GT(refused, 500);
}

TEST(KernelEncoding, KernelsOfAnotherInstructionSetOrVersionAreRefused) {
  const Bytes good = encode_kernels({RandomProgram(9).kernel(3)});
  const auto refusal = [&](std::size_t word) -> std::string {
    Bytes bad = good;
    bad.at(4 * word) ^= 1;
    try {
      decode_kernels(bad, "f");
    } catch (const WorkloadError& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_EQ(refusal(0), "f: byte 4: expected the mark of kernels, found another word");
  EXPECT_EQ(refusal(1), "f: byte 8: expected version 2, found 3: compile the program again");
  EXPECT_EQ(refusal(2),
            "f: byte 12: expected code for this instruction set, found code for an older or newer "
            "one: compile the program again");
}

}  // namespace
}  // namespace tpu::isa::kernel_encoding_test
