#include "workloads/compiler/passes/expand/control_flow.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>

#include "sim/base/error.h"
#include "workloads/compiler/ir/array_layout.h"
#include "workloads/compiler/ir/combining_operation.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/compiler/passes/simplify/constant_folding.h"
#include "workloads/compiler/passes/simplify/simplify.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::ComputationId;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;
using hlo::Module;
using hlo::Shape;

namespace {

void flatten_shape(const Shape& shape, std::vector<Shape>& leaves) {
  if (!shape.is_tuple()) {
    leaves.push_back(shape);
    return;
  }
  for (const Shape& element : shape.elements) flatten_shape(element, leaves);
}

std::vector<Shape> flattened(const Shape& shape) {
  std::vector<Shape> leaves;
  flatten_shape(shape, leaves);
  return leaves;
}

/// The arrays of a value that may be a tuple (of tuples), in order; new get-tuple-elements stand at
/// the end of the computation.
void append_leaves(Computation& computation, InstructionId value,
                   std::vector<InstructionId>& leaves) {
  const Shape shape = computation.at(value).shape;
  if (!shape.is_tuple()) {
    leaves.push_back(value);
    return;
  }
  for (std::size_t i = 0; i < shape.elements.size(); ++i) {
    if (computation.at(value).opcode == HloOpcode::kTuple) {
      append_leaves(computation, computation.at(value).operands[i], leaves);
      continue;
    }
    HloInstruction element;
    element.opcode = HloOpcode::kGetTupleElement;
    element.name = computation.at(value).name + ".leaf." + std::to_string(i);
    element.tuple_index = static_cast<std::int64_t>(i);
    element.operands = {value};
    element.shape = shape.elements[i];
    append_leaves(computation, append(computation, std::move(element)), leaves);
  }
}

std::vector<InstructionId> leaves_of(Computation& computation, InstructionId value) {
  std::vector<InstructionId> leaves;
  append_leaves(computation, value, leaves);
  return leaves;
}

/// A value of this shape made of arrays; `next` advances past those it takes.
InstructionId gathered(Computation& computation, const Shape& shape, const std::string& name,
                       const std::vector<InstructionId>& leaves, std::size_t& next) {
  if (!shape.is_tuple()) return leaves.at(next++);
  HloInstruction tuple;
  tuple.opcode = HloOpcode::kTuple;
  tuple.name = name + ".tuple";
  tuple.shape = shape;
  for (std::size_t i = 0; i < shape.elements.size(); ++i) {
    tuple.operands.push_back(
        gathered(computation, shape.elements[i], name + "." + std::to_string(i), leaves, next));
  }
  return append(computation, std::move(tuple));
}

InstructionId append_parameter(Computation& computation, std::size_t number, const Shape& shape,
                               const std::string& name) {
  HloInstruction parameter;
  parameter.opcode = HloOpcode::kParameter;
  parameter.name = name + "." + std::to_string(number);
  parameter.parameter_number = static_cast<std::int64_t>(number);
  parameter.shape = shape;
  return append(computation, std::move(parameter));
}

/// The computation with an array per parameter and a tuple of arrays as result.
Computation with_flat_interface(const Computation& from) {
  Computation flat;
  flat.name = from.name;
  std::vector<InstructionId> arrays;
  for (InstructionId parameter : from.parameters()) {
    for (const Shape& leaf : flattened(from.at(parameter).shape)) {
      arrays.push_back(append_parameter(flat, arrays.size(), leaf, from.name + ".state"));
    }
  }
  std::vector<InstructionId> copy(from.instructions.size(), -1);
  std::size_t next = 0;
  for (InstructionId parameter : from.parameters()) {
    const HloInstruction& old = from.at(parameter);
    copy[static_cast<std::size_t>(parameter)] = gathered(flat, old.shape, old.name, arrays, next);
  }
  for (const HloInstruction& instruction : from.instructions) {
    if (instruction.opcode == HloOpcode::kParameter) continue;
    HloInstruction clone = instruction;
    for (InstructionId& operand : clone.operands) operand = copy[static_cast<std::size_t>(operand)];
    clone.control_predecessors.reset();
    copy[static_cast<std::size_t>(instruction.id)] = append(flat, std::move(clone));
  }
  HloInstruction root;
  root.opcode = HloOpcode::kTuple;
  root.name = from.name + ".results";
  root.operands = leaves_of(flat, copy[static_cast<std::size_t>(from.root)]);
  root.shape.type = hlo::ElementType::kTuple;
  for (InstructionId leaf : root.operands) root.shape.elements.push_back(flat.at(leaf).shape);
  flat.root = append(flat, std::move(root));
  tidy(flat);
  return flat;
}

/// Parameters that a value is computed from.
std::set<std::size_t> parameters_behind(const Computation& computation, InstructionId value) {
  std::set<std::size_t> numbers;
  std::set<InstructionId> seen{value};
  std::vector<InstructionId> work{value};
  while (!work.empty()) {
    const HloInstruction& instruction = computation.at(work.back());
    work.pop_back();
    if (instruction.opcode == HloOpcode::kParameter) {
      numbers.insert(static_cast<std::size_t>(instruction.parameter_number));
    }
    for (InstructionId operand : instruction.operands) {
      if (seen.insert(operand).second) work.push_back(operand);
    }
  }
  return numbers;
}

/// The computation with these parameters only, in this order, and these results.
Computation restricted(const Computation& from, const std::vector<std::size_t>& parameters,
                       const std::vector<InstructionId>& results, bool tuple_result) {
  Computation made;
  made.name = from.name;
  std::vector<InstructionId> copy(from.instructions.size(), -1);
  const std::vector<InstructionId> all = from.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    HloInstruction parameter = from.at(all.at(parameters[i]));
    parameter.parameter_number = static_cast<std::int64_t>(i);
    copy[static_cast<std::size_t>(all[parameters[i]])] = append(made, std::move(parameter));
  }
  std::vector<char> needed(from.instructions.size(), 0);
  for (InstructionId result : results) needed[static_cast<std::size_t>(result)] = 1;
  for (auto last = from.instructions.rbegin(); last != from.instructions.rend(); ++last) {
    if (!needed[static_cast<std::size_t>(last->id)]) continue;
    for (InstructionId operand : last->operands) needed[static_cast<std::size_t>(operand)] = 1;
  }
  for (const HloInstruction& instruction : from.instructions) {
    const auto at = static_cast<std::size_t>(instruction.id);
    if (!needed[at] || instruction.opcode == HloOpcode::kParameter) continue;
    HloInstruction clone = instruction;
    for (InstructionId& operand : clone.operands) operand = copy[static_cast<std::size_t>(operand)];
    copy[at] = append(made, std::move(clone));
  }
  if (!tuple_result) {
    made.root = copy[static_cast<std::size_t>(results.at(0))];
    return made;
  }
  HloInstruction root;
  root.opcode = HloOpcode::kTuple;
  root.name = from.name + ".results";
  root.shape.type = hlo::ElementType::kTuple;
  for (InstructionId result : results) {
    root.operands.push_back(copy[static_cast<std::size_t>(result)]);
    root.shape.elements.push_back(from.at(result).shape);
  }
  made.root = append(made, std::move(root));
  return made;
}

