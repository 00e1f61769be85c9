#include "isa/vector_arithmetic.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "isa/cpu_clones.h"
#include "isa/opcode_table.h"
#include "isa/packed_rows.h"
#include "sim/base/error.h"

namespace tpu::isa {
namespace {

constexpr int kElements = kSublanes * kLanes;

/// Applies an element function; inlined into the clone of its caller, which vectorises it.
template <class Function>
TPU_INLINE void each(const VectorRegister& a, VectorRegister& out, Function function) {
  const std::uint32_t* x = a.word.data();
  std::uint32_t* __restrict r = out.word.data();
  for (int i = 0; i < kElements; ++i) r[i] = function(x[i]);
}

template <class Function>
TPU_INLINE void each(const VectorRegister& a, const VectorRegister& b, VectorRegister& out,
                     Function function) {
  const std::uint32_t* x = a.word.data();
  const std::uint32_t* y = b.word.data();
  std::uint32_t* __restrict r = out.word.data();
  for (int i = 0; i < kElements; ++i) r[i] = function(x[i], y[i]);
}

template <class Function>
TPU_INLINE void each_float(const VectorRegister& a, const VectorRegister& b, VectorRegister& out,
                           Function function) {
  each(a, b, out, [function](std::uint32_t x, std::uint32_t y) {
    return as_bits(function(as_float(x), as_float(y)));
  });
}

/// Packs 64 bytes that are 0 or 1 into a word of a mask.
TPU_INLINE std::uint64_t pack_bits(const std::uint8_t* bytes) {
  std::uint64_t bits = 0;
  for (int i = 0; i < 8; ++i) {
    std::uint64_t eight;
    std::memcpy(&eight, bytes + 8 * i, 8);
    bits |= (eight * 0x0102040810204080ull >> 56) << (8 * i);
  }
  return bits;
}

template <class Function>
TPU_INLINE void compare(const VectorRegister& a, const VectorRegister& b, VectorMask& out,
                        Function function) {
  const std::uint32_t* x = a.word.data();
  const std::uint32_t* y = b.word.data();
  for (int block = 0; block < kElements / 64; ++block) {
    std::uint8_t bytes[64];
    for (int i = 0; i < 64; ++i) bytes[i] = function(x[64 * block + i], y[64 * block + i]);
    out.bits[block] = pack_bits(bytes);
  }
}

std::uint32_t compose_float(std::uint32_t significand, std::uint32_t exponent) {
  const std::int64_t power = std::int64_t{static_cast<std::int32_t>(exponent)} - 23;
  const int clamped = static_cast<int>(power < -2000 ? -2000 : power > 2000 ? 2000 : power);
  const double value =
      std::ldexp(static_cast<double>(static_cast<std::int32_t>(significand)), clamped);
  return as_bits(static_cast<float>(value));
}

/// The functions of the transcendental unit, correctly rounded but for rare ties: the real unit's
/// last bits are unknown.
template <class Function>
TPU_INLINE void each_double(const VectorRegister& a, VectorRegister& out, Function function) {
  each(a, out, [function](std::uint32_t x) {
    return as_bits(static_cast<float>(function(static_cast<double>(as_float(x)))));
  });
}

void transcendental(Opcode opcode, const VectorRegister& a, VectorRegister& out) {
  switch (opcode) {
    case Opcode::kVpow2F32:
      return each_double(a, out, [](double x) { return std::exp2(x); });
    case Opcode::kVlog2F32:
      return each_double(a, out, [](double x) { return std::log2(x); });
    case Opcode::kVtanhF32:
      return each_double(a, out, [](double x) { return std::tanh(x); });
    default:
      throw SimulatorBug("no vector arithmetic for " + opcode_text(opcode));
  }
}

/// What is not worth a vectorised clone.
void rare_arithmetic(Opcode opcode, const VectorRegister& a, const VectorRegister& b,
                     VectorRegister& out) {
  switch (opcode) {
    case Opcode::kVcvtPrF32S32:
      return each(a, b, out, [](std::uint32_t x, std::uint32_t y) { return convert_to_s32(x, y); });
    case Opcode::kVf32F32:
      return each(a, b, out, [](std::uint32_t x, std::uint32_t y) { return compose_float(x, y); });
    case Opcode::kVclz:
      return each(a, out, [](std::uint32_t x) { return leading_zeros(x); });
    case Opcode::kVpcnt:
      return each(a, out, [](std::uint32_t x) {
        return static_cast<std::uint32_t>(__builtin_popcount(x));
      });
    case Opcode::kVrotSlaneDown:
      std::copy(a.word.begin() + kLanes, a.word.end(), out.word.begin());
      std::copy(a.word.begin(), a.word.begin() + kLanes, out.word.end() - kLanes);
      return;
    default:
      transcendental(opcode, a, out);
  }
}

}  // namespace

TPU_CPU_CLONES void vector_arithmetic(Opcode opcode, const VectorRegister& a,
                                      const VectorRegister& b, VectorRegister& out) {
  using Word = std::uint32_t;
  switch (opcode) {
    case Opcode::kVaddF32:
      return each_float(a, b, out, [](float x, float y) { return x + y; });
    case Opcode::kVsubF32:
      return each_float(a, b, out, [](float x, float y) { return x - y; });
    case Opcode::kVmulF32:
      return each_float(a, b, out, [](float x, float y) { return x * y; });
    case Opcode::kVmaxF32:
      return each_float(a, b, out, [](float x, float y) { return max_f32(x, y); });
    case Opcode::kVminF32:
      return each_float(a, b, out, [](float x, float y) { return min_f32(x, y); });
    case Opcode::kVclampGezF32:
      return each_float(a, b, out, [](float x, float y) { return min_f32(max_f32(x, 0.0f), y); });
    case Opcode::kVaddS32:
      return each(a, b, out, [](Word x, Word y) { return x + y; });
    case Opcode::kVsubS32:
      return each(a, b, out, [](Word x, Word y) { return x - y; });
    case Opcode::kVandU32:
    case Opcode::kVandU32Pred:
    case Opcode::kVandU32U4:
    case Opcode::kVandU32U8:
    case Opcode::kVandU32U16:
      return each(a, b, out, [](Word x, Word y) { return x & y; });
    case Opcode::kVorU32:
      return each(a, b, out, [](Word x, Word y) { return x | y; });
    case Opcode::kVxorU32:
      return each(a, b, out, [](Word x, Word y) { return x ^ y; });
    case Opcode::kVshllU32:
      return each(a, b, out, [](Word x, Word y) { return y < 32 ? x << (y & 31) : 0; });
    case Opcode::kVshrlU32:
      return each(a, b, out, [](Word x, Word y) { return y < 32 ? x >> (y & 31) : 0; });
    case Opcode::kVshraS32:
    case Opcode::kVshraS32S4:
    case Opcode::kVshraS32S8:
    case Opcode::kVshraS32S16:
      return each(a, b, out, [](Word x, Word y) {
        return static_cast<Word>(static_cast<std::int32_t>(x) >> (y < 32 ? y : 31));
      });
    case Opcode::kVpackIBf16:
      return each(a, b, out,
                  [](Word x, Word y) { return round_to_bf16(x) | round_to_bf16(y) >> 16; });
    case Opcode::kVpackCBf16:
      return pack_rows(a, b, out);
    case Opcode::kVunpackCLBf16:
    case Opcode::kVunpackCHBf16:
      return unpack_rows(a, opcode == Opcode::kVunpackCHBf16, out);
    case Opcode::kVmov:
      out = a;
      return;
    case Opcode::kVcvtS32F32:
      return each(a, out,
                  [](Word x) { return as_bits(static_cast<float>(static_cast<std::int32_t>(x))); });
    case Opcode::kVf32ES32:
      return each(a, out, [](Word x) { return (x >> 23 & 255) - 127; });
    case Opcode::kVrcpF32:
      return each_double(a, out, [](double x) { return 1.0 / x; });
    case Opcode::kVrsqrtF32:
      return each_double(a, out, [](double x) { return 1.0 / __builtin_sqrt(x); });
    case Opcode::kVf32SS32:
      return each(a, out, [](Word x) { return (x & 0x7fffff) | 0x800000; });
    default:
      rare_arithmetic(opcode, a, b, out);
  }
}

TPU_CPU_CLONES void vector_comparison(Opcode opcode, const VectorRegister& a,
                                      const VectorRegister& b, VectorMask& out) {
  using Word = std::uint32_t;
  using Integer = std::int32_t;
  switch (opcode) {
    case Opcode::kVcmpEqF32:
      return compare(a, b, out, [](Word x, Word y) { return as_float(x) == as_float(y); });
    case Opcode::kVcmpNeF32:
      return compare(a, b, out, [](Word x, Word y) { return as_float(x) != as_float(y); });
    case Opcode::kVcmpLtF32:
      return compare(a, b, out, [](Word x, Word y) { return as_float(x) < as_float(y); });
    case Opcode::kVcmpLeF32:
      return compare(a, b, out, [](Word x, Word y) { return as_float(x) <= as_float(y); });
    case Opcode::kVcmpGtF32:
      return compare(a, b, out, [](Word x, Word y) { return as_float(x) > as_float(y); });
    case Opcode::kVcmpGeF32:
      return compare(a, b, out, [](Word x, Word y) { return as_float(x) >= as_float(y); });
    case Opcode::kVcmpEqS32:
      return compare(a, b, out, [](Word x, Word y) { return x == y; });
    case Opcode::kVcmpNeS32:
      return compare(a, b, out, [](Word x, Word y) { return x != y; });
    case Opcode::kVcmpLtS32:
      return compare(a, b, out, [](Word x, Word y) { return Integer(x) < Integer(y); });
    case Opcode::kVcmpLeS32:
      return compare(a, b, out, [](Word x, Word y) { return Integer(x) <= Integer(y); });
    case Opcode::kVcmpGtS32:
      return compare(a, b, out, [](Word x, Word y) { return Integer(x) > Integer(y); });
    case Opcode::kVcmpGeS32:
      return compare(a, b, out, [](Word x, Word y) { return Integer(x) >= Integer(y); });
    case Opcode::kVcU32:
      return compare(a, b, out, [](Word x, Word y) { return carries(x, y); });
    case Opcode::kVweirdF32:
      return compare(a, b, out, [](Word x, Word) { return is_weird(x); });
    default:
      throw SimulatorBug("no comparison for " + opcode_text(opcode));
  }
}

void mask_logic(Opcode opcode, const VectorMask& a, const VectorMask& b, VectorMask& out) {
  for (std::size_t i = 0; i < out.bits.size(); ++i) {
    switch (opcode) {
      case Opcode::kVmand:
        out.bits[i] = a.bits[i] & b.bits[i];
        break;
      case Opcode::kVmor:
        out.bits[i] = a.bits[i] | b.bits[i];
        break;
      case Opcode::kVmxor:
        out.bits[i] = a.bits[i] ^ b.bits[i];
        break;
      case Opcode::kVmneg:
        out.bits[i] = ~a.bits[i];
        break;
      case Opcode::kVmmov:
        out.bits[i] = a.bits[i];
        break;
      default:
        throw SimulatorBug("no mask logic for " + opcode_text(opcode));
    }
  }
}

TPU_CPU_CLONES void vector_select(const VectorMask& mask, const VectorRegister& a,
                                  const VectorRegister& b, VectorRegister& out) {
  for (int block = 0; block < kElements / 32; ++block) {
    const auto bits = static_cast<std::uint32_t>(mask.bits[block / 2] >> (block % 2 * 32));
    const std::uint32_t* x = a.word.data() + 32 * block;
    const std::uint32_t* y = b.word.data() + 32 * block;
    std::uint32_t* r = out.word.data() + 32 * block;
    for (int i = 0; i < 32; ++i) r[i] = (bits & 1u << i) != 0 ? x[i] : y[i];
  }
}

void store_masked_sublane(const VectorMask& mask, int sublane, const std::uint32_t* source,
                          std::uint32_t* row) {
  for (int half = 0; half < 2; ++half) {
    const std::uint64_t bits = mask.bits[2 * sublane + half];
    if (bits == ~std::uint64_t{0}) {
      std::memcpy(row + 64 * half, source + 64 * half, 64 * sizeof(std::uint32_t));
      continue;
    }
    for (std::uint64_t rest = bits; rest != 0; rest &= rest - 1) {
      const int lane = 64 * half + __builtin_ctzll(rest);
      row[lane] = source[lane];
    }
  }
}

TPU_CPU_CLONES void broadcast(std::uint32_t value, VectorRegister& out) {
  for (std::uint32_t& word : out.word) word = value;
}

TPU_CPU_CLONES void reduce_lanes(Opcode opcode, const VectorRegister& a, VectorRegister& out) {
  for (int sublane = 0; sublane < kSublanes; ++sublane) {
    float x[kLanes];
    std::memcpy(x, a.word.data() + kLanes * sublane, sizeof(x));
    for (int half = kLanes / 2; half > 0; half /= 2) {
      if (opcode == Opcode::kVaddXlane) {
        for (int i = 0; i < half; ++i) x[i] = x[i] + x[i + half];
      } else if (opcode == Opcode::kVmaxXlane) {
        for (int i = 0; i < half; ++i) x[i] = max_f32(x[i], x[i + half]);
      } else {
        for (int i = 0; i < half; ++i) x[i] = min_f32(x[i], x[i + half]);
      }
    }
    const std::uint32_t result = as_bits(x[0]);
    for (int lane = 0; lane < kLanes; ++lane) out.word[kLanes * sublane + lane] = result;
  }
}

void transpose_rows(const VectorRegister* rows, std::uint32_t count, std::uint32_t block,
                    VectorRegister& out) {
  out.word.fill(0);
  for (std::uint32_t i = 0; i < kSublanes; ++i) {
    for (std::uint32_t j = 0; j < kSublanes * count; ++j) {
      out.word[kLanes * i + j] =
          rows[j / kSublanes].word[kLanes * (j % kSublanes) + kSublanes * block + i];
    }
  }
}

void rotate_lanes(const VectorRegister& a, std::uint32_t amount, VectorRegister& out) {
  const std::size_t shift = amount % kLanes;
  for (int sublane = 0; sublane < kSublanes; ++sublane) {
    const std::uint32_t* from = a.word.data() + kLanes * sublane;
    std::uint32_t* to = out.word.data() + kLanes * sublane;
    std::memcpy(to + shift, from, (kLanes - shift) * sizeof(std::uint32_t));
    std::memcpy(to, from + kLanes - shift, shift * sizeof(std::uint32_t));
  }
}

void permute_lanes(const VectorRegister& a, const VectorRegister& pattern, VectorRegister& out) {
  for (int i = 0; i < kElements; ++i) {
    const int sublane = i / kLanes;
    out.word[i] = a.word[kLanes * sublane + static_cast<int>(pattern.word[i] % kLanes)];
  }
}

}  // namespace tpu::isa
