#include <gtest/gtest.h>

#include "tests/compiler/hlo_check.h"

namespace tpu::test {
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
  for (double range : {1.0, 10.0, 8000.0}) {
    check_hlo(unary("sine", "f32[40,300]"), floats(-range, range));
    check_hlo(unary("cosine", "f32[40,300]"), floats(-range, range));
  }
  check_hlo(unary("tan", "f32[40,300]"), floats(-1.5, 1.5, 2e-5));
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
}  // namespace tpu::test
