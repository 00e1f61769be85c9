#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "workloads/compiler/cost.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/array_part.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/graph/graph.h"

namespace tpu::compiler {

/// The computation that an instruction stands for: of a fusion the called one, of any other
/// instruction one with a parameter per operand (constant scalars stay constants).
hlo::Computation computation_of(const hlo::Module& module, const hlo::Computation& computation,
                                const hlo::HloInstruction& instruction);

/// The points that an elementwise kernel or a reduction visits: the extents of one array in
/// physical order, major to minor, and how vector registers cover them.
///
/// Tiled (rank >= 2): a vector register holds 8 rows of 128 lanes of the two minor extents.
/// Linear (rank 0 and 1): a vector register holds 1024 consecutive elements.
struct IterationSpace {
  std::vector<std::int64_t> extents;
  bool linear = false;

  int rank() const { return static_cast<int>(extents.size()); }
  std::int64_t extent(int axis) const { return extents[static_cast<std::size_t>(axis)]; }
  int lane_axis() const { return rank() - 1; }
  int row_axis() const { return rank() - 2; }  ///< Tiled spaces only.
  std::int64_t lanes() const { return linear ? 128 : extents.back(); }
  std::int64_t rows() const { return extents[extents.size() - 2]; }
  std::int64_t majors() const;      ///< Product of the extents above rows and lanes.
  std::int64_t row_tiles() const;   ///< Per major index; of a linear space all registers.
  std::int64_t lane_tiles() const;  ///< 1 in a linear space.
  std::int64_t tile_count() const { return majors() * row_tiles() * lane_tiles(); }
};

/// No axis: a dimension of extent 1 that stands for no axis of the space.
constexpr int kNoAxis = -1;

/// One value of a fused computation, seen from the iteration space.
struct ExpressionNode {
  hlo::HloOpcode opcode = hlo::HloOpcode::kCount;
  hlo::Shape shape;
  std::vector<int> operands;
  std::vector<int> axes;  ///< The axis of the space that each dimension of `shape` runs along.
  std::int64_t parameter = -1;  ///< kParameter.
  ArrayPart part;               ///< kParameter: what is read of the operand.
  /// kParameter that is no stream: granules before what is read. kIota along lanes: the first one.
  std::int64_t begin = 0;
  /// kParameter, or kSlice of any value in its one lane tile: by axis, how far from a point the
  /// element stands that is its value; where that is outside of the operand, nobody needs the
  /// value. Empty: it stands at the point.
  std::vector<std::int64_t> shift;
  /// kConcatenate of one value, turned in its lanes: what is in the lanes stands so far from them,
  /// in two lane tiles of so many.
  std::int64_t joined_lane_tiles = 0;
  /// kParameter with a shift: by axis, how far apart the elements of neighbouring points stand.
  std::vector<std::int64_t> step;
  /// kParameter with a shift: by axis, what is outside of the operand stands at its other end.
  std::vector<bool> wraps;
  /// kParameter: a row tile of an array of which kSlice of it, in a linear space, is the vector
  /// that stands in one of its rows. kConcatenate: vectors that become the rows of such a tile.
  bool in_rows = false;
  int row = -1;  ///< kSlice of what is in_rows.
  /// kParameter: a tile whose element at this row and lane is the value; -1: it is none.
  int element_row = -1, element_lane = -1;
  std::uint32_t bits = 0;  ///< kConstant: every element, as fp32, s32 or pred (0 or 1).
  int axis = kNoAxis;      ///< kIota.
  hlo::ComparisonDirection direction = hlo::ComparisonDirection::kEq;
  hlo::HloOpcode reducer = hlo::HloOpcode::kCount;  ///< kReduce: add, maximum, minimum.
  std::vector<int> reduced_axes;                    ///< kReduce.
  /// kReduce along the rows of a single tile: an operation on its register, which has the result in
  /// all rows.
  bool in_tile = false;
  std::string attributes;  ///< kReducePrecision: the numbers of bits.
  std::string name;
};

/// A fused computation as expressions over one iteration space: broadcasts, bitcasts and reshapes
/// by unit dimensions are resolved into the axes of each value; equal (value, axes) are one node.
/// Slices of parameters are parameters of which a part is read. A pad, a concatenation or a slice
/// of any values that moves lanes of a single tile is made of values turned in their lanes, and
/// selections by position; any other one is made of parameters that are read elsewhere, however
/// they are computed with. A result that is a concatenation of computed values in whole tiles has a
/// root for each of them. Vectors may stand in the rows of tiles: a load or store takes one of
/// eight lane tiles.
///
/// The space is that of the reductions' operands where there are any, else that of the results.
/// They lie in the same tiles: the space has the lanes of the widest, and so has the shape of each
/// value. Throws WorkloadError for what is no elementwise expression or reduction.
class ExpressionGraph {
 public:
  ExpressionGraph(const hlo::Module& module, const hlo::Computation& fused,
                  std::string kernel_name);

