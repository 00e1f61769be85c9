#include "workloads/compiler/kernels/elementwise/elementwise_kernel.h"

#include <algorithm>
#include <set>

#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"
#include "workloads/compiler/ir/array_layout.h"

namespace tpu::compiler {

namespace {

using hlo::ElementType;
using isa::Opcode;
using Kind = ArrayAccess::Kind;
using Step = ArrayAccess::Step;

}  // namespace

std::uint64_t rows_of_array(const hlo::Shape& shape) {
  constexpr std::uint64_t kRegisterRows = 8;
  return round_up(2 * granules(shape), kRegisterRows) + kRegisterRows;
}

ElementwiseKernel::ElementwiseKernel(KernelBuilder& builder, const ExpressionGraph& graph,
                                     std::size_t operand_count, const PlanLimits& limits)
    : ElementwiseKernel(
          builder, graph, operand_count,
          find_elementwise_plan(graph, operand_count, builder.target(), limits).value(),
          limits.whole_arrays) {}

ElementwiseKernel::ElementwiseKernel(KernelBuilder& builder, const ExpressionGraph& graph,
                                     std::size_t operand_count, ElementwisePlan plan,
                                     bool is_resident)
    : graph_(graph),
      plan_(std::move(plan)),
      space_(plan_.space),
      operand_count_(static_cast<int>(operand_count)),
      builder_(builder),
      is_resident_(is_resident),
      emitter_(builder_, graph,
               [this](int node, const Place& place) { return source(node, place); }) {}

void ElementwiseKernel::emit(const std::vector<VmemRegion>& regions) {
  allocate(regions);
  load_residents();
  spread_columns_once();
  if (plan_.begins) clear_accumulators(false);
  if (!plan_.is_cut()) {
    emit_blocks();
  } else {
    emit_parts();
  }
  if (plan_.ends) write_results(false);
}

/// Results of a part leave while the next one is worked on.
void ElementwiseKernel::emit_parts() {
  const auto is_sliced = [](const Output& output) {
    return output.sliced && output.kind != OutputKind::kStream;
  };
  std::uint64_t stored = 0;
  bool writes_early = false;  // Before all blocks are through.
  for (const Output& output : plan_.outputs) {
    if (!is_sliced(output)) continue;
    stored += granules(output.shape);
    writes_early |= output.kind == OutputKind::kRows;
  }
  BlockPipeline::Transfer load;
  load.flag = part_flag_;
  std::uint64_t loaded = 0;
  for (const Input& input : plan_.inputs) {
    if (input.stays() && input.sliced) loaded += granules(input.access.shape);
  }
  load.granules = [loaded](Index) { return ScalarOperand(static_cast<std::int64_t>(loaded)); };
  if (loaded > 0) load.start = [this](Index part, Index buffer) { start_part_loads(part, buffer); };
  const auto wait_for_results = [&] {
    if (stored == 0) return;
    builder_.guarded(builder_.less(0, part_), [&] { builder_.wait(part_store_flag_, stored); });
  };
  BlockPipeline pipeline(builder_, {plan_.parts, false, plan_.part_buffers}, load, {});
  pipeline.run([&](Index part, Index buffer) {
    emitter_.forget();
    part_ = builder_.add(to_operand(builder_, part), 0);
    part_buffer_ = buffer;
    part_begin_ = builder_.add(builder_.mul(part_, static_cast<std::uint32_t>(plan_.part_extent())),
                               plan_.first);
    if (writes_early) wait_for_results();
    clear_accumulators(true);
    emit_blocks();
    builder_.new_block();
    if (!writes_early) wait_for_results();
    write_results(true);
    emitter_.forget();
  });
  part_ = {};
  part_buffer_ = {};
  if (stored > 0) builder_.wait(part_store_flag_, stored);
}

/// Where the present part begins in an array whose slices, each of so many parts, have so many
/// granules.
Index ElementwiseKernel::part_offset(bool sliced, std::int64_t granules, std::int64_t shared_by) {
  if (!sliced) return {};
  return multiply(builder_, divide(builder_, {part_, 0}, shared_by), granules);
}

/// VMEM rows before the buffer of a part.
Index ElementwiseKernel::part_begin(const Input& input, Index buffer) {
  return input.sliced ? multiply(builder_, buffer, input.access.rows()) : Index{};
}

void ElementwiseKernel::allocate(const std::vector<VmemRegion>& regions) {
  if (is_resident_) {
    TPU_CHECK(regions.size() == plan_.inputs.size() + plan_.outputs.size(), graph_.kernel_name());
    auto region = regions.begin();
    for (Input& input : plan_.inputs) input.region = *region++;
    for (Output& output : plan_.outputs) output.region = *region++;
  } else {
    const int addresses = operand_count_ + static_cast<int>(graph_.result_count());
    address_words_ = builder_.allocate_smem(static_cast<std::uint32_t>(addresses));
    for (int i = 0; i < addresses; ++i) {
      builder_.store_smem(address_words_ + static_cast<std::uint32_t>(i), builder_.operand(i));
    }
  }
  allocate_sums_that_go_on();
  bool loads_packed = false, stores_packed = false;
  for (Input& input : plan_.inputs) {
    loads_packed |= is_packed(input.access.shape);
    allocate_input(input);
  }
  for (ElementwisePlan::Neighborhood& around : plan_.neighborhoods) {
    around.region = builder_.allocate_vmem(
        static_cast<std::uint64_t>(2 * buffer_rows_of(around) + 3 * isa::kSublanes));
  }
  for (Output& output : plan_.outputs) {
    stores_packed |= is_packed(output.shape);
    allocate_output(output);
  }
  for (Reduction& reduction : plan_.reductions) {
    // A sum along rows is one for all of its matrix.
    const bool rows = !reduction.along_rows;
    emitter_.set_dependence(reduction.node, {reduction.lanes_kept, rows, !rows, !rows});
    if (reduction.along_lanes) {
      reduction.slots = builder_.allocate_vmem(static_cast<std::uint64_t>(8 * plan_.block));
    } else if (!goes_on(reduction)) {
      reduction.accumulators =
          builder_.allocate_vmem(static_cast<std::uint64_t>(8 * reduction.registers));
    }
  }
  for (ElementwisePlan::RowValue& value : plan_.row_values) {
    value.slots = builder_.allocate_vmem(static_cast<std::uint64_t>(8 * plan_.block));
  }
  for (ElementwisePlan::TileValue& value : plan_.tile_values) {
    value.region =
        builder_.allocate_vmem(static_cast<std::uint64_t>(2 * 8 * plan_.block * plan_.lane_tiles));
  }
  for (ElementwisePlan::ColumnValue& value : plan_.column_values) {
    value.region = builder_.allocate_vmem(
        static_cast<std::uint64_t>(8 * plan_.reduction_along_rows()->registers));
  }
  for (Output& output : plan_.outputs) {
    const bool is_kept =
        plan_.reduction_of(output.node) >= 0 || plan_.row_value_of(output.node) != nullptr;
    if (!plan_.by_lines || !ElementwisePlan::is_in_lanes(output) || is_kept) continue;
    output.slots = builder_.allocate_vmem(static_cast<std::uint64_t>(8 * plan_.block));
  }
  emitter_.infer();
  if (!is_resident_) allocate_flags();
  memory_ = std::make_unique<TileMemory>(builder_, loads_packed, stores_packed);
  for (int i = 0; i < plan_.digits; ++i) {
    const bool is_cut = plan_.is_cut_digit(i);
    block_digits_.push_back(builder_.scalar_variable(is_cut ? plan_.first : 0));
    digits_.push_back(builder_.scalar_variable(0));
  }
}

/// In the kernels of all ranges at the same place: before what depends on the range.
void ElementwiseKernel::allocate_sums_that_go_on() {
  for (Reduction& reduction : plan_.reductions) {
    if (!goes_on(reduction)) continue;
    reduction.accumulators =
        builder_.allocate_vmem(static_cast<std::uint64_t>(8 * reduction.registers));
  }
}

void ElementwiseKernel::allocate_input(Input& input) {
  if (!is_resident_ && !input.is_in_neighborhood()) {
    const std::int64_t rows = input.is_stream()
                                  ? 2 * plan_.block * plan_.stream_rows(input.access.shape) +
                                        (input.is_ahead() ? 3 : 1) * isa::kSublanes
                                  : input.access.rows() * plan_.buffers_of(input);
    input.region = builder_.allocate_vmem(static_cast<std::uint64_t>(rows));
  }
  if (input.is_column()) {
    const std::int64_t slots = input.fixed  ? 1
                               : input.kept ? input.kept_registers(space_)
                                            : plan_.block;
    input.slots = builder_.allocate_vmem(static_cast<std::uint64_t>(8 * slots));
  }
  ExpressionEmitter::Dependence needs;
  needs.lanes = input.access.x == Step::kSame;
  needs.rows = input.is_stream() || input.access.needs_rows();
  needs.majors = !input.access.major_axes().empty();
  needs.is_kept = input.access.kind == ArrayAccess::Kind::kRow && is_packed(input.access.shape) &&
                  plan_.column_value_of(input.node, false) == nullptr;
  emitter_.set_dependence(input.node, needs);
}

void ElementwiseKernel::allocate_flags() {
  load_flag_ = BlockPipeline::allocate_flags(builder_);
  store_flag_ = BlockPipeline::allocate_flags(builder_);
  if (plan_.is_cut()) {
    part_flag_ = BlockPipeline::allocate_flags(builder_);
    part_store_flag_ = builder_.allocate_flag();
  }
  make_dmas();
}

ScalarOperand ElementwiseKernel::operand_address(int operand) {
  return builder_.load_smem(address_words_ + static_cast<std::uint32_t>(operand));
}

/// Of the part of an array.
ScalarOperand ElementwiseKernel::part_address(int operand, std::int64_t begin, Index part,
                                              std::uint64_t granules) {
  const Index offset = multiply(builder_, part, static_cast<std::int64_t>(granules)).plus(begin);
  return builder_.add(operand_address(operand), to_operand(builder_, offset));
}

void ElementwiseKernel::allocate_output(Output& output) {
  std::int64_t rows = 2 * plan_.block * plan_.stream_rows(output.shape) + 8;
  if (output.kind != OutputKind::kStream) {
    const std::int64_t bytes = output.shape.rank() < 2 ? 0 : output.shape.padded_bytes();
    const std::int64_t registers = output.shape.rank() < 2
                                       ? ceil_divide(output.shape.element_count(), 1024)
                                       : ceil_divide(bytes, 4096);
    rows = 8 * registers;
    if (is_packed(output.shape)) {
      output.staging = builder_.allocate_vmem(static_cast<std::uint64_t>(2 * rows));
    }
  }
  if (!is_resident_) output.region = builder_.allocate_vmem(static_cast<std::uint64_t>(rows));
}

/// What stays while the kernel runs.
void ElementwiseKernel::load_residents() {
  if (is_resident_) return;
  std::uint64_t granules = 0;
  for (const Input& input : plan_.inputs) {
    if (!input.stays() || input.sliced) continue;
    const std::uint64_t size = tpu::compiler::granules(input.access.shape);
    ScalarOperand from = operand_address(input.operand);
    if (input.begin > 0) from = builder_.add(from, input.begin);
    builder_.dma_in(from, input.region, size, load_flag_);
    granules += size;
  }
  if (granules > 0) builder_.wait(load_flag_, granules);
}

/// What stays while a part is worked on.
void ElementwiseKernel::start_part_loads(Index part, Index buffer) {
  for (const Input& input : plan_.inputs) {
    if (!input.stays() || !input.sliced) continue;
    const std::uint64_t size = granules(input.access.shape);
    const Index rows =
        plan_.buffers_of(input) > 1 ? multiply(builder_, buffer, input.access.rows()) : Index{};
    const Index slice = divide(builder_, part, input.shared_by);
    builder_.dma_in(part_address(input.operand, input.begin, slice, size), at(input.region, rows),
                    size, to_operand(builder_, buffer.plus(part_flag_)));
  }
}

void ElementwiseKernel::spread_columns_once() {
  Place nowhere;
  nowhere.digits.assign(static_cast<std::size_t>(space_.rank()), Index{});
  for (const Input& input : plan_.inputs) {
    if (input.fixed) builder_.store(input.slots, column_value(input, nowhere));
    if (!input.kept) continue;
    std::vector<int> axes = input.kept_majors;
    if (input.access.needs_rows()) axes.push_back(space_.row_axis());
    spread_kept_column(input, axes, nowhere, 0);
  }
  builder_.new_block();
  emitter_.forget();
}

/// Along the axes from `next` on: as many registers in straight code as take the XLU longer than
/// its latency.
void ElementwiseKernel::spread_kept_column(const Input& input, const std::vector<int>& axes,
                                           Place& place, std::size_t next) {
  constexpr std::int64_t kAtOnce = 32;
  if (next == axes.size()) {
    builder_.store(kept_column(input, place), column_value(input, place));
    return;
  }
  const auto extent_of = [this](int axis) {
    return axis == space_.row_axis() ? space_.row_tiles() : space_.extent(axis);
  };
  std::int64_t rest = 1;
  for (std::size_t i = next + 1; i < axes.size(); ++i) rest *= extent_of(axes[i]);
  const auto axis = static_cast<std::size_t>(axes[next]);
  for_each(extent_of(axes[next]), std::max<std::int64_t>(1, kAtOnce / rest), [&](Index index) {
    place.digits[axis] = index;
    spread_kept_column(input, axes, place, next + 1);
  });
  place.digits[axis] = Index{};
}

void ElementwiseKernel::for_each(std::int64_t count, std::int64_t unroll,
                                 const std::function<void(Index)>& body) {
  in_pieces(builder_, count, unroll, [&](Index first, std::int64_t many) {
    const bool is_looped = !first.is_constant();
    if (is_looped) emitter_.forget();
    for (std::int64_t i = 0; i < many; ++i) body(first.plus(i));
    if (is_looped) emitter_.forget();
  });
}

void ElementwiseKernel::clear_accumulators(bool sliced) {
  for (const Reduction& reduction : plan_.reductions) {
    if (reduction.along_lanes || reduction.sliced != sliced) continue;
    const hlo::HloOpcode reducer = graph_.node(reduction.node).reducer;
    for_each(reduction.registers, 8, [&](Index index) {
      builder_.store(at(reduction.accumulators, multiply(builder_, index, 8)),
                     identity_bits(reducer, reduction.integer));
    });
  }
}

// Blocks.

/// A block with a constant number may be the smaller last one.
std::int64_t ElementwiseKernel::row_tiles_of(Index block) const {
  const std::int64_t before = block.is_constant() ? block.offset * plan_.block : 0;
  return std::min(plan_.block, plan_.row_tiles - before);
}

void ElementwiseKernel::emit_blocks() {
  if (is_resident_) {
    compute_block({}, plan_.row_tiles);
    return;
  }
  begin_walks();
  BlockPipeline::Transfer load, store;
  load.flag = load_flag_;
  load.granules = [this](Index block) { return loaded_granules(block); };
  const bool is_loaded = std::any_of(
      plan_.inputs.begin(), plan_.inputs.end(),
      [](const Input& input) { return input.is_stream() || input.is_in_neighborhood(); });
  if (is_loaded) {
    load.start = [this](Index block, Index parity) { start_loads(block, parity); };
  }
  store.flag = store_flag_;
  store.granules = [this](Index block) { return stored_granules(block); };
  if (stored_granules({}) > 0) {
    store.start = [this](Index block, Index parity) { start_stores(block, parity); };
  }
  const bool is_ahead = std::any_of(plan_.inputs.begin(), plan_.inputs.end(),
                                    [](const Input& input) { return input.is_ahead(); });
  const bool has_rest = plan_.row_tiles % plan_.block != 0 || plan_.ends_early() || is_ahead;
  BlockPipeline pipeline(builder_, {ceil_divide(plan_.row_tiles, plan_.block), has_rest}, load,
                         store);
  pipeline.run([this](Index block, Index parity) {
    keep_halos(block, parity);
    compute_block(parity, row_tiles_of(block));
  });
  emitter_.forget();
}

// Passes over a block.

void ElementwiseKernel::compute_block(Index parity, std::int64_t row_tiles) {
  finish_columns(-1, row_tiles);
  const int first = plan_.spreads() ? -1 : 0;
  for (int level = plan_.passes_together ? plan_.last_level : first; level <= plan_.last_level;
       ++level) {
    emit_passes(plan_.passes_together ? first : level, level, parity, row_tiles);
    if (level >= 0) finish_columns(level, row_tiles);
  }
  builder_.new_block();
  pass_begins_.emplace_back(builder_.block_number(), std::nullopt);
  write_lines(row_tiles);
  builder_.new_block();
  emitter_.forget();
  advance(block_digits_, row_tiles);
}

std::optional<PassKind> ElementwiseKernel::pass_of(std::uint32_t block) const {
  std::optional<PassKind> pass;
  for (const auto& [first, kind] : pass_begins_) {
    if (first <= block) pass = kind;
  }
  return pass;
}

void ElementwiseKernel::reset_digits() {
  for (std::size_t i = 0; i < digits_.size(); ++i) {
    builder_.set(digits_[i], builder_.get(block_digits_[i]));
  }
}

/// Adds row tiles to a position: an addition per digit, with carry.
void ElementwiseKernel::advance(std::vector<SVariable>& digits, std::int64_t row_tiles) {
  SReg carry;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const std::int64_t radix = plan_.radix(static_cast<int>(i));
    // Nothing above it: it need not wrap. The cut axis counts on from part to part.
    const bool is_cut = plan_.is_cut_digit(static_cast<int>(i));
    const bool is_top = plan_.axis_of_digit(static_cast<int>(i)) == 0 || is_cut;
    if (radix == 1 && !is_cut) continue;
    const std::int64_t amount = is_top ? row_tiles : row_tiles % radix;
    row_tiles /= radix;
    if (amount == 0 && !carry) continue;
    SReg sum = builder_.get(digits[i]);
    if (amount != 0) sum = builder_.add(sum, amount);
    if (carry) sum = builder_.add(sum, carry);
    if (is_top) {
      builder_.set(digits[i], sum);
      return;
    }
    const PReg overflows = builder_.less(radix - 1, sum);
    carry = builder_.select(overflows, 1, 0);
    builder_.set(digits[i], builder_.select(overflows, builder_.sub(sum, radix), sum));
  }
}

