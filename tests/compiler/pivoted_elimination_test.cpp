// LU with partial pivoting by a kernel of its own: values, and what it takes.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/compiler/batches_of_matrices.h"
#include "workloads/compiler/ir/elimination.h"
#include "workloads/compiler/ir/kernel_forms.h"

namespace tpu::test::pivoted_elimination_test {
namespace {

struct Sizes {
  std::size_t count, rows, columns;
};

std::string text_of(const Batch& given) {
  const std::string made = Batch(given.count, given.rows, given.columns + 2).type();
  return "HloModule t\n\nENTRY %main (a: " + given.type() + ") -> " + made +
         " {\n  %a = " + given.type() + " parameter(0)\n  ROOT %r = " + made +
         " custom-call(%a), custom_call_target=\"" + compiler::kPivotedElimination + "\"\n}\n";
}

Batch eliminated(const Batch& given) {
  Batch made(given.count, given.rows, given.columns + 2);
  made.elements = results_of(text_of(given), {given})[0];
  return made;
}

/// The same in double precision: the first of the largest elements of a column is its pivot.
void eliminate(Batch& all, std::size_t m, std::size_t columns) {
  for (std::size_t i = 0; i < all.rows; ++i) all.at(m, i, columns) = static_cast<double>(i);
  for (std::size_t i = 0; i < std::min(all.rows, columns); ++i) {
    std::size_t pivot = i;
    for (std::size_t r = i; r < all.rows; ++r) {
      if (std::abs(all.at(m, r, i)) > std::abs(all.at(m, pivot, i))) pivot = r;
    }
    for (std::size_t j = 0; j <= columns; ++j) std::swap(all.at(m, i, j), all.at(m, pivot, j));
    all.at(m, i, columns + 1) = static_cast<double>(pivot);
    const double divisor = all.at(m, i, i) == 0 ? 1 : all.at(m, i, i);
    for (std::size_t r = i + 1; r < all.rows; ++r) {
      all.at(m, r, i) /= divisor;
      for (std::size_t j = i + 1; j < columns; ++j) {
        all.at(m, r, j) -= all.at(m, r, i) * all.at(m, i, j);
      }
    }
  }
}

Batch expected(const Batch& given) {
  Batch made(given.count, given.rows, given.columns + 2);
  for (std::size_t m = 0; m < given.count; ++m) {
    for (std::size_t i = 0; i < given.rows; ++i) {
      for (std::size_t j = 0; j < given.columns; ++j) made.at(m, i, j) = given.at(m, i, j);
    }
    eliminate(made, m, given.columns);
  }
  return made;
}

/// Tall and wide ones, rows that end inside of a tile, more matrices than a group has, a column of
/// every lane.
TEST(PivotedElimination, MakesFactorsAndOrder) {
  for (const Sizes& of : std::vector<Sizes>{{1, 1, 1},
                                            {1, 12, 12},
                                            {3, 21, 9},
                                            {2, 5, 40},
                                            {35, 6, 6},
                                            {1, 77, 126},
                                            {1, 300, 17},
                                            {1, 300, 32}}) {
    SCOPED_TRACE(std::to_string(of.count) + " of " + std::to_string(of.rows) + " x " +
                 std::to_string(of.columns));
    const Batch given = random_batch(of.count, of.rows, of.columns, 11);
    const Batch made = eliminated(given), wanted = expected(given);
    expect_close(made, wanted, 1e-5);
    for (std::size_t m = 0; m < of.count; ++m) {
      for (std::size_t i = 0; i < of.rows; ++i) {
        EXPECT_EQ(made.at(m, i, of.columns), wanted.at(m, i, of.columns));
        EXPECT_EQ(made.at(m, i, of.columns + 1), wanted.at(m, i, of.columns + 1));
      }
    }
  }
}

/// Of equal elements the first one is the pivot, of a column of zeros its row; rows stay where a
/// number is none.
TEST(PivotedElimination, ChoosesThePivotOfSpecialColumns) {
  Batch given = random_batch(3, 10, 10, 3);
  for (std::size_t i = 0; i < 10; ++i) {
    given.at(0, i, 0) = i % 2 == 0 ? -0.5 : 0.5;
    given.at(1, i, 0) = given.at(1, i, 4) = 0;
  }
  given.at(2, 7, 0) = std::numeric_limits<double>::quiet_NaN();
  const Batch made = eliminated(given);
  EXPECT_EQ(made.at(0, 0, 11), 0);
  EXPECT_EQ(made.at(1, 0, 11), 0);
  EXPECT_EQ(made.at(1, 4, 11), 4);
  EXPECT_EQ(made.at(2, 0, 11), 0);
  const Batch wanted = expected(given);
  for (std::size_t i = 0; i < 2 * 120; ++i) {
    EXPECT_NEAR(made.elements[i], wanted.elements[i], 1e-5) << i;
  }
}

TEST(PivotedElimination, TakesAsLongAsItsEstimate) {
  for (const Sizes& of :
       std::vector<Sizes>{{1, 24, 24}, {1, 126, 126}, {8, 64, 64}, {5, 72, 40}, {1, 300, 60}}) {
    const Batch given = random_batch(of.count, of.rows, of.columns, 11);
    CoreArguments arguments;
    arguments.parameters = {given.bytes()};
    const CompiledRun run = run_compiled(hlo::read_hlo_text("test", text_of(given)), {arguments});
    const auto extent = [](std::size_t size) { return static_cast<std::int64_t>(size); };
    const double estimate = compiler::pivoted_elimination_cycles(
        {extent(of.count), extent(of.rows), extent(of.columns)}, compiler::Target());
    EXPECT_NEAR(static_cast<double>(run.result.cycles) / estimate, 1, 0.25)
        << of.count << " of " << of.rows << " x " << of.columns;
  }
}

}  // namespace
}  // namespace tpu::test::pivoted_elimination_test
