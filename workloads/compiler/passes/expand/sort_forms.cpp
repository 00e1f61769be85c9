#include "workloads/compiler/passes/expand/sort_forms.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "sim/base/ceil_divide.h"
#include "sim/base/power_of_two.h"
#include "workloads/compiler/cost.h"
#include "workloads/compiler/ir/combining_operation.h"
#include "workloads/compiler/ir/sort_form.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/expand/comparators.h"
#include "workloads/compiler/passes/expand/convolution_arrays.h"
#include "workloads/compiler/passes/expand/indexed_rows.h"
#include "workloads/compiler/passes/expand/reduction_forms.h"
#include "workloads/compiler/passes/graph_editor.h"

namespace tpu::compiler {

using hlo::ComparisonDirection;
using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;

namespace {

using Id = GraphEditor::Id;
using Extents = GraphEditor::Extents;

/// How the sequences of arrays lie in matrices.
struct Arrangement {
  Extents extents;             ///< Of the arrays.
  std::int64_t dimension = 0;  ///< That is sorted.
  std::int64_t length = 1, sequences = 1;
  std::int64_t rows = 1, columns = 1;  ///< Of a sequence in a matrix.
  bool by_rank = false;                ///< As they stand, for rewrite_reductions.
  std::int64_t kept = 0;               ///< First elements that are wanted; 0: all.
  /// Eight sequences as rows do not fit VMEM: on the way they are columns.
  bool is_tall = false;

  bool is_last() const { return columns != 1 && !is_tall; }  ///< On the way.
  /// A single sequence in several columns: as a vector it has their elements already, as a row of a
  /// matrix it would fill one of eight rows of its tiles.
  bool is_vector() const { return sequences == 1 && columns != 1; }
  /// The dimensions in the order in which a matrix has them.
  Extents permutation() const {
    Extents order;
    if (!is_last()) order.push_back(dimension);
    for (std::int64_t d = 0; d < static_cast<std::int64_t>(extents.size()); ++d) {
      if (d != dimension) order.push_back(d);
    }
    if (is_last()) order.push_back(dimension);
    return order;
  }
};

/// Whether no kernel has room for a row tile of matrices with sequences as rows.
bool rows_are_too_long(const Arrangement& lies, const Target& target) {
  const std::int64_t words = 2 * 8 * (lies.length + lies.rows * lies.columns);
  return lies.sequences > 1 && lies.columns != 1 &&
         static_cast<std::uint64_t>(4 * words) > target.vmem_bytes;
}

bool has_float_order(ElementType type) {
  return type == ElementType::kF32 || type == ElementType::kBf16;
}

constexpr double kTopBit = -2147483648.0;

Arrangement as_they_stand(const Extents& extents, std::int64_t dimension) {
  Arrangement lies;
  lies.extents = extents;
  lies.dimension = dimension;
  lies.length = lies.rows = extents[static_cast<std::size_t>(dimension)];
  for (const std::int64_t extent : extents) lies.sequences *= extent;
  lies.sequences /= std::max<std::int64_t>(1, lies.length);
  lies.by_rank = true;
  return lies;
}

SortForm form_of(const Arrangement& lies, std::int64_t words, std::int64_t keys) {
  return {lies.rows, lies.sequences * lies.columns, lies.columns, words, keys, lies.kept};
}

class Sorts {
 public:
  Sorts(hlo::Module& module, const Target& target)
      : module_(module), target_(target), edit_(module) {}

  void run();

 private:
  /// Where a result comes from: word number `word` of the sorted ones; of a key with the order's
  /// term, else as it was.
  struct Origin {
    std::int64_t word = -1;
    bool is_key = false, descends = false;
    int sign_bit = -1;  ///< Of the position's word: the sign, where the key has none.
  };

  struct SortPlan {
    std::vector<OrderingTerm> terms;
    std::vector<Origin> origins;               ///< Of each result.
    std::vector<std::size_t> carried;          ///< Operands that are words of their own.
    std::vector<std::size_t> signed_operands;  ///< Whose signs stand below the position.
    bool needs_position = false;
    std::int64_t keys = 0, words = 0;
  };

