#include "workloads/compiler/passes/expand/word_types.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <set>

#include "sim/base/contains.h"
#include "sim/base/error.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/expand/complex_arithmetic.h"
#include "workloads/compiler/passes/expand/float_rounding.h"
#include "workloads/compiler/passes/expand/fourier_expander.h"
#include "workloads/compiler/passes/expand/integer_dots.h"
#include "workloads/compiler/passes/expand/largest_values.h"
#include "workloads/compiler/passes/graph_editor.h"
#include "workloads/compiler/passes/simplify/constant_folding.h"
#include "workloads/graph/op_info.h"

namespace tpu::compiler {

using hlo::ComparisonDirection;
using hlo::Computation;
using hlo::ComputationId;
using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::Shape;

namespace {

using Id = GraphEditor::Id;
using Extents = GraphEditor::Extents;

/// Floating types of 8 bits with a sign.
bool is_byte_float(ElementType type) {
  return hlo::byte_size(type) == 1 && type != ElementType::kF8E8M0Fnu &&
         type != ElementType::kF4E2M1Fn && hlo::float_format(type).has_value();
}

ElementType word_type(ElementType type) {
  if (is_byte_float(type)) return ElementType::kF32;
  switch (type) {
    case ElementType::kS8:
    case ElementType::kS16:
    case ElementType::kS64:
      return ElementType::kS32;
    case ElementType::kU8:
    case ElementType::kU16:
    case ElementType::kU64:
      return ElementType::kU32;
    case ElementType::kF16:
    case ElementType::kF64:
    case ElementType::kC64:
      return ElementType::kF32;
    default:
      return type;
  }
}

bool holds(const Shape& shape, ElementType type) {
  if (!shape.is_tuple()) return shape.type == type;
  return std::any_of(shape.elements.begin(), shape.elements.end(),
                     [type](const Shape& element) { return holds(element, type); });
}

bool is_complex(const Shape& shape) { return shape.type == ElementType::kC64; }
/// Two arrays of words: low and high ones, or real and imaginary parts.
bool is_wide(const Shape& shape) { return shape.type == ElementType::kU64 || is_complex(shape); }

bool is_short_integer(ElementType type) {
  return type == ElementType::kS8 || type == ElementType::kS16 || type == ElementType::kU8 ||
         type == ElementType::kU16;
}

bool is_signed(ElementType type) {
  return type == ElementType::kS8 || type == ElementType::kS16 || type == ElementType::kS32 ||
         type == ElementType::kS64;
}

bool is_floating_type(ElementType type) {
  return type == ElementType::kF32 || type == ElementType::kBf16 || type == ElementType::kF16 ||
         type == ElementType::kF64 || is_byte_float(type);
}

int bits_of(ElementType type) { return 8 * hlo::byte_size(type); }

/// The shape in words; of pairs with the two in front, or behind where a host passes it.
Shape word_shape(Shape shape, bool is_host) {
  if (shape.is_tuple()) {
    for (Shape& element : shape.elements) element = word_shape(element, is_host);
    return shape;
  }
  const ElementType type = word_type(shape.type);
  if (type == shape.type) return shape;
  Extents extents = shape.dimensions;
  if (is_wide(shape)) extents.insert(is_host ? extents.end() : extents.begin(), 2);
  return hlo::array_shape(type, extents);
}

/// Whether the result of the operation on words may not fit the short type.
bool may_overflow(HloOpcode opcode) {
  switch (opcode) {
    case HloOpcode::kAdd:
    case HloOpcode::kSubtract:
    case HloOpcode::kMultiply:
    case HloOpcode::kDivide:
    case HloOpcode::kPower:
    case HloOpcode::kNegate:
    case HloOpcode::kAbs:
    case HloOpcode::kNot:
    case HloOpcode::kShiftLeft:
    case HloOpcode::kIota:
    case HloOpcode::kDot:
    case HloOpcode::kConvolution:
    case HloOpcode::kReduce:
    case HloOpcode::kReduceWindow:
    case HloOpcode::kScatter:
    case HloOpcode::kSelectAndScatter:
    case HloOpcode::kAllReduce:
    case HloOpcode::kMap:
      return true;
    default:
      return false;
  }
}

/// How a computation of two scalars of two parts combines them.
using Combiners = std::map<ComputationId, HloOpcode>;

/// Sums, and those that take the second one (kParameter), before their types change.
Combiners wide_combiners(const hlo::Module& module) {
  Combiners combiners;
  for (std::size_t i = 0; i < module.computations.size(); ++i) {
    const Computation& computation = module.computations[i];
    const HloInstruction& root = computation.at(computation.root);
    if (!is_wide(root.shape)) continue;
    const bool is_sum = root.opcode == HloOpcode::kAdd && computation.instructions.size() == 3 &&
                        is_complex(root.shape);
    const bool is_second = root.opcode == HloOpcode::kParameter && root.parameter_number == 1;
    if (is_sum || is_second) combiners[static_cast<ComputationId>(i)] = root.opcode;
  }
  return combiners;
}

/// Computations of scalars that an operation applies to elements: their sums are cut where the
/// operation is.
bool applies(HloOpcode opcode) {
  switch (opcode) {
    case HloOpcode::kReduce:
    case HloOpcode::kReduceWindow:
    case HloOpcode::kScatter:
    case HloOpcode::kSelectAndScatter:
    case HloOpcode::kSort:
    case HloOpcode::kMap:
    case HloOpcode::kAllReduce:
    case HloOpcode::kReduceScatter:
      return true;
    default:
      return false;
  }
}

class WordTypes {
 public:
  WordTypes(hlo::Module& module, ComputationId computation, bool is_applied,
            const Combiners& combiners)
      : module_(module),
        computation_(computation),
        is_entry_(computation == module.entry),
        is_applied_(is_applied),
        combiners_(combiners),
        edit_(module, computation) {}

