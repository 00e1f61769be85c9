#include "isa/packed_rows.h"

#include <string>

#include "isa/vector_arithmetic.h"
#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"

namespace tpu::isa {
namespace {

constexpr std::uint32_t kLowHalf = 0xffff;

/// Element (row, lane) of a register of packed rows, as its 16 bits.
std::uint32_t packed_element(const VectorRegister& packed, std::uint32_t row, std::uint32_t lane) {
  return packed.word[kLanes * (row / 2) + lane] >> 16 * (row % 2) & kLowHalf;
}

}  // namespace

void pack_rows(const VectorRegister& high, const VectorRegister& low, VectorRegister& out) {
  for (int sublane = 0; sublane < kSublanes; ++sublane) {
    const VectorRegister& from = sublane < kSublanes / 2 ? low : high;
    const std::uint32_t* even = from.word.data() + kLanes * (2 * sublane % kSublanes);
    std::uint32_t* to = out.word.data() + kLanes * sublane;
    for (int lane = 0; lane < kLanes; ++lane) {
      to[lane] = round_to_bf16(even[lane]) >> 16 | round_to_bf16(even[kLanes + lane]);
    }
  }
}

void unpack_rows(const VectorRegister& packed, bool high, VectorRegister& out) {
  for (int pair = 0; pair < kSublanes / 2; ++pair) {
    const std::uint32_t* from = packed.word.data() + kLanes * (pair + (high ? kSublanes / 2 : 0));
    std::uint32_t* even = out.word.data() + kLanes * 2 * pair;
    for (int lane = 0; lane < kLanes; ++lane) {
      even[lane] = from[lane] << 16;
      even[kLanes + lane] = from[lane] & ~kLowHalf;
    }
  }
}

PackedMask packed_mask(const VectorRegister& packed) {
  PackedMask mask;
  for (std::size_t i = 0; i < packed.word.size(); ++i) {
    const std::uint64_t bit = std::uint64_t{1} << i % 64;
    if ((packed.word[i] & kLowHalf) != 0) mask.even.bits[i / 64] |= bit;
    if (packed.word[i] >> 16 != 0) mask.odd.bits[i / 64] |= bit;
  }
  return mask;
}

PackedMask packed_mask_below(std::uint32_t limits) {
  const std::uint32_t rows = limits & kLowHalf;
  if (limits >> 16 != rows || rows > kPackedRows) {
    throw ProgramFault("expected n | n << 16 with n up to 16 as the rows of a mask, found " +
                       std::to_string(limits));
  }
  PackedMask mask;
  constexpr std::uint32_t kWordsPerSublane = kLanes / 64;
  for (std::uint32_t i = 0; i < ceil_divide(rows, 2) * kWordsPerSublane; ++i) {
    mask.even.bits[i] = ~std::uint64_t{0};
    if (i < rows / 2 * kWordsPerSublane) mask.odd.bits[i] = ~std::uint64_t{0};
  }
  return mask;
}

void select_packed(const PackedMask& mask, const VectorRegister& a, const VectorRegister& b,
                   VectorRegister& out) {
  for (std::size_t i = 0; i < out.word.size(); ++i) {
    const auto holds = [i](const VectorMask& of) { return (of.bits[i / 64] >> i % 64 & 1) != 0; };
    const std::uint32_t low = holds(mask.even) ? a.word[i] : b.word[i];
    const std::uint32_t high = holds(mask.odd) ? a.word[i] : b.word[i];
    out.word[i] = (low & kLowHalf) | (high & ~kLowHalf);
  }
}

void transpose_packed(const VectorRegister* rows, std::uint32_t count, std::uint32_t block,
                      VectorRegister& out) {
  out.word.fill(0);
  for (std::uint32_t row = 0; row < kPackedRows; ++row) {
    for (std::uint32_t lane = 0; lane < kPackedRows * count; ++lane) {
      const std::uint32_t element =
          packed_element(rows[lane / kPackedRows], lane % kPackedRows, kPackedRows * block + row);
      out.word[kLanes * (row / 2) + lane] |= element << 16 * (row % 2);
    }
  }
}

}  // namespace tpu::isa
