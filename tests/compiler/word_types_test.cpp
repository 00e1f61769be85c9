#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "sim/base/error.h"
#include "tests/compiler/hlo_check.h"
#include "tests/compiler/run_compiled.h"
#include "workloads/compiler/compiler.h"
#include "workloads/compiler/passes/pipeline.h"
#include "workloads/graph/small_floats.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::word_types_test {
namespace {

/// One operation on parameters x and y of a type.
std::string binary(const std::string& type, const std::string& opcode) {
  return "HloModule b\nENTRY main {\n  x = " + type + "[9,40] parameter(0)\n  y = " + type +
         "[9,40] parameter(1)\n  ROOT r = " + type + "[9,40] " + opcode + "(x, y)\n}\n";
}

/// Bits of a type, by an amount below 16 that the bits of another array say.
std::string shifted(const std::string& type, const std::string& opcode) {
  const std::string bits = (type[1] == '8' ? "u8" : "u16"), array = type + "[9,40] ";
  return "HloModule b\nENTRY main {\n  p = " + bits + "[9,40] parameter(0)\n  q = " + bits +
         "[9,40] parameter(1)\n  x = " + array + "bitcast-convert(p)\n  n = " + array +
         "bitcast-convert(q)\n  c = " + type + "[] constant(15)\n  m = " + array +
         "broadcast(c), dimensions={}\n  y = " + array + "and(n, m)\n  ROOT r = " + array + opcode +
         "(x, y)\n}\n";
}

HloCheck range(double least, double most) {
  HloCheck check;
  check.least = least;
  check.most = most;
  return check;
}

TEST(WordTypes, ShortIntegersOverflowAsTheirTypesDo) {
  for (const char* opcode : {"add", "subtract", "multiply", "maximum", "and", "xor"}) {
    check_hlo(binary("s8", opcode), range(-128, 127));
    check_hlo(binary("u8", opcode), range(0, 255));
    check_hlo(binary("s16", opcode), range(-32768, 32767));
    check_hlo(binary("u16", opcode), range(0, 65535));
  }
  check_hlo(binary("u8", "shift-left"), range(0, 9));
  check_hlo(binary("s8", "shift-right-logical"), range(-3, 9));
  for (const char* type : {"u8", "u16", "s8", "s16"}) {
    const double above = type[1] == '8' ? 255 : 65535;
    check_hlo(shifted(type, "shift-right-arithmetic"), range(0, above));
    check_hlo(shifted(type, "shift-right-logical"), range(0, above));
    check_hlo(shifted(type, "shift-left"), range(0, above));
  }
}

TEST(WordTypes, BytesAreSummedAndCountedInTheirType) {
  check_hlo(
      "HloModule s\nsum {\n  a = u8[] parameter(0)\n  b = u8[] parameter(1)\n"
      "  ROOT c = u8[] add(a, b)\n}\nENTRY main {\n  x = u8[40,300] parameter(0)\n"
      "  z = u8[] constant(3)\n  r = u8[40] reduce(x, z), dimensions={1}, to_apply=sum\n"
      "  p = u8[40,300] popcnt(x)\n  c = u8[40,300] count-leading-zeros(x)\n"
      "  ROOT t = (u8[40], u8[40,300], u8[40,300]) tuple(r, p, c)\n}\n",
      range(0, 255));
}

TEST(WordTypes, PixelsBecomeFloatingNumbers) {
  check_hlo(
      "HloModule p\nENTRY main {\n  x = u8[2,5,7,3] parameter(0)\n"
      "  f = f32[2,5,7,3] convert(x)\n  c = f32[] constant(255)\n"
      "  b = f32[2,5,7,3] broadcast(c), dimensions={}\n  ROOT r = f32[2,5,7,3] divide(f, b)\n}\n",
      range(0, 255));
}

TEST(WordTypes, NumbersSaturateWhereTheyBecomeShort) {
  HloCheck check;
  check.low = -300;
  check.high = 300;
  check_hlo(
      "HloModule q\nENTRY main {\n  x = f32[9,40] parameter(0)\n  s = s8[9,40] convert(x)\n"
      "  u = u8[9,40] convert(x)\n  ROOT t = (s8[9,40], u8[9,40]) tuple(s, u)\n}\n",
      check);
}

TEST(WordTypes, BitsPassBetweenWidths) {
  check_hlo(
      "HloModule w\nENTRY main {\n  x = u32[9,40] parameter(0)\n"
      "  b = u8[9,40,4] bitcast-convert(x)\n  h = bf16[9,40,2] bitcast-convert(x)\n"
      "  y = u32[9,40] bitcast-convert(b)\n  w = u16[9,40,2] bitcast-convert(h)\n"
      "  ROOT t = (u8[9,40,4], u32[9,40], u16[9,40,2]) tuple(b, y, w)\n}\n",
      range(0, 2139095039));
}

/// All numbers of f16: normal and subnormal ones, zeros, infinities.
TEST(WordTypes, BitsOfHalvesAreTheirOwn) {
  std::vector<std::uint16_t> bits;
  for (unsigned all = 0; all < 65536; all += 7) {
    if ((all & 0x7fff) <= 0x7c00) bits.push_back(static_cast<std::uint16_t>(all));
  }
  for (const unsigned edge : {0U, 1U, 0x3ffU, 0x400U, 0x7bffU, 0x7c00U, 0x8001U, 0xfc00U}) {
    bits.push_back(static_cast<std::uint16_t>(edge));
  }
  const std::string n = std::to_string(bits.size());
  const hlo::Module module = hlo::read_hlo_text(
      "halves", "HloModule h\nENTRY main {\n  x = u16[" + n + "] parameter(0)\n  h = f16[" + n +
                    "] bitcast-convert(x)\n  b = u16[" + n + "] bitcast-convert(h)\n  f = f32[" +
                    n + "] convert(h)\n  ROOT t = (u16[" + n + "], f32[" + n +
                    "]) tuple(b, f)\n}\n");
  CoreArguments arguments;
  arguments.parameters.emplace_back(2 * bits.size());
  std::memcpy(arguments.parameters[0].data(), bits.data(), 2 * bits.size());
  const CompiledRun run = run_compiled(module, {arguments});
  EXPECT_EQ(run.outputs.at(0).at(0).bytes, arguments.parameters[0]);
  const hlo::FloatFormat format = *hlo::float_format(hlo::ElementType::kF16);
  const Bytes& found = run.outputs.at(0).at(1).bytes;
  for (std::size_t i = 0; i < bits.size(); ++i) {
    float value = 0;
    std::memcpy(&value, found.data() + 4 * i, sizeof value);
    EXPECT_EQ(value, hlo::float_of_bits(format, bits[i])) << bits[i];
  }
}

/// u64 arithmetic of pairs of words, brought back as words.
std::string wide(const std::string& operation) {
  return "HloModule l\nENTRY main {\n  a = u32[30,2] parameter(0)\n  b = u32[30,2] parameter(1)\n"
         "  x = u64[30] bitcast-convert(a)\n  y = u64[30] bitcast-convert(b)\n  r = " +
         operation + "\n  ROOT w = u32[30,2] bitcast-convert(r)\n}\n";
}

/// From the largest to the least; half of them have the same high word.
TEST(WordTypes, WideIntegersAreSorted) {
  check_hlo(
      "HloModule s\ngreater {\n  a = u64[] parameter(0)\n  b = u64[] parameter(1)\n"
      "  ROOT g = pred[] compare(a, b), direction=GT\n}\n"
      "ENTRY main {\n  a = u32[30,2] parameter(0)\n  h = u32[30,1] slice(a), slice={[0:30], "
      "[0:1]}\n"
      "  two = u32[] constant(2)\n  twos = u32[30,1] broadcast(two), dimensions={}\n"
      "  few = u32[30,1] remainder(h, twos)\n  l = u32[30,1] slice(a), slice={[0:30], [1:2]}\n"
      "  w = u32[30,2] concatenate(l, few), dimensions={1}\n  x = u64[30] bitcast-convert(w)\n"
      "  s = u64[30] sort(x), dimensions={0}, to_apply=greater\n"
      "  ROOT r = u32[30,2] bitcast-convert(s)\n}\n",
      range(0, 4294967294.0));
}

TEST(WordTypes, WideIntegersAreExact) {
  for (const char* opcode : {"add", "subtract", "multiply", "and", "or", "xor", "maximum"}) {
    check_hlo(wide("u64[30] " + std::string(opcode) + "(x, y)"), range(0, 4294967294.0));
  }
  check_hlo(wide("u64[30] reverse(x), dimensions={0}"), range(0, 4294967294.0));
}

/// Divisors of all lengths, 0 among them.
TEST(WordTypes, WideIntegersAreDivided) {
  const std::string text =
      "HloModule d\nENTRY main {\n  a = u32[900,2] parameter(0)\n  b = u32[900,2] parameter(1)\n"
      "  x = u64[900] bitcast-convert(a)\n  y = u64[900] bitcast-convert(b)\n"
      "  i = u64[900] iota(), iota_dimension=0\n  m = u64[] constant(13)\n"
      "  n = u64[900] broadcast(m), dimensions={}\n  j = u64[900] multiply(i, n)\n"
      "  o = u64[] constant(63)\n  p = u64[900] broadcast(o), dimensions={}\n"
      "  q = u64[900] and(j, p)\n  k = u64[900] and(i, p)\n"
      "  z = u64[900] shift-right-logical(y, q)\n  w = u64[900] shift-right-logical(x, k)\n"
      "  d = u64[900] divide(w, z)\n  r = u64[900] remainder(w, z)\n"
      "  u = u32[900,2] bitcast-convert(d)\n  v = u32[900,2] bitcast-convert(r)\n"
      "  ROOT t = (u32[900,2], u32[900,2]) tuple(u, v)\n}\n";
  check_hlo(text, range(0, 4294967294.0));
  check_hlo(text, range(4294967290.0, 4294967294.0));
  check_hlo(text, range(0, 1));
}

TEST(WordTypes, UpperHalvesOfProductsAreExact) {
  check_hlo(wide("u64[30] mulhi(x, y)"), range(0, 4294967294.0));
  check_hlo(binary("s32", "mulhi"), range(-2147483648.0, 2147483647.0));
  check_hlo(binary("u32", "mulhi"), range(0, 4294967294.0));
  check_hlo(binary("s16", "mulhi"), range(-32768, 32767));
  check_hlo(binary("u16", "mulhi"), range(0, 65535));
  check_hlo(binary("s8", "mulhi"), range(-128, 127));
  check_hlo(binary("u8", "mulhi"), range(0, 255));
}

/// A computation `f` of u64 scalars, and the reduction or window of x[30] as words.
std::string reduced(const std::string& opcode, const std::string& operation) {
  std::string text = wide(operation);
  return text.insert(text.find("ENTRY"),
                     "f {\n  a = u64[] parameter(0)\n  b = u64[] parameter(1)\n"
                     "  ROOT c = u64[] " +
                         opcode + "(a, b)\n}\n");
}

TEST(WordTypes, WideIntegersAreReduced) {
  const HloCheck all = range(0, 4294967294.0);
  for (const char* opcode : {"add", "multiply", "maximum", "minimum", "xor"}) {
    for (const char* count : {"30", "29", "1"}) {
      const std::string n = count;
      std::string text = reduced(opcode, "u64[] reduce(s, z), dimensions={0}, to_apply=f");
      text.insert(text.find("  r = "), "  z = u64[] constant(3)\n  s = u64[" + n +
                                           "] slice(x), slice={[0:" + n + "]}\n");
      text.replace(text.find("u32[30,2] bitcast-convert(r)"), 9, "u32[2]");
      check_hlo(text, all);
    }
  }
  check_hlo(
      "HloModule v\nf {\n  a = u64[] parameter(0)\n  i = s32[] parameter(1)\n"
      "  b = u64[] parameter(2)\n  j = s32[] parameter(3)\n"
      "  g = pred[] compare(b, a), direction=GT\n  m = u64[] select(g, b, a)\n"
      "  n = s32[] select(g, j, i)\n  ROOT t = (u64[], s32[]) tuple(m, n)\n}\n"
      "ENTRY main {\n  a = u32[7,30,2] parameter(0)\n  x = u64[7,30] bitcast-convert(a)\n"
      "  k = s32[7,30] iota(), iota_dimension=1\n  z = u64[] constant(0)\n"
      "  y = s32[] constant(-1)\n  r = (u64[7], s32[7]) reduce(x, k, z, y), dimensions={1}, "
      "to_apply=f\n  v = u64[7] get-tuple-element(r), index=0\n"
      "  w = s32[7] get-tuple-element(r), index=1\n  u = u32[7,2] bitcast-convert(v)\n"
      "  ROOT t = (u32[7,2], s32[7]) tuple(u, w)\n}\n",
      all);
}

TEST(WordTypes, WideIntegersAreSummedInWindows) {
  for (const char* window : {"size=30 pad=29_0", "size=30 pad=0_29", "size=7 stride=3 pad=2_5",
                             "size=5 rhs_dilate=3", "size=4 lhs_dilate=2 pad=1_1"}) {
    const std::string given = window;
    const std::int64_t places = given.find("29") != std::string::npos       ? 30
                                : given.find("stride") != std::string::npos ? 11
                                : given.find("rhs") != std::string::npos    ? 18
                                                                            : 58;
    const std::string n = std::to_string(places);
    std::string text =
        reduced("add", "u64[" + n + "] reduce-window(x, z), window={" + given + "}, to_apply=f");
    text.insert(text.find("  r = "), "  z = u64[] constant(0)\n");
    text.replace(text.find("u32[30,2] bitcast-convert(r)"), 9, "u32[" + n + ",2]");
    check_hlo(text, range(0, 4294967294.0));
  }
}

TEST(WordTypes, BitsAndSignsOfWideIntegersAreCounted) {
  for (const char* opcode : {"popcnt", "count-leading-zeros", "sign", "negate", "abs"}) {
    check_hlo(wide("u64[30] " + std::string(opcode) + "(x)"), range(0, 4294967294.0));
    check_hlo(wide("u64[30] " + std::string(opcode) + "(x)"), range(0, 2));
  }
}

TEST(WordTypes, WideIntegersShiftAcrossWords) {
  for (const char* amount : {"0", "1", "31", "32", "45", "63", "64"}) {
    for (const char* opcode : {"shift-left", "shift-right-logical", "shift-right-arithmetic"}) {
      const std::string text =
          "HloModule s\nENTRY main {\n  a = u32[30,2] parameter(0)\n"
          "  x = u64[30] bitcast-convert(a)\n  n = u64[] constant(" +
          std::string(amount) + ")\n  s = u64[30] broadcast(n), dimensions={}\n  r = u64[30] " +
          opcode + "(x, s)\n  ROOT w = u32[30,2] bitcast-convert(r)\n}\n";
      check_hlo(text, range(0, 4294967294.0));
    }
  }
}

/// Numbers of elements as JAX counts them for its random bits: in 64 bits, of which the upper word
/// is 0 wherever the array is small.
std::string counted(std::int64_t stride, const std::string& shift) {
  return "HloModule c\nENTRY main {\n  i = u64[40,300] iota(), iota_dimension=0\n"
         "  j = u64[40,300] iota(), iota_dimension=1\n  s = u64[] constant(" +
         std::to_string(stride) +
         ")\n  sb = u64[40,300] broadcast(s), dimensions={}\n  m = u64[40,300] multiply(i, sb)\n"
         "  n = u64[40,300] add(m, j)\n  h = u64[] constant(" +
         shift +
         ")\n  hb = u64[40,300] broadcast(h), dimensions={}\n"
         "  u = u64[40,300] shift-right-logical(n, hb)\n  low = u32[40,300] convert(n)\n"
         "  high = u32[40,300] convert(u)\n  x = u32[40,300] parameter(0)\n"
         "  a = u32[40,300] xor(x, low)\n  ROOT r = u32[40,300] add(a, high)\n}\n";
}

/// Instructions of the fused computation that computes it all.
std::size_t instructions_of(const std::string& text) {
  const hlo::Module module = hlo::read_hlo_text("test.hlo", text);
  const compiler::ScheduledModule scheduled =
      compiler::lower_to_kernels(module, target_of({}, 1), nullptr);
  std::size_t most = 0;
  for (const hlo::Computation& computation : scheduled.module.computations) {
    most = std::max(most, computation.instructions.size());
  }
  return most;
}

TEST(WordTypes, UpperWordsThatAreZeroAreNotComputed) {
  constexpr std::int64_t kFits = 0x100000000 / 40 - 300;  // 39 * s + 299 < 2^32
  for (const char* shift : {"32", "31", "33", "0", "64"}) {
    SCOPED_TRACE(shift);
    check_hlo(counted(300, shift), range(0, 1e9));
    check_hlo(counted(kFits, shift), range(0, 1e9));
    check_hlo(counted(0x100000000 / 39, shift), range(0, 1e9));  // Just beyond a word.
    check_hlo(counted(0x123456789a, shift), range(0, 1e9));
  }
  // xor, add, the parameter, two counters, a stride and its product and sum.
  EXPECT_LE(instructions_of(counted(300, "32")), 12U);
  EXPECT_EQ(instructions_of(counted(kFits, "32")), instructions_of(counted(300, "32")));
  EXPECT_GT(instructions_of(counted(0x100000000 / 39, "32")), 24U);
}

TEST(WordTypes, WideIntegersAreOrdered) {
  for (const char* direction : {"EQ", "NE", "LT", "LE", "GT", "GE"}) {
    check_hlo(
        "HloModule c\nENTRY main {\n  a = u32[30,2] parameter(0)\n  b = u32[30,2] parameter(1)\n"
        "  x = u64[30] bitcast-convert(a)\n  y = u64[30] bitcast-convert(b)\n"
        "  ROOT r = pred[30] compare(x, y), direction=" +
            std::string(direction) + "\n}\n",
        range(0, 1));
  }
}

TEST(WordTypes, WideCountersPassThroughLoops) {
  check_hlo(
      "HloModule l\nbody {\n  s = (s32[], u64[3]) parameter(0)\n"
      "  i = s32[] get-tuple-element(s), index=0\n  x = u64[3] get-tuple-element(s), index=1\n"
      "  one = s32[] constant(1)\n  j = s32[] add(i, one)\n"
      "  c = u64[] constant(6364136223846793005)\n  f = u64[3] broadcast(c), dimensions={}\n"
      "  y = u64[3] multiply(x, f)\n  ROOT t = (s32[], u64[3]) tuple(j, y)\n}\n"
      "test {\n  s = (s32[], u64[3]) parameter(0)\n  i = s32[] get-tuple-element(s), index=0\n"
      "  n = s32[] constant(5)\n  ROOT p = pred[] compare(i, n), direction=LT\n}\n"
      "ENTRY main {\n  a = u32[3,2] parameter(0)\n  x = u64[3] bitcast-convert(a)\n"
      "  z = s32[] constant(0)\n  s = (s32[], u64[3]) tuple(z, x)\n"
      "  w = (s32[], u64[3]) while(s), condition=test, body=body\n"
      "  y = u64[3] get-tuple-element(w), index=1\n"
      "  ROOT r = u32[3,2] bitcast-convert(y)\n}\n",
      range(0, 4294967294.0));
}

TEST(WordTypes, SixtyFourBitNumbersThatFitAreShortened) {
  check_hlo(
      "HloModule n\nENTRY main {\n  x = s64[9,40] parameter(0)\n  c = s64[] constant(7)\n"
      "  b = s64[9,40] broadcast(c), dimensions={}\n  ROOT r = s64[9,40] add(x, b)\n}\n",
      range(-100, 100));
}

TEST(WordTypes, ConstantsBeyondAWordAreRefused) {
  const hlo::Module module = hlo::read_hlo_text(
      "test.hlo",
      "HloModule n\nENTRY main {\n  x = s64[9] parameter(0)\n  c = s64[] constant(8589934592)\n"
      "  b = s64[9] broadcast(c), dimensions={}\n  ROOT r = s64[9] add(x, b)\n}\n");
  EXPECT_THROW(compiler::compile(module, target_of(MachineParams{}, 1)), WorkloadError);
}

/// Every number that a format has, those between two and those beyond the largest.
std::vector<float> numbers_around(const hlo::FloatFormat& format) {
  std::vector<float> numbers{0, -1e9F, 3e38F, 1e-30F, std::nextafterf(1, 2)};
  for (std::uint32_t bits = 0; bits < 256; ++bits) {
    const float number = hlo::float_of_bits(format, bits);
    if (!std::isfinite(number)) continue;
    const float next = hlo::float_of_bits(format, bits + 1);
    numbers.push_back(number);
    numbers.push_back(number * 1.01F);
    if (std::isfinite(next)) numbers.push_back((number + next) / 2);
  }
  return numbers;
}

TEST(WordTypes, ShortFloatsRoundAsTheirFormatDoes) {
  for (const hlo::ElementType type :
       {hlo::ElementType::kF16, hlo::ElementType::kF8E4M3Fn, hlo::ElementType::kF8E5M2,
        hlo::ElementType::kF8E4M3, hlo::ElementType::kF8E3M4, hlo::ElementType::kF8E4M3Fnuz,
        hlo::ElementType::kF8E5M2Fnuz, hlo::ElementType::kF8E4M3B11Fnuz}) {
    const hlo::FloatFormat format = *hlo::float_format(type);
    const std::vector<float> numbers = numbers_around(format);
    const std::string name(hlo::to_string(type)), n = "[" + std::to_string(numbers.size()) + "]";
    const std::string whole = type == hlo::ElementType::kF16 ? "u16" : "u8";
    const hlo::Module module = hlo::read_hlo_text(
        "test.hlo", "HloModule f\nENTRY main {\n  x = f32" + n + " parameter(0)\n  y = " + name +
                        n + " convert(x)\n  f = f32" + n + " convert(y)\n  b = " + whole + n +
                        " bitcast-convert(y)\n  z = " + name + n +
                        " bitcast-convert(b)\n  g = f32" + n + " convert(z)\n  u = u32" + n +
                        " convert(b)\n  ROOT t = (f32" + n + ", u32" + n + ", f32" + n +
                        ") tuple(f, u, g)\n}\n");
    CoreArguments arguments;
    arguments.parameters.emplace_back(numbers.size() * sizeof(float));
    std::memcpy(arguments.parameters[0].data(), numbers.data(), arguments.parameters[0].size());
    const CompiledRun run = run_compiled(module, {arguments});
    const auto found = [&](std::size_t result, std::size_t i, auto value) {
      std::memcpy(&value, run.outputs.at(0).at(result).bytes.data() + i * sizeof value,
                  sizeof value);
      return value;
    };
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      SCOPED_TRACE(name + " of " + std::to_string(numbers[i]));
      const auto bits = hlo::bits_of_float(format, numbers[i]);
      const float value = found(0, i, 0.0F), back = found(2, i, 0.0F);
      if (!bits) {
        EXPECT_FALSE(std::isfinite(value));
        EXPECT_FALSE(std::isfinite(back));
        continue;
      }
      EXPECT_EQ(value, hlo::float_of_bits(format, *bits));
      EXPECT_EQ(std::signbit(value), std::signbit(hlo::float_of_bits(format, *bits)));
      EXPECT_EQ(found(1, i, std::uint32_t{0}), *bits);
      EXPECT_EQ(back, value);
    }
  }
}

