#include "workloads/compiler/kernels/matmul_epilogue.h"

#include <algorithm>

#include "sim/base/error.h"
#include "workloads/compiler/passes/layouts.h"

namespace tpu::compiler {

using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;

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

bool is_integer(ElementType type) {
  return type == ElementType::kS32 || type == ElementType::kU32 || type == ElementType::kPred;
}

void find_operands(MatmulEpilogue& epilogue, std::int64_t product_parameter,
                   const HloInstruction& fusion) {
  const ExpressionGraph& graph = *epilogue.graph;
  for (int id : graph.below(graph.roots())) {
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
    operand.integer = is_integer(node.shape.type);
    using Kind = MatmulEpilogue::Operand::Kind;
    if (operand.access.kind == ArrayAccess::Kind::kStream && !operand.access.linear) {
      operand.kind = Kind::kBlocks;
    } else if (operand.access.kind == ArrayAccess::Kind::kTile && !operand.access.linear &&
               operand.access.majors.empty() && granules(node.shape) <= kLargestMatrix) {
      operand.kind = Kind::kMatrix;
    } else if (operand.access.kind == ArrayAccess::Kind::kRow && operand.access.majors.empty() &&
               operand.access.y == ArrayAccess::Step::kNone) {
      operand.kind = Kind::kLanes;
    } else if (node.shape.element_count() == 1) {
      operand.kind = Kind::kScalar;
    } else {
      refuse(fusion,
             "expected arrays of the product's extent, vectors along its minor dimension "
             "or scalars behind it, found " +
                 hlo::to_string(node.shape));
    }
    epilogue.operands.push_back(operand);
  }
}

}  // namespace

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
  }
  return rows;
}

bool MatmulEpilogue::has_matrix() const {
  return std::any_of(operands.begin(), operands.end(),
                     [](const Operand& operand) { return operand.kind == Operand::Kind::kMatrix; });
}

MatmulEpilogue matmul_epilogue(const hlo::Module& module, const hlo::Computation& computation,
                               const HloInstruction& instruction) {
  MatmulEpilogue epilogue;
  epilogue.kernel_name = instruction.name;
  epilogue.out = static_cast<int>(instruction.operands.size());
  epilogue.out_shape = instruction.shape;
  if (instruction.opcode != HloOpcode::kFusion) {
    epilogue.product = &instruction;
    epilogue.lhs_shape = computation.at(instruction.operands[0]).shape;
    epilogue.rhs_shape = computation.at(instruction.operands[1]).shape;
    return epilogue;
  }
  const hlo::Computation& fused = module.computation(instruction.called[0]);
  const auto product =
      std::find_if(fused.instructions.begin(), fused.instructions.end(), is_product);
  if (product == fused.instructions.end()) refuse(instruction, "expected a dot or convolution");
  epilogue.product = &*product;
  epilogue.lhs = static_cast<int>(parameter_of(fused, product->operands[0], instruction));
  epilogue.rhs = static_cast<int>(parameter_of(fused, product->operands[1], instruction));
  const auto operand_shape = [&](int operand) {
    return computation.at(instruction.operands[static_cast<std::size_t>(operand)]).shape;
  };
  epilogue.lhs_shape = operand_shape(epilogue.lhs);
  epilogue.rhs_shape = operand_shape(epilogue.rhs);
  if (fused.root == product->id) return epilogue;
  if (instruction.shape.is_tuple()) refuse(instruction, "expected one result behind a product");
  if (instruction.shape.dimensions != product->shape.dimensions) {
    refuse(instruction,
           "expected a result of the product's extent " + hlo::to_string(product->shape));
  }
  auto expression = std::make_shared<hlo::Computation>(fused);
  const auto parameter = static_cast<std::int64_t>(instruction.operands.size());
  HloInstruction& replaced = expression->at(product->id);
  replaced.opcode = HloOpcode::kParameter;
  replaced.parameter_number = parameter;
  replaced.operands.clear();
  replaced.shape.layout = instruction.shape.layout;
  epilogue.expression = expression;
  epilogue.graph = std::make_shared<ExpressionGraph>(module, *expression, instruction.name);
  find_operands(epilogue, parameter, instruction);
  return epilogue;
}

namespace {

bool has_packed_operand(const MatmulEpilogue& epilogue) {
  return std::any_of(epilogue.operands.begin(), epilogue.operands.end(),
                     [](const auto& operand) { return operand.type() == ElementType::kBf16; });
}

}  // namespace

EpilogueEmitter::EpilogueEmitter(KernelBuilder& builder, const MatmulEpilogue& epilogue)
    : builder_(builder),
      epilogue_(epilogue),
      memory_(builder, has_packed_operand(epilogue), false) {
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
    const bool rows = blocks || operand.kind == Operand::Kind::kMatrix;
    emitter_->set_dependence(operand.node, {operand.kind != Operand::Kind::kScalar, rows});
  }
  emitter_->infer();
}

void EpilogueEmitter::prepare() {
  resident_.resize(epilogue_.operands.size());
  const std::uint32_t flag = epilogue_.operands.empty() ? 0 : builder_.allocate_flag();
  std::uint64_t fetched = 0;
  for (std::size_t i = 0; i < epilogue_.operands.size(); ++i) {
    const Operand& operand = epilogue_.operands[i];
    if (operand.kind == Operand::Kind::kBlocks) continue;
    const std::uint64_t size = granules(operand.access.shape);
    resident_[i] = builder_.allocate_vmem(2 * size);
    builder_.dma_in(builder_.operand(operand.operand), resident_[i], size, flag);
    fetched += size;
  }
  if (fetched > 0) builder_.wait(flag, fetched);
  for (std::size_t i = 0; i < epilogue_.operands.size(); ++i) {
    const Operand& operand = epilogue_.operands[i];
    if (operand.kind != Operand::Kind::kScalar) continue;
    const VReg row = memory_.load_row(operand.type(), resident_[i], {}, {});
    resident_[i] = builder_.allocate_vmem(8);
    builder_.store(resident_[i],
                   spread_over_lanes(builder_, *emitter_, row, {}, false, operand.integer));
  }
  if (emitter_) emitter_->forget();
}

void EpilogueEmitter::begin(std::vector<VmemAddress> blocks) {
  blocks_ = std::move(blocks);
  if (emitter_) emitter_->forget();
}

VReg EpilogueEmitter::apply(const Position& position, VReg product) {
  if (is_identity()) return product;
  position_ = &position;
  product_ = product;
  return emitter_->vector(epilogue_.graph->roots()[0], position.place);
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
    const Index tile = add(builder_, multiply(builder_, row_tile, operand.access.x_tiles),
                           position_->place.digits.back());
    return memory_.load_tile(
        operand.type(),
        at(resident_[number], multiply(builder_, tile, operand.access.tile_rows())));
  }
  const bool packed = operand.type() == ElementType::kBf16;
  VmemAddress address = blocks_[number].plus(position_->tiles * (packed ? 4 : 8));
  TPU_CHECK(!address.base2, "a block's begin has one base");
  address.base2 = packed ? position_->rows16 : position_->rows32;
  return memory_.load_tile(operand.type(), address);
}

}  // namespace tpu::compiler