  const IterationSpace& space() const { return space_; }
  const hlo::Shape& space_shape() const { return space_shape_; }
  const std::vector<ExpressionNode>& nodes() const { return nodes_; }
  const ExpressionNode& node(int id) const { return nodes_[static_cast<std::size_t>(id)]; }
  const std::vector<int>& roots() const { return roots_; }
  const std::vector<hlo::Shape>& root_shapes() const { return root_shapes_; }
  const std::string& kernel_name() const { return kernel_name_; }
  /// True when the value has an element of its own at each point of the space.
  bool is_full(const ExpressionNode& node) const;
  /// The same with the two outermost axes longer than 1 as one; false, and unchanged, where an
  /// array has one of them alone, or not both one after the other above its tiles.
  bool join_outermost_axes();
  /// The same with another axis above the rows outermost; false, and unchanged, where an array
  /// covers the space, whose order is its own.
  bool move_outermost(int axis);
  /// The same with the lanes cut in tiles of 128, which are an axis of their own: above the rows,
  /// of which there is one tile, or outermost, where no array covers the space. Rows of lanes need
  /// not fit VMEM then, as what is made of each row does not need all of it. False, and unchanged,
  /// where an array lies otherwise.
  bool split_lanes();
  /// The same over `count` lanes from `first` on alone, both whole vector registers, or so many
  /// rows, both whole tiles: what is made of each lane, or row, by itself may be made for some of
  /// them after the others. False, and unchanged, where those along the axis are combined or moved,
  /// or where those of a smaller array or result are no range of memory.
  bool take_range(int axis, std::int64_t first, std::int64_t count);
  /// Where what is made of a root stands in its array.
  const ArrayPart& root_part(std::size_t root) const { return root_parts_[root]; }
  /// Which result its array is; several roots may be parts of one.
  std::size_t root_result(std::size_t root) const { return root_results_[root]; }
  std::size_t result_count() const { return root_results_.back() + 1; }
  /// The same with reductions along rows of which there is one tile as operations on its register,
  /// where operations of the kernel use them and no smaller result hangs on them.
  void combine_rows_in_tiles();
  /// Nodes below `id` (itself included), operands first; does not go beyond reductions but for
  /// those in a tile.
  std::vector<int> below(const std::vector<int>& ids) const;

 private:
  hlo::InstructionId computed_by(hlo::InstructionId result) const;
  void add_root(hlo::InstructionId value, std::size_t result, const ArrayPart& part);
  void choose_space();
  void widen_space();
  hlo::Shape widened(hlo::Shape shape, const std::vector<int>& axes) const;
  std::vector<int> root_axes(hlo::InstructionId root) const;
  std::vector<int> kept_axes(const hlo::HloInstruction& reduction) const;
  int visit(hlo::InstructionId id, const std::vector<int>& axes);
  int visit_parameter(hlo::InstructionId id, const hlo::Shape& shape, const std::vector<int>& axes,
                      const ArrayPart& part = {});
  int visit_slice(const hlo::HloInstruction& slice, const std::vector<int>& axes);
  int visit_pad(const hlo::HloInstruction& pad, const std::vector<int>& axes);
  int visit_part_in_tiles(const hlo::HloInstruction& reshape, const std::vector<int>& axes);
  int visit_row(const hlo::HloInstruction& reshape, const std::vector<int>& axes);
  int visit_element(const hlo::HloInstruction& slice);
  int visit_stack(const hlo::HloInstruction& stack);
  int visit_concatenate(const hlo::HloInstruction& concatenate, const std::vector<int>& axes);
  std::int64_t rolled_by(const hlo::HloInstruction& concatenate) const;
  bool is_read_elsewhere(hlo::InstructionId array) const;
  bool has_other_tiles(const hlo::Shape& shape, const std::vector<int>& axes) const;
  int visit_anew(hlo::InstructionId id, const std::vector<int>& axes);
  int visit_away(hlo::InstructionId id, const std::vector<std::int64_t>& starts,
                 const std::vector<std::int64_t>& steps, const std::vector<int>& axes,
                 const hlo::HloInstruction& by);
  int visit_rolled(const hlo::HloInstruction& concatenate, std::int64_t by,
                   const std::vector<int>& axes);
  bool turns_whole(const hlo::HloInstruction& instruction, const std::vector<int>& axes) const;
  std::pair<std::size_t, std::size_t> turned_below(const hlo::HloInstruction& instruction,
                                                   std::int64_t distance) const;
  int turned_whole(hlo::InstructionId id, const std::vector<int>& axes);
  int shifted_parameter(hlo::InstructionId id, const hlo::Shape& shape,
                        const std::vector<int>& axes);
  bool turns_lanes(const hlo::HloInstruction& instruction, const std::vector<int>& axes) const;
  bool turns_from_behind() const;
  int moved_in_lanes(hlo::InstructionId operand, std::int64_t start, const std::vector<int>& axes);
  int turned_in_lanes(int value, hlo::ElementType type, std::int64_t start);
  int without_others_lanes(int value, std::int64_t lanes, hlo::HloOpcode reducer);
  int add_position_test(int axis, hlo::ComparisonDirection direction, std::int64_t bound);
  int position_test(int axis, hlo::ComparisonDirection direction, std::int64_t bound);
  int position_away(int iota, const hlo::HloInstruction& instruction);
  int add_operation(hlo::HloOpcode opcode, hlo::ElementType type, std::vector<int> operands);
  int visit_constant(hlo::InstructionId id, const std::vector<int>& axes);
  int visit_reduce(hlo::InstructionId id, const std::vector<int>& axes, std::size_t position);
  int add(ExpressionNode node);
  int add_once(ExpressionNode node);
  int both(int a, int b);
  int selected(int condition, int if_true, int if_false);
  bool joins(const hlo::Shape& shape, const std::vector<int>& axes, int outer, int inner) const;
  bool stands_everywhere() const;
  bool has_parts_of_lanes(const hlo::Shape& shape, const std::vector<int>& axes) const;
  bool has_ranges(const hlo::Shape& shape, const std::vector<int>& axes, int axis,
                  std::int64_t unit) const;
  bool makes_ranges(int axis, std::int64_t unit) const;
  ArrayPart range_of_stream(hlo::ElementType type, int axis, std::int64_t first,
                            std::int64_t count) const;
  bool is_full_root(std::size_t root) const {
    return root_shapes_[root].dimensions == space_shape_.dimensions;
  }
  /// Axis of each dimension of a root's array.
  const std::vector<int>& axes_of_root(std::size_t root) const {
    return is_full_root(root) ? space_axes_ : node(roots_[root]).axes;
  }
  int position_in_parts(const ExpressionNode& iota, int part_axis);
  int without_padding(int value, std::int64_t lanes, int part_axis, hlo::HloOpcode reducer);
  void renumber(const std::vector<int>& numbers);
  std::vector<int> operand_axes_of_reshape(const hlo::HloInstruction& reshape,
                                           const std::vector<int>& axes) const;
  [[noreturn]] void refuse(const hlo::HloInstruction& instruction, const std::string& why) const;

