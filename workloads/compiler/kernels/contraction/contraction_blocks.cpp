#include "workloads/compiler/kernels/contraction/contraction_blocks.h"

#include <utility>

#include "workloads/compiler/kernels/tiles/step_counter.h"

namespace tpu::compiler {

std::uint32_t store_addresses(KernelBuilder& builder, const MatmulEpilogue& epilogue) {
  std::vector<int> operands{epilogue.lhs, epilogue.rhs};
  for (const MatmulEpilogue::Result& result : epilogue.results) {
    if (result.kind == MatmulEpilogue::Result::Kind::kBlocks) operands.push_back(result.operand);
  }
  for (const MatmulEpilogue::Operand& read : epilogue.operands) operands.push_back(read.operand);
  const std::uint32_t first = builder.allocate_smem(static_cast<std::uint32_t>(operands.size()));
  for (std::uint32_t i = 0; i < operands.size(); ++i) {
    builder.store_smem(first + i, builder.operand(operands[i]));
  }
  return first;
}

SReg index_of(const GridPoint& point, int dimension) {
  return dimension < 0 ? SReg() : point[static_cast<std::size_t>(dimension)];
}

TileGrid::Block image_block(const std::shared_ptr<ImageRows>& rows, std::vector<int> dimensions,
                            std::uint32_t vmem_rows, const OfPoint& begin, const OfPoint& first,
                            std::int64_t border, const OfPoint& row_granules) {
  const auto row = [=](const GridPoint& point) {
    return row_granules ? row_granules(point) : SReg();
  };
  TileGrid::Block block;
  block.dimensions = std::move(dimensions);
  block.rows = vmem_rows;
  block.start = [=](const GridPoint& point, const VmemAddress& vmem, ScalarOperand flag) {
    const SReg hbm = begin(point);
    rows->start(hbm, first(point), vmem.plus(border), flag, row(point));
  };
  block.granules = [=](const GridPoint& point) {
    return ScalarOperand(rows->granules(first(point), row(point)));
  };
  return block;
}

TileGrid::Block matrix_block(KernelBuilder& builder, bool to_vmem, const BlockShape& shape,
                             std::vector<int> dimensions, const OfPoint& begin, int row_dimension,
                             int column_dimension) {
  const auto dma = std::make_shared<BlockDma>(builder, to_vmem, shape);
  TileGrid::Block block;
  block.dimensions = std::move(dimensions);
  block.rows = shape.vmem_rows();
  block.start = [=](const GridPoint& point, const VmemAddress& vmem, ScalarOperand flag) {
    dma->start(begin(point), index_of(point, row_dimension), index_of(point, column_dimension),
               vmem, flag);
  };
  block.granules = [=](const GridPoint& point) {
    return dma->granules(index_of(point, row_dimension), index_of(point, column_dimension));
  };
  return block;
}

std::vector<int> add_result_blocks(TileGrid& grid, const MatmulEpilogue& epilogue,
                                   std::uint32_t addresses, const BlockOfResult& block_of,
                                   const ArraysInVmem& arrays) {
  std::uint32_t word = addresses + 2;
  const auto block = [&](hlo::ElementType type, bool to_vmem, int operand) {
    TileGrid::Block made = block_of(type, to_vmem, word);
    made.standing = standing(arrays, operand);
    return made;
  };
  for (const MatmulEpilogue::Result& result : epilogue.results) {
    if (result.kind != MatmulEpilogue::Result::Kind::kBlocks) continue;
    grid.add_output(block(result.type(), false, result.operand));
    ++word;
  }
  std::vector<int> inputs;
  for (const MatmulEpilogue::Operand& operand : epilogue.operands) {
    if (operand.kind == MatmulEpilogue::Operand::Kind::kBlocks) {
      inputs.push_back(grid.add_input(block(operand.type(), true, operand.operand)));
    }
    ++word;
  }
  return inputs;
}

std::vector<VmemRegion> unrounded_regions(KernelBuilder& builder,
                                          const std::vector<hlo::ElementType>& types,
                                          const VmemRegion& sums, std::uint64_t rows) {
  std::vector<VmemRegion> regions(types.size());
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (is_packed(types[i])) regions[i] = i == 0 ? sums : builder.allocate_vmem(rows);
  }
  return regions;
}

void round_results(MatmulMemory& memory, TileGrid& grid, const std::vector<VmemRegion>& unrounded,
                   std::uint64_t tiles) {
  for (std::size_t i = 0; i < unrounded.size(); ++i) {
    if (unrounded[i].rows == 0) continue;
    memory.round_tiles(unrounded[i], grid.output(static_cast<int>(i)), tiles);
  }
}

