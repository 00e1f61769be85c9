#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "workloads/compiler/codegen/kernel_builder.h"
#include "workloads/compiler/kernels/elementwise/elementwise_memory.h"
#include "workloads/compiler/kernels/elementwise/elementwise_plan.h"
#include "workloads/compiler/kernels/elementwise/expression.h"
#include "workloads/compiler/kernels/elementwise/expression_graph.h"
#include "workloads/compiler/kernels/tiles/block_pipeline.h"
#include "workloads/compiler/kernels/tiles/box_dma.h"

namespace tpu::compiler {

/// Emits the kernel of an ExpressionGraph by its ElementwisePlan: elementwise results, reductions,
/// or both.
///
/// While the blocks stream, the DMAs of the next block, work on this one and write-back of the one
/// before overlap. Over a block go passes: first values that vary along rows are spread over the
/// lanes, then each pass computes the reductions along lanes that the next one needs; the last one
/// writes results and adds to the accumulators of reductions along other axes. These are combined
/// and written when all blocks (of a part, where it is sliced) are done.
///
/// Elements that stand elsewhere are loaded from two tiles or more, eight rows of them with a mask
/// and a distance between sublanes, and turned in their lanes: the XLU takes a register every eight
/// cycles and gives it 92 later (v3), so those of a group are asked for before the first is needed.
///
/// Where the arrays stand in VMEM already, whole, there is one block and nothing is moved.
class ElementwiseKernel {
 public:
  /// `operand_count`: operands of the instruction; its results' addresses follow theirs.
  ElementwiseKernel(KernelBuilder& builder, const ExpressionGraph& graph, std::size_t operand_count,
                    const PlanLimits& limits = {});
  /// One of several, each of which makes a range of the results.
  ElementwiseKernel(KernelBuilder& builder, const ExpressionGraph& graph, std::size_t operand_count,
                    ElementwisePlan plan, bool is_resident = false);

  const ElementwisePlan& plan() const { return plan_; }
  /// The pass that a block of the code belongs to; none: no pass of this kernel.
  std::optional<PassKind> pass_of(std::uint32_t block) const;
  /// Writes the code. `regions` (limits.whole_arrays): of the plan's inputs, then of its outputs,
  /// each as large as `rows_of_array()` says.
  void emit(const std::vector<VmemRegion>& regions = {});
  /// This input, a scalar, will stand in all lanes of its row.
  void set_everywhere(std::size_t input) { plan_.inputs[input].everywhere = true; }

 private:
  using Input = ElementwisePlan::Input;
  using Reduction = ElementwisePlan::Reduction;
  using Output = ElementwisePlan::Output;
  using OutputKind = ElementwisePlan::OutputKind;

  void allocate(const std::vector<VmemRegion>& regions);
  /// Whether another kernel begins or ends the sum.
  bool goes_on(const Reduction& reduction) const {
    return !(plan_.begins && plan_.ends) && !reduction.along_lanes && !reduction.sliced;
  }
  void allocate_sums_that_go_on();
  void allocate_input(Input& input);
  void allocate_output(Output& output);
  void allocate_flags();
  void load_residents();
  void emit_parts();
  void start_part_loads(Index part, Index buffer);
  StridedBox box_of(const ArrayPart& part, const hlo::Shape& shape) const;
  BoxDma& stream_dma(bool loads, const ArrayPart& part, const hlo::Shape& shape);
  void make_dmas();
  /// Whether it loads, blocks of a range, the distance of ranges and the granules of a block.
  using WalkKey = std::tuple<bool, std::int64_t, std::int64_t, std::int64_t>;
  WalkKey walk_key(bool loads, const ArrayPart& part, const hlo::Shape& shape) const;
  void begin_walks();
  void advance_walks(bool loads);
  Index block_offset(bool loads, const ArrayPart& part, const hlo::Shape& shape, Index block);
  Index part_offset(bool sliced, std::int64_t granules, std::int64_t shared_by = 1);
  void spread_columns_once();
  void spread_kept_column(const Input& input, const std::vector<int>& axes, Place& place,
                          std::size_t next);
  void clear_accumulators(bool sliced);

  // Blocks.
  void emit_blocks();
  void start_loads(Index block, Index parity);
  void start_stores(Index block, Index parity);
  std::int64_t row_tiles_of(Index block) const;
  std::int64_t block_granules(const ArrayPart& part, const hlo::Shape& shape, Index block) const;
  std::int64_t input_granules(const Input& input, Index block) const;
  ScalarOperand loaded_granules(Index block);
  std::int64_t stored_granules(Index block) const;
  Index buffer_rows(const hlo::Shape& shape, Index parity);

