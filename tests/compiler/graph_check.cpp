#include "tests/compiler/graph_check.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <optional>
#include <utility>

#include "sim/base/error.h"
#include "workloads/compiler/passes/edit.h"

namespace tpu::test {

GraphCase case_of(hlo::Module module, std::uint32_t seed) {
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
      integer = shape.type == hlo::ElementType::kPred
                    ? random % 2
                    : reference::wrap_to(shape.type, random % 50 - 9);
    }
    arguments.push_back(std::move(value));
  }
  GraphCase graph;
  graph.module = std::move(module);
  graph.arguments = std::move(arguments);
  return graph;
}

void make_f32(hlo::Shape& shape) {
  if (shape.type == hlo::ElementType::kBf16) shape.type = hlo::ElementType::kF32;
  for (hlo::Shape& element : shape.elements) make_f32(element);
}

hlo::Computation in_f32(const hlo::Computation& from, std::mt19937& engine, std::uint32_t kept) {
  hlo::Computation computation = from;
  computation.instructions.clear();
  std::vector<hlo::InstructionId> exact, rounded;
  for (hlo::HloInstruction instruction : from.instructions) {
    const bool rounds = instruction.shape.type == hlo::ElementType::kBf16;
    for (hlo::InstructionId& operand : instruction.operands) {
      const auto id = static_cast<std::size_t>(operand);
      operand = engine() % 4 < kept ? rounded[id] : exact[id];
    }
    if (instruction.opcode == hlo::HloOpcode::kConstant && rounds) {
      const compiler::HostArray narrow{instruction.shape, instruction.literal};
      instruction.literal = compiler::converted(narrow, hlo::ElementType::kF32).bytes;
    }
    make_f32(instruction.shape);
    exact.push_back(compiler::append(computation, instruction));
    rounded.push_back(exact.back());
    if (!rounds) continue;
    hlo::HloInstruction rounding;
    rounding.opcode = hlo::HloOpcode::kConvert;
    rounding.name = instruction.name + ".rounded";
    rounding.shape = hlo::array_shape(hlo::ElementType::kBf16, instruction.shape.dimensions);
    rounding.operands = {exact.back()};
    rounded.back() = compiler::append(computation, std::move(rounding));
  }
  computation.root = exact[static_cast<std::size_t>(from.root)];
  return computation;
}

std::vector<reference::Value> interpret(const hlo::Module& module,
                                        std::vector<reference::Value> arguments,
                                        std::uint32_t steps, bool round_matmul_operands) {
  reference::InterpreterOptions options;
  options.round_matmul_operands_to_bf16 = round_matmul_operands;
  options.most_iterations = 1000;
  const reference::Interpreter interpreter(module, options);
  std::vector<reference::Value> results;
  for (std::uint32_t step = 0; step < steps; ++step) {
    for (const hlo::Alias& alias : module.aliases) {
      if (step == 0) break;
      reference::Value& argument = arguments[static_cast<std::size_t>(alias.parameter_number)];
      const hlo::Shape shape = argument.shape;
      argument = results[static_cast<std::size_t>(alias.output_index)];
      argument.shape = shape;
    }
    reference::Value value = interpreter.run(arguments);
    results = std::move(value.elements);
    if (!value.shape.is_tuple()) results.push_back(std::move(value));
  }
  return results;
}

namespace {

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

bool has_bf16(const hlo::Module& module) {
  for (const hlo::Computation& computation : module.computations) {
    for (const hlo::HloInstruction& instruction : computation.instructions) {
      if (instruction.shape.type == hlo::ElementType::kBf16) return true;
    }
  }
  return false;
}

/// The results of the module on arguments that differ in the last bits, with f32 in place of bf16:
/// everywhere in the first trial, in later ones but for some uses. Every other trial leaves
/// operands of products as they are: small ones the vector unit multiplies in f32.
std::vector<reference::Value> disturbed(const GraphCase& graph, std::uint32_t trial) {
  const std::uint32_t kept = trial == 0 ? 0 : 1 + trial % 3;
  std::vector<reference::Value> arguments = graph.arguments;
  std::mt19937 engine(7 + trial);
  for (reference::Value& value : arguments) {
    if (value.shape.type == hlo::ElementType::kBf16) value.shape.type = hlo::ElementType::kF32;
    for (float& number : value.numbers) {
      number *= 1 + 1e-6F * (static_cast<float>(engine() % 3) - 1);
    }
  }
  hlo::Module module = graph.module;
  for (hlo::Computation& computation : module.computations) {
    computation = in_f32(computation, engine, kept);
  }
  return interpret(module, std::move(arguments), graph.steps, trial % 2 == 0);
}

/// How far an array is from another: as a whole, and its worst element.
struct Distances {
  double whole = 0;         ///< Relative L2 distance.
  double worst = 0;         ///< Largest |a - b| / (|b| + root mean square of b).
  std::size_t element = 0;  ///< Which that is.
};

Distances distances(const std::vector<double>& a, const std::vector<double>& b) {
  Distances distances;
  distances.whole = distance(a, b);
  double squares = 0;
  for (double x : b) squares += std::isfinite(x) ? x * x : 0;
  const double mean = squares > 0 ? std::sqrt(squares / static_cast<double>(b.size())) : 1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    const double off = std::fabs(a[i] - b[i]) / (std::fabs(b[i]) + mean);
    if (off <= distances.worst) continue;
    distances.worst = off;
    distances.element = i;
    if (std::isnan(off)) break;
  }
  return distances;
}

