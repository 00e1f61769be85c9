#pragma once

#include <algorithm>
#include <cmath>
#include <exception>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/error.h"
#include "tests/compiler/run_compiled.h"
#include "workloads/compiler/passes/edit.h"
#include "workloads/graph/graph.h"
#include "workloads/reference/interpreter.h"

namespace tpu::test {

/// A module with values for its parameters, to be compiled, run and compared with the reference
/// interpreter.
struct GraphCase {
  hlo::Module module;
  std::vector<reference::Value> arguments;
};

/// Random values for every parameter of a module: numbers in [-2, 2], integers in [-9, 40].
inline GraphCase case_of(hlo::Module module, std::uint32_t seed) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<double> uniform(-2, 2);
  std::vector<reference::Value> arguments;
  const hlo::Computation& entry = module.entry_computation();
  for (hlo::InstructionId id : entry.parameters()) {
    const hlo::Shape& shape = entry.at(id).shape;
    reference::Value value = reference::make_value(hlo::array_shape(shape.type, shape.dimensions));
    for (float& number : value.numbers) number = reference::round_to(shape.type, uniform(engine));
    for (std::int64_t& integer : value.integers) {
      const auto random = static_cast<std::int64_t>(engine());
      integer = shape.type == hlo::ElementType::kPred ? random % 2 : random % 50 - 9;
    }
    arguments.push_back(std::move(value));
  }
  return {std::move(module), std::move(arguments)};
}

/// How a compiled module compares with the reference.
struct Verdict {
  enum class Kind : std::uint8_t { kEqual, kRefused, kWrong };
  Kind kind = Kind::kEqual;
  std::string message;  ///< Of a refusal or what is wrong.
};

namespace graph_check_detail {

/// Where the reference itself moves further than this between two legal roundings, a result says
/// nothing.
constexpr double kChaos = 0.2;
/// What transcendental functions and other orders of addition cost.
constexpr double kRounding = 2e-4;
/// Where there is bf16, results depend on which of its roundings are left out: more than the two
/// extremes show.
constexpr double kRoundingOfBf16 = 0.03;
/// Choices of roundings that are tried before a result is wrong.
constexpr std::uint32_t kTrials = 25;

inline bool has_bf16(const hlo::Module& module) {
  for (const hlo::HloInstruction& instruction : module.entry_computation().instructions) {
    if (instruction.shape.type == hlo::ElementType::kBf16) return true;
  }
  return false;
}

inline void make_f32(hlo::Shape& shape) {
  if (shape.type == hlo::ElementType::kBf16) shape.type = hlo::ElementType::kF32;
  for (hlo::Shape& element : shape.elements) make_f32(element);
}

/// The module with f32 where it says bf16: what a compiler computes that keeps more precision than
/// it must. `kept` of four such instructions, chosen at random, still round.
inline hlo::Module in_f32(hlo::Module module, std::mt19937& engine, std::uint32_t kept) {
  for (hlo::Computation& computation : module.computations) {
    for (hlo::HloInstruction& instruction : computation.instructions) {
      if (instruction.opcode == hlo::HloOpcode::kConstant) continue;
      const bool computes = instruction.opcode != hlo::HloOpcode::kParameter &&
                            instruction.opcode != hlo::HloOpcode::kGetTupleElement;
      if (!computes || engine() % 4 >= kept) make_f32(instruction.shape);
    }
  }
  return module;
}

inline std::vector<reference::Value> interpret(const hlo::Module& module,
                                               std::vector<reference::Value> arguments,
                                               bool round_matmul_operands = true) {
  reference::InterpreterOptions options;
  options.round_matmul_operands_to_bf16 = round_matmul_operands;
  reference::Value value = reference::Interpreter(module, options).run(std::move(arguments));
  if (value.shape.is_tuple()) return std::move(value.elements);
  std::vector<reference::Value> one;
  one.push_back(std::move(value));
  return one;
}

/// The results of the module on arguments that differ in the last bits, with f32 in place of bf16:
/// everywhere in the first trial, in later ones but for some instructions. Every other trial leaves
/// operands of products as they are: small ones the vector unit multiplies in f32.
inline std::vector<reference::Value> disturbed(const GraphCase& graph, std::uint32_t trial) {
  const std::uint32_t kept = trial == 0 ? 0 : 1 + trial % 3;
  std::vector<reference::Value> arguments = graph.arguments;
  std::mt19937 engine(7 + trial);
  for (reference::Value& value : arguments) {
    if (value.shape.type == hlo::ElementType::kBf16) value.shape.type = hlo::ElementType::kF32;
    for (float& number : value.numbers) {
      number *= 1 + 1e-6F * (static_cast<float>(engine() % 3) - 1);
    }
  }
  // Constants of bf16 become parameters' equals by a conversion of their type.
  hlo::Module module = in_f32(graph.module, engine, kept);
  for (hlo::Computation& computation : module.computations) {
    for (hlo::HloInstruction& constant : computation.instructions) {
      if (constant.opcode != hlo::HloOpcode::kConstant ||
          constant.shape.type != hlo::ElementType::kBf16) {
        continue;
      }
      const compiler::HostArray narrow{constant.shape, constant.literal};
      constant.literal = compiler::converted(narrow, hlo::ElementType::kF32).bytes;
      constant.shape.type = hlo::ElementType::kF32;
    }
  }
  return interpret(module, std::move(arguments), trial % 2 == 0);
}

/// How far an array is from another: as a whole, and its worst element.
struct Distances {
  double whole = 0;  ///< Relative L2 distance.
  double worst = 0;  ///< Largest |a - b| / (|b| + root mean square of b).
};

inline Distances distances(const std::vector<double>& a, const std::vector<double>& b) {
  Distances distances{distance(a, b), 0};
  double squares = 0;
  for (double x : b) squares += std::isfinite(x) ? x * x : 0;
  const double mean = squares > 0 ? std::sqrt(squares / static_cast<double>(b.size())) : 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    const double off = std::fabs(a[i] - b[i]) / (std::fabs(b[i]) + mean);
    distances.worst = std::isnan(off) ? off : std::max(distances.worst, off);
    if (std::isnan(off)) break;
  }
  return distances;
}

