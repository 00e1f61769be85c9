#include "workloads/compiler/kernels/convolution_blocks.h"

#include "workloads/compiler/kernels/step_counter.h"

namespace tpu::compiler {

std::uint32_t store_addresses(KernelBuilder& builder, const MatmulEpilogue& epilogue) {
  const auto count = static_cast<std::uint32_t>(epilogue.operands.size());
  const std::uint32_t first = builder.allocate_smem(3 + count);
  builder.store_smem(first, builder.operand(epilogue.lhs));
  builder.store_smem(first + 1, builder.operand(epilogue.rhs));
  builder.store_smem(first + 2, builder.operand(epilogue.results.front().operand));
  for (std::uint32_t i = 0; i < count; ++i) {
    builder.store_smem(first + 3 + i, builder.operand(epilogue.operands[i].operand));
  }
  return first;
}

void clear_rows_outside(KernelBuilder& builder, MatmulMemory& memory, ImageRows& rows, SReg first,
                        const VmemAddress& block, std::uint32_t count, std::uint32_t pitch) {
  builder.new_block();
  builder.loop(count, [&](SReg index) {
    const PReg inside = rows.is_inside(first, index);
    const PReg outside = builder.equal(builder.select(inside, 1, 0), 0);
    SReg row = builder.mul(index, pitch);
    if (block.base) row = builder.add(row, block.base);
    builder.if_(outside, [&] { memory.clear({block.region, 0, row}, pitch); });
  });
  builder.new_block();
}

PReg both(KernelBuilder& builder, PReg a, PReg b) {
  return a && b ? builder.and_(a, b) : a ? a : b;
}

void emit_if(KernelBuilder& builder, PReg condition, const std::function<void()>& body) {
  condition ? builder.if_(condition, body) : body();
}

void apply_epilogue_by_columns(KernelBuilder& builder, EpilogueEmitter& results, TileGrid& grid,
                               const std::vector<int>& inputs, int column_dimension,
                               std::uint32_t row_tiles, std::uint32_t columns,
                               const VmemRegion& sums, bool stays) {
  std::uint32_t unroll = 8;
  while (row_tiles % unroll != 0) --unroll;
  StepCounter counter(builder, {columns, row_tiles / unroll});
  builder.loop(counter.steps(), [&](SReg) {
    const std::vector<SReg> digits = counter.present();
    const SReg tiles = weighted_sum(builder, digits, {1, unroll * columns});
    EpilogueEmitter::Position position;
    if (tiles) {
      position.rows32 = builder.shift_left(tiles, 3);
      position.rows16 = builder.shift_left(tiles, 2);
    }
    std::vector<VmemAddress> blocks;
    for (int input : inputs) blocks.push_back(grid.input(input));
    results.begin(blocks);
    VmemAddress out = stays ? VmemAddress(sums) : grid.output(0);
    out.base2 = position.rows32;
    // Only the column is known to the expression: matmul_epilogue() sees to it.
    position.place.digits.resize(4);
    position.place.digits[3] = {
        weighted_sum(builder, {grid.index(column_dimension), digits[0]}, {columns, 1}), 0};
    position.place.lane_key = 0;
    for (std::uint32_t i = 0; i < unroll; ++i) {
      position.tiles = std::int64_t{i} * columns;
      position.place.row_key = static_cast<int>(i);
      const VReg product = builder.load({sums, 8 * position.tiles, position.rows32});
      builder.store(out.plus(8 * position.tiles), results.apply(position, product).front());
    }
    counter.advance(counter.next());
  });
  builder.new_block();
}

}  // namespace tpu::compiler
