// Factorizations and triangular systems: what they are the factors, or the solution, of comes out
// of their results again.

#include "workloads/compiler/passes/expand/factorization_expander.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "sim/base/error.h"
#include "tests/compiler/batches_of_matrices.h"
#include "tests/compiler/run_compiled.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test::factorization_expander_test {
namespace {

struct Shape {
  std::size_t count, rows, columns;
};

/// The other triangle is not read. Sizes below, of and above a block, and of several blocks whose
/// last one is smaller.
TEST(FactorizationExpander, FactorOfCholeskyTimesItselfIsTheMatrix) {
  for (const bool lower : {true, false}) {
    for (const auto& [count, size] : std::vector<std::pair<std::size_t, std::size_t>>{
             {3, 21}, {150, 5}, {1, 127}, {1, 128}, {1, 129}, {2, 300}}) {
      SCOPED_TRACE((lower ? "lower " : "upper ") + std::to_string(size));
      const PositiveDefinite of(count, size, lower);
      Batch factor(count, size, size);
      factor.elements = results_of(cholesky_text(count, size, lower), {of.given})[0];
      const Batch other = transposed(factor);
      expect_close(lower ? product(factor, other) : product(other, factor), of.matrix, 6e-7);
      expect_close(factor, triangle_of(factor, lower, false), 0);
    }
  }
}

/// op(A) X = B or X op(A) = B of random triangles and others beside them.
void expect_solution(int forms, const Shape& triangle_and_others) {
  const bool left = forms & 1, lower = forms & 2, unit = forms & 4, turned = forms & 8;
  const auto [count, size, others] = triangle_and_others;
  SCOPED_TRACE("form " + std::to_string(forms) + " of " + std::to_string(size));
  Batch a = random_batch(count, size, size, 3);
  for (double& element : a.elements) element /= std::max(4.0, static_cast<double>(size) / 8);
  for (std::size_t m = 0; m < count; ++m) {
    for (std::size_t i = 0; i < size; ++i) a.at(m, i, i) += i % 2 == 0 ? 2 : -2;
  }
  const Batch b =
      left ? random_batch(count, size, others, 4) : random_batch(count, others, size, 4);
  Batch x = b;
  x.elements = results_of(triangular_text(forms, a, b), {a, b})[0];
  const Batch triangle = triangle_of(a, lower, unit);
  const Batch operand = turned ? transposed(triangle) : triangle;
  expect_close(left ? product(operand, x) : product(x, operand), b, 6e-7);
}

TEST(FactorizationExpander, SolutionsOfTriangularSystemsSolveThem) {
  for (int forms = 0; forms < 16; ++forms) {
    expect_solution(forms, {2, 13, 9});
    expect_solution(forms, {1, 150, 70});
  }
  for (const int forms : {3, 12}) {
    for (const Shape& shape : std::vector<Shape>{
             {1, 127, 1}, {1, 128, 200}, {1, 129, 33}, {1, 300, 3}, {2, 300, 64}, {1, 600, 1}}) {
      expect_solution(forms, shape);
    }
  }
}

/// 96 systems of 32 rows are three parts: their state would not stay in VMEM together. The loop
/// over columns wants rows in the lanes and matrices in the sublanes, where no part can be cut off.
/// Whether a loop of the module has an array of these extents behind its counter and its triangle.
bool loops_over(const hlo::Module& module, const std::vector<std::int64_t>& extents) {
  for (const hlo::Computation& computation : module.computations) {
    for (const hlo::HloInstruction& each : computation.instructions) {
      const bool is_loop = each.opcode == hlo::HloOpcode::kWhile && each.shape.elements.size() == 3;
      if (is_loop && each.shape.elements[2].dimensions == extents) return true;
    }
  }
  return false;
}

/// As many matrices as fit VMEM: of many small ones the lanes are matrices, 128 at a time, of fewer
/// large ones they are columns.
TEST(FactorizationExpander, ManyTriangularSystemsAreSolvedInParts) {
  struct Case {
    std::size_t matrices, n;
    std::vector<std::int64_t> part;
  };
  for (const Case& each : {Case{384, 32, {32, 32, 128}}, Case{48, 60, {24, 60, 60}}}) {
    Batch a = random_batch(each.matrices, each.n, each.n, 11);
    const Batch b = random_batch(each.matrices, each.n, each.n, 12);
    for (double& element : a.elements) element /= 8;
    for (std::size_t m = 0; m < each.matrices; ++m) {
      for (std::size_t i = 0; i < each.n; ++i) a.at(m, i, i) += m % 2 == 0 ? 2 : -2;
    }
    const std::string text = "HloModule t\n\nENTRY %main (a: " + a.type() + ", b: " + b.type() +
                             ") -> " + b.type() + " {\n  %a = " + a.type() +
                             " parameter(0)\n  %b = " + b.type() +
                             " parameter(1)\n  ROOT %x = " + b.type() +
                             " triangular-solve(%a, %b), left_side=true, lower=true, "
                             "transpose_a=NO_TRANSPOSE\n}\n";
    hlo::Module module = hlo::read_hlo_text("test", text);
    compiler::expand_factorizations(module, compiler::Target());
    EXPECT_TRUE(loops_over(module, each.part)) << each.n;
    Batch x = b;
    x.elements = results_of(text, {a, b})[0];
    expect_close(product(triangle_of(a, true, false), x), b);
  }
}

/// A loop in VMEM whose registers are 1,024 elements of 128 matrices: no more than 24 cycles a
/// column for each of them.
TEST(FactorizationExpander, LanesAreMatricesOfABatch) {
  constexpr std::size_t n = 64, registers = n * n * 128 / 1024;
  const PositiveDefinite of(128, n, true);
  CoreArguments given;
  given.parameters = {of.given.bytes()};
  const CompiledRun run =
      run_compiled(hlo::read_hlo_text("test", cholesky_text(128, n, true)), {given});
  Batch factor(128, n, n);
  factor.elements = numbers_of(run.outputs[0][0]);
  expect_close(product(factor, transposed(factor)), of.matrix, 6e-7);
  EXPECT_LT(run.result.cycles, n * registers * 24);
}

/// Results of a tuple, too: parts of 48.
TEST(FactorizationExpander, ManyMatricesAreFactorizedInParts) {
  const Batch a = random_batch(96, 9, 9, 13);
  const std::string types = "(" + a.type() + ", s32[96,9], s32[96,9])";
  const auto results =
      results_of("HloModule t\n\nENTRY %main (a: " + a.type() + ") -> " + types +
                     " {\n  %a = " + a.type() + " parameter(0)\n  ROOT %f = " + types +
                     " custom-call(%a), custom_call_target=\"LuDecomposition\"\n}\n",
                 {a});
  Batch factors = a, ordered = a;
  factors.elements = results[0];
  for (std::size_t m = 0; m < 96; ++m) {
    for (std::size_t i = 0; i < 9; ++i) {
      for (std::size_t j = 0; j < 9; ++j) {
        ordered.at(m, i, j) = a.at(m, static_cast<std::size_t>(results[2][m * 9 + i]), j);
      }
    }
  }
  expect_close(product(triangle_of(factors, true, true), triangle_of(factors, false, false)),
               ordered);
}

/// Of one triangle; the second matrix has an eigenvalue twice and nothing to turn, odd sizes are
/// padded. Many small matrices are a loop.
TEST(EigenExpander, VectorsAndValuesOfEighAreThoseOfTheMatrix) {
  struct Case {
    std::size_t count, size;
    bool lower;
  };
  for (const auto& [count, size, lower] :
       std::vector<Case>{{2, 1, true}, {2, 2, false}, {2, 5, true}, {2, 8, true}, {24, 5, false}}) {
    SCOPED_TRACE(std::to_string(count) + " of " + std::to_string(size));
    const Batch root = random_batch(count, size, size, 8);
    Batch matrix = root;
    for (std::size_t m = 0; m < count; ++m) {
      for (std::size_t i = 0; i < size; ++i) {
        for (std::size_t j = 0; j < size; ++j) {
          matrix.at(m, i, j) = m != 1   ? root.at(m, i, j) + root.at(m, j, i)
                               : i != j ? 0
                               : i < 2  ? -1
                                        : 1 - static_cast<double>(i);
        }
      }
    }
    Batch given = matrix;
    for (std::size_t i = 0; i < size; ++i) {
      for (std::size_t j = i + 1; j < size; ++j) {
        (lower ? given.at(0, i, j) : given.at(0, j, i)) = 7;
      }
    }
    const std::string types =
        "(" + given.type() + ", f32[" + std::to_string(count) + "," + std::to_string(size) + "])";
    const auto results =
        results_of("HloModule t\n\nENTRY %main (a: " + given.type() + ") -> " + types +
                       " {\n  %a = " + given.type() + " parameter(0)\n  ROOT %e = " + types +
                       " custom-call(%a), custom_call_target=\"Eigh\", backend_config=\"" +
                       (lower ? "1" : "0") + ",1,100,1e-6\"\n}\n",
                   {given});
    Batch vectors(count, size, size), scaled = vectors, unit = vectors;
    vectors.elements = scaled.elements = results[0];
    for (std::size_t m = 0; m < count; ++m) {
      for (std::size_t j = 0; j < size; ++j) {
        const double value = results[1][m * size + j];
        if (j > 0) {
          EXPECT_LE(results[1][m * size + j - 1], value);
        }
        for (std::size_t i = 0; i < size; ++i) scaled.at(m, i, j) *= value;
        unit.at(m, j, j) = 1;
      }
    }
    expect_close(product(scaled, transposed(vectors)), matrix);
    expect_close(product(vectors, transposed(vectors)), unit);
  }
}

TEST(FactorizationExpander, FactorsOfLuAreThoseOfTheMatrixWithItsRowsInOrder) {
  for (const auto& [rows, columns] : std::vector<std::pair<std::size_t, std::size_t>>{
           {12, 12}, {17, 5}, {6, 11}, {129, 129}, {300, 127}, {140, 300}, {520, 9}}) {
    SCOPED_TRACE(std::to_string(rows) + "x" + std::to_string(columns));
    const std::size_t steps = std::min(rows, columns);
    Batch a = random_batch(2, rows, columns, 5);
    for (std::size_t i = 0; i < rows; ++i) a.at(1, i, 2) = 0;  // No pivot.
    const std::string pivots = "s32[2," + std::to_string(steps) + "]";
    const std::string order = "s32[2," + std::to_string(rows) + "]";
    const std::string types = "(" + a.type() + ", " + pivots + ", " + order + ")";
    const auto results =
        results_of("HloModule t\n\nENTRY %main (a: " + a.type() + ") -> " + types +
                       " {\n  %a = " + a.type() + " parameter(0)\n  ROOT %lu = " + types +
                       " custom-call(%a), custom_call_target=\"LuDecomposition\"\n}\n",
                   {a});
    Batch factors(2, rows, columns), lower(2, rows, steps), upper(2, steps, columns), moved = a;
    factors.elements = results[0];
    for (std::size_t m = 0; m < 2; ++m) {
      std::vector<double> swapped(rows);
      for (std::size_t i = 0; i < rows; ++i) swapped[i] = static_cast<double>(i);
      for (std::size_t i = 0; i < steps; ++i) {
        std::swap(swapped[i], swapped[static_cast<std::size_t>(results[1][m * steps + i])]);
      }
      for (std::size_t i = 0; i < rows; ++i) {
        const double from = results[2][m * rows + i];
        EXPECT_EQ(from, swapped[i]) << "row " << i;
        for (std::size_t j = 0; j < columns; ++j) {
          moved.at(m, i, j) = a.at(m, static_cast<std::size_t>(from), j);
          if (j < i && j < steps) {
            lower.at(m, i, j) = factors.at(m, i, j);
            EXPECT_LE(std::abs(factors.at(m, i, j)), 1.0);
          }
          if (i <= j && i < steps) upper.at(m, i, j) = factors.at(m, i, j);
        }
        if (i < steps) lower.at(m, i, i) = 1;
      }
    }
    expect_close(product(lower, upper), moved);
  }
}

TEST(FactorizationExpander, ReflectionsOfQrMakeAnOrthogonalFactor) {
  for (const auto& [rows, columns] : std::vector<std::pair<std::size_t, std::size_t>>{
           {10, 10}, {19, 6}, {300, 129}, {257, 257}, {520, 9}}) {
    SCOPED_TRACE(std::to_string(rows) + "x" + std::to_string(columns));
    const Batch a = random_batch(2, rows, columns, 6);
    const std::string taus = "f32[2," + std::to_string(columns) + "]";
    const std::string types = "(" + a.type() + ", " + taus + ")";
    const auto results = results_of(
        "HloModule t\n\nENTRY %main (a: " + a.type() + ") -> (" + a.type() + ", " + a.type() +
            ") {\n  %a = " + a.type() + " parameter(0)\n  %qr = " + types +
            " custom-call(%a), custom_call_target=\"Qr\"\n  %v = " + a.type() +
            " get-tuple-element(%qr), index=0\n  %t = " + taus +
            " get-tuple-element(%qr), index=1\n  %q = " + a.type() +
            " custom-call(%v, %t), "
            "custom_call_target=\"ProductOfElementaryHouseholderReflectors\"\n  ROOT %both = (" +
            a.type() + ", " + a.type() + ") tuple(%v, %q)\n}\n",
        {a});
    Batch vectors(2, rows, columns), q = vectors, r(2, columns, columns), one = r;
    vectors.elements = results[0];
    q.elements = results[1];
    for (std::size_t m = 0; m < 2; ++m) {
      for (std::size_t i = 0; i < columns; ++i) {
        one.at(m, i, i) = 1;
        for (std::size_t j = i; j < columns; ++j) r.at(m, i, j) = vectors.at(m, i, j);
      }
    }
    expect_close(product(q, r), a);
    expect_close(product(transposed(q), q), one);
  }
}

/// Results of one call of LAPACK, as JAX writes it where it lowers for the CPU.
std::vector<std::vector<double>> results_of_lapack(const std::string& routine,
                                                   const std::string& options,
                                                   const std::string& types,
                                                   const std::vector<Batch>& operands) {
  std::string parameters, declared, names;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const std::string name = "a" + std::to_string(i), type = operands[i].type();
    parameters += (i > 0 ? ", " : "") + name + ": " + type;
    declared += "  %" + name + " = " + type + " parameter(" + std::to_string(i) + ")\n";
    names += (i > 0 ? ", %" : "%") + name;
  }
  return results_of(
      "HloModule t\n\nENTRY %main (" + parameters + ") -> " + types + " {\n" + declared +
          "  ROOT %r = " + types + " custom-call(" + names + "), custom_call_target=\"" + routine +
          "\", api_version=API_VERSION_TYPED_FFI, backend_config={" + options + "}\n}\n",
      operands);
}

