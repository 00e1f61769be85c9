#include "workloads/compiler/passes/expand/reduction_forms.h"

#include <algorithm>
#include <cmath>

#include "sim/base/error.h"
#include "workloads/compiler/ir/combining_operation.h"
#include "workloads/compiler/ir/sort_form.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/expand/integer_widths.h"
#include "workloads/compiler/passes/expand/scalar_samples.h"
#include "workloads/compiler/passes/graph_editor.h"
#include "workloads/compiler/passes/refusal_list.h"
#include "workloads/compiler/passes/simplify/constant_folding.h"

namespace tpu::compiler {

using hlo::ComparisonDirection;
using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;

namespace {

using Id = GraphEditor::Id;
using Extents = GraphEditor::Extents;

/// Integers up to here are exact in fp32.
constexpr std::int64_t kExactIntegers = std::int64_t{1} << 24;
/// Comparisons of a sort: 2^34 take about a tenth of a second.
constexpr std::int64_t kMostComparisons = std::int64_t{1} << 34;

class Reductions {
 public:
  explicit Reductions(hlo::Module& module) : module_(module), edit_(module) {}

  void run(Refusals& refusals) {
    rewrite_each(module_, refusals, [this](Id id) { visit(id); });
  }

 private:
  const HloInstruction& at(Id id) const { return module_.entry_computation().at(id); }
  void visit(Id id);
  void visit_integers(Id id);
  void visit_pairs(Id id);
  void visit_sort(Id id);
  void visit_topk(Id id, std::int64_t count, bool largest);
  void visit_partial_reduce(Id id);
  void visit_by_halves(Id id);
  void visit_map(Id id);

  Id like(Id value, double number) {
    return edit_.splat(edit_.shape(value).type, edit_.dimensions(value), number);
  }
  Id integer_sum(Id words, const Extents& dimensions, std::int64_t count);
  Id integer_extreme(Id words, const Extents& dimensions, bool maximum);
  Id spread(Id reduced, const Extents& box, const Extents& dimensions);
  Id extreme_of(Id values, const Extents& dimensions, bool greatest);
  struct Pairs;
  Id before_by_key(Id keys, bool descending, std::int64_t dimension);
  Id before_by_comparator(const HloInstruction& sort, std::int64_t dimension);
  Id earlier(const Pairs& pairs);
  Id order_of(Id before, std::int64_t dimension, std::int64_t count);
  std::pair<Id, Id> greatest_one_by_one(Id rows, std::int64_t count, bool largest);
  std::vector<Id> halved(std::vector<Id> values, std::int64_t dimension, hlo::ComputationId body);

