#pragma once

#include <cstdint>
#include <functional>

#include "workloads/compiler/codegen/kernel_builder.h"

namespace tpu::compiler {

/// A number that a kernel knows when it runs: a scalar register (or none) plus a constant.
struct Index {
  SReg reg;
  std::int64_t offset = 0;

  bool is_constant() const { return !reg; }
  Index plus(std::int64_t amount) const { return {reg, offset + amount}; }
};

/// Arithmetic on indices; constants are folded.
ScalarOperand to_operand(KernelBuilder& builder, Index index);
Index add(KernelBuilder& builder, Index a, Index b);
/// `from` less the index.
Index counted_back(KernelBuilder& builder, std::int64_t from, Index index);
Index multiply(KernelBuilder& builder, Index a, std::int64_t factor);
Index divide_by_power_of_two(KernelBuilder& builder, Index a, int bits);
Index modulo_power_of_two(KernelBuilder& builder, Index a, int bits);
/// The numbers below `count` in order, `at_once` of them in one piece of straight code: a loop over
/// whole pieces where there are several, then the rest. `piece` gets its first number and how many.
void in_pieces(KernelBuilder& builder, std::int64_t count, std::int64_t at_once,
               const std::function<void(Index first, std::int64_t many)>& piece);
/// A division, for numbers up to `most` of which has_modulo() is true: one multiplication of 24
/// bits and a shift; and its rest.
Index divide(KernelBuilder& builder, Index a, std::int64_t divisor);
Index modulo(KernelBuilder& builder, Index a, std::int64_t divisor);

/// What a block has of so many in all, times a factor: the last block may have fewer.
ScalarOperand extent_of_block(KernelBuilder& builder, Index block, std::int64_t all,
                              std::int64_t of_block, std::int64_t factor);

}  // namespace tpu::compiler
