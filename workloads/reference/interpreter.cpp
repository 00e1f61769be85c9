#include "workloads/reference/interpreter.h"

#include <algorithm>
#include <numeric>

#include "sim/base/error.h"
#include "workloads/reference/operations.h"

namespace tpu::reference {

using hlo::HloInstruction;
using hlo::HloOpcode;

namespace {

[[noreturn]] void refuse(const HloInstruction& instruction, const std::string& expected) {
  throw WorkloadError("the reference interpreter: instruction \"" + instruction.name + "\" (" +
                      std::string(hlo::to_string(instruction.opcode)) + " " +
                      hlo::to_string(instruction.shape, false) + "): expected " + expected);
}

/// For each operand of each instruction the last one that reads it, as a list of flags per
/// instruction: value `id` is free after instruction last[id].
std::vector<hlo::InstructionId> last_readers(const hlo::Computation& computation) {
  std::vector<hlo::InstructionId> last(computation.instructions.size(), -1);
  for (const HloInstruction& instruction : computation.instructions) {
    for (hlo::InstructionId operand : instruction.operands) {
      last[static_cast<std::size_t>(operand)] = instruction.id;
    }
  }
  last[static_cast<std::size_t>(computation.root)] = static_cast<hlo::InstructionId>(last.size());
  return last;
}

}  // namespace

Value Interpreter::run(std::vector<Value> arguments) const {
  std::vector<std::vector<Value>> one;
  one.push_back(std::move(arguments));
  return std::move(run_replicas(std::move(one)).front());
}

std::vector<Value> Interpreter::run_replicas(std::vector<std::vector<Value>> arguments) const {
  const hlo::Computation& entry = module_.entry_computation();
  const std::vector<hlo::InstructionId> parameters = entry.parameters();
  std::vector<Replicas> by_parameter(parameters.size());
  for (std::vector<Value>& set : arguments) {
    if (set.size() != parameters.size()) {
      throw WorkloadError("module \"" + module_.name + "\": expected " +
                          std::to_string(parameters.size()) + " arguments, found " +
                          std::to_string(set.size()));
    }
    for (std::size_t i = 0; i < set.size(); ++i) {
      const hlo::Shape& shape = entry.at(parameters[i]).shape;
      if (!hlo::same_extent(set[i].shape, shape)) {
        throw WorkloadError("module \"" + module_.name + "\": expected " +
                            hlo::to_string(shape, false) + " as argument " + std::to_string(i) +
                            ", found " + hlo::to_string(set[i].shape, false));
      }
      by_parameter[i].push_back(std::move(set[i]));
    }
  }
  return evaluate(module_.entry, std::move(by_parameter), arguments.size());
}

Interpreter::Replicas Interpreter::evaluate(hlo::ComputationId id, std::vector<Replicas> parameters,
                                            std::size_t replicas) const {
  const hlo::Computation& computation = module_.computation(id);
  const std::vector<hlo::InstructionId> last = last_readers(computation);
  std::vector<Replicas> values(computation.instructions.size());
  for (const HloInstruction& instruction : computation.instructions) {
    const std::size_t at = static_cast<std::size_t>(instruction.id);
    if (instruction.opcode == HloOpcode::kParameter) {
      values[at] = std::move(parameters[static_cast<std::size_t>(instruction.parameter_number)]);
      continue;
    }
    if (instruction.opcode == HloOpcode::kReplicaId ||
        instruction.opcode == HloOpcode::kPartitionId) {
      values[at].assign(replicas, make_value(instruction.shape));
      for (std::size_t r = 0; r < replicas; ++r) {
        values[at][r].integers[0] = static_cast<std::int64_t>(r);
      }
      continue;
    }
    if (instruction.operands.empty() && instruction.called.empty()) {
      values[at].assign(replicas, compute(instruction, {}));
      continue;
    }
    std::vector<bool> last_use;
    for (std::size_t i = 0; i < instruction.operands.size(); ++i) {
      const hlo::InstructionId operand = instruction.operands[i];
      const bool again =
          std::count(instruction.operands.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                     instruction.operands.end(), operand) > 0;
      last_use.push_back(last[static_cast<std::size_t>(operand)] == instruction.id && !again);
    }
    values[at] = step(instruction, values, last_use, replicas);
    for (hlo::InstructionId operand : instruction.operands) {
      if (last[static_cast<std::size_t>(operand)] == instruction.id) {
        values[static_cast<std::size_t>(operand)].clear();
      }
    }
  }
  return std::move(values[static_cast<std::size_t>(computation.root)]);
}

Interpreter::Replicas Interpreter::step(const HloInstruction& instruction,
                                        std::vector<Replicas>& values,
                                        const std::vector<bool>& last_use,
                                        std::size_t replicas) const {
  const auto operand = [&](std::size_t i) -> Replicas& {
    return values[static_cast<std::size_t>(instruction.operands[i])];
  };
  const auto take = [&](std::size_t i) { return last_use[i] ? std::move(operand(i)) : operand(i); };
  std::vector<const Replicas*> all;
  for (std::size_t i = 0; i < instruction.operands.size(); ++i) all.push_back(&operand(i));
  switch (instruction.opcode) {
    case HloOpcode::kCall:
    case HloOpcode::kFusion: {
      std::vector<Replicas> parameters;
      for (std::size_t i = 0; i < all.size(); ++i) parameters.push_back(take(i));
      return evaluate(instruction.called[0], std::move(parameters), replicas);
    }
    case HloOpcode::kWhile:
      return while_loop(instruction, take(0));
    case HloOpcode::kConditional:
      return conditional(instruction, all);
    case HloOpcode::kAllReduce:
      return all_reduce(instruction, all);
    case HloOpcode::kAllGather:
    case HloOpcode::kReduceScatter:
    case HloOpcode::kAllToAll:
    case HloOpcode::kCollectivePermute:
      return exchange(instruction, all);
    case HloOpcode::kTuple: {
      Replicas result(replicas, make_value(instruction.shape));
      for (std::size_t i = 0; i < all.size(); ++i) {
        Replicas part = take(i);
        for (std::size_t r = 0; r < part.size(); ++r) {
          result[r].elements.push_back(std::move(part[r]));
        }
      }
      return result;
    }
    default:
      break;
  }
  Replicas result;
  for (std::size_t r = 0; r < replicas; ++r) {
    std::vector<const Value*> operands;
    operands.reserve(all.size());
    for (const Replicas* each : all) operands.push_back(&(*each)[r]);
    result.push_back(compute(instruction, operands));
  }
  return result;
}

Value Interpreter::compute(const HloInstruction& instruction,
                           const std::vector<const Value*>& operands) const {
  const bool round = options_.round_matmul_operands_to_bf16;
  switch (instruction.opcode) {
    case HloOpcode::kConstant:
      if (instruction.literal.empty() && instruction.shape.element_count() > 0) {
        refuse(instruction, "the constant's elements, which the file leaves out ({...})");
      }
      return from_bytes(instruction.shape, instruction.literal);
    case HloOpcode::kIota:
      return iota(instruction);
    case HloOpcode::kBroadcast:
      return broadcast(instruction, *operands[0]);
    case HloOpcode::kReshape:
      return reshape(instruction, *operands[0]);
    case HloOpcode::kBitcast:
      if (instruction.shape.layout == operands[0]->shape.layout ||
          instruction.shape.layout.minor_to_major.empty()) {
        return reshape(instruction, *operands[0]);
      }
      refuse(instruction, "a bitcast without a change of layout");
    case HloOpcode::kBitcastConvert:
      return bitcast_convert(instruction, *operands[0]);
    case HloOpcode::kTranspose:
      return transpose(instruction, *operands[0]);
    case HloOpcode::kCopy:
    case HloOpcode::kOptimizationBarrier:
      if (operands.size() != 1) refuse(instruction, "one operand");
      return *operands[0];
    case HloOpcode::kSlice:
      return slice(instruction, *operands[0]);
    case HloOpcode::kConcatenate:
      return concatenate(instruction, operands);
    case HloOpcode::kPad:
      return pad(instruction, *operands[0], *operands[1]);
    case HloOpcode::kReverse:
      return reverse(instruction, *operands[0]);
    case HloOpcode::kReduce:
      return reduce(module_, instruction, operands);
    case HloOpcode::kReduceWindow:
      return reduce_window(module_, instruction, operands);
    case HloOpcode::kSelectAndScatter:
      return select_and_scatter(module_, instruction, operands);
    case HloOpcode::kMap:
      return map(module_, instruction, operands);
    case HloOpcode::kRngBitGenerator:
      return rng_bit_generator(instruction, *operands.at(0));
    case HloOpcode::kSort:
      return sort(module_, instruction, operands);
    case HloOpcode::kTopk:
      return topk(instruction, *operands[0]);
    case HloOpcode::kDot:
      return dot(instruction, *operands[0], *operands[1], round);
    case HloOpcode::kRaggedDot:
      return ragged_dot(instruction, operands, round);
    case HloOpcode::kConvolution:
      return convolution(instruction, *operands[0], *operands[1], round);
    case HloOpcode::kGather:
      return gather(instruction, *operands[0], *operands[1]);
    case HloOpcode::kScatter:
      return scatter(module_, instruction, operands);
    case HloOpcode::kDynamicSlice:
      return dynamic_slice(instruction, operands);
    case HloOpcode::kDynamicUpdateSlice:
      return dynamic_update_slice(instruction, operands);
    case HloOpcode::kTuple:
      return make_value(instruction.shape);
    case HloOpcode::kGetTupleElement:
      return operands[0]->elements[static_cast<std::size_t>(instruction.tuple_index)];
    case HloOpcode::kStochasticConvert:
      refuse(instruction, "an operation that it knows");
    default:
      if (!hlo::is_elementwise(instruction.opcode)) {
        refuse(instruction, "an operation that it knows");
      }
      return elementwise(instruction, operands);
  }
}

Value Interpreter::combine(const HloInstruction& instruction, const Replicas& values,
                           const std::vector<std::int64_t>& group) const {
  ScalarComputation computation(module_, instruction.called[0]);
  Value result = values[static_cast<std::size_t>(group[0])];
  const bool sum =
      computation.single_operation() == HloOpcode::kAdd && is_floating(result.shape.type);
  for (std::size_t i = 0; i < result.size(); ++i) {
    Scalar total = element(result, i);
    for (std::size_t r = 1; r < group.size(); ++r) {
      const Scalar next = element(values[static_cast<std::size_t>(group[r])], i);
      if (sum) {
        total.number += next.number;
      } else {
        total = computation.run(total, next);
      }
    }
    set_element(result, i, total);
  }
  return result;
}

Interpreter::Replicas Interpreter::all_reduce(const HloInstruction& instruction,
                                              const std::vector<const Replicas*>& operands) const {
  const std::size_t given = operands[0]->size();
  const std::int64_t replicas =
      std::max<std::int64_t>(static_cast<std::int64_t>(given), given == 1 ? module_.replicas : 0);
  std::vector<std::vector<std::int64_t>> groups = instruction.replica_groups;
  if (groups.empty() || (groups.size() == 1 && groups[0].empty())) {
    groups.assign(1, std::vector<std::int64_t>(static_cast<std::size_t>(replicas)));
    std::iota(groups[0].begin(), groups[0].end(), 0);
  }
  if (given == 1) {
    // One replica stands for all: a group combines as many copies of its value.
    std::vector<std::int64_t> copies(groups.front().size(), 0);
    groups.assign(1, copies);
  }
  Replicas result(given, make_value(instruction.shape));
  for (const std::vector<std::int64_t>& group : groups) {
    for (std::int64_t member : group) {
      if (member < 0 || member >= static_cast<std::int64_t>(given)) {
        refuse(instruction, "replica groups of " + std::to_string(given) + " replicas");
      }
    }
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const Value total = combine(instruction, *operands[i], group);
      for (std::int64_t member : group) {
        Value& to = result[static_cast<std::size_t>(member)];
        if (!instruction.shape.is_tuple()) {
          to = total;
        } else if (to.elements.size() == i) {
          to.elements.push_back(total);
        }
      }
    }
  }
  return result;
}

