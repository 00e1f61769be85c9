#include <gtest/gtest.h>

#include "tests/compiler/hlo_check.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::random_bits_test {
namespace {

/// A generator whose state comes as pairs of words.
std::string generator(const std::string& algorithm, const std::string& numbers,
                      const std::string& bits) {
  return "HloModule g\nENTRY main {\n  k = u32[" + numbers + ",2] parameter(0)\n  s = u64[" +
         numbers + "] bitcast-convert(k)\n  r = (u64[" + numbers + "], " + bits +
         ") rng-bit-generator(s), algorithm=" + algorithm + "\n  n = u64[" + numbers +
         "] get-tuple-element(r), index=0\n  w = u32[" + numbers +
         ",2] bitcast-convert(n)\n  b = " + bits +
         " get-tuple-element(r), index=1\n  ROOT t = (u32[" + numbers + ",2], " + bits +
         ") tuple(w, b)\n}\n";
}

std::vector<std::uint32_t> bits_from(const std::string& algorithm, const std::string& bits,
                                     const std::vector<std::uint32_t>& state) {
  const hlo::Module module = hlo::read_hlo_text("test.hlo", generator(algorithm, "2", bits));
  Bytes bytes(16);
  std::memcpy(bytes.data(), state.data(), bytes.size());
  CoreArguments arguments;
  arguments.parameters = {bytes};
  const CompiledRun run = run_compiled(module, {arguments});
  const Bytes& made = run.outputs.at(0).at(1).bytes;
  std::vector<std::uint32_t> words(made.size() / 4);
  std::memcpy(words.data(), made.data(), made.size());
  return words;
}

/// The known answers of the generators' authors (Random123, tests/kat_vectors).
TEST(RandomBits, ThreefryGivesTheKnownAnswers) {
  const std::vector<std::uint32_t> zero{0x6b200159, 0x99ba4efe}, pi{0xc4923a9c, 0x483df7a0};
  EXPECT_EQ(bits_from("rng_three_fry", "u32[2]", {0, 0, 0, 0}), zero);
  EXPECT_EQ(bits_from("rng_three_fry", "u32[2]", {0x13198a2e, 0x03707344, 0x243f6a88, 0x85a308d3}),
            pi);
}

TEST(RandomBits, PhiloxGivesTheKnownAnswer) {
  const std::vector<std::uint32_t> zero{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  EXPECT_EQ(bits_from("rng_philox", "u32[4]", {0, 0, 0, 0}), zero);
  EXPECT_EQ(bits_from("rng_default", "u32[4]", {0, 0, 0, 0}), zero);
}

TEST(RandomBits, CountersCarryFromWordToWord) {
  const auto before = bits_from("rng_philox", "u32[4]", {7, 8, 0, 0});
  const auto both = bits_from("rng_philox", "u32[8]", {7, 8, 0xffffffff, 0xffffffff});
  // The second block counts from 2^64 - 1 to 0 and carries into the upper number.
  EXPECT_NE(std::vector<std::uint32_t>(both.begin() + 4, both.end()), before);
}

HloCheck words() {
  HloCheck check;
  check.least = 0;
  check.most = 4294967294.0;
  return check;
}

TEST(RandomBits, ArraysOfAnyShapeAreFilledAsTheReferenceDoes) {
  for (const char* bits : {"u32[6,10]", "u32[5,7]", "u32[3,8,130]", "u8[5,7]", "s32[33]"}) {
    check_hlo(generator("rng_three_fry", "2", bits), words());
    check_hlo(generator("rng_philox", "3", bits), words());
    check_hlo(generator("rng_default", "2", bits), words());
  }
}

TEST(RandomBits, UniformNumbersLieInTheirRange) {
  const hlo::Module module = hlo::read_hlo_text(
      "test.hlo",
      "HloModule u\nENTRY main {\n  a = f32[] constant(-1)\n  b = f32[] constant(3)\n"
      "  u = f32[64,100] rng(a, b), distribution=rng_uniform\n"
      "  ROOT n = f32[64,100] rng(a, b), distribution=rng_normal\n}\n");
  const CompiledRun normal = run_compiled(module, {CoreArguments{}});
  const std::vector<double> numbers = numbers_of(normal.outputs.at(0).at(0));
  double sum = 0, squares = 0;
  for (const double x : numbers) {
    sum += x;
    squares += (x + 1) * (x + 1);
  }
  const auto count = static_cast<double>(numbers.size());
  // Four standard errors of a mean of 6400 numbers with deviation 3.
  EXPECT_NEAR(sum / count, -1, 4 * 3 / 80.0);
  EXPECT_NEAR(squares / count, 9, 4 * 9 * std::sqrt(2.0) / 80.0);
}

}  // namespace
}  // namespace tpu::test::random_bits_test