/// Of row tile `row` of the group at hand. What the group goes through as a whole begins at 0.
std::vector<Index> ElementwiseKernel::digits_at(std::int64_t row) {
  std::vector<Index> digits(static_cast<std::size_t>(space_.rank()));
  std::int64_t group = group_->rows;
  for (int i = 0; i < plan_.digits; ++i) {
    const auto d = static_cast<std::size_t>(i);
    Index& digit = digits[static_cast<std::size_t>(plan_.axis_of_digit(i))];
    const std::int64_t radix = plan_.radix(i);
    if (i == 0 && group_->by_matrix) {
      digit = row_in_matrix_.plus(row);
      row = 0;
      group = 1;
    } else if (group % radix == 0 && !plan_.is_cut_digit(i)) {
      digit = {{}, row % radix};
      row /= radix;
      group /= radix;
    } else {
      digit = {builder_.get(digits_[d]), row};
      row = 0;
      group = 1;
    }
  }
  return digits;
}

/// Row tile `row` of a group whose first row tile is `group` within the block.
Place ElementwiseKernel::place_of(Index group, std::int64_t row, Index buffer32, Index buffer16) {
  Place place;
  place.digits = digits_at(row);
  place.row_key = static_cast<int>(row);
  const auto rows = [&](std::int64_t tile_rows, Index buffer) {
    const Index start = multiply(builder_, group, plan_.lane_tiles * tile_rows);
    return add(builder_, start, buffer).plus(row * plan_.lane_tiles * tile_rows);
  };
  bool has_packed = false;
  for (const Input& input : plan_.inputs) {
    has_packed |= input.is_stream() && is_packed(input.access.shape);
  }
  for (const Output& output : plan_.outputs) has_packed |= is_packed(output.shape);
  place.rows32 = rows(8, buffer32);
  if (has_packed) place.rows16 = rows(4, buffer16);
  place.row_in_block = group.plus(row);
  place.slot_rows = multiply(builder_, group, 8).plus(8 * row);
  return place;
}

