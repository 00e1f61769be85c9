#include <algorithm>
#include <memory>
#include <utility>

#include "workloads/compiler/kernels/contraction/contraction_blocks.h"
#include "workloads/compiler/kernels/contraction/convolution_lanes_emitter.h"

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
  input_.make(*grid_, [this] { return made_input(); });
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

/// Where a step's patches begin in the slab, and their unit's words.
std::vector<SReg> LanesKernel::patch_places(const Digits& digits) {
  const VmemAddress slab = grid_->input(0);
  SReg origin = weighted_sum(
      builder_, digits, {0, rows_at_once() * row_pitch(), groups_at_once() * group_pitch(), 0});
  if (slab.base) origin = origin ? builder_.add(origin, slab.base) : slab.base;
  return {origin, digits[kUnit] ? builder_.mul(digits[kUnit], unit_words()) : SReg()};
}

/// The tiles of patches at these places.
Contraction::Tiles LanesKernel::patch_weights(const std::vector<SReg>& places) {
  const VmemRegion slab = grid_->input_region(0);
  const VReg mask = masks() ? builder_.load(VmemAddress(mask_)) : VReg();
  const std::uint32_t distance = groups_at_once() > 1 ? group_pitch()
                                 : rows_at_once() > 1 ? row_pitch()
                                                      : 0;
  const std::uint32_t tile = tile_rows(problem_.input_type);
  const SReg origin = places[0];
  auto runs = std::make_shared<TableEntry>(builder_, units_, patches_.runs, places[1]);
  runs->word(15 / patches_.run_tiles);  // The first to be pushed.
  auto cached = std::make_shared<std::pair<std::uint32_t, VReg>>(~0U, VReg());
  return [=](std::uint32_t unit, std::uint32_t j, std::uint32_t) {
    if (distance == 0 && cached->first == j) return cached->second;
    const std::uint32_t number = 15 - j, in_run = number % patches_.run_tiles;
    const VmemAddress from(slab, std::int64_t{in_run} * tile + unit * distance,
                           runs->word(number / patches_.run_tiles), origin);
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
  const std::uint32_t rows = t.block_y / rows_at_once();
  const std::uint32_t groups = t.groups / groups_at_once();
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

/// The rows of the moving window that stream in a step, from this one on.
Contraction::Tiles LanesKernel::moving_rows(SReg base) {
  const LanesTiling& t = tiling_;
  const std::uint32_t columns =
      t.split == Split::kFeatures ? t.block_columns / mxu_units_.count() : 0;
  return loaded_once(
      [=](std::uint32_t unit, std::uint32_t i, std::uint32_t) {
        return moving_->rows(i / tiling_.chunk, i % tiling_.chunk + unit * columns);
      },
      [=](std::uint32_t at, std::uint32_t) {
        return builder_.load({moving_->region(), at, base});
      });
}

/// Pairs of tiles that are complete become results behind the pushes of a step.
Contraction::Meanwhile LanesKernel::finish_in_step(StepCounter& finished, SReg index) {
  const std::uint32_t pushes = tiling_.group * tiling_.chunk * sizes_.plan.steps.lots;
  const PReg is_live = builder_.less(static_cast<std::uint32_t>(delay() - 1), index);
  const std::vector<SReg> digits = finished.present();
  const auto run = std::make_shared<FinishedPairs>(begin_pairs(step_digits(digits), is_live));
  Contraction::Meanwhile meanwhile;
  meanwhile.push = [=](std::uint32_t i) {
    const std::uint32_t pairs = tiling_.finished_pairs, end = (i + 1) * pairs / pushes;
    for (std::uint32_t pair = i * pairs / pushes; pair < end; ++pair) finish_pair(*run, pair);
  };
  meanwhile.end = [&finished, digits, is_live] {
    finished.advance(finished.behind(digits, is_live));
  };
  return meanwhile;
}

void LanesKernel::multiply() {
  const LanesTiling& t = tiling_;
  const VmemAddress sums = sums_apart() ? VmemAddress(sums_) : grid_->output(0);
  const std::uint32_t groups = groups_at_once(), rows = rows_at_once();
  const std::uint32_t columns = t.split == Split::kFeatures ? mxu_units_.count() : 1;
  const std::uint32_t sum_row = sizes_.phases_y * sizes_.out_x * sizes_.sum_pixel;
  const std::uint32_t sum_pixel = sizes_.phases_x * sizes_.sum_pixel;
  const std::uint32_t sum_group = t.group * sum_pixel;
  const std::uint32_t sum_distance = groups > 1    ? sum_group
                                     : rows > 1    ? sum_row
                                     : columns > 1 ? t.block_columns / columns * 8
                                                   : 0;
  // Of this block of features: its moving rows; ones where there are sums of an earlier block.
  SReg block_row, later;
  if (const SReg block = grid_->index(kFeatures)) {
    const auto units = static_cast<std::uint32_t>(patches_.units.size());
    block_row = builder_.mul(block, units * moving_->unit_rows());
    later = builder_.select(builder_.equal(block, 0), 0, 0xff);
  }
  RunningSums::Form form;
  form.has_masks = true;
  form.is_only_step = patches_.units.size() == 1 && patches_.blocks == 1;
  form.lot = t.group * t.chunk;
  form.offset = [=](std::uint32_t unit, std::uint32_t i) {
    return i / t.chunk * sum_pixel + i % t.chunk * 8 + unit * sum_distance;
  };
  RunningSums running(builder_, mxu_units_, sums, form);
  StepCounter finished(builder_, step_extents(), StepCounter::Digits::kSmem);
  Contraction steps;
  steps.extents = step_extents();
  steps.pushes = t.group * t.chunk;
  steps.parts = {problem_.parts[1], problem_.parts[0]};
  steps.steps_at_once = t.steps_at_once;
  steps.moving.places = [&](const Digits& counted) -> std::vector<SReg> {
    const SReg row = weighted_sum(builder_, step_digits(counted),
                                  {moving_->unit_rows(), 0, 0, t.chunk * 8}, block_row);
    return {row};
  };
  steps.moving.tiles = [&](const Digits&, const std::vector<SReg>& places) {
    return moving_rows(places[0]);
  };
  steps.stationary.places = [&](const Digits& counted) {
    return patch_places(step_digits(counted));
  };
  steps.stationary.tiles = [&](const Digits&, const std::vector<SReg>& places) {
    return patch_weights(places);
  };
  steps.sums = [&](const Digits& counted, PReg started) {
    if (counted.empty()) return running.end();
    const Digits digits = step_digits(counted);
    const auto word = [&](std::uint32_t number) {
      return table_word(builder_, units_ + number, unit_words(), digits[kUnit]);
    };
    SReg row = word(patches_.runs);
    if (sums.base) row = builder_.add(row, sums.base);
    row = weighted_sum(builder_, digits, {0, rows * sum_row, groups * sum_group, t.chunk * 8}, row);
    const SReg mask = word(patches_.runs + 1);
    return running.at({row, later ? builder_.or_(mask, later) : mask}, started);
  };
  steps.advance = [&] { running.advance(); };
  if (overlaps()) {
    steps.meanwhile = [&](const Digits&, const std::function<Digits()>&, SReg index) {
      return finish_in_step(finished, index);
    };
  }
  emit_steps(builder_, stream_, steps);
  if (overlaps()) finish_last_pairs(finished);
}

}  // namespace tpu::compiler
