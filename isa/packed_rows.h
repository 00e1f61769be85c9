#pragma once

#include "isa/meaning.h"

namespace tpu::isa {

/// Registers that hold sixteen rows of bf16: sublane s has row 2 s in the low halves of its words
/// and row 2 s + 1 in the high ones. From TPU v4 on.
constexpr int kPackedRows = 2 * kSublanes;

/// The eight rows of `low` become rows 0 to 7, those of `high` rows 8 to 15, each element rounded
/// to nearest even.
void pack_rows(const VectorRegister& high, const VectorRegister& low, VectorRegister& out);

/// Rows 0 to 7, or 8 to 15 with `high`, as fp32.
void unpack_rows(const VectorRegister& packed, bool high, VectorRegister& out);

/// A mask of sixteen rows: a bit of `even` and one of `odd` for both rows of a sublane.
/// Instructions on words of 32 bits make and take masks in which both are the same.
struct PackedMask {
  VectorMask even;
  VectorMask odd;
};

/// Out of a register of packed rows: where it is not 0.
PackedMask packed_mask(const VectorRegister& packed);

/// Out of a number n | n << 16: the rows below n. Throws ProgramFault for others.
PackedMask packed_mask_below(std::uint32_t limits);

/// Halves of words out of `a` where the mask holds, else out of `b`.
void select_packed(const PackedMask& mask, const VectorRegister& a, const VectorRegister& b,
                   VectorRegister& out);

/// Transposes sixteen rows of bf16 a register: `count` registers become rows 16 `block` to
/// 16 `block` + 15 of the result.
void transpose_packed(const VectorRegister* rows, std::uint32_t count, std::uint32_t block,
                      VectorRegister& out);

}  // namespace tpu::isa