/// The passes of these levels, each for a group before the next one.
void ElementwiseKernel::emit_passes(int first_level, int last_level, Index parity,
                                    std::int64_t row_tiles) {
  builder_.new_block();
  group_ = &plan_.group_at(last_level);
  pass_begins_.emplace_back(builder_.block_number(), first_level < last_level
                                                         ? PassKind::kTogether
                                                         : plan_.pass_at(last_level));
  emitter_.forget();
  reset_digits();
  begin_neighborhoods(parity);
  parity_ = parity;
  if (!group_->by_matrix) {
    emit_groups(first_level, last_level, {}, row_tiles);
    return;
  }
  const std::int64_t matrix = plan_.radix(0);
  in_pieces(builder_, row_tiles / matrix, 1, [&](Index index, std::int64_t /*one*/) {
    emit_groups(first_level, last_level, multiply(builder_, index, matrix), matrix);
    advance(digits_, matrix);
  });
}

/// Row tiles of the block from `first` on, group by group.
void ElementwiseKernel::emit_groups(int first_level, int last_level, Index first,
                                    std::int64_t row_tiles) {
  const std::int64_t unroll = group_->rows;
  const auto emit = [&](Index begin, std::int64_t count) {
    row_in_matrix_ = begin;
    may_end_matrix_ = !group_->by_matrix || begin.is_constant();
    for (int level = first_level; level <= last_level; ++level) {
      begin_level(level);
      emit_group(level, places_of(add(builder_, first, begin), count));
    }
    if (!group_->by_matrix) advance(digits_, count);
  };
  const std::int64_t trips = row_tiles / unroll;
  if (trips > 1) {
    builder_.loop(static_cast<std::uint64_t>(trips), [&](SReg index) {
      emit(multiply(builder_, {index, 0}, unroll), unroll);
    });
  } else if (trips == 1) {
    emit({}, unroll);
  }
  if (row_tiles % unroll != 0) {
    builder_.new_block();
    emit({{}, trips * unroll}, row_tiles % unroll);
  }
}

