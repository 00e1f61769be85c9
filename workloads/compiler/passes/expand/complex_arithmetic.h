#pragma once

#include <vector>

#include "workloads/compiler/passes/graph_editor.h"

namespace tpu::compiler {

/// An array of complex numbers: two arrays of f32.
struct ComplexParts {
  hlo::InstructionId real = -1, imaginary = -1;
};

/// Operations on complex numbers in terms of f32 ones, appended by an editor. Principal values, as
/// XLA's: the branch cuts of log and sqrt lie on the negative real axis. An imaginary part that is
/// the constant 0 takes no arithmetic.
class ComplexArithmetic {
 public:
  using Id = GraphEditor::Id;

  explicit ComplexArithmetic(GraphEditor& edit) : edit_(edit) {}

  ComplexParts from_real(Id real);
  ComplexParts add(const ComplexParts& a, const ComplexParts& b);
  ComplexParts subtract(const ComplexParts& a, const ComplexParts& b);
  ComplexParts multiply(const ComplexParts& a, const ComplexParts& b);
  ComplexParts divide(const ComplexParts& a, const ComplexParts& b);
  ComplexParts power(const ComplexParts& a, const ComplexParts& b);
  /// The length of each number; neither overflows nor vanishes before the result does.
  Id absolute(const ComplexParts& a);
  Id is_finite(const ComplexParts& a);
  Id equal(const ComplexParts& a, const ComplexParts& b);
  ComplexParts select(Id condition, const ComplexParts& yes, const ComplexParts& no);

  /// True for an operation of one operand (exponential, sqrt, sine, ...) or two that `unary`,
  /// `binary` know.
  static bool has_unary(hlo::HloOpcode opcode);
  static bool has_binary(hlo::HloOpcode opcode);
  ComplexParts unary(hlo::HloOpcode opcode, const ComplexParts& a);
  ComplexParts binary(hlo::HloOpcode opcode, const ComplexParts& a, const ComplexParts& b);

  /// A dot or convolution as three of real arrays, as XLA's TPU compiler writes it:
  /// k = (a + b) c, k - b (c + d), k + a (d - c); one or two where parts are 0.
  ComplexParts product(const hlo::HloInstruction& product, const ComplexParts& a,
                       const ComplexParts& b);

  /// Whether the array is the constant 0.
  bool is_zero(Id value) const { return edit_.is_splat(value, 0); }

 private:
  Id op(hlo::HloOpcode opcode, Id a) { return edit_.unary(opcode, a); }
  Id op(hlo::HloOpcode opcode, Id a, Id b) { return edit_.binary(opcode, a, b); }
  Id with(hlo::HloOpcode opcode, Id a, double b) { return edit_.binary_with(opcode, a, b); }
  Id sum(Id a, Id b);
  Id difference(Id a, Id b);
  Id times(Id a, Id b);
  Id zeros_like(Id value) {
    return edit_.splat(hlo::ElementType::kF32, edit_.dimensions(value), 0);
  }
  Id hyperbolic_sine(Id a);
  Id hyperbolic_cosine(Id a);
  Id real_product(const hlo::HloInstruction& product, Id a, Id b);
  ComplexParts scaled(const ComplexParts& a, Id factor);
  ComplexParts exponential(const ComplexParts& a);
  ComplexParts exponential_minus_one(const ComplexParts& a);
  ComplexParts log(const ComplexParts& a);
  ComplexParts log_plus_one(const ComplexParts& a);
  ComplexParts sqrt(const ComplexParts& a);
  ComplexParts sine(const ComplexParts& a);
  ComplexParts cosine(const ComplexParts& a);
  ComplexParts tanh(const ComplexParts& a);
  ComplexParts sign(const ComplexParts& a);

  GraphEditor& edit_;
};

}  // namespace tpu::compiler
