#include "workloads/compiler/kernels/contraction/tile_expression.h"

#include <algorithm>
#include <numeric>

#include "sim/base/error.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/kernel_forms.h"
#include "workloads/compiler/kernels/contraction/turned_runs.h"

namespace tpu::compiler {

using hlo::ElementType;
using hlo::HloOpcode;
using hlo::Shape;

std::vector<int> nodes_of_results(const ExpressionGraph& graph) {
  std::vector<int> heads = graph.roots();
  for (int root : graph.roots()) {
    if (graph.node(root).opcode != HloOpcode::kReduce) continue;
    heads.push_back(graph.node(root).operands.front());
  }
  return graph.below(heads);
}

MatrixTiles tiles_of_matrix(const Shape& shape) {
  const std::vector<std::int64_t> extents = physical_extents(shape);
  return {ceil_divide(extents[0], 8), ceil_divide(extents[1], 128)};
}

std::uint64_t TileExpression::Operand::row_tiles() const {
  return static_cast<std::uint64_t>(access.shape.element_count() + 7) / 8;
}

std::uint64_t TileExpression::Operand::spread_tiles() const {
  return round_up(row_tiles(), std::min<std::uint64_t>(row_tiles(), kLineTiles));
}

std::vector<ElementType> TileExpression::block_types() const {
  std::vector<ElementType> types;
  for (const Operand& operand : operands) {
    if (operand.kind == Operand::Kind::kBlocks) types.push_back(operand.type());
  }
  return types;
}

std::uint64_t TileExpression::resident_rows() const {
  std::uint64_t rows = 0;
  for (const Operand& operand : operands) {
    if (operand.kind != Operand::Kind::kBlocks) rows += 2 * granules(operand.access.shape) + 16;
    if (operand.kind == Operand::Kind::kRows) rows += 8 * operand.spread_tiles();
    if (operand.kind == Operand::Kind::kMatrix && by_columns) {
      rows += 8 * static_cast<std::uint64_t>(tiles_of_matrix(operand.access.shape).count());
    }
  }
  for (const Result& result : results) {
    // Eight rows of sums for each row of the result; the last blocks may reach beyond it.
    if (result.kind == Result::Kind::kLanes) rows += 32 * granules(result.shape) + 256;
    if (result.kind == Result::Kind::kRows) {
      rows += 8 * static_cast<std::uint64_t>(result.row_tiles()) + 2 * granules(result.shape) + 16;
    }
    if (result.kind == Result::Kind::kMatrix) {
      rows += 16 * static_cast<std::uint64_t>(result.matrix_tiles().count()) + 16;
    }
  }
  return rows;
}

std::vector<ElementType> TileExpression::result_types() const {
  std::vector<ElementType> types;
  for (const Result& result : results) {
    if (result.kind == Result::Kind::kBlocks) types.push_back(result.type());
  }
  return types;
}

VectorCost TileExpression::cost() const {
  VectorCost sum;
  if (graph == nullptr) return sum;
  for (const ExpressionNode& node : graph->nodes()) sum += vector_cost_of(node);
  return sum;
}

bool TileExpression::has_sums() const { return results.back().kind != Result::Kind::kBlocks; }

bool TileExpression::has_results(Result::Kind kind) const {
  return std::any_of(results.begin(), results.end(),
                     [kind](const Result& result) { return result.kind == kind; });
}

bool TileExpression::has_matrix() const {
  return has_results(Result::Kind::kMatrix) ||
         std::any_of(operands.begin(), operands.end(),
                     [](const Operand& operand) { return operand.kind == Operand::Kind::kMatrix; });
}

bool TileExpression::depends_on_rows() const {
  if (graph == nullptr) return false;
  const auto has_rows = [](const Operand& operand) {
    return operand.kind == Operand::Kind::kMatrix || operand.kind == Operand::Kind::kRows;
  };
  const std::vector<int> nodes = nodes_of_results(*graph);
  return std::any_of(operands.begin(), operands.end(), has_rows) ||
         std::any_of(nodes.begin(), nodes.end(), [this](int id) {
           const ExpressionNode& node = graph->node(id);
           return node.opcode == HloOpcode::kIota && node.axis == graph->space().row_axis();
         });
}

namespace {

bool has_packed_operand(const TileExpression& expression) {
  return std::any_of(expression.operands.begin(), expression.operands.end(),
                     [](const auto& operand) { return operand.type() == ElementType::kBf16; });
}

}  // namespace

VmemRegion standing(const ArraysInVmem& arrays, int operand) {
  return arrays.empty() ? VmemRegion() : arrays.at(static_cast<std::size_t>(operand));
}

TileExpressionEmitter::TileExpressionEmitter(KernelBuilder& builder,
                                             const TileExpression& expression, ArraysInVmem arrays)
    : builder_(builder),
      expression_(expression),
      arrays_(std::move(arrays)),
      memory_(builder, has_packed_operand(expression), false) {
  if (is_identity()) return;
  emitter_ = std::make_unique<ExpressionEmitter>(
      builder, *expression.graph,
      [this](int node, const Place& place) { return source(node, place); });
  const auto nodes = expression.graph->nodes();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].opcode == HloOpcode::kParameter) {
      emitter_->set_dependence(static_cast<int>(i), {true, true});
    }
  }
  for (const Operand& operand : expression.operands) {
    const bool blocks = operand.kind == Operand::Kind::kBlocks;
    const bool varies_along_rows = operand.kind == Operand::Kind::kRows;
    const bool rows = blocks || operand.kind == Operand::Kind::kMatrix || varies_along_rows;
    const bool lanes = operand.kind != Operand::Kind::kScalar && !varies_along_rows;
    emitter_->set_dependence(operand.node, {lanes, rows});
  }
  emitter_->infer();
}