/// What passes before it have computed is there.
void ElementwiseKernel::begin_level(int level) {
  emitter_.forget();
  for (const auto& value : plan_.row_values) emitter_.set_given(value.node, value.level < level);
  for (const auto& value : plan_.tile_values) emitter_.set_given(value.node, value.level < level);
  level_ = level;
  give_column_values();
}

/// A group of `count` row tiles from `group` on within the block. All share the first one's
/// registers.
std::vector<Place> ElementwiseKernel::places_of(Index group, std::int64_t count) {
  const Index buffer32 = multiply(builder_, parity_, plan_.block * plan_.lane_tiles * 8);
  const Index buffer16 = multiply(builder_, parity_, plan_.block * plan_.lane_tiles * 4);
  const bool has_matrices = plan_.counts() && group_->rows % plan_.radix(0) == 0;
  const std::int64_t matrix = has_matrices ? plan_.radix(0) : group_->rows;
  std::vector<Place> rows{place_of(group, 0, buffer32, buffer16)};
  if (plan_.has_vectors_in_rows()) {
    rows[0].lines32 = multiply(builder_, rows[0].rows32, isa::kSublanes);
    rows[0].lines16 = multiply(builder_, rows[0].rows16, isa::kSublanes);
  }
  for (std::int64_t row = 1; row < count; ++row) {
    Place place = rows.front();
    place.row_key = static_cast<int>(row);
    place.rows32.offset += row * plan_.lane_tiles * 8;
    place.rows16.offset += row * plan_.lane_tiles * 4;
    place.lines32.offset += row * 8 * isa::kSublanes;
    place.lines16.offset += row * 4 * isa::kSublanes;
    place.row_in_block.offset += row;
    place.slot_rows.offset += row * 8;
    place.major_key = static_cast<int>(row / matrix);
    if (plan_.counts()) place.digits = digits_at(row);
    rows.push_back(std::move(place));
  }
  return rows;
}