/// The second matrix has no factor. What is not the factor stays what it was.
TEST(LapackCalls, CholeskyKeepsTheOtherTriangleAndSaysWhereThereIsNoFactor) {
  for (const bool lower : {true, false}) {
    SCOPED_TRACE(lower ? "lower" : "upper");
    const Batch root = random_batch(2, 7, 7, 11);
    Batch matrix = product(root, transposed(root));
    for (std::size_t i = 0; i < 7; ++i) {
      matrix.at(0, i, i) += 1;
      matrix.at(1, i, i) -= 9;
      for (std::size_t j = i + 1; j < 7; ++j) {
        (lower ? matrix.at(0, i, j) : matrix.at(0, j, i)) = 7;
      }
    }
    const auto results = results_of_lapack(
        "lapack_spotrf_ffi", std::string("uplo = ") + (lower ? "76" : "85") + " : ui8",
        "(" + matrix.type() + ", s32[2])", {matrix});
    Batch factor(1, 7, 7), given(1, 7, 7);
    for (std::size_t i = 0; i < 7; ++i) {
      for (std::size_t j = 0; j < 7; ++j) {
        factor.at(0, i, j) = results[0][i * 7 + j];
        given.at(0, i, j) = lower ? matrix.at(0, std::max(i, j), std::min(i, j))
                                  : matrix.at(0, std::min(i, j), std::max(i, j));
        if (lower ? j > i : j < i) {
          EXPECT_EQ(factor.at(0, i, j), 7);
        }
      }
    }
    const Batch triangle = triangle_of(factor, lower, false);
    expect_close(
        lower ? product(triangle, transposed(triangle)) : product(transposed(triangle), triangle),
        given);
    EXPECT_EQ(results[1], (std::vector<double>{0, 1}));
  }
}

