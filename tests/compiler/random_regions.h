#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/compiler/random_elementwise.h"
#include "tests/compiler/random_material.h"

namespace tpu::test {

/// The entry of a module with its parameters as elements of one tuple, as regions of loops and
/// branches take them.
inline void take_tuple(hlo::Module& module) {
  hlo::Computation& entry = module.entry_computation();
  std::vector<HloInstruction> all;
  HloInstruction state;
  state.id = 0;
  state.opcode = HloOpcode::kParameter;
  state.name = "state";
  state.shape.type = ElementType::kTuple;
  for (hlo::InstructionId id : entry.parameters()) {
    state.shape.elements.push_back(entry.at(id).shape);
  }
  all.push_back(std::move(state));
  for (HloInstruction& instruction : entry.instructions) {
    for (hlo::InstructionId& operand : instruction.operands) ++operand;
    if (instruction.opcode == HloOpcode::kParameter) {
      instruction.opcode = HloOpcode::kGetTupleElement;
      instruction.tuple_index = instruction.parameter_number;
      instruction.parameter_number = 0;
      instruction.operands = {0};
    }
    ++instruction.id;
    all.push_back(std::move(instruction));
  }
  ++entry.root;
  entry.instructions = std::move(all);
}

/// A region while it is made: its own graph, whose parameters are elements of a state, and what the
/// state begins with outside.
struct Region {
  Region(RandomMaterial& outer, const std::string& kind)
      : material(outer, outer.graph.module().name + "." + kind + std::to_string(outer.regions)) {}

  RandomMaterial material;
  std::vector<Tensor> begin;  ///< Outside, by element of the state.
  std::vector<Tensor> next;   ///< Inside.

