#include "workloads/compiler/sharding/sharding_map.h"

#include <algorithm>
#include <set>

#include "sim/base/error.h"

namespace tpu::compiler {

using hlo::Computation;
using hlo::ComputationId;
using hlo::HloInstruction;
using hlo::HloOpcode;
using hlo::InstructionId;
using hlo::Shape;

namespace {

constexpr int kMostSweeps = 64;  ///< Of one level: each changes something.

/// Where the arrays of tuple element `index` stand among those of the whole tuple.
std::pair<std::size_t, std::size_t> leaves_of_element(const Shape& tuple, std::size_t index) {
  const auto count = [](const auto& self, const Shape& shape) -> std::size_t {
    if (!shape.is_tuple()) return 1;
    std::size_t sum = 0;
    for (const Shape& element : shape.elements) sum += self(self, element);
    return sum;
  };
  std::size_t begin = 0;
  for (std::size_t i = 0; i < index; ++i) begin += count(count, tuple.elements.at(i));
  return {begin, count(count, tuple.elements.at(index))};
}

bool keeps_dimensions(HloOpcode opcode) {
  switch (opcode) {
    case HloOpcode::kTranspose:
    case HloOpcode::kReshape:
    case HloOpcode::kBitcast:
    case HloOpcode::kCopy:
    case HloOpcode::kOptimizationBarrier:
    case HloOpcode::kCustomCall:
    case HloOpcode::kAllReduce:
    case HloOpcode::kMap:
      return true;
    default:
      return is_elementwise(opcode);
  }
}

}  // namespace

bool enters_manual_part(const HloInstruction& instruction) {
  return instruction.opcode == HloOpcode::kCustomCall &&
         (instruction.custom_call_target == "SPMDFullToShardShape" ||
          instruction.custom_call_target == "xla.sdy.GlobalToLocalShape");
}

bool leaves_manual_part(const HloInstruction& instruction) {
  return instruction.opcode == HloOpcode::kCustomCall &&
         (instruction.custom_call_target == "SPMDShardToFullShape" ||
          instruction.custom_call_target == "xla.sdy.LocalToGlobalShape");
}

std::vector<Axes> axes_of_factors(const DeviceMesh& mesh, const FactorRule& rule,
                                  const FactorRule::ArrayFactors& array, const Sharding& sharding) {
  std::vector<Axes> result(rule.factors.size());
  for (std::size_t d = 0; d < array.size(); ++d) {
    std::size_t at = 0;
    std::int64_t left = 0;
    for (int axis : sharding.dimensions[d]) {
      if (left == 1) ++at;
      if (at >= array[d].size()) break;
      const auto factor = static_cast<std::size_t>(array[d][at]);
      if (left <= 1) left = rule.factors[factor].size;
      if (left % mesh.axis(axis).size != 0) break;
      result[factor].push_back(axis);
      left /= mesh.axis(axis).size;
    }
  }
  return result;
}

Sharding sharding_of_factors(const DeviceMesh& mesh, const FactorRule& rule,
                             const FactorRule::ArrayFactors& array, const std::vector<Axes>& axes) {
  Sharding result(array.size());
  for (std::size_t d = 0; d < array.size(); ++d) {
    for (int factor : array[d]) {
      const Axes& cut = axes[static_cast<std::size_t>(factor)];
      result.dimensions[d].insert(result.dimensions[d].end(), cut.begin(), cut.end());
      if (mesh.extent(cut) != rule.factors[static_cast<std::size_t>(factor)].size) break;
    }
  }
  return result;
}

ShardingMap::ShardingMap(const hlo::Module& module, std::int64_t devices)
    : module_(module), reader_(module) {
  collect(module.entry);
  make_mesh(devices);
  for (ComputationId id : order_) {
    for (const HloInstruction& instruction : module.computation(id).instructions) {
      annotate(id, instruction);
    }
  }
  place_results();
}

void ShardingMap::add_values(const Shape& shape, const std::string& name,
                             std::vector<ValueId>& to) {
  if (shape.is_tuple()) {
    for (const Shape& element : shape.elements) add_values(element, name, to);
    return;
  }
  State state;
  state.extents = shape.dimensions;
  state.sharding = Sharding(shape.dimensions.size());
  state.closed.assign(shape.dimensions.size(), false);
  state.name = name;
  to.push_back(static_cast<ValueId>(states_.size()));
  states_.push_back(std::move(state));
}

void ShardingMap::collect(ComputationId id) {
  const Computation& computation = module_.computation(id);
  values_[id].resize(computation.instructions.size());
  rules_[id].resize(computation.instructions.size());
  for (const HloInstruction& instruction : computation.instructions) {
    const auto place = static_cast<std::size_t>(instruction.id);
    collect_instruction(id, instruction);
    InstructionAnnotation annotation = reader_.read(instruction);
    if (!annotation.leaves.empty()) annotations_[id][instruction.id] = std::move(annotation);
    if (instruction.opcode == HloOpcode::kWhile || instruction.opcode == HloOpcode::kConditional) {
      continue;
    }
    rules_[id][place] = factor_rule(module_, computation, instruction);
  }
  order_.push_back(id);
}

void ShardingMap::collect_instruction(ComputationId id, const HloInstruction& instruction) {
  const Computation& computation = module_.computation(id);
  const auto of = [&](std::size_t operand) -> const std::vector<ValueId>& {
    return values_[id][static_cast<std::size_t>(instruction.operands[operand])];
  };
  std::vector<ValueId> mine;
  switch (instruction.opcode) {
    case HloOpcode::kParameter:
      if (parameters_.count(id) > 0) {
        mine = parameters_[id];
      } else {
        add_values(instruction.shape, instruction.name, mine);
      }
      break;
    case HloOpcode::kTuple:
      for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
        mine.insert(mine.end(), of(i).begin(), of(i).end());
      }
      break;
    case HloOpcode::kOptimizationBarrier:
      mine = of(0);
      break;
    case HloOpcode::kGetTupleElement: {
      const auto [begin, count] =
          leaves_of_element(computation.at(instruction.operands[0]).shape,
                            static_cast<std::size_t>(instruction.tuple_index));
      const auto first = of(0).begin() + static_cast<std::ptrdiff_t>(begin);
      mine.assign(first, first + static_cast<std::ptrdiff_t>(count));
      break;
    }
    case HloOpcode::kWhile:
      return collect_loop(id, instruction);
    case HloOpcode::kConditional:
      return collect_conditional(id, instruction);
    default:
      add_values(instruction.shape, instruction.name, mine);
      break;
  }
  values_[id][static_cast<std::size_t>(instruction.id)] = std::move(mine);
}

