#include <cmath>
#include <utility>

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
  return problem;
}

double product_cycles(DotProblem problem, const Target& target) {
  OrRefusal<DotTiling> tiling = choose_sides(problem, target);
  return tiling ? tiling->cycles : HUGE_VAL;
}

LoweredKernel lower_dot(const hlo::Module& module, const hlo::Computation& computation,
                        const hlo::HloInstruction& instruction, const Target& target) {
  MatmulEpilogue epilogue = matmul_epilogue(module, computation, instruction);
  DotProblem problem = problem_of(epilogue);
  const DotTiling tiling = choose_sides(problem, target).value();
  if (problem.sides_exchanged) std::swap(epilogue.lhs, epilogue.rhs);
  return dot_kernel(problem, tiling, epilogue, target);
}

}  // namespace tpu::compiler
