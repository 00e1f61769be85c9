#pragma once

#include <random>
#include <string>
#include <vector>

#include "tests/compiler/run_compiled.h"
#include "workloads/graph/graph.h"

namespace tpu::test {

/// A module with values for its parameters, to be compiled for a machine, run for some steps and
/// compared with the reference interpreter. Results that are aliased with parameters are the next
/// step's arguments.
struct GraphCase {
  hlo::Module module;
  std::vector<reference::Value> arguments;
  MachineParams machine = {};
  std::uint32_t steps = 1;
};

/// Random values for every parameter of a module: numbers in [-2, 2], integers in [-9, 40] or what
/// their types make of these.
GraphCase case_of(hlo::Module module, std::uint32_t seed);

/// How a compiled module compares with the reference.
struct Verdict {
  /// kInvalid: the reference cannot run it either.
  enum class Kind : std::uint8_t { kEqual, kRefused, kWrong, kInvalid };
  Kind kind = Kind::kEqual;
  std::string message;  ///< Of a refusal or what is wrong.
};

/// An array type of bf16, and of tuples' elements, becomes f32.
void make_f32(hlo::Shape& shape);

/// A computation with f32 where it says bf16: what a compiler computes that keeps more precision
/// than it must. `kept` of four uses of such values, chosen at random, are still rounded.
hlo::Computation in_f32(const hlo::Computation& from, std::mt19937& engine, std::uint32_t kept);

/// The results of so many steps in the reference interpreter; of a tuple, its elements.
std::vector<reference::Value> interpret(const hlo::Module& module,
                                        std::vector<reference::Value> arguments,
                                        std::uint32_t steps = 1, bool round_matmul_operands = true);

/// What of `found` is further from `wanted`, the reference's results, than its own roundings move
/// them; empty where nothing is.
std::string difference(const GraphCase& graph, const std::vector<reference::Value>& wanted,
                       const std::vector<compiler::HostArray>& found);

/// Compiles the module for one core, runs it on values and compares every result.
///
/// What is allowed is what the reference itself does between its own roundings and others on
/// arguments that differ by a millionth.
Verdict check_graph(const GraphCase& graph);

/// Makes a failing case smaller: fewer results, values of the reference in place of instructions.
/// Tries each step until none leaves a failing module, at most `attempts` checks.
GraphCase shrunk(GraphCase graph, int attempts);

}  // namespace tpu::test
