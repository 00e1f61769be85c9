#include "workloads/compiler/kernels/contraction/matmul_prologue.h"

#include <utility>

#include "workloads/compiler/kernels/contraction/contraction_blocks.h"
#include "workloads/compiler/kernels/contraction/matmul_memory.h"
#include "workloads/compiler/kernels/tiles/step_counter.h"

namespace tpu::compiler {

namespace {

using hlo::ElementType;
using Operand = TileExpression::Operand;
using Axis = ProductSide::Axis;

/// Tiles in one straight piece of code, at most.
constexpr std::uint32_t kStraightTiles = 8;

std::vector<const Operand*> arrays_of(const MatmulPrologue& prologue) {
  std::vector<const Operand*> arrays;
  for (const Operand& operand : prologue.operands) {
    if (operand.kind == Operand::Kind::kBlocks) arrays.push_back(&operand);
  }
  return arrays;
}

/// Neighbouring axes whose tiles follow each other as those of one become one.
std::vector<Axis> joined(const std::vector<Axis>& axes) {
  std::vector<Axis> found;
  for (const Axis& axis : axes) {
    if (!found.empty() && found.back().tiles == axis.count * axis.tiles) {
      found.back() = {found.back().count * axis.count, axis.tiles};
    } else {
      found.push_back(axis);
    }
  }
  return found;
}

}  // namespace

int MatmulPrologue::operand() const { return arrays_of(*this)[place]->operand; }

MadeSide MatmulPrologue::made() const {
  MadeSide side;
  side.is_made = true;
  side.type = results[0].type();
  side.cost = cost();
  side.beside = block_types();
  side.beside.erase(side.beside.begin() + static_cast<std::ptrdiff_t>(place));
  side.resident_rows = resident_rows();
  side.depends_on_rows = depends_on_rows();
  return side;
}

ProductSide::ProductSide(KernelBuilder& builder, const std::optional<MatmulPrologue>& prologue)
    : builder_(builder), prologue_(prologue ? &*prologue : nullptr) {
  if (prologue_ == nullptr) return;
  emitter_ = std::make_unique<TileExpressionEmitter>(builder, *prologue_);
  memory_ = std::make_unique<TileMemory>(builder, false, is_packed(prologue_->results[0].type()));
}

void ProductSide::start() {
  if (prologue_ == nullptr) return;
  emitter_->start();
  const auto arrays = arrays_of(*prologue_);
  words_ = builder_.allocate_smem(static_cast<std::uint32_t>(arrays.size()));
  for (std::uint32_t i = 0; i < arrays.size(); ++i) {
    builder_.store_smem(words_ + i, builder_.operand(arrays[i]->operand));
  }
}

void ProductSide::add_arrays(TileGrid& grid, int input, const BlockOf& block_of) {
  if (prologue_ == nullptr) return;
  const auto arrays = arrays_of(*prologue_);
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const std::uint32_t word = words_ + static_cast<std::uint32_t>(i);
    inputs_.push_back(i == prologue_->place ? input
                                            : grid.add_input(block_of(arrays[i]->type(), word)));
  }
}

void ProductSide::ready() {
  if (prologue_ != nullptr) emitter_->ready();
}

void ProductSide::make(TileGrid& grid, const std::function<Tiles()>& tiles_of_block) {
  if (prologue_ == nullptr) return;
  emit_if(builder_, grid.fresh(inputs_[prologue_->place]), [&] {
    std::vector<VmemAddress> blocks;
    blocks.reserve(inputs_.size());
    for (int input : inputs_) blocks.push_back(grid.input(input));
    make_block(blocks, tiles_of_block());
  });
  builder_.new_block();
}

/// Where nothing asks for the row, rows are an axis like others. Two neighbours along the innermost
/// axis go together where arrays are packed: a register has the even rows of both, another one the
/// odd rows.
ProductSide::Order ProductSide::order_of(const Tiles& tiles) const {
  Order order;
  order.axes = tiles.outer;
  if (!prologue_->depends_on_rows()) {
    order.axes.push_back(tiles.rows);
    order.axes = joined(order.axes);
    while (order.axes.size() < 2) order.axes.insert(order.axes.begin(), Axis{1, 0});
    order.rows = order.axes.size();
  } else {
    order.axes = joined(order.axes);
    order.rows = order.axes.size();
    order.axes.push_back(tiles.rows);
    if (tiles.rows.count % 2 != 0 && order.axes[order.rows - 1].count % 2 == 0) {
      std::swap(order.axes[order.rows - 1], order.axes[order.rows]);
      --order.rows;
    }
  }
  const Axis& inner = order.axes.back();
  order.is_paired = is_packed(prologue_->results[0].type()) && inner.count % 2 == 0;
  order.inner = largest_divisor(inner.count, kStraightTiles, order.is_paired ? 2 : 1);
  if (order.inner == inner.count) {
    const Axis& outer = order.axes[order.axes.size() - 2];
    order.outer = largest_divisor(outer.count, kStraightTiles / order.inner);
  }
  return order;
}

