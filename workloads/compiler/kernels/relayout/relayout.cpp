#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "isa/instruction.h"
#include "sim/base/ceil_divide.h"
#include "sim/base/contains.h"
#include "sim/base/error.h"
#include "workloads/compiler/cost.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/constant_word.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/kernels/elementwise/expression_graph.h"
#include "workloads/compiler/kernels/lowering.h"
#include "workloads/compiler/kernels/relayout/relayout_boxes.h"
#include "workloads/compiler/kernels/relayout/relayout_copy.h"
#include "workloads/compiler/kernels/relayout/relayout_form.h"
#include "workloads/compiler/kernels/relayout/relayout_long_rows.h"
#include "workloads/compiler/kernels/relayout/relayout_slabs.h"
#include "workloads/compiler/kernels/relayout/relayout_stretches.h"

namespace tpu::compiler {

namespace {

using hlo::HloOpcode;

/// Of the memory's time: of more, slabs of pieces are looked at, too.
constexpr double kMostExposed = 0.25;
/// Of slabs in a kernel, each with code of its own.
constexpr std::size_t kMostStretches = 32;

Refusal refuse(const hlo::Computation& computation, const hlo::HloInstruction& instruction,
               const std::string& why) {
  std::string operands;
  for (hlo::InstructionId operand : instruction.operands) {
    if (!operands.empty()) operands += ", ";
    operands += hlo::to_string(computation.at(operand).shape);
  }
  return {"no kernel for " + std::string(hlo::to_string(instruction.opcode)) + " (" + operands +
          ") -> " + hlo::to_string(instruction.shape) + " \"" + instruction.name + "\": " + why};
}

/// Whether the box reaches every element of an array of such extents.
bool covers_all(const Box& box, const std::vector<std::int64_t>& extents) {
  for (std::size_t i = 0; i < box.dimensions.size(); ++i) {
    const Box::Dimension& d = box.dimensions[i];
    if (d.to != 0 || std::abs(d.spread) != 1 || d.extent != extents[i]) return false;
  }
  return box.dimensions.size() == extents.size();
}

/// Physical dimensions along which every box leaves everything in place.
std::vector<int> fixed_dimensions(const std::vector<Box>& boxes,
                                  const std::vector<hlo::Shape>& operands,
                                  const hlo::Shape& result) {
  const std::vector<std::int64_t> target = physical_extents(result);
  std::vector<int> fixed;
  for (std::size_t i = 0; i < target.size(); ++i) {
    const bool stays = std::all_of(boxes.begin(), boxes.end(), [&](const Box& box) {
      const Box::Dimension& d = box.dimensions[i];
      const hlo::Shape& source = operands[static_cast<std::size_t>(box.source)];
      return d.from == 0 && d.to == 0 && d.step == 1 && d.spread == 1 && d.extent == target[i] &&
             physical_extents(source)[i] == target[i];
    });
    if (stays && target[i] > 1) fixed.push_back(static_cast<int>(i));
  }
  return fixed;
}

/// Whether packed rows may stay so: boxes move lanes alone, and nothing is filled around them.
bool keep_all_rows(const std::vector<Box>& boxes, const std::vector<hlo::Shape>& operands,
                   const hlo::Shape& result) {
  const auto rows = [](const hlo::Shape& shape) {
    const std::vector<std::int64_t> extents = physical_extents(shape);
    return extents[extents.size() - 2];
  };
  return result.rank() >= 2 && std::all_of(boxes.begin(), boxes.end(), [&](const Box& box) {
           const hlo::Shape& source = operands[static_cast<std::size_t>(box.source)];
           const Box::Dimension& moved = box.dimensions[box.dimensions.size() - 2];
           return moved.step == 1 && moved.spread == 1 && box.dimensions.back().step == 1 &&
                  moved.extent == rows(source) && moved.extent == rows(result);
         });
}

/// Blocks of whole tiles go through the transpose unit from packed arrays and to them.
void keep_packed(const std::vector<std::size_t>& permutation, SlabArray& source,
                 SlabArray& target) {
  const std::size_t rank = permutation.size();
  if (permutation.back() == rank - 1) return;
  source.stays_packed = permutation.back() == rank - 2;
  target.stays_packed = permutation[rank - 2] == rank - 1;
}

SlabArray as_it_lies(SlabArray array) {
  array.shape = compiler::as_it_lies(std::move(array.shape));
  return array;
}

/// The array with dimensions merged that tiles do not part: in row-major order rows of lanes, or
/// matrices where their rows fill no tiles.
SlabArray rows_of_items(SlabArray array) {
  const std::vector<std::int64_t>& extents = array.shape.dimensions;
  if (extents.size() <= 2) return array;
  const std::int64_t rows = extents[extents.size() - 2], lanes = extents.back();
  const std::int64_t matrices = array.shape.element_count() / (rows * lanes);
  array.shape.dimensions = rows % 8 == 0 || matrices == 1
                               ? std::vector<std::int64_t>{matrices * rows, lanes}
                               : std::vector<std::int64_t>{matrices, rows, lanes};
  array.shape.layout = row_major_layout(array.shape.type, array.shape.rank());
  return array;
}

/// Elements of an index of the outermost dimension; of a vector, of a row of its tiles.
std::int64_t elements_of_index(const SlabArray& array) {
  return array.shape.rank() < 2 ? 128
                                : array.shape.element_count() / array.shape.dimensions.front();
}

/// The array, cut along its outermost dimension; a single row of lanes is cut along those.
SlabArray cut_outermost(SlabArray array) {
  const std::vector<std::int64_t>& extents = array.shape.dimensions;
  const bool is_row = extents.size() == 2 && extents.front() == 1;
  array.dimension = is_row ? 1 : 0;
  array.of_index = is_row ? 1 : elements_of_index(array);
  return array;
}

/// Moves, one behind the other, that take the same runs at the same distance from the one before:
/// of so many a loop is made, for each move has a descriptor of its own.
constexpr std::size_t kMovesOfALoop = 16;

/// How many moves from the first one on are alike but for a distance from each to the next.
std::size_t moves_alike(const std::vector<TileMove>& moves, std::size_t first) {
  std::size_t count = 1;
  for (; first + count < moves.size(); ++count) {
    const TileRuns &begin = moves[first].runs, &second = moves[first + 1].runs,
                   &next = moves[first + count].runs;
    const auto times = static_cast<std::int64_t>(count);
    TileRuns expected = begin;
    expected.source_begin += times * (second.source_begin - begin.source_begin);
    expected.target_begin += times * (second.target_begin - begin.target_begin);
    if (moves[first + count].source != moves[first].source || !(next == expected)) break;
  }
  return count;
}

/// With moves that are alike as one whose outermost dimension counts them.
std::vector<TileMove> in_loops(const std::vector<TileMove>& moves) {
  std::vector<TileMove> joined;
  for (std::size_t i = 0; i < moves.size();) {
    const std::size_t count = moves_alike(moves, i);
    if (count < kMovesOfALoop) {
      joined.push_back(moves[i++]);
      continue;
    }
    TileMove move = moves[i];
    const TileRuns& second = moves[i + 1].runs;
    const auto add_outermost = [](std::vector<std::int64_t>& list, std::int64_t value) {
      list.insert(list.begin(), value);
    };
    add_outermost(move.runs.source_strides, second.source_begin - move.runs.source_begin);
    add_outermost(move.runs.target_strides, second.target_begin - move.runs.target_begin);
    add_outermost(move.runs.counts, static_cast<std::int64_t>(count));
    joined.push_back(std::move(move));
    i += count;
  }
  return joined;
}

/// Finds the kernel of one instruction. Plans do not need it any more.
class Relayout {
 public:
  Relayout(const hlo::Computation& computation, const hlo::HloInstruction& instruction,
           const Target& target)
      : computation_(computation), instruction_(instruction), target_(target) {
    for (hlo::InstructionId operand : instruction.operands) {
      operands_.push_back(computation.at(operand).shape);
    }
  }

