// The interpreter against JAX: training steps in HLO as JAX lowers them, with arguments and results
// that JAX computed on a CPU, in f32 and with the operands of dots and convolutions rounded to
// bf16.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <ostream>

#include "traces/npz.h"
#include "workloads/hlo/hlo_reader.h"
#include "workloads/reference/interpreter.h"

namespace tpu::reference::jax_test {
namespace {

std::string numbered(const char* prefix, std::size_t number, const char* suffix = "") {
  const std::string digits = std::to_string(number);
  return prefix + std::string(3 - std::min<std::size_t>(3, digits.size()), '0') + digits + suffix;
}

/// A result's recorded elements: all of them or a sample with its flat indices.
struct Recorded {
  std::vector<double> values;
  std::vector<double> indices;  ///< Empty: all.
};

Recorded recorded(const traces::NpzFile& file, const char* prefix, std::size_t number) {
  Recorded result;
  const auto whole = file.find(numbered(prefix, number));
  if (whole != file.end()) {
    result.values = traces::to_doubles(whole->second);
    return result;
  }
  result.values = traces::to_doubles(file.at(numbered(prefix, number, "_val")));
  result.indices = traces::to_doubles(file.at(numbered("out_", number, "_idx")));
  return result;
}

/// Largest difference, after `allowed` is taken off, over the largest magnitude of the tensor.
double worst_difference(const Value& found, const Recorded& expected, double allowed) {
  double worst = 0, largest = 1e-30;
  for (std::size_t i = 0; i < expected.values.size(); ++i) {
    const std::size_t at =
        expected.indices.empty() ? i : static_cast<std::size_t>(expected.indices[i]);
    const double value = found.numbers.empty() ? static_cast<double>(found.integers.at(at))
                                               : static_cast<double>(found.numbers.at(at));
    worst = std::max(worst, std::fabs(value - expected.values[i]) - allowed);
    largest = std::max(largest, std::fabs(expected.values[i]));
  }
  return worst / largest;
}

struct Program {
  const char* name;
  /// Results below this number are weights after Adam's first step, which is the learning rate
  /// times the sign of the gradient: where the gradient is nearly zero, rounding decides the sign.
  std::size_t adam_weights = 0;
  double learning_rate = 0;
};

std::ostream& operator<<(std::ostream& stream, const Program& program) {
  return stream << program.name;
}

class JaxProgram : public testing::TestWithParam<Program> {};

TEST_P(JaxProgram, ResultsAreThoseOfJax) {
  const std::string folder =
      std::string(TPUSIM_SOURCE_DIR "/../shared/xla/programs/") + GetParam().name;
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no reference data at " << folder;
  const hlo::Module module = hlo::read_hlo_file(folder + "/before.hlo.gz");
  hlo::verify(module);
  const traces::NpzFile file = traces::read_npz(folder + "/values.npz");
  const hlo::Computation& entry = module.entry_computation();
  std::vector<Value> arguments;
  for (hlo::InstructionId id : entry.parameters()) {
    const traces::NpzArray& array = file.at(numbered("arg_", arguments.size()));
    arguments.push_back(from_bytes(entry.at(id).shape, array.bytes));
  }
  for (const bool rounded : {false, true}) {
    InterpreterOptions options;
    options.round_matmul_operands_to_bf16 = rounded;
    const Value result = Interpreter(module, options).run(arguments);
    std::vector<const Value*> outputs = {&result};
    if (result.shape.is_tuple()) {
      outputs.clear();
      for (const Value& element : result.elements) outputs.push_back(&element);
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Recorded expected = recorded(file, rounded ? "bf16_" : "out_", i);
      const double sign = i < GetParam().adam_weights ? 2 * GetParam().learning_rate : 0;
      // Sums in another order, and a rounding to bf16 that falls the other way here and there.
      EXPECT_LE(worst_difference(*outputs[i], expected, sign), rounded ? 5e-3 : 2e-5)
          << GetParam().name << " output " << i << " " << hlo::to_string(outputs[i]->shape, false)
          << (rounded ? " rounded" : "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Programs, JaxProgram,
                         testing::Values(Program{"mlp_small_b8"}, Program{"mlp_b128"},
                                         Program{"convnet_small_b4"}, Program{"lenet_b128"},
                                         Program{"gpt_tiny_b8", 28, 1e-3}));

}  // namespace
}  // namespace tpu::reference::jax_test
