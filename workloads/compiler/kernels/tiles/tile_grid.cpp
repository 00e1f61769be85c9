#include "workloads/compiler/kernels/tiles/tile_grid.h"

#include <algorithm>
#include <utility>

#include "sim/base/error.h"

namespace tpu::compiler {

TileGrid::TileGrid(KernelBuilder& builder, std::vector<std::uint32_t> extents)
    : builder_(builder), extents_(std::move(extents)) {
  position_ = builder_.allocate_smem(static_cast<std::uint32_t>(extents_.size()));
}

std::uint64_t TileGrid::tiles() const {
  std::uint64_t tiles = 1;
  for (std::uint32_t extent : extents_) tiles *= extent;
  return tiles;
}

int TileGrid::innermost(const std::vector<std::uint32_t>& extents,
                        const std::vector<int>& dimensions) {
  int found = -1;
  for (int dimension : dimensions) {
    if (extents[static_cast<std::size_t>(dimension)] > 1) found = std::max(found, dimension);
  }
  return found;
}

bool TileGrid::is_constant(const std::vector<int>& dimensions) const {
  return innermost(dimensions) < 0;
}

TileGrid::Buffers TileGrid::make_buffers(const Block& block) {
  Buffers buffers;
  buffers.rows = static_cast<std::uint32_t>(buffer_rows(block.rows));
  buffers.twice = !is_constant(block.dimensions);
  if (block.standing.rows > 0) {
    TPU_CHECK(!buffers.twice && buffers.rows <= block.standing.rows,
              "an array in VMEM that is not one block");
    buffers.moves = false;
    buffers.region = block.standing;
    return buffers;
  }
  buffers.region = builder_.allocate_vmem(std::uint64_t{buffers.rows} * (buffers.twice ? 2 : 1));
  buffers.flag = builder_.allocate_flag();
  if (buffers.twice) builder_.allocate_flag();
  buffers.slot = builder_.allocate_smem(1);
  buffers.count = builder_.allocate_smem(1);
  return buffers;
}

int TileGrid::add_input(Block input) {
  input_buffers_.push_back(make_buffers(input));
  inputs_.push_back(std::move(input));
  return static_cast<int>(inputs_.size() - 1);
}

int TileGrid::add_output(Block output) {
  const int last = innermost(output.dimensions);
  for (int i = 0; i < last; ++i) {
    const bool depends = std::count(output.dimensions.begin(), output.dimensions.end(), i) > 0;
    TPU_CHECK(depends || extents_[static_cast<std::size_t>(i)] == 1,
              "a result that is summed over an outer dimension of a grid");
  }
  output_buffers_.push_back(make_buffers(output));
  if (output_buffers_.back().moves) output_buffers_.back().owed = builder_.allocate_smem(2);
  outputs_.push_back(std::move(output));
  return static_cast<int>(outputs_.size() - 1);
}

// State.

VmemAddress TileGrid::address(const Buffers& buffers, SReg slot) {
  if (!buffers.twice) return {buffers.region, 0};
  return {buffers.region, 0, builder_.mul(slot, buffers.rows)};
}

ScalarOperand TileGrid::flag(const Buffers& buffers, SReg slot) {
  if (!buffers.twice) return buffers.flag;
  return builder_.add(slot, buffers.flag);
}

SReg TileGrid::slot(const Buffers& buffers) {
  return buffers.twice ? builder_.load_smem(buffers.slot) : SReg();
}

SReg TileGrid::index(int dimension) {
  if (extents_[static_cast<std::size_t>(dimension)] == 1) return {};
  return builder_.load_smem(position_ + static_cast<std::uint32_t>(dimension));
}

PReg TileGrid::is_last(int dimension) {
  const std::uint32_t extent = extents_[static_cast<std::size_t>(dimension)];
  return extent == 1 ? PReg() : builder_.equal(index(dimension), extent - 1);
}

PReg TileGrid::is_first(int dimension) {
  const std::uint32_t extent = extents_[static_cast<std::size_t>(dimension)];
  return extent == 1 ? PReg() : builder_.equal(index(dimension), 0);
}

VmemAddress TileGrid::input(int number) {
  const Buffers& buffers = input_buffers_[static_cast<std::size_t>(number)];
  return address(buffers, slot(buffers));
}

VmemAddress TileGrid::output(int number) {
  const Buffers& buffers = output_buffers_[static_cast<std::size_t>(number)];
  return address(buffers, slot(buffers));
}

PReg TileGrid::fresh(int number) {
  const Buffers& buffers = input_buffers_[static_cast<std::size_t>(number)];
  if (buffers.twice) return builder_.equal(builder_.load_smem(buffers.count), 1);
  PReg is_first_tile;
  for (std::size_t d = 0; d < extents_.size(); ++d) {
    const PReg first = is_first(static_cast<int>(d));
    if (!first) continue;
    is_first_tile = is_first_tile ? builder_.and_(is_first_tile, first) : first;
  }
  return is_first_tile;
}

GridPoint TileGrid::present() {
  GridPoint point;
  for (std::size_t i = 0; i < extents_.size(); ++i) point.push_back(index(static_cast<int>(i)));
  return point;
}

// The loop.

void TileGrid::start_first(const std::function<void()>& meanwhile) {
  GridPoint first(extents_.size());
  for (std::size_t i = 0; i < extents_.size(); ++i) {
    if (extents_[i] == 1) continue;
    first[i] = builder_.constant(0);
    builder_.store_smem(position_ + static_cast<std::uint32_t>(i), 0);
  }
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const Buffers& buffers = input_buffers_[i];
    if (!buffers.moves) continue;
    inputs_[i].start(first, {buffers.region, 0}, buffers.flag);
    if (!buffers.twice) continue;
    builder_.store_smem(buffers.slot, 0);
    builder_.store_smem(buffers.count, 1);
  }
  for (const Buffers& buffers : output_buffers_) {
    if (!buffers.twice) continue;
    builder_.store_smem(buffers.slot, 0);
    builder_.store_smem(buffers.count, 0);
  }
  if (meanwhile) meanwhile();
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const Buffers& buffers = input_buffers_[i];
    if (!buffers.moves || buffers.twice) continue;
    builder_.wait(buffers.flag, inputs_[i].granules(first));
  }
}