  OrRefusal<KernelPlan> plan() const;
  /// Of a fusion of moves.
  OrRefusal<KernelPlan> plan_moves() const;
  std::optional<double> moves_cycles() const;

 private:
  const hlo::Shape& operand(std::size_t i) const { return operands_[i]; }
  /// What a pad puts around its operand.
  struct Fill {
    bool fills = false;
    std::uint32_t word = 0;
  };
  OrRefusal<Fill> fill(hlo::ElementType type) const;
  std::optional<std::vector<TileMove>> tile_moves(const std::vector<Box>& boxes) const;
  OrRefusal<KernelPlan> plan_tiles(const std::vector<TileMove>& moves) const;
  OrRefusal<SlabPlan> slabs_of_boxes(const std::vector<Box>& boxes) const;
  std::optional<SlabPlan> plan_moved(const MovedSlabs& moved) const;
  OrRefusal<KernelPlan> plan_tiles_or_boxes(const std::vector<Box>& boxes) const;
  OrRefusal<KernelPlan> plan_parts(const TileParts& parts) const;
  OrRefusal<KernelPlan> plan_woven(const TileParts& parts) const;
  OrRefusal<KernelPlan> plan_woven_vector(const TileParts& parts) const;
  OrRefusal<KernelPlan> plan_permutation() const;
  void offer_pieces(const std::vector<std::size_t>& permutation, BestSlabs& best) const;
  OrRefusal<KernelPlan> plan_reshape() const;
  std::optional<SlabPlan> plan_line(SlabArray source, SlabArray target) const;
  SlabArray array(std::size_t operand_number, int dimension) const;
  SlabArray result(int dimension) const;
  Refusal refuse(const std::string& why) const {
    return tpu::compiler::refuse(computation_, instruction_, why);
  }
  Refusal refuse_size() const {
    return refuse(
        "expected a part of each array in VMEM, cut along a dimension that stays in place");
  }

