#pragma once

#include <string>
#include <vector>

#include "models/machine.h"
#include "tests/compiler/machine_target.h"
#include "workloads/compiler/buffers.h"
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

compiler::HostArray host_array(const hlo::Shape& shape, Bytes bytes);

CoreLoad load_of(const hlo::Module& module, const isa::Program& program,
                 const CoreArguments& arguments);

std::vector<compiler::HostArray> outputs_of(const hlo::Module& module, const isa::Program& program,
                                            const Machine& machine, std::uint32_t core);

/// Compiles for as many cores as there are arguments and runs so many steps on values. HBM that
/// nobody wrote holds NaN patterns, so that reading it shows.
CompiledRun run_compiled(const hlo::Module& module, const std::vector<CoreArguments>& arguments,
                         std::uint32_t steps = 1, const MachineParams& params = {});

/// The elements of an array as numbers.
std::vector<double> numbers_of(const compiler::HostArray& array);

std::vector<double> numbers_of(const reference::Value& value);

/// Relative L2 distance: |a - b| / |b|; where b is all zero, |a|. NaN where a has one and b not.
double distance(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace tpu::test