TEST(LapackCalls, TriangularSystemsAreThoseOfTheirLetters) {
  for (const int forms : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}) {
    const bool left = forms & 1, lower = forms & 2, unit = forms & 4, turned = forms & 8;
    SCOPED_TRACE("form " + std::to_string(forms));
    Batch a = random_batch(2, 6, 6, 12);
    for (double& element : a.elements) element /= 4;
    for (std::size_t m = 0; m < 2; ++m) {
      for (std::size_t i = 0; i < 6; ++i) a.at(m, i, i) += 2;
    }
    const Batch b = left ? random_batch(2, 6, 4, 13) : random_batch(2, 4, 6, 13);
    const auto letter = [](const char* name, bool first, char yes, char no) {
      return std::string(name) + " = " + std::to_string(first ? yes : no) + " : ui8";
    };
    Batch x = b;
    x.elements = results_of_lapack(
        "lapack_strsm_ffi",
        letter("diag", unit, 'U', 'N') + ", " + letter("side", left, 'L', 'R') + ", " +
            letter("trans_x", turned, 'T', 'N') + ", " + letter("uplo", lower, 'L', 'U'),
        b.type(), {a, b})[0];
    const Batch triangle = triangle_of(a, lower, unit);
    const Batch operand = turned ? transposed(triangle) : triangle;
    expect_close(left ? product(operand, x) : product(x, operand), b);
  }
}

