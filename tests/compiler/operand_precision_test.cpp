#include "workloads/compiler/passes/expand/operand_precision.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/compiler/run_compiled.h"
#include "workloads/compiler/ir/operand_parts.h"
#include "workloads/compiler/passes/simplify/simplify.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::operand_precision_test {
namespace {

const char* const kDot =
    "HloModule d\nENTRY main {\n  a = f32[40,300] parameter(0)\n  b = f32[300,150] parameter(1)\n"
    "  ROOT r = f32[40,150] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}";
/// In two matrices, and with a constant.
const char* const kSmallDots =
    "HloModule s\nENTRY main {\n  a = f32[2,20,30] parameter(0)\n"
    "  b = f32[2,30,50] parameter(1)\n  ROOT r = f32[2,20,50] dot(a, b), "
    "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}";
const char* const kConstantDot =
    "HloModule k\nENTRY main {\n  a = f32[9,5] parameter(0)\n"
    "  b = f32[2,5] constant({{0.1, 0.37, -1.3, 3.1415927, 0.7}, {5.3, -0.011, 100.7, 0.3, "
    "1e-3}})\n"
    "  ROOT r = f32[9,2] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={1}";
/// A product for the vector unit, and one that fills no array.
const char* const kRowDot =
    "HloModule k\nENTRY main {\n  a = f32[1,5] parameter(0)\n"
    "  b = f32[2,5] constant({{0.1, 0.37, -1.3, 3.1415927, 0.7}, {5.3, -0.011, 100.7, 0.3, "
    "1e-3}})\n"
    "  ROOT r = f32[1,2] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={1}";
const char* const kShortDot =
    "HloModule d\nENTRY main {\n  a = f32[400,64] parameter(0)\n  b = f32[64,150] parameter(1)\n"
    "  ROOT r = f32[400,150] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}";
const char* const kConvolution =
    "HloModule c\nENTRY main {\n  a = f32[4,6,6,20] parameter(0)\n"
    "  b = f32[3,3,20,24] parameter(1)\n  ROOT r = f32[4,6,6,24] convolution(a, b), "
    "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f";

struct Outcome {
  double error = 0;  ///< Relative, against products in double precision.
  std::uint64_t cycles = 0;
};

/// Runs a product of normal numbers with these attributes.
Outcome run_product(const std::string& product, const std::string& attributes) {
  const hlo::Module module = hlo::read_hlo_text("p.hlo", product + attributes + "\n}\n");
  const hlo::Computation& entry = module.entry_computation();
  std::mt19937 engine(5);
  std::normal_distribution<float> normal;
  CoreArguments arguments;
  std::vector<reference::Value> values;
  for (const hlo::InstructionId parameter : entry.parameters()) {
    values.push_back(reference::make_value(entry.at(parameter).shape));
    for (float& x : values.back().numbers) x = normal(engine);
    arguments.parameters.push_back(reference::to_bytes(values.back()));
  }
  reference::InterpreterOptions options;
  options.round_matmul_operands_to_bf16 = false;
  const reference::Value exact = reference::Interpreter(module, options).run(values);
  const CompiledRun run = run_compiled(module, {arguments});
  return {distance(numbers_of(run.outputs[0][0]), numbers_of(exact)), run.result.cycles};
}

TEST(OperandPrecision, MorePartsAreMoreExact) {
  for (const char* product : {kDot, kConvolution}) {
    const Outcome plain = run_product(product, "");
    const Outcome high = run_product(product, ", operand_precision={high,high}");
    const Outcome highest = run_product(product, ", operand_precision={default,highest}");
    EXPECT_GT(plain.error, 1e-3);
    EXPECT_LT(high.error, 1e-5);
    EXPECT_GT(high.error, 1e-6);
    EXPECT_LT(highest.error, 4e-7);
    EXPECT_LT(plain.cycles, high.cycles);
    EXPECT_LT(high.cycles, highest.cycles);
  }
  EXPECT_LT(run_product(kRowDot, ", operand_precision={highest,highest}").error, 4e-7);
  for (const char* product : {kSmallDots, kConstantDot, kShortDot}) {
    const Outcome high = run_product(product, ", operand_precision={high,high}");
    EXPECT_GT(run_product(product, "").error, 5e-4);
    EXPECT_LT(high.error, 1e-5);
    EXPECT_GT(high.error, 5e-7);
    EXPECT_LT(run_product(product, ", operand_precision={highest,highest}").error, 4e-7);
  }
  EXPECT_LT(run_product(kDot, ", algorithm=dot_bf16_bf16_f32_x3").error, 1e-5);
  EXPECT_LT(run_product(kDot, ", algorithm=dot_f32_f32_f32").error, 4e-7);
  EXPECT_LT(run_product(kDot, ", algorithm=dot_tf32_tf32_f32").error, 1e-5);
  EXPECT_LT(run_product(kDot, ", algorithm=dot_tf32_tf32_f32_x3").error, 4e-7);
  EXPECT_LT(run_product(kDot, ", algorithm=dot_f16_f16_f32").error, 1e-5);
  EXPECT_EQ(run_product(kDot, ", algorithm=dot_bf16_bf16_f32").cycles,
            run_product(kDot, "").cycles);
}

hlo::Module rewritten(const std::string& product, const std::string& attributes) {
  hlo::Module module = hlo::read_hlo_text("p.hlo", product + attributes + "\n}\n");
  compiler::rewrite_precise_products(module);
  return module;
}

/// What the pass leaves of a product's text.
std::string precision_of(const std::string& product, const std::string& attributes) {
  const hlo::Module module = rewritten(product, attributes);
  for (const hlo::HloInstruction& each : module.entry_computation().instructions) {
    if (each.operands.size() == 2 &&
        (each.opcode == hlo::HloOpcode::kDot || each.opcode == hlo::HloOpcode::kConvolution)) {
      return each.raw_attributes.get();
    }
  }
  return "none";
}

TEST(OperandPrecision, ProductsSayHowManyPartsEachOperandHas) {
  for (const char* product : {kDot, kConvolution}) {
    EXPECT_EQ(precision_of(product, ""), "");
    EXPECT_EQ(precision_of(product, ", operand_precision={highest,default}"),
              "operand_precision={highest,highest}");
    EXPECT_EQ(precision_of(product, ", operand_precision={default,high}"),
              "operand_precision={high,high}");
  }
  EXPECT_EQ(precision_of(kDot, ", algorithm=dot_bf16_bf16_f32_x3"),
            "operand_precision={high,high}");
  EXPECT_EQ(precision_of(kDot, ", algorithm=dot_f32_f32_f32"),
            "operand_precision={highest,highest}");
  EXPECT_EQ(precision_of(kDot, ", algorithm=dot_bf16_bf16_f32"), "algorithm=dot_bf16_bf16_f32");
}

/// An operand of bf16 is one part, as it is and widened; one that is rounded to it, too.
TEST(OperandPrecision, OperandsOfBf16AreOnePart) {
  const auto text = [](const char* a, const char* b) {
    return std::string(
               "HloModule d\nENTRY main {\n  x = f32[40,300] parameter(0)\n  y = "
               "bf16[300,150] parameter(1)\n  n = bf16[40,300] convert(x)\n  "
               "w = f32[300,150] convert(y)\n  ROOT r = f32[40,150] dot(") +
           a + ", " + b + "), lhs_contracting_dims={1}, rhs_contracting_dims={0}";
  };
  const char* const highest = ", operand_precision={highest,highest}";
  EXPECT_EQ(precision_of(text("x", "y"), highest), "operand_precision={highest,default}");
  EXPECT_EQ(precision_of(text("x", "w"), highest), "operand_precision={highest,default}");
  EXPECT_EQ(precision_of(text("n", "w"), highest), "");
}

/// A matrix that the program computes of iotas is a constant of as many parts as it has that are
/// not all 0: multiples of 7 / 4 are one, of 1 / 28 three.
TEST(OperandPrecision, PartsOfKnownMatricesThatAreZeroAreLeftOut) {
  struct Weights {
    const char *by_sum, *precision;
  };
  for (const Weights& weights : {Weights{"multiply", "default"}, Weights{"divide", "highest"}}) {
    const std::string product =
        std::string(
            "HloModule d\nadd {\n  p = f32[] parameter(0)\n  q = f32[] parameter(1)\n  "
            "ROOT s = f32[] add(p, q)\n}\nENTRY main {\n  a = f32[200,300] parameter(0)\n"
            "  i = f32[300,8] iota(), iota_dimension=1\n  c = f32[] constant(0.25)\n"
            "  b = f32[300,8] broadcast(c), dimensions={}\n  w = f32[300,8] multiply(i, b)\n"
            "  z = f32[] constant(0)\n  s = f32[300] reduce(w, z), dimensions={1}, "
            "to_apply=add\n  t = f32[300,8] broadcast(s), dimensions={0}\n  m = f32[300,8] ") +
        weights.by_sum +
        "(w, t)\n  ROOT r = f32[200,8] dot(a, m), lhs_contracting_dims={1}, "
        "rhs_contracting_dims={0}";
    const char* const highest = ", operand_precision={highest,highest}";
    EXPECT_EQ(precision_of(product, highest),
              std::string("operand_precision={highest,") + weights.precision + "}");
    const hlo::Module module = rewritten(product, highest);
    const std::vector<hlo::HloInstruction>& all = module.entry_computation().instructions;
    EXPECT_TRUE(std::none_of(all.begin(), all.end(), [](const auto& each) {
      return each.opcode == hlo::HloOpcode::kIota;
    }));
    EXPECT_LT(run_product(product, highest).error, 4e-7);
  }
}

/// The matrix units' passes are the bound of a large product: 1024 rows are 128 pushes, of eight
/// cycles, for each of 8 by 8 tiles of weights, which two arrays share.
TEST(OperandPrecision, PassesOfTheArraysAreTheBound) {
  const std::string product =
      "HloModule d\nENTRY main {\n  a = f32[1024,1024] parameter(0)\n  b = f32[1024,1024] "
      "parameter(1)\n  ROOT r = f32[1024,1024] dot(a, b), lhs_contracting_dims={1}, "
      "rhs_contracting_dims={0}";
  const double pass = 1024.0 / 8 * 8 * (1024.0 / 128) * (1024.0 / 128) / 2;
  struct Precision {
    const char* word;
    double passes;
  };
  for (const Precision& precision : {Precision{"high", 3}, Precision{"highest", 6}}) {
    const std::string word = precision.word;
    const auto cycles = static_cast<double>(
        run_product(product, ", operand_precision={" + word + "," + word + "}").cycles);
    EXPECT_GE(cycles, precision.passes * pass) << word;
    EXPECT_LE(cycles, 1.15 * precision.passes * pass) << word;
  }
}

/// A dot whose transpose alone is used has its sides exchanged, and what is said of them.
TEST(OperandPrecision, ExchangedSidesTakeTheirPartsWithThem) {
  hlo::HloInstruction dot;
  dot.raw_attributes = std::string("a={1}, operand_precision={highest,default}, b=2");
  compiler::exchange_precisions(dot);
  EXPECT_EQ(dot.raw_attributes.get(), "a={1}, operand_precision={default,highest}, b=2");
  EXPECT_EQ(compiler::operand_parts(dot), (compiler::OperandParts{1, 3}));
  hlo::Module module = hlo::read_hlo_text(
      "p.hlo",
      "HloModule d\nENTRY main {\n  a = f32[40,300] parameter(0)\n  b = f32[300,150] "
      "parameter(1)\n  d = f32[40,150] dot(a, b), lhs_contracting_dims={1}, "
      "rhs_contracting_dims={0}, operand_precision={highest,default}\n  ROOT r = f32[150,40] "
      "transpose(d), dimensions={1,0}\n}\n");
  compiler::simplify(module);
  const hlo::Computation& entry = module.entry_computation();
  EXPECT_EQ(entry.at(entry.root).opcode, hlo::HloOpcode::kDot);
  EXPECT_EQ(compiler::operand_parts(entry.at(entry.root)), (compiler::OperandParts{1, 3}));
}

/// Smallest first.
TEST(OperandPrecision, PairsOfParts) {
  using Pairs = std::vector<compiler::OperandParts>;
  const auto pairs = [](const compiler::OperandParts& parts) {
    const compiler::PartPairs found(parts);
    return Pairs(found.begin(), found.end());
  };
  EXPECT_EQ(pairs({1, 1}), (Pairs{{0, 0}}));
  EXPECT_EQ(pairs({2, 2}), (Pairs{{0, 1}, {1, 0}, {0, 0}}));
  EXPECT_EQ(pairs({3, 1}), (Pairs{{2, 0}, {1, 0}, {0, 0}}));
  EXPECT_EQ(pairs({3, 3}), (Pairs{{0, 2}, {1, 1}, {2, 0}, {0, 1}, {1, 0}, {0, 0}}));
}

/// What the vector unit computes in f32 is not the largest of several products: neither a depthwise
/// convolution, whose operands a kernel makes here, nor a convolution that becomes a dot of one
/// column or one row.
TEST(OperandPrecision, ConvolutionsOfTheVectorUnitAreAsExactAsAsked) {
  const std::string begin = "HloModule c\nENTRY main {\n  x = f32[2,6,6,32] parameter(0)\n";
  const std::string computed = "  a = f32[2,6,6,32] add(x, x)\n  ROOT r = ";
  const std::string products[] = {
      begin + "  b = f32[3,3,1,32] parameter(1)\n" + computed +
          "f32[2,6,6,32] convolution(a, b), window={size=3x3 pad=1_1x1_1}, "
          "dim_labels=b01f_01io->b01f, feature_group_count=32",
      begin + "  y = f32[2,6,6,32] parameter(1)\n  b = f32[2,6,6,32] add(y, y)\n" + computed +
          "f32[3,3,1,32] convolution(a, b), window={size=6x6 pad=1_1x1_1}, "
          "dim_labels=f01b_i01o->01bf, batch_group_count=32",
      begin + "  b = f32[1,1,32,1] parameter(1)\n" + computed +
          "f32[2,6,6,1] convolution(a, b), window={size=1x1}, dim_labels=b01f_01io->b01f",
      begin + "  b = f32[6,6,32,1] parameter(1)\n" + computed +
          "f32[2,1,1,1] convolution(a, b), window={size=6x6}, dim_labels=b01f_01io->b01f"};
  for (const std::string& product : products) {
    EXPECT_LT(run_product(product, ", operand_precision={high,high}").error, 1e-5) << product;
    EXPECT_LT(run_product(product, ", operand_precision={highest,highest}").error, 4e-7) << product;
  }
}

/// Convolutions that become others on their way to a kernel keep what they ask for: lines as rows
/// and as columns of an image, gradients of kernels over lines and of few positions, groups, few
/// large images in strips, windows of few features, and those whose operands change places.
TEST(OperandPrecision, FormsOfConvolutionsAreAsExactAsAsked) {
  struct Form {
    const char *input, *window, *result, *attributes;
  };
  const Form forms[] = {
      {"8,100,20", "5,20,24", "8,100,24", "window={size=5 pad=2_2}, dim_labels=b0f_0io->b0f"},
      {"4,2000,20", "4,2000,24", "5,20,24", "window={size=2000 pad=2_2}, dim_labels=f0b_i0o->0bf"},
      {"2,9000,2", "2,9000,3", "1,2,3", "window={size=9000}, dim_labels=f0b_i0o->0bf"},
      {"2,4096,1", "2,4096,1", "3,1,1", "window={size=4096 pad=1_1}, dim_labels=f0b_i0o->0bf"},
      {"8,12,12,16", "3,3,4,32", "8,12,12,32",
       "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=4"},
      {"1,256,256,3", "3,3,3,16", "1,256,256,16",
       "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f"},
      {"1,256,256,3", "1,256,256,16", "3,3,3,16",
       "window={size=256x256 pad=1_1x1_1}, dim_labels=f01b_i01o->01bf"},
      {"16,32,32,3", "4,4,3,40", "16,8,8,40",
       "window={size=4x4 stride=4x4}, dim_labels=b01f_01io->b01f"},
      {"2,20,20,8", "20,20,8,130", "2,1,1,130", "window={size=20x20}, dim_labels=b01f_01io->b01f"},
      {"4,6,6,8", "4,11,11,12", "3,3,8,12",
       "window={size=11x11 pad=1_1x1_1 lhs_dilate=2x2}, dim_labels=f01b_i01o->01bf"},
      {"2,6,6,6,10", "3,3,3,10,12", "2,6,6,6,12",
       "window={size=3x3x3 pad=1_1x1_1x1_1}, dim_labels=b012f_012io->b012f"}};
  for (const Form& form : forms) {
    for (const char* narrow : {"a", "b", "none"}) {
      // One side in the values of bf16 has one part, and the other three.
      const auto side = [&](const char* name, const char* extents, int number) {
        const std::string shape = "[" + std::string(extents) + "] ", n = name;
        const std::string given =
            "  " + n + "0 = f32" + shape + "parameter(" + std::to_string(number) + ")\n  " + n;
        if (n != narrow) return given + " = f32" + shape + "add(" + n + "0, " + n + "0)\n";
        return given + "1 = bf16" + shape + "convert(" + n + "0)\n  " + n + " = f32" + shape +
               "convert(" + n + "1)\n";
      };
      const std::string product = "HloModule c\nENTRY main {\n" + side("a", form.input, 0) +
                                  side("b", form.window, 1) + "  ROOT r = f32[" + form.result +
                                  "] convolution(a, b), " + form.attributes;
      // Sums of up to 65,536 terms, in f32.
      EXPECT_LT(run_product(product, ", operand_precision={highest,highest}").error, 1e-6)
          << product;
    }
  }
}

/// Of one tile along the contracted dimension, and of several.
TEST(OperandPrecision, InfinitiesStayInfinite) {
  for (const std::size_t length : {16U, 1024U}) {
    const std::string n = std::to_string(length);
    const hlo::Module module = hlo::read_hlo_text(
        "p.hlo", "HloModule d\nENTRY main {\n  a = f32[8," + n + "] parameter(0)\n  b = f32[" + n +
                     ",8] parameter(1)\n  ROOT r = f32[8,8] dot(a, b), lhs_contracting_dims={1}, "
                     "rhs_contracting_dims={0}, operand_precision={highest,highest}\n}\n");
    std::vector<float> a(8 * length, 1.0F / 3), b(8 * length, 3.1F);
    a[0] = INFINITY;
    CoreArguments arguments;
    for (const std::vector<float>& numbers : {a, b}) {
      const auto* bytes = reinterpret_cast<const std::uint8_t*>(numbers.data());
      arguments.parameters.emplace_back(bytes, bytes + 4 * numbers.size());
    }
    const std::vector<double> found = numbers_of(run_compiled(module, {arguments}).outputs[0][0]);
    const double sum = static_cast<double>(length) * 3.1 / 3;
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (i < 8) {
        EXPECT_EQ(found[i], INFINITY);
      } else {
        EXPECT_NEAR(found[i], sum, 1e-6 * sum);
      }
    }
  }
}

}  // namespace
}  // namespace tpu::test::operand_precision_test
