#include <algorithm>

#include "workloads/compiler/kernels/contraction/dot_emitter.h"
#include "workloads/compiler/kernels/tiles/step_counter.h"

namespace tpu::compiler {

/// Complete sums become results.
void DotKernel::finish() {
  if (overlaps()) {
    finish_last_columns();
    return;
  }
  emit_if(builder_, is_last_sum(), [&] {
    if (problem_.result_turned) turn_sums();
    if (!results_.is_identity()) apply_epilogue();
    round_results(memory_, *grid_, unrounded_, sizes_.result_tiles);
  });
}

bool DotKernel::has_padding_rows() const {
  const std::uint32_t last_row = problem_.result_turned ? problem_.n : problem_.m;
  return problem_.matrix_rows != 0 || last_row % (8 * sizes_.out_rows.block) != 0;
}

/// Rows of the array, or of its matrix, from a row tile on; of tiles beyond the array none or less.
Index DotKernel::rows_from(Index row_tile) {
  const std::uint32_t last_row = problem_.result_turned ? problem_.n : problem_.m;
  if (problem_.matrix_rows != 0) {
    const Index within = modulo(builder_, row_tile, tiles_of(problem_.matrix_rows, 8));
    const Index begin = tpu::compiler::multiply(builder_, within, 8);
    const ScalarOperand left = builder_.sub(problem_.matrix_rows, to_operand(builder_, begin));
    const PReg is_there = builder_.less(to_operand(builder_, row_tile), last_row / 8);
    return {builder_.select(is_there, left, 0), 0};
  }
  const Index begin = tpu::compiler::multiply(builder_, row_tile, 8);
  if (begin.is_constant()) return {{}, last_row - begin.offset};
  return {builder_.sub(last_row, to_operand(builder_, begin)), 0};
}

Index DotKernel::rows_of_tile(const TileRun& run, std::uint32_t i) {
  if (problem_.matrix_rows == 0) return run.rows_left.plus(-8 * std::int64_t{i});
  const Index rows = rows_from(run.array_row.plus(i));
  if (!run.is_live) return rows;
  return {builder_.select(run.is_live, to_operand(builder_, rows), 0), 0};
}

void DotKernel::begin_run(const TileRun& run) {
  position_ = {};
  if (run.tiles) {
    position_.rows32 = builder_.shift_left(run.tiles, 3);
    position_.rows16 = builder_.shift_left(run.tiles, 2);
  }
  std::vector<VmemAddress> blocks;
  for (int input : epilogue_inputs_) blocks.push_back(grid_->input(input));
  results_.begin(blocks);
  result_tiles_.clear();
  for (std::size_t i = 0; i < unrounded_.size(); ++i) {
    const bool goes_by_memory = unrounded_[i].rows == 0;
    result_tiles_.push_back(goes_by_memory ? grid_->output(static_cast<int>(i))
                                           : VmemAddress(unrounded_[i]));
    const bool is_short = goes_by_memory && is_packed(problem_.result_types[i]);
    result_tiles_.back().base2 = is_short ? position_.rows16 : position_.rows32;
  }
  if (results_.is_identity()) return;
  // Nothing depends on the outer dimensions' indices: matmul_epilogue() sees to it.
  const auto rank = static_cast<std::size_t>(epilogue_.graph->space().rank());
  position_.place.digits.resize(rank);
  position_.place.digits[rank - 1] = run.column;
  position_.place.lane_key = 0;
}

void DotKernel::finish_tile(const TileRun& run, std::uint32_t i) {
  position_.tiles = std::int64_t{i} * sizes_.out_columns.block;
  if (!results_.is_identity()) {
    position_.place.row_key = static_cast<int>(i);
    position_.place.digits[position_.place.digits.size() - 2] = run.row.plus(i);
    if (run.has_padding) position_.valid_rows = rows_of_tile(run, i);
  }
  const VReg product = builder_.load({run.sums, 8 * position_.tiles, position_.rows32});
  const std::vector<VReg> tiles = results_.apply(position_, product);
  for (std::size_t r = 0; r < tiles.size(); ++r) {
    if (unrounded_[r].rows > 0) {
      builder_.store(result_tiles_[r].plus(8 * position_.tiles), tiles[r]);
      continue;
    }
    const hlo::ElementType type = problem_.result_types[r];
    result_memory_.store_tile(type, result_tiles_[r].plus(tile_rows(type) * position_.tiles),
                              tiles[r]);
  }
}

/// All tiles of a run whose place is known, one after the other.
void DotKernel::finish_run(TileRun run) {
  run.has_padding = has_padding_rows();
  if (run.has_padding && problem_.matrix_rows == 0) run.rows_left = rows_from(run.array_row);
  begin_run(run);
  results_.begin_row_sums(run.count);
  for (std::uint32_t i = 0; i < run.count; ++i) finish_tile(run, i);
  results_.end(position_);
  results_.end_row_sums(run.row, run.column);
}

/// All tiles of the block, behind its last step.
void DotKernel::apply_epilogue() {
  const std::uint32_t rows = sizes_.out_rows.block, columns = sizes_.out_columns.block;
  const std::uint32_t period = problem_.row_period == 0 ? rows : problem_.row_period;
  TileRun run;
  run.sums = results_at_;
  run.count = std::min(period, epilogue_unroll_);
  while (period % run.count != 0) --run.count;
  builder_.new_block();
  StepCounter counter(builder_, {tiling_.block_outer, columns, rows / period, period / run.count});
  builder_.loop(counter.steps(), [&](SReg) {
    const std::vector<SReg> digits = counter.present();
    run.tiles =
        weighted_sum(builder_, digits, {rows * columns, 1, period * columns, run.count * columns});
    const auto digit = [&](int dimension, std::uint32_t block, SReg inner, std::uint32_t scale) {
      return Index{weighted_sum(builder_, {grid_->index(dimension), inner}, {block, scale}), 0};
    };
    run.row = problem_.row_period == 0 ? digit(sizes_.row_dimension(), rows, digits[3], run.count)
                                       : Index{weighted_sum(builder_, {digits[3]}, {run.count}), 0};
    run.array_row = run.row;
    if (problem_.row_period != 0 && epilogue_.has_sums()) {
      run.array_row = {
          weighted_sum(builder_, {grid_->index(sizes_.row_dimension()), digits[2], digits[3]},
                       {rows, period, run.count}),
          0};
    }
    run.column = digit(sizes_.column_dimension(), columns, digits[1], 1);
    finish_run(run);
    counter.advance(counter.next());
  });
  builder_.new_block();
}

/// Before the first step that finishes tiles: the first columns are complete, the next ones are
/// when it is done.
void DotKernel::start_finishing() {
  for (std::uint32_t* word : {&done_tiles_, &done_column_, &done_row_, &done_part_, &is_live_,
                              &held_tiles_, &held_column_}) {
    if (*word == 0) *word = builder_.allocate_smem(1);
    builder_.store_smem(*word, 0);
  }
  builder_.store_smem(is_live_, 1);
  const bool is_next_matrix = tiling_.block_n == tiling_.columns_at_once;
  builder_.store_smem(held_tiles_,
                      is_next_matrix ? tiling_.block_m * tiling_.block_n : tiling_.columns_at_once);
  builder_.store_smem(held_column_, is_next_matrix ? 0 : tiling_.columns_at_once);
}

/// What the present step finishes. Where nothing is left the last tiles are made once more, and add
/// nothing to sums.
DotKernel::TileRun DotKernel::run_in_step() {
  TileRun run;
  run.count = tiling_.finished_tiles;
  run.sums = finished_sums_;
  const SReg row = builder_.load_smem(done_row_);
  const SReg part = builder_.load_smem(done_part_);
  const SReg column = builder_.add(builder_.load_smem(done_column_), part);
  run.tiles = builder_.add(builder_.load_smem(done_tiles_),
                           builder_.add(builder_.mul(row, sizes_.out_columns.block), part));
  run.row = {weighted_sum(builder_, {grid_->index(sizes_.row_dimension()), row},
                          {sizes_.out_rows.block, 1}),
             0};
  run.array_row = run.row;
  run.column = {weighted_sum(builder_, {grid_->index(sizes_.column_dimension()), column},
                             {sizes_.out_columns.block, 1}),
                0};
  if (epilogue_.has_sums()) {
    run.has_padding = true;
    run.is_live = builder_.equal(builder_.load_smem(is_live_), 1);
    if (problem_.matrix_rows == 0) {
      const ScalarOperand left = has_padding_rows() ? to_operand(builder_, rows_from(run.row))
                                                    : ScalarOperand(8 * run.count);
      run.rows_left = {builder_.select(run.is_live, left, 0), 0};
    }
  }
  return run;
}

/// Behind a step with these digits: the first one of a column completes the sums of the one before.
void DotKernel::advance_finishing(const std::vector<SReg>& digits) {
  const std::uint32_t count = tiling_.finished_tiles, columns = tiling_.columns_at_once;
  const SReg row = builder_.add(builder_.load_smem(done_row_), count);
  const SReg part = builder_.load_smem(done_part_);
  const PReg wraps = builder_.equal(row, tiling_.block_m);
  const SReg next_part = builder_.add(part, builder_.select(wraps, 1, 0));
  const PReg is_end = builder_.equal(next_part, columns);
  PReg is_first;
  for (std::size_t d : {std::size_t{2}, std::size_t{3}}) {
    if (!digits[d]) continue;
    const PReg zero = builder_.equal(digits[d], 0);
    is_first = is_first ? builder_.and_(is_first, zero) : zero;
  }
  const auto where_first = [&](ScalarOperand changed, SReg kept) {
    return is_first      ? builder_.select(is_first, changed, kept)
           : changed.reg ? changed.reg
                         : builder_.constant(changed.immediate);
  };
  const SReg next_row = builder_.select(wraps, 0, row);
  const SReg held_tiles = builder_.load_smem(held_tiles_),
             held_column = builder_.load_smem(held_column_);
  builder_.store_smem(done_tiles_, where_first(held_tiles, builder_.load_smem(done_tiles_)));
  builder_.store_smem(done_column_, where_first(held_column, builder_.load_smem(done_column_)));
  builder_.store_smem(done_row_,
                      where_first(0, builder_.select(is_end, tiling_.block_m - count, next_row)));
  builder_.store_smem(done_part_, where_first(0, builder_.select(is_end, columns - 1, next_part)));
  builder_.store_smem(is_live_,
                      where_first(1, builder_.select(is_end, 0, builder_.load_smem(is_live_))));
  const std::uint32_t matrix = tiling_.block_m * tiling_.block_n;
  const SReg tiles = weighted_sum(builder_, {digits[0], digits[1]}, {matrix, columns});
  const SReg column = weighted_sum(builder_, {digits[1]}, {columns});
  builder_.store_smem(held_tiles_,
                      where_first(tiles ? ScalarOperand(tiles) : ScalarOperand(0), held_tiles));
  builder_.store_smem(held_column_,
                      where_first(column ? ScalarOperand(column) : ScalarOperand(0), held_column));
}

/// The last columns have no steps behind them, the ones before one too few.
void DotKernel::finish_last_columns() {
  const std::uint32_t columns = tiling_.columns_at_once;
  const std::uint32_t groups = tiling_.block_n / columns;
  const std::uint32_t last = tiling_.block_outer * groups - 1;
  const auto finish_group = [&](std::uint32_t group, TileRange part, TileRange rows) {
    part.first += group % groups * columns;
    finish_columns(group / groups, part, rows);
  };
  if (runs_behind(tiling_) > 0) {
    const std::uint32_t tiles = tiling_.finished_tiles;
    finish_group(last - 1, {columns - 1, 1}, {tiling_.block_m - tiles, tiles});
  }
  finish_group(last, {0, columns}, {0, tiling_.block_m});
}

/// Tiles of a matrix of the block: of so many columns and rows, from the first ones on.
void DotKernel::finish_columns(std::uint32_t matrix, TileRange columns, TileRange rows) {
  TileRun run;
  run.sums = sums_;
  run.count = std::min(rows.count, epilogue_unroll_);
  while (rows.count % run.count != 0) --run.count;
  builder_.new_block();
  StepCounter counter(builder_, {columns.count, rows.count / run.count});
  builder_.loop(counter.steps(), [&](SReg) {
    const std::vector<SReg> digits = counter.present();
    const std::uint32_t before =
        (matrix * tiling_.block_m + rows.first) * tiling_.block_n + columns.first;
    const SReg tiles = weighted_sum(builder_, digits, {1, run.count * sizes_.out_columns.block});
    run.tiles = tiles ? builder_.add(tiles, before) : builder_.constant(before);
    run.row = Index{weighted_sum(builder_, {grid_->index(sizes_.row_dimension()), digits[1]},
                                 {sizes_.out_rows.block, run.count}),
                    rows.first};
    run.array_row = run.row;
    run.column = Index{weighted_sum(builder_, {grid_->index(sizes_.column_dimension()), digits[0]},
                                    {sizes_.out_columns.block, 1}),
                       columns.first};
    finish_run(run);
    counter.advance(counter.next());
  });
  builder_.new_block();
}

}  // namespace tpu::compiler
