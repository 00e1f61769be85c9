#include "workloads/reference/interpreter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "sim/base/error.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::reference::interpreter_test {
namespace {

using Numbers = std::vector<float>;
using Integers = std::vector<std::int64_t>;

constexpr char kComputations[] =
    "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"
    "max { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] maximum(a, b) }\n"
    "ge { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = pred[] compare(a, b), "
    "direction=GE }\n"
    "addi { a = s32[] parameter(0)\n b = s32[] parameter(1)\n ROOT c = s32[] add(a, b) }\n"
    "second { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] copy(b) }\n";

hlo::Module module_of(const std::string& body, const std::string& more = "") {
  hlo::Module module = hlo::read_hlo_text("test", "HloModule test\n" + std::string(kComputations) +
                                                      more + "\nENTRY main {\n" + body + "\n}\n");
  hlo::verify(module);
  return module;
}

Value numbers_of(const char* shape, Numbers numbers) {
  Value value = make_value(hlo::parse_shape(shape));
  EXPECT_EQ(value.numbers.size(), numbers.size()) << shape;
  value.numbers = std::move(numbers);
  return value;
}

Value integers_of(const char* shape, Integers integers) {
  Value value = make_value(hlo::parse_shape(shape));
  EXPECT_EQ(value.integers.size(), integers.size()) << shape;
  value.integers = std::move(integers);
  return value;
}

Value run(const std::string& body, std::vector<Value> arguments, const std::string& more = "",
          bool rounded = false) {
  const hlo::Module module = module_of(body, more);
  InterpreterOptions options;
  options.round_matmul_operands_to_bf16 = rounded;
  return Interpreter(module, options).run(std::move(arguments));
}

std::string error_of(const std::string& body, const std::string& more = "") {
  try {
    run(body, {}, more);
  } catch (const WorkloadError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Values, BytesOfEveryTypeAreReadAndWrittenUnchanged) {
  for (const char* shape : {"pred[5]", "s8[5]", "s16[5]", "s32[5]", "s64[5]", "u8[5]", "u16[5]",
                            "u32[5]", "u64[5]", "f16[5]", "bf16[5]", "f32[5]"}) {
    const hlo::Shape parsed = hlo::parse_shape(shape);
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(parsed.unpadded_bytes()));
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = parsed.type == hlo::ElementType::kPred
                     ? i % 2
                     : static_cast<std::uint8_t>((i * 37 + 11) % 120);
    }
    EXPECT_EQ(to_bytes(from_bytes(parsed, bytes)), bytes) << shape;
  }
}

TEST(Values, RoundingToBf16IsToNearestTiesToEven) {
  EXPECT_EQ(round_to_bf16(1.0f), 1.0f);
  EXPECT_EQ(round_to_bf16(1.0f + 0x1p-9f), 1.0f);
  EXPECT_EQ(round_to_bf16(1.0f + 0x1p-8f), 1.0f) << "a tie goes to the even 1";
  EXPECT_EQ(round_to_bf16(1.0f + 0x1p-8f + 0x1p-20f), 1.0f + 0x1p-7f);
  EXPECT_EQ(round_to_bf16(1.0f + 3 * 0x1p-8f), 1.0f + 0x1p-6f) << "a tie goes up to even";
  EXPECT_EQ(round_to_bf16(-1.0f - 0x1p-8f - 0x1p-20f), -1.0f - 0x1p-7f);
  EXPECT_EQ(round_to_bf16(std::numeric_limits<float>::max()),
            std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(round_to_bf16(std::nanf(""))));
}

TEST(Values, RoundingToF16KnowsSubnormalsAndOverflow) {
  EXPECT_EQ(round_to_f16(1.0f + 0x1p-11f), 1.0f);
  EXPECT_EQ(round_to_f16(1.0f + 3 * 0x1p-11f), 1.0f + 0x1p-9f);
  EXPECT_EQ(round_to_f16(65504.0f), 65504.0f);
  EXPECT_EQ(round_to_f16(65520.0f), std::numeric_limits<float>::infinity());
  EXPECT_EQ(round_to_f16(0x1p-24f), 0x1p-24f);
  EXPECT_EQ(round_to_f16(0x1p-26f), 0.0f);
}

TEST(Values, F64IsRefused) { EXPECT_THROW(make_value(hlo::parse_shape("f64[2]")), WorkloadError); }

