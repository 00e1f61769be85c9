// Factorizations of matrices larger than their blocks: values of all forms and of sizes around the
// blocks, which of them have blocks, and what they take.

#include "workloads/compiler/passes/expand/blocked_factorizations.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/compiler/batches_of_matrices.h"
#include "workloads/compiler/ir/matrix_kernels.h"
#include "workloads/compiler/passes/expand/factorization_expander.h"
#include "workloads/compiler/passes/expand/factorization_forms.h"

namespace tpu::test::blocked_factorizations_test {
namespace {

std::string square(std::size_t count, std::size_t size) { return Batch(count, size, size).type(); }

std::string lu_text(std::size_t count, std::size_t size) {
  const std::string type = square(count, size), batch = std::to_string(count);
  const std::string row = "s32[" + batch + "," + std::to_string(size) + "]";
  const std::string all = "(" + type + ", " + row + ", " + row + ")";
  return "HloModule t\n\nENTRY %main (a: " + type + ") -> " + all + " {\n  %a = " + type +
         " parameter(0)\n  ROOT %f = " + all +
         " custom-call(%a), custom_call_target=\"LuDecomposition\"\n}\n";
}

std::string qr_text(std::size_t count, std::size_t rows, std::size_t columns) {
  const std::string type = Batch(count, rows, columns).type();
  const std::string all = "(" + type + ", f32[" + std::to_string(count) + "," +
                          std::to_string(std::min(rows, columns)) + "])";
  return "HloModule t\n\nENTRY %main (a: " + type + ") -> " + all + " {\n  %a = " + type +
         " parameter(0)\n  ROOT %f = " + all + " custom-call(%a), custom_call_target=\"Qr\"\n}\n";
}

/// Small matrices have no products.
TEST(BlockedFactorizations, SmallMatricesStayWhole) {
  const auto products_of = [](const std::string& text) {
    hlo::Module module = hlo::read_hlo_text("test", text);
    compiler::expand_factorizations(module, compiler::Target());
    std::size_t products = 0;
    for (const hlo::HloInstruction& each : module.entry_computation().instructions) {
      products += each.opcode == hlo::HloOpcode::kDot ? 1 : 0;
    }
    return products;
  };
  const auto system = [](std::size_t count, std::size_t size) {
    return triangular_text(3, Batch(count, size, size), Batch(count, size, size));
  };
  EXPECT_EQ(products_of(cholesky_text(1, 64, true)), 0U);
  EXPECT_EQ(products_of(cholesky_text(32, 16, true)), 0U);
  EXPECT_EQ(products_of(system(64, 16)), 0U);
  EXPECT_EQ(products_of(lu_text(32, 32)), 0U);
  EXPECT_EQ(products_of(qr_text(16, 64, 64)), 0U);
  // Two panels and their products with themselves.
  EXPECT_EQ(products_of(cholesky_text(1, 384, true)), 4U);
  // Of halves down to sixteenths: fifteen shares and sixteen inverses.
  EXPECT_EQ(products_of(system(1, 1024)), 31U);
  // Halves of halves of columns, as far as they pay.
  EXPECT_GE(products_of(lu_text(1, 256)), 3U);
  EXPECT_GE(products_of(qr_text(1, 512, 256)), 3U);
}

/// Sums over whole arrays are scalars, which a loop's one kernel keeps. Only triangular systems are
/// loops.
TEST(BlockedFactorizations, MatrixOfABatchOfOneHasNoBatch) {
  const Batch one(1, 32, 32);
  for (const std::string& text : {cholesky_text(1, 32, true), triangular_text(3, one, one),
                                  lu_text(1, 32), qr_text(1, 32, 32)}) {
    hlo::Module module = hlo::read_hlo_text("test", text);
    compiler::expand_factorizations(module, compiler::Target());
    std::size_t loops = 0;
    for (const hlo::HloInstruction& each : module.entry_computation().instructions) {
      if (compiler::is_matrix_kernel(each)) {
        ++loops;
        EXPECT_EQ(each.shape.rank(), 2);
      }
      if (each.opcode != hlo::HloOpcode::kWhile) continue;
      ++loops;
      for (const hlo::Shape& carried : each.shape.elements) EXPECT_LE(carried.rank(), 2);
    }
    EXPECT_EQ(loops, 1U);
  }
}

double cycles_of(const std::string& text, const std::vector<Batch>& arguments) {
  CoreArguments given;
  for (const Batch& argument : arguments) given.parameters.push_back(argument.bytes());
  const CompiledRun run = run_compiled(hlo::read_hlo_text("test", text), {given});
  return static_cast<double>(run.result.cycles);
}

/// Three blocks with their inverses, the last one alone, and products. Of these six passes through
/// the MXUs, and the parts of operands on their way to and from the HBM.
TEST(BlockedFactorizations, CholeskyTakesItsDiagonalBlocksAndProducts) {
  const std::size_t size = 512, block = 128;
  const std::string type = square(1, block), pair = "(" + type + ", " + type + ")";
  const std::string both = "HloModule t\n\nENTRY %main (a: " + type + ") -> " + pair +
                           " {\n  %a = " + type + " parameter(0)\n  ROOT %c = " + pair +
                           " custom-call(%a), custom_call_target=\"" +
                           compiler::kCholeskyAndInverse + "\"\n}\n";
  const PositiveDefinite small(1, block, true), large(1, size, true);
  const double blocks =
      3 * cycles_of(both, {small.given}) + cycles_of(cholesky_text(1, block, true), {small.given});
  double passes = 0, bytes = 0;
  for (std::size_t rest = size - block; rest > 0; rest -= block) {
    const auto rows = static_cast<double>(rest), columns = static_cast<double>(block);
    passes += 6 * rows * (1 + rows / columns) / 2;
    // Six times both operands in bf16, written and read; what is left, read and written.
    bytes += 6 * 2 * 2 * (3 * rows * columns + columns * columns) + 8 * (rows + columns) * rows;
  }
  const double products = passes + bytes / compiler::Target().hbm_bytes_per_cycle;
  const double whole = cycles_of(cholesky_text(1, size, true), {large.given});
  EXPECT_GT(whole, blocks + passes);
  EXPECT_LT(whole, blocks + 3 * products);
}

/// What blocks are chosen by is about what factorizations take.
TEST(BlockedFactorizations, EstimatesAreWhatTheyTake) {
  const compiler::Target target;
  const compiler::FactorizationEstimate one(target, 1), four(target, 4);
  const auto expect_near = [](double estimate, double cycles) {
    EXPECT_GT(estimate, cycles / 1.6);
    EXPECT_LT(estimate, cycles * 1.6);
  };
  for (const std::size_t size : {64, 200, 500}) {
    SCOPED_TRACE(size);
    const auto n = static_cast<std::int64_t>(size);
    const PositiveDefinite of(1, size, true);
    expect_near(one.cholesky(n).cycles, cycles_of(cholesky_text(1, size, true), {of.given}));
    expect_near(one.triangular_system(n, n).cycles,
                cycles_of(triangular_text(3, of.given, of.given), {of.given, of.given}));
    expect_near(one.lu(n, n).cycles, cycles_of(lu_text(1, size), {of.given}));
    expect_near(one.qr(n, n).cycles, cycles_of(qr_text(1, size, size), {of.given}));
  }
  const Batch several = random_batch(4, 200, 200, 2);
  expect_near(four.lu(200, 200).cycles, cycles_of(lu_text(4, 200), {several}));
  expect_near(four.triangular_system(200, 200).cycles,
              cycles_of(triangular_text(3, several, several), {several, several}));
}

}  // namespace
}  // namespace tpu::test::blocked_factorizations_test
