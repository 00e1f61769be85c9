#include "workloads/compiler/kernels/contraction/matmul_memory.h"

#include <algorithm>

#include "sim/base/ceil_divide.h"

namespace tpu::compiler {

using hlo::ElementType;
using isa::Opcode;

namespace {

constexpr std::uint32_t kUpperHalf = 0xffff0000U;
constexpr std::uint32_t kPairs = 033221100;      ///< Sublane i gets row i / 2.
constexpr std::uint32_t kPairsDown = 000112233;  ///< Sublane i gets row (7 - i) / 2.

}  // namespace

MatmulMemory::MatmulMemory(KernelBuilder& builder, bool packed_rows, bool packed_weights)
    : builder_(builder) {
  if (!packed_rows && !packed_weights) return;
  const VReg odd = builder_.and_(builder_.shift_right(builder_.lane_sequence(), 7), 1);
  odd_shift_down_ = builder_.shift_left(odd, 4);
  odd_shift_ = builder_.vector(Opcode::kVxorU32, odd_shift_down_, 16);
}

VReg MatmulMemory::load_rows(ElementType type, const VmemAddress& address, VReg mask) {
  if (!is_packed(type)) {
    const VReg rows = builder_.load(address);
    return mask ? builder_.and_(rows, mask) : rows;
  }
  const VReg rows = builder_.shift_left(builder_.load_shuffled(address, kPairs), odd_shift_);
  return builder_.and_(rows, mask ? VectorOperand(mask) : VectorOperand(kUpperHalf));
}

VReg MatmulMemory::load_weights(ElementType type, const VmemAddress& address, VReg mask) {
  if (!is_packed(type)) {
    const VReg rows = builder_.load(address.plus(7).stride(-1));
    return mask ? builder_.and_(rows, mask) : rows;
  }
  const VReg rows =
      builder_.shift_left(builder_.load_shuffled(address, kPairsDown), odd_shift_down_);
  return builder_.and_(rows, mask ? VectorOperand(mask) : VectorOperand(kUpperHalf));
}

void MatmulMemory::make_masks(std::uint32_t extent) {
  masks_ = builder_.allocate_vmem(16);
  const VReg lane = builder_.and_(builder_.lane_sequence(), 127);
  const MReg valid =
      builder_.vector_compare(Opcode::kVcmpLtS32, lane, static_cast<int>(extent % 128));
  builder_.store({masks_, 0}, 0xffffffffU);
  builder_.store({masks_, 8}, builder_.select(valid, 0xffffffffU, 0U));
}

VReg MatmulMemory::mask(ElementType type, PReg is_last) {
  const VReg lanes = is_last ? builder_.load({masks_, 0, builder_.select(is_last, 8, 0)})
                             : builder_.load({masks_, 8});
  return is_packed(type) ? builder_.and_(lanes, kUpperHalf) : lanes;
}

void MatmulMemory::clear_rows(ElementType type, const VmemAddress& address, std::uint32_t valid,
                              std::uint32_t row_tiles, std::uint32_t columns) {
  for (std::uint32_t row_tile = valid / 8; row_tile < row_tiles; ++row_tile) {
    const std::uint32_t first = std::max(valid, 8 * row_tile) - 8 * row_tile;
    for (std::uint32_t column = 0; column < columns; ++column) {
      const VmemAddress tile =
          address.plus(std::int64_t{row_tile * columns + column} * tile_rows(type));
      if (!is_packed(type)) {
        builder_.store(tile.mask(static_cast<std::uint8_t>(0xff << first)), 0.0F);
        continue;
      }
      if (first % 2 != 0) {
        const auto sublane = static_cast<std::uint8_t>(1U << (first / 2));
        const VReg pair = builder_.load(tile.mask(sublane));
        builder_.store(tile.mask(sublane), builder_.and_(pair, 0xffffU));
      }
      const std::uint32_t whole = ceil_divide(first, 2);
      if (whole < 4) {
        builder_.store(tile.mask(static_cast<std::uint8_t>(0x0f & (0x0f << whole))), 0.0F);
      }
    }
  }
}

void MatmulMemory::clear_columns(ElementType type, const VmemAddress& address, std::uint32_t valid,
                                 std::uint32_t rows, std::uint32_t columns) {
  const std::uint32_t size = tile_rows(type);
  const auto sublanes = static_cast<std::uint8_t>((1U << size) - 1);
  const VReg ended = valid % 128 != 0 ? builder_.load({masks_, 8}) : VReg();
  builder_.new_block();
  builder_.loop(rows, [&](SReg index) {
    SReg row = builder_.mul(index, columns * size);
    if (address.base) row = builder_.add(row, address.base);
    for (std::uint32_t column = valid / 128; column < columns; ++column) {
      const VmemAddress tile =
          VmemAddress(address.region, address.offset + std::int64_t{column} * size, row)
              .mask(sublanes);
      const bool ends_here = ended && column == valid / 128;
      builder_.store(tile, ends_here ? builder_.and_(builder_.load(tile), ended)
                                     : builder_.vector(Opcode::kVmov, 0.0F));
    }
  });
  builder_.new_block();
}

void MatmulMemory::clear(const VmemAddress& address, std::uint64_t rows) {
  const std::uint64_t unroll = 16;
  const std::uint64_t tiles = rows / 8;
  builder_.new_block();
  builder_.loop(tiles / unroll, [&](SReg index) {
    SReg row = builder_.mul(index, static_cast<std::uint32_t>(8 * unroll));
    if (address.base) row = builder_.add(row, address.base);
    for (std::uint64_t i = 0; i < unroll; ++i) {
      builder_.store({address.region, address.offset + static_cast<std::int64_t>(8 * i), row},
                     0.0F);
    }
  });
  for (std::uint64_t i = tiles / unroll * unroll; i < tiles; ++i) {
    builder_.store(address.plus(static_cast<std::int64_t>(8 * i)), 0.0F);
  }
  if (rows % 8 != 0) {
    const auto sublanes = static_cast<std::uint8_t>((1U << (rows % 8)) - 1);
    builder_.store(address.plus(static_cast<std::int64_t>(8 * tiles)).mask(sublanes), 0.0F);
  }
}

/// 16 rows of two neighbouring tiles at a time: their even rows and their odd rows make eight
/// packed rows.
void MatmulMemory::round_tiles(VmemRegion from, const VmemAddress& to, std::uint64_t tiles) {
  const std::uint64_t pairs = tiles / 2;
  const std::uint64_t unroll = std::min<std::uint64_t>(pairs, 16);
  const auto pair = [&](std::uint64_t first, SReg from_row, SReg to_row) {
    const VmemAddress tile(from, static_cast<std::int64_t>(16 * first), from_row);
    const VReg even = builder_.load(tile.stride(2));
    const VReg odd = builder_.load(tile.plus(1).stride(2));
    builder_.store({to.region, to.offset + static_cast<std::int64_t>(8 * first), to_row},
                   builder_.pack_bf16(even, odd));
  };
  builder_.new_block();
  if (unroll > 0) {
    builder_.loop(pairs / unroll, [&](SReg index) {
      const SReg from_row = builder_.mul(index, static_cast<std::uint32_t>(16 * unroll));
      SReg to_row = builder_.mul(index, static_cast<std::uint32_t>(8 * unroll));
      if (to.base) to_row = builder_.add(to_row, to.base);
      for (std::uint64_t i = 0; i < unroll; ++i) pair(i, from_row, to_row);
    });
    for (std::uint64_t i = pairs / unroll * unroll; i < pairs; ++i) pair(i, {}, to.base);
  }
  if (tiles % 2 == 0) return;
  const VmemAddress last(from, static_cast<std::int64_t>(8 * (tiles - 1)));
  const VReg even = builder_.load(last.stride(2).mask(0x0f));
  const VReg odd = builder_.load(last.plus(1).stride(2).mask(0x0f));
  builder_.store(to.plus(static_cast<std::int64_t>(4 * (tiles - 1))).mask(0x0f),
                 builder_.pack_bf16(even, odd));
}

}  // namespace tpu::compiler