/// Pivots count rows from 1, one behind the other: row i and that of pivot i have changed places.
TEST(LapackCalls, PivotsOfLuCountFromOne) {
  const Batch a = random_batch(2, 9, 6, 14);
  const auto results =
      results_of_lapack("lapack_sgetrf_ffi", "", "(" + a.type() + ", s32[2,6], s32[2])", {a});
  Batch lower(2, 9, 6), upper(2, 6, 6), moved = a;
  for (std::size_t m = 0; m < 2; ++m) {
    for (std::size_t i = 0; i < 6; ++i) {
      const auto pivot = static_cast<std::size_t>(results[1][m * 6 + i]);
      ASSERT_GE(pivot, i + 1);
      ASSERT_LE(pivot, 9U);
      for (std::size_t j = 0; j < 6; ++j) std::swap(moved.at(m, i, j), moved.at(m, pivot - 1, j));
    }
    for (std::size_t i = 0; i < 9; ++i) {
      for (std::size_t j = 0; j < 6; ++j) {
        const double element = results[0][(m * 9 + i) * 6 + j];
        if (j < i) lower.at(m, i, j) = element;
        if (i <= j) upper.at(m, i, j) = element;
        if (i == j) lower.at(m, i, j) = 1;
      }
    }
  }
  expect_close(product(lower, upper), moved);
  EXPECT_EQ(results[2], (std::vector<double>{0, 0}));
}

