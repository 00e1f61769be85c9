#include "workloads/hlo/stablehlo_scope.h"

#include <utility>

namespace tpu::hlo {

namespace {

/// Regions inside each other beyond which a text is refused.
constexpr std::size_t kDeepestRegions = 64;

}  // namespace

Shape tuple_shape(std::vector<Shape> elements) {
  Shape shape;
  shape.type = ElementType::kTuple;
  shape.elements = std::move(elements);
  return shape;
}

void put_in_post_order(Computation& computation) {
  std::vector<InstructionId> place(computation.instructions.size(), -1);
  std::vector<InstructionId> order;
  std::vector<std::pair<InstructionId, std::size_t>> stack;
  const auto visit = [&](InstructionId root) {
    stack.emplace_back(root, 0);
    while (!stack.empty()) {
      auto& [id, next] = stack.back();
      InstructionId& at = place[static_cast<std::size_t>(id)];
      const std::vector<InstructionId>& operands = computation.at(id).operands;
      if (at < 0 && next < operands.size()) {
        const InstructionId operand = operands[next++];
        if (place[static_cast<std::size_t>(operand)] < 0) stack.emplace_back(operand, 0);
        continue;
      }
      if (at < 0) {
        at = static_cast<InstructionId>(order.size());
        order.push_back(id);
      }
      stack.pop_back();
    }
  };
  visit(computation.root);
  for (const HloInstruction& made : computation.instructions) {
    if (made.opcode == HloOpcode::kParameter) visit(made.id);
  }
  std::vector<HloInstruction> ordered;
  ordered.reserve(order.size());
  for (InstructionId old : order) {
    HloInstruction& made = ordered.emplace_back(std::move(computation.at(old)));
    made.id = place[static_cast<std::size_t>(old)];
    for (InstructionId& operand : made.operands) operand = place[static_cast<std::size_t>(operand)];
  }
  computation.root = place[static_cast<std::size_t>(computation.root)];
  computation.instructions = std::move(ordered);
}

std::vector<Shape> StablehloScope::shapes(const std::vector<InstructionId>& ids) const {
  std::vector<Shape> shapes;
  shapes.reserve(ids.size());
  for (InstructionId id : ids) shapes.push_back(shape(id));
  return shapes;
}

void StablehloScopes::open(RegionKind kind) {
  if (scopes_.size() > kDeepestRegions) cursor_.fail("at most 64 regions inside each other");
  StablehloScope& scope = scopes_.emplace_back();
  scope.kind = kind;
  if (kind == RegionKind::kBranch) add(HloOpcode::kParameter, {}, tuple_shape({}));
}

void StablehloScopes::add_argument(std::string_view name, const Shape& shape,
                                   const Metadata& metadata) {
  StablehloScope& scope = scopes_.back();
  InstructionId id = 0;
  if (scope.kind == RegionKind::kBranch) {
    scope.tuple().elements.push_back(shape);
    id = add_element(scope, 0, scope.arguments);
  } else {
    HloInstruction parameter;
    parameter.opcode = HloOpcode::kParameter;
    parameter.parameter_number = static_cast<std::int64_t>(scope.arguments);
    parameter.shape = shape;
    parameter.metadata = metadata;
    parameter.name = name;
    id = add(std::move(parameter));
  }
  ++scope.arguments;
  define(name, {id});
}

StablehloScope StablehloScopes::close() {
  StablehloScope scope = std::move(scopes_.back());
  scopes_.pop_back();
  return scope;
}

InstructionId StablehloScopes::add(StablehloScope& scope, HloInstruction& instruction) {
  const auto id = static_cast<InstructionId>(scope.computation.instructions.size());
  instruction.id = id;
  if (instruction.name.empty()) instruction.name = to_string(instruction.opcode);
  instruction.name += "." + std::to_string(++instructions_);
  scope.computation.instructions.push_back(std::move(instruction));
  return id;
}

InstructionId StablehloScopes::add(HloOpcode opcode, std::vector<InstructionId> operands,
                                   Shape shape) {
  HloInstruction made;
  made.opcode = opcode;
  made.operands = std::move(operands);
  made.shape = std::move(shape);
  return add(std::move(made));
}

InstructionId StablehloScopes::add_tuple(const std::vector<InstructionId>& values) {
  return add(HloOpcode::kTuple, values, tuple_shape(innermost().shapes(values)));
}

InstructionId StablehloScopes::add_element(StablehloScope& scope, InstructionId tuple,
                                           std::size_t index) {
  HloInstruction element;
  element.opcode = HloOpcode::kGetTupleElement;
  element.operands = {tuple};
  element.tuple_index = static_cast<std::int64_t>(index);
  element.shape = scope.shape(tuple).elements[index];
  return add(scope, element);
}

void StablehloScopes::define(std::string_view name, std::vector<InstructionId> values) {
  if (!scopes_.back().values.emplace(name, std::move(values)).second) {
    cursor_.fail_in(name, "a name that no value of this region has yet");
  }
}

InstructionId StablehloScopes::value(const MlirOperand& operand, std::size_t level) {
  {
    const StablehloScope& scope = scopes_[level];
    const auto found = scope.values.find(operand.name);
    if (found != scope.values.end() && operand.index < found->second.size() &&
        found->second[operand.index] >= 0) {
      return found->second[operand.index];
    }
    const bool may_be_outside = found == scope.values.end() || !scope.captured.empty();
    if (level == 0 || scope.kind == RegionKind::kFunction || !may_be_outside) {
      cursor_.fail_in(operand.name, "a value that is defined above");
    }
  }
  const InstructionId outside = value(operand, level - 1);
  HloInstruction outer = scopes_[level - 1].computation.at(outside);
  StablehloScope& scope = scopes_[level];
  InstructionId local = -1;
  if (outer.opcode == HloOpcode::kConstant && scope.kind == RegionKind::kReducer) {
    outer.name = {};
    local = add(scope, outer);
  } else if (scope.kind == RegionKind::kReducer) {
    cursor_.fail_in(operand.name, "an argument of this region or a constant");
  } else {
    scope.tuple().elements.push_back(outer.shape);
    local = add_element(scope, 0, scope.tuple().elements.size() - 1);
    scope.captured.push_back({operand, local});
  }
  std::vector<InstructionId>& known = scope.values[operand.name];
  if (known.size() <= operand.index) known.resize(operand.index + 1, -1);
  return known[operand.index] = local;
}

}  // namespace tpu::hlo
