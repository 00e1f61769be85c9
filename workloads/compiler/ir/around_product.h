#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/ir/made_side.h"

namespace tpu::compiler {

/// What an expression behind a product reads and makes beside its first result: arrays of the
/// product's extent, and what stays in VMEM, in its rows; and what makes its sides.
struct AroundProduct {
  bool has_expression = true;
  std::vector<hlo::ElementType> read, made;
  std::uint64_t resident_rows = 0;
  MadeSides sides;
};

/// What the search for the kernel of a convolution whose arrays lie like this expects, with such an
/// expression behind it that makes `result`; absent where it finds none. Of the expression
/// behind it it counts the arrays, not the vector unit's work.
std::optional<double> convolution_cycles(const hlo::HloInstruction& convolution,
                                         const hlo::Shape& input, const hlo::Shape& window,
                                         const hlo::Shape& result, const AroundProduct& behind,
                                         const Target& target);

/// The same of a dot.
std::optional<double> dot_cycles(const hlo::HloInstruction& dot, const hlo::Shape& lhs,
                                 const hlo::Shape& rhs, const hlo::Shape& result,
                                 const AroundProduct& around, const Target& target);

}  // namespace tpu::compiler