bool is_scalar_constant(const HloInstruction& instruction) {
  return instruction.opcode == HloOpcode::kConstant && !instruction.shape.is_tuple() &&
         instruction.shape.rank() == 0 && !instruction.literal.empty();
}

/// A while in the making.
struct Loop {
  Module body, condition;
  std::vector<InstructionId> initial;  ///< In the entry.
  std::vector<InstructionId> given;    ///< The same before broadcasts moved inside.
  std::vector<bool> is_invariant, is_needed;
  std::vector<bool> is_read;  ///< Behind the loop.
  std::vector<std::size_t> carried, read_only;

  Computation& code() { return body.entry_computation(); }
  Computation& test() { return condition.entry_computation(); }
  InstructionId result(std::size_t leaf) { return code().at(code().root).operands[leaf]; }
};

class Outliner {
 public:
  explicit Outliner(Module& module) : module_(module), entry_(module.entry_computation()) {}

  std::vector<ScheduledRegion> run() {
    const std::size_t count = entry_.instructions.size();
    for (std::size_t i = 0; i < count; ++i) {
      const InstructionId id = static_cast<InstructionId>(i);
      if (runs_region(entry_.at(id))) continue;
      const HloOpcode opcode = entry_.at(id).opcode;
      if (opcode == HloOpcode::kWhile) visit_while(id);
      if (opcode == HloOpcode::kConditional) visit_conditional(id);
    }
    if (entry_.instructions.size() > count) tidy(entry_);
    remove_unused_computations(module_);
    return std::move(regions_);
  }

