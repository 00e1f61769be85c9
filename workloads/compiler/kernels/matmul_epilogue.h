#pragma once

#include <memory>
#include <string>
#include <vector>

#include "workloads/compiler/codegen/kernel_builder.h"
#include "workloads/compiler/kernels/elementwise_leaf.h"
#include "workloads/compiler/kernels/elementwise_memory.h"
#include "workloads/compiler/kernels/expression.h"
#include "workloads/compiler/kernels/expression_graph.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// The elementwise expression behind a dot or convolution of an output fusion, and which operands
/// of the kernel are what.
struct MatmulEpilogue {
  /// An array that the expression reads beside the product.
  struct Operand {
    /// Blocks: tiles in step with the result's, fetched block by block. Lanes: a vector along the
    /// result's minor dimension. Scalar: one element. The latter two stay in VMEM.
    enum class Kind : std::uint8_t { kBlocks, kLanes, kScalar };
    Kind kind = Kind::kBlocks;
    int node = -1;     ///< Of the graph.
    int operand = -1;  ///< Of the kernel.
    hlo::Shape shape;
  };

  std::string kernel_name;
  int lhs = 0, rhs = 1, out = 2;  ///< Operands of the kernel.
  hlo::Shape lhs_shape, rhs_shape, out_shape;
  const hlo::HloInstruction* product = nullptr;  ///< The dot or convolution.
  std::vector<Operand> operands;
  std::shared_ptr<const ExpressionGraph> graph;  ///< None: the result is the product.
  int product_node = -1;
};

/// Reads an instruction that is a dot, a convolution or a fusion around one. Throws WorkloadError
/// for what the expression may not contain.
MatmulEpilogue matmul_epilogue(const hlo::Module& module, const hlo::Computation& computation,
                               const hlo::HloInstruction& instruction);

}  // namespace tpu::compiler