TileGrid::Step TileGrid::step() {
  Step step;
  const GridPoint point = present();
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
  return step;
}

void TileGrid::fetch_next(SReg number) {
  const Step next = step();
  const PReg more = builder_.less(number, tiles() - 1);
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const Buffers& buffers = input_buffers_[i];
    if (!buffers.twice) continue;
    const PReg moves = next.moves[behind(inputs_[i].dimensions)];
    const PReg fetch = moves ? builder_.and_(moves, more) : more;
    const SReg other = builder_.scalar(isa::Opcode::kSxorU32, slot(buffers), 1);
    const VmemAddress to = address(buffers, other);
    const ScalarOperand raised = flag(buffers, other);
    builder_.guarded(fetch, [&] { inputs_[i].start(next.next, to, raised); });
  }
}

void TileGrid::wait_for_inputs() {
  const GridPoint point = present();
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const Buffers& buffers = input_buffers_[i];
    if (!buffers.twice) continue;
    const ScalarOperand granules = inputs_[i].granules(point);
    const ScalarOperand raised = flag(buffers, slot(buffers));
    builder_.guarded(fresh(static_cast<int>(i)), [&] { builder_.wait(raised, granules); });
  }
}

/// The buffer of a new result is free when the result of two before has left it.
void TileGrid::wait_for_room() {
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const Buffers& buffers = output_buffers_[i];
    if (!buffers.twice) continue;
    PReg reuses = builder_.less(1, builder_.load_smem(buffers.count));
    for (std::size_t d = behind(outputs_[i].dimensions); d < extents_.size(); ++d) {
      if (extents_[d] > 1) reuses = builder_.and_(reuses, is_first(static_cast<int>(d)));
    }
    const SReg present_slot = slot(buffers);
    const ScalarOperand raised = flag(buffers, present_slot);
    const SReg owed = builder_.load_smem(buffers.owed, present_slot);
    builder_.guarded(reuses, [&] { builder_.wait(raised, owed); });
  }
}

void TileGrid::send_results() {
  const Step next = step();
  const GridPoint point = present();
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    const Buffers& buffers = output_buffers_[i];
    if (!buffers.moves) continue;
    const PReg complete = next.moves[behind(outputs_[i].dimensions)];
    const SReg present_slot = slot(buffers);
    const ScalarOperand raised = flag(buffers, present_slot);
    const VmemAddress from = address(buffers, present_slot);
    const auto send = [&] {
      builder_.store_smem(buffers.owed, outputs_[i].granules(point), present_slot);
      outputs_[i].start(point, from, raised);
      if (!buffers.twice) return;
      const SReg counted = builder_.add(builder_.load_smem(buffers.count), 1);
      builder_.store_smem(buffers.count, counted);
      builder_.store_smem(buffers.slot, builder_.scalar(isa::Opcode::kSxorU32, present_slot, 1));
    };
    complete ? builder_.guarded(complete, send) : send();
  }
}

void TileGrid::advance() {
  const Step next = step();
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const Buffers& buffers = input_buffers_[i];
    if (!buffers.twice) continue;
    // There is a next tile, or nobody reads this.
    const PReg moves = next.moves[behind(inputs_[i].dimensions)];
    const SReg other = builder_.scalar(isa::Opcode::kSxorU32, slot(buffers), 1);
    builder_.store_smem(buffers.count, moves ? builder_.select(moves, 1, 0) : builder_.constant(1));
    const auto swap = [&] { builder_.store_smem(buffers.slot, other); };
    moves ? builder_.guarded(moves, swap) : swap();
  }
  for (std::size_t i = 0; i < extents_.size(); ++i) {
    if (extents_[i] == 1) continue;
    builder_.store_smem(position_ + static_cast<std::uint32_t>(i), next.next[i]);
  }
}

void TileGrid::wait_for_results() {
  for (const Buffers& buffers : output_buffers_) {
    if (!buffers.moves) continue;
    for (std::uint32_t slot = 0; slot < (buffers.twice ? 2U : 1U); ++slot) {
      builder_.wait(buffers.flag + slot, builder_.load_smem(buffers.owed + slot));
    }
  }
}

void TileGrid::run(const std::function<void()>& work, const std::function<void()>& meanwhile) {
  start_first(meanwhile);
  builder_.loop(tiles(), [&](SReg number) {
    if (tiles() > 1) fetch_next(number);
    wait_for_inputs();
    wait_for_room();
    builder_.new_block();
    work();
    builder_.new_block();
    send_results();
    if (tiles() > 1) advance();
  });
  wait_for_results();
}

}  // namespace tpu::compiler