TEST(Elementwise, ArithmeticOfFloats) {
  const Numbers a = {4, -2, 0.25f, 3}, b = {2, 3, -1, 3};
  const auto of = [&](const char* opcode) {
    return run("  a = f32[4] parameter(0)\n  b = f32[4] parameter(1)\n  ROOT c = f32[4] " +
                   std::string(opcode) + "(a, b)",
               {numbers_of("f32[4]", a), numbers_of("f32[4]", b)})
        .numbers;
  };
  EXPECT_EQ(of("add"), (Numbers{6, 1, -0.75f, 6}));
  EXPECT_EQ(of("subtract"), (Numbers{2, -5, 1.25f, 0}));
  EXPECT_EQ(of("multiply"), (Numbers{8, -6, -0.25f, 9}));
  EXPECT_EQ(of("divide"), (Numbers{2, -2.0f / 3, -0.25f, 1}));
  EXPECT_EQ(of("maximum"), (Numbers{4, 3, 0.25f, 3}));
  EXPECT_EQ(of("minimum"), (Numbers{2, -2, -1, 3}));
  EXPECT_EQ(of("power"), (Numbers{16, -8, 4, 27}));
  EXPECT_EQ(of("remainder"), (Numbers{0, -2, 0.25f, 0}));
  EXPECT_EQ(of("atan2")[1], static_cast<float>(std::atan2(-2.0, 3.0)));
}

TEST(Elementwise, FunctionsOfFloats) {
  const auto of = [&](const char* opcode, float x) {
    return run("  a = f32[] parameter(0)\n  ROOT c = f32[] " + std::string(opcode) + "(a)",
               {numbers_of("f32[]", {x})})
        .numbers[0];
  };
  EXPECT_EQ(of("negate", 2), -2.0f);
  EXPECT_EQ(of("abs", -2), 2.0f);
  EXPECT_EQ(of("sign", -2), -1.0f);
  EXPECT_EQ(of("sign", 0), 0.0f);
  EXPECT_FLOAT_EQ(of("exponential", 1), std::exp(1.0f));
  EXPECT_FLOAT_EQ(of("exponential-minus-one", 1e-3f), std::expm1(1e-3f));
  EXPECT_FLOAT_EQ(of("log", 2), std::log(2.0f));
  EXPECT_FLOAT_EQ(of("log-plus-one", 1e-3f), std::log1p(1e-3f));
  EXPECT_EQ(of("sqrt", 9), 3.0f);
  EXPECT_EQ(of("rsqrt", 4), 0.5f);
  EXPECT_FLOAT_EQ(of("cbrt", 27), 3.0f);
  EXPECT_FLOAT_EQ(of("tanh", 0.5f), std::tanh(0.5f));
  EXPECT_EQ(of("logistic", 0), 0.5f);
  EXPECT_FLOAT_EQ(of("sine", 1), std::sin(1.0f));
  EXPECT_FLOAT_EQ(of("cosine", 1), std::cos(1.0f));
  EXPECT_FLOAT_EQ(of("tan", 1), std::tan(1.0f));
  EXPECT_FLOAT_EQ(of("erf", 0.5f), std::erf(0.5f));
  EXPECT_EQ(of("floor", -1.5f), -2.0f);
  EXPECT_EQ(of("ceil", -1.5f), -1.0f);
  EXPECT_EQ(of("round-nearest-afz", 2.5f), 3.0f);
  EXPECT_EQ(of("round-nearest-even", 2.5f), 2.0f);
}

TEST(Elementwise, ArithmeticOfIntegersWrapsAndDividesAsXlaDefinesIt) {
  const auto of = [&](const char* opcode, const char* shape, std::int64_t a, std::int64_t b) {
    const std::string type(shape);
    return run("  a = " + type + " parameter(0)\n  b = " + type +
                   " parameter(1)\n  ROOT c = " + type + " " + opcode + "(a, b)",
               {integers_of(shape, {a}), integers_of(shape, {b})})
        .integers[0];
  };
  EXPECT_EQ(of("add", "s32[]", 2147483647, 1), -2147483648LL);
  EXPECT_EQ(of("add", "u8[]", 250, 10), 4);
  EXPECT_EQ(of("multiply", "s8[]", 100, 3), 44);
  EXPECT_EQ(of("divide", "s32[]", -7, 2), -3);
  EXPECT_EQ(of("divide", "s32[]", 7, 0), -1);
  EXPECT_EQ(of("divide", "u32[]", 7, 0), 0xffffffffLL);
  EXPECT_EQ(of("divide", "s32[]", -2147483648LL, -1), -2147483648LL);
  EXPECT_EQ(of("remainder", "s32[]", -7, 2), -1);
  EXPECT_EQ(of("remainder", "s32[]", 7, 0), 7);
  EXPECT_EQ(of("maximum", "u64[]", -1, 1), -1) << "all ones is the greatest";
  EXPECT_EQ(of("shift-left", "s32[]", 1, 31), -2147483648LL);
  EXPECT_EQ(of("shift-left", "s32[]", 1, 32), 0);
  EXPECT_EQ(of("shift-right-logical", "s32[]", -1, 28), 15);
  EXPECT_EQ(of("shift-right-arithmetic", "s32[]", -16, 2), -4);
  EXPECT_EQ(of("shift-right-arithmetic", "s32[]", -16, 40), -1);
  // The highest bit of an unsigned number is its sign here.
  EXPECT_EQ(of("shift-right-arithmetic", "u32[]", 0x80000000LL, 31), 0xffffffffLL);
  EXPECT_EQ(of("shift-right-arithmetic", "u32[]", 0xffffffffLL, 40), 0xffffffffLL);
  EXPECT_EQ(of("shift-right-arithmetic", "u32[]", 5, 1), 2);
  EXPECT_EQ(of("power", "s32[]", 3, 4), 81);
  EXPECT_EQ(of("and", "s32[]", 12, 10), 8);
  EXPECT_EQ(of("xor", "pred[]", 1, 1), 0);
}