  // Arrays that are read around a block (elementwise_halos.cpp).
  using Neighborhood = ElementwisePlan::Neighborhood;
  /// Units from `begin` to `end`.
  struct Units {
    Index begin, end;
  };
  /// VMEM rows of a buffer.
  std::int64_t buffer_rows_of(const Neighborhood& around) const {
    return (plan_.units_of_block() * around.step + around.halo()) * around.unit_rows();
  }
  Index least(Index a, Index b);
  Units units_around(const Neighborhood& around, Index block);
  ScalarOperand granules_around(const Neighborhood& around, Index block);
  void start_loads_around(const Neighborhood& around, Index block, Index parity);
  void load_units(const Neighborhood& around, const Units& units, std::int64_t moved, Index to,
                  Index parity);
  BoxDma& around_dma(const Neighborhood& around);
  void move_rows(VmemRegion region, Index from, Index to, std::int64_t registers,
                 std::uint8_t sublanes);
  void keep_halos(Index block, Index parity);
  ScalarOperand operand_address(int operand);
  ScalarOperand part_address(int operand, std::int64_t begin, Index part, std::uint64_t granules);
  Index part_begin(const Input& input, Index buffer);

  // Passes over a block.
  void compute_block(Index parity, std::int64_t row_tiles);
  void emit_passes(int first_level, int last_level, Index parity, std::int64_t row_tiles);
  void emit_groups(int first_level, int last_level, Index first, std::int64_t row_tiles);
  void begin_level(int level);
  std::vector<Place> places_of(Index group, std::int64_t count);
  void emit_group(int level, const std::vector<Place>& rows);
  void emit_tile_by_tile(int level, const std::vector<Place>& rows);
  void spread_columns(const std::vector<Place>& rows);
  std::int64_t sums_at(int level) const;  ///< Reductions along lanes of the pass.
  void clear_sums(int level, const std::vector<Place>& rows, bool is_looped);
  void loop_over_lane_tiles(int level, const std::vector<Place>& rows);
  /// Rows whose turned values are under way before the sums of the one at hand.
  static constexpr std::size_t kRowsTurnedAhead = 4;
  std::vector<std::vector<int>> turned_values(int level) const;
  void turn_values(const std::vector<int>& nodes, const Place& row);
  Place at_lane_tile(Place place, Index lane_tile, int lane_key) const;
  void emit_tile(int level, const std::vector<Place>& rows, Index lane_tile, int lane_key);
  void finish_sums(int level, const std::vector<Place>& rows);
  void finish_columns(int level, std::int64_t row_tiles);
  void finish_column(const Reduction& reduction, Place& place);
  void give_column_values();
  void keep_column_value(const ElementwisePlan::ColumnValue& value, Place& place);
  VmemAddress column_address(VmemRegion region, const Place& place);

  // Results along the rows (elementwise_rows.cpp).
  void write_rows(int level, const std::vector<Place>& rows);
  void keep_row(const Output& output, const Place& place);
  VmemRegion slots_of(const Output& output) const;
  void write_lines(std::int64_t row_tiles);
  void write_line(Index first, Index tile, std::int64_t size, bool is_whole);
  void write_runs(const Output& output, std::vector<Place>& rows);
  void count_anew(std::vector<Place>& places);
  void write_row_values(int level, const Place& place);
  bool works_by_rows(int level) const;
  void write_element(const Output& output, const Place& place);
  /// Row tiles of a group that share an accumulator, added up.
  struct Merged {
    const Place* place = nullptr;
    VReg value;
  };
  void store_streams(const Place& place);
  void store_in_rows(const Output& output, const Place& place);
  bool is_accumulated_at(const Reduction& reduction, int level) const;
  void add_to_accumulator(const Reduction& reduction, const Place& place, VectorOperand value);
  bool share_accumulator(const Reduction& reduction, const Place& a, const Place& b);
  void accumulate(const Reduction& reduction, const Place& place, std::deque<Merged>& merged);
  Place place_of(Index group, std::int64_t row, Index buffer32, Index buffer16);
  std::vector<Index> digits_at(std::int64_t row);
  void reset_digits();
  void advance(std::vector<SVariable>& digits, std::int64_t row_tiles);

  // Values (elementwise_values.cpp, elementwise_shifts.cpp).
  ExpressionValue source(int node, const Place& place);
  VReg column_value(const Input& input, const Place& place);
  VReg value_ahead(const Input& input, const Place& place);
  VmemAddress kept_column(const Input& input, const Place& place);
  VReg shifted_value(const Input& input, const Place& place);
  Index index_inside(const ArrayAccess& access, int axis, Index index, std::int64_t count);
  Index lane_tile_inside(const Input& input, Index tile);
  void forget_shifts();
  Index product(Index index, std::int64_t factor);
  Index shifted_tile(const Input& input, const Place& place, std::int64_t down, Index lane_tile);
  Index unit_in_block(const Place& place);
  void begin_neighborhoods(Index parity);
  VmemAddress shifted_address(const Input& input, Index rows) const;
  VReg shifted_rows(const Input& input, const Place& place, Index lane_tile, int turned);
  Index within(Index index, std::int64_t first, std::int64_t last);
  Index array_rows(const ArrayAccess& access, const Place& place, bool sliced, Index& row,
                   Index& lane, Index begin = {});
  VReg masked(const Reduction& reduction, const Place& place, VectorOperand value);
  Index accumulator(const Reduction& reduction, const Place& place);
  Index digit(const Place& place, int axis) const {
    return place.digits[static_cast<std::size_t>(axis)];
  }
  Index digit_in_part(const Place& place, int axis);