void ProductSide::make_block(const std::vector<VmemAddress>& blocks, const Tiles& tiles) {
  const Order order = order_of(tiles);
  const std::size_t last = order.axes.size() - 1;
  const auto in_piece = [&](std::size_t axis) {
    return axis == last ? order.inner : axis + 1 == last ? order.outer : 1;
  };
  std::vector<std::uint32_t> extents, distances;
  for (std::size_t i = 0; i < order.axes.size(); ++i) {
    extents.push_back(order.axes[i].count / in_piece(i));
    distances.push_back(order.axes[i].tiles * in_piece(i));
  }
  extents.push_back(tiles.lanes.count);
  distances.push_back(tiles.lanes.tiles);
  builder_.new_block();
  StepCounter counter(builder_, extents);
  builder_.loop(counter.steps(), [&](SReg) {
    const std::vector<SReg> digits = counter.present();
    TileExpressionEmitter::Position position;
    if (const SReg from = weighted_sum(builder_, digits, distances)) {
      position.rows32 = builder_.shift_left(from, 3);
      position.rows16 = builder_.shift_left(from, 2);
    }
    position.tiles = tiles.before;
    std::vector<Index>& place = position.place.digits;
    place.resize(static_cast<std::size_t>(prologue_->graph->space().rank()));
    const auto behind = [&](Index first, SReg digit, std::uint32_t tiles_of_digit) {
      return digit ? add(builder_, first, multiply(builder_, {digit, 0}, tiles_of_digit)) : first;
    };
    place[place.size() - 1] = behind(tiles.first_lane, digits.back(), 1);
    Index& row = place[place.size() - 2] = tiles.first_row;
    if (order.rows <= last) row = behind(row, digits[order.rows], in_piece(order.rows));
    make_piece(blocks, order, std::move(position));
    counter.advance(counter.next());
  });
  builder_.new_block();
}

/// In straight code.
void ProductSide::make_piece(const std::vector<VmemAddress>& blocks, const Order& order,
                             TileExpressionEmitter::Position position) {
  using Rows = TileExpressionEmitter::Position::Rows;
  const ElementType type = prologue_->results[0].type();
  const Axis& inner = order.axes.back();
  const Axis& outer = order.axes[order.axes.size() - 2];
  const std::int64_t first = position.tiles;
  Index& row = position.place.digits[position.place.digits.size() - 2];
  const Index first_row = row;
  const bool rows_are_inner = order.rows + 1 == order.axes.size();
  const bool rows_are_outer = order.rows + 2 == order.axes.size();
  VmemAddress made = blocks[prologue_->place];
  made.base2 = is_packed(type) ? position.rows16 : position.rows32;
  position.place.lane_key = 0;
  position.place.row_key = 0;
  position.tiles_apart = inner.tiles;
  position.row_tiles_apart = rows_are_inner ? 1 : 0;
  const std::vector<Rows> parts =
      order.is_paired ? std::vector{Rows::kEven, Rows::kOdd} : std::vector{Rows::kTile};
  emitter_->begin(blocks);
  for (std::uint32_t o = 0; o < order.outer; ++o) {
    for (std::uint32_t i = 0; i < order.inner; i += order.is_paired ? 2 : 1) {
      position.tiles = first + std::int64_t{o} * outer.tiles + std::int64_t{i} * inner.tiles;
      row = first_row.plus(rows_are_inner ? i : rows_are_outer ? o : 0);
      std::vector<VReg> rows;
      for (const Rows part : parts) {
        position.rows = part;
        rows.push_back(emitter_->apply(position, {})[0]);
        ++position.place.row_key;
      }
      store(made.plus(position.tiles * tile_rows(type)), rows, inner.tiles);
    }
  }
}

/// A tile; of two the even and the odd rows, `tiles_apart`.
void ProductSide::store(const VmemAddress& to, const std::vector<VReg>& rows,
                        std::uint32_t tiles_apart) {
  if (rows.size() == 1) {
    memory_->store_tile(prologue_->results[0].type(), to, rows[0]);
    return;
  }
  const VReg pairs = builder_.pack_bf16(rows[0], rows[1]);
  if (tiles_apart == 1) {
    builder_.store(to, pairs);
    return;
  }
  builder_.store(to.mask(0x0f), pairs);
  builder_.store(to.plus(4 * (std::int64_t{tiles_apart} - 1)).mask(0xf0), pairs);
}

}  // namespace tpu::compiler