TEST(WordTypes, IntegersAreConvolved) {
  const auto text = [](const std::string& type, const std::string& result,
                       const std::string& features, const std::string& more) {
    return "HloModule c\nENTRY main {\n  x = " + type + "[2,9,8," + features +
           "] parameter(0)\n  k = " + type + "[3,3,4,6] parameter(1)\n  ROOT r = " + result +
           "[2,9,8,6] convolution(x, k), window={size=3x3 pad=1_1x1_1}, "
           "dim_labels=b01f_01io->b01f" +
           more + "\n}\n";
  };
  check_hlo(text("s8", "s32", "4", ""), range(-128, 127));
  check_hlo(text("s8", "s8", "4", ""), range(-128, 127));
  check_hlo(text("u8", "s32", "4", ""), range(0, 255));
  check_hlo(text("s32", "s32", "4", ""), range(-2147483648.0, 2147483647.0));
  check_hlo(text("s32", "s32", "8", ", feature_group_count=2"), range(-70000, 70000));
  // 300 features of nine places are more products than fp32 sums exactly.
  check_hlo(
      "HloModule c\nENTRY main {\n  x = s8[1,5,4,300] parameter(0)\n"
      "  k = s8[3,3,300,2] parameter(1)\n  ROOT r = s32[1,3,2,2] convolution(x, k), "
      "window={size=3x3}, dim_labels=b01f_01io->b01f\n}\n",
      range(100, 127));
}

