#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/compiler/hlo_check.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::numeric_functions_test {
namespace {

std::string unary(const std::string& opcode, const std::string& shape,
                  const std::string& attributes = "") {
  return "HloModule u\nENTRY main {\n  x = " + shape + " parameter(0)\n  ROOT r = " + shape + " " +
         opcode + "(x)" + attributes + "\n}\n";
}

std::string binary(const std::string& opcode, const std::string& shape) {
  return "HloModule b\nENTRY main {\n  x = " + shape + " parameter(0)\n  y = " + shape +
         " parameter(1)\n  ROOT r = " + shape + " " + opcode + "(x, y)\n}\n";
}

HloCheck floats(double low, double high, double tolerance = 2e-6) {
  HloCheck check;
  check.low = low;
  check.high = high;
  check.tolerance = tolerance;
  return check;
}

HloCheck integers(double least, double most) {
  HloCheck check;
  check.least = least;
  check.most = most;
  return check;
}

TEST(NumericFunctions, AnglesAreReducedOverManyTurns) {
  for (double range : {1.0, 10.0, 8000.0, 1e7, 1e20, 3e38}) {
    check_hlo(unary("sine", "f32[8,300]"), floats(-range, range, 5e-7));
    check_hlo(unary("cosine", "f32[8,300]"), floats(-range, range, 5e-7));
  }
  check_hlo(unary("tan", "f32[40,300]"), floats(-1.5, 1.5, 2e-6));
  check_hlo(unary("tan", "f32[40,300]"), floats(-1e12, 1e12, 2e-6));
}

/// A module that computes `opcode` of these bits of fp32 numbers, one by one, and checks each of
/// the results against `expected` (NaN included), within a relative error.
void check_elements(const std::string& opcode, const std::vector<std::vector<float>>& operands,
                    const std::vector<float>& expected, double tolerance = 0) {
  const std::string shape = "f32[" + std::to_string(expected.size()) + "]";
  const hlo::Module module = hlo::read_hlo_text(
      "elements.hlo", operands.size() == 1 ? unary(opcode, shape) : binary(opcode, shape));
  CoreArguments arguments;
  for (const std::vector<float>& numbers : operands) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(numbers.data());
    arguments.parameters.emplace_back(bytes, bytes + sizeof(float) * numbers.size());
  }
  const std::vector<double> found = numbers_of(run_compiled(module, {arguments}).outputs[0][0]);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double want = expected[i];
    const bool is_equal = std::isnan(want) ? std::isnan(found[i])
                                           : found[i] == want || std::fabs(found[i] - want) <=
                                                                     tolerance * std::fabs(want);
    EXPECT_TRUE(is_equal) << opcode << " of " << operands[0][i] << ": expected " << want
                          << ", found " << found[i];
  }
}

constexpr float kInfinite = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(NumericFunctions, AnglesNearMultiplesOfHalfPiKeepTheirDigits) {
  // The fp32 numbers that come nearest to multiples of pi / 2, and others of each size.
  std::vector<float> x{16367173.0F * 0x1p72F,
                       0x1.921fb6p1F,
                       0x1.921fb6p0F,
                       3.4028235e38F,
                       1e10F,
                       4e5F,
                       1.7e7F,
                       -1e10F,
                       0.5F,
                       -0.0F};
  for (int exponent = -20; exponent < 128; ++exponent) x.push_back(std::ldexp(1.37F, exponent));
  std::vector<float> sines, cosines, tangents;
  for (const float each : x) {
    sines.push_back(static_cast<float>(std::sin(double{each})));
    cosines.push_back(static_cast<float>(std::cos(double{each})));
    tangents.push_back(static_cast<float>(std::tan(double{each})));
  }
  check_elements("sine", {x}, sines, 1e-6);
  check_elements("cosine", {x}, cosines, 1e-6);
  check_elements("tan", {x}, tangents, 2e-6);
  for (const char* opcode : {"sine", "cosine", "tan"}) {
    check_elements(opcode, {{kInfinite, -kInfinite, kNan}}, {kNan, kNan, kNan});
  }
}

TEST(NumericFunctions, Atan2KnowsAllFourQuadrants) {
  check_hlo(binary("atan2", "f32[40,300]"), floats(-3, 3));
  check_hlo(binary("atan2", "f32[2000]"), floats(-1e-3, 1e-3));
}