void ElementwiseKernel::emit_group(int level, const std::vector<Place>& rows) {
  if (level < 0) {
    spread_columns(rows);
    for (const Place& place : rows) write_row_values(level, place);
    return;
  }
  if (group_->lanes != plan_.lane_tiles) {
    clear_sums(level, rows, true);
    loop_over_lane_tiles(level, rows);
    finish_sums(level, rows);
  } else if (plan_.joins_lanes) {
    emit_tile_by_tile(level, rows);
  } else if (sums_at(level) > 0 || works_by_rows(level)) {
    // Row by row: only the sums and values of one row are under way.
    const std::vector<std::vector<int>> turned = turned_values(level);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (std::size_t k = i == 0 ? 0 : i + kRowsTurnedAhead; k <= i + kRowsTurnedAhead; ++k) {
        if (k < rows.size() && !turned.empty()) turn_values(turned.front(), rows[k]);
      }
      const Place& row = rows[i];
      clear_sums(level, {row}, false);
      for (std::int64_t tile = 0; tile < plan_.lane_tiles; ++tile) {
        emit_tile(level, {row}, {{}, tile}, static_cast<int>(tile));
      }
      finish_sums(level, {row});
    }
  } else {
    for (const std::vector<int>& nodes : turned_values(level)) {
      for (const Place& row : rows) turn_values(nodes, row);
    }
    for (std::int64_t tile = 0; tile < plan_.lane_tiles; ++tile) {
      emit_tile(level, rows, {{}, tile}, static_cast<int>(tile));
    }
  }
  write_rows(level, rows);
}

