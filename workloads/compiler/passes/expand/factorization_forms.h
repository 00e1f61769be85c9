#pragma once

#include <cstdint>
#include <string>

#include "workloads/compiler/cost.h"
#include "workloads/compiler/target.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// A custom call that large factorizations leave for their diagonal blocks: the factor of Cholesky
/// of a block's lower triangle and the factor's inverse.
constexpr const char* kCholeskyAndInverse = "tpusim.CholeskyAndInverse";
/// Likewise: the inverse of a triangle, which is described as that of a `triangular-solve`.
constexpr const char* kTriangularInverse = "tpusim.TriangularInverse";

/// Whether the operation's text has this attribute.
bool says(const hlo::HloInstruction& instruction, const char* attribute);
bool calls(const hlo::HloInstruction& instruction, const char* target);

/// Of shapes that fit each other; what does not is refused with other unknown operations.
bool is_factorization(const hlo::Computation& code, const hlo::HloInstruction& call);

/// What a `triangular-solve` says: op(A) X = B, or X op(A) = B.
struct TriangularOptions {
  TriangularOptions() = default;
  explicit TriangularOptions(const hlo::HloInstruction& solve);
  std::string attributes() const;

  bool is_left = false, is_lower = false, is_unit = false, is_transposed = false;
};

/// Blocks that a factorization may have: of kSmallestBlock, twice as much and so on; larger ones
/// than kLargestLoopBlock have blocks themselves.
constexpr std::int64_t kSmallestBlock = 64, kLargestLoopBlock = 128;
/// Columns of a half, at least, and what it is a multiple of.
constexpr std::int64_t kFewestColumns = 32;

/// Cycles of factorizations of so many matrices at once, and the block that takes least; 0: as
/// loops over the columns of the whole.
class FactorizationEstimate {
 public:
  struct Choice {
    std::int64_t block = 0;
    double cycles = 0;
  };
  FactorizationEstimate(const Target& target, std::int64_t matrices)
      : target_(target), matrices_(matrices) {}

  Choice cholesky(std::int64_t n) const;
  Choice triangular_system(std::int64_t n, std::int64_t right) const;
  /// The block: columns of the first half.
  Choice lu(std::int64_t rows, std::int64_t columns) const;
  Choice qr(std::int64_t rows, std::int64_t columns) const;
  /// The block: all reflections.
  Choice reflectors(std::int64_t rows, std::int64_t columns, std::int64_t count) const;

 private:
  static std::int64_t half_of(std::int64_t rows, std::int64_t columns);
  /// Steps of so many cycles, each of which changes so many registers.
  double loop(std::int64_t steps, double step, double changed) const;
  double reflected(std::int64_t rows, std::int64_t count, std::int64_t columns) const;
  double in_order(std::int64_t rows, std::int64_t columns) const;
  double eliminated(std::int64_t matrices, std::int64_t n) const;
  double in_place(double kernel, std::int64_t rows, std::int64_t columns) const;
  /// A product of matrices as precise as f32, taken off another matrix.
  double product(std::int64_t rows, std::int64_t terms, std::int64_t columns) const;
  /// Those between the halves of a triangular system.
  double shares(std::int64_t blocks, std::int64_t block, std::int64_t right) const;

  const Target& target_;
  std::int64_t matrices_;
};

}  // namespace tpu::compiler