 private:
  Module body_module(ComputationId id) const;
  void visit_while(InstructionId id);
  void sink_constants(Loop& loop);
  void hoist_invariants(Loop& loop);
  InstructionId hoisted(const HloInstruction& instruction,
                        const std::vector<InstructionId>& outside);
  void find_needed(Loop& loop, InstructionId id) const;
  void replace_while(InstructionId id, Loop& loop, const std::optional<hlo::LoopCounter>& counter);
  void visit_conditional(InstructionId id);
  void replace_by(InstructionId id, const std::vector<InstructionId>& leaves);

  Module& module_;
  Computation& entry_;
  std::vector<ScheduledRegion> regions_;
};

/// The computation as the entry of a module, with what it calls.
Module Outliner::body_module(ComputationId id) const {
  Module made;
  made.name = module_.computation(id).name;
  made.replicas = module_.replicas;
  made.entry = id;
  for (std::size_t i = 0; i < module_.computations.size(); ++i) {
    const bool is_parent = static_cast<ComputationId>(i) == module_.entry;
    made.computations.push_back(is_parent ? Computation{} : module_.computations[i]);
  }
  made.entry_computation() = with_flat_interface(module_.computation(id));
  remove_unused_computations(made);
  flatten_calls(made);
  simplify(made);
  return made;
}

void replace_parameter(Computation& computation, std::size_t number,
                       const std::vector<HloInstruction>& value) {
  const InstructionId parameter = computation.parameters().at(number);
  std::vector<InstructionId> made;
  for (HloInstruction instruction : value) {
    instruction.name += ".sunk." + std::to_string(computation.instructions.size());
    instruction.control_predecessors.reset();
    if (!made.empty()) instruction.operands = {made.back()};
    made.push_back(append(computation, std::move(instruction)));
  }
  for (HloInstruction& user : computation.instructions) {
    if (user.id == made.front() || user.id == made.back()) continue;
    std::replace(user.operands.begin(), user.operands.end(), parameter, made.back());
  }
  tidy(computation);
}

/// The parameter becomes the source of a broadcast, which is made inside.
void broadcast_parameter(Computation& computation, std::size_t number,
                         const HloInstruction& broadcast, const Shape& source) {
  const InstructionId parameter = computation.parameters().at(number);
  HloInstruction inside = broadcast;
  inside.name += ".sunk." + std::to_string(computation.instructions.size());
  inside.control_predecessors.reset();
  inside.operands = {parameter};
  const InstructionId made = append(computation, std::move(inside));
  computation.at(parameter).shape = source;
  for (HloInstruction& user : computation.instructions) {
    if (user.id == made || user.id == computation.root) continue;
    std::replace(user.operands.begin(), user.operands.end(), parameter, made);
  }
}

/// State that never changes and is constant or a broadcast is computed inside.
void Outliner::sink_constants(Loop& loop) {
  for (std::size_t leaf = 0; leaf < loop.initial.size(); ++leaf) {
    if (!loop.is_invariant[leaf]) continue;
    const HloInstruction& start = entry_.at(loop.initial[leaf]);
    std::vector<HloInstruction> value;
    if (is_scalar_constant(start)) value = {start};
    if (start.opcode == HloOpcode::kBroadcast && is_scalar_constant(entry_.at(start.operands[0]))) {
      value = {entry_.at(start.operands[0]), start};
    }
    if (!value.empty()) {
      replace_parameter(loop.code(), leaf, value);
      replace_parameter(loop.test(), leaf, value);
    } else if (start.opcode == HloOpcode::kBroadcast) {
      const Shape& source = entry_.at(start.operands[0]).shape;
      broadcast_parameter(loop.code(), leaf, start, source);
      broadcast_parameter(loop.test(), leaf, start, source);
      loop.initial[leaf] = start.operands[0];
    }
  }
  simplify(loop.body);
  simplify(loop.condition);
}

