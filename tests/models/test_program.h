#pragma once

#include <string>
#include <utility>

#include "isa/assembler.h"
#include "models/machine.h"
#include "sim/base/error.h"

namespace tpu::test {

/// A program out of the assembler's text. Its call site k calls kernel k + 1 as op k.
inline isa::Program program_of(const std::string& text) {
  isa::Program program;
  program.name = "test";
  program.chip = "v3";
  program.kernels = isa::assemble(text, "test.tpu");
  for (std::uint32_t k = 1; k < program.kernels.size(); ++k) {
    isa::CallSite site;
    site.kernel = k;
    site.op = k - 1;
    program.call_sites.push_back(site);
    isa::OpInfo op;
    op.name = program.kernels[k].name;
    program.ops.push_back(op);
  }
  return program;
}

inline RunOptions on_core(std::uint32_t core) {
  RunOptions options;
  options.cores = {core};
  return options;
}

/// Runs on core 0 alone.
inline RunResult run(const isa::Program& program, const RunOptions& options = on_core(0),
                     const MachineParams& params = {}) {
  Machine machine(params, program);
  return machine.run(options);
}

/// The message of the fault that a run ends with; empty when it ends well.
inline std::string fault_of(const isa::Program& program, const RunOptions& options = on_core(0),
                            const MachineParams& params = {}) {
  try {
    run(program, options, params);
  } catch (const ProgramFault& fault) {
    return fault.what();
  }
  return {};
}

}  // namespace tpu::test
