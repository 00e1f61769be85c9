#include "workloads/compiler/passes/expand/counted_loop.h"

#include <string>

#include "workloads/compiler/passes/edit.h"

namespace tpu::compiler {

using hlo::ElementType;
using hlo::HloInstruction;
using hlo::HloOpcode;
using Id = GraphEditor::Id;

namespace {

hlo::Shape tuple_of(const std::vector<hlo::Shape>& elements) {
  hlo::Shape shape;
  shape.type = ElementType::kTuple;
  shape.elements = elements;
  return shape;
}

/// A computation with the loop's values as its parameter; the editor stands for that.
hlo::ComputationId new_region(hlo::Module& module, const HloInstruction& replaced,
                              const std::string& kind, const hlo::Shape& state) {
  hlo::Computation region;
  region.name = replaced.name + "." + kind + "." + std::to_string(module.computations.size());
  HloInstruction parameter;
  parameter.opcode = HloOpcode::kParameter;
  parameter.name = replaced.name + ".state";
  parameter.metadata = replaced.metadata;
  parameter.shape = state;
  region.root = append(region, std::move(parameter));
  module.computations.push_back(std::move(region));
  return static_cast<hlo::ComputationId>(module.computations.size() - 1);
}

Id element_of(GraphEditor& edit, Id tuple, std::size_t index) {
  HloInstruction element =
      edit.start(HloOpcode::kGetTupleElement, {tuple}, edit.shape(tuple).elements[index]);
  element.tuple_index = static_cast<std::int64_t>(index);
  return edit.append_instruction(std::move(element));
}

}  // namespace

std::vector<Id> loop_while(hlo::Module& module, GraphEditor& edit, const HloInstruction& replaced,
                           const std::vector<Id>& initial, const LoopCondition& goes_on,
                           const LoopBody& body) {
  std::vector<hlo::Shape> shapes;
  shapes.reserve(initial.size());
  for (const Id value : initial) shapes.push_back(edit.shape(value));
  const hlo::Shape state = tuple_of(shapes);

  const hlo::ComputationId condition = new_region(module, replaced, "condition", state);
  GraphEditor test(module, condition);
  test.stand_for(0);
  const Id is_on = goes_on(test, element_of(test, 0, 0));
  module.computations[static_cast<std::size_t>(condition)].root = is_on;

  const hlo::ComputationId iteration = new_region(module, replaced, "body", state);
  GraphEditor inside(module, iteration);
  inside.stand_for(0);
  std::vector<Id> present;
  for (std::size_t i = 0; i < initial.size(); ++i) present.push_back(element_of(inside, 0, i));
  const std::vector<Id> next = body(inside, present);
  const Id root = inside.append_instruction(inside.start(HloOpcode::kTuple, next, state));
  module.computations[static_cast<std::size_t>(iteration)].root = root;

  const Id begin = edit.append_instruction(edit.start(HloOpcode::kTuple, initial, state));
  HloInstruction loop = edit.start(HloOpcode::kWhile, {begin}, state);
  loop.called = {iteration, condition};
  const Id end = edit.append_instruction(std::move(loop));
  std::vector<Id> results;
  for (std::size_t i = 1; i < initial.size(); ++i) results.push_back(element_of(edit, end, i));
  return results;
}

std::vector<Id> counted_loop(
    hlo::Module& module, GraphEditor& edit, const HloInstruction& replaced, std::int64_t trips,
    const std::vector<Id>& initial,
    const std::function<std::vector<Id>(GraphEditor&, Id, const std::vector<Id>&)>& body) {
  std::vector<Id> values{edit.scalar(ElementType::kS32, 0)};
  values.insert(values.end(), initial.begin(), initial.end());
  const auto goes_on = [trips](GraphEditor& test, Id counter) {
    return test.compare(counter, test.scalar(ElementType::kS32, static_cast<double>(trips)),
                        hlo::ComparisonDirection::kLt);
  };
  const auto iteration = [&body](GraphEditor& inside, std::vector<Id> present) {
    const Id counter = present.front();
    present.erase(present.begin());
    std::vector<Id> next = body(inside, counter, present);
    next.insert(next.begin(), inside.binary_with(HloOpcode::kAdd, counter, 1));
    return next;
  };
  return loop_while(module, edit, replaced, values, goes_on, iteration);
}

}  // namespace tpu::compiler
