// Elimination in place by a kernel of its own: values, what becomes one, and what it takes.

#include "workloads/compiler/ir/elimination.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/compiler/batches_of_matrices.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/passes/expand/factorization_expander.h"
#include "workloads/compiler/passes/simplify/simplify.h"

namespace tpu::test::elimination_test {
namespace {

std::string elimination_text(const Batch& of) {
  return "HloModule t\n\nENTRY %main (a: " + of.type() + ") -> " + of.type() +
         " {\n  %a = " + of.type() + " parameter(0)\n  ROOT %e = " + of.type() +
         " custom-call(%a), custom_call_target=\"" + compiler::kElimination + "\"\n}\n";
}

/// Random matrices whose pivots are no small ones.
Batch large_on_the_diagonal(std::size_t count, std::size_t size) {
  Batch made = random_batch(count, size, size, 7);
  for (double& element : made.elements) element /= std::max(2.0, static_cast<double>(size) / 8);
  for (std::size_t m = 0; m < count; ++m) {
    for (std::size_t i = 0; i < size; ++i) made.at(m, i, i) += (i + m) % 2 == 0 ? 2 : -2;
  }
  return made;
}

/// L^-1 times the matrix is what stands on and above the diagonal.
TEST(Elimination, MakesRowsOfBothFactors) {
  for (const auto& [count, size] : std::vector<std::pair<std::size_t, std::size_t>>{
           {1, 1}, {1, 8}, {3, 21}, {5, 128}, {1, 127}, {9, 70}}) {
    SCOPED_TRACE(std::to_string(count) + " of " + std::to_string(size));
    const Batch given = large_on_the_diagonal(count, size);
    Batch made(count, size, size);
    made.elements = results_of(elimination_text(given), {given})[0];
    expect_close(product(triangle_of(made, true, true), given), triangle_of(made, false, false),
                 1e-6);
  }
}

/// Rows above one whose element on the diagonal is 0 keep their numbers.
TEST(Elimination, RowsAboveAreNotTouched) {
  Batch given = large_on_the_diagonal(2, 24);
  for (std::size_t j = 0; j < 24; ++j) given.at(0, 13, j) = 0;
  const std::vector<double> made = results_of(elimination_text(given), {given})[0];
  for (std::size_t i = 0; i < 13 * 24; ++i) EXPECT_TRUE(std::isfinite(made[i])) << i;
  for (std::size_t i = 24 * 24; i < made.size(); ++i) EXPECT_TRUE(std::isfinite(made[i])) << i;
}

std::size_t eliminations_in(const hlo::Module& module) {
  const std::vector<hlo::HloInstruction>& all = module.entry_computation().instructions;
  return static_cast<std::size_t>(std::count_if(all.begin(), all.end(), compiler::is_elimination));
}

/// Two systems of one triangle need its inverses once.
TEST(Elimination, EqualOnesAreOne) {
  const std::string type = Batch(2, 512, 512).type();
  hlo::Module module = hlo::read_hlo_text(
      "test", "HloModule t\n\nENTRY %main (a: " + type + ", b: " + type + ", c: " + type +
                  ") -> (" + type + ", " + type + ") {\n  %a = " + type + " parameter(0)\n  %b = " +
                  type + " parameter(1)\n  %c = " + type + " parameter(2)\n  %x = " + type +
                  " triangular-solve(%a, %b), left_side=true, lower=true, "
                  "transpose_a=NO_TRANSPOSE\n  %y = " +
                  type +
                  " triangular-solve(%a, %c), left_side=true, lower=true, "
                  "transpose_a=TRANSPOSE\n  ROOT %t = (" +
                  type + ", " + type + ") tuple(%x, %y)\n}\n");
  compiler::expand_factorizations(module, compiler::Target());
  EXPECT_EQ(eliminations_in(module), 2U);
  compiler::simplify(module);
  EXPECT_EQ(eliminations_in(module), 1U);
}

TEST(Elimination, TakesAsLongAsItsEstimate) {
  for (const auto& [count, size] : std::vector<std::pair<std::size_t, std::size_t>>{
           {1, 24}, {1, 128}, {8, 128}, {28, 64}, {5, 72}}) {
    const Batch given = large_on_the_diagonal(count, size);
    CoreArguments arguments;
    arguments.parameters = {given.bytes()};
    const CompiledRun run =
        run_compiled(hlo::read_hlo_text("test", elimination_text(given)), {arguments});
    const auto n = static_cast<std::int64_t>(size);
    EXPECT_NEAR(static_cast<double>(run.result.cycles) /
                    compiler::elimination_cycles({static_cast<std::int64_t>(count), n, n},
                                                 compiler::Target()),
                1, 0.25)
        << count << " of " << size;
  }
}

}  // namespace
}  // namespace tpu::test::elimination_test
