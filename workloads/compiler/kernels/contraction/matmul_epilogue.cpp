#include "workloads/compiler/kernels/contraction/matmul_epilogue.h"

#include <algorithm>
#include <numeric>

#include "sim/base/ceil_divide.h"
#include "sim/base/error.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/kernel_forms.h"

namespace tpu::compiler {

using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::Shape;

namespace {

[[noreturn]] void refuse(const HloInstruction& instruction, const std::string& why) {
  throw WorkloadError(instruction.name + ": no kernel for " + hlo::to_string(instruction.shape) +
                      ": " + why);
}

bool is_product(const HloInstruction& instruction) {
  return instruction.opcode == HloOpcode::kDot || instruction.opcode == HloOpcode::kConvolution;
}

/// The parameter that an operand of the product is; layouts may be renamed on the way.
std::int64_t parameter_of(const hlo::Computation& fused, hlo::InstructionId id,
                          const HloInstruction& fusion) {
  const HloInstruction& instruction = fused.at(id);
  if (instruction.opcode == HloOpcode::kParameter) return instruction.parameter_number;
  refuse(fusion, "expected a product of operands of the fusion, found one of " +
                     std::string(hlo::to_string(instruction.opcode)));
}

/// Granules that a matrix which stays in VMEM may take.
constexpr std::uint64_t kLargestMatrix = 3072;

/// Nodes that the results are computed from, those below reductions included.
std::vector<int> all_nodes(const ExpressionGraph& graph) {
  std::vector<int> heads = graph.roots();
  for (int root : graph.roots()) {
    if (graph.node(root).opcode != HloOpcode::kReduce) continue;
    heads.push_back(graph.node(root).operands.front());
  }
  return graph.below(heads);
}

void find_operands(MatmulEpilogue& epilogue, std::int64_t product_parameter,
                   const HloInstruction& fusion) {
  const ExpressionGraph& graph = *epilogue.graph;
  for (int id : all_nodes(graph)) {
    const ExpressionNode& node = graph.node(id);
    const int known = epilogue.product->opcode == HloOpcode::kDot ? 2 : 1;
    if (node.opcode == HloOpcode::kIota && node.axis >= 0 &&
        node.axis < graph.space().rank() - known) {
      refuse(fusion, "expected no iota along a major dimension behind a product");
    }
    if (node.opcode != HloOpcode::kParameter || node.parameter == product_parameter) continue;
    MatmulEpilogue::Operand operand;
    operand.node = id;
    operand.operand = static_cast<int>(node.parameter);
    operand.access = find_access(graph.space(), node.shape, node.axes, epilogue.kernel_name);
    using Kind = MatmulEpilogue::Operand::Kind;
    if (operand.access.kind == ArrayAccess::Kind::kStream && !operand.access.linear) {
      operand.kind = Kind::kBlocks;
    } else if (operand.access.kind == ArrayAccess::Kind::kTile && !operand.access.linear &&
               operand.access.majors.empty() && granules(node.shape) <= kLargestMatrix) {
      operand.kind = Kind::kMatrix;
    } else if (operand.access.kind == ArrayAccess::Kind::kRow && operand.access.majors.empty() &&
               operand.access.y == ArrayAccess::Step::kNone) {
      operand.kind = Kind::kLanes;
    } else if (operand.access.kind == ArrayAccess::Kind::kColumn &&
               operand.access.x == ArrayAccess::Step::kRows && operand.access.majors.empty() &&
               operand.access.y == ArrayAccess::Step::kNone &&
               8 * operand.row_tiles() <= kLongestRowVector) {
      operand.kind = Kind::kRows;
    } else if (node.shape.element_count() == 1) {
      operand.kind = Kind::kScalar;
    } else {
      refuse(fusion,
             "expected arrays of the product's extent, vectors along its two minor dimensions "
             "or scalars behind it, found " +
                 hlo::to_string(node.shape));
    }
    epilogue.operands.push_back(operand);
  }
}

/// True for a sum over all dimensions but these.
bool is_sum_to(const std::vector<int>& kept, const ExpressionGraph& graph,
               const ExpressionNode& node) {
  if (node.opcode != HloOpcode::kReduce || node.reducer != HloOpcode::kAdd) return false;
  const IterationSpace& space = graph.space();
  for (int axis = 0; axis < space.rank(); ++axis) {
    const bool is_reduced =
        std::count(node.reduced_axes.begin(), node.reduced_axes.end(), axis) > 0;
    const bool is_kept = std::count(kept.begin(), kept.end(), axis) > 0;
    const bool is_unit = space.extents[static_cast<std::size_t>(axis)] == 1;
    if (is_reduced == is_kept && !(is_unit && !is_kept)) return false;
  }
  return true;
}

/// Which sum a result that has not the product's extent is; none: one that no kernel makes.
std::optional<MatmulEpilogue::Result::Kind> kind_of_sum(const ExpressionGraph& graph,
                                                        const MatmulEpilogue::Result& result,
                                                        const std::string& what) {
  using Kind = MatmulEpilogue::Result::Kind;
  const ExpressionNode& node = graph.node(result.node);
  const int lanes = graph.space().lane_axis(), rows = graph.space().row_axis();
  if (result.shape.type != ElementType::kF32) return std::nullopt;
  if (result.shape.rank() == 1) {
    if (is_sum_to({lanes}, graph, node)) return Kind::kLanes;
    if (is_sum_to({rows}, graph, node)) return Kind::kRows;
  }
  if (result.shape.rank() != 2 || !is_sum_to({rows, lanes}, graph, node)) return std::nullopt;
  const ArrayAccess access = find_access(graph.space(), result.shape, node.axes, what);
  using Step = ArrayAccess::Step;
  if (access.x != Step::kSame || access.y != Step::kSame) return std::nullopt;
  return Kind::kMatrix;
}

void find_results(MatmulEpilogue& epilogue, const HloInstruction& fusion) {
  const ExpressionGraph& graph = *epilogue.graph;
  using Kind = MatmulEpilogue::Result::Kind;
  for (std::size_t i = 0; i < graph.roots().size(); ++i) {
    MatmulEpilogue::Result result;
    result.node = graph.roots()[i];
    result.shape = graph.root_shapes()[i];
    result.operand = static_cast<int>(fusion.operands.size() + i);
    if (result.shape.dimensions != epilogue.product->shape.dimensions) {
      const std::optional<Kind> kind = kind_of_sum(graph, result, epilogue.kernel_name);
      if (!kind) {
        refuse(fusion, "expected results of the product's extent " +
                           hlo::to_string(epilogue.product->shape) +
                           " or f32 sums of them to one or both of its minor dimensions");
      }
      result.kind = *kind;
    }
    epilogue.results.push_back(std::move(result));
  }
  std::stable_sort(epilogue.results.begin(), epilogue.results.end(),
                   [](const auto& a, const auto& b) { return a.kind < b.kind; });
  if (epilogue.results.front().kind != Kind::kBlocks) {
    refuse(fusion, "expected a result of the product's extent");
  }
  const HloInstruction& product = *epilogue.product;
  const bool is_dot = product.opcode == HloOpcode::kDot;
  const Kind to_vector = epilogue.has_batch_in_lanes() ? Kind::kRows : Kind::kLanes;
  for (std::size_t i = 1; i < epilogue.results.size(); ++i) {
    const Kind kind = epilogue.results[i].kind;
    if (kind != to_vector && kind != Kind::kBlocks && (is_dot || kind != Kind::kMatrix)) {
      refuse(fusion,
             "expected sums to the minor dimension behind a product; behind a convolution sums to "
             "both minor dimensions or to its features");
    }
  }
}

/// The shape of the first result of the product's extent.
Shape block_result_shape(const HloInstruction& instruction, const HloInstruction& product) {
  if (!instruction.shape.is_tuple()) return instruction.shape;
  for (const Shape& shape : instruction.shape.elements) {
    if (shape.dimensions == product.shape.dimensions) return shape;
  }
  return instruction.shape.elements.front();
}

}  // namespace

MatrixTiles tiles_of_matrix(const Shape& shape) {
  const std::vector<std::int64_t> extents = physical_extents(shape);
  return {ceil_divide(extents[0], 8), ceil_divide(extents[1], 128)};
}

std::uint64_t MatmulEpilogue::Operand::row_tiles() const {
  return static_cast<std::uint64_t>(access.shape.element_count() + 7) / 8;
}

std::uint64_t MatmulEpilogue::Operand::spread_tiles() const {
  return round_up(row_tiles(), std::min<std::uint64_t>(row_tiles(), kLineTiles));
}

std::vector<ElementType> MatmulEpilogue::block_types() const {
  std::vector<ElementType> types;
  for (const Operand& operand : operands) {
    if (operand.kind == Operand::Kind::kBlocks) types.push_back(operand.type());
  }
  return types;
}

std::uint64_t MatmulEpilogue::resident_rows() const {
  std::uint64_t rows = 0;
  for (const Operand& operand : operands) {
    if (operand.kind != Operand::Kind::kBlocks) rows += 2 * granules(operand.access.shape) + 16;
    if (operand.kind == Operand::Kind::kRows) rows += 8 * operand.spread_tiles();
    if (operand.kind == Operand::Kind::kMatrix && has_batch_in_lanes()) {
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

std::vector<ElementType> MatmulEpilogue::result_types() const {
  std::vector<ElementType> types;
  for (const Result& result : results) {
    if (result.kind == Result::Kind::kBlocks) types.push_back(result.type());
  }
  return types;
}

VectorCost MatmulEpilogue::cost() const {
  VectorCost sum;
  if (graph == nullptr) return sum;
  for (const ExpressionNode& node : graph->nodes()) sum += vector_cost_of(node);
  return sum;
}

bool MatmulEpilogue::has_sums() const { return results.back().kind != Result::Kind::kBlocks; }

bool MatmulEpilogue::has_results(Result::Kind kind) const {
  return std::any_of(results.begin(), results.end(),
                     [kind](const Result& result) { return result.kind == kind; });
}

bool MatmulEpilogue::has_matrix() const {
  return has_results(Result::Kind::kMatrix) ||
         std::any_of(operands.begin(), operands.end(),
                     [](const Operand& operand) { return operand.kind == Operand::Kind::kMatrix; });
}

bool MatmulEpilogue::has_batch_in_lanes() const {
  return product->opcode == HloOpcode::kConvolution &&
         product->shape.layout.minor_to_major[0] == product->convolution->output_batch;
}

bool MatmulEpilogue::depends_on_rows() const {
  if (graph == nullptr) return false;
  const auto has_rows = [](const Operand& operand) {
    return operand.kind == Operand::Kind::kMatrix || operand.kind == Operand::Kind::kRows;
  };
  const std::vector<int> nodes = all_nodes(*graph);
  return std::any_of(operands.begin(), operands.end(), has_rows) ||
         std::any_of(nodes.begin(), nodes.end(), [this](int id) {
           const ExpressionNode& node = graph->node(id);
           return node.opcode == HloOpcode::kIota && node.axis == graph->space().row_axis();
         });
}

const HloInstruction* product_in(const hlo::Module& module, const HloInstruction& instruction) {
  if (is_product(instruction)) return &instruction;
  if (instruction.opcode != HloOpcode::kFusion) return nullptr;
  const std::vector<HloInstruction>& fused = module.computation(instruction.called[0]).instructions;
  const auto product = std::find_if(fused.begin(), fused.end(), is_product);
  return product == fused.end() ? nullptr : &*product;
}

MatmulEpilogue matmul_epilogue(const hlo::Module& module, const hlo::Computation& computation,
                               const HloInstruction& instruction) {
  MatmulEpilogue epilogue;
  epilogue.kernel_name = instruction.name;
  MatmulEpilogue::Result whole;
  whole.operand = static_cast<int>(instruction.operands.size());
  whole.shape = epilogue.out_shape = instruction.shape;
  if (instruction.opcode != HloOpcode::kFusion) {
    epilogue.product = &instruction;
    epilogue.results = {whole};
    epilogue.lhs_shape = computation.at(instruction.operands[0]).shape;
    epilogue.rhs_shape = computation.at(instruction.operands[1]).shape;
    return epilogue;
  }
  const hlo::Computation& fused = module.computation(instruction.called[0]);
  const HloInstruction* product = product_in(module, instruction);
  if (product == nullptr) refuse(instruction, "expected a dot or convolution");
  epilogue.product = product;
  epilogue.lhs = static_cast<int>(parameter_of(fused, product->operands[0], instruction));
  epilogue.rhs = static_cast<int>(parameter_of(fused, product->operands[1], instruction));
  const auto operand_shape = [&](int operand) {
    return computation.at(instruction.operands[static_cast<std::size_t>(operand)]).shape;
  };
  epilogue.lhs_shape = operand_shape(epilogue.lhs);
  epilogue.rhs_shape = operand_shape(epilogue.rhs);
  if (fused.root == product->id) {
    epilogue.results = {whole};
    return epilogue;
  }
  epilogue.out_shape = block_result_shape(instruction, *product);
  auto expression = std::make_shared<hlo::Computation>(fused);
  const auto parameter = static_cast<std::int64_t>(instruction.operands.size());
  HloInstruction& replaced = expression->at(product->id);
  replaced.opcode = HloOpcode::kParameter;
  replaced.parameter_number = parameter;
  replaced.operands.clear();
  replaced.shape.layout = epilogue.out_shape.layout;
  epilogue.expression = expression;
  epilogue.graph = std::make_shared<ExpressionGraph>(module, *expression, instruction.name);
  find_operands(epilogue, parameter, instruction);
  find_results(epilogue, instruction);
  return epilogue;
}

namespace {

bool has_packed_operand(const MatmulEpilogue& epilogue) {
  return std::any_of(epilogue.operands.begin(), epilogue.operands.end(),
                     [](const auto& operand) { return operand.type() == ElementType::kBf16; });
}

}  // namespace

VmemRegion standing(const ArraysInVmem& arrays, int operand) {
  return arrays.empty() ? VmemRegion() : arrays.at(static_cast<std::size_t>(operand));
}

EpilogueEmitter::EpilogueEmitter(KernelBuilder& builder, const MatmulEpilogue& epilogue,
                                 ArraysInVmem arrays)
    : builder_(builder),
      epilogue_(epilogue),
      arrays_(std::move(arrays)),
      memory_(builder, has_packed_operand(epilogue), false),
      by_columns_(epilogue.has_batch_in_lanes()) {
  if (is_identity()) return;
  emitter_ = std::make_unique<ExpressionEmitter>(
      builder, *epilogue.graph,
      [this](int node, const Place& place) { return source(node, place); });
  const auto nodes = epilogue.graph->nodes();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].opcode == HloOpcode::kParameter) {
      emitter_->set_dependence(static_cast<int>(i), {true, true});
    }
  }
  for (const Operand& operand : epilogue.operands) {
    const bool blocks = operand.kind == Operand::Kind::kBlocks;
    const bool varies_along_rows = operand.kind == Operand::Kind::kRows;
    const bool rows = blocks || operand.kind == Operand::Kind::kMatrix || varies_along_rows;
    const bool lanes = operand.kind != Operand::Kind::kScalar && !varies_along_rows;
    emitter_->set_dependence(operand.node, {lanes, rows});
  }
  emitter_->infer();
}

void EpilogueEmitter::start(std::int64_t lane_tiles) {
  lane_tiles_ = lane_tiles;
  resident_.resize(epilogue_.operands.size());
  sums_.resize(epilogue_.results.size());
  const bool moves = !epilogue_.operands.empty() || epilogue_.has_sums();
  if (moves && arrays_.empty()) flag_ = builder_.allocate_flag();
  for (std::size_t i = 0; i < epilogue_.operands.size(); ++i) {
    const Operand& operand = epilogue_.operands[i];
    if (operand.kind == Operand::Kind::kBlocks) continue;
    resident_[i] = standing(arrays_, operand.operand);
    if (resident_[i].rows > 0) continue;
    const std::uint64_t size = granules(operand.access.shape);
    resident_[i] = builder_.allocate_vmem(2 * size);
    builder_.dma_in(builder_.operand(operand.operand), resident_[i], size, flag_);
    fetched_ += size;
  }
  for (std::size_t i = 0; i < epilogue_.results.size(); ++i) {
    if (epilogue_.results[i].kind == Result::Kind::kRows) {
      const std::int64_t tiles = epilogue_.results[i].row_tiles();
      sums_[i] = builder_.allocate_vmem(static_cast<std::uint64_t>(8 * tiles));
    }
    if (epilogue_.results[i].kind == Result::Kind::kMatrix) {
      const std::int64_t tiles = epilogue_.results[i].matrix_tiles().count();
      sums_[i] = builder_.allocate_vmem(static_cast<std::uint64_t>(8 * tiles));
    }
    if (epilogue_.results[i].kind != Result::Kind::kLanes) continue;
    TPU_CHECK(lane_tiles > 0, epilogue_.kernel_name << ": sums need the number of lane tiles");
    sums_[i] = builder_.allocate_vmem(static_cast<std::uint64_t>(8 * lane_tiles));
  }
}

void EpilogueEmitter::ready() {
  if (fetched_ > 0) builder_.wait(flag_, fetched_);
  for (std::size_t i = 0; i < epilogue_.operands.size(); ++i) {
    const Operand& operand = epilogue_.operands[i];
    if (operand.kind == Operand::Kind::kRows) spread_rows(operand, i);
    if (operand.kind == Operand::Kind::kMatrix && by_columns_) order_by_columns(operand, i);
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
void EpilogueEmitter::spread_rows(const Operand& operand, std::size_t number) {
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
void EpilogueEmitter::order_by_columns(const Operand& operand, std::size_t number) {
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

void EpilogueEmitter::begin(std::vector<VmemAddress> blocks) {
  blocks_ = std::move(blocks);
  partial_.assign(epilogue_.results.size(), VReg());
  packed_.clear();
  if (emitter_) emitter_->forget();
}

std::vector<VReg> EpilogueEmitter::apply(const Position& position, VReg product) {
  if (is_identity()) return {product};
  position_ = &position;
  product_ = product;
  std::vector<VReg> tiles;
  for (std::size_t i = 0; i < epilogue_.results.size(); ++i) {
    const Result& result = epilogue_.results[i];
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
VReg EpilogueEmitter::summand(const Result& result, const Position& position) {
  const int summed = epilogue_.graph->node(result.node).operands.front();
  const VReg value = emitter_->vector(summed, position.place);
  const Index valid = position.valid_rows;
  if (valid.is_constant() && valid.offset >= 8) return value;
  const MReg inside = builder_.vector_compare(
      isa::Opcode::kVcmpLtS32, emitter_->sublane_index(),
      valid.is_constant() ? VectorOperand(static_cast<std::uint32_t>(valid.offset))
                          : VectorOperand(builder_.splat(to_operand(builder_, valid))));
  return builder_.select(inside, value, 0.0F);
}

void EpilogueEmitter::end(const Position& position) {
  for (std::size_t i = 0; i < partial_.size(); ++i) {
    if (!partial_[i]) continue;
    const VmemAddress sum = at(sums_[i], multiply(builder_, position.place.digits.back(), 8));
    builder_.store(sum, builder_.add(builder_.load(sum), partial_[i]));
  }
  partial_.clear();
}

void EpilogueEmitter::begin_row_sums(std::uint32_t tiles, bool paired) {
  sums_paired_ = paired;
  row_sums_.assign(epilogue_.results.size(), {});
  for (std::size_t i = 0; i < epilogue_.results.size(); ++i) {
    const Result::Kind kind = epilogue_.results[i].kind;
    if (kind == Result::Kind::kRows || kind == Result::Kind::kMatrix) row_sums_[i].resize(tiles);
  }
}

void EpilogueEmitter::end_row_sums(Index first, Index lane) {
  using Rows = Position::Rows;
  std::vector<std::pair<VmemAddress, VReg>> sums;
  for (std::size_t i = 0; i < row_sums_.size(); ++i) {
    const Result& result = epilogue_.results[i];
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

VmemAddress EpilogueEmitter::rows_of(const VmemAddress& tile, Position::Rows rows) const {
  if (rows == Position::Rows::kTile) return tile;
  return tile.plus(rows == Position::Rows::kEven ? 0 : 1).stride(2);
}

void EpilogueEmitter::finish() {
  std::uint64_t sent = 0;
  for (std::size_t i = 0; i < epilogue_.results.size(); ++i) {
    const Result& result = epilogue_.results[i];
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

void EpilogueEmitter::finish_lane_sums(const Result& result, VmemRegion sums, VmemRegion vector) {
  const std::uint32_t initial = epilogue_.graph->node(result.node).bits;
  const std::int64_t tiles = ceil_divide(result.shape.element_count(), 128);
  builder_.loop(static_cast<std::uint64_t>(tiles), [&](SReg tile) {
    VReg sum = combine_sublanes(builder_, HloOpcode::kAdd, false,
                                builder_.load({sums, 0, builder_.shift_left(tile, 3)}));
    if (initial != 0) sum = builder_.add(sum, VectorOperand(initial));
    builder_.store(VmemAddress(vector, 0, tile).mask(0x1), sum);
  });
}

/// Lanes are added; the rows of a tile become neighbouring lanes of the vector.
void EpilogueEmitter::finish_row_sums(const Result& result, VmemRegion sums, VmemRegion vector) {
  const std::uint32_t initial = epilogue_.graph->node(result.node).bits;
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
VmemRegion EpilogueEmitter::finish_matrix_sums(const Result& result, VmemRegion sums,
                                               VmemRegion matrix) {
  const std::uint32_t initial = epilogue_.graph->node(result.node).bits;
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

ExpressionValue EpilogueEmitter::source(int node, const Place&) {
  std::size_t block = 0;
  for (std::size_t i = 0; i < epilogue_.operands.size(); ++i) {
    const Operand& operand = epilogue_.operands[i];
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

VReg EpilogueEmitter::load(const Operand& operand, std::size_t number) {
  if (operand.kind == Operand::Kind::kScalar) return builder_.load(resident_[number]);
  if (operand.kind == Operand::Kind::kRows) {
    const Index row_tile = position_->place.digits[position_->place.digits.size() - 2];
    return builder_.load(
        rows_of(at(resident_[number], multiply(builder_, row_tile, 8)), position_->rows));
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
    if (by_columns_) {
      const std::int64_t rows = tiles_of_matrix(operand.access.shape).rows;
      const Index tile =
          add(builder_, multiply(builder_, position_->place.digits.back(), rows), row_tile);
      return builder_.load(
          rows_of(at(resident_[number], multiply(builder_, tile, 8)), position_->rows));
    }
    const Index tile = add(builder_, multiply(builder_, row_tile, operand.access.x_tiles),
                           position_->place.digits.back());
    return memory_.load_tile(
        operand.type(),
        at(resident_[number], multiply(builder_, tile, operand.access.tile_rows())));
  }
  return load_block(operand, number);
}

VReg EpilogueEmitter::load_block(const Operand& operand, std::size_t number) {
  using Rows = Position::Rows;
  const bool packed = operand.type() == ElementType::kBf16;
  VmemAddress address = blocks_[number].plus(position_->tiles * (packed ? 4 : 8));
  TPU_CHECK(!address.base2, "a block's begin has one base");
  address.base2 = packed ? position_->rows16 : position_->rows32;
  if (!packed) return builder_.load(rows_of(address, position_->rows));
  if (position_->rows == Rows::kTile) return memory_.load_tile(operand.type(), address);
  VReg& pairs = packed_[{number, position_->tiles}];
  if (!pairs) pairs = builder_.load(address);
  return position_->rows == Rows::kEven ? builder_.unpack_even(pairs) : builder_.unpack_odd(pairs);
}

}  // namespace tpu::compiler