void TileExpressionEmitter::start(std::int64_t lane_tiles) {
  lane_tiles_ = lane_tiles;
  resident_.resize(expression_.operands.size());
  sums_.resize(expression_.results.size());
  const bool moves = !expression_.operands.empty() || expression_.has_sums();
  if (moves && arrays_.empty()) flag_ = builder_.allocate_flag();
  for (std::size_t i = 0; i < expression_.operands.size(); ++i) {
    const Operand& operand = expression_.operands[i];
    if (operand.kind == Operand::Kind::kBlocks) continue;
    resident_[i] = standing(arrays_, operand.operand);
    if (resident_[i].rows > 0) continue;
    const std::uint64_t size = granules(operand.access.shape);
    resident_[i] = builder_.allocate_vmem(2 * size);
    builder_.dma_in(builder_.operand(operand.operand), resident_[i], size, flag_);
    fetched_ += size;
  }
  for (std::size_t i = 0; i < expression_.results.size(); ++i) {
    if (expression_.results[i].kind == Result::Kind::kRows) {
      const std::int64_t tiles = expression_.results[i].row_tiles();
      sums_[i] = builder_.allocate_vmem(static_cast<std::uint64_t>(8 * tiles));
    }
    if (expression_.results[i].kind == Result::Kind::kMatrix) {
      const std::int64_t tiles = expression_.results[i].matrix_tiles().count();
      sums_[i] = builder_.allocate_vmem(static_cast<std::uint64_t>(8 * tiles));
    }
    if (expression_.results[i].kind != Result::Kind::kLanes) continue;
    TPU_CHECK(lane_tiles > 0, expression_.kernel_name << ": sums need the number of lane tiles");
    sums_[i] = builder_.allocate_vmem(static_cast<std::uint64_t>(8 * lane_tiles));
  }
}