void ShardingMap::collect_loop(ComputationId id, const HloInstruction& loop) {
  std::vector<ValueId> carried;
  add_values(loop.shape, loop.name, carried);
  const std::vector<ValueId>& initial = values_[id][static_cast<std::size_t>(loop.operands.at(0))];
  for (std::size_t i = 0; i < carried.size(); ++i) links_.push_back({initial[i], carried[i]});
  for (ComputationId called : loop.called) {
    parameters_[called] = carried;
    collect(called);
  }
  const Computation& body = module_.computation(loop.called.at(0));
  const std::vector<ValueId>& next = values_[loop.called[0]][static_cast<std::size_t>(body.root)];
  for (std::size_t i = 0; i < carried.size(); ++i) links_.push_back({next[i], carried[i]});
  values_[id][static_cast<std::size_t>(loop.id)] = std::move(carried);
}

void ShardingMap::collect_conditional(ComputationId id, const HloInstruction& conditional) {
  std::vector<ValueId> mine;
  add_values(conditional.shape, conditional.name, mine);
  for (std::size_t i = 0; i < conditional.called.size(); ++i) {
    const ComputationId called = conditional.called[i];
    const InstructionId operand = conditional.operands.at(i + 1);
    std::vector<ValueId> inside;
    add_values(module_.computation(id).at(operand).shape, conditional.name, inside);
    const std::vector<ValueId>& given = values_[id][static_cast<std::size_t>(operand)];
    for (std::size_t k = 0; k < inside.size(); ++k) links_.push_back({given[k], inside[k]});
    parameters_[called] = std::move(inside);
    collect(called);
    const std::vector<ValueId>& result =
        values_[called][static_cast<std::size_t>(module_.computation(called).root)];
    for (std::size_t k = 0; k < mine.size(); ++k) links_.push_back({result[k], mine[k]});
  }
  values_[id][static_cast<std::size_t>(conditional.id)] = std::move(mine);
}