/// The machine's functions give no numbers below the normal ones.
std::vector<double> without_subnormals(std::vector<double> numbers) {
  for (double& x : numbers) {
    if (std::fabs(x) < 1.2e-38) x = 0;
  }
  return numbers;
}

/// What of the results is further from the reference's than its own roundings move it: `others` are
/// its results with other roundings.
std::string compare(const std::vector<reference::Value>& wanted,
                    const std::vector<std::vector<reference::Value>>& others,
                    const std::vector<compiler::HostArray>& found, double rounding) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::vector<double> expected = without_subnormals(numbers_of(wanted[i]));
    Distances own;
    for (const std::vector<reference::Value>& other : others) {
      const Distances moved = distances(numbers_of(other[i]), expected);
      own.whole = std::isnan(moved.whole) ? kChaos : std::max(own.whole, moved.whole);
      own.worst = std::isnan(moved.worst) ? kChaos : std::max(own.worst, moved.worst);
    }
    if (!(own.whole < kChaos)) continue;
    const Distances off = distances(without_subnormals(numbers_of(found[i])), expected);
    const double allowed = rounding + 8 * own.whole;
    const double allowed_worst = 4 * rounding + 8 * own.worst;
    const bool is_off = !(off.whole <= allowed);
    if (!is_off && (off.worst <= allowed_worst || !(own.worst < kChaos))) continue;
    return "result " + std::to_string(i) + " " + hlo::to_string(found[i].shape, false) +
           ": relative distance " + std::to_string(off.whole) + ", expected at most " +
           std::to_string(allowed) + "; of its worst element " + std::to_string(off.worst) +
           ", expected at most " + std::to_string(allowed_worst) + ": element " +
           std::to_string(off.element) + " is " +
           std::to_string(numbers_of(found[i]).at(off.element)) + ", expected " +
           std::to_string(expected.at(off.element));
  }
  return {};
}

/// Makes a failing case smaller: fewer results, values of the reference in place of instructions.
class GraphShrinker {
 public:
  explicit GraphShrinker(GraphCase graph) : graph_(std::move(graph)) {}