void TileExpressionEmitter::ready() {
  if (fetched_ > 0) builder_.wait(flag_, fetched_);
  for (std::size_t i = 0; i < expression_.operands.size(); ++i) {
    const Operand& operand = expression_.operands[i];
    if (operand.kind == Operand::Kind::kRows) spread_rows(operand, i);
    if (operand.kind == Operand::Kind::kMatrix && expression_.by_columns)
      order_by_columns(operand, i);
    if (operand.kind != Operand::Kind::kScalar) continue;
    const VReg row = memory_.load_row(operand.type(), resident_[i], {}, {});
    resident_[i] = builder_.allocate_vmem(8);
    builder_.store(resident_[i],
                   spread_over_lanes(builder_, *emitter_, row, {}, false, operand.type()));
  }
  for (const VmemRegion& sums : sums_) {
    if (sums.rows == 0) continue;
    builder_.loop(sums.rows / 8, [&](SReg tile) {
      builder_.store({sums, 0, builder_.shift_left(tile, 3)}, 0.0F);
    });
  }
  if (emitter_) emitter_->forget();
}

/// A register per tile of eight rows, each row's value in all lanes. The tiles of a line of lanes
/// go through the adder of lanes one behind the other: the wait for it is theirs together.
void TileExpressionEmitter::spread_rows(const Operand& operand, std::size_t number) {
  const VmemRegion vector = resident_[number];
  resident_[number] = builder_.allocate_vmem(8 * operand.spread_tiles());
  builder_.new_block();
  emitter_->forget();
  const std::int64_t at_once = std::min<std::int64_t>(operand.spread_tiles(), kLineTiles);
  builder_.loop(operand.spread_tiles() / at_once, [&](SReg line) {
    const Index rows = operand.access.linear
                           ? Index{line, 0}
                           : multiply(builder_, {line, 0}, operand.access.tile_rows());
    const VReg row = memory_.load_row(operand.type(), vector, rows, {});
    const SReg first = builder_.mul(line, 8 * kLineTiles);
    for (std::int64_t tile = 0; tile < at_once; ++tile) {
      builder_.store(
          {resident_[number], 8 * tile, first},
          spread_over_lanes(builder_, *emitter_, row, Index{{}, 8 * tile}, true, operand.type()));
    }
  });
  builder_.new_block();
  emitter_->forget();
}

/// Tiles of a matrix in fp32, column by column.
void TileExpressionEmitter::order_by_columns(const Operand& operand, std::size_t number) {
  const VmemRegion matrix = resident_[number];
  const MatrixTiles tiles = tiles_of_matrix(operand.access.shape);
  const std::int64_t tile_rows = operand.access.tile_rows();
  resident_[number] = builder_.allocate_vmem(static_cast<std::uint64_t>(8 * tiles.count()));
  builder_.new_block();
  emitter_->forget();
  builder_.loop(static_cast<std::uint64_t>(tiles.rows), [&](SReg row) {
    for (std::int64_t column = 0; column < tiles.columns; ++column) {
      const Index from = multiply(builder_, {row, 0}, tiles.columns * tile_rows);
      const VReg tile =
          memory_.load_tile(operand.type(), at(matrix, from.plus(column * tile_rows)));
      const Index to = multiply(builder_, {row, 0}, 8);
      builder_.store(at(resident_[number], to.plus(8 * column * tiles.rows)), tile);
    }
  });
  builder_.new_block();
  emitter_->forget();
}

void TileExpressionEmitter::begin(std::vector<VmemAddress> blocks) {
  blocks_ = std::move(blocks);
  partial_.assign(expression_.results.size(), VReg());
  packed_.clear();
  if (emitter_) emitter_->forget();
}