void ShardingMap::make_mesh(std::int64_t devices) {
  std::vector<DeviceDigit> digits;
  for (const auto& [id, annotations] : annotations_) {
    for (const auto& [instruction, annotation] : annotations) {
      digits.insert(digits.end(), annotation.manual_axes.begin(), annotation.manual_axes.end());
      for (const ShardingAnnotation& leaf : annotation.leaves) {
        if (leaf.devices != 1 && leaf.devices != devices) {
          throw WorkloadError("instruction \"" + module_.computation(id).at(instruction).name +
                              "\": expected a sharding over " + std::to_string(devices) +
                              " devices, those of the program, found " + annotation.text);
        }
        for (const std::vector<DeviceDigit>& d : leaf.dimensions) {
          digits.insert(digits.end(), d.begin(), d.end());
        }
      }
    }
  }
  mesh_ = DeviceMesh(devices, digits);
}

Sharding ShardingMap::from_annotation(const ShardingAnnotation& annotation, const State& state,
                                      const std::string& where, bool must_divide) const {
  Sharding result(state.extents.size());
  if (annotation.dimensions.empty()) return result;
  if (annotation.dimensions.size() != state.extents.size()) {
    throw WorkloadError(where + ": expected a sharding of " + std::to_string(state.extents.size()) +
                        " dimensions, found " + std::to_string(annotation.dimensions.size()));
  }
  for (std::size_t d = 0; d < state.extents.size(); ++d) {
    Axes axes;
    for (const DeviceDigit& digit : annotation.dimensions[d]) {
      const Axes more = mesh_.axes_of(digit);
      axes.insert(axes.end(), more.begin(), more.end());
    }
    if (state.extents[d] % mesh_.extent(axes) == 0) {
      result.dimensions[d] = axes;
    } else if (must_divide) {
      throw WorkloadError(where + ": expected a dimension that divides into " +
                          std::to_string(mesh_.extent(axes)) + " equal parts, found dimension " +
                          std::to_string(d) + " of " + std::to_string(state.extents[d]) +
                          "; pad it or cut another one");
    }
  }
  return result;
}

void ShardingMap::annotate(ComputationId id, const HloInstruction& instruction) {
  const bool is_parameter = id == module_.entry && instruction.opcode == HloOpcode::kParameter;
  const std::vector<ValueId>& mine = values(id, instruction.id);
  if (is_parameter) {
    for (ValueId value : mine) {
      State& state = states_[static_cast<std::size_t>(value)];
      state.closed.assign(state.extents.size(), true);
    }
  }
  const auto found = annotations_[id].find(instruction.id);
  if (found == annotations_[id].end()) return;
  const InstructionAnnotation& annotation = found->second;
  if (enters_manual_part(instruction) || leaves_manual_part(instruction)) {
    return annotate_boundary(id, instruction, annotation);
  }
  const std::string where = "instruction \"" + instruction.name + "\" with " + annotation.text;
  for (std::size_t i = 0; i < mine.size(); ++i) {
    if (annotation.leaves.size() != 1 && annotation.leaves.size() != mine.size()) {
      throw WorkloadError(where + ": expected a sharding for each of " +
                          std::to_string(mine.size()) + " arrays, found " +
                          std::to_string(annotation.leaves.size()));
    }
    const ShardingAnnotation& leaf = annotation.leaves[annotation.leaves.size() == 1 ? 0 : i];
    State& state = states_[static_cast<std::size_t>(mine[i])];
    if (leaf.is_manual) continue;
    const bool is_elsewhere = instruction.opcode == HloOpcode::kTuple ||
                              instruction.opcode == HloOpcode::kGetTupleElement;
    if (is_elsewhere &&
        std::find(state.closed.begin(), state.closed.end(), true) != state.closed.end()) {
      continue;
    }
    state.sharding = from_annotation(leaf, state, where, is_parameter);
    for (std::size_t d = 0; d < state.closed.size(); ++d) {
      state.closed[d] = is_parameter || leaf.open.empty() || !leaf.open[d];
    }
  }
}