  void run() {
    const std::size_t count = code().instructions.size();
    for (const HloInstruction& instruction : code().instructions)
      given_.push_back(instruction.shape);
    largest_ = largest_values(code());
    for (std::size_t i = 0; i < count; ++i) visit(static_cast<Id>(i));
    tidy(code());
  }

 private:
  /// The words of a u64 array, or real and imaginary parts.
  struct Pair {
    Id low = -1, high = -1;
  };

  Computation& code() { return module_.computations[static_cast<std::size_t>(computation_)]; }
  const HloInstruction& at(Id id) { return code().at(id); }
  /// The shape that an instruction had before.
  const Shape& given(Id id) const { return given_.at(static_cast<std::size_t>(id)); }

  void visit(Id id);
  void visit_words(Id id);
  void visit_constant(Id id);
  void visit_to_short(Id id);
  void visit_bits(Id id);
  void visit_wide(Id id);
  void visit_wide_compare(Id id);
  void visit_wide_tuple(Id id);
  void visit_handed_on(Id id);
  void visit_complex(Id id);
  void visit_reduction_of_parts(Id id);

  Pair pair(Id id);
  Pair halves(Id whole, const Extents& extents, bool is_behind);
  Id joined(const Pair& value, bool is_host);
  void finish_pair(Id id, Pair value);
  Pair convert_to_pair(Id value, ElementType from);
  Pair literal_pair(Id id);
  Pair binary(Id id, const Pair& a, const Pair& b);
  Pair multiply(const Pair& a, const Pair& b);
  Id high_product(Id a, Id b);
  Pair shifted(HloOpcode opcode, const Pair& a, const Pair& amount);
  Id less(const Pair& a, const Pair& b, bool or_equal);
  Id cut(Id words, ElementType type);
  Id number_of_bits(const Pair& words);
  Id rounded(Id words, ElementType type);
  Id raw(Id words, ElementType type);
  Id from_raw(Id words, ElementType type);
  Id cloned(const HloInstruction& instruction, const Shape& shape);
  Pair moved(const HloInstruction& instruction, const std::vector<Pair>& operands);
  [[noreturn]] void refuse(Id id, const std::string& why);

