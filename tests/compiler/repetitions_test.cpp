#include "workloads/compiler/passes/simplify/repetitions.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/compiler/hlo_check.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::repetitions_test {
namespace {

using hlo::HloInstruction;
using hlo::HloOpcode;

const char* const kReducers = R"(HloModule repetitions
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
most {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b)
}
)";

/// What the pass leaves of an entry whose values it keeps: operations other than broadcasts,
/// reshapes, parameters and constants, with their extents, in order.
std::string left_of(const std::string& entry) {
  const std::string text = kReducers + ("ENTRY main {\n" + entry + "}\n");
  check_hlo(text);
  hlo::Module module = hlo::read_hlo_text("test.hlo", text);
  compiler::delay_repetitions(module);
  EXPECT_NO_THROW(hlo::verify(module));
  std::string found;
  for (const HloInstruction& instruction : module.entry_computation().instructions) {
    switch (instruction.opcode) {
      case HloOpcode::kParameter:
      case HloOpcode::kConstant:
      case HloOpcode::kBroadcast:
      case HloOpcode::kReshape:
        continue;
      default:
        found += std::string(hlo::to_string(instruction.opcode)) + " " +
                 to_string(hlo::array_shape(instruction.shape.type, instruction.shape.dimensions),
                           false) +
                 "; ";
    }
  }
  return found;
}

/// The array with each element of dimension 1 twice.
std::string twice(const std::string& name, const std::string& of) {
  return "  " + name + "w = f32[24,32,2,16] broadcast(" + of + "), dimensions={0,1,3}\n  " + name +
         " = f32[24,64,16] reshape(" + name + "w)\n";
}

const char* const kParameters =
    "  x = f32[24,32,16] parameter(0)\n  y = f32[24,32,16] parameter(1)\n"
    "  zero = f32[] constant(0)\n  three = f32[] constant(3)\n"
    "  threes = f32[24,64,16] broadcast(three), dimensions={}\n";

TEST(Repetitions, OperationsComeBeforeThem) {
  EXPECT_EQ(left_of(kParameters + twice("u", "x") + twice("v", "y") +
                    "  a = f32[24,64,16] multiply(u, threes)\n"
                    "  b = f32[24,64,16] add(a, v)\n"
                    "  c = pred[24,64,16] compare(b, v), direction=GT\n"
                    "  ROOT d = f32[24,64,16] select(c, a, threes)\n"),
            "multiply f32[24,32,16]; add f32[24,32,16]; compare pred[24,32,16]; "
            "select f32[24,32,16]; ");
}

TEST(Repetitions, SumsOfThemAreMultiples) {
  const std::string square = kParameters + twice("u", "x") +
                             "  s = f32[24,64,16] multiply(u, u)\n"
                             "  r = f32[24,32,2,16] reshape(s)\n";
  EXPECT_EQ(left_of(square + "  ROOT t = f32[24,32,16] reduce(r, zero), dimensions={2}, "
                             "to_apply=add\n"),
            "multiply f32[24,32,16]; multiply f32[24,32,16]; ");
  // With dimensions of the source they are sums of it.
  EXPECT_EQ(left_of(square + "  ROOT t = f32[24,16] reduce(r, zero), dimensions={1,2}, "
                             "to_apply=add\n"),
            "multiply f32[24,32,16]; reduce f32[24,16]; multiply f32[24,16]; ");
  EXPECT_EQ(left_of(square + "  ROOT t = f32[24,16] reduce(r, three), dimensions={1,2}, "
                             "to_apply=most\n"),
            "multiply f32[24,32,16]; reduce f32[24,16]; ");
}

// What is left of the dimensions that a broadcast has made is made once more.
TEST(Repetitions, SumsOfAPartOfThemAreRepeated) {
  EXPECT_EQ(left_of("  x = f32[40,64] parameter(0)\n  zero = f32[] constant(0)\n"
                    "  u = f32[3,40,5,64] broadcast(x), dimensions={1,3}\n"
                    "  ROOT t = f32[40,5,64] reduce(u, zero), dimensions={0}, to_apply=add\n"),
            "multiply f32[40,64]; ");
}

TEST(Repetitions, OthersStay) {
  const std::string halves =
      "  v1 = f32[24,2,32,16] broadcast(y), dimensions={0,2,3}\n"
      "  v = f32[24,64,16] reshape(v1)\n";
  EXPECT_EQ(
      left_of(kParameters + twice("u", "x") + halves + "  ROOT a = f32[24,64,16] add(u, v)\n"),
      "add f32[24,64,16]; ");
  EXPECT_EQ(left_of("  x = f32[32,32] parameter(0)\n  y = f32[32,32] parameter(1)\n"
                    "  u1 = f32[32,32,32] broadcast(x), dimensions={0,1}\n"
                    "  v1 = f32[32,32,32] broadcast(y), dimensions={0,2}\n"
                    "  u = f32[32,1024] reshape(u1)\n  v = f32[32,1024] reshape(v1)\n"
                    "  ROOT a = f32[32,1024] add(u, v)\n"),
            "add f32[32,1024]; ");
  // A whole array, no reshape, few elements, a sum from another number.
  EXPECT_EQ(left_of(kParameters + twice("u", "x") +
                    "  w = f32[24,64,16] parameter(2)\n  ROOT a = f32[24,64,16] add(u, w)\n"),
            "add f32[24,64,16]; ");
  EXPECT_EQ(left_of("  x = f32[24,64] parameter(0)\n  y = f32[24,64] parameter(1)\n"
                    "  u = f32[24,64,16] broadcast(x), dimensions={0,1}\n"
                    "  v = f32[24,64,16] broadcast(y), dimensions={0,1}\n"
                    "  ROOT a = f32[24,64,16] add(u, v)\n"),
            "add f32[24,64,16]; ");
  EXPECT_EQ(left_of("  x = f32[24,32] parameter(0)\n  u = f32[24,32,2] broadcast(x), "
                    "dimensions={0,1}\n  v = f32[24,64] reshape(u)\n"
                    "  ROOT a = f32[24,64] tanh(v)\n"),
            "tanh f32[24,64]; ");
  EXPECT_EQ(left_of("  x = f32[40,64] parameter(0)\n  three = f32[] constant(3)\n"
                    "  u = f32[3,40,64] broadcast(x), dimensions={1,2}\n"
                    "  ROOT t = f32[40,64] reduce(u, three), dimensions={0}, to_apply=add\n"),
            "reduce f32[40,64]; ");
  EXPECT_EQ(left_of("  x = f32[40,64] parameter(0)\n  three = f32[] constant(3)\n"
                    "  u = f32[3,40,64] broadcast(x), dimensions={1,2}\n"
                    "  ROOT t = f32[40,64] reduce(u, three), dimensions={0}, to_apply=most\n"),
            "reduce f32[40,64]; ");
}

}  // namespace
}  // namespace tpu::test::repetitions_test