/// What of the results is further from the reference's than its own roundings move it: `others` are
/// its results with other roundings.
inline std::string compare(const std::vector<reference::Value>& wanted,
                           const std::vector<std::vector<reference::Value>>& others,
                           const std::vector<compiler::HostArray>& found, double rounding) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::vector<double> expected = numbers_of(wanted[i]);
    Distances own;
    for (const std::vector<reference::Value>& other : others) {
      const Distances moved = distances(numbers_of(other[i]), expected);
      own.whole = std::isnan(moved.whole) ? kChaos : std::max(own.whole, moved.whole);
      own.worst = std::isnan(moved.worst) ? kChaos : std::max(own.worst, moved.worst);
    }
    if (!(own.whole < kChaos)) continue;
    const Distances off = distances(numbers_of(found[i]), expected);
    const double allowed = rounding + 8 * own.whole;
    const double allowed_worst = 4 * rounding + 8 * own.worst;
    const bool is_off = !(off.whole <= allowed);
    if (!is_off && (off.worst <= allowed_worst || !(own.worst < kChaos))) continue;
    return "result " + std::to_string(i) + " " + hlo::to_string(found[i].shape, false) +
           ": relative distance " + std::to_string(off.whole) + ", expected at most " +
           std::to_string(allowed) + "; of its worst element " + std::to_string(off.worst) +
           ", expected at most " + std::to_string(allowed_worst);
  }
  return {};
}

}  // namespace graph_check_detail

/// Compiles the module for one core, runs it on values and compares every result.
///
/// What is allowed is what the reference itself does between its own rounding and f32 throughout on
/// arguments that differ by a millionth.
inline Verdict check_graph(const GraphCase& graph, const MachineParams& params = {}) {
  using namespace graph_check_detail;
  try {
    hlo::verify(graph.module);
    const auto wanted = interpret(graph.module, graph.arguments);
    std::vector<std::vector<reference::Value>> others;
    const bool rounds = has_bf16(graph.module);
    CoreArguments arguments;
    for (const reference::Value& value : graph.arguments) {
      arguments.parameters.push_back(reference::to_bytes(value));
    }
    std::optional<CompiledRun> run;
    try {
      run = run_compiled(graph.module, {arguments}, 1, params);
    } catch (const WorkloadError& error) {
      return {Verdict::Kind::kRefused, error.what()};
    }
    std::string message;
    for (std::uint32_t trial = 0; trial < (rounds ? kTrials : 2); ++trial) {
      others.push_back(disturbed(graph, trial));
      message = compare(wanted, others, run->outputs[0], rounds ? kRoundingOfBf16 : kRounding);
      if (message.empty()) break;
    }
    if (!message.empty()) return {Verdict::Kind::kWrong, message};
  } catch (const std::exception& error) {
    return {Verdict::Kind::kWrong, error.what()};
  }
  return {};
}