  const HloInstruction& at(Id id) const { return module_.entry_computation().at(id); }
  void visit(Id id);
  bool counts_along(Id array, std::int64_t dimension) const;
  bool takes_from_key(const HloInstruction& sort, std::size_t operand, std::int64_t length,
                      SortPlan& made) const;
  Id position_word(const SortPlan& made, const std::vector<Id>& matrices, Id place);
  Id result_word(const SortPlan& made, const Origin& origin, ElementType type,
                 const std::vector<Id>& words);
  void plan(const HloInstruction& sort, std::int64_t dimension, SortPlan& made) const;
  std::vector<Id> keys_of(const HloInstruction& sort, const SortPlan& made, const Arrangement& lies,
                          const std::vector<Id>& matrices, Id place);
  std::vector<bool> live_results(Id id, std::size_t count) const;
  std::optional<Arrangement> arrangement(const Extents& extents, std::int64_t dimension,
                                         std::int64_t words, std::int64_t keys,
                                         std::int64_t kept) const;
  double network_cycles(const Arrangement& lies, std::int64_t words, std::int64_t keys) const;
  Id last_where_there_is_none(const Arrangement& lies, Id key, Id place);
  Id padded_vector(Id value, std::int64_t total);
  Id cut_columns(const Arrangement& lies, Id value);
  Id arranged(const Arrangement& lies, Id value);
  Id back(const Arrangement& lies, Id matrix, std::int64_t count);
  void visit_sort(Id id);
  void visit_topk(Id id);
  std::optional<std::int64_t> permuted_dimension(Id indices) const;
  std::optional<std::int64_t> inverted_dimension(const HloInstruction& scatter) const;
  void visit_inverse(Id id, std::int64_t dimension);
  Id position(const Arrangement& lies);
  Id ordered(Id value, const OrderingTerm& term);
  Id word_of(Id value);
  Id value_of(Id word, ElementType type);
  Id turned(Id bits);
  Id without_order(Id key, ElementType type, bool descends);
  std::vector<Id> sorted(const Arrangement& lies, const std::vector<Id>& words, std::int64_t keys);