/// As jnp.pad writes it: the value is converted to the array's type.
TEST(WordTypes, ArraysArePaddedWithValuesOfTheirType) {
  for (const char* type : {"s8", "u8", "s16", "u16", "s32", "u32", "pred", "bf16"}) {
    const std::string t = type, array = "  x = " + t + "[6,20] parameter(0)\n";
    const std::string head = "HloModule p\nENTRY main {\n" + array;
    for (const char* padding : {"1_2x0_3", "2_-1x-1_2_1"}) {
      const std::string to = padding == std::string("1_2x0_3") ? "[9,23]" : "[7,40]";
      const std::string end = "  ROOT r = " + t + to + " pad(x, v), padding=" + padding + "\n}\n";
      check_hlo(head + "  c = s32[] constant(7)\n  v = " + t + "[] convert(c)\n" + end,
                range(0, 90));
      check_hlo(head + "  v = " + t + "[] constant(" + (t == "pred" ? "true" : "1") + ")\n" + end,
                range(0, 90));
      check_hlo(head + "  v = " + t + "[] parameter(1)\n" + end, range(0, 90));
    }
  }
}

/// Activations of one format times gradients of another, as trainings in 8 bits have them.
TEST(WordTypes, FloatsOfTwoFormatsAreMultiplied) {
  for (const char* operands : {"f8e4m3fn f8e5m2", "f8e5m2 f8e4m3fn", "f8e4m3fn bf16"}) {
    const std::string both = operands, left = both.substr(0, both.find(' ')),
                      right = both.substr(both.find(' ') + 1);
    for (const char* type : {"f32", "bf16"}) {
      const std::string result = type;
      // Of numbers that both formats hold.
      check_hlo("HloModule m\nENTRY main {\n  a = s32[6,40] parameter(0)\n  x = " + left +
                    "[6,40] convert(a)\n  b = s32[40,9] parameter(1)\n  y = " + right +
                    "[40,9] convert(b)\n  ROOT r = " + result +
                    "[6,9] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n",
                range(-4, 4));
    }
  }
}