  // Results that stay in VMEM until the end (reduce_results.cpp).
  void write_results(bool sliced);
  void finish(const Output& output);
  VReg accumulated(const Reduction& reduction, Index accumulator);
  VReg total(const Reduction& reduction, VReg value);
  void finish_tiles(const Output& output, const Reduction& reduction);
  VReg finished_row(const Output& output, const Reduction& reduction, Index accumulator);
  void finish_lane_rows(const Output& output, const Reduction& reduction);
  void finish_column_sums(const Output& output, const Reduction& reduction);
  VReg lanes_of(const Reduction& reduction, VReg value);
  void store_numbers(const Output& output, const std::vector<VReg>& numbers, Index y_tile,
                     Index row, Index tile, std::int64_t x_tiles);
  VReg eight_totals(const Reduction& reduction, Index first);
  void finish_totals(const Output& output, const Reduction& reduction);
  void for_each(std::int64_t count, std::int64_t unroll, const std::function<void(Index)>& body);
  void for_eights(std::int64_t tiles, const std::function<void(Index, std::int64_t)>& body);
  /// 32-bit tiles of a result that stays in VMEM.
  VmemRegion tiles_of(const Output& output) const {
    return output.staging.rows > 0 ? output.staging : output.region;
  }

  const ExpressionGraph& graph_;
  ElementwisePlan plan_;
  const IterationSpace& space_;  ///< The plan's.
  int operand_count_;
  KernelBuilder& builder_;
  bool is_resident_ = false;  ///< The arrays stand in VMEM.
  std::unique_ptr<TileMemory> memory_;
  /// Registers of the present block of code that a lane tile beside needs, too: of an array, by how
  /// many rows and lanes they are turned and where their two tiles stand. Likewise indices.
  using RowsKey =
      std::tuple<int, int, int, std::uint32_t, std::int64_t, std::uint32_t, std::int64_t>;
  std::map<RowsKey, VReg> rows_;
  std::map<std::tuple<std::uint32_t, std::int64_t, std::int64_t, bool>, Index> inside_;
  std::map<std::pair<std::uint32_t, std::int64_t>, SReg> products_;
  std::uint32_t shifts_block_ = 0;
  SReg first_unit_;                  ///< Of the present block.
  std::vector<Index> around_begin_;  ///< VMEM rows before the buffers of the present block.
  ExpressionEmitter emitter_;

  const ElementwisePlan::Group* group_ = nullptr;  ///< Of the pass at hand.
  int level_ = -1;                                 ///< Of the pass at hand, or before it.
  /// From which block of the code on it is of which pass; none: of no pass.
  std::vector<std::pair<std::uint32_t, std::optional<PassKind>>> pass_begins_;
  std::vector<SVariable> block_digits_;  ///< Of the block's first row tile; from the row axis up.
  std::vector<SVariable> digits_;        ///< Of the group at hand.
  Index row_in_matrix_;                  ///< Its first row tile, where groups go by matrix.
  bool may_end_matrix_ = true;           ///< Whether the last row tile of a matrix may be in it.
  std::uint32_t address_words_ = 0;      ///< SMEM: addresses of operands and results.
  std::uint32_t load_flag_ = 0, store_flag_ = 0, part_flag_ = 0;  ///< Of the first buffer.
  std::uint32_t part_store_flag_ = 0;
  /// Whether it loads, the granules of a range, and how far the next one is, also in VMEM; 0: one
  /// range, there neighbours.
  using StreamDma = std::tuple<bool, std::uint32_t, std::uint32_t, std::uint32_t>;
  std::map<StreamDma, BoxDma> stream_dmas_;
  /// Where the next block of streams begins whose ranges have several, in granules, and how many
  /// blocks of its range are left.
  struct BlockWalk {
    SVariable offset, left;
  };
  std::map<WalkKey, BlockWalk> walks_;
  /// Sums along lanes of the rows at hand, reduction by reduction: what a loop over lane tiles adds
  /// to, or values of straight code.
  struct RowSum {
    VVariable looped;
    VReg value;
  };
  bool sums_are_looped_ = false;
  std::vector<RowSum> row_sums_;
  Index parity_;
  SReg part_, part_begin_;  ///< Number of the part and its first index of the cut axis.
  Index part_buffer_;       ///< That its sliced inputs are in.
};

/// VMEM rows of a whole array, with what loads of whole registers reach beyond it.
std::uint64_t rows_of_array(const hlo::Shape& shape);

}  // namespace tpu::compiler
