#include "tests/compiler/hlo_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "workloads/hlo/hlo_reader.h"

namespace tpu::test {

reference::Value random_value(const hlo::Shape& shape, std::mt19937& engine,
                              const HloCheck& check) {
  reference::Value value = reference::make_value(shape);
  std::uniform_real_distribution<double> numbers(check.low, check.high);
  std::uniform_real_distribution<double> integers(check.least, check.most + 1);
  for (float& x : value.numbers) x = reference::round_to(shape.type, numbers(engine));
  for (std::int64_t& x : value.integers) {
    x = reference::wrap_to(shape.type, static_cast<std::int64_t>(std::floor(integers(engine))));
    if (shape.type == hlo::ElementType::kPred) x = x & 1;
  }
  return value;
}

CompiledRun check_hlo(const std::string& text, const HloCheck& check) {
  const hlo::Module module = hlo::read_hlo_text("test.hlo", text);
  std::mt19937 engine(7);
  std::vector<CoreArguments> arguments;
  std::vector<std::vector<reference::Value>> values;
  const hlo::Computation& entry = module.entry_computation();
  for (std::uint32_t core = 0; core < check.cores; ++core) {
    arguments.emplace_back();
    values.emplace_back();
    for (hlo::InstructionId parameter : entry.parameters()) {
      values.back().push_back(random_value(entry.at(parameter).shape, engine, check));
      arguments.back().parameters.push_back(reference::to_bytes(values.back().back()));
    }
  }
  reference::InterpreterOptions options;
  options.round_matmul_operands_to_bf16 = check.round_matmul_operands;
  const reference::Interpreter interpreter(module, options);
  const std::vector<reference::Value> expected = interpreter.run_replicas(values);
  CompiledRun run = run_compiled(module, arguments, check.steps);
  for (std::uint32_t core = 0; core < check.cores; ++core) {
    const bool is_tuple = expected[core].shape.is_tuple();
    const std::size_t count = is_tuple ? expected[core].elements.size() : 1;
    for (std::size_t i = 0; i < count; ++i) {
      const reference::Value& wanted = is_tuple ? expected[core].elements[i] : expected[core];
      const std::vector<double> want = numbers_of(wanted);
      const std::vector<double> found = numbers_of(run.outputs.at(core).at(i));
      const bool exact = wanted.numbers.empty();
      const double error = distance(found, want);
      EXPECT_LE(error, exact ? 0 : check.tolerance)
          << "result " << i << " of core " << core << ", " << to_string(wanted.shape);
      if (error <= (exact ? 0 : check.tolerance)) continue;
      for (std::size_t k = 0, shown = 0; k < want.size() && shown < 5; ++k) {
        if (std::fabs(found[k] - want[k]) <= 1e-4 * std::fabs(want[k])) continue;
        ADD_FAILURE() << "element " << k << ": expected " << want[k] << ", found " << found[k];
        ++shown;
      }
    }
  }
  return run;
}
}  // namespace tpu::test