namespace {

/// Rows that are looked at one by one where some of them lie outside.
constexpr std::uint32_t kRowsLookedAt = 16;

PReg is_not(KernelBuilder& builder, PReg condition) {
  return builder.equal(builder.select(condition, 1, 0), 0);
}

}  // namespace

void clear_rows_outside(KernelBuilder& builder, MatmulMemory& memory, ImageRows& rows, SReg first,
                        const VmemAddress& block, std::uint32_t count, std::uint32_t pitch) {
  const auto clear_one_by_one = [&](std::uint32_t some, SReg before) {
    builder.loop(some, [&](SReg number) {
      const SReg index = before ? builder.add(number, before) : number;
      const PReg outside = is_not(builder, rows.is_inside(first, index));
      SReg row = builder.mul(index, pitch);
      if (block.base) row = builder.add(row, block.base);
      builder.if_(outside, [&] { memory.clear({block.region, 0, row}, pitch); });
    });
  };
  builder.new_block();
  builder.if_(rows.reaches_outside(first), [&] {
    if (count <= 2 * kRowsLookedAt) return clear_one_by_one(count, {});
    builder.loop(ceil_divide(count, kRowsLookedAt), [&](SReg group) {
      const SReg begin = builder.min(builder.mul(group, kRowsLookedAt), count - kRowsLookedAt);
      const PReg all_inside =
          builder.and_(rows.is_inside(first, begin),
                       rows.is_inside(first, builder.add(begin, kRowsLookedAt - 1)));
      builder.if_(is_not(builder, all_inside), [&] { clear_one_by_one(kRowsLookedAt, begin); });
    });
  });
  builder.new_block();
}

std::uint32_t largest_divisor(std::uint32_t extent, std::uint32_t most, std::uint32_t step) {
  std::uint32_t found = most / step * step;
  while (found > step && extent % found != 0) found -= step;
  return found;
}

PReg both(KernelBuilder& builder, PReg a, PReg b) {
  return a && b ? builder.and_(a, b) : a ? a : b;
}

void emit_if(KernelBuilder& builder, PReg condition, const std::function<void()>& body) {
  condition ? builder.if_(condition, body) : body();
}

void apply_epilogue_by_columns(KernelBuilder& builder, TileExpressionEmitter& results,
                               TileGrid& grid, const std::vector<int>& inputs, int column_dimension,
                               std::uint32_t row_tiles, std::uint32_t columns,
                               const VmemRegion& sums, const std::vector<VmemRegion>& unrounded) {
  const std::uint32_t unroll = largest_divisor(row_tiles, 8);
  StepCounter counter(builder, {columns, row_tiles / unroll});
  builder.loop(counter.steps(), [&](SReg) {
    const std::vector<SReg> digits = counter.present();
    const SReg tiles = weighted_sum(builder, digits, {1, unroll * columns});
    TileExpressionEmitter::Position position;
    if (tiles) {
      position.rows32 = builder.shift_left(tiles, 3);
      position.rows16 = builder.shift_left(tiles, 2);
    }
    std::vector<VmemAddress> blocks;
    blocks.reserve(inputs.size());
    for (int input : inputs) blocks.push_back(grid.input(input));
    results.begin(blocks);
    std::vector<VmemAddress> outs;
    for (std::size_t i = 0; i < unrounded.size(); ++i) {
      outs.push_back(unrounded[i].rows > 0 ? VmemAddress(unrounded[i])
                                           : grid.output(static_cast<int>(i)));
      outs.back().base2 = position.rows32;
    }
    // Only the column is known to the expression: matmul_epilogue() sees to it.
    position.place.digits.resize(4);
    position.place.digits[3] = {
        weighted_sum(builder, {grid.index(column_dimension), digits[0]}, {columns, 1}), 0};
    position.place.lane_key = 0;
    for (std::uint32_t i = 0; i < unroll; ++i) {
      position.tiles = std::int64_t{i} * columns;
      position.place.row_key = static_cast<int>(i);
      const VReg product = builder.load({sums, 8 * position.tiles, position.rows32});
      const std::vector<VReg> tiles_made = results.apply(position, product);
      for (std::size_t r = 0; r < outs.size(); ++r) {
        builder.store(outs[r].plus(8 * position.tiles), tiles_made[r]);
      }
    }
    counter.advance(counter.next());
  });
  builder.new_block();
}

}  // namespace tpu::compiler
