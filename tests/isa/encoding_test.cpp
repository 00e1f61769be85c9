#include "isa/encoding.h"

#include <gtest/gtest.h>

#include <sstream>

#include "isa/assembler.h"
#include "isa/disassembler.h"
#include "random_program.h"
#include "sim/base/error.h"

namespace tpu::isa {
namespace {

using test::RandomProgram;
using test::same_code;
using Words = std::vector<std::uint32_t>;

Kernel one_instruction(const Instruction& in) {
  Kernel kernel;
  kernel.name = "k";
  kernel.instructions = {in};
  kernel.bundles = {{0, 1, 0}};
  return kernel;
}

std::string error_of(const Words& words) {
  try {
    decode_bundles(words, "file");
  } catch (const WorkloadError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Encoding, EveryOpcodeComesBackFromItsBits) {
  RandomProgram random(3);
  for (std::size_t opcode = 0; opcode < kOpcodeCount; ++opcode) {
    for (int i = 0; i < 100; ++i) {
      const Kernel kernel = one_instruction(random.instruction(static_cast<Opcode>(opcode)));
      const Words bits = encode_bundles(kernel);
      const Kernel again = decode_bundles(bits, "bits");
      ASSERT_TRUE(same_code(again, kernel)) << format_instruction(kernel.instructions[0]);
      ASSERT_EQ(encode_bundles(again), bits);
    }
  }
}

TEST(Encoding, TextToBitsToTextIsTheIdentityForWholeKernels) {
  for (std::uint32_t seed = 100; seed < 120; ++seed) {
    const Kernel kernel = RandomProgram(seed).kernel(60);
    std::ostringstream text;
    print_kernel(text, kernel);
    Kernel decoded = decode_kernel(encode_kernel(assemble(text.str(), "t").at(0)), "bits");
    std::ostringstream again;
    print_kernel(again, decoded);
    EXPECT_EQ(again.str(), text.str());
  }
}

TEST(Encoding, TheBitsOfAnInstructionStandWhereTheHeaderSays) {
  const Words bits =
      encode_bundles(one_instruction(assemble_instruction("%s4 = sadd.s32 (!%p3), %s5, 7")));
  const auto opcode = static_cast<std::uint64_t>(Opcode::kSaddS32);
  const std::uint64_t word =
      opcode | 3ull << 10 | 1ull << 14 | 1ull << 15 | 4ull << 16 | 5ull << 21 | 1ull << 42;
  EXPECT_EQ(bits, (Words{1u | 1u << 5, 0u, static_cast<std::uint32_t>(word),
                         static_cast<std::uint32_t>(word >> 32), 7u}));
}

TEST(Encoding, BitsThatNothingEncodesToAreRefusedWithTheirPlace) {
  const Words good = encode_bundles(one_instruction(assemble_instruction("%s4 = smov 7")));
  ASSERT_EQ(error_of(good), "no error");
  Words bad = good;
  bad[2] |= 0xff;
  EXPECT_NE(error_of(bad).find("file: word 3: expected an opcode below"), std::string::npos);
  bad = good;
  bad[0] |= 1u << 13;
  EXPECT_NE(error_of(bad).find("spare bits of a header"), std::string::npos);
  bad = good;
  bad[3] |= 1u << 31;
  EXPECT_NE(error_of(bad).find("for this smov, found 0x"), std::string::npos);
  bad = good;
  bad[0] += 1u << 5;
  EXPECT_NE(error_of(bad).find("expected as many immediates as the instructions use"),
            std::string::npos);
  bad = good;
  bad.pop_back();
  EXPECT_EQ(error_of(bad), "file: word 3: expected an immediate, found the end");
  bad = good;
  bad.push_back(0);
  EXPECT_EQ(error_of(bad), "file: word 5: expected the header of a bundle, found the end");
}

TEST(Encoding, FlippedBitsAreRefusedOrDecodeToCodeWithTheseVeryBits) {
  std::mt19937 engine(5);
  int decoded = 0;
  int refused = 0;
  for (int i = 0; i < 4000; ++i) {
    Words bits = encode_bundles(RandomProgram(static_cast<std::uint32_t>(i % 40)).kernel(4));
    for (std::size_t n = engine() % 3 + 1; n > 0; --n) {
      bits[engine() % bits.size()] ^= 1u << engine() % 32;
    }
    try {
      EXPECT_EQ(encode_bundles(decode_bundles(bits, "bits")), bits);
      ++decoded;
    } catch (const WorkloadError&) {
      ++refused;
    }
  }
  EXPECT_GT(decoded, 100);
  EXPECT_GT(refused, 100);
}

TEST(Encoding, RandomWordsNeverCrashTheDecoders) {
  std::mt19937 engine(6);
  const Words kernel_bits = encode_kernel(RandomProgram(1).kernel(5));
  for (int i = 0; i < 3000; ++i) {
    Words bits(engine() % 40);
    for (std::uint32_t& word : bits) word = static_cast<std::uint32_t>(engine());
    EXPECT_NE(error_of(bits), "");
    Words kernel = kernel_bits;
    kernel.resize(engine() % kernel.size());
    EXPECT_THROW(decode_kernel(kernel, "cut"), WorkloadError);
    kernel = kernel_bits;
    kernel[engine() % kernel.size()] = static_cast<std::uint32_t>(engine());
    try {
      EXPECT_EQ(encode_kernel(decode_kernel(kernel, "bits")), kernel);
    } catch (const WorkloadError&) {
    }
  }
}

TEST(Encoding, WholeKernelsKeepTheirNames) {
  Kernel kernel = RandomProgram(9).kernel(8);
  kernel.name = "fusion.12";
  for (std::uint32_t i = 0; i < kernel.instructions.size(); ++i) {
    kernel.names.push_back({i, i + 1, {i, 2, 3, 4}, {5, 6}, 7});
  }
  kernel.renamings = {{1, false, 's', 31, 10}, {1, true, 'm', 15, 11}};
  kernel.operand_names = {{0, 77}, {1, 78}};
  const Words bits = encode_kernel(kernel);
  const Kernel again = decode_kernel(bits, "bits");
  EXPECT_EQ(again.name, "fusion.12");
  EXPECT_TRUE(same_code(again, kernel));
  EXPECT_EQ(encode_kernel(again), bits);
  EXPECT_EQ(again.names.at(3).operands[0], 3u);
  EXPECT_EQ(again.renamings.at(1).file, 'm');
  EXPECT_EQ(again.operand_names, kernel.operand_names);
}

TEST(Encoding, KernelsOfAnotherInstructionSetOrVersionAreRefused) {
  const Words good = encode_kernel(RandomProgram(9).kernel(3));
  const auto refusal = [&](std::size_t word) -> std::string {
    Words bad = good;
    bad.at(word) ^= 1;
    try {
      decode_kernel(bad, "f");
    } catch (const WorkloadError& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_EQ(refusal(0), "f: word 0: expected the mark of a kernel, found another word");
  EXPECT_EQ(refusal(1), "f: word 1: expected version 1, found 0: compile the program again");
  EXPECT_EQ(refusal(2),
            "f: word 2: expected code for this instruction set, found code for an older or newer "
            "one: compile the program again");
}

}  // namespace
}  // namespace tpu::isa
