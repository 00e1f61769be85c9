#pragma once

#include <array>
#include <optional>

#include "workloads/compiler/kernels/contraction/matmul_prologue.h"
#include "workloads/compiler/kernels/contraction/tile_expression.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// The elementwise expression behind a dot or convolution of an output fusion; the product is its
/// last parameter.
struct MatmulEpilogue : TileExpression {
  int lhs = 0, rhs = 1;  ///< Operands of the kernel.
  hlo::Shape lhs_shape, rhs_shape;
  hlo::Shape out_shape;                          ///< Of the first result that is written in blocks.
  const hlo::HloInstruction* product = nullptr;  ///< The dot or convolution.
  /// What makes its sides of operands, of which `lhs` and `rhs` are one then; none: nothing does.
  std::array<std::optional<MatmulPrologue>, 2> prologues;

  MadeSides made_sides() const;
  void exchange_sides();
};

/// Reads an instruction that is a dot, a convolution or a fusion around one. Throws WorkloadError
/// for what the expression may not contain.
MatmulEpilogue matmul_epilogue(const hlo::Module& module, const hlo::Computation& computation,
                               const hlo::HloInstruction& instruction);

}  // namespace tpu::compiler
