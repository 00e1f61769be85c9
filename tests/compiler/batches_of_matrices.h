#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/compiler/run_compiled.h"
#include "workloads/hlo/hlo_reader.h"

namespace tpu::test {

/// Matrices one after the other, row by row.
struct Batch {
  std::size_t count = 1, rows = 0, columns = 0;
  std::vector<double> elements;

  Batch(std::size_t count, std::size_t rows, std::size_t columns)
      : count(count), rows(rows), columns(columns), elements(count * rows * columns) {}
  double& at(std::size_t matrix, std::size_t row, std::size_t column) {
    return elements[(matrix * rows + row) * columns + column];
  }
  double at(std::size_t matrix, std::size_t row, std::size_t column) const {
    return elements[(matrix * rows + row) * columns + column];
  }
  std::string type() const {
    return "f32[" + std::to_string(count) + "," + std::to_string(rows) + "," +
           std::to_string(columns) + "]";
  }
  Bytes bytes() const {
    Bytes made;
    for (const double element : elements) {
      const auto number = static_cast<float>(element);
      std::uint8_t word[4];
      std::memcpy(word, &number, 4);
      made.insert(made.end(), word, word + 4);
    }
    return made;
  }
};

inline Batch random_batch(std::size_t count, std::size_t rows, std::size_t columns,
                          std::uint32_t seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  Batch made(count, rows, columns);
  for (double& element : made.elements) element = static_cast<double>(uniform(engine));
  return made;
}

inline Batch product(const Batch& a, const Batch& b) {
  Batch made(a.count, a.rows, b.columns);
  for (std::size_t m = 0; m < a.count; ++m) {
    for (std::size_t i = 0; i < a.rows; ++i) {
      for (std::size_t j = 0; j < b.columns; ++j) {
        for (std::size_t k = 0; k < a.columns; ++k)
          made.at(m, i, j) += a.at(m, i, k) * b.at(m, k, j);
      }
    }
  }
  return made;
}

inline Batch transposed(const Batch& a) {
  Batch made(a.count, a.columns, a.rows);
  for (std::size_t m = 0; m < a.count; ++m) {
    for (std::size_t i = 0; i < a.rows; ++i) {
      for (std::size_t j = 0; j < a.columns; ++j) made.at(m, j, i) = a.at(m, i, j);
    }
  }
  return made;
}

/// The triangle (with 1 on the diagonal where it is a unit), 0 elsewhere.
inline Batch triangle_of(const Batch& a, bool lower, bool unit) {
  Batch made = a;
  for (std::size_t m = 0; m < a.count; ++m) {
    for (std::size_t i = 0; i < a.rows; ++i) {
      for (std::size_t j = 0; j < a.columns; ++j) {
        if (lower ? j > i : j < i) made.at(m, i, j) = 0;
        if (unit && i == j) made.at(m, i, j) = 1;
      }
    }
  }
  return made;
}

inline void expect_close(const Batch& found, const Batch& wanted, double tolerance = 2e-6) {
  EXPECT_LE(distance(found.elements, wanted.elements), tolerance);
}

inline std::vector<std::vector<double>> results_of(const std::string& text,
                                                   const std::vector<Batch>& arguments) {
  CoreArguments given;
  for (const Batch& argument : arguments) given.parameters.push_back(argument.bytes());
  const CompiledRun run = run_compiled(hlo::read_hlo_text("test", text), {given});
  std::vector<std::vector<double>> results;
  for (const compiler::HostArray& output : run.outputs[0]) results.push_back(numbers_of(output));
  return results;
}

inline std::string cholesky_text(std::size_t count, std::size_t size, bool lower) {
  const std::string type = Batch(count, size, size).type();
  return "HloModule t\n\nENTRY %main (a: " + type + ") -> " + type + " {\n  %a = " + type +
         " parameter(0)\n  ROOT %c = " + type +
         " cholesky(%a), lower=" + (lower ? "true" : "false") + "\n}\n";
}

/// Forms are bits: left, lower, unit diagonal, transposed.
inline std::string triangular_text(int forms, const Batch& a, const Batch& b) {
  const auto attribute = [](const char* name, bool value) {
    return value ? std::string(", ") + name + "=true" : std::string();
  };
  return "HloModule t\n\nENTRY %main (a: " + a.type() + ", b: " + b.type() + ") -> " + b.type() +
         " {\n  %a = " + a.type() + " parameter(0)\n  %b = " + b.type() +
         " parameter(1)\n  ROOT %x = " + b.type() + " triangular-solve(%a, %b)" +
         attribute("left_side", forms & 1) + attribute("lower", forms & 2) +
         attribute("unit_diagonal", forms & 4) +
         ", transpose_a=" + (forms & 8 ? "TRANSPOSE" : "NO_TRANSPOSE") + "\n}\n";
}

/// A positive definite matrix, and the same with noise in one triangle.
struct PositiveDefinite {
  Batch matrix, given;

  PositiveDefinite(std::size_t count, std::size_t size, bool lower)
      : matrix(count, size, size), given(count, size, size) {
    const Batch root = random_batch(count, size, size, 1);
    matrix = product(root, transposed(root));
    for (std::size_t m = 0; m < count; ++m) {
      for (std::size_t i = 0; i < size; ++i) matrix.at(m, i, i) += 1;
    }
    given = matrix;
    const Batch noise = random_batch(count, size, size, 2);
    for (std::size_t m = 0; m < count; ++m) {
      for (std::size_t i = 0; i < size; ++i) {
        for (std::size_t j = i + 1; j < size; ++j) {
          (lower ? given.at(m, i, j) : given.at(m, j, i)) = noise.at(m, i, j);
        }
      }
    }
  }
};

}  // namespace tpu::test
