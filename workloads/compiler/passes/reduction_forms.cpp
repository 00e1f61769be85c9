#include "workloads/compiler/passes/reduction_forms.h"

#include <algorithm>
#include <cmath>

#include "sim/base/error.h"
#include "workloads/compiler/passes/constant_folding.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/graph_editor.h"
#include "workloads/compiler/passes/refusal_list.h"
#include "workloads/compiler/passes/scalar_samples.h"

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

[[noreturn]] void refuse(const std::string& why) { throw WorkloadError(why); }

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

  Id like(Id value, double number) {
    return edit_.splat(edit_.shape(value).type, edit_.dimensions(value), number);
  }
  Id integer_sum(Id words, const Extents& dimensions, std::int64_t count);
  Id integer_extreme(Id words, const Extents& dimensions, bool maximum);
  Id spread(Id reduced, const Extents& box, const Extents& dimensions);
  Id order_of(Id keys, std::int64_t count, bool descending);

  hlo::Module& module_;
  GraphEditor edit_;
};

/// s32 numbers that were summed as digits, modulo 2^32.
Id Reductions::integer_sum(Id words, const Extents& dimensions, std::int64_t count) {
  int bits = 24;
  while (bits > 0 && count > (kExactIntegers >> bits)) --bits;
  bits = std::min(bits, 16);
  TPU_CHECK(bits > 0, "a sum of " << count << " integers");
  Id sum = -1;
  for (int shift = 0; shift < 32; shift += bits) {
    Id digit = words;
    if (shift > 0) digit = edit_.binary(HloOpcode::kShiftRightLogical, digit, like(digit, shift));
    digit = edit_.binary(HloOpcode::kAnd, digit, like(digit, (1 << bits) - 1));
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
  const hlo::Computation& body = module_.computation(reduce.called.at(0));
  const HloOpcode opcode = body.at(body.root).opcode;
  const HloInstruction& initial = at(reduce.operands[1]);
  const std::optional<double> start = scalar_value(initial);
  const Id operand = reduce.operands[0];
  const std::int64_t count =
      at(operand).shape.element_count() / std::max<std::int64_t>(1, reduce.shape.element_count());
  const bool is_extreme = opcode == HloOpcode::kMaximum || opcode == HloOpcode::kMinimum;
  if (body.instructions.size() != 3 || initial.opcode != HloOpcode::kConstant || !start ||
      (opcode != HloOpcode::kAdd && !is_extreme) || count > kExactIntegers / 2) {
    refuse("expected a sum, maximum or minimum of at most 2^23 integers from a constant");
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
  edit_.finish(edit_.binary(opcode, result, like(result, *start)));
}

void Reductions::visit_pairs(Id id) {
  const HloInstruction reduce = at(id);
  PairReducer kind;
  if (reduce.operands.size() == 4) kind = pair_reducer(module_.computation(reduce.called.at(0)));
  const hlo::Shape values = edit_.shape(reduce.operands[0]);
  const hlo::Shape indices = edit_.shape(reduce.operands[1]);
  const bool is_float = values.type == ElementType::kF32 || values.type == ElementType::kBf16;
  if (!kind.is_known || !is_float || indices.type != ElementType::kS32) {
    refuse("expected the greatest or least of floating values with its s32 index");
  }
  edit_.stand_for(id);
  const Id value = edit_.convert(reduce.operands[0], ElementType::kF32);
  const Id index = edit_.convert(reduce.operands[1], ElementType::kF32);
  const HloOpcode extreme = kind.greatest ? HloOpcode::kMaximum : HloOpcode::kMinimum;
  const Id best =
      edit_.reduce(value, extreme, reduce.dimensions, kind.greatest ? -HUGE_VAL : HUGE_VAL);
  const Id stands = edit_.compare(value, spread(best, values.dimensions, reduce.dimensions),
                                  ComparisonDirection::kEq);
  const double none = kind.last_of_equal ? -1 : static_cast<double>(kExactIntegers);
  const Id candidates = edit_.select(stands, index, like(index, none));
  const Id place =
      edit_.reduce(candidates, kind.last_of_equal ? HloOpcode::kMaximum : HloOpcode::kMinimum,
                   reduce.dimensions, kind.last_of_equal ? -HUGE_VAL : HUGE_VAL);
  edit_.finish_tuple({edit_.convert(best, values.type), edit_.convert(place, ElementType::kS32)});
}

/// Keys [outer, length] -> s32 [outer, count]: which element comes at each place of the order.
Id Reductions::order_of(Id keys, std::int64_t count, bool descending) {
  const std::int64_t outer = edit_.dimensions(keys)[0], length = edit_.dimensions(keys)[1];
  if (edit_.shape(keys).type == ElementType::kBf16) keys = edit_.convert(keys, ElementType::kF32);
  const Extents pairs{outer, length, length};
  const Id mine = edit_.broadcast(keys, pairs, {0, 1}),
           other = edit_.broadcast(keys, pairs, {0, 2});
  const Id my_place = edit_.iota(ElementType::kS32, pairs, 1);
  const Id other_place = edit_.iota(ElementType::kS32, pairs, 2);
  const Id ahead =
      edit_.compare(other, mine, descending ? ComparisonDirection::kGt : ComparisonDirection::kLt);
  const Id ties =
      edit_.binary(HloOpcode::kAnd, edit_.compare(other, mine, ComparisonDirection::kEq),
                   edit_.compare(other_place, my_place, ComparisonDirection::kLt));
  const Id before = edit_.convert(edit_.binary(HloOpcode::kOr, ahead, ties), ElementType::kF32);
  const Id rank = edit_.reduce(before, HloOpcode::kAdd, {2}, 0);
  const Extents places{outer, length, count};
  const Id hit = edit_.compare(edit_.broadcast(rank, places, {0, 1}),
                               edit_.iota(ElementType::kF32, places, 2), ComparisonDirection::kEq);
  const Id chosen = edit_.select(hit, edit_.iota(ElementType::kF32, places, 1),
                                 edit_.splat(ElementType::kF32, places, 0));
  return edit_.convert(edit_.reduce(chosen, HloOpcode::kAdd, {1}, 0), ElementType::kS32);
}

/// [outer, length] by s32 [outer, count], as a gather with a batching dimension.
Id gathered_by(GraphEditor& edit, Id array, Id order, const std::string& name) {
  const std::int64_t outer = edit.dimensions(order)[0], count = edit.dimensions(order)[1];
  HloInstruction gather;
  gather.opcode = HloOpcode::kGather;
  gather.name = name;
  gather.operands = {array, edit.reshape(order, {outer, count, 1})};
  gather.shape = hlo::array_shape(edit.shape(array).type, {outer, count});
  gather.gather.edit().collapsed_slice_dims = {1};
  gather.gather.edit().start_index_map = {1};
  gather.gather.edit().operand_batching_dims = {0};
  gather.gather.edit().start_indices_batching_dims = {0};
  gather.gather.edit().index_vector_dim = 2;
  gather.gather.edit().slice_sizes = {1, 1};
  return edit.append_instruction(std::move(gather));
}

void Reductions::visit_sort(Id id) {
  const HloInstruction sort = at(id);
  const SortOrder order = sort_order(module_.computation(sort.called.at(0)));
  if (order == SortOrder::kUnknown) {
    refuse("expected an order by the first operand alone, ascending or descending");
  }
  const Extents extents = edit_.dimensions(sort.operands[0]);
  const auto rank = static_cast<std::int64_t>(extents.size());
  const std::int64_t dimension = sort.dimensions.empty() ? rank - 1 : sort.dimensions[0];
  const std::int64_t length = extents[static_cast<std::size_t>(dimension)];
  const std::int64_t outer = at(sort.operands[0]).shape.element_count() / length;
  if (length >= kExactIntegers || outer * length * length > kMostComparisons) {
    refuse("expected at most 2^34 comparisons of all elements with all");
  }
  edit_.stand_for(id);
  Extents permutation, moved, back(extents.size());
  for (std::int64_t d = 0; d < rank; ++d) {
    if (d != dimension) permutation.push_back(d);
  }
  permutation.push_back(dimension);
  for (std::size_t i = 0; i < permutation.size(); ++i) {
    moved.push_back(extents[static_cast<std::size_t>(permutation[i])]);
    back[static_cast<std::size_t>(permutation[i])] = static_cast<std::int64_t>(i);
  }
  const auto rows = [&](Id value) {
    return edit_.reshape(edit_.transpose(value, permutation), {outer, length});
  };
  const Id places = order_of(rows(sort.operands[0]), length, order == SortOrder::kDescending);
  std::vector<Id> results;
  for (std::size_t i = 0; i < sort.operands.size(); ++i) {
    const Id sorted = gathered_by(edit_, rows(sort.operands[i]), places,
                                  sort.name + ".order." + std::to_string(i));
    results.push_back(edit_.transpose(edit_.reshape(sorted, moved), back));
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
  if (count < 1 || count > length || length >= kExactIntegers ||
      outer * length * length > kMostComparisons) {
    refuse("expected k within the minor dimension and at most 2^34 comparisons");
  }
  edit_.stand_for(id);
  const Id rows = edit_.reshape(top.operands[0], {outer, length});
  const Id places = order_of(rows, count, largest);
  const Id values = gathered_by(edit_, rows, places, top.name + ".values");
  Extents result = extents;
  result.back() = count;
  edit_.finish_tuple({edit_.reshape(values, result), edit_.reshape(places, result)});
}

void Reductions::visit(Id id) {
  const HloInstruction& instruction = at(id);
  switch (instruction.opcode) {
    case HloOpcode::kReduce: {
      if (instruction.shape.is_tuple()) return visit_pairs(id);
      const ElementType type = instruction.shape.type;
      if (type == ElementType::kS32 || type == ElementType::kU32) return visit_integers(id);
      return;
    }
    case HloOpcode::kSort:
      return visit_sort(id);
    case HloOpcode::kTopk:
    case HloOpcode::kCustomCall: {
      const bool is_call = instruction.opcode == HloOpcode::kCustomCall;
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

void rewrite_reductions(hlo::Module& module, Refusals& refusals) {
  Reductions(module).run(refusals);
}

}  // namespace tpu::compiler