namespace {

/// The groups of a collective that the instruction states, or one of all replicas.
std::vector<std::vector<std::int64_t>> groups_of(const HloInstruction& instruction,
                                                 std::size_t replicas) {
  const std::vector<std::vector<std::int64_t>>& stated = instruction.replica_groups;
  if (!stated.empty() && !stated[0].empty()) return stated;
  std::vector<std::int64_t> everyone(replicas);
  std::iota(everyone.begin(), everyone.end(), 0);
  return {everyone};
}

/// The numbers of {{0,1},{1,2}}.
std::vector<std::size_t> pairs_of(const std::string& attributes) {
  constexpr std::string_view kName = "source_target_pairs=";
  std::vector<std::size_t> numbers;
  std::size_t i = attributes.find(kName);
  if (i == std::string::npos) return numbers;
  for (i += kName.size(); i < attributes.size() && attributes[i] != '='; ++i) {
    if (attributes[i] < '0' || attributes[i] > '9') continue;
    std::size_t length = 0;
    numbers.push_back(std::stoul(attributes.substr(i), &length));
    i += length - 1;
    if (attributes.compare(i + 1, 2, "}}") == 0) break;
  }
  return numbers;
}

}  // namespace

Interpreter::Replicas Interpreter::permute(const HloInstruction& instruction,
                                           const Replicas& given) const {
  Value nothing = make_value(instruction.shape);
  for (const hlo::Shape& element : instruction.shape.elements) {
    nothing.elements.push_back(make_value(element));
  }
  Replicas result(given.size(), nothing);
  const std::vector<std::size_t> numbers = pairs_of(instruction.raw_attributes);
  for (std::size_t i = 0; i + 1 < numbers.size(); i += 2) {
    result.at(numbers[i + 1]) = given.at(numbers[i]);
  }
  return result;
}

