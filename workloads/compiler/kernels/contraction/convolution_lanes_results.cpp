#include <algorithm>
#include <array>

#include "workloads/compiler/kernels/contraction/contraction_blocks.h"
#include "workloads/compiler/kernels/contraction/convolution_lanes_emitter.h"

namespace tpu::compiler {

using isa::Opcode;

/// Complete sums become results.
void LanesKernel::finish() {
  if (!results_.is_identity()) apply_epilogue();
  round_results(memory_, *grid_, unrounded_, sizes_.sum_rows / 8);
}

/// The lanes of a pixel that belong to the result, for sums; none: all of all pixels.
MReg LanesKernel::inside(SReg y, SReg x, PReg is_live) {
  if (!epilogue_.has_sums()) return {};
  const std::uint32_t rows = tiles_of(sizes_.pixels_y, tiling_.block_y) * sizes_.out_y;
  const bool whole_rows = rows == height().output;
  const bool whole_columns = sizes_.out_x * tiling_.blocks_x == width().output;
  // Padding of the batch adds to sums over it.
  const bool adds_lanes = epilogue_.has_results(MatmulEpilogue::Result::Kind::kRows);
  const std::uint32_t last_lanes = adds_lanes ? problem_.rows - (sizes_.lane_tiles - 1) * 128 : 128;
  if (whole_rows && whole_columns && last_lanes == 128 && !is_live) return {};
  SReg lanes = builder_.constant(last_lanes);
  const PReg last = last_lanes < 128 ? grid_->is_last(kLanes) : PReg();
  if (last) lanes = builder_.select(last, last_lanes, 128);
  const auto keep = [&](SReg pixel, int dimension, std::uint32_t step, std::int64_t extent) {
    const SReg at = weighted_sum(builder_, {grid_->index(dimension)}, {step}, pixel);
    lanes = builder_.select(builder_.less(at, extent), lanes, 0);
  };
  if (!whole_rows) keep(y, kY, sizes_.out_y, height().output);
  if (!whole_columns) keep(x, kX, sizes_.out_x, width().output);
  if (is_live) lanes = builder_.select(is_live, lanes, 0);
  return builder_.vector_compare(Opcode::kVcmpLtS32, builder_.and_(builder_.lane_sequence(), 127),
                                 builder_.splat(lanes));
}

/// Tiles of features of a pixel go in pairs: a register has the even rows of both, another one the
/// odd rows, as packed arrays stand in memory.
bool LanesKernel::pairs_tiles() const { return tiling_.block_columns % 2 == 0; }

void LanesKernel::apply_epilogue() {
  const std::uint32_t columns = tiling_.block_columns;
  const bool has_sums = epilogue_.has_sums();
  const std::uint32_t unroll = largest_divisor(columns, has_sums ? 4 : 8, pairs_tiles() ? 2 : 1);
  const std::uint32_t pixels = largest_divisor(sizes_.out_x, has_sums ? 8 : 1);
  builder_.new_block();
  StepCounter counter(builder_, {columns / unroll, sizes_.out_y, sizes_.out_x / pixels});
  builder_.loop(counter.steps(), [&](SReg) {
    apply_to_pixels(counter.present(), unroll, pixels);
    counter.advance(counter.next());
  });
  builder_.new_block();
}

/// `unroll` tiles of each of some neighbouring pixels of the block.
void LanesKernel::apply_to_pixels(const std::vector<SReg>& digits, std::uint32_t unroll,
                                  std::uint32_t pixels) {
  const std::uint32_t columns = tiling_.block_columns;
  const SReg zero = builder_.constant(0);
  const SReg column = weighted_sum(builder_, {digits[0]}, {unroll}, zero);
  const SReg x = weighted_sum(builder_, {digits[2]}, {pixels}, zero);
  // All tiles share their base: the scheduler sees that they do not overlap.
  const SReg tiles =
      weighted_sum(builder_, {digits[1], x}, {sizes_.out_x * columns, columns}, column);
  TileExpressionEmitter::Position position;
  position.rows32 = builder_.shift_left(tiles, 3);
  position.rows16 = builder_.shift_left(tiles, 2);
  std::vector<VmemAddress> blocks;
  for (int input : epilogue_inputs_) blocks.push_back(grid_->input(input));
  results_.begin(blocks);
  results_.begin_row_sums(unroll, pairs_tiles());
  // Nothing else depends on the pixel: matmul_epilogue() sees to it.
  position.place.digits.resize(4);
  const Index row{weighted_sum(builder_, {grid_->index(kColumns)}, {columns}, column), 0};
  position.place.digits[3] = {grid_->index(kLanes), 0};
  position.place.lane_key = 0;
  const std::uint32_t step = pairs_tiles() ? 2 : 1;
  for (std::uint32_t pixel = 0; pixel < pixels; ++pixel) {
    position.inside = inside(digits[1] ? digits[1] : zero, pixel > 0 ? builder_.add(x, pixel) : x);
    for (std::uint32_t i = 0; i < unroll; i += step) {
      position.tiles = pixel * columns + i;
      position.place.row_key = static_cast<int>(pixel * unroll + i);
      position.place.digits[2] = row.plus(i);
      pairs_tiles() ? apply_to_pair(position) : apply_to_tile(position);
    }
  }
  results_.end_row_sums(row, position.place.digits[3]);
}

void LanesKernel::apply_to_tile(TileExpressionEmitter::Position& position) {
  const VReg product = builder_.load({sums_, 8 * position.tiles, position.rows32});
  const std::vector<VReg> results = results_.apply(position, product);
  for (std::size_t i = 0; i < results.size(); ++i) {
    VmemAddress out = is_packed(problem_.result_types[i]) ? VmemAddress(unrounded_[i])
                                                          : grid_->output(static_cast<int>(i));
    out.base2 = position.rows32;
    builder_.store(out.plus(8 * position.tiles), results[i]);
  }
}

void LanesKernel::apply_to_pair(TileExpressionEmitter::Position& position) {
  const VmemAddress sum(overlaps() ? finished_sums_ : sums_, 8 * position.tiles, position.rows32);
  std::array<std::vector<VReg>, 2> results;
  for (const int odd : {0, 1}) {
    position.rows = odd == 0 ? Rows::kEven : Rows::kOdd;
    position.place.row_key += odd;
    results[odd] = results_.apply(position, builder_.load(sum.plus(odd).stride(2)));
  }
  for (std::size_t i = 0; i < results[0].size(); ++i) {
    VmemAddress out = grid_->output(static_cast<int>(i));
    if (is_packed(problem_.result_types[i])) {
      out.base2 = position.rows16;
      builder_.store(out.plus(4 * position.tiles),
                     builder_.pack_bf16(results[0][i], results[1][i]));
      continue;
    }
    out.base2 = position.rows32;
    for (const int odd : {0, 1}) {
      builder_.store(out.plus(8 * position.tiles + odd).stride(2), results[odd][i]);
    }
  }
}

/// The pairs that are complete behind the steps with these digits.
LanesKernel::FinishedPairs LanesKernel::begin_pairs(const std::vector<SReg>& digits, PReg is_live) {
  const std::uint32_t columns = tiling_.block_columns;
  const std::uint32_t rows = sizes_.phases_y * rows_at_once();
  const std::uint32_t pixels = sizes_.phases_x * tiling_.group * groups_at_once();
  const auto place = [&](std::uint32_t word) {
    if (!digits[kUnit]) return builder_.constant(0);
    return builder_.load_smem(finished_ + word, builder_.mul(digits[kUnit], 4));
  };
  FinishedPairs run;
  const SReg tiles =
      weighted_sum(builder_, digits,
                   {0, rows * sizes_.out_x * columns, pixels * columns, tiling_.chunk}, place(0));
  run.position.rows32 = builder_.shift_left(tiles, 3);
  run.position.rows16 = builder_.shift_left(tiles, 2);
  run.column = weighted_sum(builder_, {grid_->index(kColumns), digits[kChunk]},
                            {columns, tiling_.chunk}, place(1));
  run.y = weighted_sum(builder_, {digits[kPixelY]}, {rows}, place(2));
  run.x = weighted_sum(builder_, {digits[kGroup]}, {pixels}, place(3));
  if (epilogue_.has_sums()) {
    run.is_live = is_live;
    const std::uint32_t parts =
        pairs_of_units(problem_, tiling_, builder_.target()) / tiling_.finished_pairs;
    if (digits[kUnit] && parts < patches_.units.size()) {
      run.is_live = both(builder_, is_live, builder_.less(digits[kUnit], parts));
    }
  }
  std::vector<VmemAddress> blocks;
  for (int input : epilogue_inputs_) blocks.push_back(grid_->input(input));
  results_.begin(blocks);
  run.position.place.digits.resize(4);
  run.position.place.digits[3] = {grid_->index(kLanes), 0};
  run.position.place.lane_key = 0;
  return run;
}

/// Those of one tile of features follow each other: their sums stay in registers.
void LanesKernel::finish_pair(FinishedPairs& run, std::uint32_t pair) {
  const Target& target = builder_.target();
  const PairPlace place = pair_place(problem_, tiling_, target, pair);
  const Index row{run.column, place.column};
  const bool is_first =
      pair == 0 || pair_place(problem_, tiling_, target, pair - 1).column != place.column;
  const bool is_last = pair + 1 == tiling_.finished_pairs ||
                       pair_place(problem_, tiling_, target, pair + 1).column != place.column;
  TileExpressionEmitter::Position& position = run.position;
  position.tiles =
      (std::int64_t{place.row} * sizes_.out_x + place.x) * tiling_.block_columns + place.column;
  position.place.row_key = static_cast<int>(2 * pair);
  position.place.digits[2] = row;
  const auto moved = [&](SReg first, std::uint32_t by) {
    return by > 0 ? builder_.add(first, by) : first;
  };
  position.inside = inside(moved(run.y, place.row), moved(run.x, place.x), run.is_live);
  if (is_first) results_.begin_row_sums(2, true);
  apply_to_pair(position);
  if (is_last) results_.end_row_sums(row, position.place.digits[3]);
}

/// The last products have no steps behind them.
void LanesKernel::finish_last_pairs(StepCounter& counter) {
  builder_.loop(std::min(delay(), counter.steps()), [&](SReg) {
    FinishedPairs run = begin_pairs(step_digits(counter.present()), {});
    for (std::uint32_t pair = 0; pair < tiling_.finished_pairs; ++pair) finish_pair(run, pair);
    counter.advance(counter.next());
  });
  builder_.new_block();
}

}  // namespace tpu::compiler
