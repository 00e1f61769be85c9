#include "workloads/compiler/kernels/contraction/matmul_parts.h"

namespace tpu::compiler {

namespace {

constexpr std::uint32_t kFiniteInstructions = 3, kRestInstructions = 3;

}  // namespace

VReg MatmulParts::finite(VReg value) {
  constexpr std::uint32_t kAllButSign = 0x7fffffffU, kInfinite = 0x7f800000U;
  const VReg magnitude = builder_.and_(value, kAllButSign);
  const MReg is_finite =
      builder_.vector_compare(isa::Opcode::kVcmpLtS32, magnitude, static_cast<int>(kInfinite));
  return builder_.select(is_finite, value, 0.0F);
}

/// What its rounding to bf16 leaves of a value.
VReg MatmulParts::rest(VReg value) {
  return builder_.sub(value, builder_.unpack_odd(builder_.pack_bf16(value, value)));
}

VReg MatmulParts::take(std::size_t side, std::uint32_t lot, VReg rows) {
  const std::uint32_t part = pairs_[lot][side];
  const bool is_last = lot + 1 == pairs_.size();
  if (is_last) return rows;
  if (part == 0) return finite(rows);
  VReg left = finite(rest(rows));
  for (std::uint32_t i = 1; i < part; ++i) left = rest(left);
  return left;
}

double MatmulParts::instructions(std::size_t side, const OperandParts& parts) {
  const std::vector<OperandParts> pairs = pairs_of_parts(parts);
  double all = 0;
  for (const OperandParts& pair : pairs) {
    all += kFiniteInstructions + double(pair[side]) * kRestInstructions;
  }
  return (all - kFiniteInstructions) / static_cast<double>(pairs.size());
}

}  // namespace tpu::compiler
