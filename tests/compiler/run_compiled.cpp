#include "tests/compiler/run_compiled.h"

#include <cmath>

#include "sim/base/error.h"
#include "workloads/compiler/compiler.h"

namespace tpu::test {

compiler::HostArray host_array(const hlo::Shape& shape, Bytes bytes) {
  return {hlo::array_shape(shape.type, shape.dimensions), std::move(bytes)};
}

CoreLoad load_of(const hlo::Module& module, const isa::Program& program,
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

std::vector<compiler::HostArray> outputs_of(const hlo::Module& module, const isa::Program& program,
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

CompiledRun run_compiled(const hlo::Module& module, const std::vector<CoreArguments>& arguments,
                         std::uint32_t steps, const MachineParams& params) {
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

std::vector<double> numbers_of(const compiler::HostArray& array) {
  const reference::Value value = reference::from_bytes(array.shape, array.bytes);
  std::vector<double> numbers(value.numbers.begin(), value.numbers.end());
  numbers.insert(numbers.end(), value.integers.begin(), value.integers.end());
  return numbers;
}

std::vector<double> numbers_of(const reference::Value& value) {
  std::vector<double> numbers(value.numbers.begin(), value.numbers.end());
  numbers.insert(numbers.end(), value.integers.begin(), value.integers.end());
  return numbers;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
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