std::vector<VReg> TileExpressionEmitter::apply(const Position& position, VReg product) {
  if (is_identity()) return {product};
  position_ = &position;
  product_ = product;
  std::vector<VReg> tiles;
  for (std::size_t i = 0; i < expression_.results.size(); ++i) {
    const Result& result = expression_.results[i];
    if (result.kind == Result::Kind::kBlocks) {
      tiles.push_back(emitter_->vector(result.node, position.place));
      continue;
    }
    VReg value = summand(result, position);
    if (result.kind != Result::Kind::kLanes) {
      if (position.inside) value = builder_.select(position.inside, value, 0.0F);
      VReg& sum =
          row_sums_[i].at(static_cast<std::size_t>(position.place.row_key) % row_sums_[i].size());
      sum = sum ? builder_.add(sum, value) : value;
      continue;
    }
    partial_[i] = partial_[i] ? builder_.add(partial_[i], value) : value;
  }
  return tiles;
}

/// What a tile adds to a sum: rows beyond the array add nothing.
VReg TileExpressionEmitter::summand(const Result& result, const Position& position) {
  const int summed = expression_.graph->node(result.node).operands.front();
  const VReg value = emitter_->vector(summed, position.place);
  const Index valid = position.valid_rows;
  if (valid.is_constant() && valid.offset >= 8) return value;
  const MReg inside = builder_.vector_compare(
      isa::Opcode::kVcmpLtS32, emitter_->sublane_index(),
      valid.is_constant() ? VectorOperand(static_cast<std::uint32_t>(valid.offset))
                          : VectorOperand(builder_.splat(to_operand(builder_, valid))));
  return builder_.select(inside, value, 0.0F);
}

void TileExpressionEmitter::end(const Position& position) {
  for (std::size_t i = 0; i < partial_.size(); ++i) {
    if (!partial_[i]) continue;
    const VmemAddress sum = at(sums_[i], multiply(builder_, position.place.digits.back(), 8));
    builder_.store(sum, builder_.add(builder_.load(sum), partial_[i]));
  }
  partial_.clear();
}

void TileExpressionEmitter::begin_row_sums(std::uint32_t tiles, bool paired) {
  sums_paired_ = paired;
  row_sums_.assign(expression_.results.size(), {});
  for (std::size_t i = 0; i < expression_.results.size(); ++i) {
    const Result::Kind kind = expression_.results[i].kind;
    if (kind == Result::Kind::kRows || kind == Result::Kind::kMatrix) row_sums_[i].resize(tiles);
  }
}

void TileExpressionEmitter::end_row_sums(Index first, Index lane) {
  using Rows = Position::Rows;
  std::vector<std::pair<VmemAddress, VReg>> sums;
  for (std::size_t i = 0; i < row_sums_.size(); ++i) {
    const Result& result = expression_.results[i];
    Index first_tile = first;
    if (result.kind == Result::Kind::kMatrix) {
      first_tile = add(builder_, first, multiply(builder_, lane, result.matrix_tiles().rows));
    }
    for (std::size_t slot = 0; slot < row_sums_[i].size(); ++slot) {
      const std::size_t tile = sums_paired_ ? slot / 2 * 2 : slot;
      const Rows rows = !sums_paired_ ? Rows::kTile : slot % 2 == 0 ? Rows::kEven : Rows::kOdd;
      const Index number = first_tile.plus(static_cast<std::int64_t>(tile));
      const VmemAddress sum = rows_of(at(sums_[i], multiply(builder_, number, 8)), rows);
      sums.emplace_back(sum, builder_.add(builder_.load(sum), row_sums_[i][slot]));
    }
  }
  for (const auto& [to, sum] : sums) builder_.store(to, sum);
  row_sums_.clear();
}

VmemAddress TileExpressionEmitter::rows_of(const VmemAddress& tile, Position::Rows rows) const {
  if (rows == Position::Rows::kTile) return tile;
  return tile.plus(rows == Position::Rows::kEven ? 0 : 1).stride(2);
}

