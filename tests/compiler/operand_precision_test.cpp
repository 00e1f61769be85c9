#include "workloads/compiler/passes/expand/operand_precision.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/compiler/run_compiled.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::operand_precision_test {
namespace {

const char* const kDot =
    "HloModule d\nENTRY main {\n  a = f32[40,300] parameter(0)\n  b = f32[300,150] parameter(1)\n"
    "  ROOT r = f32[40,150] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}";
/// Small enough that all products are one, in two matrices and with a constant.
const char* const kSmallDots =
    "HloModule s\nENTRY main {\n  a = f32[2,20,30] parameter(0)\n"
    "  b = f32[2,30,50] parameter(1)\n  ROOT r = f32[2,20,50] dot(a, b), "
    "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}";
const char* const kConstantDot =
    "HloModule k\nENTRY main {\n  a = f32[9,5] parameter(0)\n"
    "  b = f32[2,5] constant({{0.1, 0.37, -1.3, 3.1415927, 0.7}, {5.3, -0.011, 100.7, 0.3, "
    "1e-3}})\n"
    "  ROOT r = f32[9,2] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={1}";
/// A product for the vector unit, and one so short that all products take half of the array's
/// passes.
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

/// Parts of so few contracted elements stand one behind the other that the array takes half of the
/// passes at most: 6 of 64 in three, 3 of 42 in one.
TEST(OperandPrecision, ShortProductsAreOne) {
  const auto dots = [](int terms, const char* precision) {
    const std::string n = std::to_string(terms);
    hlo::Module module = hlo::read_hlo_text(
        "p.hlo",
        "HloModule d\nENTRY main {\n  a = f32[2000," + n + "] parameter(0)\n  b = f32[" + n +
            ",8] parameter(1)\n  ROOT r = f32[2000,8] dot(a, b), lhs_contracting_dims={1}, "
            "rhs_contracting_dims={0}, operand_precision={" +
            precision + "," + precision + "}\n}\n");
    compiler::rewrite_precise_products(module, compiler::Target{});
    const std::vector<hlo::HloInstruction>& all = module.entry_computation().instructions;
    return std::count_if(all.begin(), all.end(),
                         [](const auto& each) { return each.opcode == hlo::HloOpcode::kDot; });
  };
  EXPECT_EQ(dots(64, "highest"), 1);
  EXPECT_EQ(dots(65, "highest"), 6);
  EXPECT_EQ(dots(42, "high"), 1);
  EXPECT_EQ(dots(43, "high"), 3);
}

/// Of 128 contracted elements six sums of 256 columns would pass the HBM twice each; of 1024 the
/// operands' parts would.
TEST(OperandPrecision, ProductsWhoseSumsWouldWaitForTheMemoryAreOne) {
  const auto dots = [](int rows, int terms, int columns) {
    const std::string m = std::to_string(rows), k = std::to_string(terms),
                      n = std::to_string(columns);
    hlo::Module module = hlo::read_hlo_text(
        "p.hlo", "HloModule d\nENTRY main {\n  a = f32[" + m + "," + k +
                     "] parameter(0)\n  b = f32[" + k + "," + n +
                     "] parameter(1)\n  ROOT r = f32[" + m + "," + n +
                     "] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, "
                     "operand_precision={highest,highest}\n}\n");
    compiler::rewrite_precise_products(module, compiler::Target{});
    const std::vector<hlo::HloInstruction>& all = module.entry_computation().instructions;
    return std::count_if(all.begin(), all.end(),
                         [](const auto& each) { return each.opcode == hlo::HloOpcode::kDot; });
  };
  EXPECT_EQ(dots(3456, 128, 256), 1);
  EXPECT_EQ(dots(3456, 100, 256), 6);
  EXPECT_EQ(dots(288, 1024, 1024), 6);
  EXPECT_EQ(dots(2048, 2048, 2048), 6);
}

/// A matrix that the program computes of iotas is a constant, and its parts that are all 0 have no
/// products: multiples of 7 / 4 are one part, of 1 / 28 three.
TEST(OperandPrecision, PartsOfKnownMatricesThatAreZeroAreLeftOut) {
  struct Weights {
    const char* by_sum;
    std::ptrdiff_t dots;
  };
  for (const Weights& weights : {Weights{"multiply", 3}, Weights{"divide", 6}}) {
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
    hlo::Module module =
        hlo::read_hlo_text("p.hlo", product + ", operand_precision={highest,highest}\n}\n");
    compiler::rewrite_precise_products(module, compiler::Target{});
    const std::vector<hlo::HloInstruction>& all = module.entry_computation().instructions;
    const auto count_of = [&all](hlo::HloOpcode opcode) {
      return std::count_if(all.begin(), all.end(),
                           [opcode](const auto& each) { return each.opcode == opcode; });
    };
    EXPECT_EQ(count_of(hlo::HloOpcode::kDot), weights.dots);
    EXPECT_EQ(count_of(hlo::HloOpcode::kIota), 0);
    EXPECT_LT(run_product(product, ", operand_precision={highest,highest}").error, 4e-7);
  }
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

/// Of products that are one, and of those that are several.
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
