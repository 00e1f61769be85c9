#include "isa/packed_rows.h"

#include <string>

#include "isa/vector_arithmetic.h"
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

void packed_mask(const VectorRegister& packed, VectorMask& out) {
  out = {};
  for (std::size_t i = 0; i < packed.word.size(); ++i) {
    const bool low = (packed.word[i] & kLowHalf) != 0;
    if (low != (packed.word[i] >> 16 != 0)) {
      throw ProgramFault(
          "expected a mask that is the same for the two rows of each sublane, found one of single "
          "rows, which the model of the packed rows leaves out");
    }
    if (low) out.bits[i / 64] |= std::uint64_t{1} << i % 64;
  }
}

void packed_mask_below(std::uint32_t limits, VectorMask& out) {
  const std::uint32_t rows = limits & kLowHalf;
  if (limits >> 16 != rows || rows > kPackedRows || rows % 2 != 0) {
    throw ProgramFault(
        "expected n | n << 16 with an even n up to 16 as the rows of a mask, found " +
        std::to_string(limits));
  }
  out = {};
  constexpr std::uint32_t kWordsPerSublane = kLanes / 64;
  for (std::uint32_t i = 0; i < rows / 2 * kWordsPerSublane; ++i) out.bits[i] = ~std::uint64_t{0};
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
