#include <algorithm>
#include <optional>
#include <utility>

#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"
#include "workloads/compiler/ir/around_product.h"
#include "workloads/compiler/kernels/contraction/convolution_depthwise_kernel.h"
#include "workloads/compiler/kernels/contraction/convolution_kernel.h"
#include "workloads/compiler/kernels/contraction/convolution_lanes_kernel.h"
#include "workloads/compiler/kernels/contraction/convolution_lanes_weights_kernel.h"
#include "workloads/compiler/kernels/contraction/convolution_lanes_weights_tiling.h"
#include "workloads/compiler/kernels/contraction/convolution_weights_kernel.h"
#include "workloads/compiler/kernels/contraction/convolution_weights_tiling.h"
#include "workloads/compiler/kernels/contraction/dot_kernel.h"
#include "workloads/compiler/kernels/contraction/matmul_memory.h"
#include "workloads/compiler/kernels/lowering.h"

namespace tpu::compiler {

namespace {

/// Rows that a weight gradient contracts of each pixel, or of each row of an image.
std::uint32_t contracted_of_line(const ConvolutionProblem& problem) {
  return problem.pixels_in_rows ? static_cast<std::uint32_t>(problem.spatial[1].window)
                                : problem.contracted;
}

/// A window of one position is a product of matrices over all pixels.
DotProblem as_product(const ConvolutionProblem& problem) {
  DotProblem dot;
  dot.name = problem.name;
  dot.lhs_type = problem.input_type;
  dot.rhs_type = problem.window_type;
  dot.parts = problem.parts;
  dot.result_types = problem.result_types;
  dot.has_epilogue = problem.has_epilogue;
  dot.epilogue_cost = problem.epilogue_cost;
  dot.epilogue_types = problem.epilogue_types;
  dot.resident_rows = problem.resident_rows;
  dot.made = problem.made;
  dot.n = problem.columns;
  const std::int64_t others = problem.pixels_in_rows ? problem.images : problem.spatial[1].input;
  const auto pixels = static_cast<std::uint32_t>(problem.spatial[0].input * others);
  if (problem.contracts_rows) {
    dot.lhs_transposed = true;
    dot.m = problem.rows;
    dot.k = pixels * contracted_of_line(problem);
    return dot;
  }
  dot.rhs_transposed = problem.window_transposed;
  dot.k = problem.contracted;
  // Padding rows between the pixels make padding rows of the result.
  dot.m = pixels * (round_up(problem.rows, 8));
  return dot;
}

/// Contracted rows must not be padding.
bool is_plain_product(const ConvolutionProblem& problem) {
  const bool even_rows = !problem.contracts_rows || contracted_of_line(problem) % 8 == 0;
  return problem.is_product() && even_rows;
}

[[noreturn]] void refuse_matrix(const hlo::HloInstruction& instruction) {
  throw WorkloadError(instruction.name + ": no kernel for " + hlo::to_string(instruction.shape) +
                      ": expected no matrix that is the same for all positions of the window "
                      "behind a weight gradient");
}

/// Whether its kernel makes the sides that are to be made. That of the convolution, which is small,
/// is never made.
bool makes_its_sides(const ConvolutionProblem& problem) {
  if (!problem.made[0].is_made && !problem.made[1].is_made) return true;
  if (problem.is_depthwise || (!problem.contracts_rows && problem.made[1].is_made)) return false;
  if (problem.batch_in_lanes) return true;
  return is_plain_product(problem) ? makes_sides(as_product(problem)) : !problem.pixels_in_rows;
}

/// What the search for a kernel expects; none where it finds no kernel.
std::optional<double> expected_cycles(const ConvolutionProblem& problem, const Target& target) {
  const auto cycles_of = [](auto tiling) -> std::optional<double> {
    if (!tiling) return std::nullopt;
    return tiling->cycles;
  };
  if (!makes_its_sides(problem)) return std::nullopt;
  if (problem.is_depthwise) return depthwise_cycles(problem, target);
  if (problem.batch_in_lanes) {
    const ConvolutionProblem flat = with_flat_pixels(problem);
    return problem.contracts_rows ? cycles_of(find_lanes_weights_tiling(flat, target))
                                  : cycles_of(find_lanes_tiling(flat, target));
  }
  if (is_plain_product(problem)) {
    DotProblem dot = as_product(problem);
    return cycles_of(choose_sides(dot, target));
  }
  return problem.contracts_rows ? cycles_of(find_weights_tiling(problem, target))
                                : cycles_of(find_convolution_tiling(problem, target));
}

[[noreturn]] void refuse_sides(const hlo::HloInstruction& instruction) {
  throw WorkloadError(instruction.name + ": no kernel for " + hlo::to_string(instruction.shape) +
                      ": expected sides of the product that stand in memory, or an image that is "
                      "made of others");
}

/// Of a convolution with an expression behind it, of which the arrays alone are known.
OrRefusal<ConvolutionProblem> problem_behind(const hlo::HloInstruction& convolution,
                                             const hlo::Shape& input, const hlo::Shape& window,
                                             const hlo::Shape& result,
                                             const AroundProduct& behind) {
  OrRefusal<ConvolutionProblem> problem = convolution_problem(convolution, input, window, result);
  if (!problem) return problem;
  problem->has_epilogue = behind.has_expression && !problem->is_depthwise;
  if (problem->has_epilogue) problem->epilogue_types = behind.read;
  problem->resident_rows = behind.resident_rows;
  problem->made = behind.sides;
  if (problem->made[0].is_made) problem->input_type = problem->made[0].type;
  if (problem->made[1].is_made) problem->window_type = problem->made[1].type;
  problem->result_types.insert(problem->result_types.end(), behind.made.begin(), behind.made.end());
  return problem;
}

}  // namespace

bool has_convolution_kernel(const hlo::HloInstruction& convolution, const hlo::Shape& input,
                            const hlo::Shape& window, const Target& target) {
  return has_convolution_kernel(convolution, input, window, convolution.shape,
                                std::vector{hlo::ElementType::kF32}, target);
}

bool has_convolution_kernel(const hlo::HloInstruction& convolution, const hlo::Shape& input,
                            const hlo::Shape& window, const hlo::Shape& result,
                            const std::vector<hlo::ElementType>& read, const Target& target) {
  AroundProduct behind;
  behind.read = read;
  OrRefusal<ConvolutionProblem> found = problem_behind(convolution, input, window, result, behind);
  if (!found) return false;
  const ConvolutionProblem& problem = *found;
  if (!problem.is_depthwise && problem.batch_in_lanes) {
    const ConvolutionProblem flat = with_flat_pixels(problem);
    return flat.contracts_rows ? has_lanes_weights_tiling(flat, target)
                               : has_lanes_tiling(flat, target);
  }
  if (!problem.is_depthwise && is_plain_product(problem)) return true;
  return expected_cycles(problem, target).has_value();
}

std::optional<double> convolution_cycles(const hlo::HloInstruction& convolution,
                                         const hlo::Shape& input, const hlo::Shape& window,
                                         const hlo::Shape& result, const AroundProduct& behind,
                                         const Target& target) {
  OrRefusal<ConvolutionProblem> problem =
      problem_behind(convolution, input, window, result, behind);
  if (!problem) return std::nullopt;
  return expected_cycles(*problem, target);
}

std::optional<double> convolution_cycles(const hlo::HloInstruction& convolution,
                                         const hlo::Shape& input, const hlo::Shape& window,
                                         const Target& target) {
  OrRefusal<ConvolutionProblem> problem =
      convolution_problem(convolution, input, window, convolution.shape);
  if (!problem) return std::nullopt;
  const std::optional<double> expected = expected_cycles(*problem, target);
  if (!expected) return std::nullopt;
  const double moved = static_cast<double>(input.padded_bytes() + window.padded_bytes() +
                                           convolution.shape.padded_bytes());
  return std::max(*expected, moved / target.hbm_bytes_per_cycle);
}

LoweredKernel lower_convolution(const hlo::Module& module, const hlo::Computation& computation,
                                const hlo::HloInstruction& instruction, const Target& target) {
  MatmulEpilogue epilogue = matmul_epilogue(module, computation, instruction);
  ConvolutionProblem problem = convolution_problem(*epilogue.product, epilogue.lhs_shape,
                                                   epilogue.rhs_shape, epilogue.out_shape)
                                   .value();
  problem.has_epilogue = epilogue.graph != nullptr;
  problem.epilogue_cost = epilogue.cost();
  problem.epilogue_types = epilogue.block_types();
  problem.resident_rows = epilogue.resident_rows();
  problem.result_types = epilogue.result_types();
  problem.made = epilogue.made_sides();
  if (problem.result_types.size() > 1 && problem.is_depthwise) {
    throw WorkloadError(instruction.name + ": no kernel for " + hlo::to_string(instruction.shape) +
                        ": expected one result of the product's extent behind a convolution by "
                        "groups");
  }
  if (!makes_its_sides(problem)) refuse_sides(instruction);
  if (problem.is_depthwise) return convolution_depthwise_kernel(problem, epilogue, target);
  if (problem.batch_in_lanes) {
    if (problem.contracts_rows && epilogue.has_matrix()) refuse_matrix(instruction);
    return problem.contracts_rows ? convolution_lanes_weights_kernel(problem, epilogue, target)
                                  : convolution_lanes_kernel(problem, epilogue, target);
  }
  if (is_plain_product(problem)) {
    DotProblem dot = as_product(problem);
    if (epilogue.has_sums() && problem.rows % 8 != 0) dot.matrix_rows = problem.rows;
    if (epilogue.has_matrix()) {
      if (problem.contracts_rows) refuse_matrix(instruction);
      dot.row_period = ceil_divide(problem.rows, 8);
    }
    const DotTiling tiling = choose_sides(dot, target).value();
    if (dot.sides_exchanged) epilogue.exchange_sides();
    return dot_kernel(dot, tiling, epilogue, target);
  }
  if (problem.contracts_rows && epilogue.has_matrix()) refuse_matrix(instruction);
  if (problem.contracts_rows) return convolution_weights_kernel(problem, epilogue, target);
  return convolution_kernel(problem, find_convolution_tiling(problem, target).value(), epilogue,
                            target);
}

}  // namespace tpu::compiler