  hlo::Module& module_;
  GraphEditor edit_;
};

/// s32 numbers that were summed as digits, modulo 2^32. Of numbers that are known to be small there
/// are fewer.
Id Reductions::integer_sum(Id words, const Extents& dimensions, std::int64_t count) {
  int bits = 24;
  while (bits > 0 && count > (kExactIntegers >> bits)) --bits;
  bits = std::min(bits, 16);
  TPU_CHECK(bits > 0, "a sum of " << count << " integers");
  const int width = std::max(1, width_of(module_.entry_computation(), words));
  Id sum = -1;
  for (int shift = 0; shift < width; shift += bits) {
    Id digit = words;
    if (shift > 0) digit = edit_.binary(HloOpcode::kShiftRightLogical, digit, like(digit, shift));
    const bool is_last = width < 32 && shift + bits >= width;
    if (!is_last) digit = edit_.binary(HloOpcode::kAnd, digit, like(digit, (1 << bits) - 1));
    digit = edit_.convert(digit, ElementType::kF32);
    Id part = edit_.convert(edit_.reduce(digit, HloOpcode::kAdd, dimensions, 0), ElementType::kS32);
    if (shift > 0) part = edit_.binary(HloOpcode::kShiftLeft, part, like(part, shift));
    sum = sum < 0 ? part : edit_.binary(HloOpcode::kAdd, sum, part);
  }
  return sum;
}

/// The value of a reduction at every place that was reduced into it.
Id Reductions::spread(Id reduced, const Extents& box, const Extents& dimensions) {
  Extents places;
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(box.size()); ++d) {
    if (std::find(dimensions.begin(), dimensions.end(), d) == dimensions.end()) places.push_back(d);
  }
  return edit_.broadcast(reduced, box, places);
}

Id Reductions::integer_extreme(Id words, const Extents& dimensions, bool maximum) {
  const HloOpcode opcode = maximum ? HloOpcode::kMaximum : HloOpcode::kMinimum;
  const double end = maximum ? -HUGE_VAL : HUGE_VAL;
  const Id high = edit_.convert(
      edit_.binary(HloOpcode::kShiftRightArithmetic, words, like(words, 16)), ElementType::kF32);
  const Id low =
      edit_.convert(edit_.binary(HloOpcode::kAnd, words, like(words, 0xffff)), ElementType::kF32);
  const Id best = edit_.reduce(high, opcode, dimensions, end);
  const Id stands = edit_.compare(high, spread(best, edit_.dimensions(words), dimensions),
                                  ComparisonDirection::kEq);
  const Id candidates = edit_.select(stands, low, like(low, maximum ? -1 : 65536));
  const Id rest = edit_.reduce(candidates, opcode, dimensions, end);
  const Id upper = edit_.convert(best, ElementType::kS32);
  return edit_.binary(HloOpcode::kOr, edit_.binary(HloOpcode::kShiftLeft, upper, like(upper, 16)),
                      edit_.convert(rest, ElementType::kS32));
}

void Reductions::visit_integers(Id id) {
  const HloInstruction reduce = at(id);
  const HloOpcode opcode = combining_operation(module_.computation(reduce.called.at(0)));
  const Id operand = reduce.operands[0];
  const std::int64_t count =
      at(operand).shape.element_count() / std::max<std::int64_t>(1, reduce.shape.element_count());
  const bool is_extreme = opcode == HloOpcode::kMaximum || opcode == HloOpcode::kMinimum;
  if ((opcode != HloOpcode::kAdd && !is_extreme) || count > kExactIntegers / 2) {
    return visit_by_halves(id);
  }
  const bool is_signed = reduce.shape.type == ElementType::kS32;
  const HloInstruction source = at(operand);
  edit_.stand_for(id);
  Id result = -1;
  if (opcode == HloOpcode::kAdd && source.opcode == HloOpcode::kConvert &&
      edit_.shape(source.operands[0]).type == ElementType::kPred) {
    const Id ones = edit_.convert(source.operands[0], ElementType::kF32);
    result =
        edit_.convert(edit_.reduce(ones, HloOpcode::kAdd, reduce.dimensions, 0), ElementType::kS32);
  } else {
    Id words = edit_.reinterpret(operand, ElementType::kS32);
    if (opcode == HloOpcode::kAdd) {
      result = integer_sum(words, reduce.dimensions, count);
    } else {
      // The order of unsigned numbers is that of signed ones with the sign turned.
      const double sign = -2147483648.0;
      if (!is_signed) words = edit_.binary(HloOpcode::kXor, words, like(words, sign));
      result = integer_extreme(words, reduce.dimensions, opcode == HloOpcode::kMaximum);
      if (!is_signed) result = edit_.binary(HloOpcode::kXor, result, like(result, sign));
    }
  }
  result = edit_.reinterpret(result, reduce.shape.type);
  const Id start = edit_.broadcast(reduce.operands[1], edit_.dimensions(result), {});
  edit_.finish(edit_.binary(opcode, result, start));
}

/// A dimension of extent 1 in which the elements of that one are combined: the first half with the
/// second, again and again.
std::vector<Id> Reductions::halved(std::vector<Id> values, std::int64_t dimension,
                                   hlo::ComputationId body) {
  const auto d = static_cast<std::size_t>(dimension);
  std::vector<std::vector<Id>> rests;
  const auto combined = [&](std::vector<Id> a, const std::vector<Id>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return edit_.apply(body, a);
  };
  const auto part = [&](std::int64_t begin, std::int64_t count) {
    std::vector<Id> parts;
    parts.reserve(values.size());
    for (const Id value : values) parts.push_back(edit_.take(value, dimension, begin, count, 1));
    return parts;
  };
  for (std::int64_t extent; (extent = edit_.dimensions(values[0])[d]) > 1;) {
    const std::int64_t half = extent / 2;
    if (extent % 2 != 0) rests.push_back(part(extent - 1, 1));
    values = combined(part(0, half), part(half, half));
  }
  for (std::size_t i = rests.size(); i-- > 0;) values = combined(values, rests[i]);
  return values;
}

/// Any reduction: its computation on halves of the arrays.
void Reductions::visit_by_halves(Id id) {
  const HloInstruction reduce = at(id);
  const std::size_t count = reduce.operands.size() / 2;
  const auto middle = reduce.operands.begin() + static_cast<std::ptrdiff_t>(count);
  std::vector<Id> values(reduce.operands.begin(), middle);
  edit_.stand_for(id);
  Extents extents = edit_.dimensions(values[0]);
  for (const std::int64_t d : reduce.dimensions) {
    if (extents[static_cast<std::size_t>(d)] == 0) refuse("expected elements to reduce");
    values = halved(values, d, reduce.called.at(0));
    extents[static_cast<std::size_t>(d)] = 1;
  }
  Extents kept;
  for (std::int64_t d = 0; d < static_cast<std::int64_t>(extents.size()); ++d) {
    const auto& reduced = reduce.dimensions;
    if (std::find(reduced.begin(), reduced.end(), d) == reduced.end()) {
      kept.push_back(extents[static_cast<std::size_t>(d)]);
    }
  }
  std::vector<Id> arguments;
  for (std::size_t i = 0; i < count; ++i) {
    arguments.push_back(edit_.broadcast(reduce.operands[count + i], kept, {}));
  }
  for (const Id value : values) arguments.push_back(edit_.reshape(value, kept));
  const std::vector<Id> results = edit_.apply(reduce.called[0], arguments);
  if (reduce.shape.is_tuple()) return edit_.finish_tuple(results);
  edit_.finish(results.at(0));
}

void Reductions::visit_map(Id id) {
  const HloInstruction map = at(id);
  edit_.stand_for(id);
  const std::vector<Id> results = edit_.apply(map.called.at(0), map.operands);
  if (map.shape.is_tuple()) return edit_.finish_tuple(results);
  edit_.finish(results.at(0));
}

/// The greatest or least of floating values or integers.
Id Reductions::extreme_of(Id values, const Extents& dimensions, bool greatest) {
  if (edit_.shape(values).type == ElementType::kS32) {
    return integer_extreme(values, dimensions, greatest);
  }
  return edit_.reduce(values, greatest ? HloOpcode::kMaximum : HloOpcode::kMinimum, dimensions,
                      greatest ? -HUGE_VAL : HUGE_VAL);
}

void Reductions::visit_pairs(Id id) {
  const HloInstruction reduce = at(id);
  PairReducer kind;
  if (reduce.operands.size() == 4) kind = pair_reducer(module_.computation(reduce.called.at(0)));
  const hlo::Shape values = edit_.shape(reduce.operands[0]);
  const hlo::Shape indices = edit_.shape(reduce.operands[1]);
  const bool is_float = values.type == ElementType::kF32 || values.type == ElementType::kBf16;
  const bool is_integer = values.type == ElementType::kS32;
  if (!kind.is_known || !(is_float || is_integer) || indices.type != ElementType::kS32) {
    return visit_by_halves(id);
  }
  edit_.stand_for(id);
  const Id value =
      is_float ? edit_.convert(reduce.operands[0], ElementType::kF32) : reduce.operands[0];
  const Id index = edit_.convert(reduce.operands[1], ElementType::kF32);
  const Id best = extreme_of(value, reduce.dimensions, kind.greatest);
  Id stands = edit_.compare(value, spread(best, values.dimensions, reduce.dimensions),
                            ComparisonDirection::kEq);
  if (is_float && kind.keeps_nan) {
    const Id is_nan = edit_.compare(value, value, ComparisonDirection::kNe);
    stands = edit_.binary(HloOpcode::kOr, stands, is_nan);
  }
  const double none = kind.last_of_equal ? -1 : static_cast<double>(kExactIntegers);
  const Id candidates = edit_.select(stands, index, like(index, none));
  const Id place =
      edit_.reduce(candidates, kind.last_of_equal ? HloOpcode::kMaximum : HloOpcode::kMinimum,
                   reduce.dimensions, kind.last_of_equal ? -HUGE_VAL : HUGE_VAL);
  edit_.finish_tuple({edit_.convert(best, values.type), edit_.convert(place, ElementType::kS32)});
}

/// All elements of a dimension beside all others of it, which stand along a dimension behind the
/// last one.
struct Reductions::Pairs {
  Pairs(GraphEditor& edit, Id array, std::int64_t dimension)
      : edit(edit), dimension(dimension), extents(edit.dimensions(array)) {
    behind = static_cast<std::int64_t>(extents.size());
    extents.push_back(extents[static_cast<std::size_t>(dimension)]);
    for (std::int64_t d = 0; d < behind; ++d) {
      places.push_back(d);
      others.push_back(d == dimension ? behind : d);
    }
  }