/// The operand of what enters and the result of what leaves lie as the annotation says, along the
/// manual axes; what is inside knows nothing of these axes.
void ShardingMap::annotate_boundary(ComputationId id, const HloInstruction& instruction,
                                    const InstructionAnnotation& annotation) {
  Boundary boundary;
  const bool enters = enters_manual_part(instruction);
  const bool is_old = instruction.custom_call_target->rfind("SPMD", 0) == 0;
  std::vector<ValueId> whole;
  for (std::size_t i = 0; enters && i < instruction.operands.size(); ++i) {
    const std::vector<ValueId>& operand = values(id, instruction.operands[i]);
    whole.insert(whole.end(), operand.begin(), operand.end());
  }
  if (!enters) whole = values(id, instruction.id);
  Axes manual;
  for (const DeviceDigit& digit : annotation.manual_axes) {
    const Axes more = mesh_.axes_of(digit);
    manual.insert(manual.end(), more.begin(), more.end());
  }
  for (std::size_t i = 0; i < whole.size(); ++i) {
    State& state = states_[static_cast<std::size_t>(whole[i])];
    Sharding lies(state.extents.size());
    if (is_old && enters) {
      lies = state.sharding;
    } else if (!annotation.leaves.empty()) {
      const std::size_t leaf = annotation.leaves.size() == 1 ? 0 : i;
      lies = from_annotation(annotation.leaves.at(leaf), state,
                             "instruction \"" + instruction.name + "\"", true);
    }
    for (Axes& axes : lies.dimensions) {
      if (manual.empty()) break;
      const auto is_automatic = [&manual](int axis) {
        return std::find(manual.begin(), manual.end(), axis) == manual.end();
      };
      axes.erase(std::remove_if(axes.begin(), axes.end(), is_automatic), axes.end());
    }
    if (!enters) state.sharding = lies;
    boundary.leaves.push_back(std::move(lies));
  }
  boundaries_[id][instruction.id] = std::move(boundary);
}

const ShardingMap::Boundary* ShardingMap::boundary(ComputationId computation,
                                                   InstructionId id) const {
  const auto of = boundaries_.find(computation);
  if (of == boundaries_.end()) return nullptr;
  const auto found = of->second.find(id);
  return found == of->second.end() ? nullptr : &found->second;
}

/// A result that takes the memory of a parameter lies like it.
void ShardingMap::keep_aliases(std::vector<char>& is_given) {
  const std::vector<InstructionId> parameters = module_.entry_computation().parameters();
  for (const hlo::Alias& alias : module_.aliases) {
    const auto output = static_cast<std::size_t>(alias.output_index);
    const auto number = static_cast<std::size_t>(alias.parameter_number);
    if (output >= results_.size() || number >= parameters.size()) continue;
    const std::vector<ValueId>& parameter = values(module_.entry, parameters[number]);
    if (parameter.size() != 1) continue;
    results_[output] = sharding(parameter[0]);
    is_given[output] = 1;
  }
}

/// Results lie as annotated, like the parameters whose memory they take, or else as they come.
void ShardingMap::place_results() {
  const Computation& entry = module_.entry_computation();
  const HloInstruction& root = entry.at(entry.root);
  const std::vector<ValueId>& mine = values(module_.entry, root.id);
  std::vector<char> is_given(mine.size(), 0);
  for (ValueId value : mine) results_.push_back(sharding(value));
  const auto found = annotations_[module_.entry].find(root.id);
  for (std::size_t i = 0; found != annotations_[module_.entry].end() && i < mine.size(); ++i) {
    const std::vector<ShardingAnnotation>& leaves = found->second.leaves;
    const ShardingAnnotation& leaf = leaves.at(leaves.size() == 1 ? 0 : i);
    if (leaf.is_manual) continue;
    results_[i] = from_annotation(leaf, states_[static_cast<std::size_t>(mine[i])],
                                  "result " + std::to_string(i), true);
    is_given[i] = 1;
  }
  keep_aliases(is_given);
  for (std::size_t i = 0; i < mine.size(); ++i) {
    if (is_given[i]) extend(mine[i], results_[i].dimensions);
  }
  propagate();
  for (std::size_t i = 0; i < mine.size(); ++i) {
    if (!is_given[i]) results_[i] = sharding(mine[i]);
  }
}