TEST(LapackCalls, QrAndItsFactorAreThoseOfTheTpu) {
  const Batch a = random_batch(2, 8, 5, 15);
  const std::string taus = "f32[2,5]", pair = "(" + a.type() + ", " + taus + ")";
  const auto program = [&](const char* qr, const char* product) {
    return "HloModule t\n\nENTRY %main (a: " + a.type() + ") -> " + a.type() +
           " {\n  %a = " + a.type() + " parameter(0)\n  %qr = " + pair +
           " custom-call(%a), custom_call_target=\"" + qr + "\"\n  %v = " + a.type() +
           " get-tuple-element(%qr), index=0\n  %t = " + taus +
           " get-tuple-element(%qr), index=1\n  ROOT %q = " + a.type() +
           " custom-call(%v, %t), custom_call_target=\"" + product + "\"\n}\n";
  };
  EXPECT_EQ(results_of(program("lapack_sgeqrf_ffi", "lapack_sorgqr_ffi"), {a}),
            results_of(program("Qr", "ProductOfElementaryHouseholderReflectors"), {a}));
}

TEST(LapackCalls, EigenvaluesComeWithInfoOfTheTriangleAskedFor) {
  for (const bool lower : {true, false}) {
    const Batch a = random_batch(2, 6, 6, 16);
    const auto tpu = results_of("HloModule t\n\nENTRY %main (a: " + a.type() + ") -> (" + a.type() +
                                    ", f32[2,6]) {\n  %a = " + a.type() +
                                    " parameter(0)\n  ROOT %e = (" + a.type() +
                                    ", f32[2,6]) custom-call(%a), custom_call_target=\"Eigh\", "
                                    "backend_config=\"" +
                                    (lower ? "1" : "0") + ",1,100,1e-6\"\n}\n",
                                {a});
    const auto lapack = results_of_lapack(
        "lapack_ssyevd_ffi",
        std::string("mode = 86 : ui8, uplo = ") + (lower ? "76" : "85") + " : ui8",
        "(" + a.type() + ", f32[2,6], s32[2])", {a});
    EXPECT_EQ(lapack[0], tpu[0]);
    EXPECT_EQ(lapack[1], tpu[1]);
    EXPECT_EQ(lapack[2], (std::vector<double>{0, 0}));
  }
}

