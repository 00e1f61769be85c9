#include "workloads/compiler/kernels/tile_grid.h"

#include <algorithm>
#include <utility>

#include "sim/base/error.h"

namespace tpu::compiler {

TileGrid::TileGrid(KernelBuilder& builder, std::vector<std::uint32_t> extents)
    : builder_(builder), extents_(std::move(extents)) {}

std::uint64_t TileGrid::tiles() const {
  std::uint64_t tiles = 1;
  for (std::uint32_t extent : extents_) tiles *= extent;
  return tiles;
}

int TileGrid::innermost(const std::vector<int>& dimensions) const {
  int found = -1;
  for (int dimension : dimensions) {
    if (extents_[static_cast<std::size_t>(dimension)] > 1) found = std::max(found, dimension);
  }
  return found;
}

bool TileGrid::is_constant(const std::vector<int>& dimensions) const {
  return innermost(dimensions) < 0;
}

TileGrid::Buffers TileGrid::make_buffers(const std::vector<int>& dimensions, std::uint32_t rows) {
  Buffers buffers;
  buffers.rows = (rows + 7) / 8 * 8;
  buffers.twice = !is_constant(dimensions);
  buffers.region = builder_.allocate_vmem(std::uint64_t{buffers.rows} * (buffers.twice ? 2 : 1));
  buffers.flag = builder_.allocate_flag();
  if (buffers.twice) builder_.allocate_flag();
  const int last = innermost(dimensions);
  for (int i = 0; i <= last; ++i) buffers.blocks *= extents_[static_cast<std::size_t>(i)];
  return buffers;
}

int TileGrid::add_input(Input input) {
  input_buffers_.push_back(make_buffers(input.dimensions, input.rows));
  inputs_.push_back(std::move(input));
  return static_cast<int>(inputs_.size() - 1);
}

int TileGrid::add_output(Output output) {
  const int last = innermost(output.dimensions);
  for (int i = 0; i < last; ++i) {
    const bool depends = std::count(output.dimensions.begin(), output.dimensions.end(), i) > 0;
    TPU_CHECK(depends || extents_[static_cast<std::size_t>(i)] == 1,
              "a result that is summed over an outer dimension of a grid");
  }
  output_buffers_.push_back(make_buffers(output.dimensions, output.rows));
  outputs_.push_back(std::move(output));
  return static_cast<int>(outputs_.size() - 1);
}

VmemAddress TileGrid::address(const Buffers& buffers, SReg slot) {
  if (!buffers.twice) return {buffers.region, 0};
  return {buffers.region, 0, builder_.mul(slot, buffers.rows)};
}

ScalarOperand TileGrid::flag(const Buffers& buffers, SReg slot) {
  if (!buffers.twice) return buffers.flag;
  return builder_.add(slot, buffers.flag);
}

GridPoint TileGrid::present() {
  GridPoint point(extents_.size());
  for (std::size_t i = 0; i < extents_.size(); ++i) {
    if (extents_[i] > 1) point[i] = builder_.get(position_[i]);
  }
  return point;
}

void TileGrid::start_first() {
  GridPoint first(extents_.size());
  for (std::size_t i = 0; i < extents_.size(); ++i) {
    if (extents_[i] > 1) first[i] = builder_.constant(0);
  }
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const Buffers& buffers = input_buffers_[i];
    inputs_[i].start(first, {buffers.region, 0}, buffers.flag);
  }
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const Buffers& buffers = input_buffers_[i];
    if (!buffers.twice) builder_.wait(buffers.flag, inputs_[i].granules(first));
  }
  position_.assign(extents_.size(), {});
  for (std::size_t i = 0; i < extents_.size(); ++i) {
    if (extents_[i] > 1) position_[i] = builder_.scalar_variable(0);
  }
  for (Buffers& buffers : input_buffers_) {
    if (!buffers.twice) continue;
    buffers.slot = builder_.scalar_variable(0);
    buffers.count = builder_.scalar_variable(1);
  }
  for (Buffers& buffers : output_buffers_) {
    buffers.owed = builder_.allocate_smem(2);
    if (!buffers.twice) continue;
    buffers.slot = builder_.scalar_variable(0);
    buffers.count = builder_.scalar_variable(0);
  }
}

TileGrid::Step TileGrid::step(SReg number, const GridPoint& point) {
  Step step;
  step.next.resize(extents_.size());
  step.moves.resize(extents_.size() + 1);
  for (std::size_t i = extents_.size(); i-- > 0;) {
    const PReg moves = step.moves[i + 1];
    step.moves[i] = moves;
    if (extents_[i] == 1) continue;
    const SReg incremented = builder_.add(point[i], 1);
    const PReg is_last = builder_.equal(incremented, extents_[i]);
    const SReg moved = builder_.select(is_last, 0, incremented);
    step.next[i] = moves ? builder_.select(moves, moved, point[i]) : moved;
    step.moves[i] = moves ? builder_.and_(is_last, moves) : is_last;
  }
  if (tiles() > 1) step.more = builder_.less(number, tiles() - 1);
  return step;
}