  hlo::Module& module_;
  ComputationId computation_;
  bool is_entry_, is_applied_;
  const Combiners& combiners_;
  GraphEditor edit_;
  std::vector<Shape> given_;
  std::vector<std::uint64_t> largest_;  ///< Value of each array of unsigned integers.
  std::map<Id, Pair> pairs_;
};

void WordTypes::refuse(Id id, const std::string& why) {
  throw WorkloadError(
      at(id).name + ": expected " + why + ", found " + std::string(hlo::to_string(at(id).opcode)) +
      " -> " + to_string(given(id), false) +
      (is_complex(given(id)) ? "; the chip has no complex numbers: use real and imaginary parts"
                             : "; the chip has no 64-bit integers: use 32-bit ones"));
}

/// Words cut to the bits of a short integer.
Id WordTypes::cut(Id words, ElementType type) {
  if (!is_short_integer(type)) return words;
  const int bits = bits_of(type);
  if (!is_signed(type)) return edit_.binary_with(HloOpcode::kAnd, words, std::ldexp(1.0, bits) - 1);
  const Id high = edit_.binary_with(HloOpcode::kShiftLeft, words, 32 - bits);
  return edit_.binary_with(HloOpcode::kShiftRightArithmetic, high, 32 - bits);
}

/// f32 numbers as f16 or a type of 8 bits has them.
Id WordTypes::rounded(Id words, ElementType type) {
  return type == ElementType::kF16 ? rounded_to_half(edit_, words)
                                   : rounded_to_format(edit_, words, *hlo::float_format(type));
}

/// The bits of elements of a type of at most 32 bits, as u32.
Id WordTypes::raw(Id words, ElementType type) {
  if (type == ElementType::kBf16) {
    const Id bits =
        edit_.bitcast_convert(edit_.convert(words, ElementType::kF32), ElementType::kU32);
    return edit_.binary_with(HloOpcode::kShiftRightLogical, bits, 16);
  }
  if (type == ElementType::kPred) return edit_.convert(words, ElementType::kU32);
  if (type == ElementType::kF16 || is_byte_float(type)) {
    const hlo::FloatFormat format = *hlo::float_format(type);
    return bits_in_format(edit_, rounded(words, type), format);
  }
  const Id bits = edit_.bitcast_convert(words, ElementType::kU32);
  return is_short_integer(type)
             ? edit_.binary_with(HloOpcode::kAnd, bits, std::ldexp(1.0, bits_of(type)) - 1)
             : bits;
}

Id WordTypes::from_raw(Id words, ElementType type) {
  if (type == ElementType::kBf16) {
    const Id bits = edit_.binary_with(HloOpcode::kShiftLeft, words, 16);
    return edit_.convert(edit_.bitcast_convert(bits, ElementType::kF32), type);
  }
  if (type == ElementType::kF16 || is_byte_float(type)) {
    return number_in_format(edit_, words, *hlo::float_format(type));
  }
  return cut(edit_.bitcast_convert(words, word_type(type)), type);
}

Id WordTypes::cloned(const HloInstruction& instruction, const Shape& shape) {
  HloInstruction made = instruction;
  made.name += ".word." + std::to_string(code().instructions.size());
  made.shape = shape;
  return edit_.append_instruction(std::move(made));
}

WordTypes::Pair WordTypes::pair(Id id) {
  const auto found = pairs_.find(id);
  if (found != pairs_.end()) return found->second;
  edit_.stand_for(id);
  // A parameter of the entry or an element of a tuple.
  const bool is_behind = is_entry_ && at(id).opcode == HloOpcode::kParameter;
  const Extents extents = given(id).dimensions;
  return pairs_[id] = halves(id, extents, is_behind);
}

WordTypes::Pair WordTypes::halves(Id whole, const Extents& extents, bool is_behind) {
  Pair value;
  for (Id* part : {&value.low, &value.high}) {
    const std::int64_t place = part == &value.low ? 0 : 1;
    Extents starts(extents.size() + 1, 0), limits = edit_.dimensions(whole);
    const std::size_t dimension = is_behind ? extents.size() : 0;
    starts[dimension] = place;
    limits[dimension] = place + 1;
    *part = edit_.reshape(edit_.slice(whole, starts, limits), extents);
  }
  return value;
}

Id WordTypes::joined(const Pair& value, bool is_host) {
  const Extents extents = edit_.dimensions(value.low);
  Extents one = extents;
  one.insert(is_host ? one.end() : one.begin(), 1);
  return edit_.concatenate({edit_.reshape(value.low, one), edit_.reshape(value.high, one)},
                           is_host ? static_cast<std::int64_t>(extents.size()) : 0);
}

/// The instruction keeps its place as the joined words, for those that take it whole.
/// Words that are 0 whatever the operands are not computed: indices in 64 bits fit 32.
void WordTypes::finish_pair(Id id, Pair value) {
  edit_.stand_for(id);
  const std::uint64_t largest = largest_[static_cast<std::size_t>(id)];
  if (!is_complex(given(id)) && (largest >> 32) == 0) {
    const Id zero = edit_.splat(ElementType::kU32, given(id).dimensions, 0);
    value = {largest == 0 ? zero : value.low, zero};
  }
  pairs_[id] = value;
  const Id whole = joined(value, is_entry_ && code().root == id);
  code().at(id).shape = edit_.shape(whole);
  edit_.finish(whole);
}

WordTypes::Pair WordTypes::convert_to_pair(Id value, ElementType from) {
  if (is_floating_type(from)) {
    const Id wide = edit_.convert(value, ElementType::kF32);
    const Id high = edit_.convert(
        edit_.unary(HloOpcode::kFloor,
                    edit_.binary_with(HloOpcode::kMultiply, wide, std::ldexp(1, -32))),
        ElementType::kU32);
    const Id above = edit_.binary_with(HloOpcode::kMultiply, edit_.convert(high, ElementType::kF32),
                                       std::ldexp(1.0, 32));
    const Id low =
        edit_.convert(edit_.binary(HloOpcode::kSubtract, wide, above), ElementType::kU32);
    return {low, high};
  }
  const Extents extents = edit_.dimensions(value);
  if (!is_signed(from)) {
    return {edit_.convert(value, ElementType::kU32), edit_.splat(ElementType::kU32, extents, 0)};
  }
  const Id sign = edit_.binary_with(HloOpcode::kShiftRightArithmetic, value, 31);
  return {edit_.bitcast_convert(value, ElementType::kU32),
          edit_.bitcast_convert(sign, ElementType::kU32)};
}

WordTypes::Pair WordTypes::literal_pair(Id id) {
  const HloInstruction constant = at(id);
  Pair value;
  for (Id* part : {&value.low, &value.high}) {
    HloInstruction made = constant;
    made.name += part == &value.low ? ".low" : ".high";
    made.shape = hlo::array_shape(word_type(constant.shape.type), constant.shape.dimensions);
    made.literal.clear();
    for (std::size_t at = part == &value.low ? 0 : 4; at + 4 <= constant.literal.size(); at += 8) {
      const auto begin = constant.literal.begin() + static_cast<std::ptrdiff_t>(at);
      made.literal.insert(made.literal.end(), begin, begin + 4);
    }
    *part = edit_.append_instruction(std::move(made));
  }
  return value;
}

/// Upper word of a product of two words, from products of their halves.
Id WordTypes::high_product(Id a, Id b) {
  const auto low = [&](Id x) { return edit_.binary_with(HloOpcode::kAnd, x, 0xffff); };
  const auto high = [&](Id x) { return edit_.binary_with(HloOpcode::kShiftRightLogical, x, 16); };
  const auto times = [&](Id x, Id y) { return edit_.binary(HloOpcode::kMultiply, x, y); };
  const auto plus = [&](Id x, Id y) { return edit_.binary(HloOpcode::kAdd, x, y); };
  const Id first = plus(times(high(a), low(b)), high(times(low(a), low(b))));
  const Id second = plus(times(low(a), high(b)), low(first));
  return plus(times(high(a), high(b)), plus(high(first), high(second)));
}

WordTypes::Pair WordTypes::multiply(const Pair& a, const Pair& b) {
  const auto times = [&](Id x, Id y) { return edit_.binary(HloOpcode::kMultiply, x, y); };
  const Id cross = edit_.binary(HloOpcode::kAdd, times(a.low, b.high), times(a.high, b.low));
  return {times(a.low, b.low), edit_.binary(HloOpcode::kAdd, high_product(a.low, b.low), cross)};
}

/// A shift by 32 or more words' bits gives 0, so that terms of the wrong direction vanish.
WordTypes::Pair WordTypes::shifted(HloOpcode opcode, const Pair& a, const Pair& amount) {
  const Extents extents = edit_.dimensions(a.low);
  const auto number = [&](double x) { return edit_.splat(ElementType::kU32, extents, x); };
  const Id is_far = edit_.compare(amount.high, number(0), ComparisonDirection::kNe);
  const Id n = edit_.select(is_far, number(64), amount.low);
  const Id back = edit_.binary(HloOpcode::kSubtract, number(32), n);
  const Id beyond = edit_.binary(HloOpcode::kSubtract, n, number(32));
  const bool is_left = opcode == HloOpcode::kShiftLeft;
  const HloOpcode other = is_left ? HloOpcode::kShiftRightLogical : HloOpcode::kShiftLeft;
  const Id from = is_left ? a.low : a.high, into = is_left ? a.high : a.low;
  const Id moved = edit_.binary(HloOpcode::kOr, edit_.binary(opcode, into, n),
                                edit_.binary(HloOpcode::kOr, edit_.binary(other, from, back),
                                             edit_.binary(opcode, from, beyond)));
  const Id rest = edit_.binary(opcode, from, n);
  return is_left ? Pair{rest, moved} : Pair{moved, rest};
}

Id WordTypes::less(const Pair& a, const Pair& b, bool or_equal) {
  const Id high = edit_.compare(a.high, b.high, ComparisonDirection::kLt);
  const Id equal = edit_.compare(a.high, b.high, ComparisonDirection::kEq);
  const Id low =
      edit_.compare(a.low, b.low, or_equal ? ComparisonDirection::kLe : ComparisonDirection::kLt);
  return edit_.binary(HloOpcode::kOr, high, edit_.binary(HloOpcode::kAnd, equal, low));
}

WordTypes::Pair WordTypes::binary(Id id, const Pair& a, const Pair& b) {
  const HloOpcode opcode = at(id).opcode;
  switch (opcode) {
    case HloOpcode::kAnd:
    case HloOpcode::kOr:
    case HloOpcode::kXor:
      return {edit_.binary(opcode, a.low, b.low), edit_.binary(opcode, a.high, b.high)};
    case HloOpcode::kAdd: {
      const Id low = edit_.binary(opcode, a.low, b.low);
      const Id carry =
          edit_.convert(edit_.compare(low, a.low, ComparisonDirection::kLt), ElementType::kU32);
      return {low, edit_.binary(opcode, edit_.binary(opcode, a.high, b.high), carry)};
    }
    case HloOpcode::kSubtract: {
      const Id borrow =
          edit_.convert(edit_.compare(a.low, b.low, ComparisonDirection::kLt), ElementType::kU32);
      const Id high = edit_.binary(opcode, a.high, b.high);
      return {edit_.binary(opcode, a.low, b.low), edit_.binary(opcode, high, borrow)};
    }
    case HloOpcode::kMultiply:
      return multiply(a, b);
    case HloOpcode::kShiftLeft:
    case HloOpcode::kShiftRightLogical:
      return shifted(opcode, a, b);
    case HloOpcode::kMaximum:
    case HloOpcode::kMinimum: {
      const Id first = less(a, b, false);
      const bool is_least = opcode == HloOpcode::kMinimum;
      const Pair &yes = is_least ? a : b, &no = is_least ? b : a;
      return {edit_.select(first, yes.low, no.low), edit_.select(first, yes.high, no.high)};
    }
    default:
      refuse(id, "sums, products, shifts, logic or comparisons of u64");
  }
}

/// The operation that moves elements, on both words alike.
WordTypes::Pair WordTypes::moved(const HloInstruction& instruction,
                                 const std::vector<Pair>& operands) {
  const Shape shape =
      hlo::array_shape(word_type(instruction.shape.type), instruction.shape.dimensions);
  HloInstruction low = instruction, high = instruction;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    low.operands[i] = operands[i].low;
    high.operands[i] = operands[i].high;
  }
  return {cloned(low, shape), cloned(high, shape)};
}

void WordTypes::visit_wide_compare(Id id) {
  const HloInstruction compare = at(id);
  edit_.stand_for(id);
  const Pair a = pair(compare.operands[0]), b = pair(compare.operands[1]);
  edit_.stand_for(id);
  const auto equal = [&] {
    return edit_.binary(HloOpcode::kAnd, edit_.compare(a.low, b.low, ComparisonDirection::kEq),
                        edit_.compare(a.high, b.high, ComparisonDirection::kEq));
  };
  switch (compare.direction) {
    case ComparisonDirection::kEq:
      return edit_.finish(equal());
    case ComparisonDirection::kNe:
      return edit_.finish(edit_.unary(HloOpcode::kNot, equal()));
    case ComparisonDirection::kLt:
      return edit_.finish(less(a, b, false));
    case ComparisonDirection::kLe:
      return edit_.finish(less(a, b, true));
    case ComparisonDirection::kGt:
      return edit_.finish(less(b, a, false));
    case ComparisonDirection::kGe:
      return edit_.finish(less(b, a, true));
  }
}

/// The root of the entry passes u64 as a host has it.
void WordTypes::visit_wide_tuple(Id id) {
  HloInstruction tuple = at(id);
  edit_.stand_for(id);
  for (std::size_t i = 0; i < tuple.operands.size(); ++i) {
    const Id operand = tuple.operands[i];
    if (!is_wide(given(operand))) continue;
    const bool is_parameter = at(operand).opcode == HloOpcode::kParameter && is_entry_;
    const bool is_host = is_entry_ && code().root == id;
    if (is_parameter == is_host) continue;
    const Pair value = pair(operand);
    edit_.stand_for(id);
    const Id whole = joined(value, is_host);
    code().at(id).operands[i] = whole;
  }
  code().at(id).shape = word_shape(given(id), is_entry_ && code().root == id);
}

void WordTypes::visit_wide(Id id) {
  const HloInstruction instruction = at(id);
  const auto operand_pairs = [&] {
    std::vector<Pair> pairs;
    for (const Id operand : instruction.operands) pairs.push_back(pair(operand));
    edit_.stand_for(id);
    return pairs;
  };
  edit_.stand_for(id);
  switch (instruction.opcode) {
    case HloOpcode::kParameter:
      code().at(id).shape = word_shape(given(id), is_entry_);
      return;
    case HloOpcode::kGetTupleElement:
    case HloOpcode::kWhile:
    case HloOpcode::kCall:
    case HloOpcode::kConditional:
    case HloOpcode::kOptimizationBarrier:
      return visit_handed_on(id);
    case HloOpcode::kConstant:
      return finish_pair(id, literal_pair(id));
    case HloOpcode::kIota: {
      const ElementType type = word_type(given(id).type);
      const Id low = cloned(instruction, hlo::array_shape(type, given(id).dimensions));
      return finish_pair(id, {low, edit_.splat(type, given(id).dimensions, 0)});
    }
    case HloOpcode::kBroadcast:
    case HloOpcode::kReshape:
    case HloOpcode::kBitcast:
    case HloOpcode::kTranspose:
    case HloOpcode::kCopy:
    case HloOpcode::kSlice:
    case HloOpcode::kConcatenate:
    case HloOpcode::kPad:
    case HloOpcode::kReverse:
      return finish_pair(id, moved(instruction, operand_pairs()));
    case HloOpcode::kDynamicSlice:
    case HloOpcode::kGather:
      return finish_pair(id, moved(instruction, {pair(instruction.operands[0])}));
    case HloOpcode::kDynamicUpdateSlice:
      return finish_pair(
          id, moved(instruction, {pair(instruction.operands[0]), pair(instruction.operands[1])}));
    case HloOpcode::kSelect: {
      const Pair yes = pair(instruction.operands[1]), no = pair(instruction.operands[2]);
      edit_.stand_for(id);
      Id condition = instruction.operands[0];
      if (edit_.dimensions(condition) != given(id).dimensions) {
        condition = edit_.broadcast(condition, given(id).dimensions, {});
      }
      return finish_pair(id, {edit_.select(condition, yes.low, no.low),
                              edit_.select(condition, yes.high, no.high)});
    }
    case HloOpcode::kScatter:
      return visit_reduction_of_parts(id);
    case HloOpcode::kNot:
      if (!is_complex(given(id))) return finish_pair(id, moved(instruction, operand_pairs()));
      refuse(id, "an operation that has a form on parts");
    case HloOpcode::kConvert: {
      const Id operand = instruction.operands[0];
      const ElementType from = given(operand).type;
      if (is_complex(given(id))) return visit_complex(id);
      if (from == ElementType::kU64) return finish_pair(id, pair(operand));
      return finish_pair(id, convert_to_pair(operand, from));
    }
    default: {
      if (is_complex(given(id))) return visit_complex(id);
      if (instruction.operands.size() != 2) refuse(id, "an operation that has a form on words");
      const std::vector<Pair> pairs = operand_pairs();
      return finish_pair(id, binary(id, pairs[0], pairs[1]));
    }
  }
}

/// Sums of complex numbers, and scatters that replace: each part alone.
void WordTypes::visit_reduction_of_parts(Id id) {
  const HloInstruction given_one = at(id);
  const ElementType type = word_type(given(id).type);
  const auto known = combiners_.find(given_one.called.at(0));
  if (known == combiners_.end()) refuse(id, "sums, or what replaces");
  std::vector<Id> whole = given_one.operands;
  const Pair first = pair(whole[0]);
  const Pair last = pair(whole.back());
  edit_.stand_for(id);
  Pair found;
  for (Id* part : {&found.low, &found.high}) {
    const bool is_low = part == &found.low;
    HloInstruction made = given_one;
    made.operands[0] = is_low ? first.low : first.high;
    made.operands.back() = is_low ? last.low : last.high;
    made.called = {edit_.scalar_computation(known->second, type)};
    *part = cloned(made, hlo::array_shape(type, given(id).dimensions));
  }
  finish_pair(id, found);
}

/// An operation that hands values on: it takes and gives joined words.
void WordTypes::visit_handed_on(Id id) {
  for (std::size_t i = 0; i < at(id).operands.size(); ++i) {
    const Id operand = at(id).operands[i];
    const bool is_parameter = at(operand).opcode == HloOpcode::kParameter && is_entry_;
    if (!is_wide(given(operand)) || !is_parameter) continue;
    const Pair value = pair(operand);
    edit_.stand_for(id);
    const Id whole = joined(value, false);
    code().at(id).operands[i] = whole;
  }
  code().at(id).shape = word_shape(given(id), false);
  if (!is_wide(given(id)) || !is_entry_ || code().root != id) return;
  // The root of the entry passes words as a host has them.
  edit_.stand_for(id);
  const Id whole = cloned(at(id), at(id).shape);
  finish_pair(id, halves(whole, given(id).dimensions, false));
}

/// An operation on complex numbers that does not only move them.
void WordTypes::visit_complex(Id id) {
  const HloInstruction instruction = at(id);
  ComplexArithmetic math(edit_);
  const auto operand = [&](std::size_t number) -> ComplexParts {
    const Id given_one = instruction.operands.at(number);
    if (!is_complex(given(given_one))) {
      return math.from_real(edit_.convert(given_one, ElementType::kF32));
    }
    const Pair value = pair(given_one);
    edit_.stand_for(id);
    return {value.low, value.high};
  };
  const auto finish = [&](const ComplexParts& found) {
    if (is_complex(given(id))) return finish_pair(id, {found.real, found.imaginary});
    code().at(id).shape = word_shape(given(id), false);
    edit_.finish(edit_.convert(found.real, word_type(given(id).type)));
  };
  edit_.stand_for(id);
  switch (instruction.opcode) {
    case HloOpcode::kComplex:
      return finish_pair(id, {instruction.operands[0], instruction.operands[1]});
    case HloOpcode::kReal:
    case HloOpcode::kConvert:
      return finish(operand(0));
    case HloOpcode::kImag:
      return finish({operand(0).imaginary, -1});
    case HloOpcode::kAbs:
      return finish({math.absolute(operand(0)), -1});
    case HloOpcode::kIsFinite:
      return edit_.finish(math.is_finite(operand(0)));
    case HloOpcode::kCompare: {
      const Id equal = math.equal(operand(0), operand(1));
      if (instruction.direction == ComparisonDirection::kEq) return edit_.finish(equal);
      if (instruction.direction != ComparisonDirection::kNe) refuse(id, "EQ or NE");
      return edit_.finish(edit_.unary(HloOpcode::kNot, equal));
    }
    case HloOpcode::kDot:
    case HloOpcode::kConvolution:
      return finish(math.product(instruction, operand(0), operand(1)));
    case HloOpcode::kFft:
      return finish(fourier_transform(edit_, instruction, operand(0)));
    case HloOpcode::kReduce:
    case HloOpcode::kReduceWindow:
    case HloOpcode::kScatter:
      return visit_reduction_of_parts(id);
    default:
      if (ComplexArithmetic::has_unary(instruction.opcode)) {
        return finish(math.unary(instruction.opcode, operand(0)));
      }
      if (ComplexArithmetic::has_binary(instruction.opcode)) {
        return finish(math.binary(instruction.opcode, operand(0), operand(1)));
      }
      refuse(id, "an operation that has a form on real and imaginary parts");
  }
}

void WordTypes::visit_constant(Id id) {
  HloInstruction& constant = code().at(id);
  const ElementType type = constant.shape.type;
  const auto size = static_cast<std::size_t>(hlo::byte_size(type));
  std::vector<std::uint8_t> words;
  HloInstruction element;
  element.shape = hlo::array_shape(type, {});
  for (std::size_t at = 0; at + size <= constant.literal.size(); at += size) {
    const auto begin = constant.literal.begin() + static_cast<std::ptrdiff_t>(at);
    element.literal.assign(begin, begin + static_cast<std::ptrdiff_t>(size));
    double value = scalar_value(element).value_or(0);
    if (type == ElementType::kS64) {
      constexpr double kLeast = std::numeric_limits<std::int32_t>::min();
      constexpr double kMost = std::numeric_limits<std::int32_t>::max();
      if (value > kMost && value < 0x1p62) refuse(id, "constants of at most 32 bits");
      if (value < kLeast && value > -0x1p62) refuse(id, "constants of at most 32 bits");
      value = std::clamp(value, kLeast, kMost);
    }
    const std::vector<std::uint8_t> word = scalar_constant(word_type(type), value).literal;
    words.insert(words.end(), word.begin(), word.end());
  }
  constant.literal = std::move(words);
  constant.shape = word_shape(constant.shape, false);
}

/// A conversion to a short integer, to f16 or to a floating type of 8 bits.
void WordTypes::visit_to_short(Id id) {
  const Id operand = at(id).operands[0];
  const ElementType from = given(operand).type, to = given(id).type;
  Id value = is_wide(given(operand)) ? pair(operand).low : operand;
  edit_.stand_for(id);
  code().at(id).shape = word_shape(given(id), false);
  if (to == ElementType::kF16 || is_byte_float(to)) {
    return edit_.finish(rounded(edit_.convert(value, ElementType::kF32), to));
  }
  if (is_floating_type(from)) {
    const double most = std::ldexp(1.0, bits_of(to) - (is_signed(to) ? 1 : 0)) - 1;
    value = edit_.convert(value, ElementType::kF32);
    value = edit_.binary_with(HloOpcode::kMinimum, value, most);
    value = edit_.binary_with(HloOpcode::kMaximum, value, is_signed(to) ? -most - 1 : 0);
    return edit_.finish(edit_.convert(value, word_type(to)));
  }
  edit_.finish(cut(edit_.convert(value, word_type(to)), to));
}

/// fp32 of the bits of an fp64 number: infinite beyond fp32's range, 0 below it, truncated.
Id WordTypes::number_of_bits(const Pair& words) {
  constexpr double kLeast = 1023 - 126, kMost = 1023 + 127;
  const auto shifted = [&](HloOpcode opcode, Id x, double n) {
    return edit_.binary_with(opcode, x, n);
  };
  const Id sign = shifted(HloOpcode::kAnd, words.high, 2147483648.0);
  const Id exponent =
      shifted(HloOpcode::kAnd, shifted(HloOpcode::kShiftRightLogical, words.high, 20), 0x7ff);
  const Id upper = shifted(HloOpcode::kShiftLeft, shifted(HloOpcode::kAnd, words.high, 0xfffff), 3);
  const Id fraction =
      edit_.binary(HloOpcode::kOr, upper, shifted(HloOpcode::kShiftRightLogical, words.low, 29));
  const Id biased =
      shifted(HloOpcode::kShiftLeft, shifted(HloOpcode::kSubtract, exponent, 1023 - 127), 23);
  const Extents extents = edit_.dimensions(words.low);
  const auto limit = [&](double x) { return edit_.splat(ElementType::kU32, extents, x); };
  Id bits = edit_.binary(HloOpcode::kOr, biased, fraction);
  const Id is_small = edit_.compare(exponent, limit(kLeast), ComparisonDirection::kLt);
  bits = edit_.select(is_small, limit(0), bits);
  const Id is_large = edit_.compare(exponent, limit(kMost), ComparisonDirection::kGt);
  bits = edit_.select(is_large, limit(0x7f800000), bits);
  return edit_.bitcast_convert(edit_.binary(HloOpcode::kOr, sign, bits), ElementType::kF32);
}

/// The bits of elements as elements of another type.
void WordTypes::visit_bits(Id id) {
  const Id operand = at(id).operands[0];
  const Shape from = given(operand), to = given(id);
  if (from.type == ElementType::kU64 && to.type == ElementType::kF64) {
    const Pair words = pair(operand);
    edit_.stand_for(id);
    code().at(id).shape = word_shape(to, false);
    return edit_.finish(number_of_bits(words));
  }
  for (const ElementType type : {from.type, to.type}) {
    if (type == ElementType::kF64 || type == ElementType::kS64 || type == ElementType::kC64) {
      refuse(id, "bits of u64 or of types of at most 32 bits that are held as they are");
    }
  }
  const int from_bits = bits_of(from.type), to_bits = bits_of(to.type);
  // Words of at most 32 bits, each of which holds part of the elements.
  std::vector<Id> words;
  if (is_wide(from)) {
    words = {pair(operand).low, pair(operand).high};
  } else {
    edit_.stand_for(id);
    words = {raw(operand, from.type)};
  }
  edit_.stand_for(id);
  code().at(id).shape = word_shape(to, false);
  if (from_bits == to_bits) {
    if (is_wide(to)) return finish_pair(id, {words[0], words[1]});
    return edit_.finish(from_raw(words[0], to.type));
  }
  if (from_bits > to_bits) {
    std::vector<Id> parts;
    const std::int64_t ratio = std::min(from_bits, 32) / to_bits;
    for (const Id word : words) {
      Extents extents = edit_.dimensions(word), places(extents.size());
      for (std::size_t d = 0; d < places.size(); ++d) places[d] = static_cast<std::int64_t>(d);
      extents.push_back(ratio);
      const auto minor = static_cast<std::int64_t>(places.size());
      const Id shift = edit_.binary_with(HloOpcode::kMultiply,
                                         edit_.iota(ElementType::kU32, extents, minor), to_bits);
      const Id all = edit_.broadcast(word, extents, places);
      parts.push_back(edit_.binary(HloOpcode::kShiftRightLogical, all, shift));
    }
    const auto minor = static_cast<std::int64_t>(to.dimensions.size()) - 1;
    return edit_.finish(from_raw(edit_.concatenate(parts, minor), to.type));
  }
  // From narrow to wide: elements along the minor dimension are put together.
  std::vector<Id> made;
  const Extents extents = edit_.dimensions(words[0]);
  const std::size_t minor = extents.size() - 1;
  for (std::int64_t k = 0; k < extents[minor]; ++k) {
    Extents starts(extents.size(), 0), limits = extents;
    starts[minor] = k;
    limits[minor] = k + 1;
    Id part = edit_.reshape(edit_.slice(words[0], starts, limits), to.dimensions);
    const std::int64_t bit = k * from_bits;
    const auto word = static_cast<std::size_t>(bit / 32);
    part = edit_.binary_with(HloOpcode::kShiftLeft, part, static_cast<double>(bit % 32));
    if (word < made.size()) {
      made[word] = edit_.binary(HloOpcode::kOr, made[word], part);
    } else {
      made.push_back(part);
    }
  }
  if (is_wide(to)) return finish_pair(id, {made.at(0), made.at(1)});
  edit_.finish(from_raw(made.at(0), to.type));
}

/// An operation whose words are those of its type.
void WordTypes::visit_words(Id id) {
  const Shape shape = given(id);
  HloInstruction& instruction = code().at(id);
  instruction.shape = word_shape(shape, is_entry_ && code().root == id);
  if (shape.is_tuple() || !is_short_integer(shape.type)) return;
  const bool is_bits = instruction.opcode == HloOpcode::kGetTupleElement &&
                       at(instruction.operands[0]).opcode == HloOpcode::kRngBitGenerator;
  const bool is_logical_shift = instruction.opcode == HloOpcode::kShiftRightLogical;
  const bool is_sign_shift =
      instruction.opcode == HloOpcode::kShiftRightArithmetic && !is_signed(shape.type);
  const bool is_count = instruction.opcode == HloOpcode::kPopcnt ||
                        instruction.opcode == HloOpcode::kCountLeadingZeros;
  if (is_applied_ || !(may_overflow(instruction.opcode) || is_bits || is_logical_shift ||
                       is_sign_shift || is_count)) {
    return;
  }
  HloInstruction made = instruction;
  edit_.stand_for(id);
  if (is_sign_shift) {
    const double above = 32 - bits_of(shape.type);
    const Id high = edit_.binary_with(HloOpcode::kShiftLeft, made.operands[0], above);
    made.operands[0] = edit_.binary_with(HloOpcode::kShiftRightArithmetic, high, above);
  }
  if (is_logical_shift || is_count) {
    made.operands[0] = edit_.convert(raw(made.operands[0], shape.type), word_type(shape.type));
  }
  Id value = cloned(made, made.shape);
  if (made.opcode == HloOpcode::kCountLeadingZeros) {
    value = edit_.binary_with(HloOpcode::kSubtract, value, 32 - bits_of(shape.type));
  }
  edit_.finish(cut(value, shape.type));
}

void WordTypes::visit(Id id) {
  const HloInstruction& instruction = at(id);
  const Shape& shape = given(id);
  const bool takes_wide =
      std::any_of(instruction.operands.begin(), instruction.operands.end(), [&](Id operand) {
        return static_cast<std::size_t>(operand) < given_.size() && is_wide(given(operand));
      });
  if (instruction.opcode == HloOpcode::kBitcastConvert) {
    const ElementType from = given(instruction.operands[0]).type;
    const bool is_plain = word_type(from) == from && word_type(shape.type) == shape.type &&
                          bits_of(from) == 32 && bits_of(shape.type) == 32;
    if (!is_plain) visit_bits(id);
    return;
  }
  if (is_wide(shape)) return visit_wide(id);
  if (instruction.opcode == HloOpcode::kConstant && word_type(shape.type) != shape.type) {
    return visit_constant(id);
  }
  if (instruction.opcode == HloOpcode::kTuple) return visit_wide_tuple(id);
  if (instruction.opcode == HloOpcode::kDot || instruction.opcode == HloOpcode::kConvolution) {
    const ElementType left = given(instruction.operands[0]).type;
    const ElementType right = given(instruction.operands[1]).type;
    const bool is_bytes = hlo::byte_size(left) == 1 && hlo::byte_size(right) == 1;
    if (is_bytes && is_short_integer(left) && is_short_integer(right)) {
      HloInstruction dot = instruction;
      dot.shape = word_shape(shape, false);
      edit_.stand_for(id);
      code().at(id).shape = dot.shape;
      const Id product = byte_product(edit_, dot, {dot.operands[0], dot.operands[1]});
      return edit_.finish(cut(edit_.bitcast_convert(product, dot.shape.type), shape.type));
    }
  }
  const bool is_to_short =
      is_short_integer(shape.type) || shape.type == ElementType::kF16 || is_byte_float(shape.type);
  if (instruction.opcode == HloOpcode::kConvert && is_to_short) return visit_to_short(id);
  if (takes_wide) {
    switch (instruction.opcode) {
      case HloOpcode::kReal:
      case HloOpcode::kImag:
      case HloOpcode::kAbs:
      case HloOpcode::kIsFinite:
      case HloOpcode::kFft:
        return visit_complex(id);
      case HloOpcode::kCompare:
      case HloOpcode::kConvert:
        if (is_complex(given(instruction.operands[0]))) return visit_complex(id);
        break;
      default:
        break;
    }
    if (instruction.opcode == HloOpcode::kCompare) return visit_wide_compare(id);
    if (instruction.opcode == HloOpcode::kConvert) {
      const Pair value = pair(instruction.operands[0]);
      edit_.stand_for(id);
      code().at(id).shape = word_shape(shape, false);
      const ElementType to = word_type(shape.type);
      if (!is_floating_type(to)) return edit_.finish(edit_.convert(value.low, to));
      const Id high = edit_.binary_with(HloOpcode::kMultiply,
                                        edit_.convert(value.high, ElementType::kF32), 0x1p32);
      const Id low = edit_.convert(value.low, ElementType::kF32);
      return edit_.finish(edit_.convert(edit_.binary(HloOpcode::kAdd, high, low), to));
    }
    switch (instruction.opcode) {
      case HloOpcode::kRngBitGenerator:
      case HloOpcode::kRngGetAndUpdateState:
      case HloOpcode::kWhile:
      case HloOpcode::kCall:
      case HloOpcode::kConditional:
      case HloOpcode::kOptimizationBarrier:
      case HloOpcode::kGetTupleElement:
        visit_handed_on(id);
        break;
      default:
        refuse(id, "an operation that has a form on words");
    }
  }
  visit_words(id);
}

bool has_other_types(const Shape& shape) {
  if (!shape.is_tuple()) return word_type(shape.type) != shape.type;
  return std::any_of(shape.elements.begin(), shape.elements.end(), has_other_types);
}

/// True for a bitcast-convert whose kernel does not exist: between widths, or of bf16.
bool changes_width(const Computation& computation, const HloInstruction& instruction) {
  return instruction.opcode == HloOpcode::kBitcastConvert &&
         (hlo::byte_size(instruction.shape.type) != 4 ||
          hlo::byte_size(computation.at(instruction.operands[0]).shape.type) != 4);
}

}  // namespace

std::vector<std::string> hold_in_words(hlo::Module& module) {
  std::set<ComputationId> applied;
  bool found = false;
  for (const Computation& computation : module.computations) {
    for (const HloInstruction& instruction : computation.instructions) {
      if (applies(instruction.opcode)) {
        applied.insert(instruction.called.begin(), instruction.called.end());
      }
      found =
          found || has_other_types(instruction.shape) || changes_width(computation, instruction);
    }
  }
  std::vector<std::string> notes;
  if (!found) return notes;
  const auto note = [&](ElementType type, const std::string& text) {
    const std::string where = hlo::where_found(
        module, [type](const HloInstruction& each) { return holds(each.shape, type); });
    if (!where.empty()) notes.push_back(text + ": " + where);
  };
  note(ElementType::kS64, "s64 values are computed as s32, the chip has no 64-bit integers");
  note(ElementType::kF64, "f64 values are computed as f32, the chip has no fp64");
  const Combiners combiners = wide_combiners(module);
  const std::size_t computations = module.computations.size();
  for (std::size_t i = 0; i < computations; ++i) {
    const auto id = static_cast<ComputationId>(i);
    WordTypes(module, id, applied.count(id) > 0, combiners).run();
  }
  return notes;
}

}  // namespace tpu::compiler
