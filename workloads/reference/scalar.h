#pragma once

#include <cstdint>
#include <vector>

#include "workloads/reference/value.h"

namespace tpu::reference {

/// One element: a number of a floating type or an integer.
struct Scalar {
  double number = 0;
  std::int64_t integer = 0;
};

using NumberFunction1 = double (*)(double);
using NumberFunction2 = double (*)(double, double);
using IntegerFunction1 = std::int64_t (*)(std::int64_t, hlo::ElementType);
using IntegerFunction2 = std::int64_t (*)(std::int64_t, std::int64_t, hlo::ElementType);

/// The meaning of elementwise operations on one element, before rounding; null where an opcode has
/// none.
NumberFunction1 number_function1(hlo::HloOpcode opcode);
NumberFunction2 number_function2(hlo::HloOpcode opcode);
IntegerFunction1 integer_function1(hlo::HloOpcode opcode);
IntegerFunction2 integer_function2(hlo::HloOpcode opcode);
bool compare_numbers(hlo::ComparisonDirection direction, double a, double b);
bool compare_integers(hlo::ComparisonDirection direction, std::int64_t a, std::int64_t b,
                      hlo::ElementType type);
/// Conversion between any two types; floating to integer truncates and saturates.
Scalar convert_scalar(hlo::ElementType from, hlo::ElementType to, Scalar value);

Scalar element(const Value& value, std::size_t i);
/// Stores an element, rounded or wrapped to the value's type.
void set_element(Value& value, std::size_t i, Scalar scalar);

/// A computation of scalars (to_apply of a reduction, comparison of a sort): elementwise
/// instructions on scalars, constants, and a tuple at the root. Anything else is a WorkloadError.
class ScalarComputation {
 public:
  ScalarComputation(const hlo::Module& module, hlo::ComputationId id);

  /// Results of the root (one, or those of its tuple) for the given parameters.
  const std::vector<Scalar>& run(const std::vector<Scalar>& parameters);
  /// For two parameters and one result.
  Scalar run(Scalar a, Scalar b);

  /// The opcode, when the computation is that operation of its two parameters in their order.
  hlo::HloOpcode single_operation() const { return single_; }

 private:
  Scalar evaluate(const hlo::HloInstruction& instruction) const;

  const hlo::Computation& computation_;
  hlo::HloOpcode single_ = hlo::HloOpcode::kCount;
  NumberFunction2 single_number_ = nullptr;
  std::vector<Scalar> values_;
  std::vector<Scalar> results_;
};

}  // namespace tpu::reference
