#include "workloads/compiler/kernels/tiles/index.h"

#include "sim/base/ceil_divide.h"

namespace tpu::compiler {

ScalarOperand to_operand(KernelBuilder& builder, Index index) {
  if (index.is_constant()) return index.offset;
  return index.offset == 0 ? ScalarOperand(index.reg)
                           : ScalarOperand(builder.add(index.reg, index.offset));
}

Index add(KernelBuilder& builder, Index a, Index b) {
  if (a.is_constant()) return {b.reg, a.offset + b.offset};
  if (b.is_constant()) return {a.reg, a.offset + b.offset};
  return {builder.add(a.reg, b.reg), a.offset + b.offset};
}

Index counted_back(KernelBuilder& builder, std::int64_t from, Index index) {
  if (index.is_constant()) return {{}, from - index.offset};
  return {builder.sub(from, to_operand(builder, index)), 0};
}

Index multiply(KernelBuilder& builder, Index a, std::int64_t factor) {
  if (factor == 0) return {};
  if (a.is_constant() || factor == 1) return {a.reg, a.offset * factor};
  return {builder.mul(a.reg, static_cast<std::uint32_t>(factor)), a.offset * factor};
}

void in_pieces(KernelBuilder& builder, std::int64_t count, std::int64_t at_once,
               const std::function<void(Index first, std::int64_t many)>& piece) {
  const std::int64_t pieces = count / at_once;
  if (pieces > 1) {
    builder.loop(static_cast<std::uint64_t>(pieces), [&](SReg index) {
      piece(multiply(builder, {index, 0}, at_once), at_once);
    });
  }
  const std::int64_t done = pieces > 1 ? pieces * at_once : 0;
  if (done < count) piece({{}, done}, count - done);
}

Index divide_by_power_of_two(KernelBuilder& builder, Index a, int bits) {
  if (a.is_constant()) return {{}, a.offset >> bits};
  return {builder.shift_right(to_operand(builder, a), bits), 0};
}

namespace {

constexpr int kReciprocalBits = 16;

std::int64_t reciprocal(std::int64_t divisor) {
  return ceil_divide(std::int64_t{1} << kReciprocalBits, divisor);
}

}  // namespace

bool has_modulo(std::int64_t divisor, std::int64_t most) {
  if (divisor == 1) return true;
  const std::int64_t factor = reciprocal(divisor), one = std::int64_t{1} << kReciprocalBits;
  return most * factor < (1 << 24) && most * (factor * divisor - one) < one;
}

Index divide(KernelBuilder& builder, Index a, std::int64_t divisor) {
  if (a.is_constant()) return {{}, a.offset / divisor};
  if (divisor == 1) return a;
  const SReg number = to_operand(builder, a).reg;
  const SReg scaled = builder.mul(number, static_cast<std::uint32_t>(reciprocal(divisor)));
  return {builder.shift_right(scaled, kReciprocalBits), 0};
}

Index modulo(KernelBuilder& builder, Index a, std::int64_t divisor) {
  if (a.is_constant()) return {{}, a.offset % divisor};
  if (divisor == 1) return {};
  const SReg number = to_operand(builder, a).reg;
  const SReg quotient = divide(builder, {number, 0}, divisor).reg;
  return {builder.sub(number, builder.mul(quotient, static_cast<std::uint32_t>(divisor))), 0};
}

Index modulo_power_of_two(KernelBuilder& builder, Index a, int bits) {
  const std::int64_t last = (std::int64_t{1} << bits) - 1;
  if (a.is_constant()) return {{}, a.offset & last};
  return {builder.and_(to_operand(builder, a), last), 0};
}

ScalarOperand extent_of_block(KernelBuilder& builder, Index block, std::int64_t all,
                              std::int64_t of_block, std::int64_t factor) {
  const std::int64_t blocks = ceil_divide(all, of_block);
  const std::int64_t last = (all - (blocks - 1) * of_block) * factor, whole = of_block * factor;
  if (blocks == 1 || last == whole) return last;
  if (block.is_constant()) return block.offset == blocks - 1 ? last : whole;
  return builder.select(builder.equal(to_operand(builder, block), blocks - 1), last, whole);
}

}  // namespace tpu::compiler