TEST(NumericFunctions, Atan2OnTheAxesAndAtInfinity) {
  check_hlo(R"(HloModule special
ENTRY main {
  y = f32[10] constant({0, 0, 1, -1, inf, -inf, inf, 5, -0, -0})
  x = f32[10] constant({0, -1, 0, 0, inf, inf, -inf, -inf, 2, -2})
  a = f32[10] parameter(0)
  zero = f32[] constant(0)
  z = f32[10] broadcast(zero), dimensions={}
  n = f32[10] multiply(a, z)
  xn = f32[10] add(x, n)
  ROOT r = f32[10] atan2(y, xn)
}
)");
}

TEST(NumericFunctions, CubeRootsAndRounding) {
  check_hlo(unary("cbrt", "f32[40,300]"), floats(-1000, 1000));
  for (const char* opcode : {"round-nearest-afz", "round-nearest-even", "floor", "ceil"}) {
    check_hlo(unary(opcode, "f32[40,300]"), floats(-20, 20, 0));
  }
  // Halves.
  for (const char* opcode : {"round-nearest-afz", "round-nearest-even"}) {
    check_hlo(std::string("HloModule h\nENTRY main {\n  i = s32[40,300] parameter(0)\n"
                          "  f = f32[40,300] convert(i)\n  c = f32[] constant(0.5)\n"
                          "  b = f32[40,300] broadcast(c), dimensions={}\n"
                          "  x = f32[40,300] multiply(f, b)\n  ROOT r = f32[40,300] ") +
                  opcode + "(x)\n}\n",
              integers(-50, 50));
  }
}

TEST(NumericFunctions, PowersOfAnyBase) {
  check_hlo(binary("power", "f32[40,300]"), floats(0.1, 4, 1e-5));
  // Integral exponents of negative bases.
  check_hlo(
      "HloModule p\nENTRY main {\n  x = f32[40,300] parameter(0)\n  i = s32[40,300] parameter(1)\n"
      "  y = f32[40,300] convert(i)\n  ROOT r = f32[40,300] power(x, y)\n}\n",
      floats(-3, 3, 1e-5));
}

TEST(NumericFunctions, RemaindersOfFloats) {
  check_hlo(
      "HloModule r\nENTRY main {\n  x = f32[40,300] parameter(0)\n  y = f32[40,300] parameter(1)\n"
      "  o = f32[] constant(4)\n  b = f32[40,300] broadcast(o), dimensions={}\n"
      "  d = f32[40,300] add(y, b)\n  ROOT r = f32[40,300] remainder(x, d)\n}\n",
      floats(-3, 3, 1e-5));
}

TEST(NumericFunctions, RemaindersOfLargeQuotientsAreExact) {
  std::vector<float> a{17617234.0F, -653.47F, 3e38F, -3e38F, 1e-40F, 5.0F,  -0.0F, 7.0F,
                       kInfinite,   3.0F,     kNan,  4.0F,   0.0F,   -8.0F, 1.0F};
  std::vector<float> b{91.07F, 1.79e-6F, 1e-45F, 1.1754944e-38F, 3e-45F, 5.0F, 2.0F,     kInfinite,
                       2.0F,   0.0F,     1.0F,   kNan,           0.0F,   4.0F, kInfinite};
  std::mt19937 engine(3);
  std::uniform_int_distribution<std::uint32_t> bits(0, 0x7f7fffff);
  for (int i = 0; i < 4000; ++i) {
    for (std::vector<float>* numbers : {&a, &b}) {
      const std::uint32_t each = bits(engine) | (engine() & 0x80000000U);
      numbers->push_back(0);
      std::memcpy(&numbers->back(), &each, sizeof each);
    }
  }
  std::vector<float> expected;
  for (std::size_t i = 0; i < a.size(); ++i) expected.push_back(std::fmod(a[i], b[i]));
  check_elements("remainder", {a, b}, expected);
}

