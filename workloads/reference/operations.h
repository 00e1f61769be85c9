#pragma once

#include <vector>

#include "workloads/reference/scalar.h"
#include "workloads/reference/value.h"

namespace tpu::reference {

/// The operations of the interpreter, one function per kind. `operands` are those of the
/// instruction, in order; the result has the instruction's shape.
using Operands = std::vector<const Value*>;

/// Elementwise arithmetic, comparison, selection, conversion.
Value elementwise(const hlo::HloInstruction& instruction, const Operands& operands);

Value iota(const hlo::HloInstruction& instruction);
Value broadcast(const hlo::HloInstruction& instruction, const Value& x);
Value reshape(const hlo::HloInstruction& instruction, const Value& x);
Value bitcast_convert(const hlo::HloInstruction& instruction, const Value& x);
Value transpose(const hlo::HloInstruction& instruction, const Value& x);
Value slice(const hlo::HloInstruction& instruction, const Value& x);
Value concatenate(const hlo::HloInstruction& instruction, const Operands& operands);
Value pad(const hlo::HloInstruction& instruction, const Value& x, const Value& padding);
Value reverse(const hlo::HloInstruction& instruction, const Value& x);
Value dynamic_slice(const hlo::HloInstruction& instruction, const Operands& operands);
Value dynamic_update_slice(const hlo::HloInstruction& instruction, const Operands& operands);
Value gather(const hlo::HloInstruction& instruction, const Value& from, const Value& indices);
Value scatter(const hlo::Module& module, const hlo::HloInstruction& instruction,
              const Operands& operands);

Value reduce(const hlo::Module& module, const hlo::HloInstruction& instruction,
             const Operands& operands);
Value reduce_window(const hlo::Module& module, const hlo::HloInstruction& instruction,
                    const Operands& operands);
Value select_and_scatter(const hlo::Module& module, const hlo::HloInstruction& instruction,
                         const Operands& operands);
Value map(const hlo::Module& module, const hlo::HloInstruction& instruction,
          const Operands& operands);
Value topk(const hlo::HloInstruction& instruction, const Value& operand);
Value sort(const hlo::Module& module, const hlo::HloInstruction& instruction,
           const Operands& operands);

/// The next state and random bits (J. Salmon et al., SC 2011): Philox-4x32 where the algorithm is
/// rng_philox and rng_default, else Threefry-2x32, with XLA's order of counters. The state is u64.
Value rng_bit_generator(const hlo::HloInstruction& instruction, const Value& state);

/// What replica number `receiver` gets of arrays that each replica has: joined along a dimension
/// (all-gather), part number `receiver` of each joined (all-to-all).
Value joined(const hlo::Shape& shape, const Operands& parts, std::int64_t dimension);
/// Part `index` of `count` equal parts along a dimension.
Value part_of(const Value& x, std::int64_t dimension, std::int64_t index, std::int64_t count);

/// Sums in double; with `round_operands`, floating operands are rounded to bf16 first.
Value dot(const hlo::HloInstruction& instruction, const Value& a, const Value& b,
          bool round_operands);
/// Operands: both sides and the sizes of the groups.
Value ragged_dot(const hlo::HloInstruction& instruction, const Operands& operands,
                 bool round_operands);
Value convolution(const hlo::HloInstruction& instruction, const Value& input, const Value& kernel,
                  bool round_operands);

}  // namespace tpu::reference
