#include "workloads/compiler/passes/simplify/simplify.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "sim/base/contains.h"
#include "workloads/compiler/ir/combining_operation.h"
#include "workloads/compiler/ir/dimension_order.h"
#include "workloads/compiler/ir/matrix_kernels.h"
#include "workloads/compiler/ir/operand_parts.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/simplify/constant_folding.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;
using hlo::Shape;

namespace {

using Dimensions = std::vector<std::int64_t>;

bool is_identity(const Dimensions& permutation) {
  for (std::size_t i = 0; i < permutation.size(); ++i) {
    if (permutation[i] != static_cast<std::int64_t>(i)) return false;
  }
  return true;
}

/// One walk over a computation at a time; each rule looks at one instruction and either names an
/// instruction that takes its place or changes it where it stands.
class Simplifier {
 public:
  Simplifier(const hlo::Module& module, Computation& computation)
      : module_(module), computation_(computation) {}

  /// Returns whether anything changed.
  bool run();

 private:
  HloInstruction& at(InstructionId id) { return computation_.at(id); }
  HloInstruction& operand(const HloInstruction& instruction, std::size_t index) {
    return at(instruction.operands[index]);
  }
  bool visit(InstructionId id);
  void replace(InstructionId id, InstructionId by) {
    replacement_[static_cast<std::size_t>(id)] = by;
  }
  InstructionId add(HloInstruction instruction);
  bool is_scalar_constant(InstructionId id) { return scalar_constant_of(id) != nullptr; }
  /// The scalar constant that the value consists of (itself, or broadcast), or null.
  const HloInstruction* scalar_constant_of(InstructionId id);

  bool merge_equal(InstructionId id);
  bool simplify_convert(InstructionId id);
  bool simplify_reshape(InstructionId id);
  bool simplify_transpose(InstructionId id);
  bool turn_before_broadcast(InstructionId id);
  bool turn_dot(InstructionId id);
  bool simplify_broadcast(InstructionId id);
  bool simplify_constant(InstructionId id);
  bool slice_constant(InstructionId id);
  bool slice_broadcast(InstructionId id);
  bool slice_concatenated(InstructionId id);
  bool simplify_elementwise(InstructionId id);
  bool simplify_arithmetic(InstructionId id);
  void note_rectified(const HloInstruction& instruction);
  bool compare_with_rectified(InstructionId id);
  bool simplify_dot(InstructionId id);
  bool fold_dot_operand(HloInstruction& dot, std::size_t index, Dimensions& batch,
                        Dimensions& contracting);
  bool simplify_collective(InstructionId id);
  bool simplify_reduce(InstructionId id);
  bool drop_reduced_ones(InstructionId id);
  bool reduce_before_reshape(InstructionId id);
  bool becomes_operand(InstructionId id, bool when);
  bool becomes_broadcast(InstructionId id, InstructionId scalar);