  const hlo::Module& module_;
  const hlo::Computation& fused_;
  std::string kernel_name_;
  IterationSpace space_;
  hlo::Shape space_shape_;
  std::vector<int> space_axes_;  ///< Axis of each logical dimension of space_shape_.
  std::vector<ExpressionNode> nodes_;
  std::vector<int> roots_;
  std::vector<hlo::Shape> root_shapes_;
  std::vector<ArrayPart> root_parts_;
  std::vector<std::size_t> root_results_;
  /// Where the elements stand that are visited: by axis, how far apart those of neighbouring points
  /// do, and how far away that of point 0; and along which axes those outside of an array stand at
  /// its other end.
  struct Distance {
    std::vector<std::int64_t> by, step;
    std::vector<bool> wraps;

    /// For distances of so many axes.
    void resize(int rank) {
      by.resize(static_cast<std::size_t>(rank));
      step.resize(by.size(), 1);
      wraps.resize(by.size());
    }
    std::int64_t step_along(int axis) const {
      return step.empty() ? 1 : step[static_cast<std::size_t>(axis)];
    }

    bool is_none() const { return by.empty(); }
    bool wraps_along(int axis) const {
      return !wraps.empty() && wraps[static_cast<std::size_t>(axis)];
    }
    Distance along(const std::vector<int>& kept) const;
  };
  using Visit = std::tuple<hlo::InstructionId, std::vector<int>, std::vector<std::int64_t>,
                           std::vector<std::int64_t>, std::vector<bool>, bool>;
  Distance away_;
  bool is_joined_ = false;  ///< What is visited is needed in the lane tiles beside a point's, too.
  /// Some register is turned so that what stands behind a point comes to it.
  bool turns_from_behind_ = false;
  std::map<Visit, int> known_;
};

/// Whether the value is known behind a pass over more than a register.
inline bool is_reduction(const ExpressionNode& node) {
  return node.opcode == hlo::HloOpcode::kReduce && !node.in_tile;
}

/// Whether the value's lanes stand in two lane tiles of another one.
inline bool joins_lane_tiles(const ExpressionNode& node) { return node.joined_lane_tiles > 0; }

/// Whether the array is bf16, two rows in one of VMEM.
inline bool is_packed(const hlo::Shape& shape) { return shape.type == hlo::ElementType::kBf16; }

/// What a value takes of the vector unit, about.
VectorCost vector_cost_of(const ExpressionNode& node);

}  // namespace tpu::compiler
