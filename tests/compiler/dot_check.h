#pragma once

#include <string>
#include <vector>

#include "tests/compiler/kernel_harness.h"
#include "tests/compiler/padded_array.h"
#include "workloads/compiler/kernels/contraction/dot_kernel.h"
#include "workloads/compiler/kernels/lowering.h"
#include "workloads/graph/graph.h"

namespace tpu::test {

/// A dot of two parameters.
struct DotCase {
  using Extents = std::vector<std::int64_t>;
  std::string name;
  Extents lhs, rhs;
  hlo::DotDimensions dims;
  hlo::ElementType lhs_type = hlo::ElementType::kF32, rhs_type = hlo::ElementType::kF32;
  hlo::ElementType out_type = hlo::ElementType::kF32;
  /// Minor to major; empty: row-major.
  Extents lhs_layout = {};
  Extents rhs_layout = {};
  Extents out_layout = {};
  compiler::OperandParts parts = {1, 1};  ///< Of both sides.
};

inline const hlo::DotDimensions kPlain{{}, {}, {1}, {0}};
inline const hlo::DotDimensions kRightTransposed{{}, {}, {1}, {1}};
inline const hlo::DotDimensions kLeftTransposed{{}, {}, {0}, {0}};

compiler::Target v2_target();

/// A module with that dot alone.
hlo::Module dot_module(const DotCase& test);

/// What a product takes of a value that it takes in so many parts.
double taken_in_parts(float value, std::uint32_t parts);
/// The largest difference that the order of sums explains, and what products of the least parts
/// are, which are left out.
double tolerance_of(hlo::ElementType type, const compiler::OperandParts& parts, double expected);

/// The dot by loops over its indices, of operands as they are taken, summed in double.
std::vector<float> expected_dot(const DotCase& test, const std::vector<float>& lhs,
                                const std::vector<float>& rhs);

/// Compiles and runs the dot and compares what comes out with `expected`: computed where it is
/// empty.
void check_dot(const DotCase& test, const compiler::Target& target, std::vector<float>& expected);
void check_dot(const DotCase& test, const compiler::Target& target);
/// On cores of v3 and v2.
void check_dot(const DotCase& test);

/// The kernels of one product, cut in different ways.
class CutDot {
 public:
  explicit CutDot(const DotCase& test, bool keeps_matrices = false);

  const compiler::DotProblem& problem() const { return problem_; }
  void take_lanes();
  void check(const compiler::DotTiling& tiling, const compiler::Target& target) const;

 private:
  hlo::Module module_;
  const hlo::Computation& computation_;
  compiler::MatmulEpilogue epilogue_;
  compiler::DotProblem problem_;
  PaddedArray lhs_, rhs_;
  std::vector<float> expected_;
  compiler::OperandParts parts_;
};

}  // namespace tpu::test
