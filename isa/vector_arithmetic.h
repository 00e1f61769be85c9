#pragma once

#include <cstdint>

#include "isa/meaning.h"

namespace tpu::isa {

/// The loops over the 1024 elements of vector registers, without state and without time. Sources
/// and destination may not overlap.

/// v=v and v=vv instructions of the vector ALU, and the fp32 functions of the transcendental unit
/// (`b` is ignored where there is one operand). fp32 is IEEE: denormals are kept, sums and products
/// rounded to nearest even.
void vector_arithmetic(Opcode opcode, const VectorRegister& a, const VectorRegister& b,
                       VectorRegister& out);

/// m=vv comparisons and vweird.
void vector_comparison(Opcode opcode, const VectorRegister& a, const VectorRegister& b,
                       VectorMask& out);

/// m=mm and m=m instructions.
void mask_logic(Opcode opcode, const VectorMask& a, const VectorMask& b, VectorMask& out);

/// Elements of `a` where the mask holds, else of `b`.
void vector_select(const VectorMask& mask, const VectorRegister& a, const VectorRegister& b,
                   VectorRegister& out);

/// Copies the elements of one sublane of `source` that the mask selects.
void store_masked_sublane(const VectorMask& mask, int sublane, const std::uint32_t* source,
                          std::uint32_t* row);

/// Every element becomes `value`.
void broadcast(std::uint32_t value, VectorRegister& out);

/// Sum, maximum or minimum over the lanes of each sublane, in all its lanes. The sum adds halves:
/// lanes 0..63 to 64..127, then 0..31 to 32..63, and so on.
void reduce_lanes(Opcode opcode, const VectorRegister& a, VectorRegister& out);

/// Transposes eight rows a register: `count` registers become rows 8 `block` to 8 `block` + 7.
void transpose_rows(const VectorRegister* rows, std::uint32_t count, std::uint32_t block,
                    VectorRegister& out);

/// Lane l of the result is lane (l - amount) mod 128 of a.
void rotate_lanes(const VectorRegister& a, std::uint32_t amount, VectorRegister& out);

/// Element (s, l) of the result is element (s, pattern(s, l) mod 128) of a.
void permute_lanes(const VectorRegister& a, const VectorRegister& pattern, VectorRegister& out);

/// fp32 to bf16, nearest even, as the bits of an fp32 number; a NaN stays one.
inline std::uint32_t round_to_bf16(std::uint32_t bits) {
  const std::uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
  const std::uint32_t quiet = (bits | 0x400000) & 0xffff0000;
  return static_cast<std::int32_t>(bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded;
}

}  // namespace tpu::isa