  const hlo::Module& module_;
  Computation& computation_;
  std::vector<InstructionId> replacement_;
  std::vector<int> uses_;  ///< Of each instruction, when the walk begins.
  std::unordered_map<std::string, InstructionId> by_key_;
  std::unordered_map<InstructionId, InstructionId> rectified_;  ///< x to maximum(x, 0).
};

InstructionId Simplifier::add(HloInstruction instruction) {
  const InstructionId id = append(computation_, std::move(instruction));
  replacement_.push_back(id);
  uses_.push_back(1);
  return id;
}

const HloInstruction* Simplifier::scalar_constant_of(InstructionId id) {
  const HloInstruction* instruction = &at(id);
  while (instruction->opcode == HloOpcode::kBroadcast) instruction = &operand(*instruction, 0);
  const bool is_scalar =
      instruction->opcode == HloOpcode::kConstant && instruction->shape.rank() == 0;
  return is_scalar && !instruction->shape.is_tuple() ? instruction : nullptr;
}

bool Simplifier::becomes_operand(InstructionId id, bool when) {
  if (when) replace(id, at(id).operands[0]);
  return when;
}

bool Simplifier::becomes_broadcast(InstructionId id, InstructionId scalar) {
  HloInstruction& instruction = at(id);
  instruction.opcode = HloOpcode::kBroadcast;
  instruction.operands = {scalar};
  instruction.dimensions.clear();
  return true;
}

bool Simplifier::simplify_convert(InstructionId id) {
  const HloInstruction& instruction = at(id);
  const HloInstruction& inner = operand(instruction, 0);
  if (inner.shape.type == instruction.shape.type) return becomes_operand(id, true);
  if (inner.opcode != HloOpcode::kConvert) return false;
  const HloInstruction& source = operand(inner, 0);
  const bool exact =
      source.shape.type == ElementType::kBf16 && inner.shape.type == ElementType::kF32;
  if (!exact || source.shape.type != instruction.shape.type) return false;
  replace(id, source.id);
  return true;
}

bool Simplifier::simplify_reshape(InstructionId id) {
  HloInstruction& instruction = at(id);
  const HloInstruction& inner = operand(instruction, 0);
  if (inner.shape.dimensions == instruction.shape.dimensions) return becomes_operand(id, true);
  if (inner.opcode == HloOpcode::kReshape) {
    instruction.operands = inner.operands;
    return true;
  }
  if (const HloInstruction* scalar = scalar_constant_of(inner.id)) {
    return becomes_broadcast(id, scalar->id);
  }
  if (inner.opcode == HloOpcode::kConstant) {
    instruction.opcode = HloOpcode::kConstant;
    instruction.literal = inner.literal;
    instruction.operands.clear();
    return true;
  }
  return false;
}

bool Simplifier::simplify_transpose(InstructionId id) {
  HloInstruction& instruction = at(id);
  const HloInstruction& inner = operand(instruction, 0);
  if (is_identity(instruction.dimensions)) return becomes_operand(id, true);
  if (const HloInstruction* scalar = scalar_constant_of(inner.id)) {
    return becomes_broadcast(id, scalar->id);
  }
  if (inner.opcode == HloOpcode::kTranspose) {
    Dimensions composed;
    for (std::int64_t d : instruction.dimensions) {
      composed.push_back(inner.dimensions[static_cast<std::size_t>(d)]);
    }
    instruction.dimensions = composed;
    instruction.operands = inner.operands;
    return true;
  }
  if (turn_before_broadcast(id) || turn_dot(id)) return true;
  std::int64_t last = -1;
  for (std::int64_t d : instruction.dimensions) {
    if (inner.shape.dimensions[static_cast<std::size_t>(d)] == 1) continue;
    if (d < last) return false;
    last = d;
  }
  instruction.opcode = HloOpcode::kReshape;
  instruction.dimensions.clear();
  return true;
}

/// The transpose of a broadcast is a broadcast of what it repeats, whose dimensions are brought to
/// that order before there are more of them.
bool Simplifier::turn_before_broadcast(InstructionId id) {
  const HloInstruction transpose = at(id), inner = operand(transpose, 0);
  if (inner.opcode != HloOpcode::kBroadcast) return false;
  const Dimensions& order = transpose.dimensions;
  Dimensions places, turned;  // Of the operand's dimensions in the result; those in its order.
  for (std::size_t d = 0; d < order.size(); ++d) {
    const auto found = std::find(inner.dimensions.begin(), inner.dimensions.end(), order[d]);
    if (found == inner.dimensions.end()) continue;
    places.push_back(static_cast<std::int64_t>(d));
    turned.push_back(found - inner.dimensions.begin());
  }
  InstructionId repeated = inner.operands[0];
  if (!is_identity(turned)) {
    HloInstruction smaller = transpose;
    smaller.name += ".repeated";
    smaller.operands = {repeated};
    smaller.dimensions = turned;
    smaller.shape.dimensions.clear();
    for (const std::int64_t d : turned) {
      smaller.shape.dimensions.push_back(
          at(repeated).shape.dimensions[static_cast<std::size_t>(d)]);
    }
    repeated = add(std::move(smaller));
  }
  HloInstruction& broadcast = at(id);
  broadcast.opcode = HloOpcode::kBroadcast;
  broadcast.operands = {repeated};
  broadcast.dimensions = places;
  return true;
}

/// A dot, rounded or not, of which only the transpose is used, with the free dimensions of its
/// sides exchanged, is the dot of its sides exchanged. So what follows may be of its kernel.
bool Simplifier::turn_dot(InstructionId id) {
  const HloInstruction transpose = at(id);
  const HloInstruction converted = operand(transpose, 0);
  const bool converts = converted.opcode == HloOpcode::kConvert;
  const HloInstruction& inner = converts ? operand(converted, 0) : converted;
  if (inner.opcode != HloOpcode::kDot || uses_[static_cast<std::size_t>(inner.id)] != 1 ||
      uses_[static_cast<std::size_t>(converted.id)] != 1) {
    return false;
  }
  const auto batches = static_cast<std::int64_t>(inner.dot->lhs_batch.size());
  const std::int64_t left_rank = operand(inner, 0).shape.rank();
  const auto left = left_rank - static_cast<std::int64_t>(inner.dot->lhs_contracting.size());
  Dimensions exchanged(transpose.dimensions.size());
  std::iota(exchanged.begin(), exchanged.end(), 0);
  std::rotate(exchanged.begin() + batches, exchanged.begin() + left, exchanged.end());
  if (transpose.dimensions != exchanged) return false;
  HloInstruction dot = inner;
  std::swap(dot.operands[0], dot.operands[1]);
  exchange_precisions(dot);
  hlo::DotDimensions& dims = dot.dot.edit();
  std::swap(dims.lhs_batch, dims.rhs_batch);
  std::swap(dims.lhs_contracting, dims.rhs_contracting);
  dot.shape = transpose.shape;
  dot.shape.type = inner.shape.type;
  HloInstruction result = converts ? converted : dot;
  if (converts) {
    dot.name = inner.name + ".turned";
    result.operands = {add(std::move(dot))};
    result.shape = transpose.shape;
  }
  result.id = id;
  result.name = transpose.name;
  at(id) = std::move(result);
  return true;
}

/// Where each dimension of `inner` went when a reshape only inserted dimensions of extent 1; none
/// when it did more.
std::optional<Dimensions> inserted_ones(const Shape& inner, const Shape& outer) {
  Dimensions place;
  std::size_t next = 0;
  for (std::size_t d = 0; d < outer.dimensions.size(); ++d) {
    if (next < inner.dimensions.size() && inner.dimensions[next] == outer.dimensions[d]) {
      place.push_back(static_cast<std::int64_t>(d));
      ++next;
    } else if (outer.dimensions[d] != 1) {
      return std::nullopt;
    }
  }
  if (next != inner.dimensions.size()) return std::nullopt;
  return place;
}

bool Simplifier::simplify_broadcast(InstructionId id) {
  HloInstruction& instruction = at(id);
  const HloInstruction& inner = operand(instruction, 0);
  if (inner.shape.dimensions == instruction.shape.dimensions &&
      is_identity(instruction.dimensions)) {
    return becomes_operand(id, true);
  }
  std::optional<Dimensions> through;
  if (inner.opcode == HloOpcode::kBroadcast) through = inner.dimensions;
  if (inner.opcode == HloOpcode::kReshape) {
    through = inserted_ones(operand(inner, 0).shape, inner.shape);
  }
  if (!through) return false;
  Dimensions composed;
  for (std::int64_t d : *through) {
    composed.push_back(instruction.dimensions[static_cast<std::size_t>(d)]);
  }
  instruction.dimensions = composed;
  instruction.operands = inner.operands;
  return true;
}

/// A constant array of equal elements becomes the broadcast of a scalar.
bool Simplifier::simplify_constant(InstructionId id) {
  const HloInstruction& instruction = at(id);
  const std::size_t size = static_cast<std::size_t>(hlo::byte_size(instruction.shape.type));
  const std::vector<std::uint8_t>& bytes = instruction.literal;
  if (instruction.shape.is_tuple() || instruction.shape.rank() == 0) return false;
  if (size == 0 || bytes.size() < size) return false;
  for (std::size_t i = size; i < bytes.size(); ++i) {
    if (bytes[i] != bytes[i - size]) return false;
  }
  HloInstruction scalar;
  scalar.opcode = HloOpcode::kConstant;
  scalar.name = instruction.name + ".scalar";
  scalar.shape = hlo::array_shape(instruction.shape.type, {});
  scalar.literal.assign(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
  const InstructionId added = add(std::move(scalar));
  at(id).literal.clear();
  return becomes_broadcast(id, added);
}

/// Of what a broadcast repeats, wherever a slice begins: fewer repetitions.
bool Simplifier::slice_broadcast(InstructionId id) {
  const HloInstruction inner = operand(at(id), 0);
  if (inner.opcode != HloOpcode::kBroadcast) return false;
  HloInstruction& slice = at(id);
  for (const std::int64_t d : inner.dimensions) {
    const auto place = static_cast<std::size_t>(d);
    if (slice.shape.dimensions[place] != inner.shape.dimensions[place]) return false;
  }
  slice.opcode = HloOpcode::kBroadcast;
  slice.operands = {inner.operands[0]};
  slice.dimensions = inner.dimensions;
  slice.slice.reset();
  slice.dynamic_slice_sizes.reset();
  return true;
}

/// Part of a constant is a constant.
bool Simplifier::slice_constant(InstructionId id) {
  const HloInstruction& array = operand(at(id), 0);
  if (array.opcode != HloOpcode::kConstant) return false;
  std::optional<std::vector<std::uint8_t>> literal = sliced_literal(at(id), array);
  if (!literal) return false;
  HloInstruction& slice = at(id);
  slice.opcode = HloOpcode::kConstant;
  slice.operands.clear();
  slice.slice.reset();
  slice.literal = std::move(*literal);
  simplify_constant(id);
  return true;
}

/// A slice inside of one operand of a concatenation is a slice of that one.
bool Simplifier::slice_concatenated(InstructionId id) {
  const HloInstruction& joined = operand(at(id), 0);
  if (joined.opcode != HloOpcode::kConcatenate) return false;
  const auto d = static_cast<std::size_t>(joined.dimensions.front());
  hlo::SliceBounds bounds = at(id).slice.get();
  std::int64_t begin = 0;
  for (const InstructionId part : joined.operands) {
    const std::int64_t end = begin + at(part).shape.dimensions[d];
    if (bounds.starts[d] >= begin && bounds.limits[d] <= end) {
      bounds.starts[d] -= begin;
      bounds.limits[d] -= begin;
      at(id).slice = bounds;
      at(id).operands = {part};
      return true;
    }
    begin = end;
  }
  return false;
}

bool Simplifier::simplify_elementwise(InstructionId id) {
  std::vector<const HloInstruction*> scalars;
  for (InstructionId operand : at(id).operands) {
    const HloInstruction* scalar = scalar_constant_of(operand);
    if (scalar == nullptr) return simplify_arithmetic(id);
    scalars.push_back(scalar);
  }
  const std::optional<double> value = fold_scalar(at(id), scalars);
  if (!value) return false;
  HloInstruction constant = scalar_constant(at(id).shape.type, *value);
  constant.name = at(id).name + ".folded";
  constant.metadata = at(id).metadata;
  const InstructionId added = add(std::move(constant));
  if (at(id).shape.rank() != 0) return becomes_broadcast(id, added);
  replace(id, added);
  return true;
}

/// A mask may stand before its maximum in the text: maxima are known when the walk begins.
void Simplifier::note_rectified(const HloInstruction& instruction) {
  if (instruction.opcode != HloOpcode::kMaximum) return;
  const ElementType type = instruction.shape.type;
  if (type != ElementType::kF32 && type != ElementType::kBf16) return;
  for (const std::size_t of : {0, 1}) {
    const HloInstruction* least = scalar_constant_of(instruction.operands[1 - of]);
    if (least != nullptr && scalar_value(*least) == 0) {
      rectified_.emplace(instruction.operands[of], instruction.id);
    }
  }
}

/// x > 0 is maximum(x, 0) > 0: where there is a maximum, the mask of its gradient needs no x, which
/// would have to be kept beside it.
bool Simplifier::compare_with_rectified(InstructionId id) {
  HloInstruction& compare = at(id);
  if (compare.direction != hlo::ComparisonDirection::kGt) return false;
  const auto found = rectified_.find(compare.operands[0]);
  if (found == rectified_.end()) return false;
  compare.operands[0] = found->second;
  return true;
}

/// Neutral elements, and division by a power of two.
bool Simplifier::simplify_arithmetic(InstructionId id) {
  HloInstruction& instruction = at(id);
  if (instruction.operands.size() != 2) return false;
  const bool is_float =
      instruction.shape.type == ElementType::kF32 || instruction.shape.type == ElementType::kBf16;
  const auto is_value = [&](std::size_t index, double value) {
    const HloInstruction* scalar = scalar_constant_of(instruction.operands[index]);
    return scalar != nullptr && scalar_value(*scalar) == value;
  };
  switch (instruction.opcode) {
    case HloOpcode::kMultiply:
    case HloOpcode::kAdd: {
      const double neutral = instruction.opcode == HloOpcode::kAdd ? 0 : 1;
      if (is_value(0, neutral)) {
        replace(id, instruction.operands[1]);
        return true;
      }
      return becomes_operand(id, is_value(1, neutral));
    }
    case HloOpcode::kSubtract:
      return becomes_operand(id, is_value(1, 0));
    case HloOpcode::kMaximum:
    case HloOpcode::kMinimum: {
      const double infinity = std::numeric_limits<double>::infinity();
      const double neutral = instruction.opcode == HloOpcode::kMaximum ? -infinity : infinity;
      if (!is_float) return false;
      if (is_value(0, neutral)) {
        replace(id, instruction.operands[1]);
        return true;
      }
      return becomes_operand(id, is_value(1, neutral));
    }
    case HloOpcode::kCompare:
      return is_value(1, 0) && compare_with_rectified(id);
    case HloOpcode::kDivide:
      break;
    default:
      return false;
  }
  if (is_value(1, 1)) return becomes_operand(id, true);
  const HloInstruction* divisor = scalar_constant_of(instruction.operands[1]);
  const std::optional<double> value = divisor != nullptr ? scalar_value(*divisor) : std::nullopt;
  int exponent = 0;
  if (!is_float || !value || std::fabs(std::frexp(*value, &exponent)) != 0.5 ||
      std::abs(exponent) > 100) {
    return false;
  }
  HloInstruction reciprocal = scalar_constant(instruction.shape.type, 1 / *value);
  HloInstruction spread = operand(instruction, 1);
  InstructionId factor = add(std::move(reciprocal));
  if (spread.shape.rank() != 0) {
    spread.opcode = HloOpcode::kBroadcast;
    spread.dimensions.clear();
    spread.operands = {factor};
    factor = add(std::move(spread));
  }
  at(id).opcode = HloOpcode::kMultiply;
  at(id).operands[1] = factor;
  return true;
}

bool Simplifier::fold_dot_operand(HloInstruction& dot, std::size_t index, Dimensions& batch,
                                  Dimensions& contracting) {
  const HloInstruction& transpose = operand(dot, index);
  if (transpose.opcode != HloOpcode::kTranspose) return false;
  const auto source = [&transpose](std::int64_t d) {
    return transpose.dimensions[static_cast<std::size_t>(d)];
  };
  const auto is_in = [](const Dimensions& list, std::int64_t d) {
    return std::find(list.begin(), list.end(), d) != list.end();
  };
  std::int64_t last_free = -1;
  for (std::int64_t d = 0; d < transpose.shape.rank(); ++d) {
    if (is_in(batch, d) || is_in(contracting, d)) continue;
    if (source(d) < last_free) return false;
    last_free = source(d);
  }
  for (std::int64_t& d : batch) d = source(d);
  for (std::int64_t& d : contracting) d = source(d);
  dot.operands[index] = transpose.operands[0];
  return true;
}

bool Simplifier::simplify_dot(InstructionId id) {
  HloInstruction& dot = at(id);
  hlo::DotDimensions& dims = dot.dot.edit();
  const bool left = fold_dot_operand(dot, 0, dims.lhs_batch, dims.lhs_contracting);
  const bool right = fold_dot_operand(dot, 1, dims.rhs_batch, dims.rhs_contracting);
  return left || right;
}

/// The value that a reduction by this operation may begin with.
std::optional<double> neutral_value(HloOpcode opcode) {
  switch (opcode) {
    case HloOpcode::kAdd:
    case HloOpcode::kOr:
      return 0;
    case HloOpcode::kMultiply:
    case HloOpcode::kAnd:
      return 1;
    case HloOpcode::kMaximum:
      return -HUGE_VAL;
    case HloOpcode::kMinimum:
      return HUGE_VAL;
    default:
      return std::nullopt;
  }
}

/// Reduced dimensions of extent 1 leave the operand by a reshape, where others are reduced with
/// them.
bool Simplifier::drop_reduced_ones(InstructionId id) {
  const HloInstruction& input = operand(at(id), 0);
  HloInstruction reshape;
  reshape.opcode = HloOpcode::kReshape;
  reshape.name = input.name + ".reduced." + std::to_string(id);
  reshape.metadata = at(id).metadata;
  reshape.operands = {input.id};
  Dimensions kept, reduced;
  for (std::int64_t d = 0; d < input.shape.rank(); ++d) {
    const Dimensions& all = at(id).dimensions;
    const bool is_reduced = std::find(all.begin(), all.end(), d) != all.end();
    const std::int64_t extent = input.shape.dimensions[static_cast<std::size_t>(d)];
    if (is_reduced && extent == 1) continue;
    if (is_reduced) reduced.push_back(static_cast<std::int64_t>(kept.size()));
    kept.push_back(extent);
  }
  if (kept == input.shape.dimensions) return false;
  reshape.shape = hlo::array_shape(input.shape.type, kept);
  const InstructionId added = add(std::move(reshape));
  at(id).operands[0] = added;
  at(id).dimensions = reduced;
  return true;
}

/// Of a reshape that nothing else reads, where dimensions that it joins or splits are reduced
/// whole: the reduction of what it reads. A norm over all of an array would wait until it is moved.
bool Simplifier::reduce_before_reshape(InstructionId id) {
  const HloInstruction& reshape = operand(at(id), 0);
  if (reshape.opcode != HloOpcode::kReshape || uses_[static_cast<std::size_t>(reshape.id)] != 1) {
    return false;
  }
  const Shape& before = operand(reshape, 0).shape;
  const auto is_reduced = [&](std::int64_t d) { return contains(at(id).dimensions, d); };
  Dimensions reduced;
  bool joins = false;
  for (const ReshapeSegment& segment : segments_of_reshape(before, reshape.shape)) {
    const auto count = std::count_if(segment.to.begin(), segment.to.end(), is_reduced);
    const bool is_one = segment.from.size() == 1 && segment.to.size() == 1;
    if (count == 0 && is_one) continue;
    if (count != static_cast<std::ptrdiff_t>(segment.to.size())) return false;
    joins |= !is_one;
    reduced.insert(reduced.end(), segment.from.begin(), segment.from.end());
  }
  Dimensions kept;
  for (std::int64_t d = 0; d < before.rank(); ++d) {
    if (!contains(reduced, d)) kept.push_back(before.dimensions[static_cast<std::size_t>(d)]);
  }
  if (!joins || kept != at(id).shape.dimensions) return false;
  at(id).operands[0] = reshape.operands[0];
  at(id).dimensions = reduced;
  return true;
}

/// Over nothing, or over dimensions of extent 1 from a neutral value.
bool Simplifier::simplify_reduce(InstructionId id) {
  HloInstruction& instruction = at(id);
  if (instruction.shape.is_tuple()) return false;
  if (instruction.dimensions.empty()) return becomes_operand(id, true);
  const HloInstruction& input = operand(instruction, 0);
  if (input.shape.element_count() != instruction.shape.element_count()) {
    return reduce_before_reshape(id) || drop_reduced_ones(id);
  }
  const HloOpcode operation = combining_operation(module_.computation(instruction.called.at(0)));
  const HloInstruction* initial = scalar_constant_of(instruction.operands[1]);
  const std::optional<double> neutral = neutral_value(operation);
  if (operation == HloOpcode::kCount || initial == nullptr || !neutral) return false;
  const bool is_and = operation == HloOpcode::kAnd;
  if (is_and && instruction.shape.type != ElementType::kPred) return false;
  if (scalar_value(*initial) != neutral) return false;
  instruction.opcode = HloOpcode::kReshape;
  instruction.operands.pop_back();
  instruction.called.clear();
  instruction.dimensions.clear();
  return true;
}

bool Simplifier::simplify_collective(InstructionId id) {
  HloInstruction& instruction = at(id);
  if (module_.replicas != 1) return false;
  if (instruction.operands.size() == 1 && !instruction.shape.is_tuple()) {
    return becomes_operand(id, true);
  }
  instruction.opcode = HloOpcode::kTuple;
  instruction.called.clear();
  return true;
}

bool Simplifier::merge_equal(InstructionId id) {
  const HloInstruction& instruction = at(id);
  switch (instruction.opcode) {
    case HloOpcode::kParameter:
    case HloOpcode::kInfeed:
    case HloOpcode::kOutfeed:
    case HloOpcode::kRng:
    case HloOpcode::kAfterAll:
      return false;
    case HloOpcode::kCustomCall:
      if (!is_matrix_kernel(instruction)) return false;
      break;
    default:
      break;
  }
  const auto [found, is_new] = by_key_.emplace(value_key(module_, instruction), id);
  if (is_new || found->second == id) return false;
  replace(id, found->second);
  return true;
}

bool Simplifier::visit(InstructionId id) {
  const HloInstruction& instruction = at(id);
  switch (instruction.opcode) {
    case HloOpcode::kGetTupleElement: {
      const HloInstruction& tuple = operand(instruction, 0);
      if (tuple.opcode != HloOpcode::kTuple) return false;
      replace(id, tuple.operands[static_cast<std::size_t>(instruction.tuple_index)]);
      return true;
    }
    case HloOpcode::kReshape:
    case HloOpcode::kBitcast:
      at(id).opcode = HloOpcode::kReshape;
      return simplify_reshape(id);
    case HloOpcode::kTranspose:
      return simplify_transpose(id);
    case HloOpcode::kBroadcast:
      return simplify_broadcast(id);
    case HloOpcode::kConstant:
      return simplify_constant(id);
    case HloOpcode::kConvert:
      return simplify_convert(id) || simplify_elementwise(id);
    case HloOpcode::kCopy:
    case HloOpcode::kOptimizationBarrier:
      return becomes_operand(id, instruction.operands.size() == 1);
    case HloOpcode::kDynamicSlice:
      return slice_broadcast(id);
    case HloOpcode::kSlice:
      if (slice_constant(id) || slice_broadcast(id) || slice_concatenated(id)) return true;
      [[fallthrough]];
    case HloOpcode::kPad:
    case HloOpcode::kReverse:
      return becomes_operand(
          id, instruction.opcode != HloOpcode::kReverse &&
                  instruction.shape.dimensions == operand(instruction, 0).shape.dimensions &&
                  std::all_of(
                      instruction.padding.begin(), instruction.padding.end(),
                      [](const auto& p) { return p.low == 0 && p.high == 0 && p.interior == 0; }));
    case HloOpcode::kConcatenate:
      return becomes_operand(id, instruction.operands.size() == 1);
    case HloOpcode::kReduce:
      return simplify_reduce(id);
    case HloOpcode::kDot:
      return simplify_dot(id);
    case HloOpcode::kAllReduce:
      return simplify_collective(id);
    default:
      return hlo::is_elementwise(instruction.opcode) && simplify_elementwise(id);
  }
}

bool Simplifier::run() {
  replacement_.resize(computation_.instructions.size());
  std::iota(replacement_.begin(), replacement_.end(), 0);
  uses_.assign(computation_.instructions.size(), 0);
  for (const HloInstruction& instruction : computation_.instructions) {
    for (InstructionId operand : instruction.operands) {
      ++uses_[static_cast<std::size_t>(operand)];
    }
    note_rectified(instruction);
  }
  ++uses_[static_cast<std::size_t>(computation_.root)];
  bool changed = false;
  for (std::size_t i = 0; i < computation_.instructions.size(); ++i) {
    const InstructionId id = static_cast<InstructionId>(i);
    for (InstructionId& operand : at(id).operands) {
      while (replacement_[static_cast<std::size_t>(operand)] != operand) {
        operand = replacement_[static_cast<std::size_t>(operand)];
      }
    }
    const bool simpler = visit(id);
    const bool is_replaced = replacement_[i] != id;
    changed |= simpler;
    if (!is_replaced) changed |= merge_equal(id);
  }
  InstructionId& root = computation_.root;
  while (replacement_[static_cast<std::size_t>(root)] != root) {
    root = replacement_[static_cast<std::size_t>(root)];
  }
  // Instructions added on the way stand behind their users, whose operands are up to date already;
  // their own operands are, too.
  tidy(computation_);
  return changed;
}

}  // namespace

void simplify(hlo::Module& module) {
  Computation& entry = module.entry_computation();
  tidy(entry);
  for (int round = 0; round < 16; ++round) {
    if (!Simplifier(module, entry).run()) break;
  }
  remove_unused_computations(module);
}

}  // namespace tpu::compiler