TEST(WordTypes, TypesWithoutArithmeticAreRefusedByName) {
  for (const char* type : {"s4", "f8e8m0fnu", "c128"}) {
    const hlo::Module module = hlo::read_hlo_text(
        "test.hlo", "HloModule n\nENTRY main {\n  x = " + std::string(type) +
                        "[9,40] parameter(0)\n  ROOT r = " + type + "[9,40] add(x, x)\n}\n");
    try {
      compiler::compile(module, target_of(MachineParams{}, 1));
      FAIL() << type;
    } catch (const WorkloadError& error) {
      EXPECT_NE(std::string(error.what()).find(type == std::string("c128") ? "complex" : type),
                std::string::npos)
          << error.what();
    }
  }
}

std::string dot(const std::string& type, const std::string& result, const std::string& k) {
  return "HloModule d\nENTRY main {\n  x = " + type + "[12," + k + "] parameter(0)\n  y = " + type +
         "[" + k + ",20] parameter(1)\n  ROOT r = " + result +
         "[12,20] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n";
}

TEST(WordTypes, DotsOfIntegersAreExact) {
  HloCheck check = range(-128, 127);
  check.round_matmul_operands = false;
  check_hlo(dot("s8", "s32", "600"), check);
  check = range(0, 255);
  check_hlo(dot("u8", "s32", "300"), check);
  check = range(-2147483648.0, 2147483646.0);
  check_hlo(dot("s32", "s32", "40"), check);
}

TEST(WordTypes, ShortResultsOfBf16AreRounded) {
  HloCheck check;
  check.low = -1000;
  check.high = 1000;
  check.tolerance = 0;
  check_hlo(
      "HloModule r\nENTRY main {\n  x = f32[300] parameter(0)\n  s = f32[] parameter(1)\n"
      "  a = bf16[300] convert(x)\n  b = bf16[] convert(s)\n  n = f32[300] negate(x)\n"
      "  c = bf16[300] convert(n)\n"
      "  ROOT r = (bf16[300], bf16[], bf16[300]) tuple(a, b, c)\n}\n",
      check);
}

}  // namespace
}  // namespace tpu::test::word_types_test