/// The same outside of the loop, where all that it reads stands there; -1: it stays inside. What
/// has more bytes than it is made of, as a broadcast has, would be read in their place.
InstructionId Outliner::hoisted(const HloInstruction& instruction,
                                const std::vector<InstructionId>& outside) {
  const HloOpcode opcode = instruction.opcode;
  const bool moves = opcode == HloOpcode::kReshape || opcode == HloOpcode::kTranspose ||
                     opcode == HloOpcode::kSlice || opcode == HloOpcode::kReverse;
  if ((!moves && !hlo::is_elementwise(opcode)) || instruction.shape.rank() == 0) return -1;
  HloInstruction made = instruction;
  made.name += ".hoisted." + std::to_string(entry_.instructions.size());
  made.control_predecessors.reset();
  std::int64_t bytes = 0;
  for (InstructionId& operand : made.operands) {
    operand = outside[static_cast<std::size_t>(operand)];
    if (operand < 0) return -1;
    bytes += entry_.at(operand).shape.unpadded_bytes();
  }
  if (made.operands.empty() || made.shape.unpadded_bytes() > bytes) return -1;
  return append(entry_, std::move(made));
}

/// What each iteration would compute of state that never changes (another shape or type of weights)
/// is computed before the loop, and is state that never changes.
void Outliner::hoist_invariants(Loop& loop) {
  Computation& code = loop.code();
  const std::size_t count = code.instructions.size();
  std::vector<InstructionId> outside(count, -1);
  const std::vector<InstructionId> parameters = code.parameters();
  for (std::size_t leaf = 0; leaf < parameters.size(); ++leaf) {
    if (loop.is_invariant[leaf]) {
      outside[static_cast<std::size_t>(parameters[leaf])] = loop.initial[leaf];
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (outside[i] < 0) outside[i] = hoisted(code.instructions[i], outside);
  }
  // What others inside read comes in.
  for (std::size_t i = 0; i < count; ++i) {
    const HloInstruction inside = code.instructions[i];
    if (outside[i] < 0 || inside.opcode == HloOpcode::kParameter) continue;
    const bool is_read = std::any_of(
        code.instructions.begin(), code.instructions.end(), [&](const HloInstruction& user) {
          return outside[static_cast<std::size_t>(user.id)] < 0 &&
                 std::count(user.operands.begin(), user.operands.end(), inside.id) > 0;
        });
    if (!is_read) continue;
    for (Computation* computation : {&code, &loop.test()}) {
      append_parameter(*computation, loop.initial.size(), inside.shape, inside.name + ".outside");
    }
    const InstructionId parameter = static_cast<InstructionId>(code.instructions.size()) - 1;
    outside.push_back(outside[i]);
    for (std::size_t user = 0; user < count; ++user) {
      if (outside[user] >= 0) continue;
      std::vector<InstructionId>& operands = code.instructions[user].operands;
      std::replace(operands.begin(), operands.end(), inside.id, parameter);
    }
    HloInstruction& root = code.at(code.root);
    root.operands.push_back(parameter);
    root.shape.elements.push_back(inside.shape);
    loop.initial.push_back(outside[i]);
    loop.given.push_back(outside[i]);
    loop.is_invariant.push_back(true);
  }
  if (code.instructions.size() > count) {
    tidy(code);
    tidy(loop.test());
  }
}

/// What the condition or a user of the loop looks at, and what that is computed from.
void Outliner::find_needed(Loop& loop, InstructionId id) const {
  loop.is_needed.assign(loop.initial.size(), false);
  const bool flat =
      std::none_of(entry_.at(id).shape.elements.begin(), entry_.at(id).shape.elements.end(),
                   [](const Shape& element) { return element.is_tuple(); });
  bool all = entry_.root == id || !flat || !entry_.at(id).shape.is_tuple();
  for (const HloInstruction& user : entry_.instructions) {
    for (InstructionId operand : user.operands) {
      if (operand != id) continue;
      if (user.opcode == HloOpcode::kGetTupleElement && flat) {
        loop.is_needed[static_cast<std::size_t>(user.tuple_index)] = true;
      } else {
        all = true;
      }
    }
  }
  if (all) loop.is_needed.assign(loop.initial.size(), true);
  loop.is_read = loop.is_needed;
  for (std::size_t number : parameters_behind(loop.test(), loop.test().root)) {
    loop.is_needed[number] = true;
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t leaf = 0; leaf < loop.initial.size(); ++leaf) {
      if (!loop.is_needed[leaf] || loop.is_invariant[leaf]) continue;
      for (std::size_t number : parameters_behind(loop.code(), loop.result(leaf))) {
        if (loop.is_needed[number]) continue;
        loop.is_needed[number] = changed = true;
      }
    }
  }
}

