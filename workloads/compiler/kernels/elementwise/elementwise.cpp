#include <deque>
#include <functional>
#include <optional>
#include <utility>

#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/kernels/elementwise/elementwise_kernel.h"
#include "workloads/compiler/kernels/elementwise/expression_graph.h"
#include "workloads/compiler/kernels/lowering.h"

namespace tpu::compiler {

namespace {

/// The graph, or a form of it that fits: axes joined, or another one outermost.
std::optional<ExpressionGraph> form_that_fits(
    const ExpressionGraph& graph, const std::function<bool(const ExpressionGraph&)>& fits) {
  if (fits(graph)) return graph;
  for (int axis = 0; !graph.space().linear && axis < graph.space().row_axis(); ++axis) {
    ExpressionGraph form = graph;
    if (axis > 0 && !form.move_outermost(axis)) continue;
    if (axis > 0 && fits(form)) return form;
    while (form.join_outermost_axes()) {
      if (fits(form)) return form;
    }
  }
  return std::nullopt;
}

}  // namespace

ExpressionGraph fitting_form(ExpressionGraph graph, std::size_t operand_count,
                             const Target& target) {
  graph.combine_rows_in_tiles();
  const auto fits = [&](const ExpressionGraph& form) {
    return static_cast<bool>(find_elementwise_plans(form, operand_count, target));
  };
  if (const auto form = form_that_fits(graph, fits)) return *form;
  ExpressionGraph in_tiles = graph;
  if (in_tiles.split_lanes()) {
    if (const auto form = form_that_fits(in_tiles, fits)) return *form;
  }
  return graph;
}

bool has_elementwise_kernel(const hlo::Module& module, const hlo::Computation& computation,
                            const hlo::HloInstruction& instruction, const Target& target) {
  const hlo::Computation fused = computation_of(module, computation, instruction);
  const std::size_t operands = instruction.operands.size();
  const ExpressionGraph graph =
      fitting_form(ExpressionGraph(module, fused, instruction.name), operands, target);
  return static_cast<bool>(find_elementwise_plans(graph, operands, target));
}

LoweredKernel lower_elementwise(const hlo::Module& module, const hlo::Computation& computation,
                                const hlo::HloInstruction& instruction, const Target& target) {
  const hlo::Computation fused = computation_of(module, computation, instruction);
  const std::size_t operands = instruction.operands.size();
  const ExpressionGraph graph =
      fitting_form(ExpressionGraph(module, fused, instruction.name), operands, target);
  // Expressions that need more registers than there are get less code that overlaps.
  PlanLimits limits;
  for (bool may_spill = false;;) {
    KernelBuilder builder(graph.kernel_name(), target);
    std::deque<ElementwiseKernel> kernels;
    for (ElementwisePlan& plan : find_elementwise_plans(graph, operands, target, limits).value()) {
      kernels.emplace_back(builder, graph, operands, std::move(plan)).emit();
    }
    std::optional<isa::Kernel> made = may_spill ? builder.finish() : builder.try_finish();
    if (made) return {std::move(*made), builder.vmem_bytes()};
    const std::optional<std::uint32_t> block = builder.crowded_block();
    std::optional<PassKind> crowded;
    for (const ElementwiseKernel& kernel : kernels) {
      if (block && kernel.pass_of(*block)) crowded = kernel.pass_of(*block);
    }
    may_spill = !limits.reduce(crowded);
  }
}

}  // namespace tpu::compiler