Value Interpreter::exchanged(const HloInstruction& instruction, const hlo::Shape& shape,
                             const Replicas& given, const std::vector<std::int64_t>& group,
                             std::size_t member) const {
  const std::int64_t dimension = instruction.dimensions.at(0);
  const auto count = static_cast<std::int64_t>(group.size());
  const auto me = static_cast<std::int64_t>(member);
  if (instruction.opcode == HloOpcode::kReduceScatter) {
    return part_of(combine(instruction, given, group), dimension, me, count);
  }
  std::vector<Value> parts;
  for (std::int64_t from : group) {
    const Value& whole = given.at(static_cast<std::size_t>(from));
    parts.push_back(
        instruction.opcode == HloOpcode::kAllToAll ? part_of(whole, dimension, me, count) : whole);
  }
  Operands pointers;
  for (const Value& part : parts) pointers.push_back(&part);
  return joined(shape, pointers, dimension);
}

Interpreter::Replicas Interpreter::exchange(const HloInstruction& instruction,
                                            const std::vector<const Replicas*>& operands) const {
  const std::size_t replicas = operands[0]->size();
  if (instruction.opcode == HloOpcode::kCollectivePermute) {
    if (operands.size() == 1) return permute(instruction, *operands[0]);
    Replicas joined(replicas, make_value(instruction.shape));
    for (const Replicas* operand : operands) {
      for (std::size_t i = 0; i < replicas; ++i) joined[i].elements.push_back(operand->at(i));
    }
    return permute(instruction, joined);
  }
  Replicas result(replicas, make_value(instruction.shape));
  const bool is_tuple = instruction.shape.is_tuple();
  for (const std::vector<std::int64_t>& group : groups_of(instruction, replicas)) {
    for (std::size_t m = 0; m < group.size(); ++m) {
      if (group[m] < 0 || group[m] >= static_cast<std::int64_t>(replicas)) {
        refuse(instruction, "replica groups of " + std::to_string(replicas) + " replicas");
      }
      Value& to = result[static_cast<std::size_t>(group[m])];
      if (is_tuple && instruction.opcode == HloOpcode::kAllToAll) {
        // Operand i goes to member i.
        for (std::int64_t from : group) {
          to.elements.push_back(operands.at(m)->at(static_cast<std::size_t>(from)));
        }
        continue;
      }
      for (std::size_t i = 0; i < operands.size(); ++i) {
        const hlo::Shape& shape = is_tuple ? instruction.shape.elements.at(i) : instruction.shape;
        Value made = exchanged(instruction, shape, *operands[i], group, m);
        if (is_tuple) {
          to.elements.push_back(std::move(made));
        } else {
          to = std::move(made);
        }
      }
    }
  }
  return result;
}

