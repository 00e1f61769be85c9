#pragma once

#include <cstdint>
#include <vector>

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// How the dimensions of an operation's arrays belong together: each dimension is a product of
/// factors, the major one first, and a factor may be cut over devices in all arrays that have it at
/// once, each device computing its part alone. A dimension without factors has to be whole.
struct FactorRule {
  struct Factor {
    std::int64_t size = 1;
    bool is_reduced = false;  ///< No result has it: a cut leaves partial results to be combined.
  };
  using Factors = std::vector<int>;           ///< Of a dimension.
  using ArrayFactors = std::vector<Factors>;  ///< Of an array.

  std::vector<Factor> factors;
  std::vector<ArrayFactors> operands;                 ///< By operand; of arrays only.
  std::vector<ArrayFactors> results;                  ///< By array of the result.
  hlo::HloOpcode combination = hlo::HloOpcode::kAdd;  ///< Of partial results.
  /// The operand that partial results contain as it is, so that only one device may add it; -1.
  int operand_counted_once = -1;
};

/// The rule of an instruction by its opcode and the shapes of all devices together. Without
/// factors where nothing is known of the operation: every device does all of it.
FactorRule factor_rule(const hlo::Module& module, const hlo::Computation& computation,
                       const hlo::HloInstruction& instruction);

/// The operation that a computation of two scalars does; kCount where it does several.
hlo::HloOpcode combination_of(const hlo::Module& module, hlo::ComputationId computation);

}  // namespace tpu::compiler
