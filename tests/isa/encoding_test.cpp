#include "isa/encoding.h"

#include <gtest/gtest.h>

#include <sstream>

#include "isa/assembler.h"
#include "isa/disassembler.h"
#include "random_program.h"
#include "sim/base/error.h"

namespace tpu::isa::encoding_test {
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

TEST(Encoding, RandomWordsNeverCrashTheDecoder) {
  std::mt19937 engine(6);
  for (int i = 0; i < 3000; ++i) {
    Words bits(engine() % 40);
    for (std::uint32_t& word : bits) word = static_cast<std::uint32_t>(engine());
    EXPECT_NE(error_of(bits), "");
  }
}

TEST(Encoding, InstructionsWithoutBundlesAreTheSame) {
  const std::vector<Instruction> instructions = RandomProgram(3).kernel(40).instructions;
  const Words bits = encode_instructions(instructions);
  EXPECT_EQ(decode_instructions(bits, instructions.size(), "bits"), instructions);
  EXPECT_THROW(decode_instructions(bits, instructions.size() - 1, "bits"), WorkloadError);
  EXPECT_THROW(decode_instructions(bits, instructions.size() + 1, "bits"), WorkloadError);
}

}  // namespace
}  // namespace tpu::isa::encoding_test
