#include "workloads/compiler/kernels/contraction/matmul_epilogue.h"

#include <algorithm>
#include <utility>

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

/// Granules that a matrix which stays in VMEM may take.
constexpr std::uint64_t kLargestMatrix = 3072;

/// `known`: dimensions, minor ones, of which a kernel knows where a tile stands.
/// `product_parameter`: no operand; -1: there is none.
void find_operands(TileExpression& expression, int known, std::int64_t product_parameter,
                   const HloInstruction& fusion) {
  const ExpressionGraph& graph = *expression.graph;
  for (int id : nodes_of_results(graph)) {
    const ExpressionNode& node = graph.node(id);
    if (node.opcode == HloOpcode::kIota && node.axis >= 0 &&
        node.axis < graph.space().rank() - known) {
      refuse(fusion, "expected no iota along a major dimension beside a product");
    }
    if (node.opcode != HloOpcode::kParameter || node.parameter == product_parameter) continue;
    TileExpression::Operand operand;
    operand.node = id;
    operand.operand = static_cast<int>(node.parameter);
    operand.access = find_access(graph.space(), node.shape, node.axes, expression.kernel_name);
    using Kind = TileExpression::Operand::Kind;
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
             "or scalars beside it, found " +
                 hlo::to_string(node.shape));
    }
    expression.operands.push_back(operand);
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
  const Kind to_vector = epilogue.by_columns ? Kind::kRows : Kind::kLanes;
  for (std::size_t i = 1; i < epilogue.results.size(); ++i) {
    const Kind kind = epilogue.results[i].kind;
    if (kind != to_vector && kind != Kind::kBlocks && (is_dot || kind != Kind::kMatrix)) {
      refuse(fusion,
             "expected sums to the minor dimension behind a product; behind a convolution sums to "
             "both minor dimensions or to its features");
    }
  }
}

/// What a value of a fused computation is computed from, as a computation of its own.
std::shared_ptr<hlo::Computation> computation_below(const hlo::Computation& fused,
                                                    hlo::InstructionId root) {
  std::vector<bool> is_needed(fused.instructions.size(), false);
  is_needed[static_cast<std::size_t>(root)] = true;
  for (auto i = fused.instructions.rbegin(); i != fused.instructions.rend(); ++i) {
    if (!is_needed[static_cast<std::size_t>(i->id)]) continue;
    for (hlo::InstructionId operand : i->operands) {
      is_needed[static_cast<std::size_t>(operand)] = true;
    }
  }
  auto below = std::make_shared<hlo::Computation>();
  below->name = fused.name;
  std::vector<hlo::InstructionId> numbers(fused.instructions.size());
  for (const HloInstruction& instruction : fused.instructions) {
    if (!is_needed[static_cast<std::size_t>(instruction.id)]) continue;
    HloInstruction copy = instruction;
    copy.id = static_cast<hlo::InstructionId>(below->instructions.size());
    for (hlo::InstructionId& operand : copy.operands) {
      operand = numbers[static_cast<std::size_t>(operand)];
    }
    numbers[static_cast<std::size_t>(instruction.id)] = copy.id;
    below->instructions.push_back(std::move(copy));
  }
  below->root = numbers[static_cast<std::size_t>(root)];
  return below;
}

/// The expression that makes a side of the product; none: the side is an operand of the fusion.
std::optional<MatmulPrologue> prologue_of(const hlo::Module& module, const hlo::Computation& fused,
                                          const HloInstruction& side,
                                          const HloInstruction& fusion) {
  if (side.opcode == HloOpcode::kParameter) return std::nullopt;
  const HloInstruction& value =
      fused.at(made_for_side(fused, side, [&fused](hlo::InstructionId id) {
        return fused.at(id).opcode != HloOpcode::kParameter;
      }));
  MatmulPrologue prologue;
  prologue.kernel_name = fusion.name;
  prologue.by_columns = true;
  prologue.expression = computation_below(fused, value.id);
  prologue.graph = std::make_shared<ExpressionGraph>(module, *prologue.expression, fusion.name);
  find_operands(prologue, 2, -1, fusion);
  TileExpression::Result made;
  made.node = prologue.graph->roots()[0];
  made.shape = value.shape;
  prologue.results = {made};
  const std::vector<ElementType> types = prologue.block_types();
  const auto place = std::find(types.begin(), types.end(), value.shape.type);
  if (place == types.end()) {
    refuse(fusion, "expected an array of the type of " + hlo::to_string(value.shape) +
                       ", the side of a product that is made of it");
  }
  prologue.place = static_cast<std::size_t>(place - types.begin());
  return prologue;
}

/// The product is a convolution whose result has its batch in the lanes.
bool has_batch_in_lanes(const HloInstruction& product) {
  return product.opcode == HloOpcode::kConvolution &&
         product.shape.layout.minor_to_major[0] == product.convolution->output_batch;
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

MadeSides MatmulEpilogue::made_sides() const {
  MadeSides made;
  for (std::size_t side = 0; side < made.size(); ++side) {
    if (prologues[side]) made[side] = prologues[side]->made();
  }
  return made;
}

void MatmulEpilogue::exchange_sides() {
  std::swap(lhs, rhs);
  std::swap(lhs_shape, rhs_shape);
  std::swap(prologues[0], prologues[1]);
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
  const auto read_side = [&](std::size_t side, int& operand, Shape& shape) {
    const HloInstruction& value = fused.at(product->operands[side]);
    epilogue.prologues[side] = prologue_of(module, fused, value, instruction);
    operand = epilogue.prologues[side] ? epilogue.prologues[side]->operand()
                                       : static_cast<int>(value.parameter_number);
    shape = computation.at(instruction.operands[static_cast<std::size_t>(operand)]).shape;
  };
  read_side(0, epilogue.lhs, epilogue.lhs_shape);
  read_side(1, epilogue.rhs, epilogue.rhs_shape);
  if (fused.root == product->id) {
    epilogue.results = {whole};
    return epilogue;
  }
  epilogue.out_shape = block_result_shape(instruction, *product);
  hlo::Computation behind = fused;
  const auto parameter = static_cast<std::int64_t>(instruction.operands.size());
  HloInstruction& replaced = behind.at(product->id);
  replaced.opcode = HloOpcode::kParameter;
  replaced.parameter_number = parameter;
  replaced.operands.clear();
  replaced.shape.layout = epilogue.out_shape.layout;
  epilogue.expression = computation_below(behind, behind.root);
  epilogue.graph =
      std::make_shared<ExpressionGraph>(module, *epilogue.expression, instruction.name);
  epilogue.by_columns = has_batch_in_lanes(*product);
  find_operands(epilogue, product->opcode == HloOpcode::kDot ? 2 : 1, parameter, instruction);
  find_results(epilogue, instruction);
  return epilogue;
}

}  // namespace tpu::compiler