/// Tile by tile: what is turned for a tile and the next one takes registers until both are done.
void ElementwiseKernel::emit_tile_by_tile(int level, const std::vector<Place>& rows) {
  for (const Place& row : rows) {
    clear_sums(level, {row}, false);
    for (std::int64_t tile = 0; tile < plan_.lane_tiles; ++tile) {
      emit_tile(level, {row}, {{}, tile}, static_cast<int>(tile));
    }
    finish_sums(level, {row});
  }
}

/// Values turned in their lanes of which this pass makes something: those that are made of no other
/// such, then those made of them, and so on.
std::vector<std::vector<int>> ElementwiseKernel::turned_values(int level) const {
  std::vector<int> work;
  for (const Reduction& reduction : plan_.reductions) {
    if (reduction.level != level) continue;
    work.push_back(graph_.node(reduction.node).operands.front());
  }
  if (level == plan_.last_level) {
    for (const Output& output : plan_.outputs) {
      if (output.kind == OutputKind::kStream) work.push_back(output.node);
    }
  }
  std::set<int> seen(work.begin(), work.end());
  while (!work.empty()) {
    const int node = work.back();
    work.pop_back();
    if (plan_.reduction_of(node) >= 0) continue;
    for (int operand : graph_.node(node).operands) {
      if (seen.insert(operand).second) work.push_back(operand);
    }
  }
  std::vector<std::vector<int>> turned;
  std::vector<std::size_t> depths(graph_.nodes().size());
  for (std::size_t id = 0; id < depths.size(); ++id) {  // Operands first.
    const ExpressionNode& node = graph_.nodes()[id];
    if (node.opcode == hlo::HloOpcode::kReduce) continue;
    for (int operand : node.operands) {
      depths[id] = std::max(depths[id], depths[static_cast<std::size_t>(operand)]);
    }
    const int number = static_cast<int>(id);
    const Input* input = plan_.input_of(number);
    const bool is_turned = (node.opcode == hlo::HloOpcode::kSlice && node.row < 0) ||
                           (input != nullptr && input->part.lanes > 0);
    if (!is_turned || seen.count(number) == 0) continue;
    if (turned.size() == depths[id]) turned.emplace_back();
    turned[depths[id]++].push_back(number);
  }
  return turned;
}

/// Results of the XLU come in the order in which it was asked: what is turned before the sums of
/// the rows above does not wait for them.
void ElementwiseKernel::turn_values(const std::vector<int>& nodes, const Place& row) {
  for (int node : nodes) {
    for (std::int64_t tile = 0; tile < plan_.lane_tiles; ++tile) {
      emitter_.value(node, at_lane_tile(row, {{}, tile}, static_cast<int>(tile)));
    }
  }
}

/// The last pass goes row by row where rows have values of their own, or, of many rows of few lane
/// tiles, turned registers that these share, and are not added to others.
bool ElementwiseKernel::works_by_rows(int level) const {
  const bool has_turned = plan_.turns_neighbors() && group_->rows > plan_.lane_tiles;
  const bool has_values = !plan_.row_values.empty() || has_turned;
  return level == plan_.last_level && has_values &&
         std::all_of(plan_.reductions.begin(), plan_.reductions.end(),
                     [](const Reduction& each) { return each.along_lanes; });
}

std::int64_t ElementwiseKernel::sums_at(int level) const {
  return std::count_if(
      plan_.reductions.begin(), plan_.reductions.end(),
      [level](const Reduction& each) { return each.along_lanes && each.level == level; });
}

void ElementwiseKernel::spread_columns(const std::vector<Place>& rows) {
  for (const Place& place : rows) {
    for (const Input& input : plan_.inputs) {
      if (!input.is_spread()) continue;
      builder_.store(at(input.slots, place.slot_rows), column_value(input, place));
    }
  }
}

void ElementwiseKernel::clear_sums(int level, const std::vector<Place>& rows, bool is_looped) {
  sums_are_looped_ = is_looped;
  row_sums_.clear();
  for (const Reduction& reduction : plan_.reductions) {
    if (!reduction.along_lanes || reduction.level != level) continue;
    const std::uint32_t identity =
        identity_bits(graph_.node(reduction.node).reducer, reduction.integer);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      row_sums_.emplace_back();
      if (is_looped) row_sums_.back().looped = builder_.vector_variable(identity);
    }
  }
}