bool Interpreter::has_collective(hlo::ComputationId id) const {
  for (const HloInstruction& instruction : module_.computation(id).instructions) {
    switch (instruction.opcode) {
      case HloOpcode::kAllReduce:
      case HloOpcode::kAllGather:
      case HloOpcode::kReduceScatter:
      case HloOpcode::kAllToAll:
      case HloOpcode::kCollectivePermute:
      case HloOpcode::kPartitionId:
      case HloOpcode::kReplicaId:
        return true;
      default:
        break;
    }
    for (hlo::ComputationId called : instruction.called) {
      if (has_collective(called)) return true;
    }
  }
  return false;
}

Interpreter::Replicas Interpreter::while_loop(const HloInstruction& instruction,
                                              Replicas state) const {
  const hlo::ComputationId body = instruction.called[0];
  const hlo::ComputationId condition = instruction.called[1];
  if (state.size() > 1 && !has_collective(body)) {
    for (Value& each : state) {
      Replicas alone;
      alone.push_back(std::move(each));
      each = std::move(while_loop(instruction, std::move(alone)).front());
    }
    return state;
  }
  for (std::int64_t i = 0; i <= options_.most_iterations; ++i) {
    const Replicas again = evaluate(condition, {state}, state.size());
    for (const Value& each : again) {
      if (each.integers[0] != again[0].integers[0]) {
        refuse(instruction, "a loop with a collective to run as often on all replicas");
      }
    }
    if (again[0].integers[0] == 0) return state;
    std::vector<Replicas> parameters;
    parameters.push_back(std::move(state));
    state = evaluate(body, std::move(parameters), again.size());
  }
  refuse(instruction,
         "a loop of at most " + std::to_string(options_.most_iterations) + " iterations");
}

Interpreter::Replicas Interpreter::conditional(const HloInstruction& instruction,
                                               const std::vector<const Replicas*>& operands) const {
  const std::int64_t last = static_cast<std::int64_t>(instruction.called.size()) - 1;
  std::vector<std::size_t> branches;
  for (const Value& selector : *operands[0]) {
    std::int64_t branch = selector.integers[0];
    if (selector.shape.type == hlo::ElementType::kPred) branch = branch != 0 ? 0 : 1;
    branches.push_back(static_cast<std::size_t>(branch < 0 || branch > last ? last : branch));
  }
  const bool together = std::all_of(branches.begin(), branches.end(),
                                    [&](std::size_t b) { return b == branches[0]; });
  if (together) {
    return evaluate(instruction.called[branches[0]], {*operands[1 + branches[0]]}, branches.size());
  }
  Replicas result;
  for (std::size_t r = 0; r < branches.size(); ++r) {
    if (has_collective(instruction.called[branches[r]])) {
      refuse(instruction, "a branch with a collective to be taken by all replicas");
    }
    result.push_back(std::move(
        evaluate(instruction.called[branches[r]], {{(*operands[1 + branches[r]])[r]}}, 1).front()));
  }
  return result;
}

}  // namespace tpu::reference