TEST(Elementwise, CompareSelectClampConvert) {
  const Value chosen =
      run("  a = f32[3] parameter(0)\n  b = f32[3] parameter(1)\n  p = pred[3] compare(a, b), "
          "direction=LT\n  ROOT s = f32[3] select(p, a, b)",
          {numbers_of("f32[3]", {1, 5, NAN}), numbers_of("f32[3]", {2, 3, 4})});
  EXPECT_EQ(chosen.numbers, (Numbers{1, 3, 4}));
  EXPECT_EQ(run("  l = f32[] constant(-1)\n  a = f32[3] parameter(0)\n  h = f32[] constant(2)\n  "
                "ROOT c = f32[3] clamp(l, a, h)",
                {numbers_of("f32[3]", {-5, 0.5f, 5})})
                .numbers,
            (Numbers{-1, 0.5f, 2}));
  EXPECT_EQ(run("  a = f32[6] parameter(0)\n  ROOT c = s8[6] convert(a)",
                {numbers_of("f32[6]", {1.9f, -1.9f, 300, -300, NAN, 0})})
                .integers,
            (Integers{1, -1, 127, -128, 0, 0}));
  EXPECT_EQ(run("  a = f32[2] parameter(0)\n  ROOT c = u32[2] convert(a)",
                {numbers_of("f32[2]", {-3, 5e9f})})
                .integers,
            (Integers{0, 0xffffffffLL}));
  EXPECT_EQ(run("  a = f32[2] parameter(0)\n  ROOT c = bf16[2] convert(a)",
                {numbers_of("f32[2]", {1.00390625f, 3.14159274f})})
                .numbers,
            (Numbers{1.0f, 3.140625f}));
  EXPECT_EQ(run("  a = bf16[1] parameter(0)\n  b = bf16[1] parameter(1)\n  ROOT c = bf16[1] "
                "add(a, b)",
                {numbers_of("bf16[1]", {256}), numbers_of("bf16[1]", {1})})
                .numbers,
            (Numbers{256}))
      << "a bf16 result has 8 bits";
}

TEST(Elementwise, ReducePrecisionRoundsToTheFormatsOfXlasPrograms) {
  const auto of = [](const char* bits) {
    return run("  a = f32[] parameter(0)\n  ROOT c = f32[] reduce-precision(a), " +
                   std::string(bits),
               {numbers_of("f32[]", {1.00390625f + 0x1p-12f})})
        .numbers[0];
  };
  EXPECT_EQ(of("exponent_bits=8, mantissa_bits=7"), 1.0078125f);
  EXPECT_EQ(of("exponent_bits=5, mantissa_bits=10"), 1.00390625f);
  EXPECT_EQ(of("exponent_bits=8, mantissa_bits=23"), 1.00390625f + 0x1p-12f);
  EXPECT_THROW(of("exponent_bits=4, mantissa_bits=3"), WorkloadError);
}

