#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "workloads/compiler/kernels/contraction_blocks.h"
#include "workloads/compiler/kernels/convolution_lanes_emitter.h"

namespace tpu::compiler {

/// Pixels of the slabs that no DMA writes are 0 for good.
void LanesKernel::clear_borders() {
  if (patches_.units.empty() || fetched_ == sizes_.slab_x || tiling_.blocks_x > 1) return;
  const VmemRegion region = grid_->input_region(0);
  memory_.clear({region, 0}, region.rows);
  builder_.new_block();
}

/// Rows of the slab above and below the image are 0 for this block.
void LanesKernel::clear_outside() {
  const std::int64_t blocks = tiles_of(sizes_.pixels_y, tiling_.block_y);
  const std::int64_t end =
      (blocks - 1) * std::int64_t{input_step()} + patches_.first[0] + sizes_.slab_y;
  if (patches_.first[0] >= 0 && end <= height().input) return;
  GridPoint point(5);
  point[kY] = grid_->index(kY);
  clear_rows_outside(builder_, memory_, *input_rows_, first_row(point, input_step()),
                     grid_->input(0), sizes_.slab_y, sizes_.slab_x * sizes_.input_pixel);
}

/// Where rows are cut: pixels before the image in the first block and after it in the last one.
void LanesKernel::clear_columns_outside() {
  if (tiling_.blocks_x == 1) return;
  const VmemAddress slab = grid_->input(0);
  const auto clear = [&](std::int64_t first, std::int64_t count) {
    if (count <= 0) return;
    builder_.new_block();
    builder_.loop(sizes_.slab_y, [&](SReg index) {
      SReg row = builder_.mul(index, sizes_.slab_x * sizes_.input_pixel);
      if (slab.base) row = builder_.add(row, slab.base);
      memory_.clear({slab.region, first * sizes_.input_pixel, row},
                    static_cast<std::uint64_t>(count) * sizes_.input_pixel);
    });
    builder_.new_block();
  };
  const std::int64_t step = std::int64_t{tiling_.groups} * tiling_.group * width().stride;
  const std::int64_t last = (tiling_.blocks_x - 1) * step + patches_.first[1];
  const std::int64_t inside = std::min<std::int64_t>(width().input - last, sizes_.slab_x);
  emit_if(builder_, grid_->is_first(kX), [&] { clear(0, -patches_.first[1]); });
  emit_if(builder_, grid_->is_last(kX), [&] { clear(inside, sizes_.slab_x - inside); });
}

/// Rows of padding of the features become 0 where no mask takes them out.
void LanesKernel::clear_padding() {
  if (!has_padding() || masks()) return;
  const VmemAddress slab = grid_->input(0);
  const std::uint32_t last = (patches_.feature_tiles - 1) * tile_rows(problem_.input_type);
  builder_.new_block();
  builder_.loop(std::uint64_t{sizes_.slab_y} * sizes_.slab_x, [&](SReg pixel) {
    SReg row = builder_.mul(pixel, sizes_.input_pixel);
    if (slab.base) row = builder_.add(row, slab.base);
    memory_.clear_rows(problem_.input_type, {slab.region, last, row}, problem_.contracted % 8, 1,
                       1);
  });
  builder_.new_block();
}

void LanesKernel::work() {
  PReg fresh = grid_->fresh(1);
  if (!fresh) {
    for (int dimension : {kLanes, kY, kX, kFeatures}) {
      fresh = both(builder_, fresh, grid_->is_first(dimension));
    }
  }
  emit_if(builder_, fresh, [this] { moving_->make(grid_->input(1)); });
  clear_outside();
  clear_columns_outside();
  clear_padding();
  if (has_gaps()) {
    emit_if(builder_, grid_->is_first(kFeatures), [this] {
      memory_.clear(sums_apart() ? VmemAddress(sums_) : grid_->output(0), sizes_.sum_rows);
    });
  }
  builder_.new_block();
  if (!patches_.units.empty()) multiply();
  if (sums_apart() && !overlaps()) {
    emit_if(builder_, grid_->is_last(kFeatures), [this] { finish(); });
  }
}

/// The tiles of a step's patches.
std::function<VReg(std::uint32_t, std::uint32_t, std::uint32_t)> LanesKernel::patch_weights(
    const std::vector<SReg>& digits) {
  const VmemAddress slab = grid_->input(0);
  const auto stride_x = static_cast<std::uint32_t>(width().stride);
  const std::uint32_t row_pitch =
      static_cast<std::uint32_t>(height().stride) * sizes_.slab_x * sizes_.input_pixel;
  const std::uint32_t group_pitch = tiling_.group * stride_x * sizes_.input_pixel;
  const std::uint32_t groups = tiling_.split == Split::kGroups ? mxu_units_.count() : 1;
  const std::uint32_t rows = tiling_.split == Split::kRows ? mxu_units_.count() : 1;
  SReg origin = weighted_sum(builder_, digits, {0, rows * row_pitch, groups * group_pitch, 0});
  if (slab.base) origin = origin ? builder_.add(origin, slab.base) : slab.base;
  const SReg entry = digits[kUnit] ? builder_.mul(digits[kUnit], unit_words()) : SReg();
  auto bases = std::make_shared<std::vector<SReg>>(patches_.runs);
  const VReg mask = masks() ? builder_.load(VmemAddress(mask_)) : VReg();
  const std::uint32_t distance = groups > 1 ? group_pitch : rows > 1 ? row_pitch : 0;
  const std::uint32_t tile = tile_rows(problem_.input_type);
  auto cached = std::make_shared<std::pair<std::uint32_t, VReg>>(~0U, VReg());
  return [=](std::uint32_t unit, std::uint32_t j, std::uint32_t) {
    if (distance == 0 && cached->first == j) return cached->second;
    const std::uint32_t number = 15 - j, in_run = number % patches_.run_tiles;
    // Read from the table when it is needed: there are few scalar registers.
    SReg& base = (*bases)[number / patches_.run_tiles];
    const std::uint32_t word = units_ + number / patches_.run_tiles;
    if (!base) base = entry ? builder_.load_smem(word, entry) : builder_.load_smem(word);
    const VmemAddress from(slab.region, std::int64_t{in_run} * tile + unit * distance, base,
                           origin);
    const bool last = masks() && in_run + 1 == patches_.run_tiles;
    *cached = {j, memory_.load_weights(problem_.input_type, from, last ? mask : VReg())};
    return cached->second;
  };
}

/// Extents of a block's steps, outermost first.
std::vector<std::uint32_t> LanesKernel::step_extents() const {
  const LanesTiling& t = tiling_;
  const std::uint32_t count = mxu_units_.count();
  const auto units = static_cast<std::uint32_t>(patches_.units.size());
  const std::uint32_t rows = t.block_y / (t.split == Split::kRows ? count : 1);
  const std::uint32_t groups = t.groups / (t.split == Split::kGroups ? count : 1);
  const std::uint32_t chunks =
      t.block_columns / (t.split == Split::kFeatures ? count : 1) / t.chunk;
  if (overlaps()) return {rows, groups, chunks, units};
  return {units, rows, groups, chunks};
}

/// What counts through them, in the order of Digit.
std::vector<SReg> LanesKernel::step_digits(const std::vector<SReg>& counted) const {
  if (!overlaps()) return counted;
  return {counted[3], counted[0], counted[1], counted[2]};
}

void LanesKernel::multiply() {
  const LanesTiling& t = tiling_;
  const VmemAddress sums = sums_apart() ? VmemAddress(sums_) : grid_->output(0);
  const std::uint32_t groups = t.split == Split::kGroups ? mxu_units_.count() : 1;
  const std::uint32_t rows = t.split == Split::kRows ? mxu_units_.count() : 1;
  const std::uint32_t columns = t.split == Split::kFeatures ? mxu_units_.count() : 1;
  const std::uint32_t unit_columns = t.block_columns / columns;
  StepCounter counter(builder_, step_extents()), finished(builder_, step_extents());
  const std::uint32_t sum_row = sizes_.phases_y * sizes_.out_x * sizes_.sum_pixel;
  const std::uint32_t sum_pixel = sizes_.phases_x * sizes_.sum_pixel;
  const std::uint32_t sum_group = t.group * sum_pixel;
  const std::uint32_t sum_distance = groups > 1    ? sum_group
                                     : rows > 1    ? sum_row
                                     : columns > 1 ? unit_columns * 8
                                                   : 0;
  const auto unit_word = [&](const std::vector<SReg>& digits, std::uint32_t word) {
    if (!digits[kUnit]) return builder_.load_smem(units_ + word);
    return builder_.load_smem(units_ + word, builder_.mul(digits[kUnit], unit_words()));
  };
  const bool only_sum = patches_.units.size() == 1 && patches_.blocks == 1;
  const auto consume_at = [=](SReg row, SReg mask, SReg before, SReg before_mask, PReg started) {
    return [=](std::uint32_t unit, std::uint32_t i, bool previous, VReg result) {
      const std::uint32_t at = i / t.chunk * sum_pixel + i % t.chunk * 8 + unit * sum_distance;
      const VmemAddress address(sums.region, at, previous ? before : row);
      VmemAddress source = address;
      source.mask_register = previous ? before_mask : mask;
      const VReg sum = only_sum ? result : builder_.add(builder_.load(source), result);
      const auto guard = previous && started ? PredicateOperand(started) : PredicateOperand(true);
      builder_.guarded(guard, [&] { builder_.store(address, sum); });
    };
  };
  // Of this block of features: its moving rows; ones where there are sums of an earlier block.
  SReg block_row, later;
  if (const SReg block = grid_->index(kFeatures)) {
    const auto units = static_cast<std::uint32_t>(patches_.units.size());
    block_row = builder_.mul(block, units * moving_->unit_rows());
    later = builder_.select(builder_.equal(block, 0), 0, 0xff);
  }
  const SVariable previous_row =
      builder_.scalar_variable(sums.base ? ScalarOperand(sums.base) : ScalarOperand(0));
  const SVariable previous_mask = builder_.scalar_variable(0);
  MatmulStream::Step step;
  step.pushes = t.group * t.chunk;
  step.next_weights = patch_weights(std::vector<SReg>(4));
  stream_.begin(step);
  const auto next_step = [&](SReg index) {
    const std::vector<SReg> digits = step_digits(counter.present());
    const std::vector<SReg> counted = counter.next();
    const std::vector<SReg> next = step_digits(counted);
    SReg moving_row = weighted_sum(builder_, digits, {moving_->unit_rows(), 0, 0, t.chunk * 8});
    if (block_row) moving_row = moving_row ? builder_.add(moving_row, block_row) : block_row;
    SReg sum = unit_word(digits, patches_.runs);
    if (sums.base) sum = builder_.add(sum, sums.base);
    sum = weighted_sum(builder_, digits, {0, rows * sum_row, groups * sum_group, t.chunk * 8}, sum);
    SReg mask = unit_word(digits, patches_.runs + 1);
    if (later) mask = builder_.or_(mask, later);
    std::map<std::uint32_t, VReg> loaded;
    step.rows = [&](std::uint32_t unit, std::uint32_t i, std::uint32_t) {
      const std::uint32_t column = i % t.chunk + (columns > 1 ? unit * unit_columns : 0);
      const std::uint32_t row = moving_->rows(i / t.chunk, column);
      const auto found = loaded.find(row);
      if (found != loaded.end()) return found->second;
      return loaded[row] = builder_.load({moving_->region(), row, moving_row});
    };
    step.next_weights = patch_weights(next);
    step.consume = consume_at(sum, mask, builder_.get(previous_row), builder_.get(previous_mask),
                              builder_.less(0, index));
    std::optional<FinishedPairs> run;
    PReg is_live;
    if (overlaps()) {
      is_live = builder_.less(static_cast<std::uint32_t>(delay() - 1), index);
      run = begin_pairs(step_digits(finished.present()), is_live);
      step.meanwhile = [&](std::uint32_t i) {
        const std::uint32_t pairs = t.finished_pairs;
        const std::uint32_t end = (i + 1) * pairs / step.pushes;
        for (std::uint32_t pair = i * pairs / step.pushes; pair < end; ++pair) {
          finish_pair(*run, pair);
        }
      };
    }
    stream_.step(step);
    if (overlaps()) finished.advance(finished.next(is_live));
    builder_.set(previous_row, sum);
    builder_.set(previous_mask, mask);
    counter.advance(counted);
  };
  loop_over_steps(builder_, counter.steps(), tiling_.steps_at_once, next_step);
  step.meanwhile = {};
  step.consume = consume_at({}, {}, builder_.get(previous_row), builder_.get(previous_mask), {});
  stream_.end(step);
  builder_.new_block();
  if (overlaps()) finish_last_pairs(finished);
}

}  // namespace tpu::compiler