/// Puts arrays in the place of a value that may be a tuple.
void Outliner::replace_by(InstructionId id, const std::vector<InstructionId>& leaves) {
  const Shape shape = entry_.at(id).shape;
  const std::string name = entry_.at(id).name;
  HloInstruction made;
  made.id = id;
  made.name = name;
  made.shape = shape;
  made.metadata = entry_.at(id).metadata;
  std::size_t next = 0;
  if (!shape.is_tuple()) {
    made.opcode = HloOpcode::kReshape;
    made.operands = {leaves.at(0)};
  } else {
    made.opcode = HloOpcode::kTuple;
    for (std::size_t i = 0; i < shape.elements.size(); ++i) {
      made.operands.push_back(
          gathered(entry_, shape.elements[i], name + "." + std::to_string(i), leaves, next));
    }
  }
  entry_.at(id) = std::move(made);
}

/// The instruction that runs a region, and an array for each element of its result.
std::vector<InstructionId> append_region(Computation& entry, HloInstruction instruction) {
  const std::string name = instruction.name;
  const Shape shape = instruction.shape;
  const InstructionId id = append(entry, std::move(instruction));
  std::vector<InstructionId> results;
  for (std::size_t i = 0; i < shape.elements.size(); ++i) {
    HloInstruction element;
    element.opcode = HloOpcode::kGetTupleElement;
    element.name = name + ".result." + std::to_string(i);
    element.tuple_index = static_cast<std::int64_t>(i);
    element.operands = {id};
    element.shape = shape.elements[i];
    element.metadata = entry.at(id).metadata;
    results.push_back(append(entry, std::move(element)));
  }
  return results;
}

HloInstruction region_instruction(const HloInstruction& old, std::size_t region) {
  HloInstruction made;
  made.opcode = old.opcode;
  made.name = old.name + ".region";
  made.metadata = old.metadata;
  made.tuple_index = static_cast<std::int64_t>(region);
  made.shape.type = hlo::ElementType::kTuple;
  return made;
}

void Outliner::replace_while(InstructionId id, Loop& loop,
                             const std::optional<hlo::LoopCounter>& counter) {
  std::vector<std::size_t> all = loop.carried;
  all.insert(all.end(), loop.read_only.begin(), loop.read_only.end());
  HloInstruction made = region_instruction(entry_.at(id), regions_.size());
  for (std::size_t leaf : all) made.operands.push_back(loop.initial[leaf]);
  for (std::size_t leaf : loop.carried) {
    made.shape.elements.push_back(entry_.at(loop.initial[leaf]).shape);
  }
  const std::vector<InstructionId> results = append_region(entry_, std::move(made));
  std::vector<InstructionId> leaves = loop.given;
  for (std::size_t i = 0; i < results.size(); ++i) leaves[loop.carried[i]] = results[i];
  ScheduledRegion region;
  region.is_loop = true;
  if (counter) region.trips = counter->trips;
  std::vector<InstructionId> computed;
  for (std::size_t leaf : loop.carried) computed.push_back(loop.result(leaf));
  loop.code() = restricted(loop.code(), all, computed, true);
  for (std::size_t i = 0; i < loop.carried.size(); ++i) {
    loop.body.aliases.push_back({static_cast<std::int64_t>(i), static_cast<std::int64_t>(i)});
  }
  region.bodies.push_back({std::move(loop.body), {}, {}, {}});
  if (counter) {
    const auto leaf = static_cast<std::size_t>(counter->parameter_number);
    region.bodies[0].counter = counter;
    region.bodies[0].counter_is_read = loop.is_read[leaf];
    region.bodies[0].counter->parameter_number =
        std::find(all.begin(), all.end(), leaf) - all.begin();
  } else {
    Computation& test = loop.test();
    test = restricted(test, all, {test.at(test.root).operands[0]}, false);
    append_parameter(test, all.size(), test.at(test.root).shape, test.name + ".place");
    tidy(test);
    loop.condition.aliases = {{0, static_cast<std::int64_t>(all.size())}};
    region.bodies.push_back({std::move(loop.condition), {}, {}, {}});
  }
  regions_.push_back(std::move(region));
  replace_by(id, leaves);
}

