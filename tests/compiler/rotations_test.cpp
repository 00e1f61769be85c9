// Jacobi's rotations of symmetric matrices by a kernel of their own: values, and what becomes one.

#include "workloads/compiler/ir/rotations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/compiler/batches_of_matrices.h"
#include "workloads/compiler/passes/expand/eigen_expander.h"

namespace tpu::test::rotations_test {
namespace {

std::string rotations_text(const Batch& given) {
  const std::string made = Batch(given.count, given.rows + 1, given.rows).type();
  return "HloModule t\n\nENTRY %main (a: " + given.type() + ") -> " + made +
         " {\n  %a = " + given.type() + " parameter(0)\n  ROOT %r = " + made +
         " custom-call(%a), custom_call_target=\"" + compiler::kRotations + "\"\n}\n";
}

std::string eigen_text(const Batch& given) {
  const std::string types = "(" + given.type() + ", f32[" + std::to_string(given.count) + "," +
                            std::to_string(given.rows) + "])";
  return "HloModule t\n\nENTRY %main (a: " + given.type() + ") -> " + types +
         " {\n  %a = " + given.type() + " parameter(0)\n  ROOT %e = " + types +
         " custom-call(%a), custom_call_target=\"Eigh\", backend_config=\"1,1,100,1e-6\"\n}\n";
}

Batch symmetric(std::size_t count, std::size_t size) {
  const Batch root = random_batch(count, size, size, 5), other = transposed(root);
  Batch made = root;
  for (std::size_t i = 0; i < made.elements.size(); ++i) made.elements[i] += other.elements[i];
  return made;
}

/// Sizes of one pair, of halves that end inside of a tile and with one; more matrices than a group.
TEST(Rotations, MakeValuesAndVectorsOfTheMatrix) {
  for (const auto& [count, size] : std::vector<std::pair<std::size_t, std::size_t>>{
           {1, 2}, {3, 4}, {1, 16}, {11, 6}, {1, 18}, {2, 40}, {1, 128}}) {
    SCOPED_TRACE(std::to_string(count) + " of " + std::to_string(size));
    const Batch given = symmetric(count, size);
    Batch made(count, size + 1, size);
    made.elements = results_of(rotations_text(given), {given})[0];
    Batch vectors(count, size, size), scaled(count, size, size), unit(count, size, size);
    for (std::size_t m = 0; m < count; ++m) {
      for (std::size_t j = 0; j < size; ++j) {
        for (std::size_t i = 0; i < size; ++i) {
          vectors.at(m, i, j) = made.at(m, i, j);
          scaled.at(m, i, j) = made.at(m, i, j) * made.at(m, size, j);
        }
        unit.at(m, j, j) = 1;
      }
    }
    expect_close(product(scaled, transposed(vectors)), given, 1e-5);
    expect_close(product(vectors, transposed(vectors)), unit, 5e-6);
  }
}

/// What is not a number, in one matrix of a group, stays there.
TEST(Rotations, MatricesDoNotMeet) {
  Batch given = symmetric(3, 8);
  const std::vector<double> wanted = results_of(rotations_text(given), {given})[0];
  given.at(1, 2, 3) = given.at(1, 3, 2) = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> made = results_of(rotations_text(given), {given})[0];
  for (std::size_t i = 0; i < 72; ++i) {
    EXPECT_EQ(made[i], wanted[i]);
    EXPECT_EQ(made[144 + i], wanted[144 + i]);
  }
}

std::size_t rotations_in(std::size_t count, std::size_t size) {
  hlo::Module module = hlo::read_hlo_text("test", eigen_text(Batch(count, size, size)));
  compiler::expand_eigenvalues(module);
  const std::vector<hlo::HloInstruction>& all = module.entry_computation().instructions;
  return static_cast<std::size_t>(std::count_if(all.begin(), all.end(), compiler::is_rotations));
}

/// Not so many matrices that they take less in the lanes of a loop.
TEST(Rotations, StandForEigenvaluesOfMatricesOfALaneTile) {
  EXPECT_EQ(rotations_in(1, 8), 1U);
  EXPECT_EQ(rotations_in(1, 127), 1U);
  EXPECT_EQ(rotations_in(8, 8), 1U);
  EXPECT_EQ(rotations_in(9, 8), 0U);
  EXPECT_EQ(rotations_in(1, 129), 0U);
}

TEST(Rotations, TakeFewCycles) {
  CoreArguments arguments;
  const Batch given = symmetric(1, 12);
  arguments.parameters = {given.bytes()};
  const CompiledRun run =
      run_compiled(hlo::read_hlo_text("test", rotations_text(given)), {arguments});
  EXPECT_LT(run.result.cycles / static_cast<std::uint64_t>(compiler::rotation_steps(12)), 290U);
}

}  // namespace
}  // namespace tpu::test::rotations_test
