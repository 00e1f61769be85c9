#include "workloads/compiler/ir/constant_word.h"

namespace tpu::compiler {

std::uint32_t constant_word(const hlo::HloInstruction& constant, hlo::ElementType type) {
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < constant.literal.size() && i < 4; ++i) {
    bits |= std::uint32_t{constant.literal[i]} << (8 * i);
  }
  if (type != hlo::ElementType::kBf16) {
    return constant.shape.type == hlo::ElementType::kBf16 ? bits << 16 : bits;
  }
  const std::uint32_t half =
      constant.shape.type == hlo::ElementType::kBf16 ? bits & 0xffff : bits >> 16;
  return half << 16 | half;
}

}  // namespace tpu::compiler