void Outliner::visit_while(InstructionId id) {
  const HloInstruction loop_instruction = entry_.at(id);
  Loop loop;
  loop.body = body_module(loop_instruction.called.at(0));
  loop.condition = body_module(loop_instruction.called.at(1));
  loop.initial = leaves_of(entry_, loop_instruction.operands.at(0));
  loop.given = loop.initial;
  const std::vector<InstructionId> parameters = loop.code().parameters();
  for (std::size_t leaf = 0; leaf < loop.initial.size(); ++leaf) {
    loop.is_invariant.push_back(loop.result(leaf) == parameters.at(leaf));
  }
  sink_constants(loop);
  hoist_invariants(loop);
  find_needed(loop, id);
  for (std::size_t leaf = 0; leaf < loop.initial.size(); ++leaf) {
    if (!loop.is_needed[leaf]) continue;
    if (loop.is_invariant[leaf]) {
      loop.read_only.push_back(leaf);
    } else {
      loop.carried.push_back(leaf);
    }
  }
  const std::optional<hlo::LoopCounter> counter = hlo::loop_counter(
      {loop.body, loop.code(), loop.condition, loop.test(), module_, entry_, loop.initial});
  if (counter && counter->trips == 0) {
    replace_by(id, loop.given);
  } else {
    replace_while(id, loop, counter);
  }
}

void Outliner::visit_conditional(InstructionId id) {
  const HloInstruction branch = entry_.at(id);
  HloInstruction made = region_instruction(branch, regions_.size());
  made.operands = {branch.operands[0]};
  made.shape.elements = flattened(branch.shape);
  ScheduledRegion region;
  region.by_predicate = entry_.at(branch.operands[0]).shape.type == hlo::ElementType::kPred;
  for (std::size_t i = 0; i < branch.called.size(); ++i) {
    const std::vector<InstructionId> read = leaves_of(entry_, branch.operands.at(1 + i));
    made.operands.insert(made.operands.end(), read.begin(), read.end());
    Module body = body_module(branch.called[i]);
    Computation& code = body.entry_computation();
    for (std::size_t result = 0; result < made.shape.elements.size(); ++result) {
      append_parameter(code, read.size() + result, made.shape.elements[result],
                       code.name + ".place");
      body.aliases.push_back(
          {static_cast<std::int64_t>(result), static_cast<std::int64_t>(read.size() + result)});
    }
    tidy(code);
    region.bodies.push_back({std::move(body), {}, {}, {}});
  }
  regions_.push_back(std::move(region));
  replace_by(id, append_region(entry_, std::move(made)));
}

/// Layouts that the operands of the instruction must have; the selector of a conditional has any.
std::vector<hlo::Layout> operand_layouts(const ScheduledRegion& region, std::size_t results) {
  std::vector<hlo::Layout> wanted;
  if (region.is_loop) return parameter_layouts(region.bodies[0]);
  wanted.emplace_back();
  for (const ScheduledModule& body : region.bodies) {
    std::vector<hlo::Layout> layouts = parameter_layouts(body);
    layouts.resize(layouts.size() - results);
    wanted.insert(wanted.end(), layouts.begin(), layouts.end());
  }
  return wanted;
}

}  // namespace

