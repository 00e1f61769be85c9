#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// The floating types that kernels compute with.
inline bool is_float(hlo::ElementType type) {
  return type == hlo::ElementType::kF32 || type == hlo::ElementType::kBf16;
}

/// Value of a scalar constant as a double (s64 rounded); none for u64, types that no machine word
/// holds and literals that are not there.
std::optional<double> scalar_value(const hlo::HloInstruction& constant);

/// The number that is spread over all elements of a value; none where it is no scalar constant.
std::optional<double> splat_value(const hlo::Computation& computation, hlo::InstructionId id);

/// A scalar constant of the type with this value, rounded to the type.
hlo::HloInstruction scalar_constant(hlo::ElementType type, double value);

/// A number as the type holds it: f32 and bf16 are rounded, others as they are.
double rounded_to(hlo::ElementType type, double value);

/// The result of an elementwise operation on scalar constants of the types that kernels compute
/// with; none where scalar_result() knows none.
std::optional<double> fold_scalar(const hlo::HloInstruction& instruction,
                                  const std::vector<const hlo::HloInstruction*>& operands);

/// The elements that a slice takes of a constant array, row-major; none of an elided one, of types
/// whose elements are no whole bytes, and where they are more than a page.
std::optional<std::vector<std::uint8_t>> sliced_literal(const hlo::HloInstruction& slice,
                                                        const hlo::HloInstruction& constant);

/// True for a reduction by add, multiply, maximum or minimum whose initial value changes nothing:
/// over one element it is that element, and it may be made in parts.
bool starts_from_neutral(const hlo::Module& module, const hlo::HloInstruction& reduce);

}  // namespace tpu::compiler
