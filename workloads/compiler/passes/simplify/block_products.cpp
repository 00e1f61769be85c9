#include "workloads/compiler/passes/simplify/block_products.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "isa/instruction.h"
#include "sim/base/ceil_divide.h"
#include "sim/base/contains.h"
#include "workloads/compiler/cost.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/dot_problem.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/expand/operand_precision.h"
#include "workloads/compiler/passes/graph_editor.h"
#include "workloads/compiler/passes/simplify/split_dimensions.h"

namespace tpu::compiler {

using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;

namespace {

using Id = GraphEditor::Id;
using Extents = GraphEditor::Extents;

/// Elements of a side of the small matrix.
constexpr std::int64_t kMostOfMatrix = 128;
/// Of a side of one with blocks.
constexpr std::int64_t kMostWithBlocks = 4096;
/// Kernels that make such a matrix, or take the small one out of it.
constexpr double kKernelsOfBlocks = 4;
/// What the estimate has to save, of which the search for layouts may find a part by itself.
constexpr double kMostOfSplit = 0.9;
/// Of the MXUs' cycles, a share that no transfer hides.
constexpr double kShownProducts = 0.25;
const char* const kExact = "operand_precision={highest,highest}";

/// A dot of an array and a small matrix.
struct SplitDot {
  std::size_t side = 0;         ///< The array's; the other operand is the matrix.
  std::int64_t along = 0;       ///< The array's dimension, of `whole.size`.
  std::int64_t contracted = 0;  ///< The matrix's.
  std::int64_t kept = 1;        ///< Elements of its other dimension.
  WholeArray whole;
};

/// A dot of two arrays that makes a small matrix: all else is contracted.
struct MatrixDot {
  WholeArray left, right;
};

/// How much of a split dimension is one matrix with blocks: so many of its parts.
struct Blocks {
  std::int64_t parts = 0;
  double cycles = HUGE_VAL;
};

class BlockProducts {
 public:
  BlockProducts(hlo::Module& module, const Target& target)
      : module_(module),
        target_(target),
        edit_(module),
        users_(users_of(module.entry_computation())) {}

  void run() {
    const std::size_t count = entry().instructions.size();
    for (std::size_t i = 0; i < count; ++i) {
      const HloInstruction dot = entry().instructions[i];
      if (dot.opcode != HloOpcode::kDot) continue;
      if (const auto found = split_dot(dot)) {
        if (const auto parts = parts_that_pay(dot, *found)) multiply(dot, *found, *parts);
      } else if (const auto sum = matrix_dot(dot)) {
        if (const auto parts = parts_that_pay(dot, *sum)) sum_blocks(dot, *sum, *parts);
      }
    }
    if (entry().instructions.size() > count) {
      tidy(module_.computations[static_cast<std::size_t>(module_.entry)]);
    }
  }

 private:
  const hlo::Computation& entry() const { return module_.entry_computation(); }
  const hlo::Shape& shape_of(const HloInstruction& dot, std::size_t side) const {
    return entry().at(dot.operands[side]).shape;
  }

  bool is_plain(const HloInstruction& dot) const;
  std::optional<SplitDot> split_dot(const HloInstruction& dot) const;
  std::optional<MatrixDot> matrix_dot(const HloInstruction& dot) const;
  bool meets_small_matrix(const HloInstruction& dot) const;

  double moved(std::int64_t registers, const HloInstruction& dot, std::size_t side) const;
  bool is_split_for_nothing(const WholeArray& whole, const Extents& extents) const;
  double multiplied(const HloInstruction& dot, const WholeArray& whole, std::int64_t rows,
                    std::int64_t columns, std::int64_t parts) const;
  bool fill_tiles(const WholeArray& whole, std::int64_t extent) const;
  Blocks fewest_cycles(const HloInstruction& dot, const WholeArray& whole, double arrays,
                       std::int64_t rows, std::int64_t columns, bool may_cut_lanes) const;
  bool is_made_in_parts(Id array, const WholeArray& whole) const;
  bool goes_back(const HloInstruction& dot, const SplitDot& found) const;
  std::optional<std::int64_t> parts_that_pay(const HloInstruction& dot,
                                             const SplitDot& found) const;
  std::optional<std::int64_t> parts_that_pay(const HloInstruction& dot,
                                             const MatrixDot& found) const;

