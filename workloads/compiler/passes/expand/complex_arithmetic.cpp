#include "workloads/compiler/passes/expand/complex_arithmetic.h"

#include <utility>

#include "sim/base/error.h"

namespace tpu::compiler {

using hlo::ComparisonDirection;
using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;
using Id = GraphEditor::Id;

ComplexParts ComplexArithmetic::from_real(Id real) { return {real, zeros_like(real)}; }

Id ComplexArithmetic::sum(Id a, Id b) {
  if (is_zero(a)) return b;
  return is_zero(b) ? a : op(HloOpcode::kAdd, a, b);
}

Id ComplexArithmetic::difference(Id a, Id b) {
  if (is_zero(b)) return a;
  return is_zero(a) ? op(HloOpcode::kNegate, b) : op(HloOpcode::kSubtract, a, b);
}

Id ComplexArithmetic::times(Id a, Id b) {
  if (is_zero(a)) return a;
  return is_zero(b) ? b : op(HloOpcode::kMultiply, a, b);
}

ComplexParts ComplexArithmetic::add(const ComplexParts& a, const ComplexParts& b) {
  return {sum(a.real, b.real), sum(a.imaginary, b.imaginary)};
}

ComplexParts ComplexArithmetic::subtract(const ComplexParts& a, const ComplexParts& b) {
  return {difference(a.real, b.real), difference(a.imaginary, b.imaginary)};
}

ComplexParts ComplexArithmetic::multiply(const ComplexParts& a, const ComplexParts& b) {
  return {difference(times(a.real, b.real), times(a.imaginary, b.imaginary)),
          sum(times(a.real, b.imaginary), times(a.imaginary, b.real))};
}

ComplexParts ComplexArithmetic::scaled(const ComplexParts& a, Id factor) {
  return {times(a.real, factor), times(a.imaginary, factor)};
}

/// By the larger part of the divisor first, so that its square neither overflows nor vanishes.
ComplexParts ComplexArithmetic::divide(const ComplexParts& a, const ComplexParts& b) {
  const auto over = [&](Id x, Id y) { return is_zero(x) ? x : op(HloOpcode::kDivide, x, y); };
  if (is_zero(b.imaginary)) return {over(a.real, b.real), over(a.imaginary, b.real)};
  const Id larger =
      op(HloOpcode::kMaximum, op(HloOpcode::kAbs, b.real), op(HloOpcode::kAbs, b.imaginary));
  const Id c = over(b.real, larger), d = over(b.imaginary, larger);
  const Id length = sum(times(c, c), times(d, d));
  const ComplexParts turned = multiply(a, {c, op(HloOpcode::kNegate, d)});
  return {over(over(turned.real, length), larger), over(over(turned.imaginary, length), larger)};
}

Id ComplexArithmetic::absolute(const ComplexParts& a) {
  const Id x = op(HloOpcode::kAbs, a.real);
  if (is_zero(a.imaginary)) return x;
  const Id y = op(HloOpcode::kAbs, a.imaginary);
  const Id most = op(HloOpcode::kMaximum, x, y), least = op(HloOpcode::kMinimum, x, y);
  const Id ratio = op(HloOpcode::kDivide, least, most);
  const Id root = op(HloOpcode::kSqrt, with(HloOpcode::kAdd, times(ratio, ratio), 1));
  // 0 and infinite numbers, whose ratio is none.
  const Id is_plain = edit_.compare(least, most, ComparisonDirection::kLt);
  const Id equal = with(HloOpcode::kMultiply, most, 1.4142135623730951);
  return edit_.select(is_plain, times(most, root), equal);
}

Id ComplexArithmetic::is_finite(const ComplexParts& a) {
  const auto finite = [&](Id x) {
    return edit_.append_instruction(edit_.start(
        HloOpcode::kIsFinite, {x}, hlo::array_shape(ElementType::kPred, edit_.dimensions(x))));
  };
  return op(HloOpcode::kAnd, finite(a.real), finite(a.imaginary));
}

Id ComplexArithmetic::equal(const ComplexParts& a, const ComplexParts& b) {
  return op(HloOpcode::kAnd, edit_.compare(a.real, b.real, ComparisonDirection::kEq),
            edit_.compare(a.imaginary, b.imaginary, ComparisonDirection::kEq));
}

ComplexParts ComplexArithmetic::select(Id condition, const ComplexParts& yes,
                                       const ComplexParts& no) {
  return {edit_.select(condition, yes.real, no.real),
          edit_.select(condition, yes.imaginary, no.imaginary)};
}

/// From exp(a) - 1, which is exact near 0.
Id ComplexArithmetic::hyperbolic_sine(Id a) {
  const Id x = op(HloOpcode::kAbs, a);
  const Id e = op(HloOpcode::kExponentialMinusOne, x);
  const Id over = op(HloOpcode::kDivide, e, with(HloOpcode::kAdd, e, 1));
  // e / (e + 1) is no number where e is infinite.
  const Id rest =
      op(HloOpcode::kMinimum, over, edit_.splat(ElementType::kF32, edit_.dimensions(a), 1));
  const Id is_large = edit_.compare(e, edit_.splat(ElementType::kF32, edit_.dimensions(a), 1e30),
                                    ComparisonDirection::kGt);
  const Id half = with(HloOpcode::kMultiply, e, 0.5);
  const Id found = op(HloOpcode::kAdd, half, with(HloOpcode::kMultiply, rest, 0.5));
  return times(edit_.select(is_large, half, found), op(HloOpcode::kSign, a));
}

Id ComplexArithmetic::hyperbolic_cosine(Id a) {
  const auto half = [&](Id x) {
    return with(HloOpcode::kMultiply, op(HloOpcode::kExponential, x), 0.5);
  };
  return op(HloOpcode::kAdd, half(a), half(op(HloOpcode::kNegate, a)));
}

ComplexParts ComplexArithmetic::exponential(const ComplexParts& a) {
  if (is_zero(a.imaginary)) return {op(HloOpcode::kExponential, a.real), a.imaginary};
  const ComplexParts turn{op(HloOpcode::kCosine, a.imaginary), op(HloOpcode::kSine, a.imaginary)};
  return is_zero(a.real) ? turn : scaled(turn, op(HloOpcode::kExponential, a.real));
}

/// exp(x) cos(y) - 1 = (exp(x) - 1) cos(y) - 2 sin(y / 2)^2.
ComplexParts ComplexArithmetic::exponential_minus_one(const ComplexParts& a) {
  const Id grown = op(HloOpcode::kExponentialMinusOne, a.real);
  const Id sine = op(HloOpcode::kSine, with(HloOpcode::kMultiply, a.imaginary, 0.5));
  const Id lost = with(HloOpcode::kMultiply, times(sine, sine), 2);
  return {difference(times(grown, op(HloOpcode::kCosine, a.imaginary)), lost),
          times(with(HloOpcode::kAdd, grown, 1), op(HloOpcode::kSine, a.imaginary))};
}

ComplexParts ComplexArithmetic::log(const ComplexParts& a) {
  return {op(HloOpcode::kLog, absolute(a)), op(HloOpcode::kAtan2, a.imaginary, a.real)};
}

/// |1 + a|^2 = 1 + 2x + x^2 + y^2.
ComplexParts ComplexArithmetic::log_plus_one(const ComplexParts& a) {
  const Id square = times(a.real, with(HloOpcode::kAdd, a.real, 2));
  const Id whole = sum(square, times(a.imaginary, a.imaginary));
  return {with(HloOpcode::kMultiply, op(HloOpcode::kLogPlusOne, whole), 0.5),
          op(HloOpcode::kAtan2, a.imaginary, with(HloOpcode::kAdd, a.real, 1))};
}

/// The part of the result that no cancellation touches first, the other one from it.
ComplexParts ComplexArithmetic::sqrt(const ComplexParts& a) {
  const Id length = op(HloOpcode::kAdd, absolute(a), op(HloOpcode::kAbs, a.real));
  const Id root = op(HloOpcode::kSqrt, with(HloOpcode::kMultiply, length, 0.5));
  const Id zeros = zeros_like(root);
  const Id is_zero_root = edit_.compare(root, zeros, ComparisonDirection::kEq);
  const Id half = with(HloOpcode::kMultiply, a.imaginary, 0.5);
  const Id other = edit_.select(is_zero_root, zeros, op(HloOpcode::kDivide, half, root));
  const Id is_below = edit_.compare(a.imaginary, zeros, ComparisonDirection::kLt);
  const Id signed_root = edit_.select(is_below, op(HloOpcode::kNegate, root), root);
  return select(edit_.compare(a.real, zeros, ComparisonDirection::kGe), {root, other},
                {op(HloOpcode::kAbs, other), signed_root});
}

ComplexParts ComplexArithmetic::sine(const ComplexParts& a) {
  return {times(op(HloOpcode::kSine, a.real), hyperbolic_cosine(a.imaginary)),
          times(op(HloOpcode::kCosine, a.real), hyperbolic_sine(a.imaginary))};
}

ComplexParts ComplexArithmetic::cosine(const ComplexParts& a) {
  const Id product = times(op(HloOpcode::kSine, a.real), hyperbolic_sine(a.imaginary));
  return {times(op(HloOpcode::kCosine, a.real), hyperbolic_cosine(a.imaginary)),
          op(HloOpcode::kNegate, product)};
}

/// sinh(2x) / (cosh(2x) + cos(2y)), sin(2y) over the same; beyond |x| of 20 the result is +-1.
ComplexParts ComplexArithmetic::tanh(const ComplexParts& a) {
  constexpr double kFar = 20;
  const Id near = with(HloOpcode::kMaximum, with(HloOpcode::kMinimum, a.real, kFar), -kFar);
  const Id x = with(HloOpcode::kMultiply, near, 2), y = with(HloOpcode::kMultiply, a.imaginary, 2);
  const Id below = op(HloOpcode::kAdd, hyperbolic_cosine(x), op(HloOpcode::kCosine, y));
  return {op(HloOpcode::kDivide, hyperbolic_sine(x), below),
          op(HloOpcode::kDivide, op(HloOpcode::kSine, y), below)};
}

ComplexParts ComplexArithmetic::sign(const ComplexParts& a) {
  const Id length = absolute(a), zeros = zeros_like(length);
  const Id none = edit_.compare(length, zeros, ComparisonDirection::kEq);
  return select(none, {zeros, zeros}, divide(a, {length, zeros}));
}

/// exp(b log a); 0 to a power is 0, or 1 where the power is 0.
ComplexParts ComplexArithmetic::power(const ComplexParts& a, const ComplexParts& b) {
  const ComplexParts found = exponential(multiply(b, log(a)));
  const Id zeros = zeros_like(a.real);
  const ComplexParts zero{zeros, zeros};
  const Id one = edit_.splat(ElementType::kF32, edit_.dimensions(zeros), 1);
  const ComplexParts of_zero = select(equal(b, zero), {one, zeros}, zero);
  return select(equal(a, zero), of_zero, found);
}

bool ComplexArithmetic::has_unary(HloOpcode opcode) {
  switch (opcode) {
    case HloOpcode::kNegate:
    case HloOpcode::kExponential:
    case HloOpcode::kExponentialMinusOne:
    case HloOpcode::kLog:
    case HloOpcode::kLogPlusOne:
    case HloOpcode::kSqrt:
    case HloOpcode::kRsqrt:
    case HloOpcode::kCbrt:
    case HloOpcode::kSine:
    case HloOpcode::kCosine:
    case HloOpcode::kTan:
    case HloOpcode::kTanh:
    case HloOpcode::kLogistic:
    case HloOpcode::kSign:
      return true;
    default:
      return false;
  }
}

bool ComplexArithmetic::has_binary(HloOpcode opcode) {
  switch (opcode) {
    case HloOpcode::kAdd:
    case HloOpcode::kSubtract:
    case HloOpcode::kMultiply:
    case HloOpcode::kDivide:
    case HloOpcode::kPower:
      return true;
    default:
      return false;
  }
}

ComplexParts ComplexArithmetic::unary(HloOpcode opcode, const ComplexParts& a) {
  const auto number = [&](double x) {
    return from_real(edit_.splat(ElementType::kF32, edit_.dimensions(a.real), x));
  };
  const auto negated = [&] { return subtract(number(0), a); };
  switch (opcode) {
    case HloOpcode::kNegate:
      return negated();
    case HloOpcode::kExponential:
      return exponential(a);
    case HloOpcode::kExponentialMinusOne:
      return exponential_minus_one(a);
    case HloOpcode::kLog:
      return log(a);
    case HloOpcode::kLogPlusOne:
      return log_plus_one(a);
    case HloOpcode::kSqrt:
      return sqrt(a);
    case HloOpcode::kRsqrt:
      return divide(number(1), sqrt(a));
    case HloOpcode::kCbrt:
      return power(a, number(1.0 / 3));
    case HloOpcode::kSine:
      return sine(a);
    case HloOpcode::kCosine:
      return cosine(a);
    case HloOpcode::kTan: {
      // tan(z) = -i tanh(i z).
      const ComplexParts turned = tanh({op(HloOpcode::kNegate, a.imaginary), a.real});
      return {turned.imaginary, op(HloOpcode::kNegate, turned.real)};
    }
    case HloOpcode::kTanh:
      return tanh(a);
    case HloOpcode::kLogistic:
      return divide(number(1), add(number(1), exponential(negated())));
    case HloOpcode::kSign:
      return sign(a);
    default:
      TPU_CHECK(false, "no complex form of " << hlo::to_string(opcode));
  }
}

ComplexParts ComplexArithmetic::binary(HloOpcode opcode, const ComplexParts& a,
                                       const ComplexParts& b) {
  switch (opcode) {
    case HloOpcode::kAdd:
      return add(a, b);
    case HloOpcode::kSubtract:
      return subtract(a, b);
    case HloOpcode::kMultiply:
      return multiply(a, b);
    case HloOpcode::kDivide:
      return divide(a, b);
    case HloOpcode::kPower:
      return power(a, b);
    default:
      TPU_CHECK(false, "no complex form of " << hlo::to_string(opcode));
  }
}

Id ComplexArithmetic::real_product(const HloInstruction& product, Id a, Id b) {
  HloInstruction made = edit_.start(product.opcode, {a, b},
                                    hlo::array_shape(ElementType::kF32, product.shape.dimensions));
  made.dot = product.dot;
  made.convolution = product.convolution;
  made.window = product.window;
  made.raw_attributes = product.raw_attributes;
  made.feature_group_count = product.feature_group_count;
  made.batch_group_count = product.batch_group_count;
  return edit_.append_instruction(std::move(made));
}

ComplexParts ComplexArithmetic::product(const HloInstruction& product, const ComplexParts& a,
                                        const ComplexParts& b) {
  const auto of = [&](Id x, Id y) { return real_product(product, x, y); };
  if (is_zero(a.imaginary) && is_zero(b.imaginary)) return from_real(of(a.real, b.real));
  if (is_zero(a.imaginary)) return {of(a.real, b.real), of(a.real, b.imaginary)};
  if (is_zero(b.imaginary)) return {of(a.real, b.real), of(a.imaginary, b.real)};
  const Id common = of(sum(a.real, a.imaginary), b.real);
  return {difference(common, of(a.imaginary, sum(b.real, b.imaginary))),
          sum(common, of(a.real, difference(b.imaginary, b.real)))};
}

}  // namespace tpu::compiler
