#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "models/machine.h"
#include "sim/base/error.h"
#include "tests/compiler/machine_target.h"
#include "workloads/compiler/buffers.h"
#include "workloads/compiler/compiler.h"
#include "workloads/reference/interpreter.h"

namespace tpu::test {

using Bytes = std::vector<std::uint8_t>;

/// What the cores of a compiled module start with: bytes by parameter number, and for each step the
/// bytes of the infeed parameters in their order.
struct CoreArguments {
  std::vector<Bytes> parameters;
  std::vector<std::vector<Bytes>> steps;
};

/// A module compiled for a machine and executed on values.
struct CompiledRun {
  isa::Program program;
  RunResult result;
  /// Results of each core in order, in the module's types.
  std::vector<std::vector<compiler::HostArray>> outputs;
};

inline compiler::HostArray host_array(const hlo::Shape& shape, Bytes bytes) {
  return {hlo::array_shape(shape.type, shape.dimensions), std::move(bytes)};
}

inline CoreLoad load_of(const hlo::Module& module, const isa::Program& program,
                        const CoreArguments& arguments) {
  const hlo::Computation& entry = module.entry_computation();
  const std::vector<hlo::InstructionId> parameters = entry.parameters();
  CoreLoad load;
  for (const isa::Buffer& buffer : program.buffers) {
    if (buffer.role != isa::BufferRole::kParameter) continue;
    const compiler::HostArray array = host_array(entry.at(parameters.at(buffer.index)).shape,
                                                 arguments.parameters.at(buffer.index));
    load.hbm.push_back({buffer.granule, compiler::words_for(buffer, array)});
  }
  for (const std::vector<Bytes>& step : arguments.steps) {
    std::vector<compiler::HostArray> leaves;
    for (std::size_t leaf = 0; leaf < step.size(); ++leaf) {
      const auto number = static_cast<std::size_t>(module.infeed_parameters.at(leaf));
      leaves.push_back(host_array(entry.at(parameters.at(number)).shape, step[leaf]));
    }
    load.infeed.push_back({0, compiler::infeed_batch(program, leaves)});
  }
  return load;
}

inline std::vector<compiler::HostArray> outputs_of(const hlo::Module& module,
                                                   const isa::Program& program,
                                                   const Machine& machine, std::uint32_t core) {
  const hlo::Computation& entry = module.entry_computation();
  const hlo::Shape& root = entry.at(entry.root).shape;
  const std::size_t count = root.is_tuple() ? root.elements.size() : 1;
  std::vector<compiler::HostArray> outputs;
  for (std::size_t i = 0; i < count; ++i) {
    const isa::Buffer* buffer =
        compiler::find_buffer(program, isa::BufferRole::kOutput, static_cast<std::uint32_t>(i));
    TPU_CHECK(buffer != nullptr, "no buffer for result " << i);
    const compiler::HostArray stored =
        compiler::array_from(*buffer, machine.read_hbm(core, buffer->granule, buffer->bytes / 4));
    const hlo::Shape& shape = root.is_tuple() ? root.elements[i] : root;
    outputs.push_back(compiler::converted(stored, shape.type));
  }
  return outputs;
}

/// Compiles for as many cores as there are arguments and runs so many steps on values. HBM that
/// nobody wrote holds NaN patterns, so that reading it shows.
inline CompiledRun run_compiled(const hlo::Module& module,
                                const std::vector<CoreArguments>& arguments,
                                std::uint32_t steps = 1, const MachineParams& params = {}) {
  const auto cores = static_cast<std::uint32_t>(arguments.size());
  CompiledRun run;
  run.program = compiler::compile(module, target_of(params, cores));
  Machine machine(params, run.program);
  RunOptions options;
  options.steps = steps;
  options.values = true;
  for (std::uint32_t core = 0; core < cores; ++core) {
    CoreLoad load;
    for (const isa::Buffer& buffer : run.program.buffers) {
      if (buffer.role != isa::BufferRole::kTemporary) continue;
      load.hbm.push_back(
          {buffer.granule, std::vector<std::uint32_t>(buffer.bytes / 4, 0x7fc0deadU)});
    }
    const CoreLoad given = load_of(module, run.program, arguments[core]);
    load.hbm.insert(load.hbm.end(), given.hbm.begin(), given.hbm.end());
    load.infeed = given.infeed;
    machine.load(core, load);
    options.cores.push_back(core);
  }
  run.result = machine.run(options);
  for (std::uint32_t core = 0; core < cores; ++core) {
    run.outputs.push_back(outputs_of(module, run.program, machine, core));
  }
  return run;
}

/// The elements of an array as numbers.
inline std::vector<double> numbers_of(const compiler::HostArray& array) {
  const reference::Value value = reference::from_bytes(array.shape, array.bytes);
  std::vector<double> numbers(value.numbers.begin(), value.numbers.end());
  numbers.insert(numbers.end(), value.integers.begin(), value.integers.end());
  return numbers;
}

inline std::vector<double> numbers_of(const reference::Value& value) {
  std::vector<double> numbers(value.numbers.begin(), value.numbers.end());
  numbers.insert(numbers.end(), value.integers.begin(), value.integers.end());
  return numbers;
}

/// Relative L2 distance: |a - b| / |b|; where b is all zero, |a|. NaN where a has one and b not.
inline double distance(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return std::nan("");
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) {
      if (!std::isnan(b[i]) && !std::isinf(b[i])) size += b[i] * b[i];
      continue;
    }
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return size > 0 ? std::sqrt(difference / size) : std::sqrt(difference);
}

}  // namespace tpu::test