void TileExpressionEmitter::finish() {
  std::uint64_t sent = 0;
  for (std::size_t i = 0; i < expression_.results.size(); ++i) {
    const Result& result = expression_.results[i];
    if (result.kind == Result::Kind::kBlocks) continue;
    const std::uint64_t size = granules(result.shape);
    VmemRegion whole = standing(arrays_, result.operand);
    const bool stays = whole.rows > 0;
    if (result.kind == Result::Kind::kMatrix) {
      whole = finish_matrix_sums(result, sums_[i], whole);
    } else {
      if (!stays) whole = builder_.allocate_vmem(2 * size);
      if (result.kind == Result::Kind::kLanes) {
        finish_lane_sums(result, sums_[i], whole);
      } else {
        finish_row_sums(result, sums_[i], whole);
      }
    }
    if (stays) continue;
    sent += size;
    builder_.dma_out(whole, builder_.operand(result.operand), size, flag_);
  }
  if (sent > 0) builder_.wait(flag_, sent);
}

void TileExpressionEmitter::finish_lane_sums(const Result& result, VmemRegion sums,
                                             VmemRegion vector) {
  const std::uint32_t initial = expression_.graph->node(result.node).bits;
  const std::int64_t tiles = ceil_divide(result.shape.element_count(), 128);
  builder_.loop(static_cast<std::uint64_t>(tiles), [&](SReg tile) {
    VReg sum = combine_sublanes(builder_, HloOpcode::kAdd, false,
                                builder_.load({sums, 0, builder_.shift_left(tile, 3)}));
    if (initial != 0) sum = builder_.add(sum, VectorOperand(initial));
    builder_.store(VmemAddress(vector, 0, tile).mask(0x1), sum);
  });
}

/// Lanes are added; the rows of a tile become neighbouring lanes of the vector.
void TileExpressionEmitter::finish_row_sums(const Result& result, VmemRegion sums,
                                            VmemRegion vector) {
  const std::uint32_t initial = expression_.graph->node(result.node).bits;
  const std::int64_t together = std::gcd(result.row_tiles(), std::int64_t{8});
  builder_.new_block();
  builder_.loop(static_cast<std::uint64_t>(result.row_tiles() / together), [&](SReg group) {
    emitter_->forget();
    const Index tile = multiply(builder_, {group, 0}, together);
    std::vector<VReg> values;
    for (std::int64_t i = 0; i < together; ++i) {
      const VReg rows = builder_.load(at(sums, multiply(builder_, tile.plus(i), 8)));
      VReg sum = builder_.lane_sum(rows);
      if (initial != 0) sum = builder_.add(sum, VectorOperand(initial));
      values.push_back(sum);
    }
    const Index line = divide_by_power_of_two(builder_, tile, 4);
    const Index lane = multiply(builder_, modulo_power_of_two(builder_, tile, 4), 8);
    store_across_lanes(builder_, *emitter_, values, at(vector, line), lane);
  });
  builder_.new_block();
  emitter_->forget();
}

/// Where they stand as the matrix lies in HBM, row by row: in the given place where there is one.
VmemRegion TileExpressionEmitter::finish_matrix_sums(const Result& result, VmemRegion sums,
                                                     VmemRegion matrix) {
  const std::uint32_t initial = expression_.graph->node(result.node).bits;
  const MatrixTiles tiles = result.matrix_tiles();
  if (matrix.rows == 0) {
    if (tiles.columns == 1 && initial == 0) return sums;
    matrix = builder_.allocate_vmem(static_cast<std::uint64_t>(8 * tiles.count()));
  }
  builder_.new_block();
  builder_.loop(static_cast<std::uint64_t>(tiles.rows), [&](SReg row) {
    for (std::int64_t column = 0; column < tiles.columns; ++column) {
      const Index from = multiply(builder_, {row, 0}, 8);
      VReg sum = builder_.load(at(sums, from.plus(8 * column * tiles.rows)));
      if (initial != 0) sum = builder_.add(sum, VectorOperand(initial));
      const Index to = multiply(builder_, {row, 0}, 8 * tiles.columns);
      builder_.store(at(matrix, to.plus(8 * column)), sum);
    }
  });
  builder_.new_block();
  return matrix;
}