TEST(NumericFunctions, RootsLogarithmsAndPowersAtTheEndsOfTheirRange) {
  check_elements("cbrt", {{0.0F, -0.0F, kInfinite, -kInfinite, kNan, 27.0F, -8e-39F}},
                 {0.0F, -0.0F, kInfinite, -kInfinite, kNan, 3.0F, -2e-13F}, 1e-6);
  check_elements("log-plus-one", {{3.16e38F, kInfinite, -1.0F, 0.0F}},
                 {88.6488F, kInfinite, -kInfinite, 0.0F}, 1e-5);
  const std::vector<float> base{1, 1, 1, -1, -1, -1, kNan, 0, -2, 2, kInfinite, -1};
  const std::vector<float> exponent{kInfinite, -kInfinite, kNan, kInfinite, -kInfinite, kNan,
                                    0,         0,          3,    kInfinite, 0,          0.5F};
  check_elements("power", {base, exponent}, {1, 1, 1, 1, 1, kNan, 1, 1, -8, kInfinite, 1, kNan},
                 1e-6);
  // A base that the program states.
  check_hlo(
      "HloModule p\nENTRY main {\n  x = f32[300] parameter(0)\n  z = f32[] constant(0)\n"
      "  o = f32[] constant(1)\n  zeros = f32[300] broadcast(z), dimensions={}\n"
      "  ones = f32[300] broadcast(o), dimensions={}\n  q = f32[300] divide(x, zeros)\n"
      "  ROOT r = f32[300] power(ones, q)\n}\n",
      floats(-3, 3, 0));
}

TEST(NumericFunctions, FewerBitsOfPrecision) {
  check_hlo(unary("reduce-precision", "f32[40,300]", ", exponent_bits=8, mantissa_bits=7"),
            floats(-1000, 1000, 0));
  check_hlo(unary("reduce-precision", "f32[40,300]", ", exponent_bits=5, mantissa_bits=10"),
            floats(-70000, 70000, 0));
}

TEST(NumericFunctions, IntegerQuotientsAreExact) {
  for (const char* opcode : {"divide", "remainder"}) {
    check_hlo(binary(opcode, "s32[40,300]"), integers(-50, 50));  // By zero, too.
    check_hlo(binary(opcode, "s32[40,300]"), integers(-2147483648.0, 2147483646.0));
    check_hlo(binary(opcode, "u32[40,300]"), integers(0, 4294967294.0));
  }
  // Large dividends by small divisors.
  check_hlo(
      "HloModule q\nENTRY main {\n  x = s32[40,300] parameter(0)\n  y = s32[40,300] parameter(1)\n"
      "  m = s32[] constant(31)\n  b = s32[40,300] broadcast(m), dimensions={}\n"
      "  d = s32[40,300] and(y, b)\n  q = s32[40,300] divide(x, d)\n"
      "  r = s32[40,300] remainder(x, d)\n  ROOT t = (s32[40,300], s32[40,300]) tuple(q, r)\n}\n",
      integers(-2147483648.0, 2147483646.0));
}

TEST(NumericFunctions, UnsignedOrderAndBits) {
  for (const char* opcode : {"maximum", "minimum"}) {
    check_hlo(binary(opcode, "u32[40,300]"), integers(0, 4294967294.0));
  }
  check_hlo(unary("popcnt", "u32[40,300]"), integers(0, 4294967294.0));
  check_hlo(unary("count-leading-zeros", "s32[40,300]"), integers(-3, 100000));
  check_hlo(unary("not", "s32[40,300]"), integers(-3, 100000));
  check_hlo(
      "HloModule c\nENTRY main {\n  x = f32[40,300] parameter(0)\n"
      "  ROOT r = u32[40,300] convert(x)\n}\n",
      floats(-5, 4.2e9));
}

TEST(NumericFunctions, BitsOfFloatsAreIntegers) {
  check_hlo(
      "HloModule c\nENTRY main {\n  x = f32[40,300] parameter(0)\n  a = f32[40,300] abs(x)\n"
      "  b = s32[40,300] bitcast-convert(a)\n  c = s32[] constant(23)\n"
      "  d = s32[40,300] broadcast(c), dimensions={}\n"
      "  ROOT r = s32[40,300] shift-right-logical(b, d)\n}\n");
}

TEST(NumericFunctions, ScalarsAndUnitExtentsWork) {
  for (const char* shape : {"f32[]", "f32[1]", "f32[1,1]", "f32[1,1,1]"}) {
    check_hlo(binary("add", shape));
    check_hlo(unary("cosine", shape));
  }
}

}  // namespace
}  // namespace tpu::test::numeric_functions_test
