#include "workloads/compiler/kernels/contraction/joined_weights.h"

#include <vector>

#include "workloads/compiler/kernels/tiles/step_counter.h"

namespace tpu::compiler {

namespace {

/// Tiles of 8 rows that are turned in one piece of code.
constexpr std::uint32_t kTurnedTiles = 4;
/// Addresses, first loads and last stores of such a piece.
constexpr double kTilesCycles = 40;

}  // namespace

JoinedWeights::JoinedWeights(KernelBuilder& builder, MatmulMemory& memory,
                             const ConvolutionProblem& problem, const WindowJoin& join,
                             std::uint32_t columns)
    : builder_(builder),
      memory_(memory),
      problem_(problem),
      join_(join),
      columns_(columns),
      tile_(tile_rows(problem.window_type)) {
  region_ = builder_.allocate_vmem(rows(problem, join, columns));
  store_table();
}

std::uint32_t JoinedWeights::row_tiles(const ConvolutionProblem& problem, const WindowJoin& join,
                                       std::uint32_t columns) {
  if (problem.window_transposed) return 16 * columns;
  return join.y.joined * join.x.joined * join.pitch / 8;
}

std::uint32_t JoinedWeights::rows(const ConvolutionProblem& problem, const WindowJoin& join,
                                  std::uint32_t columns) {
  const std::uint32_t across = problem.window_transposed ? 1 : columns;
  return join.y.groups * join.x.groups * row_tiles(problem, join, columns) * across * 8;
}

double JoinedWeights::cycles(const ConvolutionProblem& problem, const WindowJoin& join,
                             std::uint32_t columns, const Target& target) {
  const double groups = double(join.y.groups) * join.x.groups;
  const double positions = double(join.y.joined) * join.x.joined;
  if (!problem.window_transposed) {
    return groups * positions * columns * (kTilesCycles + 2.0 * join.pitch / 8);
  }
  return groups * columns * (16.0 / kTurnedTiles) *
         (kTilesCycles + target.xlu_latency_cycles +
          kTurnedTiles * (positions - 1) * target.xlu_interval_cycles);
}

/// Per group and position in it: where its matrix stands in the block of the window, and a mask, 0
/// beyond the window.
void JoinedWeights::store_table() {
  table_ = builder_.allocate_smem(groups() * positions() * kWords);
  const auto& [height, width] = problem_.spatial;
  const std::uint32_t matrix = problem_.window_transposed
                                   ? 16 * columns_ * tile_
                                   : tiles_of(problem_.contracted, 8) * columns_ * tile_;
  std::uint32_t word = table_;
  for (std::uint32_t group = 0; group < groups(); ++group) {
    for (std::uint32_t i = 0; i < positions(); ++i, word += kWords) {
      const std::int64_t y = group / join_.x.groups * join_.y.joined + i / join_.x.joined;
      const std::int64_t x = group % join_.x.groups * join_.x.joined + i % join_.x.joined;
      const bool inside = y < height.window && x < width.window;
      const std::int64_t h = height.reversed ? height.window - 1 - y : y;
      const std::int64_t w = width.reversed ? width.window - 1 - x : x;
      const auto position = static_cast<std::uint32_t>(inside ? h * width.window + w : 0);
      builder_.store_smem(word, position * matrix);
      builder_.store_smem(word + 1, inside ? 0xffffffffU : 0U);
    }
  }
}

void JoinedWeights::make(const VmemAddress& window) {
  builder_.new_block();
  problem_.window_transposed ? turn(window) : stack(window);
  builder_.new_block();
}

/// Positions below each other; rows behind the features are 0.
void JoinedWeights::stack(const VmemAddress& window) {
  const std::uint32_t tiles = join_.pitch / 8, valid = problem_.contracted - 8 * (tiles - 1);
  StepCounter counter(builder_, {groups() * positions(), columns_});
  builder_.loop(counter.steps(), [&](SReg) {
    const std::vector<SReg> digits = counter.present();
    const SReg entry = digits[0] ? builder_.mul(digits[0], kWords) : builder_.constant(0);
    const SReg from =
        weighted_sum(builder_, {digits[1]}, {tile_}, builder_.load_smem(table_, entry));
    const VReg mask = builder_.splat(builder_.load_smem(table_ + 1, entry));
    const SReg to = weighted_sum(builder_, digits, {tiles * columns_ * 8, 8});
    for (std::uint32_t i = 0; i < tiles; ++i) {
      const VmemAddress source(window.region, window.offset + std::int64_t{i} * columns_ * tile_,
                               from, window.base);
      VReg rows = memory_.load_rows(problem_.window_type, source);
      rows = builder_.and_(rows, mask);
      if (i + 1 == tiles && valid < 8) {
        const VReg row = builder_.shift_right(builder_.lane_sequence(), 7);
        const MReg inside =
            builder_.vector_compare(isa::Opcode::kVcmpLtS32, row, static_cast<int>(valid));
        rows = builder_.select(inside, rows, 0.0F);
      }
      builder_.store({region_, std::int64_t{i} * columns_ * 8, to}, rows);
    }
    counter.advance(counter.next());
  });
}

/// Positions beside each other.
void JoinedWeights::turn(const VmemAddress& window) {
  StepCounter counter(builder_, {groups(), 16 * columns_ / kTurnedTiles});
  builder_.loop(counter.steps(), [&](SReg) {
    const std::vector<SReg> digits = counter.present();
    const SReg entry =
        digits[0] ? builder_.mul(digits[0], positions() * kWords) : builder_.constant(0);
    const VReg lanes = memory_.mask(problem_.window_type, PReg());
    std::vector<VReg> united(kTurnedTiles);
    for (std::uint32_t i = 0; i < positions(); ++i) {
      const std::uint32_t word = table_ + i * kWords;
      const SReg from = weighted_sum(builder_, {digits[1]}, {kTurnedTiles * tile_},
                                     builder_.load_smem(word, entry));
      const VReg mask = builder_.and_(lanes, builder_.splat(builder_.load_smem(word + 1, entry)));
      for (std::uint32_t j = 0; j < kTurnedTiles; ++j) {
        const VmemAddress source(window.region, window.offset + std::int64_t{j} * tile_, from,
                                 window.base);
        const VReg rows = memory_.load_rows(problem_.window_type, source, mask);
        united[j] =
            i == 0 ? rows : builder_.or_(united[j], builder_.rotate_lanes(rows, i * join_.pitch));
      }
    }
    const SReg to = weighted_sum(builder_, digits, {16 * columns_ * 8, kTurnedTiles * 8});
    for (std::uint32_t j = 0; j < kTurnedTiles; ++j) {
      builder_.store({region_, std::int64_t{8} * j, to}, united[j]);
    }
    counter.advance(counter.next());
  });
}

}  // namespace tpu::compiler
