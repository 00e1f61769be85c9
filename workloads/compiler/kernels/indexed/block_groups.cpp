#include "workloads/compiler/kernels/indexed/block_groups.h"

#include <algorithm>

namespace tpu::compiler {

BlockGroups::BlockGroups(std::int64_t block_granules, std::int64_t count, const Limits& limits)
    : block(block_granules) {
  piece = std::min(block, limits.piece / limits.unit * limits.unit);
  while (block % piece != 0) piece -= limits.unit;
  const std::int64_t most = std::min(limits.most_together, limits.buffer / piece);
  while (2 * together <= most && together < count) together *= 2;
}

ScalarOperand BlockGroups::granules(KernelBuilder& builder, Index group,
                                    std::int64_t blocks) const {
  if (blocks % together == 0) return together * piece;
  const SReg left = builder.sub(blocks, to_operand(builder, multiply(builder, group, together)));
  return builder.mul(builder.min(left, together), static_cast<std::uint32_t>(piece));
}

StridedBox BlockGroups::box() const {
  return {static_cast<std::uint32_t>(piece), static_cast<std::uint32_t>(together),
          static_cast<std::uint32_t>(block)};
}

}  // namespace tpu::compiler