  hlo::Module& module_;
  const Target& target_;
  GraphEditor edit_;
};

/// Which of the results something reads.
std::vector<bool> Sorts::live_results(Id id, std::size_t count) const {
  const hlo::Computation& entry = module_.entry_computation();
  std::vector<bool> live(count, count == 1 || entry.root == id);
  for (const HloInstruction& user : entry.instructions) {
    if (std::find(user.operands.begin(), user.operands.end(), id) == user.operands.end()) continue;
    if (user.opcode == HloOpcode::kGetTupleElement) {
      live[static_cast<std::size_t>(user.tuple_index)] = true;
    } else {
      live.assign(count, true);
    }
  }
  return live;
}

/// The one that takes least; nothing where no column fits VMEM.
std::optional<Arrangement> Sorts::arrangement(const Extents& extents, std::int64_t dimension,
                                              std::int64_t words, std::int64_t keys,
                                              std::int64_t kept) const {
  Arrangement lies = as_they_stand(extents, dimension);
  lies.by_rank = false;
  const std::int64_t whole = round_up_to_power_of_two(lies.length);
  std::optional<Arrangement> best;
  double least = 0;
  for (std::int64_t columns = 1; 8 * columns <= std::max<std::int64_t>(8, whole); columns *= 2) {
    lies.columns = columns;
    lies.kept = columns > 128 ? 0 : kept;
    lies.rows = ceil_divide(lies.length, columns);
    SortForm form = form_of(lies, words, keys);
    if (form.kept_bits() > 0 && (std::int64_t{1} << form.kept_bits()) >= form.registers()) {
      // All are sorted, and positions count through all rows of the columns.
      lies.kept = 0;
      if (columns > 1) lies.rows = whole / columns;
      form = form_of(lies, words, keys);
    }
    if (sort_blocks(form, target_).width == 0) continue;
    const double cycles = sort_cycles(form, target_);
    if (best && cycles >= least) continue;
    best = lies;
    best->is_tall = rows_are_too_long(lies, target_);
    least = cycles;
  }
  return best;
}

/// The sort with what brings its words into columns and back: kernels of their own, or, of short
/// ones, parts of a sequence (measured on sorts of 1 to 64 rows of 6 to 128 elements, as the
/// numbers of ranks are).
double Sorts::network_cycles(const Arrangement& lies, std::int64_t words, std::int64_t keys) const {
  const SortForm form = form_of(lies, words, keys);
  const auto registers = static_cast<double>(form.registers() * ceil_divide(form.lanes, 128));
  const double apart = std::min(2 * kKernelCycles, 300 + 9 * static_cast<double>(lies.length));
  return sort_cycles(form, target_) + static_cast<double>(words) * (2 * 8 * registers + apart);
}

/// Ranks by comparing all with all, and a gather of each word, which are sums along lanes where
/// the compared elements stand there, or along rows with a sequence in each lane.
double rank_cycles(const Arrangement& lies, std::int64_t words) {
  const std::int64_t row_tiles = ceil_divide(lies.length, 8);
  const auto in_rows =
      static_cast<double>(lies.sequences * row_tiles * ceil_divide(lies.length, 128));
  const auto in_lanes =
      static_cast<double>(lies.length * row_tiles * ceil_divide(lies.sequences, 128));
  const auto gathered = static_cast<double>(words - 1);
  return kKernelCycles + std::min(in_rows * (75 + 30 * gathered), in_lanes * (21 + 8 * gathered));
}

/// A vector with something behind its end. One that does not fit VMEM gets it in rows of whole
/// tiles, which come part by part.
Id Sorts::padded_vector(Id value, std::int64_t total) {
  const std::int64_t length = edit_.dimensions(value)[0];
  if (total == length) return value;
  if (static_cast<std::uint64_t>(4 * (length + total)) <= target_.vmem_bytes) {
    return edit_.pad_high(value, {total - length});
  }
  constexpr std::int64_t kTile = 1024, kLanes = 128;
  const std::int64_t whole = length / kTile * kTile;
  Id rows = edit_.reshape(edit_.slice(value, {0}, {whole}), {whole / kLanes, kLanes});
  if (whole != length) {
    const Id rest = edit_.pad_high(edit_.slice(value, {whole}, {length}), {kTile + whole - length});
    rows = edit_.concatenate({rows, edit_.reshape(rest, {kTile / kLanes, kLanes})}, 0);
  }
  return edit_.pad_high(rows, {total / kLanes - edit_.dimensions(rows)[0], 0});
}

/// [length, sequences] -> [columns, rows, sequences], something behind the end.
Id Sorts::cut_columns(const Arrangement& lies, Id value) {
  const std::int64_t sequences = lies.sequences, rows = lies.rows;
  const std::int64_t whole = lies.length / rows, rest = lies.length % rows;
  std::vector<Id> parts;
  if (whole > 0) {
    parts.push_back(edit_.reshape(edit_.slice(value, {0, 0}, {whole * rows, sequences}),
                                  {whole, rows, sequences}));
  }
  if (rest > 0) {
    const Id last = edit_.slice(value, {whole * rows, 0}, {lies.length, sequences});
    parts.push_back(edit_.reshape(edit_.pad_high(last, {rows - rest, 0}), {1, rows, sequences}));
  }
  const Id joined = edit_.concatenate(parts, 0);
  return edit_.pad_high(joined, {lies.columns - edit_.dimensions(joined)[0], 0, 0});
}

/// [rows, sequences * columns]. Of a single sequence in several columns neighbours stand in
/// different ones.
Id Sorts::arranged(const Arrangement& lies, Id value) {
  if (lies.by_rank) return value;
  const std::int64_t total = lies.rows * lies.columns;
  value = edit_.transpose(value, lies.permutation());
  if (lies.is_tall) {
    value = cut_columns(lies, edit_.reshape(value, {lies.length, lies.sequences}));
    return edit_.reshape(edit_.transpose(value, {1, 2, 0}),
                         {lies.rows, lies.sequences * lies.columns});
  }
  if (!lies.is_last()) return edit_.reshape(value, {lies.length, lies.sequences});
  if (lies.is_vector()) {
    return edit_.reshape(padded_vector(edit_.reshape(value, {lies.length}), total),
                         {lies.rows, lies.columns});
  }
  value = edit_.reshape(value, {lies.sequences, lies.length});
  if (total != lies.length) value = edit_.pad_high(value, {0, total - lies.length});
  value = edit_.reshape(value, {lies.sequences * lies.columns, lies.rows});
  return edit_.transpose(value, {1, 0});
}

/// The first `count` elements of each sequence, where they stood.
Id Sorts::back(const Arrangement& lies, Id matrix, std::int64_t count) {
  if (lies.by_rank) return matrix;
  const Extents permutation = lies.permutation();
  Extents first = lies.extents;
  first[static_cast<std::size_t>(lies.dimension)] = count;
  if (lies.kept > 0) {  // They stand in the first column of each sequence.
    matrix = edit_.slice(matrix, {0, 0}, {count, lies.sequences * lies.columns});
    if (lies.columns != 1) {
      matrix =
          edit_.reshape(edit_.transpose(matrix, {1, 0}), {lies.sequences, lies.columns, count});
      matrix = edit_.reshape(edit_.slice(matrix, {0, 0, 0}, {lies.sequences, 1, count}),
                             {lies.sequences, count});
      if (lies.is_tall) matrix = edit_.transpose(matrix, {1, 0});
    }
  } else if (lies.is_vector()) {
    matrix = edit_.reshape(edit_.transpose(matrix, {1, 0}), {lies.rows * lies.columns});
    matrix = edit_.slice(matrix, {0}, {count});
    return edit_.transpose(edit_.reshape(matrix, extents_at(first, permutation)),
                           inverse(permutation));
  } else if (lies.is_tall) {
    matrix = edit_.reshape(matrix, {lies.rows, lies.sequences, lies.columns});
    matrix = edit_.reshape(edit_.transpose(matrix, {2, 0, 1}),
                           {lies.rows * lies.columns, lies.sequences});
  } else if (lies.columns != 1) {
    matrix = edit_.transpose(matrix, {1, 0});
    matrix = edit_.reshape(matrix, {lies.sequences, lies.rows * lies.columns});
  }
  if (lies.is_last()) {
    matrix = edit_.slice(matrix, {0, 0}, {lies.sequences, count});
  } else {
    matrix = edit_.slice(matrix, {0, 0}, {count, lies.sequences});
  }
  return edit_.transpose(edit_.reshape(matrix, extents_at(first, permutation)),
                         inverse(permutation));
}

/// Where each element of a matrix stood in its sequence.
Id Sorts::position(const Arrangement& lies) {
  if (lies.by_rank) return edit_.iota(ElementType::kS32, lies.extents, lies.dimension);
  const Extents box{lies.rows, lies.sequences * lies.columns};
  const Id row = edit_.iota(ElementType::kS32, box, 0);
  if (lies.columns == 1) return row;
  Id column = edit_.iota(ElementType::kS32, box, 1);
  const auto scaled = [&](Id value, std::int64_t by) {
    return edit_.binary_with(HloOpcode::kMultiply, value, static_cast<double>(by));
  };
  if (lies.sequences == 1) {
    return edit_.binary(HloOpcode::kAdd, scaled(row, lies.columns), column);
  }
  column = edit_.binary_with(HloOpcode::kAnd, column, static_cast<double>(lies.columns - 1));
  return edit_.binary(HloOpcode::kAdd, scaled(column, lies.rows), row);
}

/// Between the bits of fp32 and integers that are ordered like the numbers, either way.
Id Sorts::turned(Id bits) {
  const Id sign = edit_.binary_with(HloOpcode::kShiftRightArithmetic, bits, 31);
  return edit_.binary(HloOpcode::kXor, bits, edit_.binary_with(HloOpcode::kAnd, sign, 2147483647));
}

/// The s32 word that stands for a value, and back.
Id Sorts::word_of(Id value) {
  switch (edit_.shape(value).type) {
    case ElementType::kS32:
      return value;
    case ElementType::kU32:
      return edit_.reinterpret(value, ElementType::kS32);
    case ElementType::kPred:
      return edit_.convert(value, ElementType::kS32);
    default:
      return edit_.bitcast_convert(edit_.convert(value, ElementType::kF32), ElementType::kS32);
  }
}

Id Sorts::value_of(Id word, ElementType type) {
  switch (type) {
    case ElementType::kS32:
      return word;
    case ElementType::kU32:
      return edit_.reinterpret(word, ElementType::kU32);
    case ElementType::kPred:
      return edit_.compare(word, edit_.splat(ElementType::kS32, edit_.dimensions(word), 0),
                           ComparisonDirection::kNe);
    default:
      return edit_.convert(edit_.bitcast_convert(word, ElementType::kF32), type);
  }
}

/// The s32 key of a value.
Id Sorts::ordered(Id value, const OrderingTerm& term) {
  const ElementType type = edit_.shape(value).type;
  if (has_float_order(type) && !term.is_total) {
    const Id zero = edit_.splat(type, edit_.dimensions(value), 0);
    value = edit_.select(edit_.compare(value, zero, ComparisonDirection::kEq), zero, value);
  }
  Id key = word_of(value);
  if (has_float_order(type)) key = turned(key);
  if (type == ElementType::kU32) key = edit_.binary_with(HloOpcode::kXor, key, kTopBit);
  return term.descends ? edit_.unary(HloOpcode::kNot, key) : key;
}

/// The word whose key it is.
Id Sorts::without_order(Id key, ElementType type, bool descends) {
  if (descends) key = edit_.unary(HloOpcode::kNot, key);
  if (has_float_order(type)) key = turned(key);
  return type == ElementType::kU32 ? edit_.binary_with(HloOpcode::kXor, key, kTopBit) : key;
}

std::vector<Id> Sorts::sorted(const Arrangement& lies, const std::vector<Id>& words,
                              std::int64_t keys) {
  std::vector<hlo::Shape> shapes;
  shapes.reserve(words.size());
  for (const Id word : words) {
    shapes.push_back(edit_.shape(word));
    if (lies.kept > 0) shapes.back().dimensions[0] = lies.kept;
  }
  hlo::Shape whole = shapes[0];
  if (words.size() > 1) {
    whole = hlo::Shape();
    whole.type = ElementType::kTuple;
    whole.elements = shapes;
  }
  HloInstruction sort = edit_.start(HloOpcode::kSort, words, whole);
  sort.dimensions = {lies.by_rank ? lies.dimension : 0};
  sort.feature_group_count = lies.columns;
  if (lies.kept > 0) sort.batch_group_count = lies.kept;
  hlo::Computation comparator = comparator_of_words(static_cast<std::int64_t>(words.size()), keys);
  comparator.name += "." + std::to_string(module_.computations.size());
  module_.computations.push_back(std::move(comparator));
  sort.called = {static_cast<hlo::ComputationId>(module_.computations.size() - 1)};
  const Id made = edit_.append_instruction(std::move(sort));
  if (words.size() == 1) return {made};
  std::vector<Id> parts;
  for (std::size_t i = 0; i < words.size(); ++i) {
    HloInstruction part = edit_.start(HloOpcode::kGetTupleElement, {made}, shapes[i]);
    part.tuple_index = static_cast<std::int64_t>(i);
    parts.push_back(edit_.append_instruction(std::move(part)));
  }
  return parts;
}

/// Whether the elements of an array are their places along a dimension.
bool Sorts::counts_along(Id array, std::int64_t dimension) const {
  const HloInstruction* instruction = &at(array);
  if (instruction->opcode == HloOpcode::kBroadcast) {
    if (instruction->dimensions != Extents{dimension}) return false;
    instruction = &at(instruction->operands[0]);
    dimension = 0;
  }
  return instruction->opcode == HloOpcode::kIota && instruction->dimensions.at(0) == dimension &&
         !has_float_order(instruction->shape.type);
}

/// Whether a value of a comparator is one of its elements, all zeros and all NaNs being one.
bool is_same_number(const hlo::Computation& comparator, Id value, Id element) {
  if (value == element) return true;
  const HloInstruction& select = comparator.at(value);
  if (select.opcode != HloOpcode::kSelect) return false;
  const HloInstruction& compare = comparator.at(select.operands[0]);
  const HloInstruction& other = comparator.at(select.operands[1]);
  if (compare.opcode != HloOpcode::kCompare || compare.operands[0] != element ||
      other.opcode != HloOpcode::kConstant || other.shape.type != ElementType::kF32 ||
      !is_same_number(comparator, select.operands[2], element)) {
    return false;
  }
  float number = 0;
  std::memcpy(&number, other.literal.data(), sizeof number);
  if (compare.direction == ComparisonDirection::kNe) {
    return compare.operands[1] == element && std::isnan(number);
  }
  const HloInstruction& zero = comparator.at(compare.operands[1]);
  return compare.direction == ComparisonDirection::kEq && number == 0 &&
         zero.opcode == HloOpcode::kConstant && zero.literal == other.literal;
}

/// Whether a key says what the operand is, but for the sign of zeros and NaNs, which goes along
/// with the position. What else there is in a NaN is lost where the comparator takes all for one.
bool Sorts::takes_from_key(const HloInstruction& sort, std::size_t operand, std::int64_t length,
                           SortPlan& made) const {
  const hlo::Computation& comparator = module_.computation(sort.called.at(0));
  Origin& origin = made.origins[operand];
  const Id element = comparator.parameters().at(2 * operand);
  for (std::size_t t = 0; t < made.terms.size(); ++t) {
    const OrderingTerm& term = made.terms[t];
    const bool has_zeros = has_float_order(comparator.at(element).shape.type);
    if (term.value == element && (term.is_total || !has_zeros)) {
      origin = {static_cast<std::int64_t>(t), true, term.descends};
      return true;
    }
    const auto bits = static_cast<int>(made.signed_operands.size());
    if (!has_zeros || !is_same_number(comparator, term.value, element)) continue;
    if (length << (bits + 1) > std::int64_t{1} << 30) continue;
    origin = {static_cast<std::int64_t>(t), true, term.descends, bits};
    made.signed_operands.push_back(operand);
    made.needs_position = true;
    return true;
  }
  return false;
}

/// What becomes of a sort: keys, what goes along with them, and where its results come from.
void Sorts::plan(const HloInstruction& sort, std::int64_t dimension, SortPlan& made) const {
  const auto terms = static_cast<std::int64_t>(made.terms.size());
  const std::int64_t length =
      at(sort.operands[0]).shape.dimensions[static_cast<std::size_t>(dimension)];
  const std::vector<bool> live = live_results(sort.id, sort.operands.size());
  made.origins.resize(sort.operands.size());
  for (std::size_t i = 0; i < sort.operands.size(); ++i) {
    if (!live[i] || takes_from_key(sort, i, length, made)) continue;
    made.needs_position = true;
    made.origins[i].word = terms;
    if (counts_along(sort.operands[i], dimension)) continue;
    made.carried.push_back(i);
    made.origins[i].word += static_cast<std::int64_t>(made.carried.size());
  }
  made.keys = terms + (made.needs_position ? 1 : 0);
  made.words = made.keys + static_cast<std::int64_t>(made.carried.size());
}

/// The position and, below it, signs.
Id Sorts::position_word(const SortPlan& made, const std::vector<Id>& matrices, Id place) {
  const std::size_t bits = made.signed_operands.size();
  if (bits == 0) return place;
  Id word = edit_.binary_with(HloOpcode::kShiftLeft, place, static_cast<double>(bits));
  for (std::size_t i = 0; i < bits; ++i) {
    const Id number = word_of(matrices[made.signed_operands[i]]);
    Id sign = edit_.binary_with(HloOpcode::kShiftRightLogical, number, 31);
    if (i > 0) sign = edit_.binary_with(HloOpcode::kShiftLeft, sign, static_cast<double>(i));
    word = edit_.binary(HloOpcode::kOr, word, sign);
  }
  return word;
}

Id Sorts::result_word(const SortPlan& made, const Origin& origin, ElementType type,
                      const std::vector<Id>& words) {
  const std::size_t bits = made.signed_operands.size(), position = made.terms.size();
  Id word = words[static_cast<std::size_t>(origin.word)];
  if (!origin.is_key) {
    const bool has_signs = static_cast<std::size_t>(origin.word) == position && bits > 0;
    if (!has_signs) return word;
    return edit_.binary_with(HloOpcode::kShiftRightLogical, word, static_cast<double>(bits));
  }
  word = without_order(word, type, origin.descends);
  if (origin.sign_bit < 0) return word;
  const Id sign = edit_.binary_with(HloOpcode::kShiftLeft, words[position], 31 - origin.sign_bit);
  return edit_.binary(HloOpcode::kOr, word, edit_.binary_with(HloOpcode::kAnd, sign, kTopBit));
}

/// Behind the end of a sequence stand the last of all keys.
Id Sorts::last_where_there_is_none(const Arrangement& lies, Id key, Id place) {
  if (lies.rows * lies.columns == lies.length) return key;
  const Extents extents = edit_.dimensions(place);
  const Id end = edit_.splat(ElementType::kS32, extents, static_cast<double>(lies.length));
  const Id last = edit_.splat(ElementType::kS32, extents, 2147483647);
  return edit_.select(edit_.compare(place, end, ComparisonDirection::kLt), key, last);
}

/// The keys of the arranged operands, in the order of the terms.
std::vector<Id> Sorts::keys_of(const HloInstruction& sort, const SortPlan& made,
                               const Arrangement& lies, const std::vector<Id>& matrices, Id place) {
  std::vector<Id> both, keys;
  for (const Id matrix : matrices) both.insert(both.end(), 2, matrix);
  for (const OrderingTerm& term : made.terms) {
    hlo::Computation one = module_.computation(sort.called.at(0));
    one.root = term.value;
    one.name += ".key." + std::to_string(module_.computations.size());
    module_.computations.push_back(std::move(one));
    const auto computation = static_cast<hlo::ComputationId>(module_.computations.size() - 1);
    const Id key = ordered(edit_.apply(computation, both).at(0), term);
    keys.push_back(last_where_there_is_none(lies, key, place));
  }
  return keys;
}

void Sorts::visit_sort(Id id) {
  const HloInstruction sort = at(id);
  const auto terms = ordering_terms(module_.computation(sort.called.at(0)));
  if (!terms || at(sort.operands.at(0)).shape.element_count() == 0) return;
  const Extents extents = edit_.dimensions(sort.operands[0]);
  const auto dimension =
      sort.dimensions.empty() ? static_cast<std::int64_t>(extents.size()) - 1 : sort.dimensions[0];
  SortPlan made;
  made.terms = *terms;
  plan(sort, dimension, made);
  auto lies = arrangement(extents, dimension, made.words, made.keys, 0);
  if (!lies || network_cycles(*lies, made.words, made.keys) > rank_cycles(*lies, made.words)) {
    lies = as_they_stand(extents, dimension);
  }
  edit_.stand_for(id);
  std::vector<Id> matrices;
  for (const Id operand : sort.operands) matrices.push_back(arranged(*lies, operand));
  const Id place = position(*lies);
  std::vector<Id> words = keys_of(sort, made, *lies, matrices, place);
  if (made.needs_position) words.push_back(position_word(made, matrices, place));
  for (const std::size_t i : made.carried) words.push_back(word_of(matrices[i]));
  words = sorted(*lies, words, made.keys);
  std::vector<Id> results;
  for (std::size_t i = 0; i < made.origins.size(); ++i) {
    const Origin& origin = made.origins[i];
    if (origin.word < 0) {
      results.push_back(sort.operands[i]);  // Nothing reads it.
      continue;
    }
    const ElementType type = edit_.shape(sort.operands[i]).type;
    const Id word = result_word(made, origin, type, words);
    results.push_back(back(*lies, value_of(word, type), lies->length));
  }
  if (sort.shape.is_tuple()) return edit_.finish_tuple(results);
  edit_.finish(results[0]);
}

/// The greatest or least elements of the minor dimension and where they stood.
void Sorts::visit_topk(Id id) {
  const HloInstruction top = at(id);
  const Extents extents = edit_.dimensions(top.operands.at(0));
  const bool has_pair = top.shape.is_tuple() && top.shape.elements.size() == 2;
  if (extents.empty() || !has_pair || top.shape.elements[0].rank() == 0) return;
  const auto dimension = static_cast<std::int64_t>(extents.size()) - 1;
  const std::int64_t count = top.shape.elements[0].dimensions.back();
  const auto lies = arrangement(extents, dimension, 2, 2, std::max<std::int64_t>(2, count));
  if (!lies || count < 1 || count > lies->length) return;
  const TopkCycles others = topk_cycles(lies->sequences, lies->length, count);
  if (network_cycles(*lies, 2, 2) > std::min(others.by_rank, others.by_search)) return;
  OrderingTerm term;
  term.is_total = true;
  term.descends = top.raw_attributes->find("largest=false") == std::string::npos;
  edit_.stand_for(id);
  const Id matrix = arranged(*lies, top.operands[0]), place = position(*lies);
  const Id key = last_where_there_is_none(*lies, ordered(matrix, term), place);
  const std::vector<Id> words = sorted(*lies, {key, place}, 2);
  const ElementType type = edit_.shape(matrix).type;
  const Id value = value_of(without_order(words[0], type, term.descends), type);
  const ElementType index = top.shape.elements[1].type;
  edit_.finish_tuple(
      {back(*lies, value, count), edit_.convert(back(*lies, words[1], count), index)});
}

/// Along which dimension each sequence of numbers is a permutation of all places: a sort has
/// brought them along.
std::optional<std::int64_t> Sorts::permuted_dimension(Id indices) const {
  const HloInstruction* instruction = &at(indices);
  while (instruction->opcode == HloOpcode::kReshape || instruction->opcode == HloOpcode::kConvert) {
    instruction = &at(instruction->operands[0]);
  }
  if (instruction->opcode != HloOpcode::kGetTupleElement) return std::nullopt;
  const HloInstruction& sort = at(instruction->operands[0]);
  if (sort.opcode != HloOpcode::kSort) return std::nullopt;
  Extents with_number = instruction->shape.dimensions;
  const bool is_whole = at(indices).shape.dimensions == with_number;
  with_number.push_back(1);
  if (!is_whole && at(indices).shape.dimensions != with_number) return std::nullopt;
  const std::int64_t dimension =
      sort.dimensions.empty() ? instruction->shape.rank() - 1 : sort.dimensions[0];
  const Id places = sort.operands.at(static_cast<std::size_t>(instruction->tuple_index));
  if (!counts_along(places, dimension)) return std::nullopt;
  return dimension;
}

/// The dimension along which a scatter puts each element of a sequence to a place of its own.
std::optional<std::int64_t> Sorts::inverted_dimension(const HloInstruction& scatter) const {
  const hlo::GatherDimensions& dims = scatter.gather;
  if (scatter.operands.size() != 3 || scatter.shape.is_tuple()) return std::nullopt;
  const ElementType type = scatter.shape.type;
  const bool is_word =
      has_float_order(type) || type == ElementType::kS32 || type == ElementType::kU32;
  const std::int64_t rank = scatter.shape.rank();
  const Extents& extents = scatter.shape.dimensions;
  const auto dimension = permuted_dimension(scatter.operands[1]);
  if (!is_word || !dimension || at(scatter.operands[2]).shape.dimensions != extents ||
      dims.index_vector_dim != rank ||
      at(scatter.operands[1]).shape.element_count() != scatter.shape.element_count()) {
    return std::nullopt;
  }
  Extents others;
  for (std::int64_t d = 0; d < rank; ++d) {
    if (d != *dimension) others.push_back(d);
  }
  Extents sorted_dims = dims.operand_batching_dims;
  std::sort(sorted_dims.begin(), sorted_dims.end());
  const bool is_along = dims.offset_dims.empty() && sorted_dims == others &&
                        dims.operand_batching_dims == dims.start_indices_batching_dims &&
                        dims.collapsed_slice_dims == Extents{*dimension} &&
                        dims.start_index_map == Extents{*dimension};
  const HloOpcode opcode = scatter_operation(module_.computation(scatter.called.at(0)));
  if (!is_along || opcode == HloOpcode::kCount) return std::nullopt;
  return dimension;
}

/// The inverse of a permutation, as the gradient of a sort needs it: a sort by the places.
void Sorts::visit_inverse(Id id, std::int64_t dimension) {
  const HloInstruction scatter = at(id);
  const Extents extents = scatter.shape.dimensions;
  const auto lies = arrangement(extents, dimension, 2, 1, 0);
  if (!lies) return;
  IndexedView view;
  view.batch = lies->sequences;
  view.indexed = lies->length;
  view.batches = {view.batch};
  view.picks = {lies->length};
  const double by_element =
      kScatteredElementCycles * static_cast<double>(scatter.shape.element_count());
  const double least = std::min(by_element, selection_cycles(view, lies->length));
  if (network_cycles(*lies, 2, 1) > least) return;
  edit_.stand_for(id);
  const Id numbers = edit_.convert(edit_.reshape(scatter.operands[1], extents), ElementType::kS32);
  const Id key = last_where_there_is_none(*lies, arranged(*lies, numbers), position(*lies));
  const Id update = arranged(*lies, scatter.operands[2]);
  const ElementType type = edit_.shape(update).type;
  const Id word = sorted(*lies, {key, word_of(update)}, 1).at(1);
  const Id made = back(*lies, value_of(word, type), lies->length);
  const HloOpcode opcode = scatter_operation(module_.computation(scatter.called.at(0)));
  if (opcode == HloOpcode::kParameter) return edit_.finish(made);
  edit_.finish(edit_.binary(opcode, scatter.operands[0], made));
}

void Sorts::visit(Id id) {
  const HloInstruction& instruction = at(id);
  if (instruction.opcode == HloOpcode::kSort) return visit_sort(id);
  const bool is_call = instruction.opcode == HloOpcode::kCustomCall &&
                       instruction.custom_call_target.get() == "TopK";
  if (is_call || instruction.opcode == HloOpcode::kTopk) visit_topk(id);
}

void Sorts::run() {
  const std::size_t count = module_.entry_computation().instructions.size();
  std::vector<std::pair<Id, std::int64_t>> inverses;
  for (std::size_t i = 0; i < count; ++i) {
    const HloInstruction& instruction = at(static_cast<Id>(i));
    if (instruction.opcode != HloOpcode::kScatter) continue;
    const auto dimension = inverted_dimension(instruction);
    if (dimension) inverses.emplace_back(static_cast<Id>(i), *dimension);
  }
  for (const auto& [id, dimension] : inverses) visit_inverse(id, dimension);
  for (std::size_t i = 0; i < count; ++i) visit(static_cast<Id>(i));
  if (module_.entry_computation().instructions.size() > count) tidy(module_.entry_computation());
}

}  // namespace

void rewrite_sorts(hlo::Module& module, const Target& target) { Sorts(module, target).run(); }

}  // namespace tpu::compiler