bool ShardingMap::extend(ValueId value, const std::vector<Axes>& wanted) {
  State& state = states_[static_cast<std::size_t>(value)];
  bool changed = false;
  for (std::size_t d = 0; d < wanted.size(); ++d) {
    Axes& mine = state.sharding.dimensions[d];
    if (state.closed[d] || wanted[d].size() <= mine.size() || !begins_with(wanted[d], mine)) {
      continue;
    }
    for (std::size_t i = mine.size(); i < wanted[d].size(); ++i) {
      Axes longer = mine;
      longer.push_back(wanted[d][i]);
      if (state.sharding.uses(wanted[d][i]) || state.extents[d] % mesh_.extent(longer) != 0) break;
      mine = std::move(longer);
      changed = true;
    }
  }
  return changed;
}

bool ShardingMap::pass_on(ValueId from, const FactorRule::ArrayFactors& from_factors, ValueId to,
                          const FactorRule::ArrayFactors& to_factors, const FactorRule& rule) {
  const std::vector<Axes> axes = axes_of_factors(mesh_, rule, from_factors, sharding(from));
  return extend(to, sharding_of_factors(mesh_, rule, to_factors, axes).dimensions);
}

bool ShardingMap::visit(ComputationId id, const HloInstruction& instruction, Level level,
                        bool forward) {
  const FactorRule& rule = this->rule(id, instruction.id);
  if (rule.factors.empty()) return false;
  const bool is_broadcast = instruction.opcode == HloOpcode::kBroadcast;
  if (level == Level::kSameDimensions && !keeps_dimensions(instruction.opcode)) return false;
  if (is_broadcast && forward && level != Level::kBroadcasts) return false;
  const std::vector<ValueId>& mine = values(id, instruction.id);
  bool changed = false;
  for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
    if (rule.operands[i].empty()) continue;
    const ValueId operand = values(id, instruction.operands[i]).at(0);
    for (std::size_t k = 0; k < mine.size() && k < rule.results.size(); ++k) {
      const bool passed = forward
                              ? pass_on(operand, rule.operands[i], mine[k], rule.results[k], rule)
                              : pass_on(mine[k], rule.results[k], operand, rule.operands[i], rule);
      changed = changed || passed;
    }
  }
  return changed;
}

bool ShardingMap::sweep(Level level, bool forward) {
  bool changed = false;
  for (const Link& link : links_) {
    const ValueId from = forward ? link.from : link.to;
    const ValueId to = forward ? link.to : link.from;
    const bool extended = extend(to, sharding(from).dimensions);
    changed = changed || extended;
  }
  const auto over = [&](ComputationId id, const HloInstruction& instruction) {
    const bool visited = visit(id, instruction, level, forward);
    changed = changed || visited;
  };
  for (std::size_t c = 0; c < order_.size(); ++c) {
    const ComputationId id = order_[forward ? c : order_.size() - 1 - c];
    const std::vector<HloInstruction>& all = module_.computation(id).instructions;
    if (forward) {
      for (const HloInstruction& instruction : all) over(id, instruction);
    } else {
      for (auto i = all.rbegin(); i != all.rend(); ++i) over(id, *i);
    }
  }
  return changed;
}

/// What comes from operands goes as far as it can, through loops, too, before anything is taken
/// from results: activations are cut like the examples, not like the gradients of weights.
void ShardingMap::propagate() {
  for (const Level level : {Level::kSameDimensions, Level::kAll, Level::kBroadcasts}) {
    for (int i = 0; i < kMostSweeps; ++i) {
      for (int k = 0; k < kMostSweeps && sweep(level, true); ++k) {
      }
      if (!sweep(level, false)) break;
    }
  }
}

}  // namespace tpu::compiler
