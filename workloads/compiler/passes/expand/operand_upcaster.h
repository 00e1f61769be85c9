#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Pass: dots and convolutions of an integer and a floating operand (positions times embeddings in
/// JAX, where the operands keep their types and the result has the wider one) convert both to the
/// result's type.
///
/// Needs: types as the module states them. Leaves: products of operands that are both floating, or
/// both integers.
void upcast_operands(hlo::Module& module);

}  // namespace tpu::compiler