std::vector<hlo::Layout> parameter_layouts(const ScheduledModule& body) {
  const Computation& code = body.module.entry_computation();
  std::vector<hlo::Layout> layouts;
  for (InstructionId parameter : code.parameters()) {
    layouts.push_back(code.at(parameter).shape.layout);
  }
  return layouts;
}

bool has_control_flow(const Module& module) {
  const std::vector<HloInstruction>& all = module.entry_computation().instructions;
  return std::any_of(all.begin(), all.end(), [](const HloInstruction& instruction) {
    return instruction.opcode == HloOpcode::kWhile || instruction.opcode == HloOpcode::kConditional;
  });
}

bool take_known_branches(Module& module) {
  bool found = false;
  Computation& entry = module.entry_computation();
  for (HloInstruction& branch : entry.instructions) {
    if (branch.opcode != HloOpcode::kConditional || runs_region(branch)) continue;
    const HloInstruction& selector = entry.at(branch.operands.at(0));
    if (!is_scalar_constant(selector)) continue;
    const auto last = static_cast<double>(branch.called.size() - 1);
    double chosen = scalar_value(selector).value_or(0);
    if (selector.shape.type == hlo::ElementType::kPred) chosen = chosen != 0 ? 0 : 1;
    if (chosen < 0 || chosen > last) chosen = last;
    const auto index = static_cast<std::size_t>(chosen);
    branch.opcode = HloOpcode::kCall;
    branch.called = {branch.called[index]};
    branch.operands = {branch.operands.at(1 + index)};
    found = true;
  }
  return found;
}

namespace {

/// Of all iterations together: Threefry's have 450.
constexpr std::uint64_t kMostUnrolled = 1024;

/// Instructions of a computation of elementwise arithmetic and what it calls; none for any other,
/// or where they are more than `most`.
std::optional<std::uint64_t> size_of_arithmetic(const Module& module, hlo::ComputationId id,
                                                std::uint64_t most) {
  const Computation& computation = module.computation(id);
  std::uint64_t size = computation.instructions.size();
  for (const HloInstruction& instruction : computation.instructions) {
    if (size > most) return std::nullopt;
    if (hlo::is_elementwise(instruction.opcode)) continue;
    switch (instruction.opcode) {
      case HloOpcode::kParameter:
      case HloOpcode::kConstant:
      case HloOpcode::kTuple:
      case HloOpcode::kGetTupleElement:
      case HloOpcode::kBroadcast:
      case HloOpcode::kReshape:
      case HloOpcode::kSlice:
        break;
      case HloOpcode::kCall: {
        const auto inner = size_of_arithmetic(module, instruction.called.at(0), most - size);
        if (!inner) return std::nullopt;
        size += *inner;
        break;
      }
      default:
        return std::nullopt;
    }
  }
  return size <= most ? std::optional(size) : std::nullopt;
}

}  // namespace

bool unroll_short_loops(Module& module) {
  bool found = false;
  Computation& entry = module.entry_computation();
  const std::size_t count = entry.instructions.size();
  for (std::size_t i = 0; i < count; ++i) {
    const HloInstruction loop = entry.instructions[i];
    if (loop.opcode != HloOpcode::kWhile || runs_region(loop)) continue;
    const std::optional<std::uint64_t> trips = hlo::trip_count(module, entry, loop);
    if (!trips || *trips == 0) continue;
    if (*trips > 1 && !size_of_arithmetic(module, loop.called.at(0), kMostUnrolled / *trips)) {
      continue;
    }
    HloInstruction call = loop;
    call.opcode = HloOpcode::kCall;
    call.called = {loop.called.at(0)};
    call.raw_attributes.reset();
    for (std::uint64_t trip = 1; trip < *trips; ++trip) {
      HloInstruction earlier = call;
      earlier.name = loop.name + ".iteration." + std::to_string(trip);
      call.operands = {append(entry, std::move(earlier))};
    }
    call.id = loop.id;
    entry.instructions[i] = std::move(call);
    found = true;
  }
  if (found) tidy(entry);
  return found;
}

std::vector<ScheduledRegion> outline_control_flow(Module& module) { return Outliner(module).run(); }

