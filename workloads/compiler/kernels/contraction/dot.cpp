#include <cmath>
#include <utility>

#include "sim/base/error.h"
#include "workloads/compiler/ir/around_product.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/kernels/contraction/dot_kernel.h"
#include "workloads/compiler/kernels/lowering.h"

namespace tpu::compiler {

DotProblem problem_of(const MatmulEpilogue& epilogue, bool stands_in_vmem) {
  DotProblem problem =
      dot_problem(*epilogue.product, epilogue.lhs_shape, epilogue.rhs_shape, epilogue.out_shape,
                  {epilogue.depends_on_rows(), stands_in_vmem});
  problem.has_epilogue = epilogue.graph != nullptr;
  problem.epilogue_cost = epilogue.cost();
  problem.epilogue_types = epilogue.block_types();
  problem.result_types = epilogue.result_types();
  problem.resident_rows = epilogue.resident_rows();
  problem.made = epilogue.made_sides();
  return problem;
}

std::optional<double> dot_cycles(const hlo::HloInstruction& dot, const hlo::Shape& lhs,
                                 const hlo::Shape& rhs, const hlo::Shape& result,
                                 const AroundProduct& around, const Target& target) {
  const auto as_made = [](const hlo::Shape& side, const MadeSide& made) {
    return made.is_made ? in_type(side, made.type) : side;
  };
  std::optional<DotProblem> problem =
      find_dot_problem(dot, as_made(lhs, around.sides[0]), as_made(rhs, around.sides[1]), result);
  if (!problem) return std::nullopt;
  problem->has_epilogue = around.has_expression;
  problem->epilogue_types = around.read;
  problem->resident_rows = around.resident_rows;
  problem->result_types.insert(problem->result_types.end(), around.made.begin(), around.made.end());
  problem->made = around.sides;
  if (!makes_sides(*problem)) return std::nullopt;
  OrRefusal<DotTiling> tiling = choose_sides(*problem, target);
  if (!tiling) return std::nullopt;
  return tiling->cycles;
}

double product_cycles(DotProblem problem, const Target& target) {
  OrRefusal<DotTiling> tiling = choose_sides(problem, target);
  return tiling ? tiling->cycles : HUGE_VAL;
}

LoweredKernel lower_dot(const hlo::Module& module, const hlo::Computation& computation,
                        const hlo::HloInstruction& instruction, const Target& target) {
  MatmulEpilogue epilogue = matmul_epilogue(module, computation, instruction);
  DotProblem problem = problem_of(epilogue);
  if (!makes_sides(problem)) {
    throw WorkloadError(instruction.name + ": no kernel for " + hlo::to_string(instruction.shape) +
                        ": expected sides of the product that stand in memory, or are made of "
                        "arrays of their type without a number for each row");
  }
  const DotTiling tiling = choose_sides(problem, target).value();
  if (problem.sides_exchanged) epilogue.exchange_sides();
  return dot_kernel(problem, tiling, epilogue, target);
}

}  // namespace tpu::compiler
