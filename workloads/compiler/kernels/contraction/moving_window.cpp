#include "workloads/compiler/kernels/contraction/moving_window.h"

#include <algorithm>

#include "workloads/compiler/kernels/tiles/step_counter.h"

namespace tpu::compiler {

using isa::Opcode;

MovingWindow::MovingWindow(KernelBuilder& builder, MatmulMemory& memory,
                           const ConvolutionProblem& problem, const Patches& patches,
                           std::uint32_t columns, std::uint32_t pitch)
    : builder_(builder),
      memory_(memory),
      problem_(problem),
      patches_(patches),
      columns_(columns),
      pitch_(pitch),
      window_tile_(tile_rows(problem.window_type)) {
  region_ =
      builder_.allocate_vmem(std::uint64_t{patches.blocks * patches.units.size()} * unit_rows());
  store_table();
}

/// VMEM rows of the block of one position of the window.
std::uint32_t MovingWindow::position_rows() const {
  const std::uint32_t tiles = turned() ? columns_ * tiles_of(problem_.contracted, 128)
                                       : tiles_of(problem_.contracted, 8) * tiles_of(columns_, 16);
  return tiles * window_tile_;
}

/// VMEM rows from a block of features to the next in a position's block.
std::uint32_t MovingWindow::block_rows() const {
  const std::uint32_t tiles = turned() ? tiles_of(patches_.feature_tiles, 16)
                                       : patches_.feature_tiles * tiles_of(columns_, 16);
  return tiles * window_tile_;
}

/// Per unit, pixel of the group and run: where the run's first tile stands in the block of the
/// window and a mask, 0 where there is none; or, where lanes are turned, the lanes to turn by and,
/// from bit 8 on, the lane that the run ends before.
void MovingWindow::store_table() {
  const auto units = static_cast<std::uint32_t>(patches_.units.size());
  table_ = builder_.allocate_smem(units * patches_.group * patches_.runs * kWords);
  std::uint32_t word = table_;
  const std::uint32_t run_lanes = 8 * patches_.run_tiles;
  for (const Patches::Unit& unit : patches_.units) {
    for (std::uint32_t pixel = 0; pixel < patches_.group; ++pixel) {
      for (std::uint32_t i = 0; i < patches_.runs; ++i, word += kWords) {
        const Patches::Run& run = unit.runs[i];
        const std::int64_t position = run.positions[pixel];
        const std::uint32_t base =
            position < 0 ? 0 : static_cast<std::uint32_t>(position) * position_rows();
        if (!turned()) {
          const std::uint32_t row = run.tile * tiles_of(columns_, 16) * window_tile_;
          const std::uint32_t ones = is_packed(problem_.window_type) ? 0xffff0000U : 0xffffffffU;
          builder_.store_smem(word, position < 0 ? 0U : base + row);
          builder_.store_smem(word + 1, position < 0 ? 0U : ones);
          continue;
        }
        const std::uint32_t lane = run.tile * 8, to = i * run_lanes;
        const std::uint32_t valid = std::min(run_lanes, problem_.contracted - lane);
        builder_.store_smem(word, position < 0 ? 0U : base + lane / 128 * window_tile_);
        const std::uint32_t end = position < 0 ? to : to + valid;
        builder_.store_smem(word + 1, end << 8 | (to + 128 - lane % 128) % 128);
      }
    }
  }
}

void MovingWindow::make(const VmemAddress& window) {
  if (turned()) {
    turn(window);
  } else {
    if (problem_.contracted % 8 != 0) clear_padding(window);
    transpose(window);
  }
  builder_.new_block();
}

void MovingWindow::clear_padding(const VmemAddress& window) {
  const auto positions =
      static_cast<std::uint32_t>(problem_.spatial[0].window * problem_.spatial[1].window);
  builder_.new_block();
  builder_.loop(positions, [&](SReg position) {
    SReg row = builder_.mul(position, position_rows());
    if (window.base) row = builder_.add(row, window.base);
    memory_.clear_rows(problem_.window_type, {window.region, window.offset, row},
                       problem_.contracted, tiles_of(problem_.contracted, 8),
                       tiles_of(columns_, 16));
  });
  builder_.new_block();
}

void MovingWindow::transpose(const VmemAddress& window) {
  const std::uint32_t lane_tiles = tiles_of(columns_, 16);
  const std::uint32_t results = std::min(columns_, 16U);
  builder_.new_block();
  const auto units = static_cast<std::uint32_t>(patches_.units.size());
  StepCounter counter(builder_, {patches_.blocks, units * patches_.group, lane_tiles});
  builder_.loop(counter.steps(), [&](SReg) {
    const std::vector<SReg> digits = counter.present();
    const SReg entry =
        digits[1] ? builder_.mul(digits[1], patches_.runs * kWords) : builder_.constant(0);
    for (std::uint32_t i = 0; i < 16; ++i) {
      const std::uint32_t word = table_ + i / patches_.run_tiles * kWords;
      const SReg row = weighted_sum(builder_, {digits[0], digits[2]}, {block_rows(), window_tile_},
                                    builder_.load_smem(word, entry));
      const VmemAddress from(
          window.region,
          window.offset + std::int64_t{i % patches_.run_tiles} * lane_tiles * window_tile_, row,
          window.base);
      const VReg mask = builder_.splat(builder_.load_smem(word + 1, entry));
      builder_.transpose_push(memory_.load_rows(problem_.window_type, from, mask), 8 * results, i,
                              16);
    }
    const SReg to = weighted_sum(builder_, digits, {units * unit_rows(), pitch_ * 8, 16 * 8});
    for (std::uint32_t i = 0; i < results; ++i) {
      builder_.store({region_, std::int64_t{8} * i, to}, builder_.transpose_pop());
    }
    counter.advance(counter.next());
  });
}

void MovingWindow::turn(const VmemAddress& window) {
  std::uint32_t unroll = std::max(1U, 8 / patches_.runs);
  while (columns_ % unroll != 0) --unroll;
  const std::uint32_t tile_pitch = tiles_of(problem_.contracted, 128) * window_tile_;
  builder_.new_block();
  const auto units = static_cast<std::uint32_t>(patches_.units.size());
  StepCounter counter(builder_, {patches_.blocks, units * patches_.group, columns_ / unroll});
  builder_.loop(counter.steps(), [&](SReg) {
    const std::vector<SReg> digits = counter.present();
    const SReg entry =
        digits[1] ? builder_.mul(digits[1], patches_.runs * kWords) : builder_.constant(0);
    const VReg lane = builder_.and_(builder_.lane_sequence(), 127);
    std::vector<VReg> merged(unroll);
    for (std::uint32_t run = 0; run < patches_.runs; ++run) {
      const std::uint32_t word = table_ + run * kWords;
      const SReg row =
          weighted_sum(builder_, {digits[0], digits[2]}, {block_rows(), unroll * tile_pitch},
                       builder_.load_smem(word, entry));
      const SReg lanes = builder_.load_smem(word + 1, entry);
      const VReg end = builder_.splat(builder_.shift_right(lanes, 8));
      const auto begin = static_cast<int>(8 * patches_.run_tiles * run);
      const MReg inside =
          builder_.mask(Opcode::kVmand, builder_.vector_compare(Opcode::kVcmpGeS32, lane, begin),
                        builder_.vector_compare(Opcode::kVcmpLtS32, lane, end));
      for (std::uint32_t i = 0; i < unroll; ++i) {
        const VmemAddress from(window.region, window.offset + std::int64_t{i} * tile_pitch, row,
                               window.base);
        VReg rows = memory_.load_rows(problem_.window_type, from);
        if (patches_.runs > 1) {
          rows = builder_.rotate_lanes(rows, builder_.and_(lanes, 0xff));
        }
        merged[i] = builder_.select(inside, rows,
                                    merged[i] ? VectorOperand(merged[i]) : VectorOperand(0.0F));
      }
    }
    const SReg to = weighted_sum(builder_, digits, {units * unit_rows(), pitch_ * 8, unroll * 8});
    for (std::uint32_t i = 0; i < unroll; ++i) {
      builder_.store({region_, std::int64_t{8} * i, to}, merged[i]);
    }
    counter.advance(counter.next());
  });
}

}  // namespace tpu::compiler
