#include "workloads/hlo/stablehlo_emitter.h"

#include <algorithm>
#include <utility>

#include "workloads/hlo/chlo_functions.h"
#include "workloads/hlo/literal_reader.h"
#include "workloads/hlo/stablehlo_attributes.h"

namespace tpu::hlo {

namespace {

using Ids = std::vector<InstructionId>;

/// The attribute that names the function of this module that the operation calls; empty for other
/// operations. A custom call may name one that it applies to elements: `[@compare]`.
std::string_view attribute_of_callee(const StablehloOperation& operation, HloOpcode opcode) {
  if (opcode == HloOpcode::kCall) {
    return operation.name == "composite" ? "decomposition" : "callee";
  }
  if (opcode != HloOpcode::kCustomCall) return {};
  constexpr std::string_view kCalled = "called_computations";
  const std::string_view list = operation.attributes.text_or(kCalled, "");
  const bool is_one = list.find('@') != std::string_view::npos && list.find('@') == list.rfind('@');
  return is_one ? kCalled : std::string_view();
}

/// `@name`, or the name alone in the form that `call` has of its own.
std::string_view callee_of(const StablehloOperation& operation, std::string_view attribute) {
  std::string_view name = operation.attributes.text(attribute);
  if (name.size() > 1 && name.front() == '[' && name.back() == ']') {
    name = name.substr(1, name.size() - 2);
  }
  if (!name.empty() && name.front() == '@') name.remove_prefix(1);
  if (name.size() > 1 && name.front() == '"' && name.back() == '"') {
    name = name.substr(1, name.size() - 2);
  }
  return name;
}

/// Which element of a loop's tuple each of its values is.
class LoopTuple {
 public:
  LoopTuple(std::size_t count, const StablehloScope& body) : places_(count) {
    std::size_t next = 0;
    for (const bool wanted : {false, true}) {
      for (std::size_t i = 0; i < count; ++i) {
        const HloInstruction& returned = body.computation.at(body.returned[i]);
        const bool is_handed_on = returned.opcode == HloOpcode::kGetTupleElement &&
                                  returned.operands[0] == 0 &&
                                  returned.tuple_index == static_cast<std::int64_t>(i);
        if (is_handed_on == wanted) places_[i] = next++;
      }
    }
  }

  /// Gives the elements that a region reads their places; notes those from outside.
  void renumber(StablehloScope& region) {
    for (const StablehloScope::Captured& captured : region.captured) {
      region.computation.at(captured.local).tuple_index =
          static_cast<std::int64_t>(places_.size() + outside_place(captured.value));
    }
    for (HloInstruction& made : region.computation.instructions) {
      if (made.opcode != HloOpcode::kGetTupleElement || made.operands[0] != 0) continue;
      const auto index = static_cast<std::size_t>(made.tuple_index);
      if (index < places_.size()) made.tuple_index = static_cast<std::int64_t>(places_[index]);
    }
  }

  std::size_t place(std::size_t value) const { return places_[value]; }
  const std::vector<MlirOperand>& outside() const { return outside_; }
  /// The loop's values and those from outside, as the tuple has them.
  Ids ordered(const Ids& values) const {
    Ids elements = values;
    for (std::size_t i = 0; i < places_.size(); ++i) elements[places_[i]] = values[i];
    return elements;
  }

 private:
  std::size_t outside_place(const MlirOperand& value) {
    for (std::size_t i = 0; i < outside_.size(); ++i) {
      if (outside_[i].name == value.name && outside_[i].index == value.index) return i;
    }
    outside_.push_back(value);
    return outside_.size() - 1;
  }