void TileGrid::fetch_next(Step& step) {
  step.slots.resize(inputs_.size());
  step.fresh.resize(inputs_.size());
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const Buffers& buffers = input_buffers_[i];
    if (!buffers.twice) continue;
    const PReg moves = step.moves[behind(inputs_[i].dimensions)];
    const PReg fetch = moves ? builder_.and_(moves, step.more) : step.more;
    const SReg slot = builder_.get(buffers.slot);
    const SReg other = builder_.scalar(isa::Opcode::kSxorU32, slot, 1);
    const VmemAddress to = address(buffers, other);
    const ScalarOperand raised = flag(buffers, other);
    builder_.guarded(fetch, [&] { inputs_[i].start(step.next, to, raised); });
    step.slots[i] = builder_.select(fetch, other, slot);
    step.fresh[i] = builder_.select(fetch, 1, 0);
  }
}

void TileGrid::wait_for_inputs(Tile& tile) {
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const Buffers& buffers = input_buffers_[i];
    SReg slot;
    PReg fresh;
    if (buffers.twice) {
      slot = builder_.get(buffers.slot);
      fresh = builder_.equal(builder_.get(buffers.count), 1);
      const ScalarOperand granules = inputs_[i].granules(tile.point);
      const ScalarOperand raised = flag(buffers, slot);
      builder_.guarded(fresh, [&] { builder_.wait(raised, granules); });
    }
    tile.inputs.push_back(address(buffers, slot));
    tile.fresh.push_back(fresh);
  }
}

/// The buffer of a new result is free when the result of two before has left it.
void TileGrid::wait_for_room(Tile& tile) {
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const Buffers& buffers = output_buffers_[i];
    SReg slot;
    if (buffers.twice) {
      slot = builder_.get(buffers.slot);
      PReg reuses = builder_.less(1, builder_.get(buffers.count));
      for (std::size_t d = behind(outputs_[i].dimensions); d < extents_.size(); ++d) {
        if (extents_[d] > 1) reuses = builder_.and_(reuses, builder_.equal(tile.point[d], 0));
      }
      const ScalarOperand raised = flag(buffers, slot);
      const SReg owed = builder_.load_smem(buffers.owed, slot);
      builder_.guarded(reuses, [&] { builder_.wait(raised, owed); });
    }
    tile.outputs.push_back(address(buffers, slot));
  }
}

void TileGrid::send_results(const Tile& tile, const Step& step) {
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const Buffers& buffers = output_buffers_[i];
    const PReg complete = step.moves[behind(outputs_[i].dimensions)];
    const SReg slot = buffers.twice ? builder_.get(buffers.slot) : SReg();
    const ScalarOperand raised = flag(buffers, slot);
    const auto send = [&] {
      builder_.store_smem(buffers.owed, outputs_[i].granules(tile.point), slot);
      outputs_[i].start(tile.point, tile.outputs[i], raised);
    };
    complete ? builder_.guarded(complete, send) : send();
    if (!buffers.twice) continue;
    const SReg other = builder_.scalar(isa::Opcode::kSxorU32, slot, 1);
    const SReg counted = builder_.add(builder_.get(buffers.count), 1);
    builder_.set(buffers.slot, complete ? builder_.select(complete, other, slot) : other);
    builder_.set(
        buffers.count,
        complete ? builder_.select(complete, counted, builder_.get(buffers.count)) : counted);
  }
}

void TileGrid::advance(const Step& step) {
  for (std::size_t i = 0; i < extents_.size(); ++i) {
    if (extents_[i] > 1) builder_.set(position_[i], step.next[i]);
  }
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (!input_buffers_[i].twice) continue;
    builder_.set(input_buffers_[i].slot, step.slots[i]);
    builder_.set(input_buffers_[i].count, step.fresh[i]);
  }
}

void TileGrid::wait_for_results() {
  for (const Buffers& buffers : output_buffers_) {
    for (std::uint32_t slot = 0; slot < (buffers.twice ? 2U : 1U); ++slot) {
      builder_.wait(buffers.flag + slot, builder_.load_smem(buffers.owed + slot));
    }
  }
}

void TileGrid::run(const std::function<void(const Tile& tile)>& work) {
  start_first();
  builder_.loop(tiles(), [&](SReg number) {
    Tile tile;
    tile.point = present();
    Step next = step(number, tile.point);
    if (tiles() > 1) fetch_next(next);
    wait_for_inputs(tile);
    wait_for_room(tile);
    work(tile);
    send_results(tile, next);
    if (tiles() > 1) advance(next);
  });
  wait_for_results();
}

}  // namespace tpu::compiler