void ElementwiseKernel::loop_over_lane_tiles(int level, const std::vector<Place>& rows) {
  // The last lane tile stands alone: its lanes may end early.
  const std::int64_t looped = plan_.lane_tiles - 1;
  const std::int64_t unroll = group_->lanes;
  builder_.loop(static_cast<std::uint64_t>(looped / unroll), [&](SReg index) {
    emitter_.forget();
    std::vector<Place> here = rows;
    const Index first = multiply(builder_, {index, 0}, unroll);
    const Index rows32 = multiply(builder_, first, 8);
    const Index rows16 = multiply(builder_, first, 4);
    for (std::size_t i = 0; i < here.size(); ++i) {
      if (plan_.counts()) here[i].digits = digits_at(here[i].row_key);
      here[i].rows32 = add(builder_, here[i].rows32, rows32);
      here[i].rows16 = add(builder_, here[i].rows16, rows16);
    }
    for (std::int64_t tile = 0; tile < unroll; ++tile) {
      std::vector<Place> shifted = here;
      for (Place& place : shifted) {
        place.rows32.offset += 8 * tile;
        place.rows16.offset += 4 * tile;
      }
      emit_tile(level, shifted, first.plus(tile), static_cast<int>(tile));
    }
  });
  builder_.new_block();
  emitter_.forget();
  std::vector<Place> here = rows;
  for (Place& place : here) {
    if (plan_.counts()) place.digits = digits_at(place.row_key);
  }
  for (std::int64_t tile = looped / unroll * unroll; tile < plan_.lane_tiles; ++tile) {
    emit_tile(level, here, {{}, tile}, static_cast<int>(tile));
  }
}

Place ElementwiseKernel::at_lane_tile(Place place, Index lane_tile, int lane_key) const {
  if (!space_.linear && !plan_.flat) {
    place.digits[static_cast<std::size_t>(space_.lane_axis())] = lane_tile;
  }
  place.lane_key = lane_key;
  if (lane_tile.is_constant()) {
    place.rows32.offset += 8 * lane_tile.offset;
    place.rows16.offset += 4 * lane_tile.offset;
  }
  return place;
}

/// One lane tile of each row tile of a group. A constant lane tile also moves the places; a counted
/// one has moved them.
void ElementwiseKernel::emit_tile(int level, const std::vector<Place>& rows, Index lane_tile,
                                  int lane_key) {
  std::vector<Place> places;
  places.reserve(rows.size());
  for (const Place& row : rows) places.push_back(at_lane_tile(row, lane_tile, lane_key));
  std::size_t sum = 0;
  for (const Reduction& reduction : plan_.reductions) {
    if (!reduction.along_lanes || reduction.level != level) continue;
    const ExpressionNode& node = graph_.node(reduction.node);
    for (const Place& place : places) {
      const VReg value = masked(reduction, place, emitter_.operand(node.operands.front(), place));
      RowSum& known = row_sums_[sum++];
      const VectorOperand before =
          sums_are_looped_ ? VectorOperand(builder_.get(known.looped))
          : known.value    ? VectorOperand(known.value)
                           : VectorOperand(identity_bits(node.reducer, reduction.integer));
      known.value = combine(builder_, node.reducer, reduction.integer, value, before);
      if (sums_are_looped_) builder_.set(known.looped, known.value);
    }
  }
  std::vector<std::deque<Merged>> merged(plan_.reductions.size());
  for (const Place& place : places) {
    for (const ElementwisePlan::TileValue& value : plan_.tile_values) {
      if (value.level != level) continue;
      builder_.store(at(value.region, place.rows32), emitter_.vector(value.node, place));
    }
    if (level == plan_.last_level) store_streams(place);
    for (std::size_t i = 0; i < merged.size(); ++i) {
      if (is_accumulated_at(plan_.reductions[i], level)) {
        accumulate(plan_.reductions[i], place, merged[i]);
      }
    }
  }
  for (std::size_t i = 0; i < merged.size(); ++i) {
    for (const Merged& sum : merged[i]) {
      add_to_accumulator(plan_.reductions[i], *sum.place, sum.value);
    }
  }
}

void ElementwiseKernel::store_streams(const Place& place) {
  for (const Output& output : plan_.outputs) {
    if (output.kind != OutputKind::kStream) continue;
    if (graph_.node(output.node).in_rows) {
      store_in_rows(output, place);
      continue;
    }
    const Index rows_at = is_packed(output.shape) ? place.rows16 : place.rows32;
    memory_->store_tile(output.shape.type, at(output.region, rows_at),
                        emitter_.operand(output.node, place));
  }
}

/// Each vector goes to its row of eight lane tiles.
void ElementwiseKernel::store_in_rows(const Output& output, const Place& place) {
  const std::vector<int>& vectors = graph_.node(output.node).operands;
  for (std::size_t row = 0; row < vectors.size(); ++row) {
    const Index line = place.lines32.plus(static_cast<std::int64_t>(row));
    builder_.store(at(output.region, line).stride(isa::kSublanes),
                   emitter_.operand(vectors[row], place));
  }
}

bool ElementwiseKernel::is_accumulated_at(const Reduction& reduction, int level) const {
  return !reduction.along_lanes &&
         level == (reduction.along_rows ? reduction.level : plan_.last_level);
}

void ElementwiseKernel::add_to_accumulator(const Reduction& reduction, const Place& place,
                                           VectorOperand value) {
  const VmemAddress address =
      at(reduction.accumulators, multiply(builder_, accumulator(reduction, place), 8));
  builder_.store(address, combine(builder_, graph_.node(reduction.node).reducer, reduction.integer,
                                  builder_.load(address), value));
}

