#include <algorithm>
#include <memory>
#include <utility>

#include "sim/base/error.h"
#include "workloads/compiler/kernels/contraction/dot_emitter.h"

namespace tpu::compiler {

namespace {

using hlo::ElementType;

}  // namespace

void DotKernel::work() {
  const int m = sizes_.m_dimension(), n = sizes_.n_dimension(), k = sizes_.k_dimension();
  left_.make(*grid_, [&] { return made_side(sizes_.left, problem_.lhs_transposed ? m : k); });
  right_.make(*grid_, [&] { return made_side(sizes_.right, problem_.rhs_transposed ? k : n); });
  if (problem_.k % 128 != 0 || sizes_.has_padded_k()) clear_beyond_k();
  if (problem_.matrix_k != 0) clear_padding_between_matrices();
  if (problem_.lhs_transposed) tiling_.turns_beside ? transpose_first_rows() : transpose_rows();
  builder_.new_block();
  multiply();
  if (sizes_.sums_apart) finish();
}

/// What lies beyond k becomes 0: rows of the last weight tiles, for the rows of x are masked, but 0
/// times what stands there must be 0. Where whole tiles lie there, it does on both sides.
void DotKernel::clear_beyond_k() {
  const std::uint32_t valid = sizes_.last_block_k(), block_k = tiling_.block_k;
  const auto clear = [&](int input, ElementType type, std::uint32_t OuterDimension::*stride,
                         bool is_in_rows, std::uint32_t across) {
    const std::uint32_t rows = sizes_.k_tiles == 1 ? weight_pushes_ : 16 * block_k;
    const std::uint32_t matrix = (is_in_rows ? 16 : 1) * block_k * across * tile_rows(type);
    const PReg last = both(builder_, grid_->is_last(sizes_.k_dimension()), grid_->fresh(input));
    emit_if(builder_, last, [&] {
      for (std::uint32_t o = 0; o < matrices_of(problem_, tiling_, stride); ++o) {
        const VmemAddress at = grid_->input(input).plus(std::int64_t{o} * matrix);
        if (is_in_rows) {
          memory_.clear_rows(type, at, valid, rows, across);
        } else {
          memory_.clear_columns(type, at, valid, across, block_k);
        }
      }
    });
  };
  const std::uint32_t n = tiling_.block_n;
  if (!problem_.rhs_transposed) clear(w_input_, problem_.rhs_type, &OuterDimension::rhs, true, n);
  if (!sizes_.has_padded_k()) return;
  if (problem_.rhs_transposed) {
    clear(w_input_, problem_.rhs_type, &OuterDimension::rhs, false, 16 * n);
  }
  const bool turned = problem_.lhs_transposed;
  clear(x_input_, problem_.lhs_type, &OuterDimension::lhs, turned,
        turned ? tiles_of(tiling_.block_m, problem_.lane_row_tiles) : tiling_.block_m);
}

/// Where k counts the rows of several matrices with their padding, that becomes 0 on both sides.
void DotKernel::clear_padding_between_matrices() {
  clear_padding(x_input_, problem_.lhs_type, &OuterDimension::lhs,
                tiles_of(tiling_.block_m, problem_.lane_row_tiles));
  clear_padding(w_input_, problem_.rhs_type, &OuterDimension::rhs, tiling_.block_n);
}

/// In the present block of a side, `columns` tiles to a row.
void DotKernel::clear_padding(int input, ElementType type, std::uint32_t OuterDimension::*stride,
                              std::uint32_t columns) {
  const std::uint32_t rows = 16 * tiling_.block_k;
  const std::uint32_t period = tiles_of(problem_.matrix_k, 8);
  const std::uint32_t matrices = matrices_of(problem_, tiling_, stride);
  emit_if(builder_, grid_->fresh(input), [&] {
    builder_.new_block();
    // Tile of the block in which the first matrix ends.
    const Index first{weighted_sum(builder_, {grid_->index(sizes_.k_dimension())}, {rows}), 0};
    const Index before = modulo(builder_, first.reg ? first : Index{}, period);
    const SReg end = builder_.sub(period - 1, to_operand(builder_, before));
    builder_.loop(rows / period + 1, [&](SReg number) {
      const SReg tile = builder_.add(end, builder_.mul(number, period));
      builder_.if_(builder_.less(tile, rows), [&] {
        VmemAddress block = grid_->input(input);
        block.base2 = builder_.mul(tile, columns * tile_rows(type));
        for (std::uint32_t o = 0; o < matrices; ++o) {
          memory_.clear_rows(type, block.plus(std::int64_t{o} * rows * columns * tile_rows(type)),
                             problem_.matrix_k % 8, 1, columns);
        }
      });
    });
    builder_.new_block();
  });
}

/// Turns blocks, a few matrices' at a time where they are small. The results of blocks are popped
/// while the next ones are pushed.
void DotKernel::transpose(const Turned& turned) {
  const Turn& turn = turned.turn;
  const std::uint32_t at_once = turn.at_once();
  builder_.new_block();
  StepCounter counter(builder_, {turn.matrices / at_once, turned.blocks[0], turned.blocks[1]});
  const auto place = [&](const std::vector<SReg>& digits, const VmemAddress& base,
                         const std::array<std::uint32_t, 3>& distances) {
    VmemAddress at = base;
    at.base = weighted_sum(builder_, digits, {distances[0] * at_once, distances[1], distances[2]},
                           base.base);
    return at;
  };
  const auto push = [&](const std::vector<SReg>& digits) {
    const VmemAddress from = place(digits, turned.source, turned.from);
    for (std::uint32_t matrix = 0; matrix < at_once; ++matrix) {
      const VmemAddress block = from.plus(std::int64_t{matrix} * turned.from[0]);
      for (std::uint32_t i = 0; i < turn.pushes; ++i) push_turned(turned, block, i);
    }
  };
  push(std::vector<SReg>(3));
  builder_.loop(counter.steps(), [&](SReg) {
    const std::vector<SReg> next = counter.next();
    const VmemAddress to = place(counter.present(), turned.target, turned.to);
    push(next);
    for (std::uint32_t matrix = 0; matrix < at_once; ++matrix) {
      const VmemAddress block = to.plus(std::int64_t{matrix} * turned.to[0]);
      for (std::uint32_t i = 0; i < turn.pops; ++i) pop_turned(turned, block, i);
    }
    counter.advance(next);
  });
  drop_turned(at_once, turn);
  builder_.new_block();
}

/// The left blocks, [k, m] as they come, that become [m, k].
DotKernel::Turned DotKernel::turned_rows() const {
  const std::uint32_t lanes = problem_.lane_row_tiles;
  const std::uint32_t m_columns = tiles_of(tiling_.block_m, lanes);
  const std::uint32_t block_k = tiling_.block_k;
  Turned turned;
  turned.turn = turn_of_rows(problem_, tiling_);
  turned.blocks = {block_k, m_columns};
  turned.from = {block_k * 16 * m_columns * x_tile_, 16 * m_columns * x_tile_, x_tile_};
  turned.to = {tiling_.block_m * block_k * 8, 8, lanes * block_k * 8};
  turned.source = grid_->input(x_input_);
  turned.target = VmemAddress(transposed_);
  turned.source_row = m_columns * x_tile_;
  turned.target_row = block_k * 8;
  turned.type = problem_.lhs_type;
  return turned;
}

/// Two blocks of the innermost kind at a time, where they may be.
void DotKernel::pair(Turned& turned) const {
  std::uint32_t& blocks = turned.blocks[1];
  const std::uint32_t turns = turns_of_blocks(problem_, blocks);
  if (std::exchange(blocks, turns) == turns) return;
  turned.source_pair = std::exchange(turned.from[2], 2 * turned.from[2]);
  turned.target_pair = std::exchange(turned.to[2], 2 * turned.to[2]);
}

void DotKernel::transpose_rows() {
  Turned turned = turned_rows();
  pair(turned);
  emit_if(builder_, grid_->fresh(x_input_), [&] { transpose(turned); });
}

/// Place of a step's rows of the left side, as they come or turned.
VmemAddress DotKernel::rows_of_step(const VmemAddress& of, const Digits& step,
                                    const std::array<std::uint32_t, 3>& distances) {
  VmemAddress at = of;
  at.base =
      weighted_sum(builder_, step,
                   {0, 0, distances[1], turned_by_step(problem_, tiling_) * distances[2]}, of.base);
  return at;
}

/// Push of a row tile of a block, or of two as the halves of words.
void DotKernel::push_turned(const Turned& turned, const VmemAddress& block, std::uint32_t row) {
  const VmemAddress at = block.plus(std::int64_t{row} * turned.source_row);
  VReg rows = memory_.load_rows(turned.type, at);
  if (turned.source_pair > 0) {
    rows = builder_.pack_bf16(rows, memory_.load_rows(turned.type, at.plus(turned.source_pair)));
  }
  builder_.transpose_push(rows, 8 * turned.turn.pops, row, turned.turn.pushes);
}

void DotKernel::pop_turned(const Turned& turned, const VmemAddress& block, std::uint32_t row) {
  const VmemAddress at = block.plus(std::int64_t{row} * turned.target_row);
  const VReg rows = builder_.transpose_pop();
  if (turned.source_pair == 0) return builder_.store(at, rows);
  builder_.store(at, builder_.unpack_even(rows));
  builder_.store(at.plus(turned.target_pair), builder_.unpack_odd(rows));
}

/// Those that the first step of a tile takes, and the push of the first block of the second one's.
void DotKernel::transpose_first_rows() {
  Turned turned = turned_rows();
  turned.blocks = {1, turned_by_step(problem_, tiling_)};
  const bool is_other_row = tiling_.block_m > tiling_.chunk_m;
  Digits second(4);
  second[is_other_row ? 3 : 2] = builder_.constant(1);
  const VmemAddress rows = rows_of_step(turned.source, second, turned.from);
  pair(turned);
  transpose(turned);
  for (std::uint32_t row = 0; row < turned.turn.pushes; ++row) push_turned(turned, rows, row);
}

/// Those that the next step takes. A block's results are popped while the next one is pushed, the
/// last ones' while the first block of the step after next is.
Contraction::Meanwhile DotKernel::transpose_in_step(const Digits& next) {
  Turned turned = turned_rows();
  turned.blocks = {1, turned_by_step(problem_, tiling_)};
  const Digits after = after_next(next);
  const VmemAddress from = rows_of_step(turned.source, next, turned.from);
  const VmemAddress from_after = rows_of_step(turned.source, after, turned.from);
  const VmemAddress to = rows_of_step(VmemAddress(turned_next_), next, turned.to);
  pair(turned);
  const std::uint32_t blocks = turned.blocks[1];
  const std::uint32_t rows = std::max(turned.turn.pushes, turned.turn.pops);
  const auto turn_row = [=](std::uint32_t block, std::uint32_t row) {
    if (row < turned.turn.pushes) {
      const bool is_last = block + 1 == blocks;
      const VmemAddress pushed =
          is_last ? from_after : from.plus(std::int64_t{block + 1} * turned.from[2]);
      push_turned(turned, pushed, row);
    }
    if (row < turned.turn.pops) {
      pop_turned(turned, to.plus(std::int64_t{block} * turned.to[2]), row);
    }
  };
  Contraction::Meanwhile meanwhile;
  meanwhile.push = [=](std::uint32_t i) {
    const std::uint32_t all = blocks * rows;
    const std::uint32_t pushes = pushes_of_step();
    for (std::uint32_t at = i * all / pushes; at < (i + 1) * all / pushes; ++at) {
      turn_row(at / rows, at % rows);
    }
  };
  return meanwhile;
}

/// The digits of rows and of k one step later; 0 again behind the last ones.
Digits DotKernel::after_next(const Digits& next) {
  const std::uint32_t rows = tiling_.block_m / tiling_.chunk_m;
  Digits after(next.size());
  PReg carries;
  if (rows > 1) {
    carries = builder_.equal(next[3], rows - 1);
    after[3] = builder_.select(carries, 0, builder_.add(next[3], 1));
  }
  if (tiling_.block_k == 1) return after;
  const SReg further =
      builder_.select(builder_.equal(next[2], tiling_.block_k - 1), 0, builder_.add(next[2], 1));
  after[2] = carries ? builder_.select(carries, further, next[2]) : further;
  return after;
}

/// The results of blocks that were pushed for a step that nobody takes.
void DotKernel::drop_turned(std::uint32_t blocks, const Turn& turn) {
  for (std::uint32_t i = 0; i < blocks * turn.pops; ++i) builder_.transpose_pop();
}

/// Turns complete sums, [m, n], into [n, m].
void DotKernel::turn_sums() {
  const std::uint32_t m_columns = tiles_of(tiling_.block_m, 16);
  Turned turned;
  turned.turn = turn_of_result(problem_, tiling_);
  turned.blocks = {m_columns, tiling_.block_n};
  turned.from = {tiling_.block_m * tiling_.block_n * 8, 16 * tiling_.block_n * 8, 8};
  turned.to = {sizes_.out_rows.block * sizes_.out_columns.block * 8, 8, 16 * m_columns * 8};
  turned.source = VmemAddress(sums_);
  turned.target = turned_.rows > 0 ? VmemAddress(turned_) : grid_->output(0);
  turned.source_row = tiling_.block_n * 8;
  turned.target_row = m_columns * 8;
  transpose(turned);
}

PReg DotKernel::is_first_sum() {
  PReg all;
  for (int d = sizes_.first_k_dimension(); d <= sizes_.k_dimension(); ++d) {
    all = both(builder_, all, grid_->is_first(d));
  }
  return all;
}

PReg DotKernel::is_last_sum() {
  PReg all;
  for (int d = sizes_.first_k_dimension(); d <= sizes_.k_dimension(); ++d) {
    all = both(builder_, all, grid_->is_last(d));
  }
  return all;
}

/// Whether a step's last tile is the last one along k; none: it is.
PReg DotKernel::is_last_tile(SReg k) {
  const PReg block = grid_->is_last(sizes_.k_dimension());
  const PReg step = k ? builder_.equal(k, tiling_.depth_steps() - 1) : PReg();
  return both(builder_, block, step);
}

/// Row tile that push i of a unit takes, in a lot.
std::uint32_t DotKernel::row_of(std::uint32_t unit, std::uint32_t i) const {
  const std::uint32_t group = units_.groups_take_matrices ? 0 : units_.group_of(unit);
  return group * pushes_ + i % pushes_;
}

/// VMEM rows of a matrix of a side where the block has several; 0: all share one.
std::uint32_t DotKernel::matrix_rows(std::uint32_t OuterDimension::*stride,
                                     std::uint32_t rows) const {
  return has_several_matrices(problem_, stride) ? rows : 0;
}

/// What the left side is stored as where it streams from.
ElementType DotKernel::left_type() const {
  return problem_.lhs_transposed ? ElementType::kF32 : problem_.lhs_type;
}

/// VMEM rows between matrices of the left side.
std::uint32_t DotKernel::left_matrix() const {
  return matrix_rows(&OuterDimension::lhs,
                     tiling_.block_m * tiling_.block_k * tile_rows(left_type()));
}

/// The same of the right side.
std::uint32_t DotKernel::right_matrix() const {
  return matrix_rows(&OuterDimension::rhs, 16 * tiling_.block_k * tiling_.block_n * w_tile_);
}

/// VMEM rows from a step to the next one along each digit but the last.
std::array<std::uint32_t, 3> DotKernel::step_distances(std::uint32_t matrix, std::uint32_t column,
                                                       std::uint32_t k) const {
  return {tiling_.lots_along(LotsOf::kMatrices) * units_.matrices_at_once() * matrix,
          tiling_.lots_along(LotsOf::kColumns) * tiling_.columns_at_once * column,
          tiling_.lots_along(LotsOf::kContracted) * tiling_.k_parts * k};
}

/// The same from a lot of a step to the next one.
std::uint32_t DotKernel::lot_distance(std::uint32_t matrix, std::uint32_t column,
                                      std::uint32_t k) const {
  return step_distances(matrix, column, k)[static_cast<std::size_t>(tiling_.lots_of)] /
         tiling_.lots;
}

/// Whether a tile at a place of a block, in tiles, is the last one along k of its step.
bool DotKernel::ends_step(std::uint32_t place) const {
  const std::uint32_t depth = tiling_.lots_along(LotsOf::kContracted) * tiling_.k_parts;
  return place % tiling_.block_k + 1 == depth;
}

/// Where the rows of the left side begin that stream in a step.
std::vector<SReg> DotKernel::left_places(const VmemAddress& block, const Digits& digits) {
  const std::uint32_t tile = tile_rows(left_type());
  const auto [matrix, column, k] = step_distances(left_matrix(), 0, tile);
  const SReg base = weighted_sum(
      builder_, digits, {matrix, column, k, tiling_.chunk_m * tiling_.block_k * tile}, block.base);
  return {base};
}

/// The rows there. `k`: the step's digit along the contracted dimension.
Contraction::Tiles DotKernel::left_rows(const VmemAddress& block, SReg base, SReg k) {
  const ElementType type = left_type();
  const std::uint32_t tile = tile_rows(type), lot = lot_distance(left_matrix(), 0, tile);
  const std::uint32_t matrix = left_matrix();
  const VReg mask = masks_k() ? memory_.mask(type, is_last_tile(k)) : VReg();
  return loaded_once(
      [=](std::uint32_t unit, std::uint32_t i, std::uint32_t part) {
        return units_.matrix_of(unit) * matrix + i / pushes_ * lot +
               (row_of(unit, i) * tiling_.block_k + part) * tile;
      },
      [=](std::uint32_t at, std::uint32_t) {
        return memory_.load_rows(type, {block.region, at, base},
                                 ends_step(at / tile) ? mask : VReg());
      });
}

/// Where the tiles of the right side begin, for all lots of a step; its digit along the contracted
/// dimension, where tiles have padding there.
std::vector<SReg> DotKernel::right_places(const VmemAddress& block, const Digits& digits) {
  const auto [matrix, column, k] = step_distances(right_matrix(), right_column(), right_part());
  const SReg base = weighted_sum(builder_, digits, {matrix, column, k, 0}, block.base);
  return {base, masks_right() ? digits[2] : SReg()};
}

/// From a tile of weights to the next one along k, and along the columns.
std::uint32_t DotKernel::right_part() const {
  return (problem_.rhs_transposed ? 1 : 16 * tiling_.block_n) * w_tile_;
}
std::uint32_t DotKernel::right_column() const {
  return (problem_.rhs_transposed ? 16 * tiling_.block_k : 1) * w_tile_;
}

/// The tiles there.
Contraction::Tiles DotKernel::right_tiles(const VmemAddress& block,
                                          const std::vector<SReg>& places) {
  const bool transposed = problem_.rhs_transposed;
  const std::uint32_t lot = lot_distance(right_matrix(), right_column(), right_part());
  const std::uint32_t part_rows = right_part(), column = right_column(), matrix = right_matrix();
  const SReg base = places[0];
  const VReg mask =
      masks_right() ? memory_.mask(problem_.rhs_type, is_last_tile(places[1])) : VReg();
  return loaded_once(
      [=](std::uint32_t unit, std::uint32_t j, std::uint32_t part) {
        const std::uint32_t row_tile = weight_pushes_ - 1 - j % weight_pushes_;
        const std::uint32_t row = transposed ? tiling_.block_k : tiling_.block_n;
        return units_.matrix_of(unit) * matrix + j / weight_pushes_ * lot + part * part_rows +
               units_.column_of(unit) * column + row_tile * row * w_tile_;
      },
      [=](std::uint32_t at, std::uint32_t) {
        return memory_.load_weights(problem_.rhs_type, {block.region, at, base},
                                    ends_step(at / w_tile_) ? mask : VReg());
      });
}

/// What a step loads: the tiles of its lots but the first one, then that of the next step.
Contraction::Tiles DotKernel::next_right_tiles(const VmemAddress& block, const Digits& present,
                                               const std::vector<SReg>& next) {
  auto behind = right_tiles(block, next);
  if (present.empty() || tiling_.lots == 1) return behind;
  const auto within = right_tiles(block, right_places(block, present));
  const std::uint32_t last = (tiling_.lots - 1) * weight_pushes_;
  return [=](std::uint32_t unit, std::uint32_t j, std::uint32_t part) {
    return j < last ? within(unit, j + weight_pushes_, part) : behind(unit, j - last, part);
  };
}

/// Sublanes of the sums so far: the first sum over k begins at 0, for the load of nothing gives 0.
SReg DotKernel::sum_mask(const Digits& digits) {
  const PReg in_block = is_first_sum();
  const PReg in_step = digits[2] ? builder_.equal(digits[2], 0) : PReg();
  const PReg starts = both(builder_, in_block, in_step);
  return starts ? builder_.select(starts, 0, 0xff) : builder_.constant(0);
}

/// Tiles of columns that are complete become results behind the pushes of a step.
Contraction::Meanwhile DotKernel::finish_in_step(const Digits& digits) {
  const auto run = std::make_shared<TileRun>(run_in_step());
  begin_run(*run);
  Contraction::Meanwhile meanwhile;
  meanwhile.push = [=](std::uint32_t i) {
    const std::uint32_t pushes = pushes_of_step(), end = (i + 1) * run->count / pushes;
    for (std::uint32_t tile = i * run->count / pushes; tile < end; ++tile) finish_tile(*run, tile);
  };
  meanwhile.end = [=] {
    results_.end(position_);
    advance_finishing(digits);
  };
  return meanwhile;
}

void DotKernel::multiply() {
  const DotTiling& t = tiling_;
  const VmemAddress left =
      problem_.lhs_transposed ? VmemAddress(transposed_) : grid_->input(x_input_);
  const VmemAddress right = grid_->input(w_input_);
  const VmemAddress sums = sizes_.sums_apart ? VmemAddress(sums_) : grid_->output(0);
  const std::uint32_t sum_matrix = t.block_m * t.block_n * 8;
  const std::uint32_t sum_lot = lot_distance(sum_matrix, 8, 0);
  RunningSums::Form form;
  form.has_masks = true;
  if (t.lots_of == LotsOf::kContracted || problem_.is_in_parts()) form.lot = pushes_;
  form.offset = [=](std::uint32_t unit, std::uint32_t i) {
    return units_.matrix_of(unit) * sum_matrix + i / pushes_ * sum_lot +
           (row_of(unit, i) * tiling_.block_n + units_.column_of(unit)) * 8;
  };
  RunningSums running(builder_, units_, sums, form);
  Contraction steps;
  steps.extents = {t.block_outer / (t.lots_along(LotsOf::kMatrices) * units_.matrices_at_once()),
                   t.column_steps(), t.depth_steps(), t.block_m / t.chunk_m};
  steps.pushes = pushes_;
  steps.transposed = problem_.rhs_transposed;
  steps.parts = problem_.parts;
  steps.moving.places = [&](const Digits& digits) { return left_places(left, digits); };
  steps.moving.tiles = [&](const Digits& present, const std::vector<SReg>& places) {
    return left_rows(left, places[0], present[2]);
  };
  steps.stationary.places = [&](const Digits& digits) { return right_places(right, digits); };
  steps.stationary.tiles = [&](const Digits& present, const std::vector<SReg>& places) {
    return next_right_tiles(right, present, places);
  };
  steps.sums = [&](const Digits& digits, PReg started) {
    if (digits.empty()) return running.end();
    const auto [matrix, column, k] = step_distances(sum_matrix, 8, 0);
    const SReg row =
        weighted_sum(builder_, digits, {matrix, column, k, t.chunk_m * t.block_n * 8}, sums.base);
    return running.at({row, sum_mask(digits)}, started);
  };
  steps.advance = [&] { running.advance(); };
  // What shares their time writes and reads by second names, which keep no order within a block.
  // So does the last try where registers run out have one.
  if (overlaps() || t.turns_beside || epilogue_unroll_ == 1) steps.steps_at_once = 1;
  if (overlaps()) {
    start_finishing();
    steps.steps_before = steps_of_columns(tiling_) + 1;
    steps.meanwhile = [this](const Digits& digits, const std::function<Digits()>&, SReg) {
      return finish_in_step(digits);
    };
  }
  if (t.turns_beside) {
    steps.steps_until = steps_of_columns(tiling_);
    steps.meanwhile = [this](const Digits&, const std::function<Digits()>& next, SReg) {
      return transpose_in_step(next());
    };
  }
  emit_steps(builder_, stream_, steps);
  if (t.turns_beside) drop_turned(1, turn_of_rows(problem_, tiling_));
}

}  // namespace tpu::compiler
