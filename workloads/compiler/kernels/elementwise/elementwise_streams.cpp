#include "sim/base/ceil_divide.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/kernels/elementwise/elementwise_kernel.h"

// Where blocks of streamed arrays stand in HBM, and their DMAs.

namespace tpu::compiler {

/// Of a block of a stream. Where the last one differs, its number is a constant.
std::int64_t ElementwiseKernel::block_granules(const ArrayPart& part, const hlo::Shape& shape,
                                               Index block) const {
  const std::int64_t last = ceil_divide(plan_.row_tiles, plan_.block) - 1;
  const std::int64_t row_tiles = row_tiles_of(block);
  const bool is_last = block.is_constant() && block.offset == last;
  return plan_.moved_granules(
      part, shape,
      is_last ? plan_.last_granules(shape, row_tiles) : plan_.stream_granules(shape, row_tiles));
}

/// The same with the tile behind it, where what is read begins inside of a tile.
std::int64_t ElementwiseKernel::input_granules(const Input& input, Index block) const {
  const std::int64_t own = block_granules(input.part, input.access.shape, block);
  const std::int64_t last = ceil_divide(plan_.row_tiles, plan_.block) - 1;
  const bool is_last = block.is_constant() && block.offset == last;
  if (!input.is_ahead() || (is_last && !input.part.goes_on)) return own;
  return own + plan_.stream_granules(input.access.shape, 1);
}

ScalarOperand ElementwiseKernel::loaded_granules(Index block) {
  std::int64_t streamed = 0;
  for (const Input& input : plan_.inputs) {
    if (input.is_stream()) streamed += input_granules(input, block);
  }
  ScalarOperand sum(streamed);
  for (const Neighborhood& around : plan_.neighborhoods) {
    const ScalarOperand more = granules_around(around, block);
    const bool is_known = !sum.reg && !more.reg;
    sum = is_known ? ScalarOperand(sum.immediate + more.immediate)
                   : ScalarOperand(builder_.add(sum, more));
  }
  return sum;
}

std::int64_t ElementwiseKernel::stored_granules(Index block) const {
  std::int64_t sum = 0;
  for (const Output& output : plan_.outputs) {
    if (output.kind == OutputKind::kStream) sum += block_granules(output.part, output.shape, block);
  }
  return sum;
}

Index ElementwiseKernel::buffer_rows(const hlo::Shape& shape, Index parity) {
  return multiply(builder_, parity, plan_.block * plan_.stream_rows(shape));
}

/// A block of a stream: one range, or one of each of its whole ranges.
StridedBox ElementwiseKernel::box_of(const ArrayPart& part, const hlo::Shape& shape) const {
  if (const std::int64_t with_rows = granules_with_rows(shape);
      with_rows > 0 && part.is_one_range()) {
    const std::int64_t moved =
        plan_.moved_granules(part, shape, plan_.stream_granules(shape, plan_.block));
    const auto tile = static_cast<std::uint32_t>(granules_of_tile(shape));
    return {static_cast<std::uint32_t>(with_rows), static_cast<std::uint32_t>(moved / with_rows),
            tile, tile};
  }
  const bool is_one = part.is_one_range() || plan_.block <= part.run;
  const std::int64_t run = is_one ? plan_.block : part.run;
  return {static_cast<std::uint32_t>(plan_.stream_granules(shape, run)),
          static_cast<std::uint32_t>(plan_.block / run),
          static_cast<std::uint32_t>(is_one ? 0 : part.pitch)};
}

/// Of boxes that differ in nothing but how long their one range is, one is all.
BoxDma& ElementwiseKernel::stream_dma(bool loads, const ArrayPart& part, const hlo::Shape& shape) {
  const StridedBox box = box_of(part, shape);
  const bool is_one = box.is_contiguous();
  const StreamDma key{loads, is_one ? 0 : box.run, is_one ? 0 : box.hbm_stride, box.vmem_stride};
  const auto [found, is_new] = stream_dmas_.try_emplace(key);
  if (is_new) found->second = BoxDma(builder_, loads, box);
  return found->second;
}

/// Outside of the loop over the blocks.
void ElementwiseKernel::make_dmas() {
  const auto prepare = [this](bool loads, const ArrayPart& part, const hlo::Shape& shape) {
    stream_dma(loads, part, shape);
    if (plan_.blocks_of_range(part) == 1) return;
    BlockWalk& walk = walks_[walk_key(loads, part, shape)];
    walk.offset = builder_.scalar_variable(0);
    walk.left = builder_.scalar_variable(0);
  };
  for (const Input& input : plan_.inputs) {
    if (input.is_stream()) prepare(true, input.part, input.access.shape);
  }
  for (const Neighborhood& around : plan_.neighborhoods) around_dma(around);
  for (const Output& output : plan_.outputs) {
    if (output.kind == OutputKind::kStream) prepare(false, output.part, output.shape);
  }
}

ElementwiseKernel::WalkKey ElementwiseKernel::walk_key(bool loads, const ArrayPart& part,
                                                       const hlo::Shape& shape) const {
  return {loads, plan_.blocks_of_range(part), part.pitch,
          plan_.stream_granules(shape, plan_.block)};
}

void ElementwiseKernel::begin_walks() {
  for (auto& [key, walk] : walks_) {
    builder_.set(walk.offset, 0);
    builder_.set(walk.left, std::get<1>(key));
  }
}

/// To the block behind the one whose loads, or stores, have begun.
void ElementwiseKernel::advance_walks(bool loads) {
  for (auto& [key, walk] : walks_) {
    const auto& [is_of_loads, blocks, pitch, granules] = key;
    if (is_of_loads != loads) continue;
    const SReg left = builder_.get(walk.left);
    const PReg is_last = builder_.equal(left, 1);
    const SReg step = builder_.select(is_last, pitch - (blocks - 1) * granules, granules);
    builder_.set(walk.offset, builder_.add(builder_.get(walk.offset), step));
    builder_.set(walk.left, builder_.select(is_last, blocks, builder_.sub(left, 1)));
  }
}

/// Granules from the begin of a stream to that of a block.
Index ElementwiseKernel::block_offset(bool loads, const ArrayPart& part, const hlo::Shape& shape,
                                      Index block) {
  const auto walk = walks_.find(walk_key(loads, part, shape));
  if (walk != walks_.end()) return {builder_.get(walk->second.offset), 0};
  return multiply(builder_, block, plan_.stream_distance(part, shape, plan_.block));
}

/// Starts the loads of a block; the last one may be smaller.
void ElementwiseKernel::start_loads(Index block, Index parity) {
  const std::int64_t last = ceil_divide(plan_.row_tiles, plan_.block) - 1;
  for (const Input& input : plan_.inputs) {
    if (!input.is_stream()) continue;
    const hlo::Shape& shape = input.access.shape;
    const Index at_block = input.repeated ? modulo(builder_, block, plan_.period) : block;
    const std::int64_t part = input.repeated ? plan_.block * plan_.period : plan_.row_tiles;
    const Index offset =
        add(builder_, block_offset(true, input.part, shape, at_block),
            part_offset(input.sliced, plan_.stream_distance(input.part, shape, part),
                        input.shared_by))
            .plus(input.part.granule + input.begin);
    const std::int64_t whole = input_granules(input, block);
    const std::int64_t rest = input_granules(input, {{}, last});
    ScalarOperand size = whole;
    if (rest != whole && !block.is_constant()) {
      size = builder_.select(builder_.equal(to_operand(builder_, block), last), rest, size);
    }
    const SReg from = builder_.add(operand_address(input.operand), to_operand(builder_, offset));
    Index rows = buffer_rows(shape, parity);
    if (input.is_ahead()) rows = add(builder_, rows, multiply(builder_, parity, isa::kSublanes));
    const VmemAddress to = at(input.region, rows);
    stream_dma(true, input.part, shape)
        .start(from, to, to_operand(builder_, parity.plus(load_flag_)), size);
  }
  for (const Neighborhood& around : plan_.neighborhoods) start_loads_around(around, block, parity);
  advance_walks(true);
}

void ElementwiseKernel::start_stores(Index block, Index parity) {
  for (const Output& output : plan_.outputs) {
    if (output.kind != OutputKind::kStream) continue;
    const hlo::Shape& shape = output.shape;
    const Index offset =
        add(builder_, block_offset(false, output.part, shape, block),
            part_offset(output.sliced, plan_.stream_distance(output.part, shape, plan_.row_tiles)))
            .plus(output.part.granule + output.begin);
    const SReg to = builder_.add(operand_address(output.operand), to_operand(builder_, offset));
    const VmemAddress from = at(output.region, buffer_rows(shape, parity));
    stream_dma(false, output.part, shape)
        .start(to, from, to_operand(builder_, parity.plus(store_flag_)),
               block_granules(output.part, shape, block));
  }
  advance_walks(false);
}

}  // namespace tpu::compiler
