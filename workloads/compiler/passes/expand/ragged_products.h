#pragma once

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// Ragged dots, whose left side is cut in groups along one dimension, as dots of arrays that have
/// each group for itself, with zeros where other groups are.
/// Needs: no layouts; before hold_in_words.
void expand_ragged_products(hlo::Module& module);

}  // namespace tpu::compiler
