#include <algorithm>

#include "isa/instruction.h"
#include "sim/base/ceil_divide.h"
#include "workloads/compiler/kernels/elementwise/elementwise_kernel.h"

// How arrays come that are read around each block: the first block brings all that it reads, the
// others what the one before has not had. That goes from the end of one buffer to the begin of the
// other one in registers, before the block that has it is worked on.

namespace tpu::compiler {

Index ElementwiseKernel::least(Index a, Index b) {
  if (a.is_constant() && b.is_constant()) return {{}, std::min(a.offset, b.offset)};
  return {builder_.min(to_operand(builder_, a), to_operand(builder_, b)), 0};
}

/// What a block brings, as if the array went on at its ends. Where the last block is a smaller one
/// a register may say its number.
ElementwiseKernel::Units ElementwiseKernel::units_around(const Neighborhood& around, Index block) {
  const std::int64_t whole = plan_.units_of_block() * around.step;
  const std::int64_t blocks = ceil_divide(plan_.row_tiles, plan_.block);
  const std::int64_t rest = row_tiles_of({{}, blocks - 1}) / plan_.unit * around.step;
  const Index first = multiply(builder_, block, whole);
  if (block.is_constant()) {
    const std::int64_t count = block.offset == blocks - 1 ? rest : whole;
    const std::int64_t begin = block.offset == 0 ? around.first : first.offset + around.last;
    return {{{}, begin}, {{}, first.offset + count + around.last}};
  }
  Index end = first.plus(whole + around.last);
  if (rest != whole) {
    const PReg is_last = builder_.equal(to_operand(builder_, block), blocks - 1);
    end = {builder_.sub(to_operand(builder_, end), builder_.select(is_last, whole - rest, 0)), 0};
  }
  return {first.plus(around.last), end};
}

ScalarOperand ElementwiseKernel::granules_around(const Neighborhood& around, Index block) {
  const auto counted = [&](Index at) -> ScalarOperand {
    Units units = units_around(around, at);
    if (!around.wraps) {
      units.begin = within(units.begin, 0, around.units - 1);
      units.end = least(units.end, {{}, around.units});
    }
    if (units.begin.is_constant() && units.end.is_constant()) {
      const std::int64_t count = units.end.offset - units.begin.offset;
      return (around.wraps ? count : std::max<std::int64_t>(count, 1)) * around.unit_granules();
    }
    SReg count = builder_.sub(to_operand(builder_, units.end), to_operand(builder_, units.begin));
    if (!around.wraps) count = builder_.max(count, 1);
    return to_operand(builder_, multiply(builder_, {count, 0}, around.unit_granules()));
  };
  if (block.is_constant()) return counted(block);
  const ScalarOperand others = counted(block);
  return builder_.select(builder_.equal(to_operand(builder_, block), 0), counted({}), others);
}

/// One range, or a unit of each few.
BoxDma& ElementwiseKernel::around_dma(const Neighborhood& around) {
  const auto unit = static_cast<std::uint32_t>(around.unit_granules());
  const auto count =
      static_cast<std::uint32_t>(plan_.units_of_block() * around.step + around.halo());
  StridedBox box{count * unit, 1};
  if (around.pitch > 1) box = {unit, count, static_cast<std::uint32_t>(around.pitch) * unit};
  const bool is_one = box.is_contiguous();
  const StreamDma key{true, is_one ? 0 : box.run, is_one ? 0 : box.hbm_stride, box.vmem_stride};
  const auto [found, is_new] = stream_dmas_.try_emplace(key);
  if (is_new) found->second = BoxDma(builder_, true, box);
  return found->second;
}

/// Loads what there is of the units, of an array that is `moved` units further on; the first one
/// of a buffer is unit `to`.
void ElementwiseKernel::load_units(const Neighborhood& around, const Units& units,
                                   std::int64_t moved, Index to, Index parity) {
  Index count, begin = units.begin;
  if (begin.is_constant() && units.end.is_constant()) {
    count = {{}, units.end.offset - begin.offset};
    if (count.offset <= 0) return;
  } else {
    count = {builder_.sub(to_operand(builder_, units.end), to_operand(builder_, begin)), 0};
  }
  Index place{builder_.sub(to_operand(builder_, begin), to_operand(builder_, to)), 0};
  if (begin.is_constant() && to.is_constant()) place = {{}, begin.offset - to.offset};
  // Of an array that ends before, or begins behind, what comes is not read.
  if (!around.wraps) {
    place = within(place, 0, plan_.units_of_block() * around.step + around.halo() - 1);
  }
  const Index rows = add(builder_, multiply(builder_, place, around.unit_rows()),
                         multiply(builder_, parity, buffer_rows_of(around)));
  const Index offset = multiply(builder_, begin.plus(moved), around.pitch * around.unit_granules())
                           .plus(around.phase * around.unit_granules());
  const SReg from = builder_.add(operand_address(around.operand), to_operand(builder_, offset));
  const auto start = [&] {
    around_dma(around).start(
        from, at(around.region, rows.plus(isa::kSublanes)),
        to_operand(builder_, parity.plus(load_flag_)),
        to_operand(builder_, multiply(builder_, count, around.unit_granules())));
  };
  if (count.is_constant()) return start();
  builder_.guarded(builder_.less(0, to_operand(builder_, count)), start);
}

void ElementwiseKernel::start_loads_around(const Neighborhood& around, Index block, Index parity) {
  const Units units = units_around(around, block);
  // The unit that the buffer begins with.
  const Index to =
      multiply(builder_, block, plan_.units_of_block() * around.step).plus(around.first);
  const Index end{{}, around.units};
  if (!around.wraps) {
    Units some{within(units.begin, 0, around.units - 1), least(units.end, end)};
    if (some.begin.is_constant() && some.end.is_constant()) {
      some.end.offset = std::max(some.end.offset, some.begin.offset + 1);
    } else {
      some.end = {
          builder_.max(to_operand(builder_, some.end), to_operand(builder_, some.begin.plus(1))),
          0};
    }
    return load_units(around, some, 0, to, parity);
  }
  load_units(around, {units.begin, least(units.end, {})}, around.units, to, parity);
  load_units(around, {within(units.begin, 0, 2 * around.units), least(units.end, end)}, 0, to,
             parity);
  load_units(around, {within(units.begin, around.units, 2 * around.units), units.end},
             -around.units, to, parity);
}

/// Registers from one place of a region to another one, all loaded before one is stored.
void ElementwiseKernel::move_rows(VmemRegion region, Index from, Index to, std::int64_t registers,
                                  std::uint8_t sublanes) {
  std::vector<VReg> moved;
  for (std::int64_t i = 0; i < registers; ++i) {
    moved.push_back(builder_.load(at(region, from.plus(i * isa::kSublanes)).mask(sublanes)));
  }
  for (const VReg& each : moved) {
    builder_.store(at(region, to).mask(sublanes), each);
    to = to.plus(isa::kSublanes);
  }
}

/// What the next block reads of this one's buffers.
void ElementwiseKernel::keep_halos(Index block, Index parity) {
  const std::int64_t blocks = ceil_divide(plan_.row_tiles, plan_.block);
  const bool is_last = block.is_constant() && block.offset == blocks - 1;
  if (is_resident_ || plan_.neighborhoods.empty() || is_last) return;
  const Index other = block.is_constant() ? Index{{}, 1 - parity.offset}
                                          : Index{builder_.sub(1, to_operand(builder_, parity)), 0};
  for (const Neighborhood& around : plan_.neighborhoods) {
    const std::int64_t rows = around.halo() * around.unit_rows();
    const std::int64_t own = plan_.units_of_block() * around.step * around.unit_rows();
    const Index from = multiply(builder_, parity, buffer_rows_of(around)).plus(own);
    const Index to = multiply(builder_, other, buffer_rows_of(around));
    builder_.new_block();
    const std::int64_t whole = rows / isa::kSublanes, rest = rows % isa::kSublanes;
    in_pieces(builder_, whole, 8, [&](Index first, std::int64_t many) {
      const Index begin = multiply(builder_, first, isa::kSublanes).plus(isa::kSublanes);
      move_rows(around.region, add(builder_, from, begin), add(builder_, to, begin), many, 0xff);
    });
    if (rest > 0) {
      const std::int64_t begin = (whole + 1) * isa::kSublanes;
      move_rows(around.region, from.plus(begin), to.plus(begin), 1,
                static_cast<std::uint8_t>((1U << rest) - 1));
    }
    builder_.new_block();
  }
  emitter_.forget();
}

}  // namespace tpu::compiler
