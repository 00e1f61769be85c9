// Single operations as XLA's TPU compiler made them: the values that their listings compute, beside
// the interpreter's for the HLO before optimisation.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "tests/captured/functional_core.h"
#include "workloads/graph/graph.h"
#include "workloads/hlo/hlo_reader.h"
#include "workloads/reference/interpreter.h"
#include "workloads/xla/captured_folder.h"

namespace tpu::test::op_values_test {
namespace {

namespace fs = std::filesystem;
using reference::Interpreter;
using reference::InterpreterOptions;
using reference::Value;

const std::string kOps = TPUSIM_SOURCE_DIR "/../shared/xla/ops";

/// Larger ones only when TPUSIM_ALL_LISTINGS is set: the interpreter is slow.
constexpr std::int64_t kMostFlops = 100'000'000;
constexpr std::int64_t kMostElements = 600'000;

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  if (!fs::is_directory(kOps)) return names;
  for (const auto& entry : fs::directory_iterator(kOps)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Numbers around zero; integers that serve as indices and trip counts.
Value random_value(const hlo::Shape& shape, std::mt19937& random) {
  Value value = reference::make_value(shape);
  std::normal_distribution<float> normal;
  for (float& x : value.numbers) x = reference::round_to(shape.type, normal(random));
  for (std::int64_t& x : value.integers) {
    x = static_cast<std::int64_t>(random() % (shape.type == hlo::ElementType::kPred ? 2 : 40));
  }
  return value;
}

std::vector<const Value*> arrays_of(const Value& value) {
  if (!value.shape.is_tuple()) return {&value};
  std::vector<const Value*> arrays;
  for (const Value& element : value.elements) arrays.push_back(&element);
  return arrays;
}

double at(const Value& value, std::size_t k) {
  return value.numbers.empty() ? static_cast<double>(value.integers[k]) : value.numbers[k];
}

/// |a - b| / |b|; elements that are not finite have to be equal.
double relative_error(const Value& a, const Value& b) {
  double difference = 0;
  double norm = 0;
  for (std::size_t k = 0; k < b.size(); ++k) {
    const double found = at(a, k);
    const double expected = at(b, k);
    if (!std::isfinite(expected)) {
      if (std::isnan(expected) ? !std::isnan(found) : found != expected) return 1e30;
      continue;
    }
    difference += (found - expected) * (found - expected);
    norm += expected * expected;
  }
  if (difference == 0) return 0;
  return std::sqrt(difference) / std::max(std::sqrt(norm), 1e-30);
}

std::vector<Value> run_listing(const std::string& folder, const std::string& chip,
                               const std::vector<Value>& arguments) {
  const isa::Program program = xla::load_captured(folder, chip);
  FunctionalCore core(program, true);
  for (const isa::Buffer& buffer : program.buffers) {
    if (buffer.role != isa::BufferRole::kParameter) continue;
    core.hbm.load(buffer.granule, hlo::pack(hlo::parse_shape(buffer.shape),
                                            reference::to_bytes(arguments.at(buffer.index))));
  }
  core.run();
  std::vector<Value> outputs;
  for (const isa::Buffer& buffer : program.buffers) {
    if (buffer.role != isa::BufferRole::kOutput) continue;
    const hlo::Shape shape = hlo::parse_shape(buffer.shape);
    outputs.push_back(reference::from_bytes(
        shape, hlo::unpack(shape, core.hbm.words(buffer.granule, static_cast<std::uint64_t>(
                                                                     shape.padded_bytes())))));
  }
  return outputs;
}

std::int64_t flops_of(const hlo::Module& module) {
  std::int64_t sum = 0;
  for (const hlo::HloInstruction& instruction : module.entry_computation().instructions) {
    sum += hlo::flops(module, module.entry_computation(), instruction);
  }
  return sum;
}

class OpValues : public testing::TestWithParam<std::string> {};

TEST_P(OpValues, AreThoseOfTheInterpreter) {
  const std::string folder = kOps + "/" + GetParam();
  const hlo::Module module = hlo::read_hlo_file(folder + "/before.hlo.gz");
  if (module.replicas > 1) GTEST_SKIP() << "a collective of several cores";
  const hlo::Computation& entry = module.entry_computation();
  std::mt19937 random(1);
  std::vector<Value> arguments;
  std::int64_t elements = 0;
  for (const hlo::InstructionId id : entry.parameters()) {
    elements += entry.at(id).shape.element_count();
  }
  if ((elements > kMostElements || flops_of(module) > kMostFlops) &&
      std::getenv("TPUSIM_ALL_LISTINGS") == nullptr) {
    GTEST_SKIP() << "large: set TPUSIM_ALL_LISTINGS";
  }
  for (const hlo::InstructionId id : entry.parameters()) {
    arguments.push_back(random_value(entry.at(id).shape, random));
  }
  std::vector<Value> references;
  try {
    for (const bool rounded : {true, false}) {
      InterpreterOptions options;
      options.round_matmul_operands_to_bf16 = rounded;
      references.push_back(Interpreter(module, options).run(arguments));
    }
  } catch (const WorkloadError& error) {
    GTEST_SKIP() << "the interpreter lacks it: " << error.what();
  }
  for (const std::string chip : {"v2", "v3"}) {
    if (!fs::exists(folder + "/" + chip + ".bundles.tar.xz")) continue;
    const std::vector<Value> outputs = run_listing(folder, chip, arguments);
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      // Products of one row, depthwise convolutions and those of highest precision are no work of
      // the MXU with its operands in bf16.
      double error = 1e30;
      for (const Value& expected : references) {
        error = std::min(error, relative_error(outputs[k], *arrays_of(expected).at(k)));
      }
      const bool bf16 = outputs[k].shape.type == hlo::ElementType::kBf16;
      EXPECT_LT(error, bf16 ? 4e-3 : 2e-5) << chip << ", output " << k;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, OpValues, testing::ValuesIn(op_names()),
                         [](const auto& info) { return info.param; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OpValues);

/// Without the reference data OpValues has no tests that could say so.
TEST(OpValuesOfTheReference, AreThere) {
  if (!fs::is_directory(kOps)) GTEST_SKIP() << "no reference data at " << kOps;
}

}  // namespace
}  // namespace tpu::test::op_values_test