  std::vector<std::size_t> places_;
  std::vector<MlirOperand> outside_;
};

}  // namespace

Ids StablehloEmitter::values_of(const StablehloOperation& operation, HloInstruction made,
                                std::vector<StablehloScope> regions) {
  if (operation.dialect == "chlo") return chlo(operation, std::move(made));
  if (operation.name == "constant") {
    constant(operation, made);
  } else {
    set_attributes(cursor_, operation, made);
  }
  if (made.opcode == HloOpcode::kAllToAll) return {all_to_all(operation, std::move(made))};
  if (made.opcode == HloOpcode::kWhile) return loop(operation, std::move(made), std::move(regions));
  if (made.opcode == HloOpcode::kConditional) {
    branches(operation, made, std::move(regions));
  } else {
    for (StablehloScope& region : regions) made.called.push_back(finish(std::move(region)));
  }
  adapt_operands(operation, made);
  const std::string_view callee = attribute_of_callee(operation, made.opcode);
  Ids values = add_results(std::move(made), operation.result_count());
  if (!callee.empty()) {
    const Computation& computation = scopes_.innermost().computation;
    const HloInstruction* call =
        values.empty() ? &computation.instructions.back() : &computation.at(values[0]);
    if (call->opcode == HloOpcode::kGetTupleElement) call = &computation.at(call->operands[0]);
    callees_[call->name] = callee_of(operation, callee);
  }
  return values;
}

/// Adds the instruction; where its result is a tuple, the first `count` elements.
Ids StablehloEmitter::add_results(HloInstruction made, std::size_t count) {
  const bool is_tuple = made.shape.is_tuple();
  const InstructionId id = scopes_.add(std::move(made));
  if (!is_tuple) return {id};
  Ids elements;
  for (std::size_t i = 0; i < count; ++i) {
    elements.push_back(scopes_.add_element(scopes_.innermost(), id, i));
  }
  return elements;
}

/// HLO's exchange keeps the shape. Where parts of one dimension are joined along another, they
/// move there.
InstructionId StablehloEmitter::all_to_all(const StablehloOperation& operation,
                                           HloInstruction made) {
  const std::int64_t split = made.dimensions[0];
  const std::int64_t joined = operation.attributes.integer("concat_dimension");
  const std::int64_t count = operation.attributes.integer("split_count");
  if (made.operands.size() != 1) operation.attributes.fail("an all_to_all of one array");
  const Shape result = made.shape, from = shape(made.operands[0]);
  std::vector<std::int64_t> extents = from.dimensions;
  const auto is_dimension = [&](std::int64_t d) { return d >= 0 && d < from.rank(); };
  if (!is_dimension(split) || !is_dimension(joined) || count < 1 ||
      extents[static_cast<std::size_t>(split)] % count != 0 ||
      from.element_count() != result.element_count()) {
    operation.attributes.fail("an all_to_all of whole parts of its operand");
  }
  made.shape = from;
  const InstructionId exchanged = scopes_.add(std::move(made));
  if (split == joined) return exchanged;
  extents[static_cast<std::size_t>(split)] /= count;
  extents.insert(extents.begin() + split, count);
  const InstructionId parts =
      scopes_.add(HloOpcode::kReshape, {exchanged}, array_shape(from.type, extents));
  HloInstruction moved;
  moved.opcode = HloOpcode::kTranspose;
  moved.operands = {parts};
  for (std::int64_t d = 0; d <= from.rank(); ++d) {
    if (d != split) moved.dimensions.push_back(d);
  }
  moved.dimensions.insert(moved.dimensions.begin() + joined, split);
  std::vector<std::int64_t> order;
  for (std::int64_t d : moved.dimensions) order.push_back(extents[static_cast<std::size_t>(d)]);
  moved.shape = array_shape(from.type, order);
  return scopes_.add(HloOpcode::kReshape, {scopes_.add(std::move(moved))}, result);
}

InstructionId StablehloEmitter::binary(const StablehloOperation& operation, InstructionId a,
                                       InstructionId b, const Shape& shape) {
  HloInstruction made;
  made.operands = {a, b};
  made.shape = shape;
  set_attributes(cursor_, operation, made);
  return scopes_.add(std::move(made));
}

void StablehloEmitter::add_function(std::string_view name, StablehloScope scope) {
  scope.computation.name = name;
  if (!functions_.emplace(name, finish(std::move(scope))).second) {
    cursor_.fail_in(name, "a name that no function has yet");
  }
}

ComputationId StablehloEmitter::function(std::string_view name) const {
  const auto found = functions_.find(name);
  return found == functions_.end() ? -1 : found->second;
}

/// The regions of a loop have one tuple, in the order that XLA gives it: the values that the body
/// changes, those that it hands on, then what either region reads from outside.
Ids StablehloEmitter::loop(const StablehloOperation& operation, HloInstruction made,
                           std::vector<StablehloScope> regions) {
  const std::size_t count = made.operands.size();
  if (regions.size() != 2 || regions[0].returned.size() != 1 ||
      regions[1].returned.size() != count || regions[0].arguments != count ||
      regions[1].arguments != count) {
    operation.attributes.fail(
        "a loop whose regions have its values as arguments and return a condition and the values");
  }
  LoopTuple tuple(count, regions[1]);
  for (StablehloScope& region : regions) tuple.renumber(region);
  for (const MlirOperand& value : tuple.outside()) made.operands.push_back(scopes_.value(value));
  made.operands = {scopes_.add_tuple(tuple.ordered(made.operands))};
  made.shape = shape(made.operands[0]);
  for (StablehloScope& region : regions) region.tuple() = made.shape;
  StablehloScope& body = regions[1];
  for (std::size_t i = 0; i < tuple.outside().size(); ++i) {
    body.returned.push_back(scopes_.add_element(body, 0, count + i));
  }
  HloInstruction root;
  root.opcode = HloOpcode::kTuple;
  root.operands = tuple.ordered(body.returned);
  root.shape = tuple_shape(body.shapes(root.operands));
  body.returned = {scopes_.add(body, root)};
  const ComputationId condition = finish(std::move(regions[0]));
  made.called = {finish(std::move(body)), condition};
  const Ids elements = add_results(std::move(made), count);
  Ids values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(elements[tuple.place(i)]);
  return values;
}

void StablehloEmitter::branches(const StablehloOperation& operation, HloInstruction& made,
                                std::vector<StablehloScope> regions) {
  if (made.operands.size() != 1 || regions.empty()) {
    operation.attributes.fail("an index and a region for each branch");
  }
  for (StablehloScope& region : regions) {
    if (region.returned.size() != operation.result_count() || region.arguments != 0) {
      operation.attributes.fail("branches that return the results of the operation");
    }
    Ids values;
    for (const StablehloScope::Captured& captured : region.captured) {
      values.push_back(scopes_.value(captured.value));
    }
    made.operands.push_back(scopes_.add_tuple(values));
    made.called.push_back(finish(std::move(region)));
  }
}

/// What HLO wants of operands and StableHLO does not: whole arrays in place of scalars, no
/// repetition of dimensions of one, one tuple behind a barrier.
void StablehloEmitter::adapt_operands(const StablehloOperation& operation, HloInstruction& made) {
  const auto spread = [&](InstructionId& operand, ElementType type) {
    if (shape(operand).rank() > 0 || made.shape.rank() == 0) return;
    operand =
        scopes_.add(HloOpcode::kBroadcast, {operand}, array_shape(type, made.shape.dimensions));
  };
  switch (made.opcode) {
    case HloOpcode::kClamp:
      if (made.operands.size() != 3) operation.attributes.fail("a clamp of three operands");
      spread(made.operands[0], made.shape.type);
      spread(made.operands[2], made.shape.type);
      return;
    case HloOpcode::kSelect:
      if (!made.operands.empty()) spread(made.operands[0], ElementType::kPred);
      return;
    case HloOpcode::kBroadcast:
      return broadcast(operation, made);
    case HloOpcode::kOptimizationBarrier:
      if (made.operands.size() > 1) made.operands = {scopes_.add_tuple(made.operands)};
      return;
    default:
      return;
  }
}

/// A dimension of one that is repeated is no dimension of HLO's broadcast; one that only adds
/// dimensions of one is a reshape.
void StablehloEmitter::broadcast(const StablehloOperation& operation, HloInstruction& made) {
  const Shape from = made.operands.empty() ? Shape() : shape(made.operands[0]);
  if (made.operands.size() != 1 || made.dimensions.size() != from.dimensions.size()) {
    operation.attributes.fail("a broadcast with a place for each dimension of its operand");
  }
  if (from.element_count() == made.shape.element_count() &&
      std::is_sorted(made.dimensions.begin(), made.dimensions.end())) {
    made.opcode = HloOpcode::kReshape;
    made.dimensions.clear();
    return;
  }
  std::vector<std::int64_t> extents, places;
  for (std::size_t i = 0; i < made.dimensions.size(); ++i) {
    const std::int64_t to = made.dimensions[i];
    if (to < 0 || to >= made.shape.rank()) operation.attributes.fail("dimensions of the result");
    const bool repeats =
        from.dimensions[i] == 1 && made.shape.dimensions[static_cast<std::size_t>(to)] != 1;
    if (repeats) continue;
    extents.push_back(from.dimensions[i]);
    places.push_back(to);
  }
  if (places.size() == made.dimensions.size()) return;
  made.operands = {
      scopes_.add(HloOpcode::kReshape, made.operands, array_shape(from.type, extents))};
  made.dimensions = places;
}

void StablehloEmitter::constant(const StablehloOperation& operation, HloInstruction& made) const {
  const std::string_view value = operation.attributes.text("value");
  constexpr std::string_view kDense = "dense<";
  if (value.substr(0, kDense.size()) != kDense) {
    operation.attributes.fail_in("value", "the elements, as in dense<[1, 2]>");
  }
  HloCursor inner = cursor_.within(value.substr(kDense.size()));
  made.opcode = HloOpcode::kConstant;
  made.literal = read_dense(inner, made.shape);
  inner.expect('>');
}

/// `%values, %indices = chlo.top_k(%0, k = 3)`, or a function that HLO has under its own name or in
/// terms of others.
Ids StablehloEmitter::chlo(const StablehloOperation& operation, HloInstruction made) {
  if (operation.name == "top_k") {
    made.opcode = HloOpcode::kTopk;
    made.raw_attributes =
        "k=" + std::to_string(operation.attributes.integer("k")) + ", largest=true";
    return add_results(std::move(made), operation.result_count());
  }
  if (operation.name == "ragged_dot") {
    set_attributes(cursor_, operation, made);
    return {scopes_.add(std::move(made))};
  }
  if (operation.name == "mulhi" && made.operands.size() == 2) {
    made.opcode = HloOpcode::kMulhi;
    return {scopes_.add(std::move(made))};
  }
  if (operation.name == "square" && made.operands.size() == 1) {
    made.opcode = HloOpcode::kMultiply;
    made.operands.push_back(made.operands[0]);
    return {scopes_.add(std::move(made))};
  }
  if (operation.name == "erf" && made.operands.size() == 1) {
    made.opcode = HloOpcode::kErf;
    return {scopes_.add(std::move(made))};
  }
  const bool is_complex = made.shape.type == ElementType::kC64;
  // Numbers of 64 bits are computed in fp32, but what depends on how near their neighbours are.
  const bool is_double = made.shape.type == ElementType::kF64 && operation.name != "next_after";
  const Computation* function =
      chlo_function((is_complex ? "complex " : "") + std::string(operation.name));
  if (function == nullptr || function->parameters().size() != made.operands.size() ||
      made.shape.is_tuple() || (byte_size(made.shape.type) > 4 && !is_complex && !is_double)) {
    operation.attributes.fail(
        "a function of CHLO that is read here, of f64, f32, shorter numbers or c64 (HLO text has "
        "more: "
        "lowered.as_text(\"hlo\") in JAX)");
  }
  const auto add = [&](HloInstruction instruction) {
    instruction.name.clear();
    instruction.metadata = made.metadata;
    return scopes_.add(std::move(instruction));
  };
  return {add_chlo_function(*function, made.operands, made.shape, add)};
}

/// The computation of a function or region whose results are one array or a tuple.
ComputationId StablehloEmitter::finish(StablehloScope scope) {
  Computation& computation = scope.computation;
  if (scope.returned.size() == 1) {
    computation.root = scope.returned[0];
  } else {
    HloInstruction tuple;
    tuple.opcode = HloOpcode::kTuple;
    tuple.operands = scope.returned;
    tuple.shape = tuple_shape(scope.shapes(scope.returned));
    computation.root = scopes_.add(scope, tuple);
  }
  put_in_post_order(computation);
  const auto id = static_cast<ComputationId>(module_.computations.size());
  if (computation.name.empty()) computation.name = "region." + std::to_string(id);
  for (const HloInstruction& made : computation.instructions) {
    const auto callee = callees_.find(made.name);
    if (callee != callees_.end()) calls_.push_back({id, made.id, callee->second});
  }
  module_.computations.push_back(std::move(computation));
  return id;
}

void StablehloEmitter::resolve_calls() {
  for (const Call& call : calls_) {
    const auto found = functions_.find(call.callee);
    if (found == functions_.end()) cursor_.fail_in(call.callee, "a function of this module");
    const Computation& callee = module_.computation(found->second);
    HloInstruction& user =
        module_.computations[static_cast<std::size_t>(call.caller)].at(call.user);
    user.called = {found->second};
    if (user.opcode != HloOpcode::kCall) continue;
    if (callee.parameters().size() != user.operands.size() ||
        !same_extent(callee.at(callee.root).shape, user.shape)) {
      cursor_.fail_in(call.callee, "a call with the arguments and results of the function");
    }
  }
  refuse_recursion();
}

/// Regions are read before what holds them; functions may stand in any order.
void StablehloEmitter::refuse_recursion() const {
  enum class Mark : std::uint8_t { kNew, kOpen, kDone };
  std::vector<Mark> marks(module_.computations.size(), Mark::kNew);
  std::vector<std::pair<ComputationId, bool>> stack;
  for (const auto& [name, id] : functions_) stack.emplace_back(id, false);
  while (!stack.empty()) {
    const auto [id, is_left] = stack.back();
    stack.pop_back();
    Mark& mark = marks[static_cast<std::size_t>(id)];
    if (is_left) {
      mark = Mark::kDone;
      continue;
    }
    if (mark != Mark::kNew) continue;
    mark = Mark::kOpen;
    stack.emplace_back(id, true);
    for (const HloInstruction& made : module_.computation(id).instructions) {
      for (ComputationId next : made.called) {
        if (marks[static_cast<std::size_t>(next)] == Mark::kOpen) {
          throw WorkloadError("function " + module_.computation(next).name +
                              " calls itself: expected functions without recursion");
        }
        stack.emplace_back(next, false);
      }
    }
  }
}

}  // namespace tpu::hlo
