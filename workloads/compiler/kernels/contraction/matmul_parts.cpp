#include "workloads/compiler/kernels/contraction/matmul_parts.h"

namespace tpu::compiler {

namespace {

constexpr std::uint32_t kFiniteInstructions = 3, kRestInstructions = 3;

}  // namespace

/// What its rounding to bf16 leaves of a value.
VReg MatmulParts::rest(VReg value) { return builder_.sub(value, builder_.round_to_bf16(value)); }

VReg MatmulParts::take(std::size_t side, std::uint32_t lot, VReg rows) {
  const std::uint32_t part = pairs_[lot][side];
  const bool is_last = lot + 1 == pairs_.size();
  const auto finite = [this](VReg value) {
    return builder_.select(builder_.is_finite(value), value, 0.0F);
  };
  if (is_last) return rows;
  if (part == 0) return finite(rows);
  VReg left = finite(rest(rows));
  for (std::uint32_t i = 1; i < part; ++i) left = rest(left);
  return left;
}

double MatmulParts::instructions(std::size_t side, const PartPairs& pairs) {
  double all = 0;
  for (const OperandParts& pair : pairs) {
    all += kFiniteInstructions + double(pair[side]) * kRestInstructions;
  }
  return (all - kFiniteInstructions) / static_cast<double>(pairs.size());
}

}  // namespace tpu::compiler
