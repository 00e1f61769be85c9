#include <algorithm>
#include <map>

#include "sim/base/error.h"
#include "workloads/compiler/kernels/dot_emitter.h"
#include "workloads/compiler/kernels/step_counter.h"

namespace tpu::compiler {

namespace {

using hlo::ElementType;

}  // namespace

void DotKernel::work() {
  if (masks_k() && !problem_.rhs_transposed) clear_weight_rows();
  if (problem_.matrix_k != 0) clear_padding_between_matrices();
  if (problem_.lhs_transposed) transpose_rows();
  builder_.new_block();
  multiply();
  if (sums_apart()) finish();
}

/// Rows of the last weight tiles that lie beyond k become 0: the rows of x are masked, but 0 times
/// what stands there must be 0.
void DotKernel::clear_weight_rows() {
  const std::uint32_t valid = problem_.k - (k_tiles_ - tiling_.block_k) * 128;
  const bool several = !problem_.outer.empty() && problem_.outer.back().rhs != 0;
  const std::uint32_t matrix = 16 * tiling_.block_k * tiling_.block_n * w_tile_;
  const PReg last = both(builder_, grid_->is_last(k_dimension()), grid_->fresh(w_input_));
  emit_if(builder_, last, [&] {
    const VmemAddress weights = grid_->input(w_input_);
    for (std::uint32_t o = 0; o < (several ? tiling_.block_outer : 1); ++o) {
      memory_.clear_rows(problem_.rhs_type, weights.plus(std::int64_t{o} * matrix), valid,
                         k_tiles_ == 1 ? weight_pushes_ : 16 * tiling_.block_k, tiling_.block_n);
    }
  });
}

/// Where k counts the rows of several matrices with their padding, that becomes 0 on both sides.
void DotKernel::clear_padding_between_matrices() {
  clear_padding(x_input_, problem_.lhs_type, &OuterDimension::lhs, tiles_of(tiling_.block_m, 16));
  clear_padding(w_input_, problem_.rhs_type, &OuterDimension::rhs, tiling_.block_n);
}

/// In the present block of a side, `columns` tiles to a row.
void DotKernel::clear_padding(int input, ElementType type, std::uint32_t OuterDimension::*stride,
                              std::uint32_t columns) {
  const std::uint32_t rows = 16 * tiling_.block_k;
  const std::uint32_t period = tiles_of(problem_.matrix_k, 8);
  const bool several = !problem_.outer.empty() && problem_.outer.back().*stride != 0;
  const std::uint32_t matrices = several ? tiling_.block_outer : 1;
  emit_if(builder_, grid_->fresh(input), [&] {
    builder_.new_block();
    // Tile of the block in which the first matrix ends.
    const Index first{weighted_sum(builder_, {grid_->index(k_dimension())}, {rows}), 0};
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
  const std::uint32_t at_once = turn.at_once(tiling_.block_outer);
  builder_.new_block();
  StepCounter counter(builder_,
                      {tiling_.block_outer / at_once, turned.blocks[0], turned.blocks[1]});
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
      for (std::uint32_t i = 0; i < turn.pushes; ++i) {
        const VmemAddress row =
            from.plus(std::int64_t{matrix} * turned.from[0] + i * turned.source_row);
        builder_.transpose_push(memory_.load_rows(turned.type, row), 8 * turn.pops, i, turn.pushes);
      }
    }
  };
  push(std::vector<SReg>(3));
  builder_.loop(counter.steps(), [&](SReg) {
    const std::vector<SReg> next = counter.next();
    const VmemAddress to = place(counter.present(), turned.target, turned.to);
    push(next);
    for (std::uint32_t matrix = 0; matrix < at_once; ++matrix) {
      for (std::uint32_t i = 0; i < turn.pops; ++i) {
        const std::int64_t row = std::int64_t{matrix} * turned.to[0] + i * turned.target_row;
        builder_.store(to.plus(row), builder_.transpose_pop());
      }
    }
    counter.advance(next);
  });
  // What the last step pushed is nobody's.
  for (std::uint32_t i = 0; i < at_once * turn.pops; ++i) builder_.transpose_pop();
  builder_.new_block();
}

/// Turns the left blocks, [k, m] as they come, into [m, k].
void DotKernel::transpose_rows() {
  const std::uint32_t m_columns = tiles_of(tiling_.block_m, 16);
  const std::uint32_t block_k = tiling_.block_k;
  Turned turned;
  turned.turn = turn_of_rows(problem_, tiling_);
  turned.blocks = {block_k, m_columns};
  turned.from = {block_k * 16 * m_columns * x_tile_, 16 * m_columns * x_tile_, x_tile_};
  turned.to = {tiling_.block_m * block_k * 8, 8, 16 * block_k * 8};
  turned.source = grid_->input(x_input_);
  turned.target = VmemAddress(transposed_);
  turned.source_row = m_columns * x_tile_;
  turned.target_row = block_k * 8;
  turned.type = problem_.lhs_type;
  emit_if(builder_, grid_->fresh(x_input_), [&] { transpose(turned); });
}

/// Turns complete sums, [m, n], into [n, m].
void DotKernel::turn_sums() {
  const std::uint32_t m_columns = tiles_of(tiling_.block_m, 16);
  Turned turned;
  turned.turn = turn_of_result(problem_, tiling_);
  turned.blocks = {m_columns, tiling_.block_n};
  turned.from = {tiling_.block_m * tiling_.block_n * 8, 16 * tiling_.block_n * 8, 8};
  turned.to = {out_rows_.block * out_columns_.block * 8, 8, 16 * m_columns * 8};
  turned.source = VmemAddress(sums_);
  turned.target = turned_.rows > 0 ? VmemAddress(turned_) : grid_->output(0);
  turned.source_row = tiling_.block_n * 8;
  turned.target_row = m_columns * 8;
  transpose(turned);
}

PReg DotKernel::is_first_sum() {
  PReg all;
  for (int d = first_k_dimension(); d <= k_dimension(); ++d) {
    all = both(builder_, all, grid_->is_first(d));
  }
  return all;
}

PReg DotKernel::is_last_sum() {
  PReg all;
  for (int d = first_k_dimension(); d <= k_dimension(); ++d) {
    all = both(builder_, all, grid_->is_last(d));
  }
  return all;
}

/// Whether a step's last tile is the last one along k; none: it is.
PReg DotKernel::is_last_tile(const std::vector<SReg>& digits) {
  const PReg block = grid_->is_last(k_dimension());
  const std::uint32_t last = tiling_.block_k / tiling_.k_parts - 1;
  const PReg step = digits[2] ? builder_.equal(digits[2], last) : PReg();
  return both(builder_, block, step);
}

void DotKernel::multiply() {
  const DotTiling& t = tiling_;
  const VmemAddress x_block =
      problem_.lhs_transposed ? VmemAddress(transposed_) : grid_->input(x_input_);
  const ElementType x_type = problem_.lhs_transposed ? ElementType::kF32 : problem_.lhs_type;
  const std::uint32_t x_tile = problem_.lhs_transposed ? 8 : x_tile_;
  const VmemAddress w_block = grid_->input(w_input_);
  const VmemAddress sums = sums_apart() ? VmemAddress(sums_) : grid_->output(0);
  const OuterDimension none{};
  const OuterDimension& inner = problem_.outer.empty() ? none : problem_.outer.back();

  const std::uint32_t k_steps = t.block_k / t.k_parts;
  StepCounter counter(builder_, {t.block_outer / t.lots, t.block_n / t.columns_at_once, k_steps,
                                 t.block_m / t.chunk_m});
  const std::uint32_t x_matrix = inner.lhs != 0 ? t.block_m * t.block_k * x_tile : 0;
  const std::vector<std::uint32_t> x_distances{t.lots * x_matrix, 0, t.k_parts * x_tile,
                                               t.chunk_m * t.block_k * x_tile};
  const std::uint32_t w_matrix = inner.rhs != 0 ? 16 * t.block_k * t.block_n * w_tile_ : 0;
  // From a tile of weights to the next one along k, and along the columns.
  const std::uint32_t w_part = (problem_.rhs_transposed ? 1 : 16 * t.block_n) * w_tile_;
  const std::uint32_t w_column = (problem_.rhs_transposed ? 16 * t.block_k : 1) * w_tile_;
  const std::vector<std::uint32_t> w_distances{t.lots * w_matrix, t.columns_at_once * w_column,
                                               t.k_parts * w_part, 0};
  const std::uint32_t sum_matrix = t.block_m * t.block_n * 8;
  const std::vector<std::uint32_t> sum_distances{t.lots * sum_matrix, t.columns_at_once * 8, 0,
                                                 t.chunk_m * t.block_n * 8};
  const SVariable previous_row =
      builder_.scalar_variable(sums.base ? ScalarOperand(sums.base) : ScalarOperand(0));
  const SVariable previous_mask = builder_.scalar_variable(0);

  const auto row_of = [&](std::uint32_t unit, std::uint32_t i) {
    return units_.group_of(unit) * pushes_ + i % pushes_;
  };
  MatmulStream::Step step;
  step.pushes = pushes_;
  step.transposed = problem_.rhs_transposed;
  const auto weights = [&](const std::vector<SReg>& digits) {
    const SReg base = weighted_sum(builder_, digits, w_distances, w_block.base);
    const bool masked = masks_k() && problem_.rhs_transposed;
    const VReg mask = masked ? memory_.mask(problem_.rhs_type, is_last_tile(digits)) : VReg();
    auto loaded = std::make_shared<std::map<std::uint32_t, VReg>>();
    return [=](std::uint32_t lot, std::uint32_t unit, std::uint32_t j, std::uint32_t part) {
      const std::uint32_t row_tile = weight_pushes_ - 1 - j;
      const std::uint32_t row = (problem_.rhs_transposed ? tiling_.block_k : tiling_.block_n);
      const std::uint32_t at = lot * w_matrix + part * w_part + units_.column_of(unit) * w_column +
                               row_tile * row * w_tile_;
      const bool is_masked = part + 1 == tiling_.k_parts;
      const auto [found, is_new] = loaded->try_emplace(at);
      if (is_new) {
        found->second = memory_.load_weights(problem_.rhs_type, {w_block.region, at, base},
                                             is_masked ? mask : VReg());
      }
      return found->second;
    };
  };
  const auto consume_at = [&](SReg row, SReg mask, SReg before, SReg before_mask, PReg started) {
    return [=](std::uint32_t unit, std::uint32_t i, bool previous, VReg result) {
      const std::uint32_t at = i / pushes_ * sum_matrix +
                               (row_of(unit, i) * tiling_.block_n + units_.column_of(unit)) * 8;
      VmemAddress address(sums.region, at, previous ? before : row);
      VmemAddress source = address;
      source.mask_register = previous ? before_mask : mask;
      const VReg sum = builder_.add(builder_.load(source), result);
      const auto guard = previous && started ? PredicateOperand(started) : PredicateOperand(true);
      builder_.guarded(guard, [&] { builder_.store(address, sum); });
    };
  };

  std::vector<SReg> zeros(4);
  if (k_steps > 1) zeros[2] = builder_.constant(0);
  const auto first_weights = weights(zeros);
  step.next_weights = [=](std::uint32_t unit, std::uint32_t j, std::uint32_t part) {
    return first_weights(0, unit, j, part);
  };
  if (overlaps()) start_finishing();
  stream_.begin(step);
  builder_.loop(counter.steps(), [&](SReg index) {
    const std::vector<SReg> digits = counter.present();
    const std::vector<SReg> next = counter.next();
    const SReg x_row = weighted_sum(builder_, digits, x_distances, x_block.base);
    SReg sum_row = weighted_sum(builder_, digits, sum_distances, sums.base);
    if (!sum_row) sum_row = builder_.constant(0);
    // The first sum over k begins at 0: the load of nothing gives 0.
    const PReg starts_block = is_first_sum();
    const PReg starts_step = digits[2] ? builder_.equal(digits[2], 0) : PReg();
    const PReg starts = both(builder_, starts_block, starts_step);
    const SReg mask = starts ? builder_.select(starts, 0, 0xff) : builder_.constant(0);
    const VReg x_mask = masks_k() ? memory_.mask(x_type, is_last_tile(digits)) : VReg();
    std::map<std::uint32_t, VReg> loaded;
    step.rows = [&](std::uint32_t unit, std::uint32_t i, std::uint32_t part) {
      const std::uint32_t at =
          i / pushes_ * x_matrix + (row_of(unit, i) * t.block_k + part) * x_tile;
      const auto [found, is_new] = loaded.try_emplace(at);
      if (is_new) {
        const VmemAddress address(x_block.region, at, x_row);
        found->second = memory_.load_rows(x_type, address, part + 1 == t.k_parts ? x_mask : VReg());
      }
      return found->second;
    };
    const auto behind = weights(next), within = t.lots > 1 ? weights(digits) : behind;
    step.next_weights = [=](std::uint32_t unit, std::uint32_t j, std::uint32_t part) {
      const std::uint32_t lot = j / weight_pushes_ + 1, push = j % weight_pushes_;
      return lot < tiling_.lots ? within(lot, unit, push, part) : behind(0, unit, push, part);
    };
    step.consume = consume_at(sum_row, mask, builder_.get(previous_row),
                              builder_.get(previous_mask), builder_.less(0, index));
    TileRun run;
    if (overlaps()) {
      run = run_in_step();
      begin_run(run);
      step.meanwhile = [&](std::uint32_t i) {
        for (std::uint32_t tile = i * run.count / pushes_; tile < (i + 1) * run.count / pushes_;
             ++tile) {
          finish_tile(run, tile);
        }
      };
    }
    stream_.step(step);
    if (overlaps()) {
      results_.end(position_);
      advance_finishing(digits);
    }
    builder_.set(previous_row, sum_row);
    builder_.set(previous_mask, mask);
    counter.advance(next);
  });
  step.meanwhile = {};
  step.consume = consume_at({}, {}, builder_.get(previous_row), builder_.get(previous_mask), {});
  stream_.end(step);
  builder_.new_block();
}

}  // namespace tpu::compiler
