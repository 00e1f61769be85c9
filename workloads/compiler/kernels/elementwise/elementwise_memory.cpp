#include "workloads/compiler/kernels/elementwise/elementwise_memory.h"

#include "sim/base/error.h"

namespace tpu::compiler {

using hlo::ElementType;
using hlo::HloOpcode;
using isa::Opcode;

namespace {

constexpr std::uint32_t kRowPairs = 033221100;  // Sublane i gets row i / 2.
constexpr std::uint32_t kHighHalf = 0xffff0000U;

}  // namespace

VmemAddress at(VmemRegion region, Index rows, SReg base) {
  return rows.reg ? VmemAddress(region, rows.offset, rows.reg, base)
                  : VmemAddress(region, rows.offset, base);
}

void fill_tiles(KernelBuilder& builder, const VmemRegion& region, Index begin, std::int64_t tiles,
                std::uint32_t word, std::int64_t at_once) {
  in_pieces(builder, tiles, at_once, [&](Index first, std::int64_t many) {
    for (std::int64_t i = 0; i < many; ++i) {
      builder.store(at(region, add(builder, begin, multiply(builder, first.plus(i), 8))), word);
    }
  });
}

TileMemory::TileMemory(KernelBuilder& builder, bool loads_packed, bool stores_packed)
    : builder_(builder) {
  if (loads_packed) {
    const VReg sublane = builder.shift_right(builder.lane_sequence(), 7);
    const VReg is_odd = builder.and_(sublane, 1);
    shift_ = builder.shift_left(builder.vector(Opcode::kVxorU32, is_odd, 1), 4);
  }
  if (stores_packed) scratch_ = builder.allocate_vmem(8 * kScratchTiles);
}

VReg TileMemory::load_tile(ElementType type, const VmemAddress& address) {
  if (type != ElementType::kBf16) return builder_.load(address);
  const VReg pairs = builder_.load_shuffled(address, kRowPairs);
  return builder_.and_(builder_.shift_left(pairs, shift_), kHighHalf);
}

VReg TileMemory::load_rows(ElementType type, const std::vector<VmemAddress>& tiles, int above,
                           int step) {
  constexpr int kRows = isa::kSublanes;
  if (above == 0 && step == 1) return load_tile(type, tiles[0]);
  const bool is_packed = type == ElementType::kBf16;
  VReg rows;
  for (std::size_t tile = 0; tile < tiles.size(); ++tile) {
    // Sublanes whose rows stand in this tile; of pairs of rows each gets its own.
    const int first = static_cast<int>(tile) * kRows;
    std::uint32_t sublanes = 0, pairs = 0;
    for (int i = 0; i < kRows; ++i) {
      const int row = above + step * i - first;
      if (row < 0 || row >= kRows) continue;
      sublanes |= 1U << i;
      pairs |= static_cast<std::uint32_t>(row / 2) << 3 * i;
    }
    if (sublanes == 0) continue;
    const auto mask = static_cast<std::uint8_t>(sublanes);
    const VReg some = is_packed
                          ? builder_.load_shuffled(tiles[tile].mask(mask), pairs)
                          : builder_.load(tiles[tile].plus(above - first).stride(step).mask(mask));
    rows = rows ? builder_.or_(rows, some) : some;
  }
  if (!is_packed) return rows;
  if (step % 2 == 0) {
    return above % 2 == 0 ? builder_.shift_left(rows, 16) : builder_.and_(rows, kHighHalf);
  }
  const VReg shift = above % 2 == 0 ? shift_ : builder_.vector(Opcode::kVxorU32, shift_, 16);
  return builder_.and_(builder_.shift_left(rows, shift), kHighHalf);
}

void TileMemory::store_tile(ElementType type, const VmemAddress& address, VectorOperand value) {
  if (type != ElementType::kBf16) {
    builder_.store(address, value);
    return;
  }
  const VmemAddress scratch(scratch_, 8 * next_scratch_);
  next_scratch_ = (next_scratch_ + 1) % kScratchTiles;
  builder_.store(scratch, value);
  const VReg even = builder_.load(scratch.stride(2).mask(0x0f));
  const VReg odd = builder_.load(scratch.plus(1).stride(2).mask(0x0f));
  builder_.store(address.mask(0x0f), builder_.pack_bf16(even, odd));
}

VReg TileMemory::load_row(ElementType type, VmemRegion region, Index rows, Index row) {
  if (type != ElementType::kBf16) {
    return builder_.load(at(region, add(builder_, rows, row)).stride(0));
  }
  const Index pair = divide_by_power_of_two(builder_, row, 1);
  const VReg packed = builder_.load(at(region, add(builder_, rows, pair)).stride(0));
  const Index odd = modulo_power_of_two(builder_, row, 1);
  if (odd.is_constant()) {
    return odd.offset == 0 ? builder_.unpack_even(packed) : builder_.unpack_odd(packed);
  }
  const SReg shift = builder_.sub(16, builder_.shift_left(odd.reg, 4));
  return builder_.and_(builder_.shift_left(packed, builder_.splat(shift)), kHighHalf);
}

VReg TileMemory::load_row_of_tiles(ElementType type, VmemRegion region, Index rows, int row) {
  if (type != ElementType::kBf16) {
    return builder_.load(at(region, rows.plus(row)).stride(isa::kSublanes));
  }
  const VReg packed = builder_.load(at(region, rows.plus(row / 2)).stride(isa::kSublanes / 2));
  return row % 2 == 0 ? builder_.unpack_even(packed) : builder_.unpack_odd(packed);
}

std::uint32_t identity_bits(HloOpcode reducer, bool integer) {
  switch (reducer) {
    case HloOpcode::kMaximum:
      return integer ? 0x80000000U : 0xff800000U;
    case HloOpcode::kMinimum:
      return integer ? 0x7fffffffU : 0x7f800000U;
    case HloOpcode::kMultiply:
      return integer ? 1 : 0x3f800000U;
    default:
      return 0;
  }
}

VReg combine(KernelBuilder& builder, HloOpcode reducer, bool integer, VectorOperand a,
             VectorOperand b) {
  if (reducer == HloOpcode::kOr) return builder.or_(a, b);
  if (reducer == HloOpcode::kAdd) {
    return integer ? builder.vector(Opcode::kVaddS32, a, b) : builder.add(a, b);
  }
  const bool maximum = reducer == HloOpcode::kMaximum;
  if (!integer) return maximum ? builder.max(a, b) : builder.min(a, b);
  const MReg greater = builder.vector_compare(Opcode::kVcmpGtS32, a, b);
  return maximum ? builder.select(greater, a, b) : builder.select(greater, b, a);
}

VReg combine_sublanes(KernelBuilder& builder, HloOpcode reducer, bool integer, VReg value) {
  // The farthest first: then all rows add the same pairs, and round alike.
  for (int distance = 4; distance > 0; distance /= 2) {
    VReg rotated = value;
    for (int i = 0; i < distance; ++i) rotated = builder.vector(Opcode::kVrotSlaneDown, rotated);
    value = combine(builder, reducer, integer, value, rotated);
  }
  return value;
}

VReg spread_over_lanes(KernelBuilder& builder, ExpressionEmitter& emitter, VReg row, Index first,
                       bool steps, ElementType type) {
  VReg position = emitter.lane_index();
  if (steps) position = builder.vector(Opcode::kVsubS32, position, emitter.sublane_index());
  const VectorOperand lane = first.is_constant()
                                 ? VectorOperand(static_cast<std::uint32_t>(first.offset))
                                 : VectorOperand(builder.splat(to_operand(builder, first)));
  return spread_chosen(builder, row, builder.vector_compare(Opcode::kVcmpEqS32, position, lane),
                       type);
}

VReg spread_chosen(KernelBuilder& builder, VReg row, MReg chosen, ElementType type) {
  // What the sum adds to any number, -0 included, without changing it.
  if (is_floating(type)) return builder.lane_sum(builder.select(chosen, row, -0.0F));
  const VReg value = builder.select(chosen, row, 0);
  if (type == ElementType::kPred) {
    return builder.truncate_to_s32(builder.lane_sum(builder.vector(Opcode::kVcvtS32F32, value)));
  }
  // The adder of the lanes takes fp32: halves of 16 bits pass exactly.
  const VReg low = builder.vector(Opcode::kVcvtS32F32, builder.and_(value, 0xffffU));
  const VReg high =
      builder.vector(Opcode::kVcvtS32F32, builder.vector(Opcode::kVshraS32, value, 16));
  const VReg low_sum = builder.truncate_to_s32(builder.lane_sum(low));
  const VReg high_sum = builder.truncate_to_s32(builder.lane_sum(high));
  return builder.or_(builder.shift_left(high_sum, 16), low_sum);
}

void store_across_lanes(KernelBuilder& builder, ExpressionEmitter& emitter,
                        const std::vector<VReg>& values, const VmemAddress& row, Index first) {
  VReg relative = emitter.lane_index();
  if (!first.is_constant()) {
    relative =
        builder.vector(Opcode::kVsubS32, relative, builder.splat(to_operand(builder, first)));
  } else if (first.offset != 0) {
    relative = builder.vector(Opcode::kVsubS32, relative, static_cast<std::uint32_t>(first.offset));
  }
  const VReg difference = builder.vector(Opcode::kVsubS32, relative, emitter.sublane_index());
  VReg merged;
  for (std::size_t u = 0; u < values.size(); ++u) {
    const MReg own =
        builder.vector_compare(Opcode::kVcmpEqS32, difference, static_cast<int>(8 * u));
    merged = builder.select(own, values[u], merged ? VectorOperand(merged) : VectorOperand(0));
  }
  const VReg lanes = combine_sublanes(builder, HloOpcode::kOr, true, merged);
  const MReg written = builder.vector_compare(Opcode::kVcmpLtS32, builder.shift_right(relative, 3),
                                              static_cast<int>(values.size()));
  builder.store(row.mask(0x1), written, lanes);
}

}  // namespace tpu::compiler