  Id mine(Id array) const { return edit.broadcast(array, extents, places); }
  Id other(Id array) const { return edit.broadcast(array, extents, others); }

  GraphEditor& edit;
  std::int64_t dimension, behind = 0;
  Extents extents, places, others;
};

/// Whether the other one of a pair stands in front.
Id Reductions::earlier(const Pairs& pairs) {
  return edit_.compare(edit_.iota(ElementType::kS32, pairs.extents, pairs.behind),
                       edit_.iota(ElementType::kS32, pairs.extents, pairs.dimension),
                       ComparisonDirection::kLt);
}

/// Of pairs of elements of a dimension whether the other one comes before.
Id Reductions::before_by_key(Id keys, bool descending, std::int64_t dimension) {
  if (edit_.shape(keys).type == ElementType::kBf16) keys = edit_.convert(keys, ElementType::kF32);
  const Pairs pairs(edit_, keys, dimension);
  const Id mine = pairs.mine(keys), other = pairs.other(keys);
  const Id ahead =
      edit_.compare(other, mine, descending ? ComparisonDirection::kGt : ComparisonDirection::kLt);
  const Id ties = edit_.binary(
      HloOpcode::kAnd, edit_.compare(other, mine, ComparisonDirection::kEq), earlier(pairs));
  return edit_.binary(HloOpcode::kOr, ahead, ties);
}

/// The same by the comparator of a sort, which is asked in both directions.
Id Reductions::before_by_comparator(const HloInstruction& sort, std::int64_t dimension) {
  const Pairs pairs(edit_, sort.operands[0], dimension);
  std::vector<Id> forwards, backwards;
  for (const Id array : sort.operands) {
    const Id mine = pairs.mine(array), other = pairs.other(array);
    forwards.insert(forwards.end(), {other, mine});
    backwards.insert(backwards.end(), {mine, other});
  }
  const Id ahead = edit_.apply(sort.called.at(0), forwards).at(0);
  const Id behind = edit_.apply(sort.called.at(0), backwards).at(0);
  const Id ties =
      edit_.binary(HloOpcode::kAnd, edit_.unary(HloOpcode::kNot, behind), earlier(pairs));
  return edit_.binary(HloOpcode::kOr, ahead, ties);
}

/// s32, the dimension last: which element comes at each place of the order.
Id Reductions::order_of(Id before, std::int64_t dimension, std::int64_t count) {
  Extents places = edit_.dimensions(before), same;
  const auto behind = static_cast<std::int64_t>(places.size()) - 1;
  const Id rank =
      edit_.reduce(edit_.convert(before, ElementType::kF32), HloOpcode::kAdd, {behind}, 0);
  places.back() = count;
  for (std::int64_t d = 0; d < behind; ++d) same.push_back(d);
  const Id hit =
      edit_.compare(edit_.broadcast(rank, places, same),
                    edit_.iota(ElementType::kF32, places, behind), ComparisonDirection::kEq);
  const Id chosen = edit_.select(hit, edit_.iota(ElementType::kF32, places, dimension),
                                 edit_.splat(ElementType::kF32, places, 0));
  return edit_.convert(edit_.reduce(chosen, HloOpcode::kAdd, {dimension}, 0), ElementType::kS32);
}

/// Values and s32 places of the `count` greatest (least) elements of the last dimension, each found
/// among those that are left.
std::pair<Id, Id> Reductions::greatest_one_by_one(Id rows, std::int64_t count, bool largest) {
  const Extents box = edit_.dimensions(rows);
  const auto last = static_cast<std::int64_t>(box.size()) - 1;
  Extents result = box, outer;
  result.back() = count;
  for (std::int64_t d = 0; d < last; ++d) outer.push_back(d);
  const ElementType type = edit_.shape(rows).type;
  const Id place = edit_.iota(ElementType::kF32, box, last);
  const bool is_integer = type == ElementType::kS32;
  const double end =
      is_integer ? (largest ? -2147483648.0 : 2147483647.0) : (largest ? -HUGE_VAL : HUGE_VAL);
  Id is_left = edit_.compare(place, like(place, -1), ComparisonDirection::kGt);
  Id values = edit_.splat(type, result, 0), places = edit_.splat(ElementType::kF32, result, 0);
  for (std::int64_t k = 0; k < count; ++k) {
    const Id left = edit_.select(is_left, rows, like(rows, end));
    const Id best = extreme_of(left, {last}, largest);
    const Id stands = edit_.binary(
        HloOpcode::kAnd, is_left,
        edit_.compare(left, edit_.broadcast(best, box, outer), ComparisonDirection::kEq));
    const Id first =
        edit_.reduce(edit_.select(stands, place, like(place, static_cast<double>(kExactIntegers))),
                     HloOpcode::kMinimum, {last}, HUGE_VAL);
    const Id is_other =
        edit_.compare(place, edit_.broadcast(first, box, outer), ComparisonDirection::kNe);
    is_left = edit_.binary(HloOpcode::kAnd, is_left, is_other);
    const Id number = edit_.iota(ElementType::kS32, result, last);
    const Id here =
        edit_.compare(number, like(number, static_cast<double>(k)), ComparisonDirection::kEq);
    values = edit_.select(here, edit_.broadcast(best, result, outer), values);
    places = edit_.select(here, edit_.broadcast(first, result, outer), places);
  }
  return {values, edit_.convert(places, ElementType::kS32)};
}

/// Elements of a dimension in an order, s32 with that dimension last, as a gather whose batch are
/// the other dimensions. The dimension is the last one of the result.
Id gathered_by(GraphEditor& edit, Id array, std::int64_t dimension, Id order,
               const std::string& name) {
  const Extents result = edit.dimensions(order);
  Extents places = result, array_batch, order_batch;
  places.push_back(1);
  const auto last = static_cast<std::int64_t>(result.size()) - 1;
  for (std::int64_t d = 0; d <= last; ++d) {
    if (d != dimension) array_batch.push_back(d);
    if (d != last) order_batch.push_back(d);
  }
  HloInstruction gather;
  gather.opcode = HloOpcode::kGather;
  gather.name = name;
  gather.operands = {array, edit.reshape(order, places)};
  gather.shape = hlo::array_shape(edit.shape(array).type, result);
  gather.gather.edit().collapsed_slice_dims = {dimension};
  gather.gather.edit().start_index_map = {dimension};
  gather.gather.edit().operand_batching_dims = array_batch;
  gather.gather.edit().start_indices_batching_dims = order_batch;
  gather.gather.edit().index_vector_dim = last + 1;
  gather.gather.edit().slice_sizes = Extents(result.size(), 1);
  return edit.append_instruction(std::move(gather));
}

void Reductions::visit_sort(Id id) {
  const HloInstruction sort = at(id);
  const SortOrder order = sort_order(module_.computation(sort.called.at(0)));
  const Extents extents = edit_.dimensions(sort.operands[0]);
  const auto rank = static_cast<std::int64_t>(extents.size());
  const std::int64_t dimension = sort.dimensions.empty() ? rank - 1 : sort.dimensions[0];
  const std::int64_t length = extents[static_cast<std::size_t>(dimension)];
  const std::int64_t outer = at(sort.operands[0]).shape.element_count() / length;
  if (length >= kExactIntegers || outer * length * length > kMostComparisons) {
    refuse("expected at most 2^34 comparisons of all elements with all");
  }
  edit_.stand_for(id);
  const Id before =
      order == SortOrder::kUnknown
          ? before_by_comparator(sort, dimension)
          : before_by_key(sort.operands[0], order == SortOrder::kDescending, dimension);
  const Id places = order_of(before, dimension, length);
  Extents back;  // The last dimension of what is gathered stands where it stood.
  for (std::int64_t d = 0; d < rank; ++d) {
    back.push_back(d == dimension ? rank - 1 : d < dimension ? d : d - 1);
  }
  std::vector<Id> results;
  for (std::size_t i = 0; i < sort.operands.size(); ++i) {
    const Id sorted = gathered_by(edit_, sort.operands[i], dimension, places,
                                  sort.name + ".order." + std::to_string(i));
    results.push_back(edit_.transpose(sorted, back));
  }
  if (sort.shape.is_tuple()) {
    edit_.finish_tuple(results);
  } else {
    edit_.finish(results[0]);
  }
}

void Reductions::visit_topk(Id id, std::int64_t count, bool largest) {
  const HloInstruction top = at(id);
  const Extents extents = edit_.dimensions(top.operands[0]);
  const std::int64_t length = extents.empty() ? 1 : extents.back();
  const std::int64_t outer = at(top.operands[0]).shape.element_count() / length;
  if (count < 1 || count > length || length >= kExactIntegers) {
    refuse("expected k within the minor dimension, which has less than 2^24 elements");
  }
  const TopkCycles cycles = topk_cycles(outer, length, count);
  const ElementType type = edit_.shape(top.operands[0]).type;
  const bool may_search =
      type == ElementType::kF32 || type == ElementType::kBf16 || type == ElementType::kS32;
  if (outer * length * length > kMostComparisons && !may_search) {
    refuse("expected at most 2^34 comparisons, or floating values or s32");
  }
  edit_.stand_for(id);
  Id rows = top.operands[0];
  if (may_search && cycles.by_search < cycles.by_rank) {
    if (type == ElementType::kBf16) rows = edit_.convert(rows, ElementType::kF32);
    const auto [values, places] = greatest_one_by_one(rows, count, largest);
    return edit_.finish_tuple({edit_.convert(values, type), places});
  }
  const auto last = static_cast<std::int64_t>(extents.size()) - 1;
  const Id places = order_of(before_by_key(rows, largest, last), last, count);
  edit_.finish_tuple({gathered_by(edit_, rows, last, places, top.name + ".values"), places});
}

/// The number behind a name in the text of a configuration; -1 where there is none.
std::int64_t configured_number(const std::string& text, const std::string& name) {
  const std::size_t at = text.find("\"" + name + "\"");
  if (at == std::string::npos) return -1;
  const std::size_t digits = text.find_first_of("0123456789", at + name.size() + 2);
  return digits == std::string::npos ? -1 : std::stoll(text.substr(digits, 18));
}

/// Of values and what goes along with them, groups of 2^k elements far from each other become the
/// one of them that the comparator puts first.
void Reductions::visit_partial_reduce(Id id) {
  const HloInstruction reduce = at(id);
  const std::string& text = reduce.raw_attributes.get();
  const std::int64_t halvings = configured_number(text, "log2_reduction");
  const std::int64_t dimension = configured_number(text, "reduction_dim");
  const std::size_t count = reduce.operands.size() / 2;
  if (halvings < 0 || dimension < 0 || reduce.called.size() != 1 || !reduce.shape.is_tuple()) {
    refuse("expected a PartialReduce with log2_reduction, reduction_dim and a comparator");
  }
  const auto d = static_cast<std::size_t>(dimension);
  std::int64_t half = reduce.shape.elements.at(0).dimensions.at(d) << halvings;
  edit_.stand_for(id);
  std::vector<Id> values;
  for (std::size_t i = 0; i < count; ++i) {
    const Extents extents = edit_.dimensions(reduce.operands[i]);
    if (half < extents[d]) refuse("expected results for all elements");
    std::vector<hlo::PaddingDimension> padding(extents.size());
    padding[d].high = half - extents[d];
    values.push_back(edit_.pad(reduce.operands[i], reduce.operands[count + i], padding));
  }
  for (std::int64_t i = 0; i < halvings; ++i) {
    half /= 2;
    std::vector<Id> first, second, both;
    for (const Id value : values) {
      first.push_back(edit_.take(value, dimension, 0, half, 1));
      second.push_back(edit_.take(value, dimension, half, half, 1));
      both.insert(both.end(), {second.back(), first.back()});
    }
    const Id is_second = edit_.apply(reduce.called[0], both).at(0);
    for (std::size_t v = 0; v < count; ++v) {
      values[v] = edit_.select(is_second, second[v], first[v]);
    }
  }
  edit_.finish_tuple(values);
}

/// Whether lanes can be reduced by the computation.
bool has_lane_reduction(const hlo::Computation& body, ElementType type) {
  switch (combining_operation(body)) {
    case HloOpcode::kAdd:
    case HloOpcode::kMaximum:
    case HloOpcode::kMinimum:
      return true;
    case HloOpcode::kAnd:
    case HloOpcode::kOr:
      return type == ElementType::kPred;
    default:
      return false;
  }
}

void Reductions::visit(Id id) {
  const HloInstruction& instruction = at(id);
  switch (instruction.opcode) {
    case HloOpcode::kReduce: {
      if (instruction.shape.is_tuple()) return visit_pairs(id);
      const ElementType type = instruction.shape.type;
      if (type == ElementType::kS32 || type == ElementType::kU32) return visit_integers(id);
      const hlo::Computation& body = module_.computation(instruction.called.at(0));
      if (!has_lane_reduction(body, type)) return visit_by_halves(id);
      return;
    }
    case HloOpcode::kMap:
      return visit_map(id);
    case HloOpcode::kSort:
      if (sort_form(module_, module_.entry_computation(), instruction)) return;
      return visit_sort(id);
    case HloOpcode::kTopk:
    case HloOpcode::kCustomCall: {
      const bool is_call = instruction.opcode == HloOpcode::kCustomCall;
      if (is_call && instruction.custom_call_target.get() == "PartialReduce") {
        return visit_partial_reduce(id);
      }
      if (is_call && instruction.custom_call_target.get() != "TopK") return;
      const bool has_pair = instruction.shape.is_tuple() && instruction.shape.elements.size() == 2;
      if (!has_pair || instruction.shape.elements[0].rank() == 0) refuse("expected two results");
      const bool smallest = instruction.raw_attributes->find("largest=false") != std::string::npos;
      return visit_topk(id, instruction.shape.elements[0].dimensions.back(), !smallest);
    }
    default:
      return;
  }
}

}  // namespace

/// A vector register of comparisons takes about 4 cycles, one of a search for the next 12, in three
/// kernels.
TopkCycles topk_cycles(std::int64_t outer, std::int64_t length, std::int64_t count) {
  const auto registers = static_cast<double>(outer * length) / 1024;
  return {4 * registers * static_cast<double>(length + count),
          static_cast<double>(count) * (12 * registers + 3000)};
}

void rewrite_reductions(hlo::Module& module, Refusals& refusals) {
  Reductions(module).run(refusals);
}

}  // namespace tpu::compiler
