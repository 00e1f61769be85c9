#include "workloads/compiler/passes/simplify/empty_arrays.h"

#include <algorithm>
#include <vector>

#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/graph_editor.h"

namespace tpu::compiler {

using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;
using hlo::Shape;

namespace {

bool is_array(const Shape& shape) {
  return !shape.is_tuple() && shape.type != hlo::ElementType::kToken &&
         shape.type != hlo::ElementType::kOpaque;
}

/// All arrays of the shape have no element.
bool is_empty(const Shape& shape) {
  if (!shape.is_tuple()) return is_array(shape) && shape.element_count() == 0;
  return !shape.elements.empty() &&
         std::all_of(shape.elements.begin(), shape.elements.end(), is_empty);
}

/// What computes values from values alone.
bool is_computation(HloOpcode opcode) {
  switch (opcode) {
    case HloOpcode::kParameter:
    case HloOpcode::kConstant:
    case HloOpcode::kTuple:
    case HloOpcode::kGetTupleElement:
    case HloOpcode::kOptimizationBarrier:
    case HloOpcode::kWhile:
    case HloOpcode::kConditional:
    case HloOpcode::kCall:
    case HloOpcode::kFusion:
    case HloOpcode::kCustomCall:
    case HloOpcode::kSend:
    case HloOpcode::kRecv:
    case HloOpcode::kInfeed:
    case HloOpcode::kOutfeed:
    case HloOpcode::kAfterAll:
      return false;
    default:
      return true;
  }
}

class EmptyArrays {
 public:
  explicit EmptyArrays(hlo::Module& module) : module_(module), edit_(module) {}

  void run() {
    const std::size_t count = entry().instructions.size();
    for (std::size_t i = 0; i < count; ++i) visit(static_cast<InstructionId>(i));
    if (has_changed_) tidy(entry());
  }

 private:
  hlo::Computation& entry() { return module_.entry_computation(); }
  const HloInstruction& at(InstructionId id) { return entry().at(id); }
  bool is_empty_operand(const HloInstruction& of, std::size_t index) {
    return index < of.operands.size() && is_empty(at(of.operands[index]).shape);
  }

  void visit(InstructionId id) {
    const HloInstruction instruction = at(id);
    if (!is_computation(instruction.opcode)) return;
    edit_.stand_for(id);
    if (is_empty(instruction.shape)) {
      has_changed_ = true;
      return become_empty(instruction);
    }
    bool has_empty = false;
    for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
      has_empty = has_empty || is_empty_operand(instruction, i);
    }
    if (has_empty && become_known(instruction)) has_changed_ = true;
  }

  InstructionId empty_constant(const Shape& shape) {
    HloInstruction constant = edit_.start(HloOpcode::kConstant, {}, shape);
    return edit_.append_instruction(std::move(constant));
  }

  void become_empty(const HloInstruction& instruction) {
    if (!instruction.shape.is_tuple()) return edit_.finish(empty_constant(instruction.shape));
    std::vector<InstructionId> elements;
    for (const Shape& element : instruction.shape.elements) {
      elements.push_back(empty_constant(element));
    }
    edit_.finish_tuple(elements);
  }

  InstructionId splat(InstructionId scalar, const Shape& shape) {
    return edit_.convert(edit_.broadcast(scalar, shape.dimensions, {}), shape.type);
  }

  /// A result with elements from operands of which some have none; false: not known here.
  bool become_known(const HloInstruction& instruction) {
    const Shape& shape = instruction.shape;
    switch (instruction.opcode) {
      case HloOpcode::kReduce:
      case HloOpcode::kReduceWindow:
        return become_initial(instruction);
      case HloOpcode::kDot:
      case HloOpcode::kConvolution:
        edit_.finish(edit_.splat(shape.type, shape.dimensions, 0));
        return true;
      case HloOpcode::kPad:
        edit_.finish(splat(instruction.operands.at(1), shape));
        return true;
      case HloOpcode::kSelectAndScatter:
        edit_.finish(splat(instruction.operands.at(2), shape));
        return true;
      case HloOpcode::kGather:
        return index_by_zero(instruction);
      case HloOpcode::kScatter:
        if (shape.is_tuple() || is_empty_operand(instruction, 0)) return false;
        if (!is_empty_operand(instruction, 2)) return index_by_zero(instruction);
        edit_.finish(instruction.operands[0]);
        return true;
      case HloOpcode::kDynamicUpdateSlice:
        if (shape.is_tuple() || is_empty_operand(instruction, 0)) return false;
        edit_.finish(instruction.operands[0]);
        return true;
      case HloOpcode::kConcatenate:
        join_rest(instruction);
        return true;
      default:
        return false;
    }
  }

  /// Indices of no coordinates, as of an access to a whole array, have one that is 0.
  bool index_by_zero(HloInstruction access) {
    hlo::GatherDimensions& dims = access.gather.edit();
    Shape indices = at(access.operands[1]).shape;
    const auto place = static_cast<std::size_t>(dims.index_vector_dim);
    std::int64_t dimension = 0;
    const std::vector<std::int64_t>& batch = dims.operand_batching_dims;
    while (std::find(batch.begin(), batch.end(), dimension) != batch.end()) ++dimension;
    if (!dims.start_index_map.empty() || place >= indices.dimensions.size() ||
        dimension == at(access.operands[0]).shape.rank()) {
      return false;
    }
    indices.dimensions[place] = 1;
    dims.start_index_map = {dimension};
    access.operands[1] = edit_.splat(indices.type, indices.dimensions, 0);
    access.name += ".by_zero";
    edit_.finish(edit_.append_instruction(std::move(access)));
    return true;
  }

  bool become_initial(const HloInstruction& instruction) {
    const std::size_t arrays = instruction.operands.size() / 2;
    if (!is_empty_operand(instruction, 0)) return false;
    if (!instruction.shape.is_tuple()) {
      edit_.finish(splat(instruction.operands.at(arrays), instruction.shape));
      return true;
    }
    std::vector<InstructionId> results;
    for (std::size_t i = 0; i < arrays; ++i) {
      results.push_back(
          splat(instruction.operands.at(arrays + i), instruction.shape.elements.at(i)));
    }
    edit_.finish_tuple(results);
    return true;
  }

  void join_rest(const HloInstruction& instruction) {
    std::vector<InstructionId> rest;
    for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
      if (!is_empty_operand(instruction, i)) rest.push_back(instruction.operands[i]);
    }
    edit_.finish(rest.size() == 1 ? rest[0]
                                  : edit_.concatenate(rest, instruction.dimensions.at(0)));
  }

  hlo::Module& module_;
  GraphEditor edit_;
  bool has_changed_ = false;
};

}  // namespace

void replace_empty_arrays(hlo::Module& module) { EmptyArrays(module).run(); }

}  // namespace tpu::compiler