  GraphCase run(int attempts) {
    attempts_ = attempts;
    while (attempts_ > 0 && (simpler_run() || keep_one_result() || cut_once() || blank_once())) {
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

  /// One step without aliases, on the published machine.
  bool simpler_run() {
    if (graph_.steps > 1) {
      GraphCase smaller = graph_;
      smaller.steps = 1;
      if (still_fails(std::move(smaller))) return true;
    }
    if (!graph_.module.aliases.empty()) {
      GraphCase smaller = graph_;
      smaller.module.aliases.clear();
      if (still_fails(std::move(smaller))) return true;
    }
    if (graph_.machine.name == MachineParams{}.name) return false;
    GraphCase smaller = graph_;
    smaller.machine = {};
    return still_fails(std::move(smaller));
  }

  /// In the regions of loops and branches: a number becomes an iota or zero.
  bool blank_once() {
    for (std::size_t c = 0; c < graph_.module.computations.size(); ++c) {
      const hlo::Computation& region = graph_.module.computations[c];
      if (static_cast<hlo::ComputationId>(c) == graph_.module.entry) continue;
      if (!region.at(region.root).shape.is_tuple()) continue;
      for (std::size_t i = region.instructions.size(); i-- > 0;) {
        const hlo::HloInstruction& old = region.instructions[i];
        const bool is_leaf = old.operands.empty() || old.shape.is_tuple() ||
                             old.opcode == hlo::HloOpcode::kGetTupleElement;
        if (is_leaf || old.shape.type == hlo::ElementType::kPred) continue;
        GraphCase smaller = graph_;
        hlo::HloInstruction blank;
        blank.id = old.id;
        blank.name = old.name;
        blank.shape = old.shape;
        blank.opcode = old.shape.rank() == 0 ? hlo::HloOpcode::kConstant : hlo::HloOpcode::kIota;
        if (old.shape.rank() > 0) {
          blank.dimensions = {0};
        } else {
          blank.literal.resize(static_cast<std::size_t>(hlo::byte_size(old.shape.type)));
        }
        smaller.module.computations[c].instructions[i] = std::move(blank);
        compiler::tidy(smaller.module.computations[c]);
        if (still_fails(std::move(smaller))) return true;
      }
    }
    return false;
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
      std::vector<hlo::Alias> aliases;
      for (hlo::Alias alias : smaller.module.aliases) {
        if (alias.output_index != static_cast<std::int64_t>(i)) continue;
        alias.output_index = 0;
        aliases.push_back(alias);
      }
      smaller.module.aliases = aliases;
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
    return interpret(module, graph_.arguments);
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
      hlo::HloInstruction& old = smaller.module.entry_computation().instructions[i];
      hlo::HloInstruction cut;
      cut.id = old.id;
      cut.name = old.name;
      cut.shape = old.shape;
      cut.opcode = hlo::HloOpcode::kParameter;
      cut.parameter_number = static_cast<std::int64_t>(smaller.arguments.size());
      old = std::move(cut);
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
    std::vector<hlo::Alias> aliases;
    for (hlo::HloInstruction& instruction : entry.instructions) {
      const auto id = static_cast<std::size_t>(instruction.id);
      const bool is_parameter = instruction.opcode == hlo::HloOpcode::kParameter;
      const auto alias = std::find_if(
          graph.module.aliases.begin(), graph.module.aliases.end(), [&](const hlo::Alias& each) {
            return is_parameter && each.parameter_number == instruction.parameter_number;
          });
      const bool is_aliased = alias != graph.module.aliases.end();
      if (is_parameter && !is_aliased && users[id].empty() && instruction.id != entry.root) {
        continue;
      }
      if (is_parameter) {
        arguments.push_back(
            std::move(graph.arguments[static_cast<std::size_t>(instruction.parameter_number)]));
        instruction.parameter_number = static_cast<std::int64_t>(arguments.size()) - 1;
        if (is_aliased) aliases.push_back({alias->output_index, instruction.parameter_number});
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
    graph.module.aliases = std::move(aliases);
    compiler::remove_unused_computations(graph.module);
  }

  GraphCase graph_;
  int attempts_ = 0;
};

}  // namespace

std::string difference(const GraphCase& graph, const std::vector<reference::Value>& wanted,
                       const std::vector<compiler::HostArray>& found) {
  const double rounding = has_bf16(graph.module) ? kRoundingOfBf16 : kRounding;
  std::vector<std::vector<reference::Value>> others;
  std::string message;
  for (std::uint32_t trial = 0; trial < kTrials; ++trial) {
    others.push_back(disturbed(graph, trial));
    message = compare(wanted, others, found, rounding);
    if (message.empty()) break;
  }
  return message;
}

Verdict check_graph(const GraphCase& graph) {
  std::vector<reference::Value> wanted;
  try {
    hlo::verify(graph.module);
    wanted = interpret(graph.module, graph.arguments, graph.steps);
  } catch (const std::exception& error) {
    return {Verdict::Kind::kInvalid, error.what()};
  }
  try {
    CoreArguments arguments;
    for (const reference::Value& value : graph.arguments) {
      arguments.parameters.push_back(reference::to_bytes(value));
    }
    std::optional<CompiledRun> run;
    try {
      run = run_compiled(graph.module, {arguments}, graph.steps, graph.machine);
    } catch (const WorkloadError& error) {
      return {Verdict::Kind::kRefused, error.what()};
    }
    const std::string message = difference(graph, wanted, run->outputs[0]);
    if (!message.empty()) return {Verdict::Kind::kWrong, message};
  } catch (const std::exception& error) {
    return {Verdict::Kind::kWrong, error.what()};
  }
  return {};
}

GraphCase shrunk(GraphCase graph, int attempts) {
  return GraphShrinker(std::move(graph)).run(attempts);
}

}  // namespace tpu::test