  /// A value of the state that the region may change; returns its number.
  std::size_t carry(RandomMaterial& outer, Tensor value) {
    const hlo::Shape shape = outer.graph.shape(value);
    begin.push_back(value);
    next.push_back(material.parameter(shape.type, shape.dimensions));
    return begin.size() - 1;
  }
  /// Parameters that operations of the region made become values that it only reads.
  void carry_new_parameters(RandomMaterial& outer) {
    for (std::size_t i = begin.size(); i < material.parameters.size(); ++i) {
      const hlo::Shape shape = material.graph.shape(material.parameters[i]);
      begin.push_back(outer.partner(shape.dimensions, shape.type));
      next.push_back(material.parameters[i]);
    }
  }
};

/// A value inside that may follow on `now`: of its shape, and bounded, however often it is applied.
inline Tensor successor(RandomMaterial& m, Tensor now) {
  const ElementType type = m.graph.type(now);
  std::vector<Tensor> fitting;
  for (Tensor value : m.values) {
    if (m.extents_of(value) == m.extents_of(now)) fitting.push_back(value);
  }
  Tensor next = fitting.empty() ? now : fitting[fitting.size() - 1 - m.below(fitting.size())];
  if (type == ElementType::kF32 || type == ElementType::kBf16) {
    return m.converted(limited(m, m.number(next)), type);
  }
  next = m.converted(next, type);
  if (type != ElementType::kS32) return next;
  return m.graph.binary(HloOpcode::kAnd, next, m.graph.splat_like(next, 1023));
}

/// The array of one iteration as an element of a stack, or taken from one.
inline std::vector<Tensor> place_in_stack(RandomMaterial& m, Tensor index, std::size_t rank) {
  std::vector<Tensor> starts = {index};
  for (std::size_t i = 0; i < rank; ++i) {
    starts.push_back(m.graph.constant(ElementType::kS32, 0));
  }
  return starts;
}

/// A value of the region is read from a stack at the place of the iteration.
inline void read_stack(RandomMaterial& outer, Region& loop, Tensor index, std::int64_t depth) {
  RandomMaterial& m = loop.material;
  const Extents extents = outer.extents_of(outer.any());
  if (elements(extents) * depth > kMostElements) return;
  Extents stacked = extents, sizes = extents;
  stacked.insert(stacked.begin(), depth);
  sizes.insert(sizes.begin(), 1);
  const ElementType type = outer.random_type();
  const Tensor stack = loop.next[loop.carry(outer, outer.partner(stacked, type))];
  std::vector<Tensor> operands = {stack};
  const std::vector<Tensor> starts = place_in_stack(m, index, extents.size());
  operands.insert(operands.end(), starts.begin(), starts.end());
  HloInstruction slice = m.make(HloOpcode::kDynamicSlice, operands);
  slice.dynamic_slice_sizes = sizes;
  m.keep(m.graph.reshape(m.graph.instruction(std::move(slice)), extents));
}

/// What an iteration makes becomes an element of a stack. Called when its operations are there;
/// `stack` is the number of the stack in the state.
inline void write_stack(Region& loop, Tensor value, Tensor index, std::size_t stack) {
  RandomMaterial& m = loop.material;
  Extents extents = m.extents_of(value);
  const std::vector<Tensor> starts = place_in_stack(m, index, extents.size());
  extents.insert(extents.begin(), 1);
  std::vector<Tensor> operands = {loop.next[stack], m.graph.reshape(value, extents)};
  operands.insert(operands.end(), starts.begin(), starts.end());
  loop.next[stack] = m.graph.instruction(m.make(HloOpcode::kDynamicUpdateSlice, operands));
}

/// The condition of a loop over the state: the counter is below a constant, or below an element of
/// the state.
inline hlo::Module loop_condition(const Region& loop, const std::string& name, std::int64_t trips,
                                  std::size_t limit) {
  frontend::GraphBuilder graph(name);
  std::vector<Tensor> state;
  for (Tensor value : loop.material.parameters) {
    state.push_back(graph.parameter("carried" + std::to_string(state.size()),
                                    loop.material.graph.shape(value)));
  }
  const Tensor bound =
      limit == 0 ? graph.constant(ElementType::kS32, static_cast<double>(trips)) : state[limit];
  const Tensor goes_on = graph.compare(state[0], bound, hlo::ComparisonDirection::kLt);
  hlo::Module module = graph.finish(goes_on, state);
  take_tuple(module);
  return module;
}

/// A loop that counts from 0, to a constant or to a value that is known when it runs; carries some
/// values, reads a stack and writes one at the place of the counter, as scans do. A region may have
/// loops itself.
inline void add_loop(RandomMaterial& outer) {
  if (outer.depth >= 2 || outer.regions >= 2) return add_elementwise(outer);
  ++outer.regions;
  Region loop(outer, "loop");
  RandomMaterial& m = loop.material;
  const std::int64_t trips = outer.one_in(8) ? 0 : outer.between(1, 5);
  loop.carry(outer, outer.graph.constant(ElementType::kS32, 0));
  const Tensor index = loop.next[0];
  m.values.push_back(index);
  for (std::size_t i = 0, count = 1 + outer.below(3); i < count; ++i) {
    m.values.push_back(loop.next[loop.carry(outer, outer.any())]);
  }
  const std::size_t carried = loop.begin.size();
  std::size_t limit = 0;
  if (outer.one_in(3)) {
    const Tensor most = outer.graph.constant(ElementType::kS32, static_cast<double>(trips));
    const Tensor given = outer.partner({}, ElementType::kS32);
    limit = loop.carry(outer, outer.graph.binary(HloOpcode::kMinimum, given, most));
  }
  if (outer.one_in(2)) read_stack(outer, loop, index, std::max<std::int64_t>(1, trips));
  const std::size_t operations = 2 + outer.below(5);
  for (std::size_t i = 0; i < operations; ++i) m.add_operation();
  const Tensor made = m.number(m.any());
  Extents stacked = m.extents_of(made);
  stacked.insert(stacked.begin(), std::max<std::int64_t>(1, trips));
  const bool stacks = outer.one_in(2) && elements(stacked) <= kMostElements;
  loop.carry_new_parameters(outer);
  std::size_t stack = 0;
  if (stacks) {
    const Tensor begin = outer.one_in(3) ? outer.parameter(m.graph.type(made), stacked)
                                         : outer.graph.splat(m.graph.type(made), stacked, 0);
    stack = loop.carry(outer, begin);
    write_stack(loop, made, index, stack);
  }
  for (std::size_t i = 1; i < carried; ++i) {
    if (!m.one_in(6)) loop.next[i] = successor(m, loop.next[i]);
  }
  if (carried > 2 && m.graph.shape(loop.next[1]).type == m.graph.shape(loop.next[2]).type &&
      m.extents_of(loop.next[1]) == m.extents_of(loop.next[2]) && m.one_in(2)) {
    std::swap(loop.next[1], loop.next[2]);
  }
  loop.next[0] = m.graph.offset(index, 1);
  hlo::Module condition = loop_condition(loop, m.graph.module().name + ".condition", trips, limit);
  hlo::Module body = m.graph.finish(m.graph.tuple(loop.next), m.parameters);
  take_tuple(body);
  HloInstruction instruction = outer.make(HloOpcode::kWhile, {outer.graph.tuple(loop.begin)});
  instruction.called = {outer.graph.adopt(std::move(body)),
                        outer.graph.adopt(std::move(condition))};
  const Tensor result = outer.graph.instruction(std::move(instruction));
  for (std::size_t i = 1; i < carried; ++i) outer.keep(outer.element(result, i));
  if (stacks) outer.keep(outer.element(result, stack));
}

/// Two branches or more over the same values.
inline void add_conditional(RandomMaterial& outer) {
  if (outer.depth >= 2 || outer.regions >= 2) return add_elementwise(outer);
  ++outer.regions;
  const bool is_binary = outer.one_in(2);
  const Tensor selector = outer.partner({}, is_binary ? ElementType::kPred : ElementType::kS32);
  std::vector<Tensor> carried;
  for (std::size_t i = 0, count = 1 + outer.below(3); i < count; ++i)
    carried.push_back(outer.any());
  std::vector<Tensor> operands = {selector};
  std::vector<hlo::Module> branches;
  const std::size_t count = is_binary ? 2 : 1 + outer.below(4);
  for (std::size_t branch = 0; branch < count; ++branch) {
    Region region(outer, "branch" + std::to_string(branch) + ".");
    RandomMaterial& m = region.material;
    for (Tensor value : carried) m.values.push_back(region.next[region.carry(outer, value)]);
    const std::size_t operations = outer.below(5);
    for (std::size_t i = 0; i < operations; ++i) m.add_operation();
    std::vector<Tensor> results;
    for (std::size_t i = 0; i < carried.size(); ++i) {
      results.push_back(m.one_in(5) ? region.next[i] : successor(m, region.next[i]));
    }
    region.carry_new_parameters(outer);
    operands.push_back(outer.graph.tuple(region.begin));
    branches.push_back(m.graph.finish(m.graph.tuple(results), m.parameters));
    take_tuple(branches.back());
  }
  HloInstruction instruction = outer.make(HloOpcode::kConditional, operands);
  for (hlo::Module& branch : branches) {
    instruction.called.push_back(outer.graph.adopt(std::move(branch)));
  }
  const Tensor result = outer.graph.instruction(std::move(instruction));
  for (std::size_t i = 0; i < carried.size(); ++i) outer.keep(outer.element(result, i));
}

}  // namespace tpu::test