ExpressionValue TileExpressionEmitter::source(int node, const Place&) {
  std::size_t block = 0;
  for (std::size_t i = 0; i < expression_.operands.size(); ++i) {
    const Operand& operand = expression_.operands[i];
    const bool blocks = operand.kind == Operand::Kind::kBlocks;
    if (operand.node == node) {
      const VReg value = load(operand, blocks ? block : i);
      if (operand.type() != ElementType::kPred) return ExpressionValue::of(value);
      return ExpressionValue::of(builder_.vector_compare(isa::Opcode::kVcmpNeS32, value, 0));
    }
    if (blocks) ++block;
  }
  return ExpressionValue::of(product_);
}

VReg TileExpressionEmitter::load(const Operand& operand, std::size_t number) {
  if (operand.kind == Operand::Kind::kScalar) return builder_.load(resident_[number]);
  if (operand.kind == Operand::Kind::kRows) {
    const Index row_tile = position_->place.digits[position_->place.digits.size() - 2];
    return load_rows(at(resident_[number], multiply(builder_, row_tile, 8)),
                     position_->row_tiles_apart);
  }
  if (operand.kind == Operand::Kind::kLanes) {
    const Index lane_tile = position_->place.digits.back();
    if (operand.access.linear) {
      return memory_.load_row(operand.type(), resident_[number], lane_tile, {});
    }
    return memory_.load_row(operand.type(), resident_[number],
                            multiply(builder_, lane_tile, operand.access.tile_rows()), {});
  }
  if (operand.kind == Operand::Kind::kMatrix) {
    const Index row_tile = position_->place.digits[position_->place.digits.size() - 2];
    if (expression_.by_columns) {
      const std::int64_t rows = tiles_of_matrix(operand.access.shape).rows;
      const Index tile =
          add(builder_, multiply(builder_, position_->place.digits.back(), rows), row_tile);
      return load_rows(at(resident_[number], multiply(builder_, tile, 8)),
                       position_->row_tiles_apart);
    }
    const Index tile = add(builder_, multiply(builder_, row_tile, operand.access.x_tiles),
                           position_->place.digits.back());
    return memory_.load_tile(
        operand.type(),
        at(resident_[number], multiply(builder_, tile, operand.access.tile_rows())));
  }
  return load_block(operand, number);
}

/// The position's rows of a tile of 32-bit elements, and of the other one of its pair.
VReg TileExpressionEmitter::load_rows(const VmemAddress& tile, std::int64_t tiles_apart) {
  const VmemAddress rows = rows_of(tile, position_->rows);
  if (position_->rows == Position::Rows::kTile || tiles_apart == 1) return builder_.load(rows);
  return builder_.or_(builder_.load(rows.mask(0x0f)),
                      builder_.load(rows.plus(8 * (tiles_apart - 1)).mask(0xf0)));
}

VReg TileExpressionEmitter::load_block(const Operand& operand, std::size_t number) {
  using Rows = Position::Rows;
  const bool packed = operand.type() == ElementType::kBf16;
  VmemAddress address = blocks_[number].plus(position_->tiles * (packed ? 4 : 8));
  TPU_CHECK(!address.base2, "a block's begin has one base");
  address.base2 = packed ? position_->rows16 : position_->rows32;
  if (!packed) return load_rows(address, position_->tiles_apart);
  if (position_->rows == Rows::kTile) return memory_.load_tile(operand.type(), address);
  VReg& pairs = packed_[{number, position_->tiles}];
  if (!pairs) pairs = load_tile_pair(builder_, address, 4 * position_->tiles_apart, false);
  return position_->rows == Rows::kEven ? builder_.unpack_even(pairs) : builder_.unpack_odd(pairs);
}

}  // namespace tpu::compiler