/// Whether what two row tiles of a group add goes to one register.
bool ElementwiseKernel::share_accumulator(const Reduction& reduction, const Place& a,
                                          const Place& b) {
  const auto is_same = [&](int axis) { return digit(a, axis).offset == digit(b, axis).offset; };
  const auto& majors = reduction.kept_majors;
  return std::all_of(majors.begin(), majors.end(), is_same) &&
         (!reduction.rows_kept || is_same(space_.row_axis()));
}

/// Adds a tile to its accumulator. Row tiles of the group that share one are merged first; sums
/// that have waited longest leave their registers to others.
void ElementwiseKernel::accumulate(const Reduction& reduction, const Place& place,
                                   std::deque<Merged>& merged) {
  constexpr std::size_t kMostSums = 8;
  const ExpressionNode& node = graph_.node(reduction.node);
  const VReg value = masked(reduction, place, emitter_.operand(node.operands.front(), place));
  for (Merged& sum : merged) {
    if (!share_accumulator(reduction, *sum.place, place)) continue;
    sum.value = combine(builder_, node.reducer, reduction.integer, sum.value, value);
    return;
  }
  if (merged.size() == kMostSums) {
    add_to_accumulator(reduction, *merged.front().place, merged.front().value);
    merged.pop_front();
  }
  merged.push_back({&place, value});
}

/// The reductions along lanes are complete: combine the lanes and keep them for later passes.
void ElementwiseKernel::finish_sums(int level, const std::vector<Place>& rows) {
  std::size_t sum = 0;
  for (const Reduction& reduction : plan_.reductions) {
    if (!reduction.along_lanes || reduction.level != level) continue;
    for (const Place& place : rows) {
      const RowSum& known = row_sums_[sum++];
      const VReg value = sums_are_looped_ ? builder_.get(known.looped) : known.value;
      builder_.store(at(reduction.slots, place.slot_rows),
                     total(reduction, lanes_of(reduction, value)));
    }
  }
}

/// Values of columns that stand in VMEM are not computed.
void ElementwiseKernel::give_column_values() {
  for (const ElementwisePlan::ColumnValue& value : plan_.column_values) {
    const bool is_given = value.level < level_;
    if (value.is_reciprocal) {
      emitter_.set_reciprocal_given(value.node, is_given);
    } else if (graph_.node(value.node).opcode != hlo::HloOpcode::kParameter) {
      emitter_.set_given(value.node, is_given);
    }
  }
}

/// The reductions along the rows of the block's matrices are complete: combine the sublanes and
/// keep the results, and what is made of them, for later passes.
void ElementwiseKernel::finish_columns(int level, std::int64_t row_tiles) {
  const auto is_here = [level](const Reduction& each) {
    return each.along_rows && each.level == level;
  };
  const auto is_made = [level](const auto& value) { return value.level == level; };
  if (std::none_of(plan_.reductions.begin(), plan_.reductions.end(), is_here) &&
      std::none_of(plan_.column_values.begin(), plan_.column_values.end(), is_made)) {
    return;
  }
  builder_.new_block();
  pass_begins_.emplace_back(builder_.block_number(), std::nullopt);
  emitter_.forget();
  reset_digits();
  level_ = level;
  give_column_values();
  const std::int64_t matrix = plan_.radix(0);
  in_pieces(builder_, row_tiles / matrix, 1, [&](Index /*number*/, std::int64_t /*one*/) {
    emitter_.forget();
    Place place;
    place.digits.resize(static_cast<std::size_t>(space_.rank()));
    for (int i = 1; i < plan_.digits; ++i) {
      place.digits[static_cast<std::size_t>(plan_.axis_of_digit(i))] = {
          builder_.get(digits_[static_cast<std::size_t>(i)]), 0};
    }
    for (const Reduction& reduction : plan_.reductions) {
      if (is_here(reduction)) finish_column(reduction, place);
    }
    for (const ElementwisePlan::ColumnValue& value : plan_.column_values) {
      if (is_made(value)) keep_column_value(value, place);
    }
    advance(digits_, matrix);
  });
  builder_.new_block();
  emitter_.forget();
}

void ElementwiseKernel::finish_column(const Reduction& reduction, Place& place) {
  const hlo::HloOpcode reducer = graph_.node(reduction.node).reducer;
  for (std::int64_t tile = 0; tile < plan_.lane_tiles; ++tile) {
    place.digits[static_cast<std::size_t>(space_.lane_axis())] = {{}, tile};
    const VmemAddress address =
        at(reduction.accumulators, multiply(builder_, accumulator(reduction, place), 8));
    const VReg sum = combine_sublanes(builder_, reducer, reduction.integer, builder_.load(address));
    builder_.store(address, total(reduction, sum));
  }
}

void ElementwiseKernel::keep_column_value(const ElementwisePlan::ColumnValue& value, Place& place) {
  for (std::int64_t tile = 0; tile < plan_.lane_tiles; ++tile) {
    place.digits[static_cast<std::size_t>(space_.lane_axis())] = {{}, tile};
    place.lane_key = static_cast<int>(tile);
    const VReg kept = value.is_reciprocal ? emitter_.reciprocal_of(value.node, place)
                                          : emitter_.vector(value.node, place);
    builder_.store(column_address(value.region, place), kept);
  }
}

}  // namespace tpu::compiler