/// Singular values have no kernel: the refusal says how to lower the program without them.
TEST(LapackCalls, OthersAreRefusedWithTheWayToTheTpu) {
  const Batch a = random_batch(1, 4, 4, 17);
  try {
    results_of_lapack("lapack_sgesdd_ffi", "mode = 78 : ui8",
                      "(" + a.type() + ", f32[1,4], " + a.type() + ", " + a.type() + ", s32[1])",
                      {a});
    FAIL() << "expected a refusal";
  } catch (const WorkloadError& error) {
    EXPECT_NE(std::string(error.what()).find("lowering_platforms=(\"tpu\",)"), std::string::npos)
        << error.what();
  }
}

TEST(FactorizationExpander, ShapesThatDoNotFitAreLeftToTheListOfRefusals) {
  for (const char* body :
       {"ROOT %c = f32[8,128] cholesky(%a), lower=true",
        "ROOT %x = f32[8,128] triangular-solve(%a, %a), left_side=true, lower=true, "
        "transpose_a=NO_TRANSPOSE"}) {
    hlo::Module module = hlo::read_hlo_text(
        "test", std::string("HloModule t\n\nENTRY %main (a: f32[8,128]) -> f32[8,128] {\n  %a = "
                            "f32[8,128] parameter(0)\n  ") +
                    body + "\n}\n");
    compiler::expand_factorizations(module, compiler::Target());
    EXPECT_EQ(module.computations.size(), 1U) << body;
  }
}

}  // namespace
}  // namespace tpu::test::factorization_expander_test
