#include "workloads/compiler/kernels/convolution_blocks.h"

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

}  // namespace tpu::compiler
