// QR by a kernel of its own: values, and what it takes.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/compiler/batches_of_matrices.h"
#include "workloads/compiler/ir/elimination.h"
#include "workloads/compiler/ir/kernel_forms.h"

namespace tpu::test::reflections_test {
namespace {

struct Sizes {
  std::size_t count, rows, columns;
};

std::string text_of(const Batch& given) {
  const std::string made = Batch(given.count, given.rows, given.columns + 1).type();
  return "HloModule t\n\nENTRY %main (a: " + given.type() + ") -> " + made +
         " {\n  %a = " + given.type() + " parameter(0)\n  ROOT %r = " + made +
         " custom-call(%a), custom_call_target=\"" + compiler::kReflections + "\"\n}\n";
}

Batch reflected(const Batch& given) {
  Batch made(given.count, given.rows, given.columns + 1);
  made.elements = results_of(text_of(given), {given})[0];
  return made;
}

/// Reflects columns from i on, of what stands in double precision.
void reflect(Batch& all, std::size_t m, std::size_t i, std::size_t columns) {
  double rest = 0;
  for (std::size_t r = i + 1; r < all.rows; ++r) rest += all.at(m, r, i) * all.at(m, r, i);
  if (rest == 0) return;
  const double alpha = all.at(m, i, i), length = std::sqrt(alpha * alpha + rest);
  const double beta = alpha >= 0 ? -length : length, factor = (beta - alpha) / beta;
  for (std::size_t r = i + 1; r < all.rows; ++r) all.at(m, r, i) /= alpha - beta;
  for (std::size_t j = i + 1; j < columns; ++j) {
    double dot = all.at(m, i, j);
    for (std::size_t r = i + 1; r < all.rows; ++r) dot += all.at(m, r, i) * all.at(m, r, j);
    all.at(m, i, j) -= factor * dot;
    for (std::size_t r = i + 1; r < all.rows; ++r) {
      all.at(m, r, j) -= factor * dot * all.at(m, r, i);
    }
  }
  all.at(m, i, i) = beta;
  all.at(m, i, columns) = factor;
}

Batch expected(const Batch& given) {
  Batch made(given.count, given.rows, given.columns + 1);
  for (std::size_t m = 0; m < given.count; ++m) {
    for (std::size_t i = 0; i < given.rows; ++i) {
      for (std::size_t j = 0; j < given.columns; ++j) made.at(m, i, j) = given.at(m, i, j);
    }
    for (std::size_t i = 0; i < std::min(given.rows, given.columns); ++i) {
      reflect(made, m, i, given.columns);
    }
  }
  return made;
}

/// Tall and wide ones, rows that end inside of a tile, more matrices than a group has, all lanes.
TEST(Reflections, LeaveTrianglesAndTheirVectors) {
  for (const Sizes& of : std::vector<Sizes>{{1, 1, 1},
                                            {1, 12, 12},
                                            {3, 21, 9},
                                            {2, 5, 40},
                                            {35, 6, 6},
                                            {1, 77, 127},
                                            {1, 300, 17},
                                            {1, 300, 32}}) {
    SCOPED_TRACE(std::to_string(of.count) + " of " + std::to_string(of.rows) + " x " +
                 std::to_string(of.columns));
    const Batch given = random_batch(of.count, of.rows, of.columns, 12);
    expect_close(reflected(given), expected(given), 5e-6);
  }
}

/// Columns that are 0 below their diagonal stay: their factor is 0.
TEST(Reflections, LeaveColumnsThatAreDone) {
  Batch given = random_batch(2, 9, 9, 4);
  for (std::size_t i = 1; i < 9; ++i) given.at(1, i, 0) = 0;
  for (std::size_t i = 0; i < 9; ++i) given.at(0, i, 3) = 0;
  const Batch made = reflected(given);
  EXPECT_EQ(made.at(1, 0, 9), 0);
  EXPECT_EQ(made.at(0, 3, 9), 0);
  EXPECT_EQ(made.at(0, 3, 3), 0);
  expect_close(made, expected(given), 5e-6);
}

TEST(Reflections, TakeAsLongAsTheirEstimate) {
  for (const Sizes& of :
       std::vector<Sizes>{{1, 24, 24}, {1, 126, 126}, {8, 64, 64}, {5, 72, 40}, {1, 300, 60}}) {
    const Batch given = random_batch(of.count, of.rows, of.columns, 12);
    CoreArguments arguments;
    arguments.parameters = {given.bytes()};
    const CompiledRun run = run_compiled(hlo::read_hlo_text("test", text_of(given)), {arguments});
    const auto extent = [](std::size_t size) { return static_cast<std::int64_t>(size); };
    const double estimate = compiler::reflections_cycles(
        {extent(of.count), extent(of.rows), extent(of.columns)}, compiler::Target());
    EXPECT_NEAR(static_cast<double>(run.result.cycles) / estimate, 1, 0.25)
        << of.count << " of " << of.rows << " x " << of.columns;
  }
}

}  // namespace
}  // namespace tpu::test::reflections_test