/// Makes a failing case smaller: fewer results, values of the reference in place of instructions.
class GraphShrinker {
 public:
  explicit GraphShrinker(GraphCase graph) : graph_(std::move(graph)) {}

  /// Tries each step until none leaves a failing module, at most `attempts` checks.
  GraphCase run(int attempts) {
    attempts_ = attempts;
    while (attempts_ > 0 && (keep_one_result() || cut_once())) {
    }
    return graph_;
  }

 private:
  bool still_fails(GraphCase smaller) {
    if (attempts_-- <= 0) return false;
    drop_unused(smaller);
    if (check_graph(smaller).kind != Verdict::Kind::kWrong) return false;
    graph_ = std::move(smaller);
    return true;
  }

  bool keep_one_result() {
    const hlo::Computation& entry = graph_.module.entry_computation();
    const hlo::HloInstruction root = entry.at(entry.root);
    if (root.opcode != hlo::HloOpcode::kTuple || root.operands.size() < 2) return false;
    for (std::size_t i = 0; i < root.operands.size(); ++i) {
      GraphCase smaller = graph_;
      hlo::HloInstruction& tuple =
          smaller.module.entry_computation().at(smaller.module.entry_computation().root);
      tuple.operands = {root.operands[i]};
      tuple.shape.elements = {root.shape.elements[i]};
      if (still_fails(std::move(smaller))) return true;
    }
    return false;
  }

  /// The value of every instruction but tuples.
  std::vector<reference::Value> all_values() const {
    hlo::Module module = graph_.module;
    hlo::Computation& entry = module.entry_computation();
    hlo::HloInstruction tuple;
    tuple.opcode = hlo::HloOpcode::kTuple;
    tuple.name = "everything";
    tuple.shape.type = hlo::ElementType::kTuple;
    for (const hlo::HloInstruction& instruction : entry.instructions) {
      if (instruction.shape.is_tuple()) continue;
      tuple.operands.push_back(instruction.id);
      tuple.shape.elements.push_back(instruction.shape);
    }
    entry.root = compiler::append(entry, std::move(tuple));
    return graph_check_detail::interpret(module, graph_.arguments);
  }

  /// An instruction becomes a parameter; the first such change that leaves the failure stays.
  bool cut_once() {
    const std::vector<reference::Value> values = all_values();
    const std::vector<hlo::HloInstruction>& all = graph_.module.entry_computation().instructions;
    for (std::size_t i = all.size(), value = values.size(); i-- > 0;) {
      if (all[i].shape.is_tuple()) continue;
      --value;
      const bool is_small = all[i].operands.empty() || all[i].shape.rank() == 0;
      if (is_small && all[i].opcode != hlo::HloOpcode::kIota) continue;
      GraphCase smaller = graph_;
      hlo::HloInstruction& cut = smaller.module.entry_computation().instructions[i];
      cut.opcode = hlo::HloOpcode::kParameter;
      cut.operands.clear();
      cut.called.clear();
      cut.parameter_number = static_cast<std::int64_t>(smaller.arguments.size());
      smaller.arguments.push_back(values[value]);
      if (still_fails(std::move(smaller))) return true;
    }
    return false;
  }

  static void drop_unused(GraphCase& graph) {
    compiler::tidy(graph.module.entry_computation());
    hlo::Computation& entry = graph.module.entry_computation();
    const auto users = compiler::users_of(entry);
    std::vector<reference::Value> arguments;
    std::vector<hlo::HloInstruction> kept;
    std::vector<hlo::InstructionId> place(entry.instructions.size(), -1);
    for (hlo::HloInstruction& instruction : entry.instructions) {
      const auto id = static_cast<std::size_t>(instruction.id);
      const bool is_parameter = instruction.opcode == hlo::HloOpcode::kParameter;
      if (is_parameter && users[id].empty() && instruction.id != entry.root) continue;
      if (is_parameter) {
        arguments.push_back(
            std::move(graph.arguments[static_cast<std::size_t>(instruction.parameter_number)]));
        instruction.parameter_number = static_cast<std::int64_t>(arguments.size()) - 1;
      }
      place[id] = static_cast<hlo::InstructionId>(kept.size());
      for (hlo::InstructionId& operand : instruction.operands) {
        operand = place[static_cast<std::size_t>(operand)];
      }
      instruction.id = place[id];
      kept.push_back(std::move(instruction));
    }
    entry.root = place[static_cast<std::size_t>(entry.root)];
    entry.instructions = std::move(kept);
    graph.arguments = std::move(arguments);
  }

  GraphCase graph_;
  int attempts_ = 0;
};

}  // namespace tpu::test