void adopt_region_layouts(ScheduledModule& scheduled) {
  for (HloInstruction& instruction : scheduled.module.entry_computation().instructions) {
    if (!runs_region(instruction)) continue;
    const ScheduledRegion& region =
        scheduled.regions[static_cast<std::size_t>(instruction.tuple_index)];
    std::vector<Shape>& results = instruction.shape.elements;
    const std::vector<hlo::Layout> layouts = parameter_layouts(region.bodies[0]);
    const std::size_t first = region.is_loop ? 0 : layouts.size() - results.size();
    for (std::size_t i = 0; i < results.size(); ++i) results[i].layout = layouts[first + i];
  }
}

std::vector<DimensionOrder> orders_of_regions(const ScheduledModule& scheduled) {
  const Computation& entry = scheduled.module.entry_computation();
  std::vector<DimensionOrder> orders(entry.instructions.size());
  const auto ask = [&](InstructionId id, const hlo::Layout& layout) {
    if (entry.at(id).shape.rank() < 2) return;
    const std::vector<std::int64_t>& minor_to_major = layout.minor_to_major;
    orders[static_cast<std::size_t>(id)] = {minor_to_major.rbegin(), minor_to_major.rend()};
  };
  for (const HloInstruction& instruction : entry.instructions) {
    if (runs_region(instruction)) {
      const ScheduledRegion& region =
          scheduled.regions[static_cast<std::size_t>(instruction.tuple_index)];
      const std::vector<hlo::Layout> wanted =
          operand_layouts(region, instruction.shape.elements.size());
      for (std::size_t k = 0; k < wanted.size(); ++k) ask(instruction.operands[k], wanted[k]);
    } else if (instruction.opcode == HloOpcode::kGetTupleElement &&
               runs_region(entry.at(instruction.operands[0]))) {
      const Shape& results = entry.at(instruction.operands[0]).shape;
      ask(instruction.id,
          results.elements[static_cast<std::size_t>(instruction.tuple_index)].layout);
    }
  }
  return orders;
}

namespace {

/// A copy of the value that lies otherwise.
InstructionId append_relayout(Computation& entry, InstructionId value, hlo::Layout layout) {
  const HloInstruction& operand = entry.at(value);
  HloInstruction copy;
  copy.opcode = HloOpcode::kCopy;
  copy.name = operand.name + ".relayout." + std::to_string(entry.instructions.size());
  copy.shape = operand.shape;
  copy.shape.layout = std::move(layout);
  copy.operands = {value};
  copy.metadata = operand.metadata;
  return append(entry, std::move(copy));
}

}  // namespace

void copy_region_operands(ScheduledModule& scheduled) {
  Computation& entry = scheduled.module.entry_computation();
  const std::size_t count = entry.instructions.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (!runs_region(entry.instructions[i])) continue;
    const ScheduledRegion& region =
        scheduled.regions[static_cast<std::size_t>(entry.instructions[i].tuple_index)];
    const std::vector<hlo::Layout> wanted =
        operand_layouts(region, entry.instructions[i].shape.elements.size());
    for (std::size_t k = 0; k < wanted.size(); ++k) {
      HloInstruction& operand = entry.at(entry.instructions[i].operands[k]);
      if (operand.shape.rank() < 2) continue;
      // Tiles follow from the type, which a body may store wider than its user.
      if (operand.shape.layout.minor_to_major == wanted[k].minor_to_major) continue;
      if (hlo::is_allocation(operand)) {
        operand.shape.layout = tiled_layout(operand.shape.type, wanted[k].minor_to_major);
        continue;
      }
      const InstructionId made = append_relayout(entry, operand.id, wanted[k]);
      entry.instructions[i].operands[k] = made;
    }
  }
  if (entry.instructions.size() > count) tidy(entry);
}

bool works_in_place(const Computation& computation, const HloInstruction& instruction,
                    std::size_t operand) {
  switch (instruction.opcode) {
    case HloOpcode::kAllReduce:
      return true;
    case HloOpcode::kWhile:
      return operand < instruction.shape.elements.size();
    case HloOpcode::kDynamicUpdateSlice:
      return operand == 0;
    case HloOpcode::kScatter:
      return operand == 0 && uniform_start(computation, instruction) == nullptr;
    default:
      return false;
  }
}

}  // namespace tpu::compiler