  Id product(Id left, Id right, const Extents& left_along, const Extents& right_along,
             ElementType type, const std::string& precision);
  Id quotient(Id number, std::int64_t divisor);
  Id remainder(Id number, std::int64_t divisor);
  Id ones(std::int64_t parts, std::int64_t size, std::int64_t inner, bool is_turned);
  Id blocks_of(Id matrix, const WholeArray& whole, std::int64_t parts, std::int64_t rows,
               std::int64_t columns);
  Id tiles_turned(Id value);
  Id parted(Id value, const WholeArray& whole, std::int64_t parts);
  Id with_blocks(const HloInstruction& dot, const SplitDot& found, std::int64_t parts);
  void finish_rearranged(Id id, Id value, const ElementOrder& order);
  void multiply(const HloInstruction& dot, const SplitDot& found, std::int64_t parts);
  void sum_blocks(const HloInstruction& dot, const MatrixDot& found, std::int64_t parts);

  hlo::Module& module_;
  const Target& target_;
  GraphEditor edit_;
  std::vector<std::vector<Id>> users_;  ///< Before the pass.
};

Extents with_extent(Extents extents, std::size_t dimension, std::int64_t extent) {
  extents[dimension] = extent;
  return extents;
}

bool BlockProducts::is_plain(const HloInstruction& dot) const {
  const auto is_floating = [](const hlo::Shape& shape) {
    return shape.type == ElementType::kF32 || shape.type == ElementType::kBf16;
  };
  return dot.dot->lhs_batch.empty() && is_floating(dot.shape) && is_floating(shape_of(dot, 0)) &&
         is_floating(shape_of(dot, 1));
}

std::optional<SplitDot> BlockProducts::split_dot(const HloInstruction& dot) const {
  if (!is_plain(dot) || dot.dot->lhs_contracting.size() != 1) return std::nullopt;
  for (const std::size_t side : {0, 1}) {
    const hlo::Shape &array = shape_of(dot, side), &matrix = shape_of(dot, 1 - side);
    if (matrix.rank() != 2 || array.rank() < 2) continue;
    SplitDot found;
    found.side = side;
    found.along = (side == 0 ? dot.dot->lhs_contracting : dot.dot->rhs_contracting)[0];
    found.contracted = (side == 0 ? dot.dot->rhs_contracting : dot.dot->lhs_contracting)[0];
    found.kept = matrix.dimensions[static_cast<std::size_t>(1 - found.contracted)];
    const std::int64_t size = array.dimensions[static_cast<std::size_t>(found.along)];
    if (std::max(size, found.kept) > kMostOfMatrix || std::min(size, found.kept) < 2) continue;
    const auto whole = whole_array_of(entry(), dot.operands[side], found.along);
    if (!whole) continue;
    found.whole = *whole;
    return found;
  }
  return std::nullopt;
}

std::optional<MatrixDot> BlockProducts::matrix_dot(const HloInstruction& dot) const {
  if (!is_plain(dot) || dot.shape.rank() != 2) return std::nullopt;
  const Extents contracted[]{dot.dot->lhs_contracting, dot.dot->rhs_contracting};
  std::vector<WholeArray> wholes;
  std::vector<ElementPiece> pieces[2];
  for (const std::size_t side : {0, 1}) {
    const hlo::Shape& shape = shape_of(dot, side);
    const Extents free = free_dimensions(shape, {}, contracted[side]);
    const std::int64_t size = dot.shape.dimensions[side];
    if (free.size() != 1 || size > kMostOfMatrix || size < 2) return std::nullopt;
    const auto whole = whole_array_of(entry(), dot.operands[side], free[0]);
    if (!whole) return std::nullopt;
    for (const std::int64_t d : contracted[side]) {
      for (const ElementPiece& piece : whole->pieces) {
        if (piece.dimension == static_cast<std::size_t>(d)) pieces[side].push_back(piece);
      }
    }
    wholes.push_back(*whole);
  }
  const WholeArray &left = wholes[0], &right = wholes[1];
  const bool is_alike =
      left.before == right.before && left.parts == right.parts && left.inner == right.inner &&
      left.behind == right.behind && left.is_last() == right.is_last() &&
      std::equal(pieces[0].begin(), pieces[0].end(), pieces[1].begin(), pieces[1].end(),
                 [](const ElementPiece& a, const ElementPiece& b) {
                   return a.extent == b.extent && a.source == b.source && a.stride == b.stride;
                 });
  if (!is_alike) return std::nullopt;
  return MatrixDot{left, right};
}

/// Cycles to move so many registers; `side` 2: of the result's type.
double BlockProducts::moved(std::int64_t registers, const HloInstruction& dot,
                            std::size_t side) const {
  const ElementType type = side < 2 ? shape_of(dot, side).type : dot.shape.type;
  return static_cast<double>(registers * isa::kSublanes * isa::kLanes) *
         static_cast<double>(hlo::byte_size(type)) / target_.hbm_bytes_per_cycle;
}

/// Registers of the whole array with parts of so many elements, and of the split one: what stands
/// outside of the split dimension is outside of its tiles, too, for else every element moves.
std::int64_t registers_of_whole(const WholeArray& whole, std::int64_t size) {
  return fewest_registers(
      with_extent(whole.extents, whole.dimension, whole.parts * size * whole.inner));
}
std::int64_t registers_of_split(const WholeArray& whole, std::int64_t size) {
  Extents inside;
  for (const ElementPiece& piece : whole.pieces) {
    if (piece.source > 0) inside.push_back(piece.source == 2 ? size : piece.extent);
  }
  return whole.before * fewest_registers(inside);
}

/// Whether the split array has the tiles of the whole one: it is split outside of them, or between
/// whole rows of tiles.
bool BlockProducts::is_split_for_nothing(const WholeArray& whole, const Extents& extents) const {
  if (whole.is_last()) return whole.inner == 1 && whole.size % isa::kLanes == 0;
  if (!is_same_order(whole.order) || extents.back() != whole.extents.back()) return false;
  const std::int64_t rows = extents[extents.size() - 2];
  const bool is_outside = whole.dimension + 2 < whole.extents.size();
  return is_outside ? rows == whole.extents[whole.extents.size() - 2] : rows % isa::kSublanes == 0;
}

/// Cycles of the MXUs for a product with blocks of the diagonal of so many parts.
double BlockProducts::multiplied(const HloInstruction& dot, const WholeArray& whole,
                                 std::int64_t rows, std::int64_t columns,
                                 std::int64_t parts) const {
  const std::int64_t lanes = isa::kLanes, unit = parts * whole.inner;
  const std::int64_t tiles = ceil_divide(rows * unit, lanes) * ceil_divide(columns * unit, lanes);
  const double pushes = static_cast<double>(whole.before * whole.behind) *
                        static_cast<double>(whole.parts / parts) * static_cast<double>(tiles) /
                        isa::kSublanes;
  const double products = asks_for_precision(dot) ? kPreciseProducts : 1;
  return pushes * products * target_.push_interval_cycles / target_.mxu_count;
}

/// Whether whole tiles have so many of the parts, so that taking them apart moves nothing.
bool BlockProducts::fill_tiles(const WholeArray& whole, std::int64_t extent) const {
  const std::size_t rank = whole.extents.size();
  if (!whole.is_last()) return extent % (2 * isa::kSublanes) == 0;
  if (rank == 1) return extent == isa::kLanes;
  return extent % isa::kLanes == 0 && whole.extents[rank - 2] % isa::kSublanes == 0;
}

/// Where lanes are cut, what stands around the product may want another order: elementwise
/// operations that go along have that of the tiles.
/// `arrays`: cycles that those take which the matrix is multiplied with, or made of; `rows` and
/// `columns` are its own.
Blocks BlockProducts::fewest_cycles(const HloInstruction& dot, const WholeArray& whole,
                                    double arrays, std::int64_t rows, std::int64_t columns,
                                    bool may_cut_lanes) const {
  Blocks best;
  for (std::int64_t parts = 1; parts <= whole.parts; ++parts) {
    if (whole.parts % parts != 0) continue;
    const std::int64_t all_rows = parts * rows * whole.inner;
    const std::int64_t all_columns = parts * columns * whole.inner;
    if (std::max(all_rows, all_columns) > kMostWithBlocks) break;
    if (parts < whole.parts && !(fill_tiles(whole, all_rows) && fill_tiles(whole, all_columns))) {
      continue;
    }
    const double matrix = static_cast<double>(all_rows * all_columns) * sizeof(float);
    const bool cuts_lanes = parts < whole.parts && whole.is_last();
    if (cuts_lanes && !may_cut_lanes) continue;
    const double products = multiplied(dot, whole, rows, columns, parts);
    const double cycles = std::max(arrays, products) + kShownProducts * products +
                          (cuts_lanes ? arrays : 0) +
                          kKernelsOfBlocks * (kKernelCycles + matrix / target_.hbm_bytes_per_cycle);
    if (cycles < best.cycles) best = {parts, cycles};
  }
  return best;
}

/// Whether one operand is a small matrix and the other one an array, or both are arrays that make
/// one.
bool BlockProducts::meets_small_matrix(const HloInstruction& dot) const {
  if (!is_plain(dot)) return false;
  const auto is_small = [](const hlo::Shape& shape) {
    return shape.rank() == 2 && std::max(shape.dimensions[0], shape.dimensions[1]) <= kMostOfMatrix;
  };
  return is_small(dot.shape) || is_small(shape_of(dot, 0)) || is_small(shape_of(dot, 1));
}

/// Of sums or what is broadcast: not a number for each part of each row.
bool is_small_beside(const HloInstruction& value, const WholeArray& whole) {
  return !value.shape.is_tuple() &&
         value.shape.element_count() <= whole.extents[whole.dimension] * whole.inner;
}

/// Whether the array is made of something that each part has one of (its norm, its greatest
/// element), so that it is made as it is split.
bool BlockProducts::is_made_in_parts(Id array, const WholeArray& whole) const {
  std::vector<Id> work{array};
  std::set<Id> seen{array};
  while (!work.empty()) {
    const HloInstruction& made = entry().at(work.back());
    work.pop_back();
    if (made.id == whole.source) continue;
    const bool is_move = made.opcode == HloOpcode::kReshape || made.opcode == HloOpcode::kTranspose;
    if (made.opcode == HloOpcode::kBroadcast) {
      const HloInstruction& spread = entry().at(made.operands[0]);
      if (spread.shape.rank() > 0 && !is_small_beside(spread, whole)) return true;
    }
    if (!is_move && !hlo::is_elementwise(made.opcode)) continue;
    for (const Id operand : made.operands) {
      if (seen.insert(operand).second) work.push_back(operand);
    }
  }
  return false;
}

/// Whether whoever reads the result takes it in the order of the whole array: it is put together
/// again, added to a few sums, or multiplied like this one.
bool BlockProducts::goes_back(const HloInstruction& dot, const SplitDot& found) const {
  std::vector<Id> work{dot.id};
  std::vector<bool> seen(users_.size());
  while (!work.empty()) {
    const Id id = work.back();
    work.pop_back();
    if (id == entry().root) return false;
    for (const Id user : users_[static_cast<std::size_t>(id)]) {
      if (seen[static_cast<std::size_t>(user)]) continue;
      seen[static_cast<std::size_t>(user)] = true;
      const HloInstruction& reader = entry().at(user);
      const bool is_move =
          reader.opcode == HloOpcode::kReshape || reader.opcode == HloOpcode::kTranspose;
      if (reader.opcode == HloOpcode::kReduce && is_small_beside(reader, found.whole)) continue;
      if (reader.opcode == HloOpcode::kDot && meets_small_matrix(reader)) continue;
      if (!is_move && !hlo::is_elementwise(reader.opcode)) return false;
      const Extents& extents = reader.shape.dimensions;
      const std::int64_t last = found.whole.is_last()
                                    ? found.whole.parts * found.kept * found.whole.inner
                                    : found.whole.extents.back();
      if (is_move && extents.back() == last) continue;
      work.push_back(user);
    }
  }
  return true;
}

/// Of one matrix with blocks, where the whole arrays take less than the split ones do.
std::optional<std::int64_t> BlockProducts::parts_that_pay(const HloInstruction& dot,
                                                          const SplitDot& found) const {
  const WholeArray& whole = found.whole;
  const Extents& extents = shape_of(dot, found.side).dimensions;
  if (is_split_for_nothing(whole, extents)) return std::nullopt;
  const double given = moved(registers_of_whole(whole, whole.size), dot, found.side);
  const double made = moved(registers_of_whole(whole, found.kept), dot, 2);
  const double split = moved(registers_of_split(whole, whole.size), dot, found.side);
  const double split_result = moved(registers_of_split(whole, found.kept), dot, 2);
  const bool is_made_apart = is_made_in_parts(dot.operands[found.side], whole);
  const bool is_read_apart = !goes_back(dot, found);
  const Blocks blocks = fewest_cycles(dot, whole, given + made, whole.size, found.kept,
                                      !is_made_apart && !is_read_apart);
  double now = split + split_result, then = blocks.cycles;
  (is_made_apart ? then : now) += given + split;
  (is_read_apart ? then : now) += made + split_result;
  if (then >= kMostOfSplit * now) return std::nullopt;
  return blocks.parts;
}

std::optional<std::int64_t> BlockProducts::parts_that_pay(const HloInstruction& dot,
                                                          const MatrixDot& found) const {
  double now = 0, arrays = 0;
  for (const std::size_t side : {0, 1}) {
    const WholeArray& whole = side == 0 ? found.left : found.right;
    const Extents& extents = shape_of(dot, side).dimensions;
    const double given = moved(registers_of_whole(whole, whole.size), dot, side);
    const double split = moved(registers_of_split(whole, whole.size), dot, side);
    arrays += given;
    now += split;
    if (is_split_for_nothing(whole, extents)) continue;
    (is_made_in_parts(dot.operands[side], whole) ? arrays : now) += given + split;
  }
  const WholeArray& left = found.left;
  const Blocks blocks = fewest_cycles(dot, left, arrays, left.size, found.right.size, false);
  if (blocks.cycles >= kMostOfSplit * now) return std::nullopt;
  return blocks.parts;
}

Id BlockProducts::product(Id left, Id right, const Extents& left_along, const Extents& right_along,
                          ElementType type, const std::string& precision) {
  Extents extents;
  const Id sides[]{left, right};
  const Extents* const along[]{&left_along, &right_along};
  for (const std::size_t side : {0, 1}) {
    const hlo::Shape shape = edit_.shape(sides[side]);
    for (const std::int64_t d : free_dimensions(shape, {}, *along[side])) {
      extents.push_back(shape.dimensions[static_cast<std::size_t>(d)]);
    }
  }
  HloInstruction made =
      edit_.start(HloOpcode::kDot, {left, right}, hlo::array_shape(type, extents));
  made.dot = hlo::DotDimensions{{}, {}, left_along, right_along};
  if (!precision.empty()) made.raw_attributes = precision;
  return edit_.append_instruction(std::move(made));
}

/// Of whole numbers, in f32.
Id BlockProducts::quotient(Id number, std::int64_t divisor) {
  const Id middle = edit_.binary_with(HloOpcode::kAdd, number, 0.5);
  return edit_.unary(HloOpcode::kFloor, edit_.binary_with(HloOpcode::kMultiply, middle,
                                                          1.0 / static_cast<double>(divisor)));
}
Id BlockProducts::remainder(Id number, std::int64_t divisor) {
  const Id whole = edit_.binary_with(HloOpcode::kMultiply, quotient(number, divisor),
                                     static_cast<double>(divisor));
  return edit_.binary(HloOpcode::kSubtract, number, whole);
}

/// [parts * size * inner, size], or turned: 1 where the element is that one of its part.
Id BlockProducts::ones(std::int64_t parts, std::int64_t size, std::int64_t inner, bool is_turned) {
  Extents extents{parts * size * inner, size};
  if (is_turned) std::swap(extents[0], extents[1]);
  Id element = edit_.iota(ElementType::kF32, extents, is_turned ? 1 : 0);
  if (inner > 1) element = quotient(element, inner);
  if (parts > 1) element = remainder(element, size);
  const Id is_one =
      edit_.compare(element, edit_.iota(ElementType::kF32, extents, is_turned ? 0 : 1),
                    hlo::ComparisonDirection::kEq);
  return edit_.convert(is_one, ElementType::kF32);
}

/// What stands in the blocks on the diagonal of a matrix, 0 elsewhere.
Id BlockProducts::blocks_of(Id matrix, const WholeArray& whole, std::int64_t parts,
                            std::int64_t rows, std::int64_t columns) {
  const Extents extents = edit_.dimensions(matrix);
  const Id row = edit_.iota(ElementType::kF32, extents, 0);
  const Id column = edit_.iota(ElementType::kF32, extents, 1);
  Id is_inside = -1;
  const auto require = [&](Id of_row, Id of_column) {
    const Id are_equal = edit_.compare(of_row, of_column, hlo::ComparisonDirection::kEq);
    is_inside = is_inside < 0 ? are_equal : edit_.binary(HloOpcode::kAnd, is_inside, are_equal);
  };
  const std::int64_t inner = whole.inner;
  if (parts > 1) require(quotient(row, rows * inner), quotient(column, columns * inner));
  if (inner > 1) require(remainder(row, inner), remainder(column, inner));
  if (is_inside < 0) return matrix;
  return edit_.select(is_inside, matrix, edit_.splat(edit_.shape(matrix).type, extents, 0));
}

/// The array with so many parts of its dimension a time, as a dimension of their own. Of the last
/// one whole tiles, so the rows are cut in eights: tiles stand above these.
Id BlockProducts::parted(Id value, const WholeArray& whole, std::int64_t parts) {
  if (parts == whole.parts) return value;
  Extents extents = edit_.dimensions(value);
  const auto place = extents.begin() + static_cast<std::ptrdiff_t>(whole.dimension);
  const std::int64_t times = whole.parts / parts, unit = *place / times;
  *place = times;
  extents.insert(place + 1, unit);
  if (!whole.is_last() || whole.dimension == 0) return edit_.reshape(value, extents);
  std::int64_t& rows = extents[whole.dimension - 1];
  rows /= isa::kSublanes;
  extents.insert(extents.begin() + static_cast<std::ptrdiff_t>(whole.dimension),
                 std::int64_t{isa::kSublanes});
  return edit_.reshape(value, extents);
}

/// Eight rows and the tiles beside each other change places.
Id BlockProducts::tiles_turned(Id value) {
  Extents order(edit_.dimensions(value).size());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[order.size() - 3], order[order.size() - 2]);
  return edit_.transpose(value, order);
}

/// The dimension of a parted array that has the parts.
std::int64_t dimension_of_parts(const WholeArray& whole, std::int64_t parts) {
  const auto dimension = static_cast<std::int64_t>(whole.dimension);
  if (parts == whole.parts) return dimension;
  return dimension + (whole.is_last() && dimension > 0 ? 2 : 1);
}

/// The small matrix in all blocks on the diagonal of one of so many parts.
Id BlockProducts::with_blocks(const HloInstruction& dot, const SplitDot& found,
                              std::int64_t parts) {
  const Id matrix = dot.operands[1 - found.side];
  const Extents sizes = edit_.dimensions(matrix);
  const std::int64_t inner = found.whole.inner;
  const std::string precision = asks_for_precision(dot) ? kExact : "";
  const ElementType f32 = ElementType::kF32;
  const Id rows = product(ones(parts, sizes[0], inner, false), edit_.convert(matrix, f32), {1}, {0},
                          f32, precision);
  const Id all = product(rows, ones(parts, sizes[1], inner, true), {1}, {0}, f32, precision);
  return edit_.convert(blocks_of(all, found.whole, parts, sizes[0], sizes[1]),
                       edit_.shape(matrix).type);
}

void BlockProducts::multiply(const HloInstruction& dot, const SplitDot& found, std::int64_t parts) {
  edit_.stand_for(dot.id);
  const WholeArray& whole = found.whole;
  const Id given = dot.operands[found.side];
  const Id blocks = with_blocks(dot, found, parts);
  // The product, in the array's order.
  const Id array = whole.is_computed ? rearrange(edit_, given, inverse(whole.order), whole.extents)
                                     : whole.source;
  Id split = parted(array, whole, parts);
  // Where the result is put together at once, tiles stand above their rows as the arrays are
  // written; else the search for orders finds that, with what goes behind the product.
  const std::vector<Id>& readers = users_[static_cast<std::size_t>(dot.id)];
  const bool turns = parts < whole.parts && whole.is_last() && whole.dimension > 0 &&
                     std::all_of(readers.begin(), readers.end(), [&](Id reader) {
                       return entry().at(reader).opcode == HloOpcode::kReshape;
                     });
  if (turns) split = tiles_turned(split);
  const std::int64_t along = dimension_of_parts(whole, parts);
  Id made =
      product(split, blocks, {along}, {found.contracted}, dot.shape.type, dot.raw_attributes.get());
  const auto rank = static_cast<std::int64_t>(edit_.dimensions(made).size());
  Extents order(static_cast<std::size_t>(rank) - 1);
  std::iota(order.begin(), order.end(), 0);
  order.insert(order.begin() + along, rank - 1);
  if (along + 1 < rank) made = edit_.transpose(made, order);
  const Extents extents =
      with_extent(whole.extents, whole.dimension, whole.parts * found.kept * whole.inner);
  if (turns) made = tiles_turned(made);
  if (edit_.dimensions(made) != extents) made = edit_.reshape(made, extents);
  // And in the result's.
  const auto counts = whole.split(found.kept);
  Extents strides(counts.size(), 1);
  for (std::size_t i = counts.size() - 1; i-- > 0;) strides[i] = strides[i + 1] * counts[i + 1];
  ElementOrder in_result;
  const auto take_kept = [&] { in_result.push_back({found.kept, strides[2]}); };
  if (found.side == 1) take_kept();
  for (const ElementPiece& piece : whole.pieces) {
    if (piece.source == 2) continue;
    in_result.push_back({piece.extent, piece.stride * strides[piece.source]});
  }
  if (found.side == 0) take_kept();
  finish_rearranged(dot.id, made, in_result);
}

/// An instruction and all rearrangements of it become such of the value, so that those that put it
/// together again meet it.
void BlockProducts::finish_rearranged(Id id, Id value, const ElementOrder& order) {
  const HloInstruction given = entry().at(id);
  for (const Id user : users_[static_cast<std::size_t>(id)]) {
    const HloInstruction& next = entry().at(user);
    if (next.opcode == HloOpcode::kReshape) {
      finish_rearranged(user, value, order);
    } else if (next.opcode == HloOpcode::kTranspose) {
      const auto turned = transposed(order, given.shape.dimensions, next.dimensions);
      if (turned) finish_rearranged(user, value, *turned);
    }
  }
  edit_.stand_for(id);
  edit_.finish(rearrange(edit_, value, order, given.shape.dimensions));
}

void BlockProducts::sum_blocks(const HloInstruction& dot, const MatrixDot& found,
                               std::int64_t parts) {
  edit_.stand_for(dot.id);
  Id sides[2];
  Extents along[2];
  for (const std::size_t side : {0, 1}) {
    const WholeArray& whole = side == 0 ? found.left : found.right;
    Id array = whole.is_computed
                   ? rearrange(edit_, dot.operands[side], inverse(whole.order), whole.extents)
                   : whole.source;
    WholeArray joined = whole;
    if (found.left.dimension != found.right.dimension ||
        with_extent(found.left.extents, found.left.dimension, 1) !=
            with_extent(found.right.extents, found.right.dimension, 1)) {
      joined.extents = {whole.before, whole.parts * whole.size * whole.inner, whole.behind};
      joined.dimension = 1;
      if (whole.behind == 1) joined.extents.pop_back();
      array = edit_.reshape(array, joined.extents);
    }
    sides[side] = parted(array, joined, parts);
    const std::int64_t free = dimension_of_parts(joined, parts);
    for (std::size_t d = 0; d < edit_.dimensions(sides[side]).size(); ++d) {
      if (static_cast<std::int64_t>(d) != free) along[side].push_back(static_cast<std::int64_t>(d));
    }
  }
  const WholeArray &left = found.left, &right = found.right;
  const ElementType f32 = ElementType::kF32;
  const Id all = product(sides[0], sides[1], along[0], along[1], f32, dot.raw_attributes.get());
  const Id blocks = blocks_of(all, left, parts, left.size, right.size);
  const Id rows = product(ones(parts, left.size, left.inner, true), blocks, {1}, {0}, f32, kExact);
  const Id sum = product(rows, ones(parts, right.size, left.inner, false), {1}, {0}, f32, kExact);
  edit_.finish(edit_.convert(sum, dot.shape.type));
}

}  // namespace

void multiply_in_blocks(hlo::Module& module, const Target& target) {
  BlockProducts(module, target).run();
}

}  // namespace tpu::compiler