  const hlo::Computation& computation_;
  hlo::HloInstruction instruction_;
  std::vector<hlo::Shape> operands_;
  const Target& target_;
};

SlabArray Relayout::array(std::size_t operand_number, int dimension) const {
  return {static_cast<int>(operand_number), operand(operand_number), dimension};
}

SlabArray Relayout::result(int dimension) const {
  return {static_cast<int>(instruction_.operands.size()), instruction_.shape, dimension};
}

/// With the padding value as it stands in an array of the type.
OrRefusal<Relayout::Fill> Relayout::fill(hlo::ElementType type) const {
  const hlo::HloInstruction* pad = instruction_.opcode == HloOpcode::kPad ? &instruction_ : nullptr;
  if (instruction_.opcode == HloOpcode::kFusion) {
    for (const hlo::HloInstruction& each : computation_.instructions) {
      if (each.opcode == HloOpcode::kPad) pad = &each;
    }
  }
  if (pad == nullptr) return Fill{};
  const hlo::HloInstruction& value = computation_.at(pad->operands.at(1));
  if (value.opcode != HloOpcode::kConstant) return refuse("expected a constant padding value");
  return Fill{true, constant_word(value, type)};
}

std::optional<std::vector<TileMove>> Relayout::tile_moves(const std::vector<Box>& boxes) const {
  std::vector<TileMove> moves;
  for (const Box& box : boxes) {
    const std::optional<TileRuns> runs =
        tile_runs(box, operand(static_cast<std::size_t>(box.source)), instruction_.shape);
    if (!runs) return std::nullopt;
    moves.push_back({box.source, *runs, {}});
  }
  return in_loops(moves);
}

OrRefusal<KernelPlan> Relayout::plan_tiles(const std::vector<TileMove>& moves) const {
  OrRefusal<Fill> fill = this->fill(instruction_.shape.type);
  if (!fill) return fill.refusal();
  return KernelPlan([name = instruction_.name, moves, fill = *fill,
                     result = static_cast<int>(instruction_.operands.size()),
                     count = granules(instruction_.shape), &target = target_] {
    return emit_tile_moves(name, moves, result, count, fill.fills, fill.word, target);
  });
}

/// What becomes of a slab, which may have more along a cut dimension than its boxes say.
SlabBody body_of(std::vector<Box> boxes, const std::vector<int>& cuts, bool is_linear, bool fills,
                 std::uint32_t word) {
  return [=](ElementMover& mover, const std::vector<TileArray>& from, const TileArray& to) {
    std::vector<Box> moved = boxes;
    for (Box& box : moved) {
      for (const int cut : cuts) {
        const auto at = static_cast<std::size_t>(cut);
        box.dimensions[at].extent = to.extents[at];
      }
    }
    const auto covers = [&to](const Box& box) { return covers_all(box, to.extents); };
    if (fills && std::none_of(moved.begin(), moved.end(), covers)) mover.fill(to, word);
    for (const Box& box : moved) {
      const TileArray& source = from[static_cast<std::size_t>(box.source)];
      if (is_linear) {
        const Box::Dimension& d = box.dimensions.front();
        mover.move_linear(source, to, d.from, d.to, d.extent);
      } else {
        mover.move_box(source, to, box);
      }
    }
  };
}

OrRefusal<SlabPlan> Relayout::slabs_of_boxes(const std::vector<Box>& boxes) const {
  const bool is_linear = instruction_.shape.rank() < 2;
  for (const Box& box : boxes) {
    const Box::Dimension& lanes = box.dimensions.back();
    const bool is_in_steps = std::abs(lanes.step) != 1 || lanes.spread != 1;
    if (is_in_steps || (is_linear && lanes.step != 1)) {
      return refuse("expected no steps along the minor dimension");
    }
  }
  OrRefusal<Fill> fill = this->fill(hlo::ElementType::kF32);
  if (!fill) return fill.refusal();
  const bool stays_packed = !fill->fills && keep_all_rows(boxes, operands_, instruction_.shape);
  // An array comes once, however many boxes it has.
  std::vector<SlabArray> arrays;
  std::vector<Box> of_arrays = boxes;
  for (Box& box : of_arrays) {
    if (arrays.empty() || arrays.back().operand != box.source) {
      arrays.push_back(array(static_cast<std::size_t>(box.source), -1));
      arrays.back().stays_packed = stays_packed;
    }
    box.source = static_cast<int>(arrays.size()) - 1;
  }
  SlabArray whole_target = result(-1);
  whole_target.stays_packed = stays_packed;
  // One dimension that is cut, two (slabs of pieces), at last none.
  std::vector<std::pair<int, int>> cuts;
  const std::vector<int> fixed =
      is_linear ? std::vector<int>{} : fixed_dimensions(boxes, operands_, instruction_.shape);
  for (int cut : fixed) cuts.emplace_back(cut, -1);
  for (int outer : fixed) {
    for (int cut : fixed) {
      if (cut != outer) cuts.emplace_back(cut, outer);
    }
  }
  cuts.emplace_back(-1, -1);
  const std::vector<std::int64_t> extents = physical_extents(instruction_.shape);
  BestSlabs slabs;
  for (const auto& [cut, outer] : cuts) {
    const auto cut_along = [cut = cut, outer = outer](SlabArray array) {
      array.dimension = cut;
      array.outer_dimension = outer;
      return array;
    };
    std::vector<SlabArray> sources;
    for (const SlabArray& each : arrays) sources.push_back(cut_along(each));
    std::vector<int> dimensions;
    for (const int each : {cut, outer}) {
      if (each >= 0) dimensions.push_back(each);
    }
    const SlabBody body = body_of(of_arrays, dimensions, is_linear, fill->fills, fill->word);
    const auto extent = [&](int dimension) {
      return dimension < 0 ? 1 : extents[static_cast<std::size_t>(dimension)];
    };
    slabs.offer(plan_slabs(instruction_.name, sources, cut_along(whole_target), extent(cut), body,
                           target_, extent(outer)));
  }
  for (int along = 0; along < static_cast<int>(extents.size()); ++along) {
    if (contains(fixed, along)) continue;
    const BoxesBody body = [is_linear, fill = *fill](std::vector<Box> of_slab) {
      return body_of(std::move(of_slab), {}, is_linear, fill.fills, fill.word);
    };
    slabs.offer(plan_moved({of_arrays, arrays, whole_target, along, body}));
  }
  if (slabs.best()) return *slabs.best();
  return refuse_size();
}

/// With the largest slabs that fit, of eight or more.
std::optional<SlabPlan> Relayout::plan_moved(const MovedSlabs& moved) const {
  constexpr std::int64_t kSlabs = 8;
  for (std::int64_t tiles = ceil_divide(tiles_along(moved), kSlabs); tiles > 0; tiles /= 2) {
    const std::vector<SlabStretch> stretches = stretches_of(moved, tiles);
    if (stretches.size() > kMostStretches) return std::nullopt;
    if (auto plan = plan_stretches(instruction_.name, stretches, target_)) return plan;
  }
  return std::nullopt;
}

/// A transpose, or a copy to another order of dimensions.
OrRefusal<KernelPlan> Relayout::plan_permutation() const {
  if (operand(0).rank() < 2) return refuse("expected two or more dimensions");
  const std::vector<std::size_t> permutation = permutation_of(computation_, instruction_).value();
  const std::vector<std::int64_t> extents = physical_extents(instruction_.shape);
  BestSlabs best;
  for (std::size_t cut = 0; cut < extents.size(); ++cut) {
    if (extents[cut] == 1 && cut + 1 < extents.size()) continue;
    const SlabBody body = [permutation](ElementMover& mover, const std::vector<TileArray>& sources,
                                        const TileArray& target) {
      mover.transpose(sources.front(), target, permutation);
    };
    SlabArray source = array(0, static_cast<int>(permutation[cut]));
    SlabArray target = result(static_cast<int>(cut));
    keep_packed(permutation, source, target);
    best.offer(plan_slabs(instruction_.name, {source}, target, extents[cut], body, target_));
  }
  if (!best.best() || best.best()->exposed > kMostExposed) {
    offer_pieces(permutation, best);
  }
  if (best.best()) return best.best()->kernel;
  return refuse_size();
}

/// The same where slabs of one dimension are too large: slabs of pieces.
void Relayout::offer_pieces(const std::vector<std::size_t>& permutation, BestSlabs& best) const {
  const std::vector<std::int64_t> extents = physical_extents(instruction_.shape);
  const SlabBody body = [permutation](ElementMover& mover, const std::vector<TileArray>& sources,
                                      const TileArray& target) {
    mover.transpose(sources.front(), target, permutation);
  };
  // Pieces along the minor dimensions would be thin.
  for (std::size_t outer = 0; outer < extents.size(); ++outer) {
    for (std::size_t cut = 0; cut < extents.size(); ++cut) {
      if (cut == outer || extents[cut] == 1 || extents[outer] == 1) continue;
      SlabArray source = array(0, static_cast<int>(permutation[cut]));
      source.outer_dimension = static_cast<int>(permutation[outer]);
      SlabArray target = result(static_cast<int>(cut));
      target.outer_dimension = static_cast<int>(outer);
      keep_packed(permutation, source, target);
      best.offer(plan_slabs(instruction_.name, {source}, target, extents[cut], body, target_,
                            extents[outer]));
    }
  }
}

OrRefusal<KernelPlan> Relayout::plan_reshape() const {
  if (!lie_in_same_order(operand(0), instruction_.shape)) {
    return refuse("expected elements in the same order on both sides; insert a copy");
  }
  const SlabBody body = [](ElementMover& mover, const std::vector<TileArray>& sources,
                           const TileArray& target) { mover.reshape(sources.front(), target); };
  const ScratchRows scratch = [](const std::vector<TileArray>& sources, const TileArray& target) {
    return ElementMover::reshape_scratch(sources.front(), target);
  };
  SlabArray source = cut_outermost(rows_of_items(as_it_lies(array(0, 0))));
  SlabArray target = cut_outermost(rows_of_items(as_it_lies(result(0))));
  const std::int64_t elements = instruction_.shape.element_count();
  const auto plan_of_lanes = [&](std::int64_t lanes) {
    return plan_slabs(instruction_.name, {source}, target, elements, body, target_, lanes, scratch);
  };
  std::optional<SlabPlan> slabs;
  const bool has_vector = source.shape.rank() < 2 || target.shape.rank() < 2;
  if (!has_vector) {
    const std::int64_t lanes = source.shape.dimensions.back();
    if (lanes == target.shape.dimensions.back() && lanes > 128) {
      // Columns of 128 lanes, whose rows go in one piece.
      source.outer_dimension = static_cast<int>(source.shape.rank()) - 1;
      target.outer_dimension = static_cast<int>(target.shape.rank()) - 1;
      slabs = plan_of_lanes(lanes);
      source.outer_dimension = target.outer_dimension = -1;
    }
    if (!slabs) slabs = plan_of_lanes(1);
  }
  if (!slabs) {
    slabs = plan_slabs(instruction_.name, {as_it_lies(array(0, -1))}, as_it_lies(result(-1)), 1,
                       body, target_, 1, scratch);
  }
  if (!slabs && has_vector) slabs = plan_of_lanes(1);
  if (!slabs && has_vector) slabs = plan_line(source, target);
  if (slabs) return slabs->kernel;
  const auto long_rows = plan_long_rows(instruction_.name, source.shape, target.shape, target_);
  if (!long_rows) return refuse_size();
  return *long_rows;
}

/// Rows of lanes that begin anywhere in the tiles of a vector.
std::optional<SlabPlan> Relayout::plan_line(SlabArray source, SlabArray target) const {
  for (SlabArray* each : {&source, &target}) each->is_line = each->shape.rank() < 2;
  const SlabArray& rows = source.is_line ? target : source;
  if (source.is_line == target.is_line || rows.shape.dimensions.back() % isa::kLanes == 0) {
    return std::nullopt;
  }
  const SlabBody body = [](ElementMover& mover, const std::vector<TileArray>& sources,
                           const TileArray& result) {
    mover.reshape_line(sources.front(), result);
  };
  return plan_slabs(instruction_.name, {source}, target, instruction_.shape.element_count(), body,
                    target_);
}

OrRefusal<KernelPlan> Relayout::plan_tiles_or_boxes(const std::vector<Box>& boxes) const {
  const std::optional<std::vector<TileMove>> moves = tile_moves(boxes);
  if (moves) return plan_tiles(*moves);
  OrRefusal<SlabPlan> slabs = slabs_of_boxes(boxes);
  if (!slabs) return slabs.refusal();
  return slabs->kernel;
}

SlabBody weaving(const TileParts& parts) {
  return [parts](ElementMover& mover, const std::vector<TileArray>& sources,
                 const TileArray& target) { mover.weave(sources.front(), target, parts); };
}

/// Rows of a tile and a vector that has their elements in turns, in slabs of those.
OrRefusal<KernelPlan> Relayout::plan_woven_vector(const TileParts& parts) const {
  const SlabBody body = weaving(parts);
  for (const int cut : {0, -1}) {
    SlabArray rows{parts.joins ? 0 : 1, parts.joins ? parts.from : parts.to, cut < 0 ? cut : 1};
    SlabArray vector{parts.joins ? 1 : 0, parts.joins ? parts.to : parts.from, cut};
    rows.of_index = parts.count;
    vector.of_index = isa::kLanes;
    const std::int64_t extent = cut < 0 ? 1 : parts.count * parts.extent;
    const auto slabs = plan_slabs(instruction_.name, {parts.joins ? rows : vector},
                                  parts.joins ? vector : rows, extent, body, target_);
    if (slabs) return slabs->kernel;
  }
  return refuse_size();
}

/// Slabs of some lanes, or of another dimension, in pieces of a third one or none.
OrRefusal<KernelPlan> Relayout::plan_woven(const TileParts& parts) const {
  const std::vector<std::int64_t>& extents =
      (parts.joins ? parts.to : parts.from).dimensions;  // Of the whole.
  const int rank = static_cast<int>(extents.size()), lanes = rank - 1;
  const int split = parts.of_rows ? lanes - 1 : lanes;
  const SlabBody body = weaving(parts);
  const auto extent = [&](int d) { return d < 0 ? 1 : extents[static_cast<std::size_t>(d)]; };
  BestSlabs best;
  for (int outer = -1; outer < lanes; ++outer) {
    for (int cut = outer < 0 ? -1 : 0; cut < rank; ++cut) {
      const bool is_new = outer < 0 || (cut != outer && extent(outer) > 1);
      if (!is_new || outer == split || (cut >= 0 && cut < split && extent(cut) == 1)) continue;
      SlabArray source{0, parts.from, cut, outer}, target{1, parts.to, cut, outer};
      if (cut == split) (parts.joins ? source : target).of_index = parts.count;
      best.offer(plan_slabs(instruction_.name, {source}, target, extent(cut), body, target_,
                            extent(outer)));
    }
  }
  if (best.best()) return best.best()->kernel;
  return refuse_size();
}

OrRefusal<KernelPlan> Relayout::plan_parts(const TileParts& parts) const {
  if (parts.woven) {
    const bool is_vector = parts.from.rank() == 1 || parts.to.rank() == 1;
    return is_vector ? plan_woven_vector(parts) : plan_woven(parts);
  }
  Relayout viewed = *this;
  viewed.operands_[0] = parts.from;
  viewed.instruction_.shape = parts.to;
  return viewed.plan_tiles_or_boxes(boxes_of(parts));
}

OrRefusal<KernelPlan> Relayout::plan() const {
  const hlo::ElementType type = instruction_.shape.type;
  for (std::size_t i = 0; i < instruction_.operands.size(); ++i) {
    const bool is_array = operand(i).rank() > 0 || instruction_.operands.size() == 1;
    if (is_array && operand(i).type != type) return refuse("expected one type");
  }
  if (hlo::byte_size(type) != 4 && type != hlo::ElementType::kBf16) {
    return refuse("expected f32, s32, u32 or bf16");
  }
  if (const std::optional<std::vector<Box>> boxes = boxes_of(computation_, instruction_)) {
    return plan_tiles_or_boxes(*boxes);
  }
  if (moves_dimensions(computation_, instruction_)) return plan_permutation();
  if (instruction_.opcode == HloOpcode::kReshape) {
    const std::optional<TileParts> parts = tile_parts(operand(0), instruction_.shape);
    return parts ? plan_parts(*parts) : plan_reshape();
  }
  return refuse("expected operands and result in the same order of dimensions");
}

OrRefusal<KernelPlan> Relayout::plan_moves() const {
  const std::optional<std::vector<Box>> boxes = boxes_of_moves(computation_);
  if (!boxes) return refuse("expected boxes");
  return plan_tiles_or_boxes(*boxes);
}

/// The bytes that pass, with what the work waits for, or the registers that are shifted.
std::optional<double> Relayout::moves_cycles() const {
  const hlo::ElementType type = instruction_.shape.type;
  if (instruction_.shape.rank() == 0 ||
      (hlo::byte_size(type) != 4 && type != hlo::ElementType::kBf16)) {
    return std::nullopt;
  }
  const std::optional<std::vector<Box>> boxes = boxes_of_moves(computation_);
  if (!boxes || boxes->empty()) return std::nullopt;
  const OrRefusal<Fill> fill = this->fill(hlo::ElementType::kF32);
  if (!fill) return std::nullopt;
  const auto rate = target_.hbm_bytes_per_cycle * kMixedTrafficRate;
  auto bytes = static_cast<double>(instruction_.shape.padded_bytes());
  if (const auto moves = tile_moves(*boxes)) {
    if (this->fill(hlo::ElementType::kF32)->fills) bytes *= 2;
    for (const TileMove& move : *moves) {
      double granules = static_cast<double>(move.runs.run);
      for (std::int64_t count : move.runs.counts) granules *= static_cast<double>(count);
      bytes += 1024 * granules;
    }
    return kKernelCycles + bytes / rate;
  }
  OrRefusal<SlabPlan> slabs = slabs_of_boxes(*boxes);
  if (!slabs) return std::nullopt;
  for (const hlo::Shape& operand : operands_) bytes += static_cast<double>(operand.padded_bytes());
  double work = 0;
  for (const Box& box : *boxes) {
    std::vector<std::int64_t> extents;
    for (const Box::Dimension& d : box.dimensions) extents.push_back(d.extent);
    const Box::Dimension& lanes = box.dimensions.back();
    if (extents.size() == 1) {
      const double each = (lanes.from - lanes.to) % isa::kLanes != 0 ? 10 : 4;
      work += each * static_cast<double>(ceil_divide(lanes.extent, std::int64_t{1024}));
      continue;
    }
    const Box::Dimension& rows = box.dimensions[box.dimensions.size() - 2];
    const double each = lanes.step < 0 || (lanes.from - lanes.to) % 128 != 0 ? 10
                        : rows.step < 0 || (rows.from - rows.to) % 8 != 0    ? 4
                                                                             : 2;
    work += each * static_cast<double>(TileArray{{}, {}, extents}.tiles());
  }
  const double memory = bytes / rate;
  return kKernelCycles + std::max(memory, work) + slabs->exposed * std::min(memory, work);
}

/// What moves in a computation of its own: operands are its parameters.
hlo::HloInstruction call_of(const hlo::Computation& moves, const std::string& name) {
  hlo::HloInstruction call;
  call.opcode = HloOpcode::kFusion;
  call.name = name;
  call.shape = moves.at(moves.root).shape;
  call.operands = moves.parameters();
  return call;
}

OrRefusal<KernelPlan> plan_relayout(const hlo::Computation& computation,
                                    const hlo::HloInstruction& instruction, const Target& target) {
  return Relayout(computation, in_order_of_operand(computation, instruction), target).plan();
}

}  // namespace

LoweredKernel lower_relayout(const hlo::Module& module, const hlo::Computation& computation,
                             const hlo::HloInstruction& instruction, const Target& target) {
  if (instruction.opcode == HloOpcode::kFusion) {
    const hlo::Computation& moves = module.computation(instruction.called[0]);
    return Relayout(moves, call_of(moves, instruction.name), target).plan_moves().value()();
  }
  return plan_relayout(computation, instruction, target).value()();
}

namespace {

/// A slice of elements that stand some apart is no box.
bool has_steps(const hlo::HloInstruction& instruction) {
  if (instruction.opcode != HloOpcode::kSlice) return false;
  const std::vector<std::int64_t>& steps = instruction.slice->strides;
  return std::any_of(steps.begin(), steps.end(), [](std::int64_t step) { return step != 1; });
}

}  // namespace

bool joins_moves(const hlo::Module& module, const hlo::HloInstruction& instruction) {
  if (instruction.opcode != HloOpcode::kFusion) return false;
  const hlo::Computation& moves = module.computation(instruction.called[0]);
  return moves.at(moves.root).opcode != HloOpcode::kParameter &&
         std::all_of(moves.instructions.begin(), moves.instructions.end(), [](const auto& each) {
           return each.opcode == HloOpcode::kParameter || each.opcode == HloOpcode::kConstant ||
                  (is_box_move(each.opcode) && !has_steps(each));
         });
}

std::optional<double> moves_cycles(const hlo::Computation& moves, const Target& target) {
  return Relayout(moves, call_of(moves, "moves"), target).moves_cycles();
}

double reshape_cycles(const hlo::Shape& from, const hlo::Shape& to, const Target& target) {
  const SlabArray source = rows_of_items(as_it_lies({0, from})),
                  result = rows_of_items(as_it_lies({1, to}));
  TileArray before{{}, {}, tiled_extents(source.shape)},
      behind{{}, {}, tiled_extents(result.shape)};
  if (before.extents == behind.extents) return 0;
  // Of the smallest slab that begins with a tile on both sides.
  std::int64_t slab = 1;
  const auto tile = [](const TileArray& array) { return array.rank() == 2 ? 8 : 1; };
  for (const auto& [array, of] : {std::pair(&before, &source), std::pair(&behind, &result)}) {
    slab = std::lcm(slab, tile(*array) * elements_of_index(*of));
  }
  const std::int64_t elements = from.element_count();
  const std::int64_t slabs = std::max<std::int64_t>(1, elements / slab);
  if (slabs > 1) {
    before.extents.front() = slab / elements_of_index(source);
    behind.extents.front() = slab / elements_of_index(result);
  }
  const double bytes = static_cast<double>(from.padded_bytes() + to.padded_bytes());
  return kKernelCycles +
         std::max(bytes / target.hbm_bytes_per_cycle,
                  static_cast<double>(slabs) * ElementMover::reshape_cycles(before, behind));
}

/// A packed tile becomes one of 32-bit elements, and back, but for blocks of whole tiles.
constexpr double kUnpackedCycles = 2.5, kPackedCycles = 3;

/// Each part's tiles go through the unit that turns lanes, twice where tiles of the whole part
/// them.
double parts_cycles(const TileParts& parts, const Target& target) {
  const double turn = parts.extent % 128 == 0 ? 0 : 128 % parts.extent == 0 ? 5 : 9;
  const auto tiles = [](const hlo::Shape& shape) {
    return static_cast<double>(TileArray{{}, {}, tiled_extents(shape)}.tiles());
  };
  const double bytes = static_cast<double>(parts.from.padded_bytes() + parts.to.padded_bytes());
  if (parts.woven) {
    double woven = ElementMover::weave_cycles(parts, target);
    if (parts.from.type == hlo::ElementType::kBf16) {
      woven += kUnpackedCycles * tiles(parts.from) + kPackedCycles * tiles(parts.to);
    }
    return kKernelCycles +
           std::max(bytes / (target.hbm_bytes_per_cycle * kMixedTrafficRate), woven);
  }
  const double turns = turn * tiles(parts.joins ? parts.from : parts.to);
  return kKernelCycles + std::max(bytes / target.hbm_bytes_per_cycle, turns);
}

double move_cycles(const hlo::Shape& from, const hlo::Shape& to, const Target& target) {
  if (const auto parts = tile_parts(from, to)) return parts_cycles(*parts, target);
  if (from.dimensions != to.dimensions) {
    return lie_in_same_order(from, to) ? reshape_cycles(from, to, target) : HUGE_VAL;
  }
  const std::vector<std::int64_t> before = major_to_minor(from), behind = major_to_minor(to);
  if (before == behind) return 0;
  std::vector<std::size_t> permutation;
  permutation.reserve(behind.size());
  for (std::int64_t d : behind) {
    permutation.push_back(
        static_cast<std::size_t>(std::find(before.begin(), before.end(), d) - before.begin()));
  }
  SlabArray before_it{0, from}, behind_it{1, to};
  keep_packed(permutation, before_it, behind_it);
  const bool is_packed = from.type == hlo::ElementType::kBf16;
  const double bytes = static_cast<double>(from.padded_bytes() + to.padded_bytes());
  const TileArray source{{}, {}, physical_extents(from)}, result{{}, {}, physical_extents(to)};
  double cycles = ElementMover::transpose_cycles(source, result, permutation);
  if (is_packed && !before_it.stays_packed) {
    cycles += kUnpackedCycles * static_cast<double>(source.tiles());
  }
  if (is_packed && !behind_it.stays_packed) {
    cycles += kPackedCycles * static_cast<double>(result.tiles());
  }
  return kKernelCycles + std::max(bytes / (target.hbm_bytes_per_cycle * kMixedTrafficRate), cycles);
}

bool has_relayout_kernel(const hlo::Module&, const hlo::Computation& computation,
                         const hlo::HloInstruction& instruction, const Target& target) {
  return static_cast<bool>(plan_relayout(computation, instruction, target));
}

}  // namespace tpu::compiler