TEST(Arrays, BroadcastIotaReshapeTranspose) {
  EXPECT_EQ(run("  a = f32[2] parameter(0)\n  ROOT c = f32[2,3] broadcast(a), dimensions={0}",
                {numbers_of("f32[2]", {1, 2})})
                .numbers,
            (Numbers{1, 1, 1, 2, 2, 2}));
  EXPECT_EQ(run("  ROOT c = s32[2,3] iota(), iota_dimension=1", {}).integers,
            (Integers{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(run("  a = f32[2,3] parameter(0)\n  ROOT c = f32[3,2] transpose(a), dimensions={1,0}",
                {numbers_of("f32[2,3]", {1, 2, 3, 4, 5, 6})})
                .numbers,
            (Numbers{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(run("  a = f32[1,2,3] parameter(0)\n  t = f32[3,1,2] transpose(a), dimensions={2,0,1}\n"
                "  ROOT c = f32[6] reshape(t)",
                {numbers_of("f32[1,2,3]", {1, 2, 3, 4, 5, 6})})
                .numbers,
            (Numbers{1, 4, 2, 5, 3, 6}));
}

TEST(Arrays, SliceReverseConcatenatePad) {
  EXPECT_EQ(run("  a = f32[2,4] parameter(0)\n  ROOT c = f32[1,2] slice(a), slice={[1:2], [0:4:3]}",
                {numbers_of("f32[2,4]", {1, 2, 3, 4, 5, 6, 7, 8})})
                .numbers,
            (Numbers{5, 8}));
  EXPECT_EQ(run("  a = f32[2,3] parameter(0)\n  ROOT c = f32[2,3] reverse(a), dimensions={0,1}",
                {numbers_of("f32[2,3]", {1, 2, 3, 4, 5, 6})})
                .numbers,
            (Numbers{6, 5, 4, 3, 2, 1}));
  EXPECT_EQ(run("  a = f32[2,1] parameter(0)\n  b = f32[2,2] parameter(1)\n  ROOT c = f32[2,3] "
                "concatenate(a, b), dimensions={1}",
                {numbers_of("f32[2,1]", {1, 2}), numbers_of("f32[2,2]", {3, 4, 5, 6})})
                .numbers,
            (Numbers{1, 3, 4, 2, 5, 6}));
  EXPECT_EQ(run("  a = f32[3] parameter(0)\n  z = f32[] constant(9)\n  ROOT c = f32[7] pad(a, z), "
                "padding=2_0_1",
                {numbers_of("f32[3]", {1, 2, 3})})
                .numbers,
            (Numbers{9, 9, 1, 9, 2, 9, 3}));
  EXPECT_EQ(run("  a = f32[3] parameter(0)\n  z = f32[] constant(9)\n  ROOT c = f32[5] pad(a, z), "
                "padding=-1_1_1",
                {numbers_of("f32[3]", {1, 2, 3})})
                .numbers,
            (Numbers{9, 2, 9, 3, 9}));
}

TEST(Arrays, DynamicSlicesStayWithinTheArray) {
  const auto sliced = [](std::int64_t start) {
    return run("  a = f32[5] parameter(0)\n  i = s32[] parameter(1)\n  ROOT c = f32[2] "
               "dynamic-slice(a, i), dynamic_slice_sizes={2}",
               {numbers_of("f32[5]", {0, 1, 2, 3, 4}), integers_of("s32[]", {start})})
        .numbers;
  };
  EXPECT_EQ(sliced(1), (Numbers{1, 2}));
  EXPECT_EQ(sliced(4), (Numbers{3, 4}));
  EXPECT_EQ(sliced(-7), (Numbers{0, 1}));
  EXPECT_EQ(run("  a = f32[5] parameter(0)\n  u = f32[2] parameter(1)\n  i = s32[] parameter(2)\n  "
                "ROOT c = f32[5] dynamic-update-slice(a, u, i)",
                {numbers_of("f32[5]", {0, 1, 2, 3, 4}), numbers_of("f32[2]", {8, 9}),
                 integers_of("s32[]", {9})})
                .numbers,
            (Numbers{0, 1, 2, 8, 9}));
}

TEST(Arrays, GatherClampsAndScatterSkipsWhatIsOutside) {
  EXPECT_EQ(run("  t = f32[3,2] parameter(0)\n  i = s32[2,1] parameter(1)\n  ROOT g = f32[2,2] "
                "gather(t, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
                "index_vector_dim=1, slice_sizes={1,2}",
                {numbers_of("f32[3,2]", {1, 2, 3, 4, 5, 6}), integers_of("s32[2,1]", {2, 7})})
                .numbers,
            (Numbers{5, 6, 5, 6}));
  EXPECT_EQ(run("  t = f32[3,2] parameter(0)\n  i = s32[3] parameter(1)\n  u = f32[3,2] "
                "parameter(2)\n  ROOT s = f32[3,2] scatter(t, i, u), update_window_dims={1}, "
                "inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
                "to_apply=add",
                {numbers_of("f32[3,2]", {1, 1, 1, 1, 1, 1}), integers_of("s32[3]", {2, 3, 2}),
                 numbers_of("f32[3,2]", {1, 2, 4, 8, 16, 32})})
                .numbers,
            (Numbers{1, 1, 1, 1, 18, 35}));
  EXPECT_EQ(run("  t = f32[3] parameter(0)\n  i = s32[1,1] parameter(1)\n  u = f32[1,2] "
                "parameter(2)\n  ROOT s = f32[3] scatter(t, i, u), update_window_dims={1}, "
                "inserted_window_dims={}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
                "to_apply=second",
                {numbers_of("f32[3]", {1, 2, 3}), integers_of("s32[1,1]", {2}),
                 numbers_of("f32[1,2]", {8, 9})})
                .numbers,
            (Numbers{1, 2, 3}))
      << "a window that sticks out is not applied at all";
}

TEST(Arrays, GatherWithBatchingDimensionsPicksAlongRows) {
  EXPECT_EQ(run("  t = f32[2,3] parameter(0)\n  i = s32[2,1,1] parameter(1)\n  ROOT g = f32[2,1] "
                "gather(t, i), offset_dims={}, collapsed_slice_dims={1}, start_index_map={1}, "
                "operand_batching_dims={0}, start_indices_batching_dims={0}, index_vector_dim=2, "
                "slice_sizes={1,1}",
                {numbers_of("f32[2,3]", {1, 2, 3, 4, 5, 6}), integers_of("s32[2,1,1]", {2, 0})})
                .numbers,
            (Numbers{3, 4}));
}

TEST(Reductions, SumsMaximaAndGeneralComputations) {
  const Value x = numbers_of("f32[2,3]", {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(run("  a = f32[2,3] parameter(0)\n  z = f32[] constant(10)\n  ROOT c = f32[2] "
                "reduce(a, z), dimensions={1}, to_apply=add",
                {x})
                .numbers,
            (Numbers{16, 25}));
  EXPECT_EQ(run("  a = f32[2,3] parameter(0)\n  z = f32[] constant(-inf)\n  ROOT c = f32[3] "
                "reduce(a, z), dimensions={0}, to_apply=max",
                {x})
                .numbers,
            (Numbers{4, 5, 6}));
  EXPECT_EQ(run("  a = f32[2,3] parameter(0)\n  z = f32[] constant(0)\n  ROOT c = f32[] "
                "reduce(a, z), dimensions={0,1}, to_apply=second",
                {x})
                .numbers,
            (Numbers{6}));
  EXPECT_EQ(run("  a = s32[3] parameter(0)\n  z = s32[] constant(1)\n  ROOT c = s32[] "
                "reduce(a, z), dimensions={0}, to_apply=addi",
                {integers_of("s32[3]", {1, 2, 3})})
                .integers,
            (Integers{7}));
}

TEST(Reductions, OfTwoArraysTogetherFindTheLargestAndItsPlace) {
  const std::string argmax =
      "argmax { v = f32[] parameter(0)\n i = s32[] parameter(1)\n w = f32[] parameter(2)\n j = "
      "s32[] parameter(3)\n g = pred[] compare(v, w), direction=GE\n x = f32[] select(g, v, w)\n k "
      "= s32[] select(g, i, j)\n ROOT t = (f32[], s32[]) tuple(x, k) }\n";
  const Value result =
      run("  a = f32[4] parameter(0)\n  i = s32[4] iota(), iota_dimension=0\n  n = f32[] "
          "constant(-inf)\n  z = s32[] constant(0)\n  ROOT r = (f32[], s32[]) reduce(a, i, n, z), "
          "dimensions={0}, to_apply=argmax",
          {numbers_of("f32[4]", {3, 9, 2, 9})}, argmax);
  EXPECT_EQ(result.elements[0].numbers, (Numbers{9}));
  EXPECT_EQ(result.elements[1].integers, (Integers{1}));
}

TEST(Reductions, WindowsWithPaddingAndDilation) {
  EXPECT_EQ(run("  a = f32[5] parameter(0)\n  z = f32[] constant(0)\n  ROOT c = f32[3] "
                "reduce-window(a, z), window={size=3 stride=2 pad=1_1}, to_apply=add",
                {numbers_of("f32[5]", {1, 2, 3, 4, 5})})
                .numbers,
            (Numbers{3, 9, 9}));
  EXPECT_EQ(run("  a = f32[3] parameter(0)\n  z = f32[] constant(0)\n  ROOT c = f32[3] "
                "reduce-window(a, z), window={size=2 lhs_dilate=2 rhs_dilate=2}, to_apply=add",
                {numbers_of("f32[3]", {1, 2, 4})})
                .numbers,
            (Numbers{3, 0, 6}));
  EXPECT_EQ(run("  a = f32[4] parameter(0)\n  z = f32[] constant(-inf)\n  ROOT c = f32[2] "
                "reduce-window(a, z), window={size=2 stride=2}, to_apply=max",
                {numbers_of("f32[4]", {-4, -7, 2, 1})})
                .numbers,
            (Numbers{-4, 2}));
}

TEST(Reductions, SelectAndScatterFavoursTheFirstOfEqualElementsAndAddsOverlaps) {
  EXPECT_EQ(run("  a = f32[5] parameter(0)\n  s = f32[2] parameter(1)\n  z = f32[] constant(0)\n  "
                "ROOT c = f32[5] select-and-scatter(a, s, z), window={size=3 stride=2}, select=ge, "
                "scatter=add",
                {numbers_of("f32[5]", {1, 2, 7, 7, 3}), numbers_of("f32[2]", {10, 20})})
                .numbers,
            (Numbers{0, 0, 30, 0, 0}));
  EXPECT_EQ(run("  a = f32[4] parameter(0)\n  s = f32[2] parameter(1)\n  z = f32[] constant(0)\n  "
                "ROOT c = f32[4] select-and-scatter(a, s, z), window={size=3 stride=2 pad=1_0}, "
                "select=ge, scatter=add",
                {numbers_of("f32[4]", {-3, -2, -5, -1}), numbers_of("f32[2]", {1, 2})})
                .numbers,
            (Numbers{0, 1, 0, 2}))
      << "padding is never selected";
}

TEST(Sort, IsStableAndCarriesOtherArraysAlong) {
  const std::string less =
      "less { a = f32[] parameter(0)\n b = f32[] parameter(1)\n c = s32[] parameter(2)\n d = s32[] "
      "parameter(3)\n ROOT e = pred[] compare(a, b), direction=LT }\n";
  const Value result =
      run("  a = f32[2,3] parameter(0)\n  i = s32[2,3] iota(), iota_dimension=1\n  ROOT s = "
          "(f32[2,3], s32[2,3]) sort(a, i), dimensions={1}, to_apply=less",
          {numbers_of("f32[2,3]", {3, 1, 2, 5, 4, 5})}, less);
  EXPECT_EQ(result.elements[0].numbers, (Numbers{1, 2, 3, 4, 5, 5}));
  EXPECT_EQ(result.elements[1].integers, (Integers{1, 2, 0, 1, 0, 2}));
}

TEST(Contractions, DotWithBatchAndSeveralContractingDimensions) {
  EXPECT_EQ(run("  a = f32[2,2] parameter(0)\n  b = f32[2,2] parameter(1)\n  ROOT c = f32[2,2] "
                "dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
                {numbers_of("f32[2,2]", {1, 2, 3, 4}), numbers_of("f32[2,2]", {5, 6, 7, 8})})
                .numbers,
            (Numbers{19, 22, 43, 50}));
  EXPECT_EQ(run("  a = f32[2,1,2] parameter(0)\n  b = f32[2,2,1] parameter(1)\n  ROOT c = "
                "f32[2,1,1] dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={0}, "
                "lhs_contracting_dims={2}, rhs_contracting_dims={1}",
                {numbers_of("f32[2,1,2]", {1, 2, 3, 4}), numbers_of("f32[2,2,1]", {5, 6, 7, 8})})
                .numbers,
            (Numbers{17, 53}));
  EXPECT_EQ(
      run("  a = f32[2,3] parameter(0)\n  b = f32[3,2] parameter(1)\n  ROOT c = f32[] "
          "dot(a, b), lhs_contracting_dims={0,1}, rhs_contracting_dims={1,0}",
          {numbers_of("f32[2,3]", {1, 2, 3, 4, 5, 6}), numbers_of("f32[3,2]", {1, 2, 3, 4, 5, 6})})
          .numbers,
      (Numbers{1 * 1 + 2 * 3 + 3 * 5 + 4 * 2 + 5 * 4 + 6 * 6}));
  EXPECT_EQ(run("  a = s32[1,2] parameter(0)\n  b = s32[2,1] parameter(1)\n  ROOT c = s32[1,1] "
                "dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
                {integers_of("s32[1,2]", {100000, 3}), integers_of("s32[2,1]", {30000, 7})})
                .integers,
            (Integers{static_cast<std::int32_t>(3000000021LL)}));
}

TEST(Contractions, OperandsAreRoundedToBf16WhenAskedFor) {
  const std::string body =
      "  a = f32[1,1] parameter(0)\n  b = f32[1,1] parameter(1)\n  ROOT c = f32[1,1] dot(a, b), "
      "lhs_contracting_dims={1}, rhs_contracting_dims={0}";
  const float third = 1.0f / 3;
  const std::vector<Value> arguments = {numbers_of("f32[1,1]", {third}),
                                        numbers_of("f32[1,1]", {3})};
  EXPECT_EQ(run(body, arguments).numbers[0], third * 3);
  EXPECT_EQ(run(body, arguments, "", true).numbers[0], round_to_bf16(third) * 3);
}

/// The definition of a convolution, one multiply-add at a time.
double convolution_element(const Value& input, const Value& kernel, const hlo::HloInstruction& node,
                           std::int64_t n, std::int64_t y, std::int64_t x, std::int64_t o) {
  const auto at = [](const Value& value, std::int64_t a, std::int64_t b, std::int64_t c,
                     std::int64_t d) {
    const std::vector<std::int64_t>& e = value.shape.dimensions;
    return static_cast<double>(
        value.numbers[static_cast<std::size_t>(((a * e[1] + b) * e[2] + c) * e[3] + d)]);
  };
  const std::vector<std::int64_t>& in = input.shape.dimensions;
  const std::vector<std::int64_t>& k = kernel.shape.dimensions;
  const std::int64_t groups = node.feature_group_count, batches = node.batch_group_count;
  double sum = 0;
  for (std::int64_t ky = 0; ky < k[0]; ++ky) {
    for (std::int64_t kx = 0; kx < k[1]; ++kx) {
      const hlo::WindowDimension& wy = node.window[0];
      const hlo::WindowDimension& wx = node.window[1];
      const std::int64_t iy = y * wy.stride + ky * wy.window_dilation - wy.padding_low;
      const std::int64_t ix = x * wx.stride + kx * wx.window_dilation - wx.padding_low;
      if (iy < 0 || ix < 0 || iy % wy.base_dilation != 0 || ix % wx.base_dilation != 0) continue;
      if (iy / wy.base_dilation >= in[1] || ix / wx.base_dilation >= in[2]) continue;
      for (std::int64_t i = 0; i < k[2]; ++i) {
        const std::int64_t feature = o / (k[3] / groups) * (in[3] / groups) + i;
        const std::int64_t batch = o / (k[3] / batches) * (in[0] / batches) + n;
        sum += at(input, batch, iy / wy.base_dilation, ix / wx.base_dilation, feature) *
               at(kernel, wy.reversal ? k[0] - 1 - ky : ky, wx.reversal ? k[1] - 1 - kx : kx, i, o);
      }
    }
  }
  return sum;
}

TEST(Contractions, ConvolutionsEqualTheirDefinition) {
  struct Case {
    const char* input;
    const char* kernel;
    const char* output;
    const char* attributes;
  };
  const Case cases[] = {
      {"f32[2,5,6,3]", "f32[3,3,3,4]", "f32[2,5,6,4]", "window={size=3x3 pad=1_1x1_1}"},
      {"f32[2,7,6,3]", "f32[3,2,3,4]", "f32[2,4,4,4]", "window={size=3x2 stride=2x2 pad=1_1x1_1}"},
      {"f32[1,4,5,2]", "f32[3,3,2,3]", "f32[1,7,9,3]",
       "window={size=3x3 pad=1_1x1_1 lhs_dilate=2x2 rhs_reversal=1x0}"},
      {"f32[1,8,8,2]", "f32[3,2,2,3]", "f32[1,3,5,3]",
       "window={size=3x2 pad=-1_0x0_0 rhs_dilate=2x3}"},
      {"f32[2,4,4,4]", "f32[2,2,2,6]", "f32[2,3,3,6]", "window={size=2x2}, feature_group_count=2"},
      {"f32[4,4,4,3]", "f32[2,2,3,6]", "f32[2,3,3,6]", "window={size=2x2}, batch_group_count=2"},
  };
  for (const Case& each : cases) {
    const hlo::Module module = module_of(
        std::string("  x = ") + each.input + " parameter(0)\n  k = " + each.kernel +
        " parameter(1)\n  ROOT y = " + each.output + " convolution(x, k), " +
        std::string(each.attributes).substr(0, std::string(each.attributes).find('}') + 1) +
        ", dim_labels=b01f_01io->b01f" +
        std::string(each.attributes).substr(std::string(each.attributes).find('}') + 1));
    Value input = make_value(hlo::parse_shape(each.input));
    Value kernel = make_value(hlo::parse_shape(each.kernel));
    for (std::size_t i = 0; i < input.size(); ++i) {
      input.numbers[i] = static_cast<float>(static_cast<int>(i * 7 % 23) - 11) / 8;
    }
    for (std::size_t i = 0; i < kernel.size(); ++i) {
      kernel.numbers[i] = static_cast<float>(static_cast<int>(i * 5 % 17) - 8) / 4;
    }
    const Value result = Interpreter(module).run({input, kernel});
    const std::vector<std::int64_t>& out = result.shape.dimensions;
    const hlo::Computation& entry = module.entry_computation();
    std::size_t i = 0;
    for (std::int64_t n = 0; n < out[0]; ++n) {
      for (std::int64_t y = 0; y < out[1]; ++y) {
        for (std::int64_t x = 0; x < out[2]; ++x) {
          for (std::int64_t o = 0; o < out[3]; ++o, ++i) {
            ASSERT_EQ(static_cast<double>(result.numbers[i]),
                      convolution_element(input, kernel, entry.at(entry.root), n, y, x, o))
                << each.attributes << " at " << n << "," << y << "," << x << "," << o;
          }
        }
      }
    }
  }
}

TEST(Contractions, ConvolutionLabelsInAnyOrder) {
  // The kernel gradient's labels: the batch is contracted.
  EXPECT_EQ(run("  x = f32[2,3,1] parameter(0)\n  g = f32[2,2,1] parameter(1)\n  ROOT w = "
                "f32[2,1,1] convolution(x, g), window={size=2}, dim_labels=f0b_i0o->0bf",
                {numbers_of("f32[2,3,1]", {1, 2, 3, 4, 5, 6}),
                 numbers_of("f32[2,2,1]", {1, 10, 100, 1000})})
                .numbers,
            (Numbers{1 * 1 + 2 * 10 + 4 * 100 + 5 * 1000, 2 * 1 + 3 * 10 + 5 * 100 + 6 * 1000}));
}

TEST(Control, CallsFusionsLoopsAndBranches) {
  const std::string more =
      "twice { p = s32[] parameter(0)\n ROOT t = s32[] add(p, p) }\n"
      "thrice { p = s32[] parameter(0)\n d = s32[] add(p, p)\n ROOT t = s32[] add(d, p) }\n"
      "small { p = s32[] parameter(0)\n l = s32[] constant(100)\n ROOT t = pred[] compare(p, l), "
      "direction=LT }\n";
  EXPECT_EQ(run("  x = s32[] parameter(0)\n  c = s32[] call(x), to_apply=twice\n  f = s32[] "
                "fusion(c), kind=kLoop, calls=thrice\n  ROOT w = s32[] while(f), condition=small, "
                "body=twice",
                {integers_of("s32[]", {2})}, more)
                .integers,
            (Integers{192}));
  for (const std::int64_t chosen : {0, 1}) {
    EXPECT_EQ(run("  p = pred[] parameter(0)\n  x = s32[] parameter(1)\n  ROOT c = s32[] "
                  "conditional(p, x, x), true_computation=twice, false_computation=thrice",
                  {integers_of("pred[]", {chosen}), integers_of("s32[]", {5})}, more)
                  .integers,
              (Integers{chosen != 0 ? 10 : 15}));
  }
  EXPECT_EQ(run("  p = s32[] parameter(0)\n  x = s32[] parameter(1)\n  ROOT c = s32[] "
                "conditional(p, x, x), branch_computations={twice, thrice}",
                {integers_of("s32[]", {-3}), integers_of("s32[]", {5})}, more)
                .integers,
            (Integers{15}))
      << "out of range: the last branch";
}

TEST(Control, ALoopWithoutAnEndIsGivenUp) {
  const hlo::Module module =
      module_of("  x = s32[] parameter(0)\n  ROOT w = s32[] while(x), condition=always, body=same",
                "same { p = s32[] parameter(0)\n ROOT t = s32[] copy(p) }\n"
                "always { p = s32[] parameter(0)\n ROOT t = pred[] constant(true) }\n");
  InterpreterOptions options;
  options.most_iterations = 10;
  try {
    Interpreter(module, options).run({integers_of("s32[]", {1})});
    FAIL();
  } catch (const WorkloadError& error) {
    EXPECT_STREQ(error.what(),
                 "the reference interpreter: instruction \"w\" (while s32[]): expected a loop of "
                 "at most 10 iterations");
  }
}

TEST(Collectives, AllReduceAddsOverGroupsOfReplicas) {
  const hlo::Module module = module_of(
      "  x = f32[1] parameter(0)\n  y = f32[] parameter(1)\n  ROOT r = (f32[1], f32[]) "
      "all-reduce(x, y), replica_groups={{0,2},{1,3}}, to_apply=add");
  std::vector<std::vector<Value>> arguments;
  for (float r : {1.0f, 2.0f, 4.0f, 8.0f}) {
    arguments.push_back({numbers_of("f32[1]", {r}), numbers_of("f32[]", {-r})});
  }
  const std::vector<Value> results = Interpreter(module).run_replicas(std::move(arguments));
  const Numbers expected = {5, 10, 5, 10};
  for (std::size_t r = 0; r < 4; ++r) {
    EXPECT_EQ(results[r].elements[0].numbers[0], expected[r]);
    EXPECT_EQ(results[r].elements[1].numbers[0], -expected[r]);
  }
}

TEST(Collectives, OneSetOfArgumentsStandsForAllReplicas) {
  hlo::Module module = module_of(
      "  x = f32[1] parameter(0)\n  ROOT r = f32[1] all-reduce(x), replica_groups={}, "
      "to_apply=add");
  module.replicas = 8;
  EXPECT_EQ(Interpreter(module).run({numbers_of("f32[1]", {3})}).numbers[0], 24.0f);
}

TEST(Interpreter, ErrorsNameTheInstruction) {
  EXPECT_EQ(error_of("  ROOT r = f32[2] custom-call(), custom_call_target=\"x\""),
            "the reference interpreter: instruction \"r\" (custom-call f32[2]): expected an "
            "operation that it knows");
  EXPECT_EQ(error_of("  ROOT r = f32[2] constant({...})"),
            "the reference interpreter: instruction \"r\" (constant f32[2]): expected the "
            "constant's elements, which the file leaves out ({...})");
  EXPECT_EQ(error_of("  x = f32[2] parameter(0)\n  ROOT r = f32[2] tanh(x)"),
            "module \"test\": expected 1 arguments, found 0");
  EXPECT_THROW(run("  x = f32[2] parameter(0)\n  ROOT r = f32[2] tanh(x)",
                   {numbers_of("f32[3]", {1, 2, 3})}),
               WorkloadError);
}

TEST(Interpreter, AValueUsedAfterATupleTookItIsStillThere) {
  const Value result =
      run("  x = f32[1] parameter(0)\n  t = (f32[1], f32[1]) tuple(x, x)\n  a = f32[1] "
          "get-tuple-element(t), index=1\n  b = f32[1] add(a, x)\n  ROOT r = (f32[1], f32[1], "
          "f32[1]) tuple(b, x, b)",
          {numbers_of("f32[1]", {3})});
  EXPECT_EQ(result.elements[0].numbers, (Numbers{6}));
  EXPECT_EQ(result.elements[1].numbers, (Numbers{3}));
  EXPECT_EQ(result.elements[2].numbers, (Numbers{6}));
}

}  // namespace
}  // namespace tpu::reference::interpreter_test
